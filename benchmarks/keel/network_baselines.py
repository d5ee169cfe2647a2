"""Compare Keel with baselines that adapt the network itself, on newly trained source models of seed 0.

Run as ``python -m benchmarks.keel.network_baselines WINDOWS OUT [WORKERS [TARGETS]]``. At most TARGETS subjects per
source, evenly chosen; methods use the preset "sight-paper". Prints a line for each model and writes
OUT/network_baselines.csv, one row per run.
"""

from __future__ import annotations

import csv
import itertools
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.keel.source_training import Task, read_dataset, run_parallel, tasks, train_source

METHODS = ("none", "keel", "tent", "sar", "eata", "note", "rotta", "rem", "accup", "oftta", "tca")


def run_task(task: Task, folder: Path, targets: int) -> tuple[str, list[list]]:
    """Train one source model; return a message and rows (setting, source, target, method, macro-F1 in points)."""
    from sight import metrics
    from sight.card import filled
    from sight.evaluate import run
    from sight.registry import method
    from sight.types import Windows

    began = time.time()
    dataset, kind, subjects, _ = task
    facts, x, y = read_dataset(folder, dataset)
    edges = np.r_[0, np.cumsum(facts["counts"])]
    source, _ = train_source(task, folder, fisher=True)
    if source.card.fill is not None:
        x = filled(x, np.array(source.card.fill, np.float32))
    others = [i for i in range(len(facts["subjects"])) if i not in subjects]
    rows = []
    for name, i in itertools.product(METHODS, others[:: -(-len(others) // targets)]):
        part = slice(edges[i], edges[i + 1])
        seconds = x.shape[2] / facts["rate_hz"]
        stream = Windows(
            x=x[part],
            time_s=np.arange(len(x[part])) * seconds,
            label=y[part],
            gap_before_s=np.zeros(len(x[part])),
            window_s=seconds,
            stride_s=seconds,
        )
        predicted = run(method(name, preset="sight-paper").bind(source), stream).q.argmax(axis=1)
        score = 100 * metrics.macro_f1_union(metrics.confusion(y[part], predicted, len(facts["classes"])))
        names = (facts["subjects"][subjects[0]], facts["subjects"][i])
        rows.append([f"{dataset}_{kind}", *names, name, round(score, 2)])
    return f"{dataset} {kind} {subjects[0]} {time.time() - began:.0f} s", rows


def main() -> None:
    """Distribute the models over processes, and write rows as they finish."""
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    workers, targets = (int(value) for value in (*sys.argv[3:5], *("16", "8")[len(sys.argv[3:5]) :]))
    work = [task for task in tasks(folder) if task[3] == 0]
    out.mkdir(parents=True, exist_ok=True)
    with (out / "network_baselines.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["setting", "source", "target", "method", "macro_f1"])
        for message, rows in run_parallel(run_task, work, folder, targets, workers=workers):
            print(message, flush=True)
            writer.writerows(rows)
            file.flush()


if __name__ == "__main__":
    main()
