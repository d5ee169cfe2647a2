"""Segments (runs of windows of one class) and segment-level errors.

Accuracy over windows does not show whether a walk was split in three or a nap was missed. The scheme of Ward et al.
(2011) does: wrong windows are classified by their position in a segment, and true segments are matched with predicted
ones. Both are computed from runs, in a few passes over the stream, for all classes at once.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sight.types import UNLABELLED, Array

#: Kinds of windows, by true class and by predicted class.
TRUE_FRAME_KINDS = ("correct", "deletion", "fragmentation", "underfill_start", "underfill_end")
PREDICTED_FRAME_KINDS = ("insertion", "merge", "overfill_start", "overfill_end")
#: Columns of `SegmentErrors.frames`.
FRAME_KINDS = TRUE_FRAME_KINDS + PREDICTED_FRAME_KINDS
#: Kinds of true segments and of predicted segments.
TRUE_EVENT_KINDS = ("correct", "deleted", "fragmented", "merged", "fragmented_merged")
PREDICTED_EVENT_KINDS = ("inserted", "fragmenting", "merging", "fragmenting_merging")
#: Columns of `SegmentErrors.events`.
EVENT_KINDS = TRUE_EVENT_KINDS + PREDICTED_EVENT_KINDS


class Segments(NamedTuple):
    """Runs of one label in time order, as one array per field; `label` is -1 for unlabelled windows."""

    start_s: Array
    end_s: Array
    label: Array
    windows: Array


def find_segments(labels: Array, time_s: Array, window_s: float, stride_s: float, gap_before_s: Array) -> Segments:
    """Join neighbouring windows of one label into segments that neither overlap nor span a gap.

    Parameters
    ----------
    labels, time_s, gap_before_s
        Class index of each window, its start, and the seconds of missing data before it, (N,).
    window_s, stride_s
        Length of a window and distance between two window starts.

    Notes
    -----
    A segment ends where the next one begins. Before a gap, where the clock is set back, and at the end it ends with
    its last window.

    Examples
    --------
    >>> gap = np.array([0, 0, 0, 60, 0])
    >>> table = find_segments(np.array([2, 2, 0, 0, 0]), np.array([0.0, 1, 2, 64, 65]), 2.0, 1.0, gap)
    >>> table.start_s.tolist(), table.end_s.tolist(), table.label.tolist(), table.windows.tolist()
    ([0.0, 2.0, 64.0], [2.0, 4.0, 67.0], [2, 0, 0], [2, 1, 2])
    """
    labels, time_s = np.asarray(labels), np.asarray(time_s, dtype=np.float64)
    set_back = np.diff(time_s, prepend=time_s[:1]) < 0
    starts = run_starts(labels, np.cumsum((np.asarray(gap_before_s) > 0) | set_back))
    stops = np.append(starts[1:], len(labels)) if len(labels) else starts
    own_end_s = time_s[stops - 1] + max(window_s, stride_s)
    next_start_s = np.append(time_s[starts[1:]], np.inf) if len(labels) else own_end_s
    next_start_s = np.where(next_start_s > time_s[starts], next_start_s, np.inf)
    return Segments(time_s[starts], np.minimum(own_end_s, next_start_s), labels[starts], stops - starts)


def run_starts(labels: Array, stretch: Array) -> Array:
    """Return the index of the first window of each run; a run ends where the label or the stretch changes."""
    change = (labels[1:] != labels[:-1]) | (stretch[1:] != stretch[:-1])
    return np.flatnonzero(np.concatenate([[len(labels) > 0], change]))


def labelled_stretches(truth: Array, gap_before_s: Array | None) -> tuple[Array, Array]:
    """Return the indices of labelled windows, and for each the number of its stretch.

    A stretch is a range of labelled windows without a gap or an unlabelled window between them.
    """
    unlabelled = truth == UNLABELLED
    breaks = unlabelled if gap_before_s is None else unlabelled | (np.asarray(gap_before_s) > 0)
    labelled = np.flatnonzero(~unlabelled)
    return labelled, np.cumsum(breaks)[labelled]


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentErrors:
    """Number of windows and of segments by class and kind of error."""

    frames: Array  # (K, 9), columns FRAME_KINDS
    events: Array  # (K, 9), columns EVENT_KINDS

    def summary(self) -> dict[str, float]:
        """Return sums over classes: ``frames_*`` as shares of all windows, ``events_*`` as counts."""
        frames = dict(zip(FRAME_KINDS, self.frames.sum(axis=0).tolist(), strict=True))
        total = max(int(self.frames[:, :5].sum()), 1)
        for kind in ("underfill", "overfill"):
            frames[kind] = frames.pop(f"{kind}_start") + frames.pop(f"{kind}_end")
        shares = {f"frames_{kind}": count / total for kind, count in frames.items()}
        counts = zip(EVENT_KINDS, self.events.sum(axis=0).tolist(), strict=True)
        return shares | {f"events_{kind}": float(count) for kind, count in counts}


def segment_errors(truth: Array, predicted: Array, n_classes: int, gap_before_s: Array | None = None) -> SegmentErrors:
    """Classify every wrong window and every segment by the kind of error.

    Parameters
    ----------
    truth, predicted
        Class indices, (N,); unlabelled windows (-1 in `truth`) are ignored.
    n_classes
        K.
    gap_before_s
        Seconds of missing data before each window; a gap ends a segment, as does an unlabelled window.

    Notes
    -----
    A wrong window of a true segment is a *deletion* if no window of the segment is correct, an *underfill* before the
    first or after the last correct one, and a *fragmentation* in between. A wrong window of a predicted segment is an
    *insertion*, an *overfill* or a *merge* by the same rules. Each wrong window therefore counts once for its true and
    once for its predicted class. A true segment is *fragmented* if several predicted segments overlap it, and *merged*
    if one of these also overlaps another true segment; the predicted segments involved are *fragmenting* and *merging*.

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
    truth, predicted = np.asarray(truth), np.asarray(predicted)
    labelled, stretch = labelled_stretches(truth, gap_before_s)
    truth, predicted = truth[labelled], predicted[labelled]
    correct = truth == predicted
    true_starts, predicted_starts = run_starts(truth, stretch), run_starts(predicted, stretch)
    true_frames = _count(truth, _position_in_run(true_starts, correct), n_classes)
    predicted_frames = _count(predicted, _position_in_run(predicted_starts, correct), n_classes)[:, 1:]
    true_kind, predicted_kind = _match(true_starts, predicted_starts, correct)
    true_events = _count(truth[true_starts], true_kind, n_classes)
    predicted_events = _count(predicted[predicted_starts], predicted_kind, n_classes)[:, 1:]
    return SegmentErrors(
        frames=np.hstack([true_frames, predicted_frames]), events=np.hstack([true_events, predicted_events])
    )


