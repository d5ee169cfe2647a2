"""Measure a fleet on Spark: one window of every wearer in each trigger, keyed by shard.

Run as ``python -m benchmarks.scale.fleet`` in the main environment; Spark runs in its own (``make fleet-env``). Writes
``benchmarks/results/scale/fleet.json``. A tenth of the wearers is measured too, to obtain the fixed cost of a trigger.
The update is the time that Spark reports for the stateful operator, summed over tasks and divided by the cores; the
whole batch also reads, shuffles, commits the state and writes the predictions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.speed import timing
from benchmarks.version_and_date import version_and_date

from sight._util.atomic import write_json
from sight._util.hashing import file_sha256
from sight.apps.fleet.fleet_model import FleetOptions, load_fleet_model
from sight.apps.fleet.output_files import read_predictions

ROOT = Path(__file__).resolve().parents[2]
SPARK = ROOT / ".venv-spark" / "bin" / "python"
RESULT = ROOT / "benchmarks" / "results" / "scale" / "fleet.json"
CLASSES, DIMS, STRIDE_S = 6, 128, 10.0
GOAL_S = 10.0


def write_model(path: Path) -> Path:
    """Export an untrained perceptron with 6 classes and 128 features."""
    import torch

    from sight.models.card import ModelCard
    from sight.models.encoders.mlp import MLP
    from sight.models.export.onnx import export_onnx
    from sight.models.torch import TorchSource

    torch.manual_seed(0)
    network = MLP(channels=DIMS, classes=CLASSES, hidden=(DIMS,)).eval()
    names = tuple(f"class {k}" for k in range(CLASSES))
    card = ModelCard(
        encoder="mlp", encoder_args=network.encoder_args, classes=names, channels=tuple(f"f{n}" for n in range(DIMS)),
        units=("1",) * DIMS, rate_hz=1 / STRIDE_S, window_s=STRIDE_S, stride_s=STRIDE_S, mean=(0.0,) * DIMS,
        std=(1.0,) * DIMS,
    )  # fmt: skip
    return export_onnx(TorchSource(network, classes=names, card=card), path)


def write_rows(folder: Path, wearers: int, triggers: int, files: int) -> None:
    """Write one window of every wearer for each trigger, divided into a few files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    rng = np.random.default_rng(0)
    names = [f"wearer-{n:07d}" for n in range(wearers)]
    for trigger in range(triggers):
        z = rng.normal(size=(wearers, DIMS)).astype(np.float32)
        p = rng.dirichlet(np.full(CLASSES, 0.5), wearers).astype(np.float32)
        for part, rows in enumerate(np.array_split(np.arange(wearers), files)):
            table = pa.table(
                {
                    "wearer": [names[row] for row in rows],
                    "window": np.full(len(rows), trigger),
                    "time_s": np.full(len(rows), STRIDE_S * trigger),
                    "z": pa.FixedSizeListArray.from_arrays(z[rows].ravel(), DIMS).cast(pa.list_(pa.float32())),
                    "p": pa.FixedSizeListArray.from_arrays(p[rows].ravel(), CLASSES).cast(pa.list_(pa.float32())),
                }
            )
            path = folder / f"{trigger:04d}-{part}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1.7e9 + trigger, 1.7e9 + trigger))


def folder_bytes(folder: Path) -> int:
    """Return the total size of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(options: argparse.Namespace, wearers: int, work: Path) -> dict[str, Any]:
    """Run the stream over all triggers, and return its figures."""
    work.mkdir()
    model, out = write_model(work / "model.onnx"), work / "out"
    write_rows(work / "rows", wearers, options.triggers, options.files)
    words = ["fleet", work / "rows", "-m", model, "-o", out, "--method", options.method, "--files", options.files]
    words += ["--shards", options.shards]
    words += ["--partitions", options.partitions, "--conf", f"spark.master=local[{options.cores}]"]
    words += ["--conf", f"spark.driver.memory={options.memory}"]
    subprocess.run([str(word) for word in (SPARK, "-m", "sight", *words)], check=True)
    triggers = [json.loads(line) for line in (out / "progress.jsonl").read_text("utf-8").splitlines()]
    steady = triggers[options.warm_up :]
    predicted = read_predictions(out).num_rows
    if predicted != wearers * options.triggers:
        raise RuntimeError(f"Expected {wearers * options.triggers} predictions, got {predicted}.")
    median = {name: float(np.median([facts[name] for facts in steady])) / 1000 for name in triggers[0] if "_ms" in name}
    fleet_options = FleetOptions(path=str(model), digest=file_sha256(model), method=options.method)
    state = load_fleet_model(fleet_options).adapters(wearers)
    return {
        "wearers": wearers,
        "update_s": median["update_task_ms"] / options.cores,
        "update_task_s": median["update_task_ms"],
        "commit_task_s": median["commit_task_ms"],
        "batch_s": median["batch_ms"],
        "trigger_s": median["trigger_ms"],
        "trigger_worst_s": max(facts["trigger_ms"] for facts in steady) / 1000,
        "first_trigger_s": triggers[0]["trigger_ms"] / 1000,
        "windows_per_s": wearers / median["batch_ms"],
        "state_bytes": state.nbytes,
        "checkpoint_bytes": folder_bytes(out / "checkpoint"),
        "input_bytes_per_window": folder_bytes(work / "rows") / wearers / options.triggers,
        "prediction_bytes_per_window": folder_bytes(out / "predictions") / wearers / options.triggers,
    }


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wearers", type=int, default=20_000)
    parser.add_argument("--method", default="sight")
    parser.add_argument("--triggers", type=int, default=12)
    parser.add_argument("--warm-up", type=int, default=4, help="triggers that do not count")
    parser.add_argument("--files", type=int, default=4, help="files that arrive for each trigger")
    parser.add_argument("--shards", type=int, default=32)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="3g")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    machine = timing.machine()
    with tempfile.TemporaryDirectory() as work:
        small = measure(options, options.wearers // 10, Path(work) / "small")
        found = measure(options, options.wearers, Path(work) / "whole")
    given = {name: value for name, value in vars(options).items() if name not in ("out", "wearers")}
    found |= {"classes": CLASSES, "dims": DIMS, **given, "small": small}
    found |= {"goal_s": GOAL_S, "met": found["update_s"] <= GOAL_S, "machine": machine}
    found = version_and_date() | found
    print(json.dumps(found, indent=1))
    write_json(options.out, found)


if __name__ == "__main__":
    main()
