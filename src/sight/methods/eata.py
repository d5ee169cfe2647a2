"""EATA: entropy minimisation on windows that are sure and new, without forgetting what mattered to the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sight.base import Needs
from sight.methods._torch import GradientAdapter, entropies
from sight.types import Array


@dataclass(kw_only=True)
class EATA(GradientAdapter):
    """Learns only from sure windows whose answer differs from the usual one, and holds on to important parameters.

    Parameters
    ----------
    margin
        Entropy above which a window is left out, as a share of ln K.
    similarity
        Cosine with the running mean answer from which a window is called redundant.
    alpha
        Strength of the pull back to the source, where the source brings Fisher information.
    momentum
        Of the optimiser.
    lr, rule, batch, update_every, bn_stats, bn_rate, seed
        As for every method with gradients.

    Notes
    -----
    It believes that a window like the average teaches nothing. On correlated streams a segment is learned from until
    the running answer has come round to it, a few batches, and the rest of it is called redundant: little adaptation
    where activities last. It answers with batch statistics, which fail there as TENT's do.

    Fisher information comes with the source (``source.fisher``, name to array; made at training). Without it
    the pull back is left out, and `notes` says so. Defaults are the authors' for ImageNet except the similarity,
    theirs for ten classes: 0.4 instead of 0.05. The margin is a share of ln K, where theirs is fixed to 1,000
    classes. A batch that leaves no window is skipped.

    Examples
    --------
    >>> from sight.testing import toy_network, toy_stream
    >>> adapter = EATA(bn_stats="source", batch=10).bind(toy_network())
    >>> x = toy_stream(n=200).x
    >>> for t in range(0, 200, 10):
    ...     q = adapter.step(x[t : t + 10])
    >>> adapter.kept_ < adapter.sure_ < adapter.seen_
    True

    References
    ----------
    S. Niu, J. Wu, Y. Zhang, Y. Chen, S. Zheng, P. Zhao, M. Tan: Efficient Test-Time Model Adaptation without
    Forgetting. ICML 2022. arXiv:2204.02610.
    """

    name: ClassVar[str] = "eata"
    needs: ClassVar[Needs] = Needs(gradient=True, batch=True, source_stats="optional")
    _amounts: ClassVar[tuple[str, ...]] = (*GradientAdapter._amounts, "margin", "alpha")
    _shares: ClassVar[tuple[str, ...]] = (*GradientAdapter._shares, "momentum", "similarity")
    lr: float = 2.5e-4
    batch: int = 64
    margin: float = 0.4
    similarity: float = 0.4
    alpha: float = 2000.0
    momentum: float = 0.9

    def notes(self) -> tuple[str, ...]:
        """Return remarks that a row of results should carry."""
        return () if self._fisher else ("eata: the source has no Fisher information; ran without its pull back",)

    def _bind(self) -> None:
        super()._bind()
        fisher = getattr(self.source, "fisher", None) or {}
        self._fisher = {name: self._tensor(fisher[name]) for name in self._trained if name in fisher}

    def _make_optimiser(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=self.lr, momentum=self.momentum)

    def _reset(self) -> None:
        super()._reset()
        self.usual_: Array = np.zeros(self.n_classes, np.float32)  # running mean answer; zeros before the first
        self.seen_, self.sure_, self.kept_ = 0, 0, 0

    def _loss(self, x: Tensor, logits: Tensor) -> Tensor | None:
        margin = self.margin * self._max_entropy
        unsure = entropies(logits)
        p = torch.softmax(logits.detach(), dim=1)
        sure = unsure.detach() < margin
        kept = sure & self._is_new(p)
        self.seen_, self.sure_, self.kept_ = (
            self.seen_ + len(x),
            self.sure_ + int(sure.sum()),
            self.kept_ + int(kept.sum()),
        )
        if not kept.any():
            return None
        mean = p[kept].mean(dim=0).cpu().numpy()
        self.usual_ = 0.9 * self.usual_ + 0.1 * mean if self.usual_.any() else mean
        weight = torch.exp(margin - unsure[kept].detach())
        return (weight * unsure[kept]).mean() + self._pull_back()

    def _is_new(self, p: Tensor) -> Tensor:
        if not self.usual_.any():
            return torch.ones(len(p), dtype=torch.bool, device=p.device)
        return torch.cosine_similarity(self._tensor(self.usual_)[None], p, dim=1).abs() < self.similarity

    def _pull_back(self) -> Tensor:
        """Distance from the source, each parameter weighted by how much it mattered there."""
        terms = [
            (fisher * (self._trained[name] - self._snapshot[name]) ** 2).sum() for name, fisher in self._fisher.items()
        ]
        return self.alpha * torch.stack(terms).sum() if terms else torch.zeros(())