def _count(label: Array, kind: Array, n_classes: int) -> Array:
    return np.bincount(label * 5 + kind, minlength=5 * n_classes).reshape(n_classes, 5)


def _position_in_run(starts: Array, correct: Array) -> Array:
    """Return 0 for a correct window; for a wrong one 1 in a run without correct windows, 2 between correct windows.

    Wrong windows before the first correct one of their run are 3, those after the last are 4.
    """
    n = len(correct)
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    index = np.arange(n)
    lengths = np.diff(np.append(starts, n))
    first = np.repeat(np.minimum.reduceat(np.where(correct, index, n), starts), lengths)
    last = np.repeat(np.maximum.reduceat(np.where(correct, index, -1), starts), lengths)
    return np.select([correct, last < 0, index < first, index > last], [0, 1, 3, 4], default=2)


def _match(true_starts: Array, predicted_starts: Array, correct: Array) -> tuple[Array, Array]:
    """Return the kind of each true and predicted run: 0 one to one, 1 unmatched, 2 fragmentation, 3 merge, 4 both."""
    n = len(correct)
    true_run, predicted_run = _run_numbers(true_starts, n), _run_numbers(predicted_starts, n)
    # Two runs overlap in one contiguous piece, so the first window of each correct piece identifies one pair of runs.
    is_start = np.zeros(n, dtype=bool)
    is_start[true_starts] = is_start[predicted_starts] = True
    pairs = np.flatnonzero(is_start & correct)
    true_of, predicted_of = true_run[pairs], predicted_run[pairs]
    true_matches = np.bincount(true_of, minlength=len(true_starts))  # predicted runs that overlap each true run
    predicted_matches = np.bincount(predicted_of, minlength=len(predicted_starts))
    merged = np.bincount(true_of, weights=predicted_matches[predicted_of] > 1, minlength=len(true_starts)) > 0
    fragmenting = np.bincount(predicted_of, weights=true_matches[true_of] > 1, minlength=len(predicted_starts)) > 0
    return (
        _event_kind(true_matches, true_matches > 1, merged),
        _event_kind(predicted_matches, fragmenting, predicted_matches > 1),
    )


def _run_numbers(starts: Array, n: int) -> Array:
    return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, n)))


def _event_kind(matches: Array, fragments: Array, merges: Array) -> Array:
    return np.select([matches == 0, fragments & merges, fragments, merges], [1, 4, 2, 3], default=0)
