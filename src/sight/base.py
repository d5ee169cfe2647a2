"""The contracts between the parts of the package: `Source`, a trained classifier, and `Adapter`, a method.

Public methods of an adapter validate their input; those marked final cannot be overridden. A method writes one or two
hooks, whose names start with an underscore. Its hyper-parameters are dataclass fields, stored unchanged. Its state is
every attribute whose name ends with an underscore, built in `_reset`, so that `state`, `restore` and `peek` need no
code of their own.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, final, runtime_checkable

import numpy as np

from sight import params
from sight._util.array_checks import check_gap, check_outputs, check_source, require_finite
from sight._util.object_state import Stateful
from sight._util.text import choices
from sight.types import Array, NormLayers, SourceStats

if TYPE_CHECKING:
    from sight.models.card import ModelCard


@runtime_checkable
class Source(Protocol):
    """A trained classifier: an encoder that computes features, and a linear head."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the K classes."""

    @property
    def weight(self) -> Array:
        """Rows of the linear head, (K, D)."""

    @property
    def bias(self) -> Array:
        """Bias of the linear head, (K,)."""

    @property
    def stats(self) -> SourceStats | None:
        """Statistics of the training data for adaptation, or None."""

    @property
    def card(self) -> ModelCard | None:
        """Model card: rate, window, channels, units, training facts; None for a bare head or network."""

    def encode(self, x: Array) -> tuple[Array, Array]:
        """Return features (B, D) and probabilities (B, K) of windows (B, C, T)."""

    def module(self) -> Any:
        """Return the torch network; sources without one raise TypeError and name the remedy."""


#: Fields of a method by name of the preset.
Presets: TypeAlias = Mapping[str, Mapping[str, Any]]

#: Maps a window (1, C, T) and statistics (2, C) to features (1, D), probabilities (1, K) and moments (2, C).
NormEncoder: TypeAlias = Callable[[Array, Array], tuple[Array, Array, Array]]


