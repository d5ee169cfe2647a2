"""Measure `sight cohort run`: throughput, memory, two workers against one, twice the recordings against once.

Run as ``python -m benchmarks.scale.cohort``; on two idle cores it takes about ten minutes. Recordings are days of
synthetic wearers, a three-axis sensor at 50 Hz in steps of 1/256 g as devices store them; the model is the paper's
network on windows of 10 s. Ten different days are generated once, untimed; further recordings are links to them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.version_and_date import version_and_date

from sight.datasets import windows_of
from sight.datasets.synthetic import Synthetic

DAYS = 10
MODEL_HZ, WINDOW_S = 10.0, 10.0
COHORT = 100_000
RESULTS = Path(__file__).resolve().parents[1] / "results" / "scale" / "cohort.json"


def main() -> None:
    """Measure and write the figures."""
    options = _options()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        print("making recordings and a model", flush=True)
        days, model = make_days(folder / "days", options.hours), make_model(folder)
        runs = list(measure(folder, days, model, options.counts, options.repeats))
    figures = report(runs, options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    print(json.dumps({key: figures[key] for key in figures if key != "runs"}, indent=2))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0, help="length of a recording")
    parser.add_argument("--counts", default="25,50,100", help="recordings of each run, each twice the one before")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each; the best counts")
    parser.add_argument("--folder", type=Path, help="work folder; the system's temporary folder by default")
    parser.add_argument("-o", "--out", type=Path, default=RESULTS, help="output file")
    options = parser.parse_args()
    options.counts = [int(count) for count in options.counts.split(",")]
    if len(options.counts) < 2:
        parser.error("expected two counts or more, such as 25,50,100")
    return options


# --- recordings and model --------------------------------------------------------------------------------------------


def make_days(folder: Path, hours: float) -> list[Path]:
    """Write different days: quarters of two wearers' data in random order, with added noise."""
    folder.mkdir()
    dataset = Synthetic(hours=hours / 2, gaps_per_hour=0.2)
    quarters = []
    for wearer in ("W01", "W02"):
        values = next(dataset.recordings(wearer)).values[:, :3]
        quarters += np.array_split(values, 2)
    rng = np.random.default_rng(0)
    paths = []
    for number in range(DAYS):
        values = np.concatenate([quarters[place] for place in rng.permutation(len(quarters))])
        values = np.round(256 * (values + rng.normal(scale=0.01, size=values.shape))) / 256
        begin = np.datetime64("2025-03-03T10:00:00", "ms")
        moments = begin + (np.arange(len(values)) * 20).astype("timedelta64[ms]")
        axes = {axis: values[:, c].astype(np.float32) for c, axis in enumerate("xyz")}
        paths.append(folder / f"day{number}.parquet")
        pq.write_table(pa.table({"time": moments} | axes), paths[-1], compression="zstd")
    return paths


def make_model(folder: Path) -> Path:
    """Train the paper's network briefly; its accuracy does not matter here."""
    from sight.models.export.onnx import export_onnx
    from sight.models.train import train

    dataset = Synthetic(hours=0.3, gaps_per_hour=0)
    windowing = {"rate_hz": MODEL_HZ, "window_s": WINDOW_S, "stride_s": WINDOW_S}
    parts = [windows_of(dataset, wearer, cache=False, **windowing) for wearer in ("W01", "W02", "W03")]
    x, y = np.concatenate([part.x[:, :3] for part in parts]), np.concatenate([part.label for part in parts])
    facts = {"channels": ("x", "y", "z"), "units": "g", "rate_hz": MODEL_HZ, "stride_s": WINDOW_S}
    return export_onnx(train((x, y), dataset.classes, epochs=3, **facts), folder / "model.onnx")


def make_folder(folder: Path, days: list[Path], count: int) -> Path:
    """Create `count` recordings as links to the days."""
    folder.mkdir()
    for number in range(count):
        os.link(days[number % len(days)], folder / f"R{number:03d}.parquet")
    return folder


# --- measuring -------------------------------------------------------------------------------------------------------


