"""REM: ranked entropy minimisation, masked views must agree with the plain one and not be more certain."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import Tensor

from sight.base import Needs, Presets
from sight.methods.gradient import GradientAdapter, Stats, cross_entropies, entropies
from sight.methods.gradient.norms import StatsNorm
from sight.params import NonNegative, PositiveInt, UnitInterval


@dataclass(kw_only=True)
class REM(GradientAdapter):
    """Masks the most important samples of a window, and trains for equal predictions of increasing entropy.

    Parameters
    ----------
    levels
        Views of a window, including the plain one.
    mask_step
        Share of samples that each further view masks.
    ranking
        Weight of the ranking loss (lambda).
    delta
        Margin of the ranking loss, as a share of ln K.
    lr, rule, batch, update_every, bn_stats, bn_rate, seed
        See `sight.methods.gradient.GradientAdapter`.

    Notes
    -----
    Assumes that masking evidence should reduce certainty and never increase it, which keeps entropy minimisation from
    collapsing to one class. It still makes the network more certain of the present class, so that on correlated streams
    it drifts like TENT, but more slowly.

    Differs from the authors' code, which masks the most attended patches of an image transformer and trains its layer
    norms. Here, as an inference, samples in time are replaced by the window's channel means (zeros would look like a
    change of gravity), the most important first. Importance is the attention that a token receives if the network has
    an ``attention`` method, else the mean positive activation of the last batch normalisation, else the distance from
    the channel means, each interpolated to the window. All norm layers are trained. The default statistics are the
    source's, as masked views would change those of the batch. With one sample (feature vectors) masking changes
    nothing. Samples of equal importance are masked in time order; in their code the order of ties is not defined.

    Examples
    --------
    >>> from sight.testing import toy_network, toy_stream
    >>> REM(levels=3, mask_step=0.1).bind(toy_network()).step(toy_stream(n=20).x).shape
    (20, 5)

    References
    ----------
    J. Han, J. Na, W. Hwang: Ranked Entropy Minimization for Continual Test-Time Adaptation. ICML 2025.
    arXiv:2505.16441.
    """

    name: ClassVar[str] = "rem"
    needs: ClassVar[Needs] = Needs(gradient=True, batch=True)
    presets: ClassVar[Presets] = {"sight-paper": {"lr": 1e-4, "batch": 32}}
    lr: NonNegative = 1e-3
    batch: PositiveInt = 20
    bn_stats: Stats = "source"
    levels: PositiveInt = 3
    mask_step: UnitInterval = 0.1
    ranking: NonNegative = 1.0
    delta: NonNegative = 0.0

    def _bind(self) -> None:
        super()._bind()
        self._activation: Tensor | None = None
        norms = [layer for layer in self._network.modules() if isinstance(layer, StatsNorm)]
        if norms:
            norms[-1].register_forward_hook(self._store_activation)

    def _store_activation(self, layer: Any, inputs: Any, output: Tensor) -> None:  # noqa: ARG002 - a hook's signature
        self._activation = output.detach()

    def _loss(self, x: Tensor, logits: Tensor) -> Tensor:
        order = self._importance(x).argsort(dim=1, descending=True, stable=True)
        views = [logits, *(self._network(self._masked(x, order, level)) for level in range(1, self.levels))]
        return ranked_loss(views, self.ranking, self.delta * self._max_entropy)

    @torch.no_grad()
    def _importance(self, x: Tensor) -> Tensor:
        """Return how much the prediction depends on each sample, (B, T)."""
        if hasattr(self._network, "attention"):
            coarse = self._network.attention(x)
        elif self._activation is not None and self._activation.ndim == 3 and len(self._activation) == len(x):
            coarse = self._activation.relu().mean(dim=1)
        else:
            coarse = (x - x.mean(dim=2, keepdim=True)).abs().mean(dim=1)
        return F.interpolate(coarse[:, None], size=x.shape[2], mode="linear")[:, 0]

    def _masked(self, x: Tensor, order: Tensor, level: int) -> Tensor:
        count = x.shape[2] - int(x.shape[2] * (1 - level * self.mask_step))  # rounded as in the authors' code
        samples = order[:, None, :count].expand(-1, x.shape[1], -1)
        means = x.mean(dim=2, keepdim=True).expand(-1, -1, count)
        return x.scatter(2, samples, means)


def ranked_loss(views: list[Tensor], ranking: float, margin: float) -> Tensor:
    """Return consistency plus `ranking` times the order loss of logits of views, from plain to most masked."""
    total = torch.zeros((), device=views[0].device)
    for easy, hard in combinations(views, 2):
        agreement = cross_entropies(torch.softmax(easy, dim=1), hard)
        disorder = torch.relu(entropies(easy) - entropies(hard).detach() + margin)
        total = total + (agreement + ranking * disorder).mean()
    return total