class NormSource(Source, Protocol):
    """A source whose batch normalisations can use other statistics than the trained ones; torch and ONNX sources."""

    @property
    def norm_layers(self) -> NormLayers | None:
        """The batch normalisations of the encoder; None if it takes no statistics."""

    def norm_encoder(self) -> NormEncoder:
        """Return an encoder for one wearer, which one thread may use at a time.

        It takes mean and variance of all channels of `norm_layers`, and returns mean and mean square over time of the
        input of each layer. Its outputs are valid until its next call.
        """


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a method requires and stores; shown beside its name in tables."""

    #: Back-propagates at test time, so that it needs a torch source.
    gradient: bool = False
    #: With its default streaming rule, predictions depend on how the stream is cut into chunks; see `Adapter.chunk`.
    batch: bool = False
    #: Use of `SourceStats`: "no", "optional" or "required".
    source_stats: str = "no"
    #: Use of features: "required", "optional" (only with source statistics) or "no"; without, see `sight.refine`.
    features: str = "required"
    #: Stores windows of the wearer.
    raw_windows: bool = False
    #: Effect of a gap.
    gap: str = "ignored"
    #: The authors' code is not public and the missing parts are ours; result rows carry a mark.
    completed: bool = False


class _Guard:
    """Lock that raises RuntimeError in a second thread instead of waiting."""

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(False):
            raise RuntimeError(f"{self._name} is in use by another thread; give each thread its own adapter (clone).")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _is_final(value: object) -> bool:
    return bool(getattr(getattr(value, "fget", value), "__final__", False))


@dataclass(kw_only=True)
class Adapter(Stateful, ABC):
    """Base class of methods that adapt the predictions of a source to one wearer, online and without labels.

    Notes
    -----
    A subclass may override `predict`, `raw`, `settle`, `chunk`, `rule`, `notes`, `state_bytes`, `max_state_bytes`,
    `class_frequencies` and `class_prototypes`; the other public methods are final.

    Optional capabilities are declared on the class. `presets` holds the fields in which a preset differs from the
    defaults (`sight.registry.PRESETS`). `change_trace` names the entry of `trace` that is the probability of a change
    of class before each window; it makes predictions smoothable (`sight.results.smoothing`). `fused_step` names the
    class that computes a step in torch, as "module:Class"; it makes the method exportable as one graph with its model
    (`sight.models.export.fused`). `served` states that a shallow copy after `reset` shares nothing that changes with
    another copy, which the service requires. `encodes` states that a step encodes windows itself and that `raw` returns
    their probabilities, so that live sessions do not encode them too. Methods that advance many wearers at once have a
    method `many` (`sight.methods.compiled`).

    An adapter belongs to one stream, so one thread may use it at a time. `step`, `peek`, `refine` and `gap` raise
    RuntimeError if another thread is inside one of them; use a `clone` for each thread. A source may be shared.
    """

    name: ClassVar[str]
    needs: ClassVar[Needs] = Needs()
    presets: ClassVar[Presets] = {}
    change_trace: ClassVar[str | None] = None
    fused_step: ClassVar[str | None] = None
    served: ClassVar[bool] = False
    encodes: ClassVar[bool] = False
    _fixed: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fixed = {name for base in cls.__mro__[1:] for name, value in vars(base).items() if _is_final(value)}
        if overridden := sorted(fixed & set(vars(cls))):
            raise TypeError(
                f"{cls.__name__} overrides {', '.join(overridden)}, which must not be overridden; "
                f"write the hook of the same name with a leading underscore instead."
            )

    def __post_init__(self) -> None:
        params.validate(self, self.name)

    @final
    def bind(self, source: Source) -> Self:
        """Attach to a source, which is read but never changed, and reset."""
        check_source(self.name, source)
        self._source, self._guard = source, _Guard(self.name)
        self._bind()
        return self.reset()

    @final
    def reset(self) -> Self:
        """Discard everything learned: state as right after `bind`."""
        self._require_ready()
        self._trace: dict[str, Array] = {}
        self._reset()
        return self

    @final
    def clone(self, **changes: Any) -> Self:
        """Return a new adapter with the same fields except `changes`, bound to the same source if there is one."""
        fields = [field.name for field in dataclasses.fields(self) if field.init]
        for key in changes:
            if key not in fields:
                raise TypeError(f"{self.name} has no parameter {key!r}; {choices(key, fields)}")
        copy = dataclasses.replace(self, **changes)
        return copy.bind(self._source) if hasattr(self, "_source") else copy

    @final
    def step(self, x: Array) -> Array:
        """Return probabilities (B, K) of windows (B, C, T) in time order, then adapt to them."""
        self._require_ready()
        x = np.asarray(x)
        if x.ndim != 3:
            raise ValueError(f"{self.name}: expected windows (B, C, T), got shape {x.shape}; add the missing axis.")
        require_finite(self.name, "window", x)
        with self._guard:
            self._trace = {}
            return self._step(x) if len(x) else np.empty((0, self.n_classes), self.source.weight.dtype)

    def predict(self, x: Array, z: Array, p: Array) -> Array:  # noqa: ARG002 - for methods on outputs
        """Return what `step` returns, then adapt, given also what `Source.encode` returned for the windows.

        Methods on outputs take features `z` (B, D) and probabilities `p` (B, K), so that a window is encoded once.
        Others, which encode windows (B, C, T) in their own way, take `x`.
        """
        return self.step(x)

    def raw(self) -> Array:
        """Return probabilities (B, K) of the windows of the last step before they were refined; see `encodes`."""
        raise NotImplementedError(f"{self.name} does not encode windows itself.")

    def settle(self, p: Array, q: Array) -> Array:  # noqa: ARG002 - for methods that use raw probabilities
        """Return the final probabilities (N, K) of a whole recording from raw and smoothed ones."""
        return q

    @final
    def peek(self, x: Array) -> Array:
        """Return what `step` would return, without changing state."""
        self._require_ready()
        with self._guard:
            before, trace = self.state(), self._trace
            try:
                return self.step(x)
            finally:
                self._set_state(before)
                self._trace = trace

    @final
    def gap(self, seconds: float) -> None:
        """Report a gap before the next window: the belief relaxes, what was learned stays."""
        self._require_ready()
        check_gap(self.name, seconds)
        with self._guard:
            self._gap(float(seconds))

    @property
    @final
    def source(self) -> Source:
        """The bound source."""
        self._require_ready()
        return self._source

    @property
    @final
    def n_classes(self) -> int:
        """Number of classes K of the bound source."""
        return len(self.source.weight)

    @property
    def chunk(self) -> int | None:
        """Number of windows of a step, `batch` under the rule "chunk"; None if any cut gives the same result."""
        return getattr(self, "batch", None) if self.rule == "chunk" else None

    @property
    def rule(self) -> str:
        """The streaming rule, as named in result rows."""
        return "window"

    @final
    def params(self) -> dict[str, Any]:
        """Return the hyper-parameters, name to value."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @final
    def trace(self) -> Mapping[str, Array]:
        """Return diagnostics of each window of the last step, name to (B,)."""
        return dict(getattr(self, "_trace", {}))

    @final
    def diagnostics(self) -> Mapping[str, float]:
        """Return diagnostics of the last window."""
        return {key: float(values[-1]) for key, values in self.trace().items() if len(values)}

    def notes(self) -> tuple[str, ...]:
        """Return remarks for result rows."""
        return ()

    def state_bytes(self) -> dict[str, int]:
        """Return the number of bytes held beyond the source, by kind.

        Kinds: prototypes, anchors, weights, snapshot, optimiser, windows, features, statistics.
        """
        return {"statistics": sum(array.nbytes for array in self.state().values())}

    def max_state_bytes(self, source: Source) -> int | None:
        """Return the most bytes that this method would hold for a wearer of a source, before anything is allocated.

        None if the method does not declare it; a service then refuses the method.
        """
        return self._max_state_bytes(np.asarray(source.weight))

    def class_frequencies(self) -> Array | None:
        """Return how frequent each class has been for this wearer, (K,) in any scale; None if that is not stored."""
        return None

    def class_prototypes(self) -> Array | None:
        """Return the adapted prototype of each class, (K, D), which must not be changed; None if there are none."""
        return None

    def _bind(self) -> None:
        """Derive constants from the source; attributes start with an underscore."""

    @abstractmethod
    def _reset(self) -> None:
        """Build all state; attributes end with an underscore."""

    @abstractmethod
    def _step(self, x: Array) -> Array:
        """Return probabilities of valid windows, then adapt."""

    def _gap(self, seconds: float) -> None:
        """React to a gap."""

    def _max_state_bytes(self, head: Array) -> int | None:  # noqa: ARG002 - for subclasses
        """Return the most bytes of state for a head (K, D), from hyper-parameters and shapes alone.

        What a step allocates counts too if it grows with a hyper-parameter.
        """
        return None

    def _title(self) -> str:
        return self.name

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_guard"}  # a lock cannot be copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _guard=_Guard(self.name))

    def _require_ready(self) -> None:
        if not hasattr(self, "_source"):
            raise RuntimeError(f"{self.name} is not bound to a source yet; call bind(source) first.")