def measure(folder: Path, days: list[Path], model: Path, counts: list[int], repeats: int) -> Iterator[dict[str, Any]]:
    """Run every count with two workers, and the smallest with one."""
    for round_ in range(repeats):
        for workers, count in [(1, counts[0]), *((2, count) for count in counts)]:
            recordings = make_folder(folder / "recordings", days, count)
            found = timed(recordings, model, folder / "out", workers)
            shutil.rmtree(recordings)
            shutil.rmtree(folder / "out")
            print(f"round {round_ + 1}: {count} recordings, {workers} workers: {found['seconds']:.1f} s", flush=True)
            yield {"recordings": count, "workers": workers, **found}


def timed(recordings: Path, model: Path, out: Path, workers: int) -> dict[str, Any]:
    """Run the command as a user would, and measure time and memory."""
    command = [sys.executable, "-m", "sight", "cohort", "run", recordings, "-m", model, "-o", out]
    began = time.perf_counter()
    process = psutil.Popen([*map(str, command), "--jobs", str(workers)], stdout=subprocess.DEVNULL)
    together = 0
    while process.poll() is None:
        together = max(together, _held(process))
        time.sleep(0.1)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"Expected a run without failures, got exit code {process.returncode}.")
    log = [json.loads(line) for line in (out / "log.jsonl").read_text("utf-8").splitlines()]
    return {
        "seconds": seconds,
        "cpu_seconds_per_recording": sum(entry["cpu_seconds"] for entry in log) / len(log),
        "worker_peak_bytes": max(entry["peak_bytes"] for entry in log),
        "together_peak_bytes": together,
    }


def _held(process: psutil.Process) -> int:
    """Return the memory of the command and its child processes; shared pages count for each."""
    total = 0
    for member in (process, *process.children(recursive=True)):
        try:
            total += member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


# --- figures ---------------------------------------------------------------------------------------------------------


def report(runs: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures; of repeated runs the fastest counts."""
    counts = options.counts
    first, last = counts[0], counts[-1]
    two = {count: _best(runs, 2, count) for count in counts}
    one = _best(runs, 1, first)
    efficiency = one / (2 * two[first])  # of the same recordings
    pair = counts[1]
    doubling = {f"{a} to {b}": two[b] / two[a] / (b / a) for a, b in itertools.pairwise(counts)}
    each = (two[last] - two[first]) / (last - first)
    worker = max(run["worker_peak_bytes"] for run in runs)
    return {
        **version_and_date(),
        "recording": {"hours": options.hours, "sensor_hz": 50, "axes": 3, "window_s": WINDOW_S, "model_hz": MODEL_HZ},
        "recordings_per_hour": last / two[last] * 3600,
        "efficiency_two_workers": efficiency,
        "efficiency_two_workers_larger_job": (pair / two[pair]) / (2 * first / one),
        "cpu_seconds_per_recording": {workers: _cpu(runs, workers) for workers in (1, 2)},
        "doubling_against_exact": doubling,
        "peak_bytes": {"worker": worker, "together": max(run["together_peak_bytes"] for run in runs)},
        "seconds_per_recording_and_core": 2 * each,
        "extrapolation": {
            "recordings": COHORT,
            "core_hours": COHORT * 2 * each / 3600,
            "hours_on_two_cores": COHORT * each / 3600,
            "hours_on_64_cores_at_this_efficiency": COHORT * 2 * each / 64 / 3600,
        },
        "holds": {
            "efficiency_at_least_85_percent": efficiency >= 0.85,
            "doubling_within_20_percent": all(0.8 <= ratio <= 1.2 for ratio in doubling.values()),
        },
        "linearity": [{"recordings": count, "best_seconds": two[count]} for count in counts],
        "one_worker": {"recordings": first, "best_seconds": one},
        "runs": runs,
        "machine": {"cores": os.cpu_count(), "system": platform.platform()},
    }


def _best(runs: list[dict[str, Any]], workers: int, count: int) -> float:
    return float(min(run["seconds"] for run in runs if (run["workers"], run["recordings"]) == (workers, count)))


def _cpu(runs: list[dict[str, Any]], workers: int) -> float:
    """Return the least processor time per recording, which other load affects less than elapsed time."""
    return float(min(run["cpu_seconds_per_recording"] for run in runs if run["workers"] == workers))


if __name__ == "__main__":
    main()
