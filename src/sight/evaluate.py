"""The one loop: a stream through an adapter. Labels stay outside it and join the answers afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from sight._version import __version__
from sight.base import Adapter, OutputAdapter
from sight.registry import method as make_method
from sight.smoothing import require_smoothable, smoothed
from sight.sources.features import FeatureSource
from sight.types import Array, Result, SourceStats, Windows

#: Windows encoded at once where the method does not ask for a chunk of its own.
ENCODE_AT_ONCE = 256


def refine(
    z: Array,
    p: Array,
    weight: Array,
    *,
    method: str,
    gap_before_s: Array | None = None,
    stats: SourceStats | None = None,
    **fields: Any,
) -> Array:
    """Refine a stream of features and probabilities, for people who bring nothing else.

    Parameters
    ----------
    z, p
        Features (N, D) and probabilities (N, K) of one wearer in time order.
    weight
        Rows of the linear head that turned one into the other, (K, D); answers come in its float type.
    method
        Registry name, such as "sight" or "sticky".
    gap_before_s
        Seconds missing before each window, (N,); the method is told of each above 0.
    stats
        What training left, for methods that can use it.
    fields
        Hyper-parameters of the method.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> q = refine(rng.normal(size=(5, 8)), np.full((5, 3), 1 / 3), rng.normal(size=(3, 8)), method="sight", tau=0.1)
    >>> q.shape
    (5, 3)
    """
    adapter = make_method(method, **fields)
    if not isinstance(adapter, OutputAdapter):
        raise TypeError(f"{method} works on the network itself, not on features; wrap a torch model and use step(x).")
    adapter.bind(FeatureSource(weight, stats=stats))
    z, p = adapter._checked(np.asarray(z), np.asarray(p))
    gaps = np.zeros(len(p)) if gap_before_s is None else np.asarray(gap_before_s)
    if gaps.shape != (len(p),):
        raise ValueError(f"Expected gap_before_s of shape ({len(p)},), got {gaps.shape}; one entry per window.")
    rows = [np.empty((0, len(weight)), adapter.source.weight.dtype)]
    for piece in stretches(gaps, adapter.chunk):
        _tell_gap(adapter, gaps, piece)
        rows.append(adapter.refine(z[piece], p[piece]))
    return np.concatenate(rows)


def run(
    adapter: Adapter,
    windows: Windows,
    *,
    encoded: tuple[Array, Array] | None = None,
    on_predictions: Callable[[int, Array, Array], None] | None = None,
    at_once: int = ENCODE_AT_ONCE,
    lag: float = 0,
) -> Result:
    """Send a person's windows through a bound adapter in time order.

    Parameters
    ----------
    adapter
        Bound; it goes on from the state it is in.
    windows
        Labels in them are carried to the result and seen by nobody.
    encoded
        What the source answers on these windows, where it is known already; saves encoding them for each method.
    on_predictions
        Called with the number of windows answered so far, and the raw and refined probabilities of the latest.
    at_once
        Windows encoded at once where the method does not ask for a chunk of its own.
    lag
        Windows after its own that an answer of the result has seen, infinity for all, as `sight.smoothing.smoothed` has
        it; `on_predictions` hears those given at once.
    """
    require_smoothable(adapter.name, lag)
    pieces: list[tuple[Array, Array, dict[str, Array]]] = []
    for piece in stretches(windows.gap_before_s, adapter.chunk or at_once):
        _tell_gap(adapter, windows.gap_before_s, piece)
        x = windows.x[piece]
        z, p = (part[piece] for part in encoded) if encoded else adapter.source.encode(x)
        q = adapter.refine(z, p) if isinstance(adapter, OutputAdapter) else adapter.step(x)
        pieces.append((p, q, dict(adapter.trace())))
        if on_predictions:
            on_predictions(piece.stop, p, q)
    classes = tuple(adapter.source.classes)
    empty = np.empty((0, len(classes)), adapter.source.weight.dtype)
    keys = pieces[0][2] if pieces else ()
    result = Result(
        method=adapter.name,
        params=adapter.params(),
        classes=classes,
        p=np.concatenate([piece[0] for piece in pieces] or [empty]),
        q=np.concatenate([piece[1] for piece in pieces] or [empty]),
        windows=windows,
        trace={key: np.concatenate([piece[2][key] for piece in pieces]) for key in keys},
        facts={
            "sight_version": __version__,
            "rule": adapter.rule,
            "state_bytes": adapter.state_bytes(),
            "notes": list(adapter.notes()),
            "completed": adapter.needs.completed,
        },
    )
    return smoothed(result, lag) if lag else result


def stretches(gap_before_s: Array, at_most: int | None) -> Iterator[slice]:
    """Cut a stream before every gap, and into pieces of at most so many windows.

    Examples
    --------
    >>> [(s.start, s.stop) for s in stretches(np.array([0, 0, 9, 0, 0]), 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    n = len(gap_before_s)
    edges = [0, *(i for i in np.flatnonzero(gap_before_s).tolist() if i > 0), n]
    for start, stop in pairwise(edges):
        size = at_most or max(stop - start, 1)
        for first in range(start, stop, size):
            yield slice(first, min(first + size, stop))


def _tell_gap(adapter: Adapter, gap_before_s: Array, piece: slice) -> None:
    if gap_before_s[piece.start] > 0:
        adapter.gap(float(gap_before_s[piece.start]))
