"""Processor time, wall time and memory of each stage from a file to its report."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.speed import timing
from benchmarks.version_and_date import version_and_date

from sight import registry
from sight._util.atomic import write_atomic
from sight.apps.bench.experiment_report.table_format import Cell, Table
from sight.models.card import require_card
from sight.models.load import load
from sight.recordings.read import describe_run, read_samples
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_references import find_recording
from sight.recordings.signal import prepare
from sight.recordings.signal.quality import warnings_for
from sight.results.output_files.outputs import write_outputs
from sight.results.prediction_loop import ENCODE_AT_ONCE, run
from sight.results.summary import ResultSummary
from sight.types import Array, Result, Windows

#: Reads a file with pyarrow alone, and prints processor time, wall time and peak memory.
PLAIN_READ = """
import resource, sys, time
import pyarrow.csv, pyarrow.parquet
cpu, wall = time.process_time(), time.perf_counter()
read = pyarrow.parquet.read_table if sys.argv[1].endswith(".parquet") else pyarrow.csv.read_csv
table = read(sys.argv[1])
print(time.process_time() - cpu, time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def measure(
    file: str | Path, model: str | Path, out: str | Path = "out/pipeline.json", *, tz: str | None = None
) -> dict[str, Any]:
    """Run each stage of `sight adapt` on a file, write the figures as JSON, and return them.

    Parameters
    ----------
    file
        A CSV or Parquet file, or a device file.
    model
        Name or file of an exported model.
    out
        The .json file.
    tz
        Time zone of the wearer.

    Notes
    -----
    Windows are encoded on one thread, then again on all cores; the second time is no part of the total. Memory is the
    most that the process held so far. `pyarrow` is the plain read of a table by a process of its own.
    """
    machine, ref = timing.machine(), find_recording(file)
    if ref.dataset or ref.path is None or ref.path.suffix.lower() == ".npz":
        raise ValueError(f"Expected a file of samples, got {file}; name a CSV, Parquet or device file.")
    plain = _plain_read(ref.path)  # first, because a process inherits the peak memory of the one that starts it
    stages: dict[str, dict[str, float]] = {}
    with _stage(stages, "model"):
        source, options = load(model), ReadOptions(tz=tz)
        card = require_card(source, model)
        adapter = registry.method(registry.RECOMMENDED).bind(source)
    with _stage(stages, "reading"):
        recording = next(iter(read_samples(ref, card, options)))
    samples, hours = len(recording.values), (recording.time_s[-1] - recording.time_s[0]) / 3600
    with _stage(stages, "resampling"):
        warnings_for(recording, {"rate_hz": card.rate_hz, "channels": card.channels, "unit": card.units})
        windows = prepare(
            recording, rate_hz=card.rate_hz, window_s=card.window_s, stride_s=card.stride_s, overwrite=True
        )
    del recording
    result = _run(stages, adapter, windows)
    with _stage(stages, "writing"), tempfile.TemporaryDirectory() as folder:
        write_outputs(ResultSummary(result, info=describe_run(ref, card, model, windows)), folder)
    parallel, threads = _encode_on_all_cores(model, result)
    found = {
        **version_and_date(),
        "machine": machine,
        "file": {"name": ref.path.name, "bytes": ref.path.stat().st_size, "samples": samples, "hours": float(hours)},
        "model": Path(model).name,
        "windows": len(windows),
        "stages": stages,
        "parallel": {"threads": threads, **parallel},
        "pyarrow": plain,
    }
    write_atomic(out, (json.dumps(found, indent=1) + "\n").encode())
    return found


def pipeline_table(found: Mapping[str, Any]) -> Table:
    """Return the table of the stages."""
    stages, parallel = found["stages"], found["parallel"]
    total_s = sum(stage["processor_s"] for stage in stages.values())
    total = {key: sum(stage[key] for stage in stages.values()) for key in ("processor_s", "wall_s")}
    total["peak_mb"] = max(stage["peak_mb"] for stage in stages.values())
    rows = [_row(name, stage, total_s) for name, stage in stages.items()]
    rows += [_row("total", total, total_s), _row(f"encoding on {parallel['threads']} threads", parallel, total_s)]
    if found["pyarrow"]:
        rows.append(_row("plain read by pyarrow", found["pyarrow"], total_s))
    file = found["file"]
    title = f"{file['name']}: {file['hours']:.0f} h, {file['samples']:,} samples, {found['windows']:,} windows"
    heads = ("stage", "processor time, s", "share of the total", "wall time, s", "peak memory, MB")
    return Table(name="pipeline", title=title, heads=heads, rows=[[Cell(text) for text in row] for row in rows])


def _row(name: str, stage: Mapping[str, float], total_s: float) -> list[str]:
    seconds = stage["processor_s"]
    return [name, f"{seconds:.2f}", f"{seconds / total_s:.0%}", f"{stage['wall_s']:.2f}", f"{stage['peak_mb']:.0f}"]


@contextmanager
def _stage(stages: dict[str, dict[str, float]], name: str) -> Iterator[None]:
    """Store processor time, wall time and peak memory of the block under a name."""
    processor, wall = time.process_time(), time.perf_counter()
    yield
    stages[name] = {
        "processor_s": time.process_time() - processor,
        "wall_s": time.perf_counter() - wall,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def _run(stages: dict[str, dict[str, float]], adapter: Any, windows: Windows) -> Result:
    """Run the adapter, and store the times of encoding and adapting apart."""
    source, encode = adapter.source, adapter.source.encode
    parts: dict[str, dict[str, float]] = {}

    def timed(x: Array) -> tuple[Array, Array]:
        with _stage(parts, str(len(parts))):
            encoded: tuple[Array, Array] = encode(x)
        return encoded

    source.encode = timed
    with _stage(stages, "adapting"):
        result = run(adapter, windows)
    source.encode = encode
    adapting = stages.pop("adapting")
    times = {key: sum(part[key] for part in parts.values()) for key in ("processor_s", "wall_s")}
    stages["encoding"] = adapting | times
    stages["adapting"] = adapting | {key: adapting[key] - value for key, value in times.items()}
    return result


def _encode_on_all_cores(model: str | Path, result: Result) -> tuple[dict[str, float], int]:
    """Encode once more on all cores; return the times and the number of threads."""
    source: Any = load(model, threads=None)
    stages: dict[str, dict[str, float]] = {}
    x = result.windows.x
    with _stage(stages, "encoding"):
        p = [source.encode(x[first : first + ENCODE_AT_ONCE])[1] for first in range(0, len(x), ENCODE_AT_ONCE)]
    if not np.array_equal(np.concatenate(p), result.p):
        raise ValueError(f"{model}: predictions on several threads differ from those on one thread.")
    return stages["encoding"], getattr(source, "threads", 1)


def _plain_read(path: Path) -> dict[str, float] | None:
    if path.suffix.lower() not in (".parquet", ".csv"):
        return None
    command = [sys.executable, "-c", PLAIN_READ, str(path)]
    processor_s, wall_s, peak = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    return {"processor_s": float(processor_s), "wall_s": float(wall_s), "peak_mb": float(peak) / 1000}
