"""Train seed 0 again and let the rivals that adapt the network itself meet Keel on the same people.

Run as ``PYTHONPATH=src python benchmarks/beyond/network_rivals.py WINDOWS OUT [WORKERS [TARGETS]]``. At most TARGETS
people a source, evenly chosen; methods with the preset "sight-paper". Prints a line for each model as it ends and
leaves OUT/network_rivals.csv, a row for each run.
"""

from __future__ import annotations

import csv
import itertools
import sys
import time
from pathlib import Path

import numpy as np
from trainings import corpus_of, share, tasks

METHODS = ("none", "keel", "tent", "sar", "eata", "note", "rotta", "rem", "accup", "oftta", "tca")


def one(task: tuple, folder: Path, targets: int) -> tuple[str, list[list]]:
    """Train one source; tell how long it took, and rows (setting, source, target, method, macro-F1 in points)."""
    from sight import metrics
    from sight.card import filled
    from sight.evaluate import run
    from sight.registry import method
    from sight.train import train
    from sight.types import Windows

    began = time.time()
    corpus, kind, people, seed = task
    facts, x, y = corpus_of(folder, corpus)
    edges = np.r_[0, np.cumsum(facts["counts"])]
    own = np.concatenate([np.arange(edges[i], edges[i + 1]) for i in people])
    source = train(
        (x[own], y[own]),
        facts["classes"],
        encoder="mlp" if corpus == "extrasensory" else "cnn",
        epochs=33 if kind == "P" else 100,
        batch=256 if len(own) > 8000 else 64,
        seed=seed,
        device="cuda",
        rate_hz=facts["rate_hz"],
        fisher=True,
    )
    if source.card.fill is not None:
        x = filled(x, np.array(source.card.fill, np.float32))
    others = [i for i in range(len(facts["subjects"])) if i not in people]
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
        answer = run(method(name, preset="sight-paper").bind(source), stream).q.argmax(axis=1)
        score = 100 * metrics.macro_f1_union(metrics.confusion(y[part], answer, len(facts["classes"])))
        rows.append([f"{corpus}_{kind}", facts["subjects"][people[0]], facts["subjects"][i], name, round(score, 2)])
    return f"{corpus} {kind} {people[0]} {time.time() - began:.0f} s", rows


def main() -> None:
    """Share the models among processes; write rows as they come."""
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    workers, targets = (int(value) for value in (*sys.argv[3:5], *("16", "8")[len(sys.argv[3:5]) :]))
    todo = [task for task in tasks(folder) if task[3] == 0]
    out.mkdir(parents=True, exist_ok=True)
    with (out / "network_rivals.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["setting", "source", "target", "method", "macro_f1"])
        for told, rows in share(one, todo, folder, targets, workers=workers):
            print(told, flush=True)
            writer.writerows(rows)
            file.flush()


if __name__ == "__main__":
    main()
