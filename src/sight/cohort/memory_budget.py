"""How much memory a recording will need, told from its file alone, and how much there is."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

#: What a process needs for itself: packages, a model, what the recording before left in its heap.
BASE = 350 << 20
#: Peak bytes beyond that for each byte of a file, measured at recordings of a day and more and rounded up.
FACTORS = {".csv": 3.0, ".cwa": 14.0, ".gt3x": 30.0, ".bin": 8.0}
#: The same for each byte that the arrays of an .npz unpack to, and for each cell of a Parquet file.
ARRAY, CELL = 4.2, 32
#: How far gzip packs such files, as a rule.
PACKED = {".csv": 5.0, ".cwa": 3.0, ".gt3x": 1.0, ".bin": 4.0}
#: How much of the peak is windows that do not overlap; those that do take that much more.
WINDOWS = 0.25
#: For a person of a dataset, whose files nobody looks at beforehand.
UNKNOWN = 1 << 30
#: Share of the memory of this machine that is used where nobody says otherwise.
SHARE = 0.8


def needed(path: Path | None, overlap: float = 1.0) -> int:
    """Estimate the bytes that a process needs at most while it works on a recording.

    Parameters
    ----------
    path
        Its file; None for a person of a dataset.
    overlap
        How many windows hold each sample.

    Examples
    --------
    >>> needed(None) == UNKNOWN
    True
    """
    if path is None:
        return UNKNOWN
    try:
        return BASE + int(_content(path, 1 + WINDOWS * (max(overlap, 1.0) - 1)))
    except (OSError, ValueError, zipfile.BadZipFile):
        return BASE  # reading it will tell what is wrong


def _content(path: Path, windows: float) -> float:
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    ending = Path(plain).suffix
    if ending == ".npz":
        with zipfile.ZipFile(path) as archive:
            return ARRAY * sum(entry.file_size for entry in archive.infolist())
    if ending == ".parquet":
        import pyarrow.parquet as pq

        about = pq.read_metadata(path)
        return float(CELL * about.num_rows * about.num_columns) * windows
    packed = 1.0 if plain == name else PACKED[ending]
    return path.stat().st_size * packed * FACTORS[ending] * windows


def available() -> int:
    """Return the bytes that may be used on this machine: most of what is free now."""
    try:
        text = Path("/proc/meminfo").read_text("ascii")
        free = int(text.partition("MemAvailable:")[2].split()[0]) << 10
    except (OSError, IndexError, ValueError):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(SHARE * min(free, _container()))


def _container() -> int:
    """Return what the control group of this process grants beyond what it uses; without one, no bound."""
    try:
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text("ascii"))
        return max(limit - int((group / "memory.current").read_text("ascii")), 0)
    except (OSError, ValueError):
        return 1 << 62


def parse(text: str) -> int:
    """Read an amount of memory.

    Examples
    --------
    >>> parse("8GB"), parse("512 MiB"), parse("1000000")
    (8000000000, 536870912, 1000000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", text.lower())
    if found is None or not float(found[1]):
        raise ValueError(f"Expected an amount of memory such as 8GB or 512MiB, got {text!r}.")
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kmgt".index(unit or " "))
