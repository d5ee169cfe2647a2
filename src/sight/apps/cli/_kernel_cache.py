"""Folder in which numba keeps compiled steps of methods, so that only the first command compiles them."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from platformdirs import user_cache_path

#: Folder of the compiled modules, beside which numba keeps the compiled steps if it can be written.
PACKAGE = Path(__file__).parents[2] / "methods"


def set_kernel_cache(folder: Path | None = None) -> None:
    """Set the folder of numba's cache if the package is read-only.

    It is `folder`; without one, numba chooses a folder of the user, or a private temporary one is set if there is none.
    """
    if os.access(PACKAGE, os.W_OK):
        return
    if folder is None and not _can_write(user_cache_path("numba")):
        folder = _private_folder()
    if folder is not None:
        os.environ.setdefault("NUMBA_CACHE_DIR", str(folder.resolve()))


def _can_write(folder: Path) -> bool:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)


def _private_folder() -> Path | None:
    """Return a temporary folder that no other user can write, because numba runs what it finds there; else None."""
    if not hasattr(os, "getuid"):
        return None
    folder = Path(tempfile.gettempdir()) / f"sight-kernels-{os.getuid()}"
    with suppress(OSError):
        folder.mkdir(0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder
    return None
