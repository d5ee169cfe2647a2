"""The two contracts everything else relies on: a Source answers, an Adapter makes its answers better.

Public methods are final and validate; a method writes one or two hooks that start with an underscore.
Hyper-parameters are dataclass fields, stored unchanged. State is every attribute whose name ends with an
underscore; it is built in `_reset` and nowhere else, so `state`, `restore`, `peek` and `state_bytes` follow from it.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, final, runtime_checkable

import numpy as np

from sight.ops import choices
from sight.types import Array, SourceStats

if TYPE_CHECKING:
    from sight.card import ModelCard


@runtime_checkable
class Source(Protocol):
    """A trained classifier, cut where the science cuts it: features, then a linear head."""

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
        """What training left for adaptation, if anything."""

    @property
    def card(self) -> ModelCard | None:
        """Model card: rate, window, channels, units, training facts; None for a bare head or network."""

    def encode(self, x: Array) -> tuple[Array, Array]:
        """Windows (B, C, T) to features (B, D) and probabilities (B, K)."""

    def module(self) -> Any:
        """Return the torch network; sources without one raise and name the remedy."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a method requires and keeps; printed beside its name in every table.

    Parameters
    ----------
    gradient
        Back-propagates at test time, so it wants a torch source.
    batch
        Answers depend on how the stream is cut into chunks, under the rule it has by default; under another rule
        `Adapter.chunk` tells.
    source_stats
        Uses `SourceStats`: "no", "optional" or "required".
    raw_windows
        Keeps windows of the wearer in memory.
    gap
        What a gap does to it.
    completed
        The authors' code is not public; the missing parts are ours, and rows carry a mark.
    """

    gradient: bool = False
    batch: bool = False
    source_stats: str = "no"
    raw_windows: bool = False
    gap: str = "ignored"
    completed: bool = False


@dataclass(kw_only=True)
class Adapter(ABC):
    """Watches one wearer's unlabelled stream and answers better than its source alone."""

    name: ClassVar[str]
    needs: ClassVar[Needs] = Needs()
    _final: ClassVar[frozenset[str]] = frozenset(
        {
            "bind",
            "step",
            "reset",
            "clone",
            "state",
            "restore",
            "gap",
            "peek",
            "params",
            "trace",
            "diagnostics",
            "source",
        }
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        overridden = cls._final & set(vars(cls))
        if overridden and cls.__module__ != __name__:
            raise TypeError(
                f"{cls.__name__} overrides {sorted(overridden)}, which the contract keeps final; "
                f"write the hook of the same name with a leading underscore instead."
            )

    # --- life -------------------------------------------------------------------------------------------------

    def bind(self, source: Source) -> Self:
        """Attach to a source and start fresh; the source is read, never changed."""
        weight = np.asarray(source.weight)
        if weight.ndim != 2 or weight.shape[0] < 2:
            raise ValueError(f"{self.name}: expected head weights (K, D) with K >= 2, got {weight.shape}.")
        if not np.isfinite(weight).all() or not weight.any(axis=1).all():
            bad = int(np.argmin(np.isfinite(weight).all(axis=1) & weight.any(axis=1)))
            raise ValueError(
                f"{self.name}: row {bad} of the head's weights is zero or not finite, so class "
                f"{source.classes[bad]!r} has no direction; retrain the head or drop that class."
            )
        self._source = source
        self._bind()
        return self.reset()

    def reset(self) -> Self:
        """Forget the wearer: state as right after `bind`."""
        self._bound()
        self._trace: dict[str, Array] = {}
        self._reset()
        return self

    def clone(self, **changes: Any) -> Self:
        """Return a fresh adapter with the same fields, some changed, bound to the same source if there is one."""
        known = [field.name for field in dataclasses.fields(self) if field.init]
        for key in changes:
            if key not in known:
                raise TypeError(f"{self.name} has no field {key!r}; {choices(key, known)}")
        twin = dataclasses.replace(self, **changes)
        return twin.bind(self._source) if hasattr(self, "_source") else twin

    # --- stream -----------------------------------------------------------------------------------------------

    def step(self, x: Array) -> Array:
        """Answer windows (B, C, T) in time order with probabilities (B, K), then adapt to them."""
        self._bound()
        x = np.asarray(x)
        if x.ndim != 3:
            raise ValueError(f"{self.name}: expected windows (B, C, T), got shape {x.shape}; add the missing axis.")
        _finite(self.name, "window", x)
        self._trace = {}
        return self._step(x) if len(x) else np.empty((0, self.n_classes), self.source.weight.dtype)

    def gap(self, seconds: float) -> None:
        """Tell that the wearer was away: belief relaxes, knowledge stays."""
        self._bound()
        if not (np.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"{self.name}: expected a gap of zero or more seconds, got {seconds}.")
        self._gap(float(seconds))

    def peek(self, x: Array) -> Array:
        """Answer as `step` would, and stay as if nobody had asked."""
        before, trace = self.state(), getattr(self, "_trace", {})
        try:
            return self.step(x)
        finally:
            self._set_state(before)
            self._trace = trace

    def state(self) -> dict[str, Array]:
        """Everything needed to resume on another machine, bit for bit."""
        self._bound()
        return self._get_state()

    def restore(self, state: Mapping[str, Array]) -> Self:
        """Resume from `state`; checked whole before anything changes."""
        current = self.state()
        if set(state) != set(current):
            raise ValueError(
                f"{self.name}: expected state with {sorted(current)}, got {sorted(state)}; "
                f"was it saved by another method or version?"
            )
        for key, now in current.items():
            value = np.asarray(state[key])
            if value.dtype != now.dtype or not self._fits(key, value, now):
                raise ValueError(
                    f"{self.name}: expected state {key!r} of shape {now.shape} and type {now.dtype}, "
                    f"got {value.shape} and {value.dtype}; was it saved with another model or other settings?"
                )
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                raise ValueError(f"{self.name}: state {key!r} holds NaN or infinity; the stored copy is damaged.")
        self._set_state(state)
        return self

    # --- facts ------------------------------------------------------------------------------------------------

    @property
    def source(self) -> Source:
        """The source this adapter is bound to."""
        self._bound()
        return self._source

    @property
    def n_classes(self) -> int:
        """Number of classes K of the bound source."""
        return len(self.source.weight)

    @property
    def chunk(self) -> int | None:
        """Windows the streaming rule wants in one step; None where any cut gives the same answers."""
        return None

    @property
    def rule(self) -> str:
        """The streaming rule, as result rows name it."""
        return "window"

    def params(self) -> dict[str, Any]:
        """Return the resolved hyper-parameters, name to value."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def trace(self) -> Mapping[str, Array]:
        """Return diagnostics of each window of the last step, name to (B,)."""
        return dict(getattr(self, "_trace", {}))

    def diagnostics(self) -> Mapping[str, float]:
        """Return diagnostics of the last window."""
        return {key: float(values[-1]) for key, values in self.trace().items() if len(values)}

    def notes(self) -> tuple[str, ...]:
        """Return remarks that a row of results should carry."""
        return ()

    def state_bytes(self) -> dict[str, int]:
        """Count bytes held beyond the source, by kind.

        Kinds: prototypes, anchors, weights, snapshot, optimiser, windows, features, statistics.
        """
        return {"statistics": sum(array.nbytes for array in self.state().values())}

    # --- hooks ------------------------------------------------------------------------------------------------

    def _bind(self) -> None:  # noqa: B027 - optional hook
        """Derive constants from the source; attributes start with an underscore."""

    @abstractmethod
    def _reset(self) -> None:
        """Build all state; attributes end with an underscore."""

    @abstractmethod
    def _step(self, x: Array) -> Array:
        """Answer checked windows, then adapt."""

    def _gap(self, seconds: float) -> None:  # noqa: B027 - optional hook
        """React to a gap."""

    def _get_state(self) -> dict[str, Array]:
        names = [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]
        return {name[:-1]: np.array(getattr(self, name)) for name in sorted(names)}

    def _set_state(self, state: Mapping[str, Array]) -> None:
        for name, value in state.items():
            now = getattr(self, f"{name}_")
            setattr(self, f"{name}_", np.array(value) if isinstance(now, np.ndarray) else type(now)(value))

    def _fits(self, key: str, value: Array, now: Array) -> bool:  # noqa: ARG002 - for those who look closer
        """Tell whether a stored array may take the place of the present one; of another shape it may not."""
        return value.shape == now.shape

    def _bound(self) -> None:
        if not hasattr(self, "_source"):
            raise RuntimeError(f"{self.name} is not bound to a source yet; call bind(source) first.")


@dataclass(kw_only=True)
class OutputAdapter(Adapter):
    """Refines what the source answers, from features and probabilities alone; numpy only.

    A method writes `_refine_one` for a single window, or `_refine` where it treats a chunk whole.
    """

    _final: ClassVar[frozenset[str]] = Adapter._final | {"refine"}

    @final
    def refine(self, z: Array, p: Array) -> Array:
        """Answer features (B, D) and raw probabilities (B, K) in time order with refined ones, then adapt."""
        dtype = self.source.weight.dtype
        z, p = self._checked(np.asarray(z), np.asarray(p))
        self._trace = {}
        q = self._refine(z.astype(dtype, copy=False), p.astype(dtype, copy=False))
        return q.astype(dtype, copy=False)

    def _step(self, x: Array) -> Array:
        return self.refine(*self.source.encode(x))

    def _refine(self, z: Array, p: Array) -> Array:
        rows, notes = np.empty_like(p), []
        for t in range(len(p)):
            rows[t] = self._refine_one(z[t], p[t])
            notes.append(self._note())
        self._trace = {key: np.array([note[key] for note in notes]) for key in (notes[0] if notes else ())}
        return rows

    def _refine_one(self, z: Array, p: Array) -> Array:
        """Answer one window: feature (D,) and raw probabilities (K,) to refined (K,)."""
        raise NotImplementedError(f"{type(self).__name__} writes neither _refine nor _refine_one.")

    def _note(self) -> dict[str, float]:
        """Diagnostics of the window just answered."""
        return {}

    def _checked(self, z: Array, p: Array) -> tuple[Array, Array]:
        """Refuse bad input, naming the window, before any state changes."""
        classes, dims = self.source.weight.shape
        if z.ndim != 2 or z.shape[1] != dims or p.shape != (len(z), classes):
            raise ValueError(
                f"{self.name}: expected features (B, {dims}) and probabilities (B, {classes}) as the head has them, "
                f"got {z.shape} and {p.shape}."
            )
        _finite(self.name, "feature", z)
        _finite(self.name, "probabilities", p)
        off = (p < 0).any(axis=1) | (np.abs(p.sum(axis=1) - 1) > 1e-3)
        if off.any():
            t = int(np.argmax(off))
            raise ValueError(
                f"{self.name}: window {t} has probabilities {np.round(p[t], 4).tolist()} that are negative or "
                f"do not sum to 1; pass softmax outputs, not logits."
            )
        return z, p


def _finite(method: str, what: str, values: Array) -> None:
    """Refuse NaN and infinity by name; one product over all values finds out whether to look closer."""
    flat = values.reshape(-1)
    if values.dtype.kind == "f" and np.isfinite(np.dot(flat, flat)):
        return
    good = np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
    if not good.all():
        raise ValueError(
            f"{method}: {what} {int(np.argmin(good))} holds NaN or infinity; "
            f"drop it or fill it before adapting (nothing was changed)."
        )
