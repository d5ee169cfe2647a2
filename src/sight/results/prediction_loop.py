"""The evaluation loop: windows of a stream through an adapter, in time order; labels are never passed to it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sight import __version__
from sight.base import Adapter
from sight.results.smoothing import require_smoothable, smoothed
from sight.types import Array, Result, Windows

#: Windows that are encoded at once if the method has no chunk of its own.
ENCODE_AT_ONCE = 512
#: A gap after which no belief is left, unless the method ignores gaps; what was learned stays.
FORGOTTEN_S = 1e9


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
        Number of later windows that each prediction may use; see `sight.results.smoothing.smoothed`. Infinity is the
        whole recording: the adapter processes it twice, the second time with what it learned, before predictions are
        smoothed and settled (`Adapter.settle`). `on_predictions` gets those of the first time, without lag.
    """
    require_smoothable(adapter.name, lag)
    size, twice = adapter.chunk or at_once, math.isinf(lag)
    pieces = list(_predictions(adapter, windows, encoded, size, on_predictions, keep_features=twice))
    if twice and pieces:
        features = [piece.z for piece in pieces if piece.z is not None]
        encoded = encoded or (np.concatenate(features), np.concatenate([piece.p for piece in pieces]))
        adapter.gap(FORGOTTEN_S)
        pieces = list(_predictions(adapter, windows, encoded, size))
    classes = tuple(adapter.source.classes)
    empty = np.empty((0, len(classes)), adapter.source.weight.dtype)
    keys = pieces[0].trace if pieces else ()
    result = Result(
        method=adapter.name,
        params=adapter.params(),
        classes=classes,
        p=np.concatenate([piece.p for piece in pieces] or [empty]),
        q=np.concatenate([piece.q for piece in pieces] or [empty]),
        windows=windows,
        trace={key: np.concatenate([piece.trace[key] for piece in pieces]) for key in keys},
        rule=adapter.rule,
        notes=list(adapter.notes()),
        state_bytes=adapter.state_bytes(),
        parts_are_ours=adapter.needs.completed,
        sight_version=__version__,
    )
    if not lag:
        return result
    result = smoothed(result, lag)
    return replace(result, q=adapter.settle(result.p, result.q)) if twice else result


class _Piece(NamedTuple):
    z: Array | None  # None unless features are kept
    p: Array
    q: Array
    trace: dict[str, Array]


def _predictions(
    adapter: Adapter,
    windows: Windows,
    encoded: tuple[Array, Array] | None,
    size: int,
    on_predictions: Callable[[int, Array, Array], None] | None = None,
    *,
    keep_features: bool = False,
) -> Iterator[_Piece]:
    for piece in split_at_gaps(windows.gap_before_s, size):
        report_gap(adapter, windows.gap_before_s, piece)
        x = windows.x[piece]
        z, p = (part[piece] for part in encoded) if encoded else adapter.source.encode(x)
        q = adapter.predict(x, z, p)
        _require_finite(adapter.name, p, q, piece.start)
        if on_predictions:
            on_predictions(piece.stop, p, q)
        yield _Piece(z if keep_features else None, p, q, dict(adapter.trace()))


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
