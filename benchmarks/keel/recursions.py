"""Keel and the learned sticky filter as compiled recursions over the K numbers of a window, with switches.

The files that `benchmarks.keel.projections` writes hold all that these methods use of a window, so that one set of
values over all settings takes seconds. `tests/benchmarks/test_keel_recursions.py` compares the recursion with the
package's method.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit

from sight.apps.bench.simulated_days import DOMINATED, day_stream
from sight.methods.keel import Keel
from sight.methods.keel.method import vetoed
from sight.methods.keel.reference import coverage
from sight.methods.keel.state import BROAD, CERTAIN, HIGHEST_RAISE, LEAST_COVERAGE

#: Fields that the recursion takes in this order, and those that are applied before.
STEP = (
    *("align", "debias", "penalty", "highest_raise", "guard", "least", "surprise", "bound"),
    *("temper", "hazard", "rate", "patience"),
)
FIELDS = tuple(name for name in Keel().params() if name != "gap_half_life_s")
#: The defaults of the method, and its constants as switches.
DEFAULTS = {name: float(getattr(Keel(), name)) for name in FIELDS}
DEFAULTS |= {"highest_raise": HIGHEST_RAISE, "guard": 1.0, "least": LEAST_COVERAGE, "bound": CERTAIN}
FILTER_ONLY = DEFAULTS | {"align": 0.0, "debias": 0.0, "veto": 0.0}


@dataclass
class Model:
    """One source model: evidence of all windows from its head and from its class means, and constants."""

    setting: str
    seed: int
    sedentary: list[int]  # classes of which one fills a day
    head: np.ndarray  # (N, K)
    cosine: np.ndarray  # (N, K)
    head_mean: np.ndarray
    cosine_mean: np.ndarray
    prior: np.ndarray
    labels: list[np.ndarray]
    edges: np.ndarray
    subjects: set[int]


@dataclass
class Stream:
    """Windows of one target in one order; `kind` is "recording", "by activity" or a kind of day."""

    kind: str
    target: int
    rows: np.ndarray
    labels: np.ndarray


def read(path: Path) -> Model:
    """Read one model's projections."""
    found = np.load(path)
    length = np.sqrt(np.maximum(np.diag(found["gram"]), 1e-12))
    cosines, seen = found["gram"] / length / length[:, None], found["prior"] > 0
    scale = _margin(found["class_logits"], seen) / _margin(cosines, seen)
    away = found["along"].astype(np.float64) / np.sqrt(found["square"])[:, None]
    prior = np.maximum(found["prior"].astype(np.float64), 1e-6)
    edges, classes = np.cumsum(found["counts"]), found["classes"].tolist()
    return Model(
        setting=str(found["setting"]),
        seed=int(found["seed"]),
        sedentary=[classes.index(name) for name in found["sedentary"]],
        head=_centred(found["logits"].astype(np.float64)),
        cosine=scale * _centred(away),
        head_mean=_centred(found["mean_logits"].astype(np.float64)),
        cosine_mean=scale * _centred(found["prior"] @ cosines),
        prior=prior / prior.sum(),
        labels=np.split(found["labels"], edges[:-1]),
        edges=np.r_[0, edges],
        subjects=set(found["subjects"].tolist()),
    )


def streams(model: Model, half: int) -> Iterator[Stream]:
    """Yield the recording of each target of a half, USC-HAD also sorted by activity, then the days."""
    for i in range(half, len(model.labels), 2):
        y, first = model.labels[i], model.edges[i]
        if i in model.subjects or not len(y):
            continue
        yield Stream("recording", i, np.arange(first, model.edges[i + 1]), y)
        if model.setting.startswith("uschad"):
            order = np.argsort(y, kind="stable")
            yield Stream("by activity", i, first + order, y[order])
        for kind in DOMINATED:
            for dominating in model.sedentary:
                index = day_stream(y, kind, i, dominating=dominating)
                if index is not None:
                    yield Stream(kind, i, first + index, y[index])


def run_keel(model: Model, rows: np.ndarray, fields: dict[str, float], lag: float = 0) -> np.ndarray:
    """Return Keel's labels (N,) of a stream, with the hyper-parameters and switches of `fields`."""
    share, size = fields["prototypes"], len(model.prior)
    method = Keel(**{key: fields[key] for key in ("align", "debias", "penalty", "pooled")})
    scaled = fields | method.correction(len(model.subjects))
    evidence = (1 - share) * model.head[rows] + share * model.cosine[rows]
    expected = (1 - share) * model.head_mean + share * model.cosine_mean
    counts, total, numbers = np.zeros(size), np.zeros(size), np.array([0.0, fields["hazard"], 0.0, 0.0, 0.0, 0.0])
    for _ in range(2 if math.isinf(lag) else 1):  # the second time with what was learned
        values = (scaled[key] for key in STEP)
        beliefs, changes = keel(evidence, expected, model.prior, *values, counts, total, numbers)
    if lag:
        beliefs = smooth(beliefs, changes, int(min(lag, len(beliefs))))
    labels: np.ndarray = beliefs.argmax(axis=1)
    ratio = fields["veto"] / len(model.subjects)
    if math.isinf(lag) and ratio and coverage(beliefs.mean(axis=0)) < BROAD:
        raw = model.head[rows].argmax(axis=1)
        labels = np.where(vetoed(raw, labels, ratio, size), raw, labels)
    return labels


