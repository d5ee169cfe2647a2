"""Train source models without one class, and measure which score separates windows of that class from the others.

Run as ``python -m benchmarks.keel.unknown_classes RESULTS``. For each class of a setting the first pooled source is
trained without it, and the windows of all other subjects are scored. Writes RESULTS/unknown_classes.csv.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.version_and_date import version_and_date

from sight._util.parallel import map_unordered
from sight.apps.bench.analyses import area_under_curve
from sight.apps.bench.settings import load_setting, short_name
from sight.apps.bench.source_models import batch_size
from sight.datasets import load, windows_of

SETTINGS = ("hapt-total-pooled",)
#: Factor from cosines to logits, close to the head's margin that Keel uses (16 to 20 on HAPT).
SCALE = 20
#: Share of windows of known classes below the threshold.
COST = 0.05


def measure(setting_name: str, left_out: int, device: str) -> list[dict[str, Any]]:
    """Train a source model without one class, and return a row for each score."""
    from sight.models.train import one_thread, train

    setting = load_setting(setting_name)
    dataset = load(setting.dataset, **setting.options)
    subjects = {name: windows_of(dataset, name, **setting.windowing) for name in dataset.subjects()}
    inside, _ = setting.pairs[0]
    sources = [subjects.pop(name) for name in inside]
    x = np.concatenate([own.x for own in sources])
    y = np.concatenate([own.label for own in sources])
    kept = (y >= 0) & (y != left_out)
    classes = [name for k, name in enumerate(dataset.classes) if k != left_out]
    with one_thread():
        source = train(
            (x[kept], y[kept] - (y[kept] > left_out)),
            classes,
            epochs=setting.epochs,
            batch=batch_size(setting.batch, sources),
            device=device,
            rate_hz=sources[0].x.shape[2] / sources[0].window_s,
        ).to("cpu")
        found = [(scores(*source.encode(own.x), source), own.label != left_out) for own in subjects.values()]
    rows = []
    for name in found[0][0]:
        areas = [area_under_curve(values[name][known], values[name][~known]) for values, known in found]
        values = np.concatenate([values[name] for values, _ in found])
        known = np.concatenate([known for _, known in found])
        detected = (values[~known] < np.quantile(values[known], COST)).mean()
        row = {"setting": setting_name, "left_out": dataset.classes[left_out], "score": name}
        rows.append(row | {"auroc": np.nanmean(areas), "unknown_detected_at_5_percent_false_alarms": detected})
    return rows


def scores(z: np.ndarray, p: np.ndarray, source: Any) -> dict[str, np.ndarray]:
    """Return scores of the windows of a stream; higher means more likely a known class."""
    from sight.methods.keel import Keel

    stats, weight, bias = source.stats, np.asarray(source.weight), np.asarray(source.bias)
    away, means = z - stats.feature_mean, stats.class_means - stats.feature_mean
    cosines = unit(away) @ unit(means).T
    square = (away**2).sum(axis=1)[:, None] - 2 * away @ means.T + (means**2).sum(axis=1)
    second = np.exp(SCALE * (cosines - cosines.max(axis=1, keepdims=True)))
    return {
        "max p": p.max(axis=1),
        "max q": Keel().bind(source).refine(z, p).max(axis=1),
        "energy": np.logaddexp.reduce(z @ weight.T + bias, axis=1),
        "distance": -np.sqrt(np.maximum(square, 0)).min(axis=1),
        "cosine": cosines.max(axis=1),
        "agreement": np.minimum(p, second / second.sum(axis=1, keepdims=True)).sum(axis=1),
    }


def unit(rows: np.ndarray) -> np.ndarray:
    """Scale rows to length 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def main() -> None:
    """Measure every class of the settings, and write the rows and their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    work = []
    for name in given.settings:
        setting = load_setting(name)
        classes = load(setting.dataset, **setting.options).classes
        work += [(name, left_out, given.device) for left_out in range(len(classes))]
    found: dict[int, list[dict[str, Any]]] = {}
    for index, rows in map_unordered(measure, work, jobs=given.jobs):
        found[index] = rows
        print(len(found), len(work), short_name(rows[0]["setting"]), "without", rows[0]["left_out"], flush=True)
    table = pd.DataFrame([row for index in sorted(found) for row in found[index]])
    means = table.groupby(["setting", "score"], sort=False).mean(numeric_only=True).reset_index()
    table = pd.concat([table, means.assign(left_out="mean")]).assign(**version_and_date())
    table.to_csv(given.results / "unknown_classes.csv", index=False, float_format="%.3f", lineterminator="\n")


if __name__ == "__main__":
    main()
