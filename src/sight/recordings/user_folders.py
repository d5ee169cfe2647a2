"""Folders of the user for files of sight, by the convention of the operating system."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

#: Linux: environment variable and folder below the home; macOS: folder below the home.
PLACES = {
    "cache": ("XDG_CACHE_HOME", ".cache", "Library/Caches"),
    "data": ("XDG_DATA_HOME", ".local/share", "Library/Application Support"),
}


def user_folder(kind: Literal["cache", "data"]) -> Path:
    """Return the folder for cached files or for datasets; it may not exist yet."""
    variable, below_home, on_mac = PLACES[kind]
    if sys.platform == "darwin":
        return Path.home() / on_mac / "sight"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "sight" / kind
    return Path(os.environ.get(variable) or Path.home() / below_home) / "sight"
