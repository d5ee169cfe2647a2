"""Streams with the class shares and bout lengths of free-living days, built from the windows of one subject.

A stream is a sequence of bouts. A bout of a class continues where the last bout of that class ended in the subject's
recorded order, and starts again at the first window after the last one, so windows repeat. Lengths of bouts are
geometric, the exponential distribution in whole windows; the first bout is drawn so that every position of the stream
has the same expected shares.
"""

from collections.abc import Sequence

import numpy as np

from sight.types import Array

#: Windows of a stream, and of each day of a week.
LENGTH, DAY = 1200, 600
#: Mean windows of a bout, except for those of the class that dominates.
BOUT = 30
#: Smallest number of windows that a subject needs of a class for it to be part of a stream.
MIN_WINDOWS = 5
#: Orders in which each sedentary class in turn dominates, with its share.
DOMINATED = {"day-60": 0.60, "day-80": 0.80, "day-94": 0.94}
#: Shares of sitting, of standing, and of all other classes in a waking day of adults: 10.4, 3.1 and 1.5 + 1.3 of 16.3
#: hours (ProPASS consortium: Blodgett et al., European Heart Journal, 2024).
TIME_USE = (0.64, 0.19, 0.17)
#: Share of the first sedentary class on each day of a week.
WEEK = (0.7,) * 5 + (0.4,) * 2
ORDERS = (*DOMINATED, "time-use", "partial", "week")
#: Orders that need the sedentary classes of a setting.
SEDENTARY = (*DOMINATED, "time-use", "week")


def day_stream(
    labels: Array, kind: str, seed: int | Sequence[int], *, dominating: int = -1, standing: int = -1
) -> Array | None:
    """Return the window of a subject at each position of a stream; None if the subject lacks windows for it.

    `labels` are the class indices of the subject's windows in recorded order, (N,), negative if unlabelled; `kind` is
    one of `ORDERS`. The class `dominating` fills the largest share, for all kinds but "partial"; `standing` is the
    class of standing, for "time-use". The same arguments return the same stream.
    """
    rng = np.random.default_rng(seed)
    present = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=1) >= MIN_WINDOWS)
    others = present[present != dominating]
    if len(present) < 2 or (kind != "partial" and dominating not in present):
        return None
    if kind == "partial":
        kept = rng.choice(present, max(2, round(len(present) / 3)), replace=False)
        classes = _equal(rng, kept)
    elif kind == "time-use":
        if standing not in others or len(others) < 2:
            return None
        sitting, upright, rest = TIME_USE
        weights = np.where(others == standing, upright, rest / (len(others) - 1))
        classes = _dominated(rng, LENGTH, dominating, sitting, others, weights / weights.sum())
    elif kind == "week":
        classes = np.concatenate([_dominated(rng, DAY, dominating, share, others) for share in WEEK])
    else:
        classes = _dominated(rng, LENGTH, dominating, DOMINATED[kind], others)
    return _recorded_order(classes, labels)


def _dominated(
    rng: np.random.Generator, length: int, dominating: int, share: float, others: Array, weights: Array | None = None
) -> Array:
    """Return classes (length,): bouts of one class in turn with bouts of the others, drawn by weight."""
    bouts: list[Array] = []
    dominates, filled = bool(rng.random() < share), 0
    while filled < length:
        own = dominating if dominates else rng.choice(others, p=weights)
        bouts.append(np.full(rng.geometric(1 / (BOUT * share / (1 - share) if dominates else BOUT)), own))
        dominates, filled = not dominates, filled + len(bouts[-1])
    return np.concatenate(bouts)[:length]


def _equal(rng: np.random.Generator, kept: Array) -> Array:
    """Return classes (LENGTH,) in bouts of equal mean length; each bout is followed by another class."""
    bouts: list[Array] = []
    own, filled = rng.choice(kept), 0
    while filled < LENGTH:
        bouts.append(np.full(rng.geometric(1 / BOUT), own))
        own, filled = rng.choice(kept[kept != own]), filled + len(bouts[-1])
    return np.concatenate(bouts)[:LENGTH]


def _recorded_order(classes: Array, labels: Array) -> Array:
    """Return window indices for a sequence of classes: each class's windows in recorded order, again and again."""
    index = np.empty(len(classes), dtype=np.intp)
    for own in np.unique(classes):
        at, windows = np.flatnonzero(classes == own), np.flatnonzero(labels == own)
        index[at] = windows[np.arange(len(at)) % len(windows)]
    return index
