"""SIGHT's step in torch, for the export as ONNX."""

import torch
from torch import Tensor, nn

from sight.methods.compiled.fused import FusedStep, length, unit
from sight.methods.sight.method import SIGHT
from sight.methods.sight.state import PRIOR_FLOOR, SUM_FLOOR


class SightStep(FusedStep):
    """SIGHT with its model; see `sight.methods.sight.reference` for the computation."""

    anchors: Tensor

    def __init__(self, network: nn.Module, adapter: SIGHT) -> None:
        super().__init__(network, adapter)
        anchors, self.params = adapter.constants
        self.register_buffer("anchors", torch.from_numpy(anchors))

    def forward(
        self, x: Tensor, prototypes: Tensor, habit: Tensor, belief: Tensor, count: Tensor
    ) -> tuple[Tensor, ...]:
        params, uniform = self.params, 1 / len(habit)
        feature, p = self.encode(x)
        evidence, fresh = p[0], count == 0
        prototypes = torch.where(fresh, self.anchors, prototypes)
        habit, belief = torch.where(fresh, uniform, habit), torch.where(fresh, uniform, belief)
        if not params.authors:
            feature = unit(feature, params.eps)
        prior, surprise = self._prior(feature, prototypes, habit, belief)
        q = torch.where(fresh, evidence, self._consensus(evidence, prior))
        recent = (1 - params.eta_h) * habit + params.eta_h * (belief if params.authors else q)
        habit = torch.where(fresh, habit, recent) if params.authors else recent
        surprise = torch.where(fresh, 0.0, surprise)
        return q[None], p, surprise, self._moved(feature, q, prototypes), habit, q, count + 1

    def _prior(self, feature: Tensor, prototypes: Tensor, habit: Tensor, belief: Tensor) -> tuple[Tensor, Tensor]:
        params = self.params
        expected = belief @ prototypes
        if not params.authors:
            expected = unit(expected, params.eps)
        surprise = self._surprise(feature, expected)
        routing = torch.full_like(belief, 1 / len(belief))
        if params.routing:
            directions = self._directions(prototypes, expected, belief)
            alignment = unit(directions, params.cosine_floor) @ unit(feature - expected, params.cosine_floor)
            routing = torch.softmax(alignment / params.tau, dim=0)
        if params.habit == "sqrt":
            routing = routing * torch.sqrt(habit if params.authors else habit + params.eps)
        elif params.habit == "raw":
            routing = routing * (habit + params.eps)
        total = routing.sum()
        routing = routing / (total.clamp_min(SUM_FLOOR) if params.authors else total)
        return (1 - surprise) * belief + surprise * routing, surprise

    def _surprise(self, feature: Tensor, expected: Tensor) -> Tensor:
        params = self.params
        if params.surprise == "constant":
            return feature.new_full((1,), params.constant)
        feature, expected = unit(feature, params.cosine_floor), unit(expected, params.cosine_floor)
        if params.surprise == "distance":
            return length(feature - expected).clamp_max(1)
        half = 0.5 * params.beta * (1 - (feature * expected).sum(0, keepdim=True)) ** 2
        # 1 - exp(-2 a) without cancellation; ONNX has no expm1.
        return 2 * torch.sinh(half) * torch.exp(-half)

    def _directions(self, prototypes: Tensor, expected: Tensor, belief: Tensor) -> Tensor:
        believed = torch.arange(len(belief)) == belief.argmax()
        others = torch.where(believed, 0.0, belief)
        own = believed.to(belief.dtype) @ prototypes
        offset = others.sum() * own - others @ prototypes
        if not self.params.authors:
            shrink = (2 * own * offset - offset * offset).sum(0, keepdim=True)
            lost = shrink / (1 + (1 - shrink).clamp_min(0).sqrt())
            offset = (offset - lost * own) / (1 - lost).clamp_min(self.params.eps)
        return torch.where(believed[:, None], offset, prototypes - expected)

    def _consensus(self, p: Tensor, prior: Tensor) -> Tensor:
        joint = p * (prior.clamp_min(PRIOR_FLOOR) if self.params.authors else prior)
        total = joint.sum()
        floor = SUM_FLOOR if self.params.authors else 1e-30
        return torch.where(total < 1e-30, p, joint / total.clamp_min(floor))

    def _moved(self, feature: Tensor, q: Tensor, prototypes: Tensor) -> Tensor:
        params = self.params
        if params.prototypes == "off":
            return prototypes
        share = (torch.arange(len(q)) == q.argmax()).to(q.dtype) if params.prototypes == "hard" else q
        pull = (params.eta_mu * share)[:, None]
        moved = (1 - pull) * prototypes + pull * feature
        if not params.authors:
            moved = unit(moved, params.eps)
        if params.omega_mu:
            moved = (1 - params.omega_mu) * moved + params.omega_mu * self.anchors
        return unit(moved, params.norm_floor)
