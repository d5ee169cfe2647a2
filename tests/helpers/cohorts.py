"""A small cohort: recordings of synthetic subjects in every file format, and a model for them."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from sight.datasets import windows_of
from sight.datasets.synthetic import Synthetic
from sight.recordings.npz_recordings import write_npz
from tests.helpers.commands import run_sight

DATASET = Synthetic(hours=0.12, gaps_per_hour=20)
#: Names of the readable recordings of `write_folder`.
READABLE = ["P1", "P2", "P5", "site-P3", "site-P4"]
START = np.datetime64("2025-03-03T23:57:00", "ms")  # three minutes before midnight


def write_model(path: Path) -> Path:
    """Train a network on two subjects, with windows of 2 s that do not overlap."""
    from sight.models.train import train

    dataset = Synthetic(hours=0.1, gaps_per_hour=0, seed=5)
    windows = [windows_of(dataset, subject, stride_s=2.0, cache=False) for subject in ("W01", "W02")]
    facts = {"channels": dataset.channels, "units": dataset.units, "rate_hz": dataset.rate_hz}
    train(windows, dataset.classes, encoder="resnet", epochs=2, stride_s=2.0, **facts).save(path)
    return path


def write_recording(path: Path, subject: str, rows: slice = slice(None)) -> Path:
    """Write a subject, or some of its samples, as CSV, CSV.gz or Parquet."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    recording = next(DATASET.recordings(subject))
    times = START + np.round(1000 * recording.time_s).astype("timedelta64[ms]")
    table = pa.table({"time": times} | {name: recording.values[:, c] for c, name in enumerate(recording.channels)})
    table = table.take(np.arange(len(times))[rows])
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif path.suffix == ".gz":
        with gzip.GzipFile(path, "wb", mtime=0) as stream:
            pyarrow.csv.write_csv(table, stream)
    else:
        pyarrow.csv.write_csv(table, path)
    return path


def write_windows(path: Path, subject: str) -> Path:
    """Write a subject as windows of which the last third is not worn."""
    windows = windows_of(DATASET, subject, stride_s=2.0, cache=False)
    wear = np.arange(len(windows)) < 2 * len(windows) // 3
    start = datetime(2025, 3, 3, 23, 50, tzinfo=UTC)
    write_npz(replace(windows, wear=wear, start=start), path, DATASET.classes)
    return path


def write_folder(folder: Path) -> Path:
    """Write five readable recordings and two unreadable ones."""
    write_recording(folder / "P1.csv", "W03")
    write_recording(folder / "P2.parquet", "W04")
    write_recording(folder / "site" / "P3" / "day.csv.gz", "W05")
    write_recording(folder / "site" / "P4" / "b-first.csv", "W06", slice(9000))
    write_recording(folder / "site" / "P4" / "a-later.csv", "W06", slice(12_000, None))
    write_windows(folder / "P5.npz", "W07")
    (folder / "empty.csv").write_text("time,acc_x,acc_y,acc_z,gyr_x,gyr_y,gyr_z\n")
    (folder / "torn.npz").write_bytes((folder / "P5.npz").read_bytes()[:1000])
    return folder


def write_cohort(out: Path, folder: Path, model: Path) -> Path:
    """Run the folder of `write_folder`; the exit code is 1 because of its unreadable recordings."""
    run_sight("cohort", "run", folder, "-m", model, "-o", out, "--engine", "serial", code=1)
    return out


def contents(out: Path) -> dict[str, bytes]:
    """Return the bytes of every file of a cohort except the log."""
    files = (path for path in sorted(out.rglob("*")) if path.is_file() and path.name != "log.jsonl")
    return {str(path.relative_to(out)): path.read_bytes() for path in files}
