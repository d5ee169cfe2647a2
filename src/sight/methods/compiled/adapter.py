"""Base class of methods whose step is compiled and whose states can be held for many wearers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sight.base import OutputAdapter
from sight.methods.compiled.backend import FIRST, Backend, choose
from sight.methods.compiled.many_wearers import ManyWearers
from sight.methods.compiled.state_layout import StateLayout
from sight.types import Array


@dataclass(kw_only=True)
class CompiledAdapter(OutputAdapter):
    """Base class of methods with a step in numpy and in numba, and a declared state.

    A method declares the attributes below, optionally `fused_step`, and a field ``gap_half_life_s``, and writes two
    hooks, `_constants` and `_initial`. ``step(z, p, arrays, *constants)`` takes one window (D,), (K,) and the
    `StateArrays` of one wearer, which it updates in place; it returns probabilities (K,) and the diagnostics. For
    ``advance`` see `Backend`. Both must give the same results for one wearer and for many, however the stream is cut.
    """

    layout: ClassVar[StateLayout]
    trace_names: ClassVar[tuple[str, ...]]  # diagnostics of a window; the first is the surprise, between 0 and 1
    numpy_step: ClassVar[str]  # "module:function" of step
    numba_step: ClassVar[str]  # "module:function" of advance

    def __post_init__(self) -> None:
        super().__post_init__()
        self._backend: Backend | None = None

    @property
    def backend(self) -> Backend:
        """Implementation of the step in use; chosen, and compiled, at the first call."""
        if self._backend is None:
            self._backend = choose(type(self), self.source.weight.dtype)
        return self._backend

    def many(self, wearers: int) -> ManyWearers:
        """Return states for many wearers of the bound source; each is refined as by a clone of this adapter."""
        return ManyWearers(self.clone(), wearers)

    def class_frequencies(self) -> Array | None:
        return self.states.views[self.layout.frequencies][0] if self.layout.frequencies else None

    def class_prototypes(self) -> Array | None:
        return self.states.views[self.layout.prototypes][0] if self.layout.prototypes else None

    def _constants(self) -> tuple[Any, ...]:
        """Return what the steps take after the state: values derived from source and hyper-parameters."""
        raise NotImplementedError

    def _initial(self) -> dict[str, Any]:
        """Return the entries of the state that do not start at 0."""
        raise NotImplementedError

    def _bind(self) -> None:
        self._backend = None
        self.constants = self._constants()

    def _reset(self) -> None:
        self.states = ManyWearers(self, 1)

    def _refine(self, z: Array, p: Array) -> Array:
        q, trace = self.states.advance(z, p, FIRST)
        self._trace = self.name_trace(trace)
        return q

    def name_trace(self, trace: Array) -> dict[str, Array]:
        return dict(zip(self.trace_names, trace.T, strict=True))

    def _gap(self, seconds: float) -> None:
        self.states.gap(seconds)

    def _is_valid(self, z: Array, p: Array) -> bool:
        head = self.source.weight
        plain = z.dtype == p.dtype == head.dtype and z.flags.carray and p.flags.carray
        fits = plain and z.shape == (len(p), head.shape[1]) and p.shape[1:] == head.shape[:1]
        return fits and self.backend.is_valid(z, p)

    def _max_state_bytes(self, head: Array) -> int:
        return self.layout.nbytes(head)

    def _own(self) -> dict[str, Any]:
        return self.states.state(0)

    def _set_state(self, state: Mapping[str, Array]) -> None:
        self.states.restore(0, state)
