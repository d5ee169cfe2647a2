"""Analyses of one method on one stream: scores of its predictions, and its feature space at activity changes.

Each analysis takes a bound adapter, the windows in the order of the trial and the source's encoding of them, and
returns plain numbers and lists. Labels are used here, after prediction; the adapter never receives one.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sight._util.confusion import accuracy, balanced_accuracy, confusion
from sight.base import Adapter, OutputAdapter
from sight.methods.ops import unit
from sight.results.metrics import score_result
from sight.results.prediction_loop import run
from sight.results.segments import run_starts
from sight.types import UNLABELLED, Array, Windows

Encoded: TypeAlias = tuple[Array, Array]
Figures: TypeAlias = dict[str, Any]

#: Edges of the histograms of similarity.
EDGES = np.linspace(-1, 1, 81)
#: Windows before and after a change for which the deviation is recorded.
AROUND = 8


def compare(adapter: Adapter, windows: Windows, encoded: Encoded, lag: float = 0) -> Figures:
    return score_result(run(adapter, windows, encoded=encoded, lag=lag))["refined"]


def classes(adapter: Adapter, windows: Windows, encoded: Encoded) -> Figures:
    """Score each class of a subject as a separate stream without changes; the adapter is reset before each.

    ``accuracy`` is over all windows, ``balanced_accuracy`` over streams.
    """
    label, predicted = windows.label, np.full(len(windows), UNLABELLED)
    for k in np.unique(label[label != UNLABELLED]):
        own = np.flatnonzero(label == k)
        time_s, gaps = np.arange(len(own)) * windows.stride_s, np.zeros(len(own))
        stream = replace(windows, x=windows.x[own], label=label[own], time_s=time_s, gap_before_s=gaps, wear=None)
        predicted[own] = run(adapter.reset(), stream, encoded=(encoded[0][own], encoded[1][own])).q.argmax(axis=1)
    table = confusion(label, predicted, len(adapter.source.classes))
    scores = {"accuracy": accuracy(table), "balanced_accuracy": balanced_accuracy(table)}
    return scores | {"streams": int(table.any(axis=1).sum()), "confusion": table.tolist()}


def geometry(adapter: Adapter, windows: Windows, encoded: Encoded) -> Figures:
    """Measure whether features leave the expected state at a change, and towards the new class.

    The expected state is the unit-length mixture of the adapted prototypes weighted by the belief, both from before
    the window. ``auc`` is the probability that a window inside a segment is more similar to it than one right after a
    change; ``auc_true`` uses the head's row of the true previous class as the expectation, which excludes errors of
    the belief. ``routing_top1`` is the share of changes at which the direction to the new class's prototype is the one
    of all K best aligned with the feature's deviation; ``raw_top1`` is the source model's accuracy there.
    """
    label, (z, p) = windows.label, encoded
    similarity, alignment = _similarities(adapter, encoded)
    change, inside = _changes(label)
    at_change, new = alignment[change[1:]], label[change]
    routed = (at_change > np.take_along_axis(at_change, new[:, None], axis=1)).sum(axis=1)  # classes better aligned
    anchors = unit(np.asarray(adapter.source.weight))
    given_truth = (unit(z[1:]) * anchors[label[:-1]]).sum(axis=1)
    classes = p.shape[1]
    return {
        "inside": int(inside.sum()),
        "changes": int(change.sum()),
        "histogram_inside": np.histogram(similarity[inside[1:]], EDGES)[0].tolist(),
        "histogram_change": np.histogram(similarity[change[1:]], EDGES)[0].tolist(),
        "similarity_inside": _mean(similarity[inside[1:]]),
        "similarity_change": _mean(similarity[change[1:]]),
        "auc": area_under_curve(similarity[inside[1:]], similarity[change[1:]]),
        "auc_true": area_under_curve(given_truth[inside[1:]], given_truth[change[1:]]),
        "routing_top1": _mean(routed == 0),
        "routing_top2": _mean(routed <= 1),
        "raw_top1": _mean(p[change].argmax(axis=1) == label[change]),
        "chance": 1 / classes,
    }


def prototypes(adapter: Adapter, windows: Windows, encoded: Encoded) -> Figures:
    """Measure the similarity of each prototype to the subject's class centroid, in its first and last segment.

    The centroid is the mean unit feature of a class over the whole stream, by true label. The value of a segment is
    the mean over its windows of the cosine between centroid and prototype before each window. Classes with fewer than
    two segments are NaN. ``prototype_source`` is the cosine of the head's row.
    """
    label, classes = windows.label, len(adapter.source.classes)
    z = unit(encoded[0])
    present = [k for k in range(classes) if (label == k).any()]
    centroid = np.zeros((classes, z.shape[1]))
    centroid[present] = [z[label == k].mean(axis=0) for k in present]
    centroid = unit(centroid)
    cosines = np.array([(step.prototypes * centroid).sum(axis=1) for step in _walk(adapter, encoded)])  # (N - 1, K)
    starts = run_starts(label, np.zeros(len(label)))
    stops = np.append(starts[1:], len(label))
    first, last, count = np.full(classes, np.nan), np.full(classes, np.nan), np.zeros(classes, dtype=int)
    for k in present:
        segments = [(a, b) for a, b in zip(starts, stops, strict=True) if label[a] == k and b > 1]
        means = [cosines[max(a, 1) - 1 : b - 1, k].mean() for a, b in segments]
        count[k] = len(means)
        if len(means) >= 2:
            first[k], last[k] = means[0], means[-1]
    anchors = unit(np.asarray(adapter.source.weight))
    start = np.where(np.isin(np.arange(classes), present), (anchors * centroid).sum(axis=1), np.nan)
    return {
        "prototype_first": first.tolist(),
        "prototype_last": last.tolist(),
        "prototype_source": start.tolist(),
        "prototype_segments": count.tolist(),
    }


def motivation(adapter: Adapter, windows: Windows, encoded: Encoded) -> Figures:
    """Count transitions of true and predicted classes, and measure the feature's deviation around each change.

    ``deviation_*`` are sum and count of 1 - cos(feature, expected state) at each distance from a change, from eight
    windows before to eight after; only windows of the two adjacent segments count. ``towards_*`` is the mean cosine
    between the deviation and the direction to a prototype, right after a change.
    """
    label, classes = windows.label, len(adapter.source.classes)
    similarity, alignment = _similarities(adapter, encoded)
    change, _ = _changes(label)
    towards = list(zip(alignment[change[1:]], label[change], label[:-1][change[1:]], strict=True))
    others = [np.delete(a, [new, old]).max() for a, new, old in towards if classes > 2]
    sums, counts = _around(np.append(np.nan, 1 - similarity), label, np.flatnonzero(change))
    return {
        "transitions_true": _transitions(label, classes).tolist(),
        "transitions_raw": _transitions(encoded[1].argmax(axis=1), classes).tolist(),
        "changes": int(change.sum()),
        "deviation_sum": sums.tolist(),
        "deviation_count": counts.tolist(),
        "towards_new": _mean(np.array([a[new] for a, new, _ in towards])),
        "towards_old": _mean(np.array([a[old] for a, _, old in towards])),
        "towards_best_other": _mean(np.array(others)),
    }


ANALYSES: dict[str, Callable[..., Figures]] = {
    "compare": compare,
    "classes": classes,
    "geometry": geometry,
    "prototypes": prototypes,
    "motivation": motivation,
}


class Step(NamedTuple):
    """State before a window: prototypes (K, D), similarity to the expected state, alignment with each class (K,)."""

    prototypes: Array
    similarity: float
    alignment: Array


def _walk(adapter: Adapter, encoded: Encoded) -> Iterator[Step]:
    """Run SIGHT window by window, and yield the state before each window but the first."""
    if not isinstance(adapter, OutputAdapter) or adapter.class_prototypes() is None:
        raise TypeError(f"Expected a method with prototypes, such as sight, got {adapter.name}.")
    z, p = encoded
    belief = adapter.refine(z[:1], p[:1])[0]
    for at in range(1, len(z)):
        bank = unit(np.asarray(adapter.class_prototypes(), np.float64))
        expected, feature = unit(bank.T @ belief), unit(z[at].astype(np.float64))
        alignment = unit(bank - expected) @ unit(feature - expected)
        yield Step(bank, float(feature @ expected), alignment)
        belief = adapter.refine(z[at : at + 1], p[at : at + 1])[0]


def _similarities(adapter: Adapter, encoded: Encoded) -> tuple[Array, Array]:
    """Return similarity (N - 1,) to the expected state and alignment (N - 1, K); prototypes are too large to keep."""
    steps = [(step.similarity, step.alignment) for step in _walk(adapter, encoded)]
    alignment = np.array([a for _, a in steps]).reshape(len(steps), encoded[1].shape[1])
    return np.array([s for s, _ in steps]), alignment


def _changes(label: Array) -> tuple[Array, Array]:
    """Return masks of windows right after a true change and of windows inside a segment, (N,) each."""
    labelled = (label[1:] != UNLABELLED) & (label[:-1] != UNLABELLED)
    differs = label[1:] != label[:-1]
    return np.append(False, labelled & differs), np.append(False, labelled & ~differs)


def _transitions(label: Array, classes: int) -> Array:
    before, after = label[:-1], label[1:]
    labelled = (after != UNLABELLED) & (before != UNLABELLED)
    return np.bincount(before[labelled] * classes + after[labelled], minlength=classes**2).reshape(classes, classes)


def _around(values: Array, label: Array, changes: Array) -> tuple[Array, Array]:
    """Sum and count values by distance from a change; windows beyond the next change are excluded."""
    sums, counts = np.zeros(2 * AROUND + 1), np.zeros(2 * AROUND + 1, dtype=int)
    edges = run_starts(label, np.zeros(len(label)))
    stops = np.append(edges[1:], len(label))
    for at in changes.tolist():
        here = int(np.searchsorted(edges, at, side="right")) - 1
        for index in range(max(int(edges[here - 1]), at - AROUND), min(int(stops[here]), at + AROUND + 1)):
            if np.isfinite(values[index]):
                sums[index - at + AROUND] += values[index]
                counts[index - at + AROUND] += 1
    return sums, counts


def area_under_curve(higher: Array, lower: Array) -> float:
    """Return the probability that a value of the first exceeds one of the second, ties as half; NaN if one is empty."""
    if not len(higher) or not len(lower):
        return float("nan")
    ordered = np.sort(lower)
    below, upto = (np.searchsorted(ordered, higher, side=side) for side in ("left", "right"))
    return float((below + upto).mean() / (2 * len(lower)))


def _mean(values: Array) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