def run_sticky_learned(model: Model, rows: np.ndarray, lag: float = 0) -> np.ndarray:
    """Return the labels (N,) of the learned sticky filter."""
    return _smoothed(*sticky_learned(model.head[rows], 0.9, 0.02), lag)


def run_sticky(model: Model, rows: np.ndarray) -> np.ndarray:
    """Return the labels (N,) of the sticky filter."""
    return _smoothed(*sticky_learned(model.head[rows], 0.9, 0.0), 0)


def _smoothed(q: np.ndarray, change: np.ndarray, lag: float) -> np.ndarray:
    beliefs: np.ndarray = smooth(q, change, int(min(lag, len(q)))) if lag else q
    return beliefs.argmax(axis=1)


@njit(cache=True)
def smooth(q, change, lag):
    """Return `sight.results.smoothing.backward` of beliefs (N, K), compiled; a lag of N uses all windows."""
    n, size = q.shape
    smoothed = q.copy()
    for t in range(n - 2 if lag >= n else n - 1, -1, -1):
        last = t + 1 if lag >= n else min(n - 1, t + lag)
        following = smoothed[t + 1] if lag >= n else q[last]
        for u in range(last - 1, t - 1, -1):
            r = change[u + 1]
            ratio = following / np.maximum((1 - r) * q[u] + r / size, 1e-300)
            following = q[u] * ((1 - r) * ratio + r / size * ratio.sum())
            following = following / following.sum()
        smoothed[t] = following
    return smoothed


@njit(cache=True)
def keel(
    evidence,
    expected,
    prior,
    align,
    debias,
    penalty,
    highest_raise,
    guard,
    least,
    surprise,
    bound,
    temper,
    first,
    rate,
    patience,
    counts,
    total,
    numbers,
):
    """Return beliefs (N, K) and probabilities of a change (N,); `sight.methods.keel` explains the steps.

    Sums of predictions and evidence (K,), and count, hazard, near, spread, far and pairs are updated in place.
    """
    n, size = evidence.shape
    beliefs, changes, belief = np.empty((n, size)), np.zeros(n), np.full(size, 1 / size)
    count, hazard, near, spread, far, pairs = numbers
    for t in range(n):
        x = evidence[t]
        shares = (counts + patience * prior) / (count + patience)
        strength = 1.0
        if guard > 0:
            entropy = 0.0
            for value in counts:
                if value > 0:
                    entropy -= value / count * np.log(value / count)
            strength = max(max(np.exp(entropy) - 1, 0.0) / (size - 1) - least, 0.0) / (1 - least)
        excess = np.maximum(np.minimum(debias * np.log(shares / prior), penalty), -highest_raise)
        corrected = x - strength * (align * (total - count * expected) / (count + patience) + excess)
        e = np.exp(corrected - corrected.max())
        e /= e.sum()
        if count == 0:
            belief = e
        else:
            change = hazard
            if surprise > 0 and t > 0:
                step = 0.5 * np.log(((x - evidence[t - 1]) ** 2).sum() + 1e-6)
                if pairs >= 5:
                    deviation = np.sqrt((spread + 1.25) / (pairs + 5))
                    delta = max((far - near) / deviation, 0.0)
                    factor = surprise * delta * ((step - near) / deviation - delta / 2)
                    odds = hazard / (1 - hazard) * np.exp(min(max(factor, -bound), bound))
                    change = odds / (1 + odds)
                pairs += 1
                before = near
                near += (step - near) / pairs
                spread += (step - before) * (step - near)
                far += (0.5 * np.log(2 * ((x - total / count) ** 2).sum() + 1e-6) - far) / pairs
            e = e ** (temper + (1 - temper) * min(1.0, hazard / first))
            stayed = (1 - change) * belief * e
            belief = stayed + change / size * e
            whole = belief.sum()
            belief = belief / whole if whole > 1e-30 else e / e.sum()
            if rate > 0:
                drawn = change * (shares * e).sum()
                target = drawn / max(drawn + stayed.sum(), 1e-30)
                hazard = min(max(hazard + max(rate, 1 / (20 + count)) * (target - hazard), 0.01), 0.95)
            changes[t] = change
        counts += belief
        total += x
        count += 1
        beliefs[t] = belief
    numbers[:] = count, hazard, near, spread, far, pairs
    return beliefs, changes


@njit(cache=True)
def sticky_learned(evidence, stay, rate):
    """Return beliefs (N, K) and probabilities of a change (N,) of the sticky filter; a rate of 0 keeps `stay`."""
    n, size = evidence.shape
    beliefs, changes, belief = np.empty((n, size)), np.zeros(n), np.full(size, 1 / size)
    for t in range(n):
        p = np.exp(evidence[t] - evidence[t].max())
        p /= p.sum()
        if t == 0:
            belief = p
        else:
            changes[t] = 1 - stay
            stayed, fresh = stay * (p * belief).sum(), (1 - stay) * p.mean()
            belief = p * (stay * belief + (1 - stay) / size)
            belief /= belief.sum()
            stay = min(max(stay + rate * (stayed / (stayed + fresh) - stay), 0.5), 0.998)
        beliefs[t] = belief
    return beliefs, changes


def _centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean(axis=-1, keepdims=True)


def _margin(scores: np.ndarray, seen: np.ndarray) -> float:
    """Return the mean lead of each class mean's own score over the best other score."""
    others = np.where(np.eye(len(scores), dtype=bool), -np.inf, scores).max(axis=1)
    return float((np.diag(scores) - others)[seen].mean())
