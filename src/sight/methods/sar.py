"""SAR: sharpness-aware and reliable entropy minimisation, with a reset before the model collapses."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from sight.base import Needs, Presets
from sight.methods.gradient import GradientAdapter, entropies
from sight.methods.gradient.norms import norm_layers
from sight.params import NonNegative, NonNegativeInt, PositiveInt, UnitInterval


@dataclass(kw_only=True)
class SAR(GradientAdapter):
    """Minimises the entropy of certain windows towards flat minima, and resets when its loss becomes too low.

    Parameters
    ----------
    margin
        Entropy above which a window is left out, as a share of ln K.
    rho
        Length of the ascent step before the gradient is computed.
    reset_below
        Running mean of the loss, as a share of ln K, below which the model is reset to the source; 0 for never.
    momentum
        Momentum of the optimiser.
    scale_lr
        Reduce the learning rate for updates on fewer than 32 windows, as the authors do: in proportion to their number,
        and by 16 for single windows.
    frozen_last
        Number of norm layers nearest to the head that are not trained.
    lr, rule, batch, update_every, bn_stats, bn_rate, seed
        See `sight.methods.gradient.GradientAdapter`.

    Notes
    -----
    Assumes that large gradients come from uncertain windows and that a low loss means collapse. With batch statistics
    it fails on correlated streams as TENT does, before either assumption can help; the authors themselves recommend
    layer or group norms for small batches. A network that is certain of an easy activity looks collapsed.

    Defaults are the authors' for a ResNet and batches of 64. As in their code, a reset restores parameters and keeps
    the optimiser's momentum. Both thresholds are derived from theirs for 1,000 classes (0.4 ln 1000, and 0.2, which is
    0.029 of ln 1000). Differs from the authors' code in three fixes: after a reset the running mean starts anew, where
    their code restores the old value and resets at every following batch; a batch without certain windows is skipped,
    where theirs takes a step by momentum; and the reset threshold is a parameter. They leave out the last stage of
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
    presets: ClassVar[Presets] = {"sight-paper": {"lr": 1e-4, "batch": 32}}
    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("snapshot",)
    lr: NonNegative = 2.5e-4
    batch: PositiveInt = 64
    margin: NonNegative = 0.4
    rho: NonNegative = 0.05
    reset_below: NonNegative = 0.2 / math.log(1000)
    momentum: UnitInterval = 0.9
    scale_lr: bool = True
    frozen_last: NonNegativeInt = 0

    def _trainable(self) -> dict[str, nn.Parameter]:
        layers = list(norm_layers(self._network).items())
        trained = layers[: len(layers) - self.frozen_last]
        return {f"{name}.{key}": p for name, layer in trained for key, p in layer.named_parameters()}

    def _make_optimiser(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        windows = self.batch if self.rule == "chunk" else self.update_every
        share = min((2 if windows == 1 else windows) / 32, 1) if self.scale_lr else 1
        return torch.optim.SGD(parameters, lr=self.lr * share, momentum=self.momentum)

    def _reset(self) -> None:
        super()._reset()
        self.average_, self.averaging_ = 0.0, False
        self.seen_, self.kept_, self.resets_ = 0, 0, 0

    def _update(self, x: Tensor, logits: Tensor | None = None) -> None:
        margin = self.margin * self._max_entropy
        entropy = entropies(self._learning_pass(x) if logits is None else logits)
        kept = entropy.detach() < margin
        self.seen_ += len(x)
        self.kept_ += int(kept.sum())
        if not kept.any():
            return
        parameters = list(self._trained.values())
        before = [parameter.detach().clone() for parameter in parameters]
        self._ascend(parameters, torch.autograd.grad(entropy[kept].mean(), parameters))
        perturbed = entropies(self._network(x))[kept]
        reliable = perturbed.detach() < margin
        self._optimiser.zero_grad()
        if reliable.any():
            perturbed[reliable].mean().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for parameter, value in zip(parameters, before, strict=True):
                parameter.copy_(value)
        if reliable.any():
            self._optimiser.step()
            self._reset_if_collapsed(float(perturbed[reliable].detach().mean()))

    @torch.no_grad()
    def _ascend(self, parameters: list[nn.Parameter], gradients: tuple[Tensor, ...]) -> None:
        length = torch.sqrt(sum(((g * g).sum() for g in gradients), torch.zeros((), device=gradients[0].device)))
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.add_(gradient * (self.rho / (length + 1e-12)))

    def _reset_if_collapsed(self, loss: float) -> None:
        self.average_ = 0.9 * self.average_ + 0.1 * loss if self.averaging_ else loss
        self.averaging_ = True
        if self.average_ < self.reset_below * self._max_entropy:
            self._network.load_state_dict(self._snapshot)
            self.average_, self.averaging_ = 0.0, False
            self.resets_ += 1
