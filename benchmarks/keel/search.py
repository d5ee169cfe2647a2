"""Evaluate Keel's hyper-parameters on development subjects over the projections of every model.

Fields are changed one at a time (sensitivity.csv), and those that decide between recordings and days together, for
pooled and single sources (correction_search.csv).

Run as ``python -m benchmarks.keel.search WINDOWS PROJECTIONS RESULTS``. A compiled copy of the method's recursion works
on K numbers per window, so that one value over all nine settings takes seconds. Gains are computed for the recordings
(macro-F1) and for days that one sedentary class fills (accuracy, `sight.apps.bench.day_streams`).
"""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.keel.evaluate import MARGIN, SETTINGS
from numba import njit

from sight.apps.bench.day_streams import DOMINATED, day_stream
from sight.apps.bench.settings import load_setting
from sight.methods.keel import Keel
from sight.methods.keel.state import LEAST_COVERAGE
from sight.results import metrics

#: Fields that the recursion takes, and those that are applied before.
STEP = ("align", "debias", "penalty", "guard", "doubt", "surprise", "temper", "hazard", "rate", "patience")
FIELDS = ("prototypes", "pooled", *STEP)
#: Values of this version and of version 0.1; `least` is the coverage up to which nothing is corrected.
DEFAULTS = {name: float(getattr(Keel(), name)) for name in FIELDS} | {"least": LEAST_COVERAGE}
VERSION_0_1 = DEFAULTS | {"prototypes": 0.3, "align": 0.6, "debias": 2.5, "hazard": 0.1}
VERSION_0_1 |= {"penalty": 99.0, "pooled": 1.0, "least": 0.0}  # without effect
#: Settings of the benchmark whose sedentary classes fill the days of a dataset.
SEDENTARY = {
    "extrasensory": "extrasensory-pooled",
    "hugadb": "hugadb-single",
    "hapt-total": "hapt-total-single",
    "hapt-body": "hapt-body-single",
    "wisdm": "wisdm-single",
}
GRID = {
    "prototypes": (0.0, 0.6),
    "align": (0.0, 0.8),
    "debias": (0.0,),
    "penalty": (0.0, 99.0),
    "pooled": (0.0, 1.0),
    "guard": (0.0,),
    "least": (0.0,),
    "doubt": (0.0,),
    "surprise": (0.0,),
    "temper": (1.0,),
    "rate": (0.0,),
}

#: Fields that are changed together; `pooled` for pooled sources only.
JOINT = {
    "prototypes": (0.3, 0.4, 0.5),
    "debias": (2.5, 4.0, 6.0),
    "penalty": (0.5, 1.0),
    "hazard": (0.1, 0.2),
    "pooled": (0.4, 0.5, 0.6, 1.0),
}


@dataclass
class Model:
    """One source model: evidence of all windows from its head and from its class means, and constants."""

    setting: str
    classes: list[str]
    head: np.ndarray  # (N, K)
    cosine: np.ndarray  # (N, K)
    head_mean: np.ndarray
    cosine_mean: np.ndarray
    prior: np.ndarray
    labels: list[np.ndarray]
    edges: np.ndarray
    subjects: set[int]


def centred(values: np.ndarray) -> np.ndarray:
    """Subtract the mean over classes."""
    return values - values.mean(axis=-1, keepdims=True)


def margin(scores: np.ndarray, seen: np.ndarray) -> float:
    """Return the mean lead of each class mean's own score over the best other score."""
    others = np.where(np.eye(len(scores), dtype=bool), -np.inf, scores).max(axis=1)
    return float((np.diag(scores) - others)[seen].mean())


def read(path: Path, windows: Path) -> Model:
    """Read one model's projections."""
    dataset, kind, *_ = path.stem.split("_")
    facts, found = json.loads((windows / f"{dataset}.json").read_text()), np.load(path)
    length = np.sqrt(np.maximum(np.diag(found["gram"]), 1e-12))
    cosines, seen = found["gram"] / length / length[:, None], found["prior"] > 0
    scale = margin(found["class_logits"], seen) / margin(cosines, seen)
    away = found["along"].astype(np.float64) / np.sqrt(found["square"])[:, None]
    prior = np.maximum(found["prior"].astype(np.float64), 1e-6)
    return Model(
        setting=f"{dataset}_{kind}",
        classes=facts["classes"],
        head=centred(found["logits"].astype(np.float64)),
        cosine=scale * centred(away),
        head_mean=centred(found["mean_logits"].astype(np.float64)),
        cosine_mean=scale * centred(found["prior"] @ cosines),
        prior=prior / prior.sum(),
        labels=[np.array(labels) for labels in facts["labels"]],
        edges=np.r_[0, np.cumsum(facts["counts"])],
        subjects=set(found["subjects"].tolist()),
    )


