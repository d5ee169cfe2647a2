"""The files of a corpus, in a folder or in a zip that nobody unpacked, and tables read from them."""

from __future__ import annotations

import gzip
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

#: What a file or stream that breaks off raises, depending on who notices first.
BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)


def data_folder() -> Path:
    """Return the folder of real data: `SIGHT_DATA`, or ``../shared/data`` beside the current folder."""
    return Path(os.environ.get("SIGHT_DATA", Path("..") / "shared" / "data")).resolve()


def natural(name: str) -> list[Any]:
    """Sort key that puts "2" before "10".

    Examples
    --------
    >>> sorted(["S10", "S9", "S1"], key=natural)
    ['S1', 'S9', 'S10']
    """
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


class Store:
    """Files under one root by their names, whether the root is a folder or a zip.

    Parameters
    ----------
    root
        A folder or a ``.zip``; members of the zip are read as streams, never unpacked.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        if not root.is_dir() and not zipfile.is_zipfile(root):
            raise ValueError(f"Expected a folder or a zip at {root}, found something else; is the file complete?")

    def __getstate__(self) -> dict[str, Path]:
        return {"root": self.root}  # the open zip stays here when a dataset travels to another process

    @cached_property
    def _zip(self) -> zipfile.ZipFile | None:
        return None if self.root.is_dir() else zipfile.ZipFile(self.root)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Relative names of all files, with forward slashes, in natural order."""
        if self._zip is not None:
            found = [info.filename for info in self._zip.infolist() if not info.is_dir()]
        else:
            found = [path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file()]
        return tuple(sorted((name for name in found if not name.startswith("__MACOSX/")), key=natural))

    def find(self, ending: str) -> str | None:
        """Return the first name that is `ending` or lies deeper and ends with it."""
        return next((name for name in self.names if name == ending or name.endswith("/" + ending)), None)

    def where(self, name: str) -> str:
        """Name a file for people."""
        return f"{self.root / name}" if self._zip is None else f"{name} in {self.root}"

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file to read; ``.gz`` is decompressed on the way, and one that breaks off is told in a sentence."""
        self._require([name])
        try:
            with self._zip.open(name) if self._zip is not None else (self.root / name).open("rb") as raw:
                if name.endswith(".gz"):
                    with gzip.open(raw) as stream:
                        yield cast(IO[bytes], stream)
                else:
                    yield raw
        except BROKEN as error:
            raise ValueError(
                f"{self.where(name)} breaks off or is damaged ({error}); fetch or copy it again."
            ) from None

    def identity(self, names: Sequence[str]) -> tuple[list[Path], dict[str, Any]]:
        """Say what decides the content of these files: paths to hash, or checksums the zip already keeps."""
        self._require(names)
        if self._zip is None:
            return [self.root / name for name in names], {}
        infos = [self._zip.getinfo(name) for name in names]
        return [], {"members": [[info.filename, info.file_size, info.CRC] for info in infos]}

    def _require(self, names: Sequence[str]) -> None:
        missing = set(names).difference(self.names)
        if missing:
            raise ValueError(f"{self.where(min(missing))} is missing; fetch or copy the official files whole.")


def read_table(store: Store, name: str, columns: Sequence[str], **options: Any) -> Any:
    """Read the named columns of a delimited text; other columns are left aside.

    Parameters
    ----------
    store, name
        Where the file lies.
    columns
        Columns that have to be there. With ``header=None`` they name the columns from left to right.
    options
        Passed on to `pandas.read_csv`.

    Returns
    -------
    pandas.DataFrame
        With exactly these columns, in this order.
    """
    import pandas as pd

    wanted = list(columns)
    if "header" in options:
        options["names"] = wanted
    else:
        options["usecols"] = lambda column: column in wanted
    with store.open(name) as stream:
        try:
            table = pd.read_csv(stream, **options)
        except pd.errors.EmptyDataError:
            raise ValueError(f"{store.where(name)} is empty; expected columns {', '.join(wanted)}.") from None
        except (pd.errors.ParserError, ValueError) as error:
            if isinstance(error, EOFError):
                raise
            raise ValueError(
                f"{store.where(name)}: expected columns {', '.join(wanted[:8])} of numbers, got {short(error)}; "
                f"is it the official file?"
            ) from None
    missing = [column for column in wanted if column not in table.columns]
    if missing:
        raise ValueError(
            f"{store.where(name)}: expected columns {', '.join(wanted[:8])}, "
            f"{', '.join(missing[:8])} not found; is it the official file?"
        )
    return table[wanted]


def short(error: Exception) -> str:
    """Return the beginning of what a library complained about, on one line."""
    return " ".join(str(error).split())[:120]
