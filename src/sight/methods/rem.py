"""REM: ranked entropy minimisation, the masked view must agree with the plain one and be no surer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import Tensor

from sight.base import Needs
from sight.methods._norms import Stats, StatsNorm
from sight.methods._torch import GradientAdapter, cross_entropies, entropies


@dataclass(kw_only=True)
class REM(GradientAdapter):
    """Hides more and more of the telling moments of a window, and asks for equal answers of rising entropy.

    Parameters
    ----------
    levels
        Views of a window, the plain one among them.
    mask_step
        Share of moments that each further view hides.
    ranking
        Weight of the ranking loss (lambda).
    delta
        Margin of the ranking loss, as a share of ln K.
    lr, rule, batch, update_every, bn_stats, bn_rate, seed
        As for every method with gradients.

    Notes
    -----
    It believes that hiding evidence should cost certainty, never add it; this keeps entropy minimisation from
    collapsing on a single class. It still makes the network surer of whatever is in front, so on correlated streams
    it drifts like TENT, more slowly.

    The authors hide the most attended patches of an image transformer and train its layer norms. Here, an inference:
    moments of time are hidden by the window's channel means (zeros would fake a change of gravity), most telling first.
    Telling is the attention a token receives where the network has an ``attention`` method, else the mean positive
    activation of the last batch normalisation, else the distance from the channel means, each stretched to
    the window. All norm layers are trained. The source's statistics are the default, as masked views would
    change those of the batch. With one moment (feature vectors) nothing is hidden.

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
    _counts: ClassVar[tuple[str, ...]] = (*GradientAdapter._counts, "levels")
    _amounts: ClassVar[tuple[str, ...]] = (*GradientAdapter._amounts, "ranking", "delta")
    _shares: ClassVar[tuple[str, ...]] = (*GradientAdapter._shares, "mask_step")
    lr: float = 1e-3
    batch: int = 20
    bn_stats: Stats = "source"
    levels: int = 3
    mask_step: float = 0.1
    ranking: float = 1.0
    delta: float = 0.0

    def _bind(self) -> None:
        super()._bind()
        self._activation: Tensor | None = None
        norms = [layer for layer in self._network.modules() if isinstance(layer, StatsNorm)]
        if norms:
            norms[-1].register_forward_hook(self._look)

    def _look(self, layer: Any, inputs: Any, output: Tensor) -> None:  # noqa: ARG002 - the signature of a hook
        self._activation = output.detach()

    def _loss(self, x: Tensor, logits: Tensor) -> Tensor:
        order = self._telling(x).argsort(dim=1, descending=True, stable=True)
        views = [logits, *(self._network(self._masked(x, order, level)) for level in range(1, self.levels))]
        return ranked_loss(views, self.ranking, self.delta * self._max_entropy)

    @torch.no_grad()
    def _telling(self, x: Tensor) -> Tensor:
        """How much the answer rests on each moment, (B, T)."""
        if hasattr(self._network, "attention"):
            coarse = self._network.attention(x)
        elif self._activation is not None and self._activation.ndim == 3 and len(self._activation) == len(x):
            coarse = self._activation.relu().mean(dim=1)
        else:
            coarse = (x - x.mean(dim=2, keepdim=True)).abs().mean(dim=1)
        return F.interpolate(coarse[:, None], size=x.shape[2], mode="linear")[:, 0]

    def _masked(self, x: Tensor, order: Tensor, level: int) -> Tensor:
        """Hide the first moments of an order (B, T), more at a higher level."""
        hidden = round(level * self.mask_step * x.shape[2])
        moments = order[:, None, :hidden].expand(-1, x.shape[1], -1)
        means = x.mean(dim=2, keepdim=True).expand(-1, -1, hidden)
        return x.scatter(2, moments, means)


def ranked_loss(views: list[Tensor], ranking: float, margin: float) -> Tensor:
    """Logits of views from plain to most hidden, to consistency plus `ranking` times the loss of order."""
    total = torch.zeros((), device=views[0].device)
    for easy, hard in combinations(views, 2):
        agreement = cross_entropies(torch.softmax(easy, dim=1), hard)
        disorder = torch.relu(entropies(easy) - entropies(hard).detach() + margin)
        total = total + (agreement + ranking * disorder).mean()
    return total
