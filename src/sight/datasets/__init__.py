"""One corpus a file: each knows its classes, files, rate, windows, licence and citation, and nobody else does.

`load` finds a corpus by name; `info` describes its people; `fetch` gets it from its official place. Files of users are
read by `sight.datasets.user_files` and `sight.datasets.folder`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sight.datasets._base import Dataset, Download
from sight.datasets._dataset_files import data_folder
from sight.datasets._loading import info, windows_of

__all__ = ["Dataset", "Download", "data_folder", "info", "load", "windows_of"]


def load(name: str, root: Path | str | None = None, **options: Any) -> Any:
    """Make a corpus by its registry name.

    Parameters
    ----------
    name
        Such as "hapt"; case does not matter.
    root
        Folder or zip with the official files; None looks in the folder of `SIGHT_DATA`.
    options
        Fields of the corpus, such as ``protocol="ucihar"``.

    Examples
    --------
    >>> load("harth", sensor="back").channels
    ('back_x', 'back_y', 'back_z')
    """
    from sight.registry import get

    return get("datasets", name)(**({} if root is None else {"root": root}), **options)
