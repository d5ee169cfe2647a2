"""Measure time and memory to read subjects of HARTH and CAPTURE-24 in files of full size.

Run as ``python -m benchmarks.scale.paper_files`` (Linux). It writes files with made values, in the official layouts and
with as many rows as a long subject has, to a temporary folder. Each subject is read in a process of its own, as the
benchmark reads it, first from the file and then from the window cache. The figures are written to
``benchmarks/results/scale/paper_files.json``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from benchmarks.version_and_date import version_and_date
from pyarrow import csv

from sight._util.atomic import write_json
from sight.apps.bench.settings import load_setting
from sight.datasets import load, windows_of
from sight.datasets.capture24 import DICTIONARY
from sight.datasets.harth import ACTIVITIES

RESULTS = Path(__file__).resolve().parents[1] / "results" / "scale" / "paper_files.json"
#: A third of CAPTURE-24 is not annotated.
ANNOTATIONS = {"7030 sleeping;MET 0.95": "sleep", "sitting;MET 1.5": "sedentary", "": ""}
#: Rows that are written at once.
BLOCK_ROWS = 500_000


class Layout(NamedTuple):
    """How the files of a dataset are made."""

    subject: str  # format of subject names
    file: str  # format of file names
    rows: int  # of a subject
    rate_hz: int
    columns: Callable[[np.random.Generator, int, int], dict[str, Any]]


def harth_columns(rng: np.random.Generator, first: int, count: int) -> dict[str, Any]:
    """Return six axes and a label, which changes every minute."""
    codes = np.array(list(ACTIVITIES))
    labels = codes[np.arange(first, first + count) // 3000 % len(codes)]
    axes = [f"{place}_{axis}" for place in ("back", "thigh") for axis in "xyz"]
    return {axis: rng.normal(size=count).round(6) for axis in axes} | {"label": labels}


def capture24_columns(rng: np.random.Generator, first: int, count: int) -> dict[str, Any]:
    """Return three axes and an annotation, which changes every hour."""
    notes = np.arange(first, first + count) // 360_000 % len(ANNOTATIONS)
    annotation = pa.DictionaryArray.from_arrays(pa.array(notes, pa.int8()), list(ANNOTATIONS)).cast(pa.string())
    return {axis: rng.normal(size=count).round(8) for axis in "xyz"} | {"annotation": annotation}


LAYOUTS = {
    "harth": Layout("S{:03}", "{}.csv", 300_000, 50, harth_columns),
    "capture24": Layout("P{:03}", "{}.csv.gz", 9_000_000, 100, capture24_columns),
}


def main() -> None:
    """Write the files, read them, and write the figures."""
    options = _options()
    if options.read:
        print(json.dumps(read(*options.read)))
        return
    figures: dict[str, Any] = {**version_and_date(), "machine": platform.platform(), "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        for dataset in LAYOUTS:
            figures[dataset] = measure(dataset, getattr(options, dataset), options.share, Path(name))
    write_json(options.out, figures)
    print(json.dumps(figures, indent=2))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--harth", type=int, default=4, help="number of subjects")
    parser.add_argument("--capture24", type=int, default=2, help="number of subjects")
    parser.add_argument("--share", type=float, default=1.0, help="share of the rows of a subject, for a trial")
    parser.add_argument("--folder", type=Path, help="work folder; the system's temporary folder by default")
    parser.add_argument("-o", "--out", type=Path, default=RESULTS, help="output file")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


# --- files -----------------------------------------------------------------------------------------------------------


def write_files(dataset: str, count: int, share: float, folder: Path) -> Iterator[tuple[str, Path]]:
    """Write the files of `count` subjects, and yield subject and file."""
    layout, own = LAYOUTS[dataset], folder / dataset
    own.mkdir(parents=True)
    if dataset == "capture24":
        lines = [f'"{note}",{label}' for note, label in ANNOTATIONS.items() if note]
        (own / DICTIONARY).write_text("\n".join(["annotation,label:Walmsley2020", *lines, ""]), "utf-8")
    for number in range(1, count + 1):
        subject = layout.subject.format(number)
        path = own / layout.file.format(subject)
        with path.open("wb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1) as packed:
                    write_rows(packed, layout, int(share * layout.rows), number)
            else:
                write_rows(raw, layout, int(share * layout.rows), number)
        yield subject, path


def write_rows(out: Any, layout: Layout, rows: int, seed: int) -> None:
    """Write rows with regular times, in blocks."""
    rng, step_us = np.random.default_rng(seed), 1_000_000 // layout.rate_hz
    time_name, unit = ("timestamp", "ms") if layout.rate_hz == 50 else ("time", "us")
    for first in range(0, rows, BLOCK_ROWS):
        count = min(BLOCK_ROWS, rows - first)
        moments = np.datetime64("2016-11-13T10:00:00", "us") + np.arange(first, first + count) * step_us
        table = pa.table({time_name: moments.astype(f"datetime64[{unit}]"), **layout.columns(rng, first, count)})
        csv.write_csv(table, out, csv.WriteOptions(include_header=first == 0, quoting_style="needed"))


# --- reading ---------------------------------------------------------------------------------------------------------


def read(dataset: str, subject: str) -> dict[str, float]:
    """Read the windows of a subject as the benchmark does, and return seconds, windows and the peak of memory."""
    setting = load_setting(dataset)
    began = time.perf_counter()
    windows = windows_of(load(setting.dataset, **setting.options), subject, **setting.windowing)
    seconds = time.perf_counter() - began
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text("utf-8"))
    return {
        "seconds": round(seconds, 2),
        "windows": len(windows),
        "windows_mb": round(windows.x.nbytes / 1e6, 1),
        "peak_mb": round(int(peak[1]) / 1000) if peak else 0,
    }


def measure(dataset: str, count: int, share: float, folder: Path) -> dict[str, Any]:
    """Write and read subjects, and extrapolate to all subjects of the paper's pairs and of the dataset."""
    environment = os.environ | {"SIGHT_DATA": str(folder), "SIGHT_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "benchmarks.scale.paper_files", "--read", dataset]
    files = list(write_files(dataset, count, share, folder))
    subjects = []
    for subject, path in files:
        print(f"{dataset} {subject}: {path.stat().st_size / 1e6:.0f} MB", flush=True)
        first, again = (
            json.loads(subprocess.run([*command, subject], env=environment, check=True, capture_output=True).stdout)
            for _ in range(2)
        )
        cached = {f"cached_{key}": again[key] for key in ("seconds", "peak_mb")}
        subjects.append({"subject": subject, "file_mb": round(path.stat().st_size / 1e6), **first, **cached})
    seconds = mean(subject["seconds"] for subject in subjects)
    pairs = [pair for kind in ("main", "detailed") for pair in load_setting(dataset, pairs=kind).pairs]
    paper = len({subject for sources, target in pairs for subject in (*sources, target)})
    return {
        "rows_per_subject": int(share * LAYOUTS[dataset].rows),
        "seconds_per_subject": round(seconds, 2),
        "peak_mb": max(subject["peak_mb"] for subject in subjects),
        "paper_subjects": paper,
        "paper_subjects_seconds": round(seconds * paper),
        "all_subjects_seconds": round(seconds * load(dataset).subject_count),
        "subjects": subjects,
    }


if __name__ == "__main__":
    main()
