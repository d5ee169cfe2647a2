"""Keel with normalisation that follows the wearer: class-conditional statistics in the encoder, without gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from sight.base import Adapter, Needs
from sight.methods._norms import recording_copy
from sight.methods.keel import Keel
from sight.params import GapHalfLife, NonNegative, Positive, Range, UnitInterval
from sight.types import Array

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

    Windows are encoded one at a time by a private copy of the network, which shares its parameters, so that
    predictions do not depend on how the stream is cut. Other parameters of Keel have their defaults. A torch source
    without moments (no batch normalisation, or a checkpoint of version 0.1) is refined by Keel alone; `notes` states
    it. Sources without a network are refused.

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
    anchor: Positive = 100.0
    confident: UnitInterval = 0.0
    tolerance: NonNegative = 0.5
    layers: Annotated[int | None, Range(at_least=1)] = None
    scaled: bool = False
    gap_half_life_s: GapHalfLife = 30.0

    def class_frequencies(self) -> Array | None:
        """Return how frequent each class has been for this wearer, (K,) in any scale."""
        return self._keel.class_frequencies()

    def notes(self) -> tuple[str, ...]:
        """Return a remark if the source has no moments of layers."""
        plain = "plain Keel: the source has no moments of batch normalisations (SourceStats.norms)"
        return () if self._norms else (plain,)

    def _bind(self) -> None:
        self._keel = Keel(gap_half_life_s=self.gap_half_life_s).bind(self.source)
        self._encoder: Any
        self._encoder, found = recording_copy(self.source.module())
        stats = self.source.stats
        moments = (stats.norms if stats else None) or {}
        names = [name for name in found if name in moments][: self.layers]
        self._norms = [found[name] for name in names]
        self._split_checked = False
        if stats is None or not names:
            return
        for name in names:
            expected = (2, self.n_classes, len(found[name].running_mean))
            if moments[name].shape != expected:
                raise ValueError(
                    f"{self.name}: expected moments {expected} of layer {name!r}, got {moments[name].shape}; "
                    f"compute the statistics with this model (sight.source_stats)."
                )
        self._start: Array = np.concatenate([moments[name] for name in names], axis=2).astype(np.float32)
        self._prior = (stats.prior / stats.prior.sum()).astype(np.float32)
        mean, square = self._prior @ self._start
        self._floor = LEAST_SHARE * square + LEAST
        self._mean, self._var = self._mixture(self._start)
        self._spared = (self.tolerance * np.sqrt(self._var)).astype(np.float32)
        reach = FARTHEST * np.sqrt(self._var)
        self._lowest = np.array((mean - reach, 0 * mean))[:, None]  # (2, 1, C)
        self._highest = np.array((mean + reach, (abs(mean) + reach) ** 2))[:, None]
        # All layers read their statistics from one tensor (2, C), which is written once per window.
        trained = [torch.stack((norm.running_mean, norm.running_var)) for norm in self._norms]
        self._statistics = torch.cat(trained, dim=1)
        self._trained: Array = self._statistics.cpu().numpy().copy()
        widths = [part.shape[1] for part in trained]
        for norm, part in zip(self._norms, torch.split(self._statistics, widths, dim=1), strict=True):
            norm.running_mean, norm.running_var = part

    def _reset(self) -> None:
        self._keel.reset()
        classes = self.n_classes
        self.moments_ = self._start.copy() if self._norms else np.zeros((2, classes, 0), np.float32)  # (2, K, C)
        self.weights_ = np.zeros(classes)

    def _step(self, x: Array) -> Array:
        if not self._norms:
            q = self._keel.refine(*self.source.encode(x))
            self._trace = dict(self._keel.trace())
            return q
        self.source.encode(x[: 0 if self._split_checked else 1])  # raises if windows do not fit the source
        self._split_checked = True
        rows, traces = [], []
        for t in range(len(x)):
            rows.append(self._keel.refine(*self._encode(x[t : t + 1])))
            traces.append(self._keel.trace())
            self._learn(rows[-1][0])
        self._trace = {key: np.concatenate([trace[key] for trace in traces]) for key in traces[0]}
        return np.concatenate(rows)

    def _encode(self, x: Array) -> tuple[Array, Array]:
        """Return features (1, D) and probabilities (1, K) of one window under the wearer's normalisation."""
        mean, var = self._mixture(self.moments_)
        shift, change = mean - self._mean, np.log(var / self._var)
        shift = shift - np.clip(shift, -self._spared, self._spared)
        ratio = np.exp(change - np.clip(change, -self.tolerance, self.tolerance))
        if self.scaled:
            share = np.float32(self._keel.strength())
            shift, ratio = share * shift, 1 + share * (ratio - 1)
        moved = np.array((self._trained[0] + shift, self._trained[1] * ratio))
        with torch.inference_mode():
            self._statistics.copy_(torch.from_numpy(moved))
            z = self._encoder.features(torch.as_tensor(x, dtype=torch.float32, device=self._statistics.device))
            p = torch.softmax(self._encoder.head(z), dim=1)
        return z.cpu().numpy(), p.cpu().numpy()

    def _mixture(self, moments: Array) -> tuple[Array, Array]:
        """Return mean and variance (C,) of the mixture of classes with moments (2, K, C)."""
        mean, square = self._prior @ moments
        return mean, np.maximum(square - mean * mean, self._floor)

    def _learn(self, q: Array) -> None:
        """Add the moments of the last window to those of its classes."""
        if q.max() <= self.confident:
            return
        seen = torch.cat([norm.moments for norm in self._norms], dim=2).cpu().numpy()  # (2, 1, C)
        seen = np.minimum(np.maximum(seen, self._lowest), self._highest)
        self.weights_ += q
        rate = (q / (self.anchor + self.weights_)).astype(np.float32)
        self.moments_ += rate[:, None] * (seen - self.moments_)

    def _gap(self, seconds: float) -> None:
        self._keel.gap(seconds)