@njit(cache=True)
def keel(
    evidence, expected, prior, align, debias, penalty, guard, doubt, surprise, temper, hazard, rate, patience, least
):
    """Return the labels (N,) of one subject's evidence (N, K); `sight.methods.keel` explains the steps."""
    n, size = evidence.shape
    belief, counts, total = np.full(size, 1 / size), np.zeros(size), np.zeros(size)
    labels, first = np.empty(n, np.int64), hazard
    near = spread = far = doubts = 0.0
    for t in range(n):
        x = evidence[t]
        shares = (counts + patience * prior) / (t + patience)
        e = np.exp(x - x.max())
        doubts += 1 - 1 / e.sum()
        strength = 1.0
        if guard > 0:
            seen = counts[counts > 0] / max(t, 1)
            covered = max(np.exp(-(seen * np.log(seen)).sum()) - 1, 0.0) / (size - 1)
            strength = max(covered - least, 0.0) / (1 - least)
        if doubt > 0:
            strength *= min(1.0, (doubts / doubt + patience) / (t + 1 + patience))
        excess = np.minimum(debias * np.log(shares / prior), penalty)
        x = x - strength * (align * (total - t * expected) / (t + patience) + excess)
        e = np.exp(x - x.max())
        e /= e.sum()
        if t == 0:
            belief = e
        else:
            change = hazard
            if surprise > 0:
                step = 0.5 * np.log(((evidence[t] - evidence[t - 1]) ** 2).sum() + 1e-6)
                if t > 5:
                    deviation = np.sqrt((spread + 1.25) / (t + 4))
                    delta = max((far - near) / deviation, 0.0)
                    sudden = surprise * delta * ((step - near) / deviation - delta / 2)
                    odds = hazard / (1 - hazard) * np.exp(min(max(sudden, -50.0), 50.0))
                    change = odds / (1 + odds)
                before = near
                near += (step - near) / t
                spread += (step - before) * (step - near)
                far += (0.5 * np.log(2 * ((evidence[t] - total / t) ** 2).sum() + 1e-6) - far) / t
            e = e ** (temper + (1 - temper) * min(1.0, hazard / first))
            stayed = (1 - change) * belief * e
            belief = stayed + change / size * e
            belief /= belief.sum()
            if rate > 0:
                drawn = change * (shares * e).sum()
                target = drawn / max(drawn + stayed.sum(), 1e-30)
                hazard = min(max(hazard + max(rate, 1 / (20 + t)) * (target - hazard), 0.01), 0.95)
        counts, total = counts + belief, total + evidence[t]
        labels[t] = np.argmax(belief)
    return labels


def streams(model: Model, half: int) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Yield kind, dominating class, rows and labels of each stream of a half: the recording, then the days."""
    setting = load_setting(SEDENTARY[model.setting.split("_")[0]])
    for i in range(half, len(model.labels), 2):
        if i in model.subjects:
            continue
        y, first = model.labels[i], model.edges[i]
        yield "recording", "", np.arange(first, model.edges[i + 1]), y
        for kind in DOMINATED:
            for name in setting.sedentary:
                index = day_stream(y, kind, i, dominating=model.classes.index(name))
                if index is not None:
                    yield kind, name, first + index, y[index]


def score(y: np.ndarray, labels: np.ndarray, classes: int) -> tuple[float, float]:
    """Return accuracy and macro-F1 in points."""
    table = metrics.confusion(y, labels, classes)
    return 100 * metrics.accuracy(table), 100 * metrics.macro_f1_union(table)


def predict(model: Model, rows: np.ndarray, _: np.ndarray, *, fields: dict[str, float]) -> np.ndarray:
    """Return Keel's labels of one stream; the truth, the third argument, is not used."""
    share = fields["prototypes"]
    correction = Keel(**{key: fields[key] for key in ("align", "debias", "penalty", "pooled")})
    scaled = fields | correction.correction(len(model.subjects))
    evidence = (1 - share) * model.head[rows] + share * model.cosine[rows]
    expected = (1 - share) * model.head_mean + share * model.cosine_mean
    labels: np.ndarray = keel(evidence, expected, model.prior, *(scaled[key] for key in (*STEP, "least")))
    return labels


