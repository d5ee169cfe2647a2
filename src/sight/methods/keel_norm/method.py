"""The Keel method with moving statistics of batch normalisation."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Annotated, Any, ClassVar

import numpy as np

from sight.base import Adapter, Needs, NormEncoder, Source
from sight.methods.compiled import StateLayout
from sight.methods.compiled.backend import FIRST
from sight.methods.keel import Keel
from sight.methods.keel_norm.reference import NormTerms
from sight.params import GapHalfLife, Positive, Range
from sight.types import Array, NormLayers

#: Deviations of the source by which the moments of a window may differ from its mean; a spike counts no more.
FARTHEST = 10.0
#: Least variance of a channel, as a share of the source's mean square and as a number; float32 resolves no less.
LEAST_SHARE, LEAST = 1e-4, 1e-8


@dataclass(kw_only=True)
class KeelNorm(Adapter):
    """Moves the statistics of batch normalisation towards the wearer's, and refines by Keel.

    Parameters
    ----------
    anchor
        Number of windows that the trained statistics count for against the wearer's.
    bound
        Largest displacement of a mean, in trained deviations, and of a variance, as a logarithm.
    gap_half_life_s
        Half-life of Keel's belief over a gap; None keeps it. Moments stay.

    Notes
    -----
    Each batch normalisation has running moments of its input over all windows of the wearer; they start from the
    trained statistics with the weight of `anchor` windows. The layer normalises with the trained statistics, moved by a
    share of the bounded displacement: the coverage of the classes so far (`Keel.strength`) divided by the number of
    subjects in the training data (`SourceStats.subjects`). The statistics of a single subject are moved most; those of
    many subjects hold for a new wearer and hardly move, and neither do those of a wearer with few classes.

    Assumes that the wearer or the sensor changes what the layers receive in the same way all day, and that a broad
    stream has class frequencies not far from the source's. It is for models of one or two subjects and streams with
    many activities. With more subjects it is close to `keel` and costs more; on days that one class fills it harms more
    often than `keel`.

    Windows are encoded one at a time, so that predictions do not depend on how the stream is cut. Other parameters of
    Keel have their defaults. The source is a torch model, or an ONNX file written by ``sight export --norms``; others
    are refused. Without batch normalisation, or if the number of subjects is unknown, predictions are those of Keel;
    `notes` states it.

    Examples
    --------
    >>> from sight.testing import toy_network, toy_stream
    >>> adapter = KeelNorm(anchor=50).bind(toy_network())
    >>> adapter.step(toy_stream(n=20).x).shape, adapter.notes()
    ((20, 5), ())

    References
    ----------
    Ours; see docs/keel.md, "Models of one subject".
    """

    name: ClassVar[str] = "keel-norm"
    needs: ClassVar[Needs] = Needs(source_stats="optional", gap="belief relaxes")
    change_trace: ClassVar[str | None] = Keel.change_trace
    served: ClassVar[bool] = True
    encodes: ClassVar[bool] = True
    layout: ClassVar[StateLayout] = replace(Keel.layout, entries={**Keel.layout.entries, "moments": "2C"}, version=2)
    fused_step: ClassVar[str | None] = "sight.methods.keel_norm.fused:KeelNormStep"
    anchor: Positive = 100.0
    bound: Annotated[float, Range(above=0, at_most=FARTHEST)] = 0.25
    gap_half_life_s: GapHalfLife = 30.0

    def settle(self, p: Array, q: Array) -> Array:
        return self.keel.settle(p, q)

    def class_frequencies(self) -> Array | None:
        return self.keel.class_frequencies()

    def notes(self) -> tuple[str, ...]:
        if self.moves:
            return ()
        reason = "the number of training subjects is unknown" if self.layers.widths else "it has no batch normalisation"
        return (f"plain Keel: the source is not moved, {reason}",)

    def max_state_bytes(self, source: Source) -> int:
        return Keel.layout.nbytes(np.asarray(source.weight)) + 2 * 4 * sum(_layers_of(source).widths.values())

    @property
    def channels(self) -> int:
        """Number C of channels whose statistics move."""
        return sum(self.layers.widths.values())

    def _bind(self) -> None:
        self.keel = Keel(gap_half_life_s=self.gap_half_life_s).bind(self.source)
        self.layers, stats, self._shape = _layers_of(self.source), self.source.stats, ()
        self.per_subject = 1 / stats.subjects if stats and stats.subjects else 0.0
        self.moves = bool(self.layers.widths and self.per_subject)
        mean, var = np.asarray(self.layers.trained, np.float32)
        self.start = np.stack((mean, var + mean * mean))
        floor = LEAST_SHARE * self.start[1] + LEAST
        var = np.maximum(var, floor)
        deviation = np.sqrt(var)
        farthest = FARTHEST * deviation
        lowest, highest = (
            np.stack((mean - farthest, 0 * mean)),
            np.stack((mean + farthest, (abs(mean) + farthest) ** 2)),
        )
        ratio = np.float32(np.exp(self.bound))
        self.terms = NormTerms(mean, var, floor, np.float32(self.bound) * deviation, ratio, lowest, highest)

    def _reset(self) -> None:
        # Copies of an adapter may share what _bind made; all that changes is new.
        self.keel = copy(self.keel).reset()
        self._tools: tuple[NormEncoder, Any] | None = None
        self.moments_ = self.start.copy()
        self._statistics = np.array(self.layers.trained, np.float32)
        self._raw = np.empty((0, self.n_classes), self.source.weight.dtype)

    def _step(self, x: Array) -> Array:
        if not self.moves:
            z, self._raw = self.source.encode(x)
            q = self.keel.refine(z, self._raw)
            self._trace = dict(self.keel.trace())
            return q
        if x.shape[1:] != self._shape:
            self.source.encode(x[:1])  # raises if windows do not fit the source
            self._shape = x.shape[1:]
        keel, backend, terms, statistics = self.keel, self.keel.backend, self.terms, self._statistics
        if self._tools is None:
            source: Any = self.source
            kind = "compiled" if backend.name == "numba" else "reference"
            self._tools = source.norm_encoder(), import_module(f"sight.methods.keel_norm.{kind}")
        encode, updates = self._tools
        q, p = np.empty((2, len(x), self.n_classes), self.source.weight.dtype)
        trace, count = np.empty((len(x), len(keel.trace_names))), int(keel.states.views["count"][0])
        for t in range(len(x)):
            if count:
                updates.move(self.moments_, terms, self.per_subject * keel.strength(), statistics)
            z, p[t], seen = encode(x[t : t + 1], statistics)
            if not backend.is_valid(z, p[t : t + 1]):
                keel.check_input(z, p[t : t + 1])
            q[t], trace[t] = keel.states.advance(z, p[t : t + 1], FIRST)
            count += 1
            updates.learn(seen, terms, self.anchor + count, self.moments_)
        self._trace, self._raw = keel.name_trace(trace), p
        return q

    def raw(self) -> Array:
        return self._raw

    def _gap(self, seconds: float) -> None:
        self.keel.gap(seconds)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_tools": None}  # cannot be copied; the next step makes it again

    # The state has the entries of Keel and of the moments in one, as the fused graph has them.

    def _own(self) -> dict[str, Any]:
        return super()._own() | self.keel.state()

    def _parts(self) -> dict[str, Any]:
        return {}

    def _set_state(self, state: Mapping[str, Array]) -> None:
        self.keel.restore({name: state[name] for name in Keel.layout.entries})
        self.moments_ = np.array(state["moments"])


def _layers_of(source: Source) -> NormLayers:
    layers: NormLayers | None = getattr(source, "norm_layers", None)
    if layers is None:
        raise TypeError(
            f"{KeelNorm.name}: expected a source whose network takes statistics of batch normalisation, got "
            f"{type(source).__name__} without; export the checkpoint with sight export --norms, load the checkpoint "
            f"itself with torch, or use keel."
        )
    return layers
