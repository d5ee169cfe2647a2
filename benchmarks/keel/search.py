"""Evaluate Keel's hyper-parameters on development subjects, one field at a time, over the projections of every model.

Run as ``python -m benchmarks.keel.search WINDOWS PROJECTIONS RESULTS``. A compiled copy of the method's recursion works
on K numbers per window, so that one value over all nine settings takes a second. Gains are also computed for partial
coverage: streams in which each subject keeps a random third of the classes.
"""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.keel.evaluate import MARGIN, SETTINGS
from numba import njit

from sight import metrics

DEFAULTS = {
    "prototypes": 0.3,
    "align": 0.6,
    "debias": 2.5,
    "guard": 1.0,
    "doubt": 0.05,
    "surprise": 1.5,
    "temper": 0.3,
    "hazard": 0.1,
    "rate": 0.005,
    "patience": 50.0,
}
GRID = {
    "prototypes": (0.0, 0.2, 0.4, 0.6),
    "align": (0.0, 0.3, 0.8, 1.0),
    "debias": (0.0, 1.5, 2.0, 3.0, 4.0, 6.0),
    "guard": (0.0,),
    "doubt": (0.0, 0.03, 0.07, 0.1),
    "surprise": (0.0, 1.0, 2.0, 3.0),
    "temper": (0.1, 0.5, 1.0),
    "hazard": (0.05, 0.15, 0.2),
    "rate": (0.0, 0.002, 0.01, 0.03),
    "patience": (25.0, 100.0, 200.0),
}


@dataclass
class Model:
    """One source model: evidence of all windows from its head and from its class means, and constants."""

    setting: str
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
def keel(evidence, expected, prior, align, debias, guard, doubt, surprise, temper, hazard, rate, patience):
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
            strength = max(np.exp(-(seen * np.log(seen)).sum()) - 1, 0.0) / (size - 1)
        if doubt > 0:
            strength *= min(1.0, (doubts / doubt + patience) / (t + 1 + patience))
        x = x - strength * (align * (total - t * expected) / (t + patience) + debias * np.log(shares / prior))
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


def gains(models: list[Model], fields: dict[str, float], partial: bool = False) -> dict[str, np.ndarray]:
    """Return the gain in macro-F1 over source-only of every run on a development subject, by setting."""
    share, others = fields["prototypes"], [fields[key] for key in DEFAULTS if key != "prototypes"]
    found: dict[str, list[float]] = {}
    for model in models:
        evidence = (1 - share) * model.head + share * model.cosine
        expected = (1 - share) * model.head_mean + share * model.cosine_mean
        for i in range(0, len(model.labels), 2):
            if i in model.subjects:
                continue
            y, rows = model.labels[i], np.arange(model.edges[i], model.edges[i + 1])
            if partial:
                rng = np.random.default_rng(i)
                kept = rng.choice(np.unique(y), max(2, len(np.unique(y)) // 3), replace=False)
                rows, y = rows[np.isin(y, kept)], y[np.isin(y, kept)]
            labels = keel(evidence[rows], expected, model.prior, *others), model.head[rows].argmax(axis=1)
            new, old = (metrics.macro_f1_union(metrics.confusion(y, own, len(model.prior))) for own in labels)
            found.setdefault(model.setting, []).append(100 * (new - old))
    return {setting: np.array(found[setting]) for setting in SETTINGS if setting in found}


def main() -> None:
    """Print and write a row for the defaults and for each change of one field."""
    windows, projections, results = (Path(name) for name in sys.argv[1:4])
    models = [read(path, windows) for path in sorted(projections.glob("*.npz"))]
    changes = [("", 0.0), *((key, value) for key, values in GRID.items() for value in values)]
    with (results / "sensitivity.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["field", "value", *SETTINGS, "mean", "harmed_percent", "partial_coverage"])
        for key, value in changes:
            fields = DEFAULTS | ({key: value} if key else {})
            full, partial = gains(models, fields), gains(models, fields, partial=True)
            means = [float(gain.mean()) for gain in full.values()]
            harmed = 100 * float((np.concatenate(list(full.values())) < -MARGIN).mean())
            coverage = float(np.mean([gain.mean() for gain in partial.values()]))
            figures = [f"{number:.2f}" for number in (*means, np.mean(means), harmed, coverage)]
            writer.writerow([key or "defaults", value if key else "", *figures])
            print(
                f"{key or 'defaults':10s} {value if key else '':>6} ", " ".join(f"{f:>6s}" for f in figures), flush=True
            )


if __name__ == "__main__":
    main()