@dataclass(kw_only=True)
class OutputAdapter(Adapter):
    """Base class of methods that work on features and probabilities alone; numpy only.

    A method writes `_refine_one` for a single window, or `_refine` if it processes a chunk as a whole.
    """

    served: ClassVar[bool] = True

    @final
    def refine(self, z: Array, p: Array) -> Array:
        """Return refined probabilities for features (B, D) and raw probabilities (B, K) in time order, then adapt."""
        dtype = self.source.weight.dtype
        z, p = np.asarray(z), np.asarray(p)
        self.check_input(z, p)
        with self._guard:
            self._trace = {}
            q = self._refine(z.astype(dtype, copy=False), p.astype(dtype, copy=False))
            return q.astype(dtype, copy=False)

    @final
    def predict(self, x: Array, z: Array, p: Array) -> Array:  # noqa: ARG002 - windows are not used
        """Return what `refine` returns for `z` and `p`, then adapt."""
        return self.refine(z, p)

    @final
    def check_input(self, z: Array, p: Array) -> None:
        """Raise ValueError, naming the window, if `refine` cannot take features `z` and probabilities `p`."""
        if not self._is_valid(z, p):
            check_outputs(self.name, z, p, self.source.weight.shape)

    def _step(self, x: Array) -> Array:
        return self.refine(*self.source.encode(x))

    def _refine(self, z: Array, p: Array) -> Array:
        """Return refined probabilities for valid input, then adapt."""
        rows, notes = np.empty_like(p), []
        for t in range(len(p)):
            rows[t] = self._refine_one(z[t], p[t])
            notes.append(self._note())
        self._trace = {key: np.array([note[key] for note in notes]) for key in (notes[0] if notes else ())}
        return rows

    def _refine_one(self, z: Array, p: Array) -> Array:
        """Return refined probabilities (K,) for one feature (D,) and raw probabilities (K,), then adapt."""
        raise NotImplementedError(f"{type(self).__name__} writes neither _refine nor _refine_one.")

    def _note(self) -> dict[str, float]:
        """Return diagnostics of the window just refined."""
        return {}

    def _is_valid(self, z: Array, p: Array) -> bool:  # noqa: ARG002 - for subclasses with a faster check
        """Return True if the input is known to be valid; False leaves it to the checks that explain."""
        return False