def gains(models: list[Model], methods: dict[str, Callable[..., np.ndarray]], half: int = 0) -> list[dict[str, Any]]:
    """Return a row for each stream with the gain in accuracy and macro-F1 of each method over source-only."""
    found = []
    for model in models:
        for kind, dominating, rows, y in streams(model, half):
            before = score(y, model.head[rows].argmax(axis=1), len(model.prior))
            sitting = dominating in ("sitting", "sit")
            row: dict[str, Any] = {"setting": model.setting, "kind": kind, "sitting": sitting}
            for name, method in methods.items():
                after = score(y, method(model, rows, y), len(model.prior))
                row[name] = tuple(new - old for new, old in zip(after, before, strict=True))
            found.append(row)
    return found


def summarise(rows: list[dict[str, Any]], name: str) -> dict[str, float]:
    """Return the figures of one method: macro-F1 on the recordings, accuracy on the days, means over settings."""

    def values(kinds: Sequence[str], score: int, sitting: bool = False) -> dict[str, np.ndarray]:
        chosen = [row for row in rows if row["kind"] in kinds and row["sitting"] >= sitting]
        by = {s: [row[name][score] for row in chosen if row["setting"] == s] for s in SETTINGS}
        return {setting: np.array(gained) for setting, gained in by.items() if gained}

    recordings, days = values(["recording"], 1), values([*DOMINATED], 0)
    sitting = values([*DOMINATED], 0, sitting=True)
    all_days, sitting_days = (np.concatenate(list(found.values())) for found in (days, sitting))
    means = {setting: float(gained.mean()) for setting, gained in recordings.items()}
    harmed = 100 * float((np.concatenate(list(recordings.values())) < -MARGIN).mean())
    figures = means | {"mean": float(np.mean(list(means.values()))), "harmed_percent": harmed}
    for kind in DOMINATED:
        figures[kind] = float(np.mean([gained.mean() for gained in values([kind], 0).values()]))
    return figures | {
        "days": float(np.mean([gained.mean() for gained in days.values()])),
        "days_harmed_percent": 100 * float((all_days < -MARGIN).mean()),
        "days_worst_percentile": float(np.percentile(all_days, 1)),
        "days_worst": float(all_days.min()),
        "sitting": float(np.mean([gained.mean() for gained in sitting.values()])),
        "sitting_harmed_percent": 100 * float((sitting_days < -MARGIN).mean()),
    }


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as CSV; numbers with two decimals."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: f"{value:.2f}" if isinstance(value, float) else value for key, value in row.items()} for row in rows
        )


def main() -> None:
    """Write a row for the defaults and each change of one field, and rows for each combination of `JOINT`."""
    windows, projections, results = (Path(name) for name in sys.argv[1:4])
    models = [read(path, windows) for path in sorted(projections.glob("*.npz"))]
    changes = [("defaults", ""), *((key, value) for key, values in GRID.items() for value in values)]
    methods = {
        f"{key} {value}": partial(predict, fields=DEFAULTS | ({} if key == "defaults" else {key: value}))
        for key, value in changes
    }
    rows = gains(models, methods)
    write(
        results / "sensitivity.csv",
        [{"field": key, "value": value, **summarise(rows, f"{key} {value}")} for key, value in changes],
    )
    found = []
    for sources, grid in {"pooled": JOINT, "single": JOINT | {"pooled": (1.0,)}}.items():
        joint = {str(values): dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())}
        chosen = [model for model in models if (len(model.subjects) > 1) == (sources == "pooled")]
        rows = gains(chosen, {name: partial(predict, fields=DEFAULTS | fields) for name, fields in joint.items()})
        for name, fields in joint.items():
            figures = {key: value for key, value in summarise(rows, name).items() if key not in SETTINGS}
            found.append({"sources": sources} | fields | figures)
    write(results / "correction_search.csv", found)


if __name__ == "__main__":
    main()
