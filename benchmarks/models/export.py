"""Export the trained models with complete cards into the package.

``models FITTED``, with the folder of `fit` and the datasets in ``SIGHT_DATA``, writes
``src/sight/models/bundled/NAME.onnx`` and ``benchmarks/results/models/scores.csv``. ``scores FITTED ...`` writes only
the scores, to that file and to the cards of the models, from one or several folders; ``selection FITTED ...`` writes
those of the variants to ``selection.csv``. ``ranges`` computes again the ranges of layers for int8 in the models.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import onnx
from benchmarks.models.fit import METHODS, remount
from benchmarks.models.pack import PACKED
from benchmarks.models.specs import MODELS, VARIANTS, Spec

from sight._util.atomic import write_atomic
from sight.datasets import load
from sight.models.bundled import FOLDER
from sight.models.card import ModelCard
from sight.models.export.int8 import store_ranges
from sight.models.export.onnx import export_onnx
from sight.models.onnx import CARD
from sight.models.torch import TorchSource
from sight.models.training_domain import describe
from sight.recordings.recording_collection import windows_of

RESULTS = Path("benchmarks/results/models")
#: Of so many windows of a subject, one is used for the ranges of the layers.
EVERY = 20
#: Orientations of training as the out-of-domain check names them.
DOMAIN_MOUNTS = {"none": "fixed", "tilt": "fixed", "wrist": "wrist", "any": "any"}
AUGMENTATION = {
    "tilt": "random tilt of about 14 degrees, scale by 5 %",
    "wrist": "x and y swapped, any axis flipped, random tilt of about 14 degrees, scale by 5 %: the model works for "
    "either wrist and for devices worn either way round, as long as z is normal to the wrist",
}
WRIST_LIMITS = (
    "Trained on scripted activities of students, about 3 minutes each, on the dominant wrist; scores in daily life "
    "are lower. There is no class for lying, sleep, cycling or driving: such time is labelled as one of the classes, "
    "mostly sitting or standing. Sitting and standing are hard to tell apart at the wrist. Not a medical device."
)
TEXTS = {
    "wrist": {
        "title": "Wrist accelerometer, everyday classes",
        "placement": "wrist, either side, z normal to the wrist",
        "limits": WRIST_LIMITS,
    },
    "wrist-18": {
        "title": "Wrist accelerometer, the 18 activities of WISDM",
        "placement": "wrist, either side, z normal to the wrist",
        "limits": f"{WRIST_LIMITS} Kinds of food are often mistaken for each other.",
    },
    "waist": {
        "title": "Phone or accelerometer at the waist",
        "placement": "waist, x along the body: about +1 g when upright",
        "limits": "Trained on scripted activities in a laboratory, about 15 seconds each; scores in daily life are "
        "lower. Adaptation does not help on such short activities. The orientation has to be that of the data. There "
        "is no class for running, cycling or driving. Not a medical device.",
    },
}
LICENCES = {
    "wisdm2019": "CC BY 4.0",
    "hapt": "CC BY 4.0 on the repository's page; the README of the files prohibits commercial use",
}


def about(spec: Spec, dataset: Any) -> dict[str, Any]:
    """Return the entry `about` of a model card, without scores."""
    groups = spec.groups or {name: (name,) for name in dataset.classes}
    return TEXTS[spec.name] | {
        "data": dataset.title,
        "licence": LICENCES[dataset.name],
        "citation": dataset.citation,
        "homepage": dataset.homepage,
        "label_map": {label: group for group, labels in groups.items() for label in labels},
        "subjects": len(dataset.subjects()),
        "augmentation": AUGMENTATION[spec.mounts],
    }


def scores_in_card(scores: list[dict[str, str]]) -> dict[str, Any]:
    """Return the entries of `about` with the scores of a model."""
    return {
        "scores": {method: _summary([row for row in scores if row["method"] == method]) for method in METHODS},
        "scores_of": "subjects who were left out of training, some at a time, in percent; none: the model alone",
    }


def _summary(rows: list[dict[str, str]]) -> dict[str, float]:
    """Return mean and standard deviation over subjects, of windows as recorded."""
    own = [row for row in rows if row["mounting"] == "as recorded"]
    columns = {name: [float(row[name]) for row in own] for name in ("macro_f1", "accuracy")}
    means = {f"{name}_mean": round(mean(values), 1) for name, values in columns.items()}
    return means | {f"{name}_sd": round(stdev(values), 1) for name, values in columns.items()}


def read_data(spec: Spec) -> tuple[Any, dict[str, Any], list[np.ndarray]]:
    """Return the dataset of a model, its options, and the windows of each subject."""
    name, options, window_s, stride_s = PACKED[spec.packed]
    options = options | ({"labels": "coarse"} if spec.groups else {})
    dataset = load(name, **options)
    windows = [windows_of(dataset, who, window_s=window_s, stride_s=stride_s).x for who in dataset.subjects()]
    return dataset, options, windows


def add_ranges(spec: Spec, subjects: list[np.ndarray]) -> None:
    """Store the range of each layer in a model; for a model of any mounting, over windows of other mountings too."""
    given = [x[::EVERY] for x in subjects]
    if spec.mounts == "wrist":
        given += [remount(x, number) for number, x in enumerate(given)]
    path = store_ranges(FOLDER / f"{spec.name}.onnx", np.concatenate(given))
    print(f"{path}: {path.stat().st_size / 1024:.0f} KB", flush=True)


def export(spec: Spec, fitted: Path, scores: list[dict[str, str]]) -> None:
    """Write one model."""
    dataset, options, subjects = read_data(spec)
    source = TorchSource.load(fitted / f"{spec.name}.safetensors")
    assert source.card is not None
    source.card = replace(
        source.card,
        dataset=dataset.name,
        training={**source.card.training, "options": options, "version": "1"},
        about=about(spec, dataset) | scores_in_card(scores),
        domain=describe(subjects, dataset.units, dataset.rate_hz, DOMAIN_MOUNTS[spec.mounts]),
    )
    export_onnx(source, FOLDER / f"{spec.name}.onnx")
    add_ranges(spec, subjects)


def write_scores(folders: Sequence[Path], names: Sequence[str], name: str) -> dict[str, list[dict[str, str]]]:
    """Write the scores of some models in all folders as one file, and return them by model."""
    table: list[dict[str, str]] = []
    for folder in folders:
        with (folder / "scores.csv").open(encoding="utf-8") as file:
            table += [row for row in csv.DictReader(file) if row["model"] in names]
    table.sort(key=lambda row: (names.index(row["model"]), int(row["subject"]), row["mounting"], row["method"]))
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    return {model: [row for row in table if row["model"] == model] for model in names}


def replace_scores(name: str, scores: list[dict[str, str]]) -> None:
    """Replace the scores in the card of a model of the package."""
    path = FOLDER / f"{name}.onnx"
    model = onnx.load(path)
    (entry,) = (entry for entry in model.metadata_props if entry.key == CARD)
    card = ModelCard.from_json(entry.value)
    entry.value = replace(card, about={**card.about, **scores_in_card(scores)}).to_json()
    write_atomic(path, model.SerializeToString())


def main() -> None:
    """Read the command line, and run the action."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("models").add_argument("fitted", type=Path)
    actions.add_parser("scores").add_argument("fitted", type=Path, nargs="+")
    actions.add_parser("selection").add_argument("fitted", type=Path, nargs="+")
    actions.add_parser("ranges")
    given = parser.parse_args()
    if given.action == "models":
        for name, scores in write_scores([given.fitted], list(MODELS), "scores").items():
            export(MODELS[name], given.fitted, scores)
    elif given.action == "scores":
        for name, scores in write_scores(given.fitted, list(MODELS), "scores").items():
            replace_scores(name, scores)
    elif given.action == "selection":
        write_scores(given.fitted, list(VARIANTS), "selection")
    else:
        for model in MODELS.values():
            add_ranges(model, read_data(model)[2])


if __name__ == "__main__":
    main()
