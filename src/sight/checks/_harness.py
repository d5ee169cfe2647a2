"""What a check works with: a method, a source and a stream, and small questions about them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args, get_type_hints

import numpy as np

from sight.base import Adapter, OutputAdapter, Source
from sight.testing import ToySource, toy_network, toy_stream
from sight.types import Array, Windows

#: Windows of the stream that is made where none is given: past the memories of most methods, and no multiple of 32.
LENGTH = 100

#: How far answers may lie apart where floating point takes another way to the same sum.
CLOSE = 1e-4


class CheckFailed(AssertionError):  # noqa: N818 - reads as what happened
    """A method breaks a promise of the contract; the message says which, and how it showed."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A method, the source it is bound to, and a stream for both.

    Parameters
    ----------
    adapter
        The method with the settings to check; it is cloned, never touched.
    given_source, given_stream
        What to check it with; toys where None.
    twin
        The same model as another kind of source, such as its ONNX export.
    """

    adapter: Adapter
    given_source: Source | None = None
    given_stream: Windows | None = None
    twin: Source | None = None

    @cached_property
    def source(self) -> Source:
        """The source, a numpy toy or, for methods that work on the network, a torch toy."""
        if self.given_source is not None:
            return self.given_source
        return ToySource() if isinstance(self.adapter, OutputAdapter) else toy_network()

    @cached_property
    def x(self) -> Array:
        """Windows of the stream, (N, C, T)."""
        windows = toy_stream(n=LENGTH) if self.given_stream is None else self.given_stream
        return windows.x

    def fresh(self) -> Adapter:
        """Return an adapter of its own, bound and unused."""
        return self.unbound().bind(self.source)

    def unbound(self) -> Adapter:
        """Return an adapter of its own that knows no source."""
        return dataclasses.replace(self.adapter)

    def rules(self) -> list[Case]:
        """Return the case under each streaming rule that the method offers as a field, the usual one first."""
        usual = {field.name: field.default for field in dataclasses.fields(self.adapter)}.get("rule")
        if usual in (None, dataclasses.MISSING):
            return [self]
        offered = dict.fromkeys((usual, *get_args(get_type_hints(type(self.adapter))["rule"])))
        ruled = (self.adapter.clone(rule=rule) for rule in offered)
        return [dataclasses.replace(self, adapter=adapter, given_source=self.source) for adapter in ruled]

    def demand(self, kept: bool | np.bool_, message: str) -> None:
        """Fail with the method's name and a sentence unless the promise was kept."""
        if not kept:
            raise CheckFailed(f"{self.adapter.name}: {message}")


def size_of_piece(adapter: Adapter, x: Array) -> int:
    """Windows of a step: as many as the method wants, and at most a third of the stream."""
    return max(1, min(adapter.chunk or len(x), len(x) // 3))


def pieces(adapter: Adapter, x: Array) -> Iterator[Array]:
    """Cut a stream into steps; the last one is short."""
    size = size_of_piece(adapter, x)
    return (x[t : t + size] for t in range(0, len(x), size))


def parts(x: Array, count: int) -> list[Array]:
    """Cut a stream into so many parts."""
    return [np.ascontiguousarray(part) for part in np.array_split(x, count)]


def answers(adapter: Adapter, x: Array) -> Array:
    """Send a stream through an adapter, cut as it wants it."""
    return np.concatenate([adapter.step(piece) for piece in pieces(adapter, x)])


def probable(case: Case, q: Array, windows: int, when: str) -> None:
    """Demand finite probabilities, one row for each of so many windows."""
    shape = (windows, len(case.source.weight))
    case.demand(q.shape == shape, f"answers with shape {q.shape} {when}, expected {shape}; one row per window.")
    case.demand(q.dtype.kind == "f", f"answers with type {q.dtype} {when}, expected floats.")
    case.demand(np.isfinite(q).all(), f"answers with NaN or infinity {when}; guard divisions and logarithms.")
    case.demand(
        (q >= 0).all(), f"answers with negative probabilities {when}, the least {q.min() if q.size else 0:.3g}."
    )
    off = float(np.abs(q.sum(axis=1) - 1).max(initial=0))
    case.demand(off <= CLOSE, f"answers with rows that do not sum to 1 {when}, off by {off:.2g}; normalise them.")


def finite_state(case: Case, adapter: Adapter, when: str) -> None:
    """Demand a state that could be stored."""
    spoilt = [key for key, value in adapter.state().items() if value.dtype.kind == "f" and not np.isfinite(value).all()]
    case.demand(not spoilt, f"holds NaN or infinity in {', '.join(spoilt)} {when}; restore would refuse it.")


def refuses(case: Case, adapter: Adapter, what: str, attempt: Callable[[], Any]) -> str:
    """Demand a ValueError, and a state as it was; return what the error says."""
    before = adapter.state()
    try:
        attempt()
    except ValueError as error:
        case.demand(same(before, adapter.state()), f"refuses {what}, but has changed by then; check before writing.")
        return str(error)
    except Exception as error:
        raise CheckFailed(
            f"{adapter.name}: fails on {what} with {type(error).__name__}: {error}; raise a ValueError that says what "
            f"was expected."
        ) from error
    else:
        raise CheckFailed(f"{adapter.name}: accepts {what}; raise a ValueError that says what was expected.")


def same(a: dict[str, Array], b: dict[str, Array]) -> bool:
    """Tell whether two states are equal to the bit."""
    return set(a) == set(b) and all(np.array_equal(a[key], b[key]) for key in a)


def apart(a: Array, b: Array) -> str:
    """Say how far answers lie apart."""
    return f"up to {np.abs(np.asarray(a, float) - np.asarray(b, float)).max():.2g} apart"


def digest(*arrays: Array) -> str:
    """Hash shapes, types and values."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.shape}{array.dtype}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def fingerprint(source: Source) -> tuple[Any, ...]:
    """Gather what a method could change of a source: arrays, and the network's tensors, modes and gradients."""
    stats = source.stats
    arrays = [source.weight, source.bias]
    if stats is not None:
        arrays += [stats.prior, stats.feature_mean, stats.class_means]
    try:
        network = source.module()
    except (TypeError, RuntimeError):
        return (digest(*arrays),)
    tensors = [tensor.detach().cpu().numpy() for tensor in network.state_dict().values()]
    flags = [(p.requires_grad, p.grad is None) for p in network.parameters()]
    return digest(*arrays, *tensors), flags, [module.training for module in network.modules()]
