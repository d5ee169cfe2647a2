"""Trains the model of the demo, and measures raw and refined accuracy of all synthetic wearers.

``python -m tools.demo_model`` writes ``src/sight/apps/demo/demo.onnx`` and ``benchmarks/results/live/demo.csv``; with
``--measure`` it measures the model that is there. Training is seeded, but other processors and versions of torch may
give other last digits.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
from benchmarks.version_and_date import version_and_date

from sight import registry
from sight._util.atomic import write_atomic
from sight.apps import demo
from sight.datasets import windows_of
from sight.datasets.synthetic import Synthetic
from sight.models.load import load
from sight.results.prediction_loop import run
from tools.result_files import RESULTS, read_csv

RESULT = RESULTS / "live" / "demo.csv"
#: Minutes of signal that the page shows in the first half minute, minute and two minutes of the demo.
MINUTES = (5, 10, 20)


def main() -> None:
    """Train unless told otherwise, measure, and write the result."""
    if "--measure" not in sys.argv[1:]:
        train_model()
    write_atomic(RESULT, measure().encode())


def train_model() -> None:
    """Train a small transformer on the training subjects, and export it."""
    from sight.models.export.onnx import export_onnx
    from sight.models.train import train

    dataset = Synthetic(**demo.DATASET)
    source = train(
        [windows_of(dataset, subject) for subject in demo.TRAINING_SUBJECTS],
        dataset.classes,
        encoder="transformer",
        encoder_args={"width": 32, "depth": 1},
        epochs=6,
        seed=1,
        channels=dataset.channels,
        units=dataset.units,
        rate_hz=dataset.rate_hz,
        dataset=dataset.name,
    )
    facts = {"subjects": demo.TRAINING_SUBJECTS, "options": demo.DATASET}
    source.card = replace(source.card, training={**source.card.training, **facts})
    export_onnx(source, demo.MODEL)


def measure() -> str:
    """Return a CSV file with the accuracies of every wearer that the model was not trained on."""
    subjects = [name for name in Synthetic(**demo.DATASET).subjects() if name not in demo.TRAINING_SUBJECTS]
    columns, facts = [f"{kind}_{minutes}_min" for minutes in MINUTES for kind in ("raw", "refined")], version_and_date()
    lines = [["subject", *columns, *facts]]
    lines += [[subject, *map(str, np.ravel(accuracies(subject))), *facts.values()] for subject in subjects]
    return "\n".join([*map(",".join, lines), ""])


def measured() -> dict[str, list[list[float]]]:
    """Return the accuracies in the file, as `accuracies` returns them."""
    rows = (list(row.values()) for row in read_csv(RESULT))
    return {row[0]: np.reshape(np.array(row[1:], float), (-1, 2)).tolist() for row in rows}


def accuracies(subject: str) -> list[list[float]]:
    """Return the shares of correct raw and refined predictions of a wearer in the first `MINUTES`."""
    windows = windows_of(Synthetic(**demo.DATASET), subject)
    result = run(registry.method(registry.RECOMMENDED).bind(load(demo.MODEL)), windows)
    correct = [(q.argmax(axis=1) == windows.label)[windows.label >= 0] for q in (result.p, result.q)]
    return [[round(float(np.mean(each[: 60 * minutes])), 4) for each in correct] for minutes in MINUTES]


def table() -> str:
    """Return the table of docs/live.md."""
    wearers = measured()
    rows = {f"`{name}` ({subject})": wearers[subject] for name, subject in demo.WEARERS.items()}
    rows[f"mean of all {len(wearers)} unseen wearers"] = np.mean(list(wearers.values()), axis=0).tolist()
    heads = [f"first {minutes} min of signal" for minutes in MINUTES]
    lines = [f"| wearer | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name, pairs in rows.items():
        cells = [f"{100 * raw:.0f} → {100 * refined:.0f} %" for raw, refined in pairs]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
