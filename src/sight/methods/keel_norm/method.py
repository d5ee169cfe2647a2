"""The Keel method with moving statistics of batch normalisation."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from typing import Annotated, Any, ClassVar

import numpy as np

from sight.base import Adapter, Needs, NormEncoder, Source
from sight.methods.compiled import StateLayout
from sight.methods.compiled.backend import FIRST
from sight.methods.keel import Keel
from sight.methods.keel_norm.reference import NormTerms
from sight.params import GapHalfLife, NonNegative, Positive, Range, UnitInterval
from sight.types import Array, NormLayers

#: Deviations of the source by which the moments of a window may differ from its mean; a spike counts no more.
FARTHEST = 10.0
#: Least variance of a channel, as a share of the source's mean square and as a number; float32 resolves no less.
LEAST_SHARE, LEAST = 1e-4, 1e-8


@dataclass(kw_only=True)
class KeelNorm(Adapter):
    """Moves the statistics of batch normalisation to the wearer's, class by class, and refines by Keel.

    Parameters
    ----------
    anchor
        Number of windows that the source's own moments of each class count for against the wearer's.
    confident
        Only windows whose highest refined probability is above it change the moments; 0 uses all.
    tolerance
        Displacement that is left alone: of a mean in deviations of the source, of a variance as a logarithm. What
        exceeds it is corrected; 0 corrects everything.
    layers
        Number of layers, from the input on, whose statistics move; None for all.
    scaled
        Whether the statistics move only by the share of the bias correction that Keel applies (`Keel.strength`).
    gap_half_life_s
        Half-life of Keel's belief over a gap; None keeps it. Moments stay.

    Notes
    -----
    Each batch normalisation has, for each class, a mean and a mean square of its input: those of the source
    (`SourceStats.norms`) with the weight of `anchor` windows, and those of the wearer's windows, weighted by the
    refined probabilities. The mixture of the classes by the source's prior has a mean and a variance. Their difference
    and ratio to those of the source, less `tolerance`, are applied to the trained statistics, which are used unchanged
    at the start: people differ by some tenths of a deviation anyway, and the model was trained for that.
    Moments belong to classes, so that a change of the class frequencies alone does not move the mixture.

    Assumes that the sensor, its place or the wearer changes what the layers see in the same way all day, and that
    most refined predictions are right. It is for large shifts: another place of the sensor, another device, a model of
    a single subject. On days that one class fills, and where the shift is small, wrong predictions are learned and it
    harms more often than `keel`.

    Windows are encoded one at a time, so that predictions do not depend on how the stream is cut. Other parameters of
    Keel have their defaults. The source is a torch model, or an ONNX file written by ``sight export --norms``; others
    are refused. A torch model without moments (no batch normalisation) is refined by Keel alone; `notes` states it.

    Examples
    --------
    >>> from sight.testing import toy_network, toy_stream
    >>> adapter = KeelNorm(anchor=50).bind(toy_network())
    >>> adapter.step(toy_stream(n=20).x).shape, adapter.notes()
    ((20, 5), ())

    References
    ----------
    Ours; see docs/keel.md, "When the sensor moved".
    """

    name: ClassVar[str] = "keel-norm"
    needs: ClassVar[Needs] = Needs(source_stats="optional", gap="belief relaxes")
    change_trace: ClassVar[str | None] = Keel.change_trace
    served: ClassVar[bool] = True
    layout: ClassVar[StateLayout] = replace(
        Keel.layout,
        entries={**Keel.layout.entries, "weights": "K", "moments": "2KC"},
        means={**Keel.layout.means, "weights": "count"},
        version=1,
    )
    fused_step: ClassVar[str | None] = "sight.methods.keel_norm.fused:KeelNormStep"
    anchor: Positive = 100.0
    confident: UnitInterval = 0.0
    tolerance: NonNegative = 0.5
    layers: Annotated[int | None, Range(at_least=1)] = None
    scaled: bool = False
    gap_half_life_s: GapHalfLife = 30.0

    def class_frequencies(self) -> Array | None:
        return self.keel.class_frequencies()

    def notes(self) -> tuple[str, ...]:
        plain = "plain Keel: the source has no moments of batch normalisations (SourceStats.norms)"
        return () if self.widths else (plain,)

    def max_state_bytes(self, source: Source) -> int:
        head, channels = np.asarray(source.weight), sum(self._used(_layers_of(source)).values())
        return Keel.layout.nbytes(head) + len(head) * (8 + 2 * 4 * channels)

    @property
    def channels(self) -> int:
        """Number C of channels whose statistics move."""
        return sum(self.widths.values())

    def _used(self, layers: NormLayers) -> dict[str, int]:
        return dict(islice(layers.widths.items(), self.layers))

    def _bind(self) -> None:
        self.keel = Keel(gap_half_life_s=self.gap_half_life_s).bind(self.source)
        layers, stats = _layers_of(self.source), self.source.stats
        self.widths, self._shape = self._used(layers), ()
        if stats is None or stats.norms is None or not self.widths:
            return
        for name, width in self.widths.items():
            expected = (2, self.n_classes, width)
            if stats.norms[name].shape != expected:
                raise ValueError(
                    f"{self.name}: expected moments {expected} of layer {name!r}, got {stats.norms[name].shape}; "
                    f"compute the statistics with this model (sight.source_stats)."
                )
        start = np.concatenate([stats.norms[name] for name in self.widths], axis=2).astype(np.float32)
        prior = (stats.prior / stats.prior.sum()).astype(np.float32)
        mean, square = prior @ start
        floor = LEAST_SHARE * square + LEAST
        var = np.maximum(square - mean * mean, floor)
        spared = np.array((self.tolerance * np.sqrt(var), np.full_like(var, self.tolerance)), np.float32)
        reach = FARTHEST * np.sqrt(var)
        lowest = np.array((mean - reach, 0 * mean))[:, None]
        highest = np.array((mean + reach, (abs(mean) + reach) ** 2))[:, None]
        self._trained: Array = np.asarray(layers.trained, np.float32)  # of all layers
        trained = np.ascontiguousarray(self._trained[:, : mean.size])
        self.terms = NormTerms(start, prior, mean, var, floor, spared, lowest, highest, trained)

    def _reset(self) -> None:
        # Copies of an adapter may share what _bind made; all that changes is new.
        self.keel = copy(self.keel).reset()
        self._tools: tuple[NormEncoder, Any] | None = None
        self.moments_ = self.terms.start.copy() if self.widths else np.zeros((2, self.n_classes, 0), np.float32)
        self.weights_ = np.zeros(self.n_classes)
        if self.widths:
            self._statistics = self._trained.copy()

    def _step(self, x: Array) -> Array:
        if not self.widths:
            q = self.keel.refine(*self.source.encode(x))
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
        q = np.empty((len(x), self.n_classes), self.source.weight.dtype)
        trace = np.empty((len(x), len(keel.trace_names)))
        for t in range(len(x)):
            share = keel.strength() if self.scaled else None
            updates.move(terms.prior @ self.moments_, terms, statistics, share)
            z, p, seen = encode(x[t : t + 1], statistics)
            if not backend.is_valid(z, p):
                keel.check_input(z, p)
            q[t], trace[t] = keel.states.advance(z, p, FIRST)
            if not self.confident or q[t].max() > self.confident:
                updates.learn(q[t], seen, terms, self.anchor, self.weights_, self.moments_)
        self._trace = keel.name_trace(trace)
        return q

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
        self.moments_, self.weights_ = np.array(state["moments"]), np.array(state["weights"])


def _layers_of(source: Source) -> NormLayers:
    layers: NormLayers | None = getattr(source, "norm_layers", None)
    if layers is None:
        raise TypeError(
            f"{KeelNorm.name}: expected a source whose network takes statistics of batch normalisation, got "
            f"{type(source).__name__} without; export the checkpoint with sight export --norms, load the checkpoint "
            f"itself with torch, or use keel."
        )
    return layers
