"""Estimated memory of a recording, from its file alone, and available memory of this machine."""

import os
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

#: Bytes of a process without a recording: packages, model, heap left by the previous recording.
PROCESS_BYTES = 350 << 20
#: Peak bytes for each byte of a file, measured on recordings of a day and longer and rounded up.
FILE_FACTORS = {".csv": 3.0, ".tsv": 3.0, ".xlsx": 40.0, ".cwa": 14.0, ".gt3x": 30.0, ".bin": 8.0}
#: Peak bytes for each unpacked byte of an .npz file, and for each cell of a Parquet file.
NPZ_FACTOR, CELL_BYTES = 4.2, 32
#: Usual compression ratio of gzipped files.
GZIP_RATIOS = {".csv": 5.0, ".tsv": 5.0, ".cwa": 3.0, ".gt3x": 1.0, ".bin": 4.0}
#: Share of the peak that is due to windows, if they do not overlap.
WINDOWS_SHARE = 0.25
#: Estimate for a subject of a dataset, whose files are not examined.
SUBJECT_BYTES = 1 << 30
#: Share of the free memory that is used by default.
FREE_SHARE = 0.8


def estimate_bytes(files: Sequence[Path], overlap: float = 1.0) -> int:
    """Return the estimated peak memory of a process that runs a recording; `files` is empty for a subject of a dataset.

    `overlap` is the number of windows that contain each sample.
    """
    if not files:
        return SUBJECT_BYTES
    try:
        windows_factor = 1 + WINDOWS_SHARE * (max(overlap, 1.0) - 1)
        return PROCESS_BYTES + int(sum(_file_bytes(path, windows_factor) for path in files))
    except (OSError, ValueError, zipfile.BadZipFile):
        return PROCESS_BYTES  # reading the file will raise the error


def _file_bytes(path: Path, windows_factor: float) -> float:
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    suffix = Path(plain).suffix
    if suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            return NPZ_FACTOR * sum(entry.file_size for entry in archive.infolist())
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(path)
        return float(CELL_BYTES * metadata.num_rows * metadata.num_columns) * windows_factor
    unpacked = path.stat().st_size * (1.0 if plain == name else GZIP_RATIOS[suffix])
    return unpacked * FILE_FACTORS[suffix] * windows_factor


def available_bytes() -> int:
    try:
        text = Path("/proc/meminfo").read_text("ascii")
        free = int(text.partition("MemAvailable:")[2].split()[0]) << 10
    except (OSError, IndexError, ValueError):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(FREE_SHARE * min(free, _container_bytes()))


def _container_bytes() -> int:
    """Return the free memory of this process's control group; without one, a number larger than any memory."""
    try:
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text("ascii"))
        return max(limit - int((group / "memory.current").read_text("ascii")), 0)
    except (OSError, ValueError):
        return 1 << 62


def parse_bytes(text: str) -> int:
    """Parse an amount of memory such as "8GB", "512 MiB" or "1000000"."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", text.lower())
    if match is None or not float(match[1]):
        raise ValueError(f"Expected an amount of memory such as 8GB or 512MiB, got {text!r}.")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kmgt".index(unit or " "))
