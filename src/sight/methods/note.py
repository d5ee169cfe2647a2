"""NOTE: instance-aware normalisation and a prediction-balanced memory, for correlated streams."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sight.base import Needs, Presets
from sight.methods.gradient import GradientAdapter, Rule, Stats, entropies
from sight.methods.gradient.norms import InstanceAwareNorm
from sight.methods.gradient.window_memory import BalancedReservoir
from sight.params import NonNegative, PositiveInt, UnitInterval


@dataclass(kw_only=True)
class NOTE(GradientAdapter):
    """Trains on a memory balanced over predicted classes, and corrects the normalisation for each window.

    Parameters
    ----------
    memory
        Windows stored, balanced over predicted classes, each class a uniform sample over time.
    k
        Standard errors by which a window's own statistics may deviate before they are corrected for.
    iabn
        Instance-aware normalisation in place of each batch normalisation; with False `bn_stats` applies.
    update_every
        Windows between two passes over the memory, under both rules.
    batch
        Windows of a mini-batch of that pass; also of a chunk.
    bn_rate
        Momentum of stored statistics.
    lr, rule, bn_stats, seed
        See `sight.methods.gradient.GradientAdapter`.

    Notes
    -----
    Assumes that predictions are good enough to balance the memory by. A class that is never predicted is missing in the
    memory; if whole segments are wrong, the memory is balanced over wrong classes. The norm expects a network that was
    trained with it; inserted into another one it shifts features, more so with short windows.

    Differs from the authors' code in that entropy is summed over classes and averaged over windows, where theirs
    averages over both, which makes no difference to Adam; in that nothing is added to probabilities under the
    logarithm, where theirs adds 1e-6 (1.5e-5 in predictions); and in that all windows are predicted, where theirs drops
    the last ones from evaluation if the stream is not a multiple of 64. Batch variances are unbiased while learning, as
    theirs. Their batch of 128 is larger than the memory, so that a pass is one step. A batch of 32 in the preset
    "sight-paper" means two mini-batches per pass, an inference. Networks without batch normalisation keep their norm
    layers and train them.

    Examples
    --------
    >>> from sight.testing import toy_network, toy_stream
    >>> adapter = NOTE(memory=8, update_every=16).bind(toy_network())
    >>> adapter.step(toy_stream(n=40).x).shape, adapter.memory_.size
    ((40, 5), 8)

    References
    ----------
    T. Gong, J. Jeong, T. Kim, Y. Kim, J. Shin, S.-J. Lee: NOTE: Robust Continual Test-time Adaptation Against
    Temporal Correlation. NeurIPS 2022. arXiv:2208.05117.
    """

    name: ClassVar[str] = "note"
    needs: ClassVar[Needs] = Needs(gradient=True, raw_windows=True)
    presets: ClassVar[Presets] = {"sight-paper": {"lr": 1e-4, "batch": 32, "memory": 64}}
    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("snapshot", "optimiser", "windows")
    lr: NonNegative = 1e-4
    rule: Rule = "stream"
    batch: PositiveInt = 128
    update_every: PositiveInt = 64
    memory: PositiveInt = 64
    k: NonNegative = 4.0
    iabn: bool = True
    bn_stats: Stats = "ema"
    bn_rate: UnitInterval = 0.01

    def _norm(self, layer: _BatchNorm) -> nn.Module:
        return InstanceAwareNorm(layer, self.k, self.bn_rate) if self.iabn else super()._norm(layer)

    def _reset(self) -> None:
        super()._reset()
        self.memory_ = BalancedReservoir(self.memory, self._shape, self.n_classes)
        self.count_ = 0

    def _waits(self) -> bool:
        return False  # updates use the memory

    def _predict(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            q = torch.softmax(self._network(x), dim=1)
        for window, label in zip(x.cpu().numpy(), q.argmax(dim=1).tolist(), strict=True):
            self.memory_.add(window, label, self.random_.generator)
            self.count_ += 1
            if self.count_ % self.update_every == 0:
                self._replay()
        return q

    def _replay(self) -> None:
        order = self.random_.generator.permutation(self.memory_.size)
        for first in range(0, len(order), self.batch):
            self._update(self._tensor(self.memory_.windows[order[first : first + self.batch]]))

    def _loss(self, x: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002 - only the logits are used
        return entropies(logits).mean()
