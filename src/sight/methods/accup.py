"""ACCUP: augmented contrastive clustering with uncertainty-aware prototypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import Tensor, nn

from sight.base import Needs
from sight.methods._augment import magnitude_warp
from sight.methods._norms import learning
from sight.methods._torch import GradientAdapter, entropies
from sight.methods.t3a import head_supports
from sight.ops import unit
from sight.types import Array


@dataclass(kw_only=True)
class ACCUP(GradientAdapter):
    """Averages a window with a warped view, answers by prototypes where they are surer, and pulls clusters together.

    Parameters
    ----------
    M
        Supports kept for each predicted class, those of lowest entropy.
    tau
        Sharpness of the prototypes' answer.
    temperature
        Of the contrastive loss.
    sigma, knots
        Spread and inner points of the magnitude warp.
    weight_decay
        Of the optimiser.
    lr, rule, batch, update_every, bn_stats, bn_rate, seed
        As for every method with gradients.

    Notes
    -----
    It believes that windows with the same pseudo-label belong together. On correlated streams a batch has one
    label: everything is pulled into one point, by a step on all weights but the head's, with batch statistics that
    have removed what set the activity apart.

    Differs from the authors' code in that answers are probabilities throughout (theirs mixes scaled cosines with
    probabilities; the order of classes is the same); that warps are drawn as windows come, where theirs are
    computed before for a whole file, scaled by that file's statistics; and that probabilities of supports, which
    nothing reads, are not kept. The source should be trained with label smoothing for the authors' setting.

    Examples
    --------
    >>> from sight.testing import toy_network, toy_stream
    >>> adapter = ACCUP(M=3).bind(toy_network())
    >>> q = adapter.step(toy_stream(n=32).x)
    >>> int(adapter.supports_.count.max())
    3

    References
    ----------
    P. Gong, M. Ragab, M. Wu, Z. Chen, Y. Su, X. Li, D. Zhang: Augmented Contrastive Clustering with
    Uncertainty-Aware Prototyping for Time Series Test Time Adaptation. KDD 2025. arXiv:2501.01472.
    """

    name: ClassVar[str] = "accup"
    needs: ClassVar[Needs] = Needs(gradient=True, batch=True)
    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("optimiser", "features")
    _counts: ClassVar[tuple[str, ...]] = (*GradientAdapter._counts, "M")
    _amounts: ClassVar[tuple[str, ...]] = (*GradientAdapter._amounts, "tau", "sigma", "knots", "weight_decay")
    _positive: ClassVar[tuple[str, ...]] = ("temperature",)
    lr: float = 3e-4
    M: int = 10
    tau: float = 20.0
    temperature: float = 0.7
    sigma: float = 0.1
    knots: int = 150
    weight_decay: float = 1e-4

    def _trainable(self) -> dict[str, nn.Parameter]:
        head = {id(parameter) for parameter in self._network.head.parameters()}
        return {name: p for name, p in self._network.named_parameters() if id(p) not in head}

    def _make_optimiser(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)

    def _reset(self) -> None:
        super()._reset()
        self.supports_ = head_supports(self.source, self.M)

    def _piece(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(not self._waits()):
            features, views = self._views(x)
        mean_logits = views[2].detach()
        found = zip(features, mean_logits.argmax(dim=1).tolist(), entropies(mean_logits).tolist(), strict=True)
        for feature, label, unsure in found:
            self.supports_.add(feature, label, unsure)
        q = self._ensemble(features, mean_logits)
        if self._waits():
            self._when_due(x)
        else:
            self._descend(contrastive_loss(views, q.argmax(dim=1), self.temperature))
        return q

    def _update(self, x: Tensor, logits: Tensor | None = None) -> None:  # noqa: ARG002 - two views are needed
        features, views = self._views(x)
        labels = self._ensemble(features, views[2].detach()).argmax(dim=1)
        self._descend(contrastive_loss(views, labels, self.temperature))

    def _views(self, x: Tensor) -> tuple[Array, Tensor]:
        """Mean features (B, D) of a window and its warp; logits of both and their mean, (3, B, K)."""
        with learning(self._network):
            plain = self._network.features(x)
            warped = magnitude_warp(x.cpu().numpy(), self.dice_.generator, self.sigma, self.knots)
            other = self._network.features(self._tensor(warped))
        logits = torch.stack([self._network.head(plain), self._network.head(other)])
        features = (plain + other).detach() / 2
        return features.cpu().numpy(), torch.cat([logits, logits.mean(dim=0, keepdim=True)])

    def _ensemble(self, features: Array, logits: Tensor) -> Tensor:
        """Probabilities of the prototypes or of the network, whichever are surer, window by window."""
        cosines = unit(features) @ unit(self.supports_.means()).T
        scores = self.tau * self._tensor(cosines)
        surer = entropies(scores) < entropies(logits)
        return torch.softmax(torch.where(surer[:, None], scores, logits), dim=1)


def contrastive_loss(views: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Supervised contrastive loss of logits (V, B, K), positives being all others of the same label (B,)."""
    points = F.normalize(views.flatten(0, 1), dim=1)
    label = labels.repeat(len(views))
    itself = torch.eye(len(points), dtype=torch.bool, device=points.device)
    similarity = (points @ points.T / temperature).masked_fill(itself, -torch.inf)
    log_share = (similarity - similarity.logsumexp(dim=1, keepdim=True)).masked_fill(itself, 0)
    positive = (label[:, None] == label) & ~itself
    return -((log_share * positive).sum(dim=1) / positive.sum(dim=1).clamp(min=1)).mean()
