"""The case that a check examines (a method, a source and a stream) and the assertions that checks share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args, get_type_hints

import numpy as np

from sight._util.hashing import arrays_sha256
from sight.base import Adapter, OutputAdapter, Source
from sight.testing import ToySource, toy_network, toy_stream
from sight.types import Array, Windows

#: Windows of the toy stream: more than the memories of most methods hold, and not a multiple of 32.
LENGTH = 100

#: Tolerance of predictions that differ only by the order of floating-point operations.
CLOSE = 1e-4


class CheckFailed(AssertionError):  # noqa: N818 - reads better than CheckError
    """A method violates the contract; the message says how."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A method, the source it is bound to, and a stream; toys if not given. See `sight.checks.check_adapter`."""

    adapter: Adapter
    given_source: Source | None = None
    given_stream: Windows | None = None
    twin: Source | None = None

    @cached_property
    def source(self) -> Source:
        if self.given_source is not None:
            return self.given_source
        return ToySource() if isinstance(self.adapter, OutputAdapter) else toy_network()

    @cached_property
    def x(self) -> Array:
        windows = toy_stream(n=LENGTH) if self.given_stream is None else self.given_stream
        return windows.x

    def fresh(self) -> Adapter:
        return self.unbound().bind(self.source)

    def unbound(self) -> Adapter:
        return dataclasses.replace(self.adapter)

    def rules(self) -> list[Case]:
        """Return the case under each streaming rule that the method has as a field, the default rule first."""
        default = {field.name: field.default for field in dataclasses.fields(self.adapter)}.get("rule")
        if default in (None, dataclasses.MISSING):
            return [self]
        offered = dict.fromkeys((default, *get_args(get_type_hints(type(self.adapter))["rule"])))
        adapters = (self.adapter.clone(rule=rule) for rule in offered)
        return [dataclasses.replace(self, adapter=adapter, given_source=self.source) for adapter in adapters]

    def require(self, condition: bool | np.bool_, message: str) -> None:
        if not condition:
            raise CheckFailed(f"{self.adapter.name}: {message}")

    def require_same(self, a: Array, b: Array, when: str, remedy: str, atol: float = 0.0) -> None:
        largest = np.abs(np.asarray(a, float) - np.asarray(b, float)).max(initial=0)
        message = f"predicts differently {when}, up to {largest:.2g} apart; {remedy}."
        self.require(np.allclose(a, b, rtol=0, atol=atol), message)

    def require_probabilities(self, q: Array, windows: int, when: str) -> None:
        shape = (windows, len(self.source.weight))
        self.require(q.shape == shape, f"returns shape {q.shape} {when}, expected {shape}; one row per window.")
        self.require(q.dtype.kind == "f", f"returns type {q.dtype} {when}, expected floats.")
        self.require(np.isfinite(q).all(), f"returns NaN or infinity {when}; guard divisions and logarithms.")
        smallest = q.min() if q.size else 0
        self.require((q >= 0).all(), f"returns negative probabilities {when}, the smallest {smallest:.3g}.")
        off = float(np.abs(q.sum(axis=1) - 1).max(initial=0))
        self.require(off <= CLOSE, f"returns rows that do not sum to 1 {when}, off by {off:.2g}; normalise them.")

    def require_finite_state(self, adapter: Adapter, when: str) -> None:
        floats = {key: value for key, value in adapter.state().items() if value.dtype.kind == "f"}
        bad = [key for key, value in floats.items() if not np.isfinite(value).all()]
        self.require(not bad, f"has NaN or infinity in state {', '.join(bad)} {when}; restore would refuse it.")

    def require_refusal(self, adapter: Adapter, what: str, attempt: Callable[[], Any]) -> str:
        """Require a ValueError that leaves the state unchanged; return its message."""
        before = adapter.state()
        try:
            attempt()
        except ValueError as error:
            same = states_equal(before, adapter.state())
            self.require(same, f"refuses {what}, but has changed by then; check the input before writing.")
            return str(error)
        except Exception as error:
            raise CheckFailed(
                f"{adapter.name}: raises {type(error).__name__} on {what} ({error}); raise ValueError instead."
            ) from error
        raise CheckFailed(f"{adapter.name}: accepts {what}; raise a ValueError that says what was expected.")


def chunk_size(adapter: Adapter, x: Array) -> int:
    """Return the number of windows of a step: the method's chunk, and at most a third of the stream."""
    return max(1, min(adapter.chunk or len(x), len(x) // 3))


def chunks(adapter: Adapter, x: Array) -> Iterator[Array]:
    size = chunk_size(adapter, x)
    return (x[t : t + size] for t in range(0, len(x), size))


def parts(x: Array, count: int) -> list[Array]:
    return [np.ascontiguousarray(part) for part in np.array_split(x, count)]


def predict(adapter: Adapter, x: Array) -> Array:
    return np.concatenate([adapter.step(chunk) for chunk in chunks(adapter, x)])


def states_equal(a: dict[str, Array], b: dict[str, Array]) -> bool:
    return set(a) == set(b) and all(np.array_equal(a[key], b[key]) for key in a)


def source_digest(source: Source) -> tuple[Any, ...]:
    """Return everything of a source that a method could change: arrays, and the network's tensors and modes."""
    stats = source.stats
    arrays = [source.weight, source.bias]
    if stats is not None:
        arrays += [stats.prior, stats.feature_mean, stats.class_means]
    try:
        network = source.module()
    except (TypeError, RuntimeError):
        return (arrays_sha256(arrays),)
    tensors = [tensor.detach().cpu().numpy() for tensor in network.state_dict().values()]
    flags = [(p.requires_grad, p.grad is None) for p in network.parameters()]
    return arrays_sha256([*arrays, *tensors]), flags, [module.training for module in network.modules()]
