"""SAR: sharpness-aware and reliable entropy minimisation, with a reset when the model grows too sure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from sight.base import Needs
from sight.methods._norms import norm_layers
from sight.methods._torch import GradientAdapter, entropies


@dataclass(kw_only=True)
class SAR(GradientAdapter):
    """Minimises entropy of the surer windows only, towards flat minima, and starts over before it collapses.

    Parameters
    ----------
    margin
        Entropy above which a window is left out, as a share of ln K.
    rho
        Length of the step uphill before the gradient is taken.
    reset_below
        Running mean of the loss, as a share of ln K, under which the model returns to the source; 0 never does.
    momentum
        Of the optimiser.
    frozen_last
        Norm layers nearest the head that are not trained.
    lr, rule, batch, update_every, bn_stats, bn_rate, seed
        As for every method with gradients.

    Notes
    -----
    It believes that large gradients come from unsure windows and that a low loss means collapse. With batch
    statistics it fails on correlated streams as TENT does, before either belief can help; the authors themselves
    advise layer or group norms for small batches. A network that is sure of an easy activity looks collapsed.

    Defaults are the authors' for a ResNet and batches of 64. Both thresholds come from theirs at 1,000 classes
    (0.4 ln 1000, and 0.2, which is 0.029 of ln 1000). Fixed here: after a reset the running mean starts anew, where
    their code puts the stale value back and resets at every following batch; a batch that leaves no window is
    skipped, where theirs steps on with its momentum; the reset threshold can be set. They leave out the last stage of
    their networks by name; `frozen_last` does so by count, and is 0 because those names match nothing here.

    Examples
    --------
    >>> from sight.testing import toy_network, toy_stream
    >>> adapter = SAR(bn_stats="source", reset_below=0).bind(toy_network())
    >>> q = adapter.step(toy_stream(n=40).x)
    >>> 0 < adapter.kept_ < adapter.seen_
    True

    References
    ----------
    S. Niu, J. Wu, Y. Zhang, Z. Wen, Y. Chen, P. Zhao, M. Tan: Towards Stable Test-Time Adaptation in Dynamic Wild
    World. ICLR 2023. arXiv:2302.12400.
    """

    name: ClassVar[str] = "sar"
    needs: ClassVar[Needs] = Needs(gradient=True, batch=True)
    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("snapshot",)
    _amounts: ClassVar[tuple[str, ...]] = (*GradientAdapter._amounts, "margin", "rho", "reset_below", "frozen_last")
    _shares: ClassVar[tuple[str, ...]] = (*GradientAdapter._shares, "momentum")
    lr: float = 2.5e-4
    batch: int = 64
    margin: float = 0.4
    rho: float = 0.05
    reset_below: float = 0.2 / math.log(1000)
    momentum: float = 0.9
    frozen_last: int = 0

    def _trainable(self) -> dict[str, nn.Parameter]:
        layers = list(norm_layers(self._network).items())
        trained = layers[: len(layers) - self.frozen_last]
        return {f"{name}.{key}": p for name, layer in trained for key, p in layer.named_parameters()}

    def _make_optimiser(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=self.lr, momentum=self.momentum)

    def _reset(self) -> None:
        super()._reset()
        self.average_, self.averaging_ = 0.0, False
        self.seen_, self.kept_, self.resets_ = 0, 0, 0

    def _update(self, x: Tensor, logits: Tensor | None = None) -> None:
        margin = self.margin * self._max_entropy
        unsure = entropies(self._learning_pass(x) if logits is None else logits)
        kept = unsure.detach() < margin
        self.seen_ += len(x)
        self.kept_ += int(kept.sum())
        if not kept.any():
            return
        parameters = list(self._trained.values())
        here = [parameter.detach().clone() for parameter in parameters]
        self._climb(parameters, torch.autograd.grad(unsure[kept].mean(), parameters))
        uphill = entropies(self._network(x))[kept]
        still = uphill.detach() < margin
        self._optimiser.zero_grad()
        if still.any():
            uphill[still].mean().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for parameter, value in zip(parameters, here, strict=True):
                parameter.copy_(value)
        if still.any():
            self._optimiser.step()
            self._watch(float(uphill[still].detach().mean()))

    @torch.no_grad()
    def _climb(self, parameters: list[nn.Parameter], gradients: tuple[Tensor, ...]) -> None:
        """Go `rho` uphill, all parameters together."""
        length = torch.sqrt(sum(((g * g).sum() for g in gradients), torch.zeros((), device=gradients[0].device)))
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.add_(gradient * (self.rho / (length + 1e-12)))

    def _watch(self, loss: float) -> None:
        """Follow the loss and return to the source when it is suspiciously low."""
        self.average_ = 0.9 * self.average_ + 0.1 * loss if self.averaging_ else loss
        self.averaging_ = True
        if self.average_ < self.reset_below * self._max_entropy:
            self._network.load_state_dict(self._snapshot)
            for tensor in self.optimiser_.tensors.values():
                tensor.zero_()
            self.average_, self.averaging_ = 0.0, False
            self.resets_ += 1
