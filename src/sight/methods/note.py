"""NOTE: instance-aware normalisation and a memory balanced over predictions, made for correlated streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sight.base import Needs
from sight.methods._norms import InstanceAwareNorm, Stats
from sight.methods._replay import BalancedReservoir
from sight.methods._torch import GradientAdapter, entropies


@dataclass(kw_only=True)
class NOTE(GradientAdapter):
    """Learns from a memory that is balanced although the stream is not, and normalises each window for itself.

    Parameters
    ----------
    memory
        Windows kept, balanced over predicted classes, each class a uniform sample over time.
    k
        Standard errors that a window's own statistics may be off before they count.
    iabn
        Instance-aware normalisation in place of each batch normalisation; False leaves `bn_stats` to say.
    update_every
        Windows between two passes over the memory, under both rules.
    batch
        Windows of a mini-batch of that pass; also of a chunk.
    bn_rate
        Momentum of stored statistics.
    lr, rule, bn_stats, seed
        As for every method with gradients.

    Notes
    -----
    It believes that predictions are good enough to balance by. Where a class is never predicted the memory lacks it;
    where whole segments are wrong it is balanced over the wrong classes. The norm expects a network that was trained
    with it; inserted into one that was not, it shifts features, more so where windows are short.

    Entropy is summed over classes and averaged over windows; the authors average over both, which Adam does not
    feel. Theirs drops the last windows from evaluation when the stream is no multiple of 64; here all are answered.
    Batch variances are unbiased while learning, as theirs. A batch of 32 in the preset "sight-paper" means two
    mini-batches per pass, an inference. Networks without batch normalisation keep theirs and train it.

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
    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("snapshot", "optimiser", "windows")
    _counts: ClassVar[tuple[str, ...]] = (*GradientAdapter._counts, "memory")
    _amounts: ClassVar[tuple[str, ...]] = (*GradientAdapter._amounts, "k")
    lr: float = 1e-4
    rule: Literal["chunk", "stream"] = "stream"
    batch: int = 64
    update_every: int = 64
    memory: int = 64
    k: float = 4.0
    iabn: bool = True
    bn_stats: Stats = "ema"
    bn_rate: float = 0.01

    def _norm(self, layer: _BatchNorm) -> nn.Module:
        return InstanceAwareNorm(layer, self.k, self.bn_rate) if self.iabn else super()._norm(layer)

    def _reset(self) -> None:
        super()._reset()
        self.memory_ = BalancedReservoir(self.memory, self._shape, self.n_classes)
        self.count_ = 0

    def _waits(self) -> bool:
        return False  # the memory is what updates wait for

    def _piece(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            q = torch.softmax(self._network(x), dim=1)
        for window, label in zip(x.cpu().numpy(), q.argmax(dim=1).tolist(), strict=True):
            self.memory_.add(window, label, self.dice_.generator)
            self.count_ += 1
            if self.count_ % self.update_every == 0:
                self._replay()
        return q

    def _replay(self) -> None:
        """Pass once over the memory."""
        order = self.dice_.generator.permutation(self.memory_.size)
        for first in range(0, len(order), self.batch):
            self._update(self._tensor(self.memory_.windows[order[first : first + self.batch]]))

    def _loss(self, x: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002 - only the answer matters
        return entropies(logits).mean()
