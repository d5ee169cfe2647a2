"""Files of a dataset, in a folder or inside a zip, and tables read from them."""

import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from platformdirs import user_data_path

#: Errors that reading a truncated or damaged file may raise.
BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile)
#: A file that unpacks to more than this many bytes and more than this multiple of its size is refused. Recordings
#: compress to a tenth; files made to fill the memory compress to a thousandth.
UNPACKED_BYTES, UNPACKED_RATIO = 1 << 28, 200


def data_folder() -> Path:
    """Return the folder of downloaded datasets: `SIGHT_DATA`, or ``sight`` in the user's data folder."""
    return Path(os.environ.get("SIGHT_DATA") or user_data_path("sight", appauthor=False)).resolve()


def natural(name: str) -> list[Any]:
    """Sort key that puts "2" before "10".

    >>> sorted(["S10", "S9", "S1"], key=natural)
    ['S1', 'S9', 'S10']
    """
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def first_words(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


def check_unpacked(unpacked: int, packed: int, where: object) -> None:
    """Raise ValueError if a compressed file of `packed` bytes unpacks to implausibly many."""
    if unpacked > max(UNPACKED_BYTES, UNPACKED_RATIO * packed):
        raise ValueError(
            f"{where}: expected at most {UNPACKED_RATIO} times its {packed} bytes after decompression, got "
            f"{unpacked} bytes or more; if the file is what you expect, decompress it first."
        )


class _Unpacked(io.RawIOBase):
    """What a gzip stream unpacks to; reading raises ValueError if that is implausibly much."""

    def __init__(self, raw: IO[bytes], size: int, where: str) -> None:
        self._stream, self._size, self._where = gzip.GzipFile(fileobj=raw), size, where

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        check_unpacked(self._stream.tell(), self._size, self._where)
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


class FileStore:
    """Files of a folder or a zip, by relative name; members of a zip are read as streams, never unpacked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        if not root.is_dir() and not zipfile.is_zipfile(root):
            raise ValueError(f"Expected a folder or a zip at {root}, found something else; is the file complete?")

    def __getstate__(self) -> dict[str, Path]:
        return {"root": self.root}  # an open zip cannot be pickled

    @cached_property
    def _zip(self) -> zipfile.ZipFile | None:
        if self.root.is_dir():
            return None
        try:
            return zipfile.ZipFile(self.root)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{self.root} is truncated or damaged ({error}); download or copy it again.") from None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Relative names of all files, with forward slashes, in natural order."""
        if self._zip is not None:
            names = [info.filename for info in self._zip.infolist() if not info.is_dir()]
        else:
            names = [path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file()]
        return tuple(sorted((name for name in names if not name.startswith("__MACOSX/")), key=natural))

    def find(self, ending: str) -> str | None:
        """Return the first file whose path is `ending` or ends with it; None if there is none."""
        return next((name for name in self.names if name == ending or name.endswith("/" + ending)), None)

    def require(self, ending: str) -> str:
        """Return the first file whose path is `ending` or ends with it; raise ValueError if there is none."""
        name = self.find(ending) or ending
        self._check(name)
        return name

    def where(self, name: str) -> str:
        return f"{self.root / name}" if self._zip is None else f"{name} in {self.root}"

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file to read, ``.gz`` decompressed; raise ValueError if it is truncated or damaged."""
        self._check(name)
        if self._zip is None:
            size = (self.root / name).stat().st_size
        else:
            member = self._zip.getinfo(name)
            size = member.file_size
            check_unpacked(size, member.compress_size, self.where(name))
        try:
            with self._zip.open(name) if self._zip is not None else (self.root / name).open("rb") as raw:
                if name.endswith(".gz"):
                    with io.BufferedReader(_Unpacked(raw, size, self.where(name))) as stream:
                        yield stream
                else:
                    yield raw
        except BROKEN as error:
            raise ValueError(
                f"{self.where(name)} is truncated or damaged ({error}); download or copy it again."
            ) from None

    def identity(self, names: Sequence[str]) -> tuple[list[Path], dict[str, Any]]:
        """Return what identifies the content of files: paths to hash, or checksums stored in the zip."""
        self._check(*names)
        if self._zip is None:
            return [self.root / name for name in names], {}
        infos = [self._zip.getinfo(name) for name in names]
        return [], {"members": [[info.filename, info.file_size, info.CRC] for info in infos]}

    def _check(self, *names: str) -> None:
        missing = set(names).difference(self.names)
        if missing:
            raise ValueError(f"{self.where(min(missing))} is missing; download or copy all official files.")


def read_columns(store: FileStore, name: str, columns: Sequence[str], **options: Any) -> Any:
    """Read columns of a delimited text file as a pandas.DataFrame with exactly these columns, in this order.

    With ``header=None``, `columns` name the columns from left to right. `options` are those of `pandas.read_csv`.
    """
    import pandas as pd

    names, where = list(columns), store.where(name)
    if "header" in options:
        options["names"] = names
    else:
        options["usecols"] = lambda column: column in names
    with store.open(name) as stream:
        try:
            table = pd.read_csv(stream, **options)
        except pd.errors.EmptyDataError:
            raise ValueError(f"{where} is empty; expected columns {', '.join(names)}.") from None
        except ValueError as error:
            raise ValueError(
                f"{where}: expected columns {', '.join(names[:8])} of numbers, got {first_words(error)}; "
                f"is it the official file?"
            ) from None
    missing = [column for column in names if column not in table.columns]
    if missing:
        raise ValueError(
            f"{where}: expected columns {', '.join(names[:8])}, {', '.join(missing[:8])} not found; "
            f"is it the official file?"
        )
    return table[names]
