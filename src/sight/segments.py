"""Answers as segments: runs of one activity, and the errors people see in them.

A share of right windows does not tell whether a walk was cut in three or a nap was missed. The scheme of Ward et al.
does: windows of an error are sorted by where they lie in their event, and whole events are matched. Both follow here
from runs alone, in a few passes over the stream, for all classes at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sight.types import UNLABELLED, Array

#: Columns of `SegmentErrors.frames`: first five by true class, last four by answered class.
FRAME_KINDS = (
    "correct",
    "deletion",
    "fragmentation",
    "underfill_start",
    "underfill_end",
    "insertion",
    "merge",
    "overfill_start",
    "overfill_end",
)
#: Columns of `SegmentErrors.events`: first five count true events, last four answered ones.
EVENT_KINDS = (
    "correct",
    "deleted",
    "fragmented",
    "merged",
    "fragmented_merged",
    "inserted",
    "fragmenting",
    "merging",
    "fragmenting_merging",
)


class Segments(NamedTuple):
    """Runs of one label in time order, one entry a run; `label` is -1 where nothing was labelled."""

    start_s: Array
    end_s: Array
    label: Array
    windows: Array


def segments(labels: Array, time_s: Array, window_s: float, stride_s: float, gap_before_s: Array) -> Segments:
    """Join windows of one label into segments that neither overlap nor span a gap.

    Parameters
    ----------
    labels, time_s, gap_before_s
        Class index, start and missing seconds before each window, (N,).
    window_s, stride_s
        Length of a window and distance between two.

    Notes
    -----
    A segment ends where the next begins; before a gap, where its last window ends.

    Examples
    --------
    >>> gap = np.array([0, 0, 0, 60, 0])
    >>> table = segments(np.array([2, 2, 0, 0, 0]), np.array([0.0, 1, 2, 64, 65]), 2.0, 1.0, gap)
    >>> table.start_s.tolist(), table.end_s.tolist(), table.label.tolist(), table.windows.tolist()
    ([0.0, 2.0, 64.0], [2.0, 4.0, 67.0], [2, 0, 0], [2, 1, 2])
    """
    labels, time_s = np.asarray(labels), np.asarray(time_s, dtype=np.float64)
    starts = run_starts(labels, np.cumsum(np.asarray(gap_before_s) > 0))
    stops = np.append(starts[1:], len(labels)) if len(labels) else starts
    covered = time_s[stops - 1] + max(window_s, stride_s)
    following = np.append(time_s[starts[1:]], np.inf) if len(labels) else covered
    return Segments(time_s[starts], np.minimum(covered, following), labels[starts], stops - starts)


def run_starts(labels: Array, stretch: Array) -> Array:
    """Index of the first window of each run; a run ends where the label or the stretch changes.

    Examples
    --------
    >>> run_starts(np.array([1, 1, 1, 0]), np.array([0, 0, 1, 1])).tolist()
    [0, 2, 3]
    """
    change = (labels[1:] != labels[:-1]) | (stretch[1:] != stretch[:-1])
    return np.flatnonzero(np.concatenate([[len(labels) > 0], change]))


def labelled_stretches(truth: Array, gap_before_s: Array | None) -> tuple[Array, Array]:
    """Give the indices of labelled windows, and for each a number that changes over gaps and unlabelled windows."""
    unlabelled = truth == UNLABELLED
    broken = unlabelled if gap_before_s is None else unlabelled | (np.asarray(gap_before_s) > 0)
    kept = np.flatnonzero(~unlabelled)
    return kept, np.cumsum(broken)[kept]


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentErrors:
    """Errors of a stream seen as segments.

    Parameters
    ----------
    frames
        Windows of each class and kind, (K, 9), columns `FRAME_KINDS`.
    events
        Events of each class and kind, (K, 9), columns `EVENT_KINDS`.
    """

    frames: Array
    events: Array

    def rates(self) -> Array:
        """Frames as shares, (K, 9): of the windows of a class (first five), of all others (last four)."""
        true = self.frames[:, :5].sum(axis=1)
        of = np.where(np.arange(len(FRAME_KINDS)) < 5, true[:, None], (true.sum() - true)[:, None])
        share: Array = self.frames / np.maximum(of, 1)
        return share

    def summary(self) -> dict[str, float]:
        """Sum over classes: ``frames_*`` as shares of all windows, ``events_*`` as counts."""
        frames = dict(zip(FRAME_KINDS, self.frames.sum(axis=0).tolist(), strict=True))
        total = max(int(self.frames[:, :5].sum()), 1)
        for kind in ("underfill", "overfill"):
            frames[kind] = frames.pop(f"{kind}_start") + frames.pop(f"{kind}_end")
        shares = {f"frames_{kind}": count / total for kind, count in frames.items()}
        counts = zip(EVENT_KINDS, self.events.sum(axis=0).tolist(), strict=True)
        return shares | {f"events_{kind}": float(count) for kind, count in counts}


def segment_errors(truth: Array, answer: Array, n_classes: int, gap_before_s: Array | None = None) -> SegmentErrors:
    """Sort every wrong window and every event by the kind of error.

    Parameters
    ----------
    truth, answer
        Class indices, (N,); unlabelled windows (-1 in `truth`) count for nothing.
    n_classes
        K.
    gap_before_s
        Seconds missing before each window; a gap ends an event, and so does an unlabelled window.

    Notes
    -----
    A wrong window of a true event is a *deletion* if the event has no right window at all, an *underfill* before its
    first or after its last right one, a *fragmentation* in between. A wrong window of an answered event is likewise
    an *insertion*, an *overfill* or a *merge*. So each wrong window counts once for the true and once for the
    answered class. A true event is *fragmented* if several answered events overlap it, *merged* if one that does
    also overlaps another true event; the answered events involved are *fragmenting* and *merging*.

    References
    ----------
    J. A. Ward, P. Lukowicz, H.-W. Gellersen. Performance metrics for activity recognition. ACM TIST 2(1), 2011.
    doi:10.1145/1889681.1889687

    Examples
    --------
    >>> errors = segment_errors(np.array([0, 0, 0, 0, 1, 1]), np.array([0, 1, 0, 0, 0, 1]), n_classes=2)
    >>> {kind: n for kind, n in zip(EVENT_KINDS, errors.events[0].tolist()) if n}
    {'fragmented': 1, 'fragmenting': 2}
    >>> {kind: n for kind, n in zip(FRAME_KINDS, errors.frames[1].tolist()) if n}
    {'correct': 1, 'underfill_start': 1, 'insertion': 1}
    """
    truth, answer = np.asarray(truth), np.asarray(answer)
    kept, stretch = labelled_stretches(truth, gap_before_s)
    truth, answer = truth[kept], answer[kept]
    hit = truth == answer
    true_starts, answer_starts = run_starts(truth, stretch), run_starts(answer, stretch)
    missed = _count(truth, _place_in_run(true_starts, hit), n_classes)
    spurious = _count(answer, _place_in_run(answer_starts, hit), n_classes)[:, 1:]
    true_kind, answer_kind = _match(true_starts, answer_starts, hit)
    found = _count(truth[true_starts], true_kind, n_classes)
    given = _count(answer[answer_starts], answer_kind, n_classes)[:, 1:]
    return SegmentErrors(frames=np.hstack([missed, spurious]), events=np.hstack([found, given]))


def _count(label: Array, kind: Array, n_classes: int) -> Array:
    return np.bincount(label * 5 + kind, minlength=5 * n_classes).reshape(n_classes, 5)


def _place_in_run(starts: Array, hit: Array) -> Array:
    """For each window: 0 hit, else 1 run without hits, 2 between hits, 3 before the first, 4 after the last."""
    n = len(hit)
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    index = np.arange(n)
    lengths = np.diff(np.append(starts, n))
    first = np.repeat(np.minimum.reduceat(np.where(hit, index, n), starts), lengths)
    last = np.repeat(np.maximum.reduceat(np.where(hit, index, -1), starts), lengths)
    return np.select([hit, last < 0, index < first, index > last], [0, 1, 3, 4], default=2)


def _match(true_starts: Array, answer_starts: Array, hit: Array) -> tuple[Array, Array]:
    """For each run of either side: 0 one to one, 1 no partner, 2 fragmentation, 3 merge, 4 both."""
    true_run, answer_run = _run_of(true_starts, len(hit)), _run_of(answer_starts, len(hit))
    # Two runs overlap in one unbroken piece, so the first window of each piece of hits is one pair.
    begins = np.zeros(len(hit), dtype=bool)
    begins[true_starts] = begins[answer_starts] = True
    meets = np.flatnonzero(begins & hit)
    true_of, answer_of = true_run[meets], answer_run[meets]
    partners = np.bincount(true_of, minlength=len(true_starts))  # answered runs that overlap each true one
    guests = np.bincount(answer_of, minlength=len(answer_starts))
    merged = np.bincount(true_of, weights=guests[answer_of] > 1, minlength=len(true_starts)) > 0
    fragmenting = np.bincount(answer_of, weights=partners[true_of] > 1, minlength=len(answer_starts)) > 0
    return _event_kind(partners, partners > 1, merged), _event_kind(guests, fragmenting, guests > 1)


def _run_of(starts: Array, n: int) -> Array:
    return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n)))


def _event_kind(partners: Array, fragments: Array, merges: Array) -> Array:
    return np.select([partners == 0, fragments & merges, fragments, merges], [1, 4, 2, 3], default=0)
