"""The evaluation loop: windows of a stream through an adapter, in time order; labels are never passed to it."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from sight import __version__
from sight.base import Adapter
from sight.results.smoothing import require_smoothable, smoothed
from sight.types import Array, Result, Windows

#: Windows that are encoded at once if the method has no chunk of its own.
ENCODE_AT_ONCE = 512


def run(
    adapter: Adapter,
    windows: Windows,
    *,
    encoded: tuple[Array, Array] | None = None,
    on_predictions: Callable[[int, Array, Array], None] | None = None,
    at_once: int = ENCODE_AT_ONCE,
    lag: float = 0,
) -> Result:
    """Return the predictions of a bound adapter for windows in time order.

    Parameters
    ----------
    adapter
        Bound to a source; continues from its present state.
    windows
        Windows of one person. Their labels are passed on to the result and not used.
    encoded
        Features and probabilities of these windows, if they are known already.
    on_predictions
        Called with the number of windows done, and raw and refined probabilities of the latest piece.
    at_once
        Windows that are encoded at once if the method has no chunk of its own.
    lag
        Number of later windows that each prediction may use, infinity for all; see `sight.results.smoothing.smoothed`.
        `on_predictions` gets the predictions without lag.
    """
    require_smoothable(adapter.name, lag)
    done: list[tuple[Array, Array, dict[str, Array]]] = []
    for piece in split_at_gaps(windows.gap_before_s, adapter.chunk or at_once):
        report_gap(adapter, windows.gap_before_s, piece)
        x = windows.x[piece]
        z, p = (part[piece] for part in encoded) if encoded else adapter.source.encode(x)
        q = adapter.predict(x, z, p)
        _require_finite(adapter.name, p, q, piece.start)
        done.append((p, q, dict(adapter.trace())))
        if on_predictions:
            on_predictions(piece.stop, p, q)
    classes = tuple(adapter.source.classes)
    empty = np.empty((0, len(classes)), adapter.source.weight.dtype)
    keys = done[0][2] if done else ()
    result = Result(
        method=adapter.name,
        params=adapter.params(),
        classes=classes,
        p=np.concatenate([p for p, _, _ in done] or [empty]),
        q=np.concatenate([q for _, q, _ in done] or [empty]),
        windows=windows,
        trace={key: np.concatenate([trace[key] for _, _, trace in done]) for key in keys},
        rule=adapter.rule,
        notes=list(adapter.notes()),
        state_bytes=adapter.state_bytes(),
        parts_are_ours=adapter.needs.completed,
        sight_version=__version__,
    )
    return smoothed(result, lag) if lag else result


def _require_finite(method: str, p: Array, q: Array, first: int) -> None:
    for who, values in (("the model", p), (method, q)):
        finite = np.isfinite(values).all(axis=1)
        if not finite.all():
            raise ValueError(
                f"Expected finite probabilities, but {who} returned NaN or infinity for window "
                f"{first + int(np.argmin(finite))}; check the model file and its training."
            )


def split_at_gaps(gap_before_s: Array, at_most: int | None) -> Iterator[slice]:
    """Cut a stream before every gap, and into pieces of at most `at_most` windows."""
    n = len(gap_before_s)
    edges = [0, *(i for i in np.flatnonzero(gap_before_s).tolist() if i > 0), n]
    for start, stop in pairwise(edges):
        size = at_most or max(stop - start, 1)
        for first in range(start, stop, size):
            yield slice(first, min(first + size, stop))


def report_gap(adapter: Adapter, gap_before_s: Array, piece: slice) -> None:
    if gap_before_s[piece.start] > 0:
        adapter.gap(float(gap_before_s[piece.start]))
