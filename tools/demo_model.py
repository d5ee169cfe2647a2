"""Trains the model of the demo, and measures raw and refined accuracy of all synthetic wearers.

``python -m tools.demo_model`` writes ``src/sight/demo/demo.onnx`` and ``benchmarks/results/live/demo.json``; with
``--measure`` it measures the model that is there. Training is seeded, but other processors and versions of torch may
give other last digits.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sight import demo, registry
from sight.atomic import write_json
from sight.datasets import windows_of
from sight.datasets.synthetic import Synthetic
from sight.evaluate import run
from sight.sources import load

RESULT = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "live" / "demo.json"
#: Minutes of signal that the page shows in the first half minute, minute and two minutes of the demo.
MINUTES = (5, 10, 20)


def main() -> None:
    """Train unless told otherwise, measure, and write the result."""
    if "--measure" not in sys.argv[1:]:
        train_model()
    write_json(RESULT, measure())


def train_model() -> None:
    """Train a small transformer on the training subjects, and export it."""
    from sight.sources.onnx_export import export_onnx
    from sight.train import train

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


def measure() -> dict[str, Any]:
    """Return the shares of correct raw and refined predictions of every wearer that the model was not trained on."""
    dataset, source = Synthetic(**demo.DATASET), load(demo.MODEL)
    wearers = {}
    for subject in dataset.subjects():
        if subject in demo.TRAINING_SUBJECTS:
            continue
        windows = windows_of(dataset, subject)
        result = run(registry.method(registry.RECOMMENDED).bind(source), windows)
        correct = [(q.argmax(axis=1) == windows.label)[windows.label >= 0] for q in (result.p, result.q)]
        spans = [60 * minutes for minutes in MINUTES]
        wearers[subject] = [[round(float(np.mean(each[:span])), 4) for each in correct] for span in spans]
    return {"method": registry.RECOMMENDED, "minutes": MINUTES, "raw_and_refined": wearers}


def table(path: Path = RESULT) -> str:
    """Return the table of docs/live.md."""
    found = json.loads(path.read_text("utf-8"))
    wearers = found["raw_and_refined"]
    rows = {f"`{name}` ({subject})": wearers[subject] for name, subject in demo.WEARERS.items()}
    mean = np.mean(list(wearers.values()), axis=0)
    rows[f"mean of all {len(wearers)} unseen wearers"] = mean.tolist()
    heads = [f"first {minutes} min of signal" for minutes in found["minutes"]]
    lines = [f"| wearer | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name, pairs in rows.items():
        cells = [f"{100 * raw:.0f} → {100 * refined:.0f} %" for raw, refined in pairs]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
