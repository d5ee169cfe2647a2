"""A small cohort for tests: recordings of synthetic wearers in every kind of file, and a model for them."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from sight.cli import app
from sight.datasets import windows_of
from sight.datasets.npz import write_npz
from sight.datasets.synthetic import Synthetic

PEOPLE = Synthetic(hours=0.12, gaps_per_hour=20)
#: Names of the good recordings of `write_folder`.
GOOD = ["P1", "P2", "P5", "site-P3", "site-P4"]
BEGIN = np.datetime64("2025-03-03T23:57:00", "ms")  # three minutes before midnight


def write_model(path: Path) -> Path:
    """Train a network on two people, windows of 2 s without overlap."""
    from sight.train import train

    people = Synthetic(hours=0.1, gaps_per_hour=0, seed=5)
    windows = [windows_of(people, who, stride_s=2.0, cache=False) for who in ("W01", "W02")]
    facts = {"channels": people.channels, "units": people.units, "rate_hz": people.rate_hz}
    train(windows, people.classes, encoder="resnet", epochs=2, stride_s=2.0, **facts).save(path)
    return path


def write_recording(path: Path, who: str) -> Path:
    """Write a person as CSV, CSV.gz or Parquet."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    recording = next(PEOPLE.recordings(who))
    moments = BEGIN + np.round(1000 * recording.time_s).astype("timedelta64[ms]")
    columns = {"time": moments} | {name: recording.values[:, c] for c, name in enumerate(recording.channels)}
    table = pa.table(columns)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif path.suffix == ".gz":
        with gzip.GzipFile(path, "wb", mtime=0) as stream:
            pyarrow.csv.write_csv(table, stream)
    else:
        pyarrow.csv.write_csv(table, path)
    return path


def write_windows(path: Path, who: str) -> Path:
    """Write a person as windows of which the last third was not worn."""
    windows = windows_of(PEOPLE, who, stride_s=2.0, cache=False)
    worn = np.arange(len(windows)) < 2 * len(windows) // 3
    start = datetime(2025, 3, 3, 23, 50, tzinfo=UTC)
    write_npz(replace(windows, wear=worn, start=start), path, PEOPLE.classes)
    return path


def write_folder(folder: Path) -> Path:
    """Write five good recordings and two bad ones."""
    write_recording(folder / "P1.csv", "W03")
    write_recording(folder / "P2.parquet", "W04")
    write_recording(folder / "site" / "P3.csv.gz", "W05")
    write_recording(folder / "site" / "P4.csv", "W06")
    write_windows(folder / "P5.npz", "W07")
    (folder / "empty.csv").write_text("time,acc_x,acc_y,acc_z,gyr_x,gyr_y,gyr_z\n")
    (folder / "torn.npz").write_bytes((folder / "P5.npz").read_bytes()[:1000])
    return folder


def sight(*words, code: int = 0) -> str:
    """Run the command, and return what it says on one line."""
    shown = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert shown.exit_code == code, shown.output
    return " ".join(shown.output.split())


def write_cohort(out: Path, folder: Path, model: Path) -> Path:
    """Run the folder of `write_folder`; the two bad recordings are told by the exit code."""
    sight("cohort", "run", folder, "-m", model, "-o", out, "--engine", "serial", code=1)
    return out


def contents(out: Path) -> dict[str, bytes]:
    """Return every file of a cohort but the log."""
    files = (path for path in sorted(out.rglob("*")) if path.is_file() and path.name != "log.jsonl")
    return {str(path.relative_to(out)): path.read_bytes() for path in files}
