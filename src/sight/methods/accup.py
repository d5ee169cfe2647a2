"""ACCUP: augmented contrastive clustering with uncertainty-aware prototypes."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import Tensor, nn

from sight.base import Needs, Presets
from sight.methods.gradient import GradientAdapter, entropies
from sight.methods.gradient.augmentation import magnitude_warp
from sight.methods.gradient.norms import learning
from sight.methods.ops import unit
from sight.methods.t3a import head_supports
from sight.params import NonNegative, NonNegativeInt, Positive, PositiveInt
from sight.types import Array


@dataclass(kw_only=True)
class ACCUP(GradientAdapter):
    """Classifies by prototypes where they are more certain than the network, and trains a contrastive loss.

    Parameters
    ----------
    M
        Supports stored for each predicted class, those of lowest entropy.
    tau
        Sharpness of the prediction by prototypes.
    temperature
        Temperature of the contrastive loss.
    sigma, knots
        Standard deviation and inner points of the magnitude warp.
    weight_decay
        Weight decay of the optimiser.
    lr, rule, batch, update_every, bn_stats, bn_rate, seed
        See `sight.methods.gradient.GradientAdapter`.

    Notes
    -----
    Assumes that windows with the same pseudo-label belong together. On correlated streams a batch has one label: all
    features are pulled to one point, by a step on all weights except the head's, with batch statistics that have
    removed what distinguishes the activity.

    Differs from the authors' code in that outputs are always probabilities (theirs mixes scaled cosines with
    probabilities; the order of classes is the same); that warps are drawn during the stream, where theirs are computed
    in advance for a whole file, scaled by its statistics; that the spline of a warp is natural (no curvature at its
    ends), where theirs is "not-a-knot"; and that probabilities of supports, which are never read, are not stored. With
    the authors' 150 knots the two splines differ in the first and last samples only; with few knots they differ over
    the whole window, with 4 by up to a tenth of `sigma` in its middle. For the authors' configuration the source should
    be trained with label smoothing.

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
    presets: ClassVar[Presets] = {"sight-paper": {"lr": 1e-4, "batch": 32, "M": 3}}
    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("optimiser", "features")
    lr: NonNegative = 3e-4
    M: PositiveInt = 10
    tau: NonNegative = 20.0
    temperature: Positive = 0.7
    sigma: NonNegative = 0.1
    knots: NonNegativeInt = 150
    weight_decay: NonNegative = 1e-4

    def _trainable(self) -> dict[str, nn.Parameter]:
        head = {id(parameter) for parameter in self._network.head.parameters()}
        return {name: p for name, p in self._network.named_parameters() if id(p) not in head}

    def _make_optimiser(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)

    def _reset(self) -> None:
        super()._reset()
        self.supports_ = head_supports(self.source, self.M)

    def _predict(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(not self._waits()):
            features, views = self._views(x)
        mean_logits = views[2].detach()
        labels, uncertain = mean_logits.argmax(dim=1).tolist(), entropies(mean_logits).tolist()
        for feature, label, value in zip(features, labels, uncertain, strict=True):
            self.supports_.add(feature, label, value)
        q = self._ensemble(features, mean_logits)
        if self._waits():
            self._update_if_due(x)
        else:
            self._descend(contrastive_loss(views, q.argmax(dim=1), self.temperature))
        return q

    def _update(self, x: Tensor, logits: Tensor | None = None) -> None:  # noqa: ARG002 - needs two views
        features, views = self._views(x)
        labels = self._ensemble(features, views[2].detach()).argmax(dim=1)
        self._descend(contrastive_loss(views, labels, self.temperature))

    def _views(self, x: Tensor) -> tuple[Array, Tensor]:
        """Return mean features (B, D) of windows and their warps; logits of both and their mean, (3, B, K)."""
        with learning(self._network):
            plain = self._network.features(x)
            warped = magnitude_warp(x.cpu().numpy(), self.random_.generator, self.sigma, self.knots)
            other = self._network.features(self._tensor(warped))
        logits = torch.stack([self._network.head(plain), self._network.head(other)])
        features = (plain + other).detach() / 2
        return features.cpu().numpy(), torch.cat([logits, logits.mean(dim=0, keepdim=True)])

    def _ensemble(self, features: Array, logits: Tensor) -> Tensor:
        cosines = unit(features) @ unit(self.supports_.means()).T
        scores = self.tau * self._tensor(cosines)
        better = entropies(scores) < entropies(logits)
        return torch.softmax(torch.where(better[:, None], scores, logits), dim=1)


def contrastive_loss(views: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Return the supervised contrastive loss of logits (V, B, K); positives are all others of the same label (B,)."""
    points = F.normalize(views.flatten(0, 1), dim=1)
    label = labels.repeat(len(views))
    itself = torch.eye(len(points), dtype=torch.bool, device=points.device)
    similarity = (points @ points.T / temperature).masked_fill(itself, -torch.inf)
    log_share = (similarity - similarity.logsumexp(dim=1, keepdim=True)).masked_fill(itself, 0)
    positive = (label[:, None] == label) & ~itself
    return -((log_share * positive).sum(dim=1) / positive.sum(dim=1).clamp(min=1)).mean()
