"""One step of each method that can be fused, in torch, written for the exporter: no branch depends on a value.

They are `sight.kernels.reference` and `sight.kernels.keel_reference` in other words, and tested against them.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from sight.kernels import KeelRules, KeelSource, Rules
from sight.kernels.keel_reference import (
    CERTAIN,
    FIRST_PAIRS,
    FIRST_VARIANCE,
    FIRST_WINDOWS,
    HIGHEST,
    LOWEST,
    STILL,
    TINY,
)
from sight.kernels.reference import COSINE_FLOOR, NORM_FLOOR, PRIOR_FLOOR, SUM_FLOOR
from sight.methods.keel import Keel
from sight.methods.sight import SIGHT


class Step(nn.Module):
    """Encoder and head, and what a method makes of them: (window, state) to (answers, surprise, state after it)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    @classmethod
    def of(cls, network: nn.Module, adapter: Any) -> Self:
        """Make the step of a bound adapter."""
        raise NotImplementedError

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """One window (1, C, T) to its feature (D,) and probabilities (1, K)."""
        z = self.network.features(x)  # type: ignore[operator]
        return z[0], torch.softmax(self.network.head(z), dim=1)  # type: ignore[operator]


class SightStep(Step):
    """SIGHT; the state is prototypes, habit, belief and count."""

    def __init__(self, network: nn.Module, anchors: Tensor, rules: Rules) -> None:
        super().__init__(network)
        self.register_buffer("anchors", anchors)
        self.rules = rules
        self.floor = COSINE_FLOOR if rules.authors else rules.eps

    @classmethod
    def of(cls, network: nn.Module, adapter: SIGHT) -> Self:
        """Make the step of a bound adapter."""
        return cls(network, torch.from_numpy(adapter.clone().state()["prototypes"]), adapter.rules())

    def forward(
        self, x: Tensor, prototypes: Tensor, habit: Tensor, belief: Tensor, count: Tensor
    ) -> tuple[Tensor, ...]:
        """Answer one window (1, C, T) and return the state after it."""
        rules, uniform = self.rules, 1 / len(habit)
        feature, p = self.encode(x)
        evidence, fresh = p[0], count == 0
        prototypes = torch.where(fresh, self.anchors, prototypes)  # type: ignore[arg-type]
        habit, belief = torch.where(fresh, uniform, habit), torch.where(fresh, uniform, belief)
        if not rules.authors:
            feature = unit(feature, rules.eps)
        prior, surprise = self._prior(feature, prototypes, habit, belief)
        q = torch.where(fresh, evidence, self._consensus(evidence, prior))
        recent = (1 - rules.eta_h) * habit + rules.eta_h * (belief if rules.authors else q)
        habit = torch.where(fresh, habit, recent) if rules.authors else recent
        surprise = torch.where(fresh, 0.0, surprise)
        return q[None], p, surprise, self._moved(feature, q, prototypes), habit, q, count + 1

    def _prior(self, feature: Tensor, prototypes: Tensor, habit: Tensor, belief: Tensor) -> tuple[Tensor, Tensor]:
        rules = self.rules
        expected = belief @ prototypes
        if not rules.authors:
            expected = unit(expected, rules.eps)
        surprise = self._surprise(feature, expected)
        routing = torch.full_like(belief, 1 / len(belief))
        if rules.routing:
            directions = self._directions(prototypes, expected, belief)
            alignment = unit(directions, self.floor) @ unit(feature - expected, self.floor)
            routing = torch.softmax(alignment / rules.tau, dim=0)
        if rules.habit == "sqrt":
            routing = routing * torch.sqrt(habit if rules.authors else habit + rules.eps)
        elif rules.habit == "raw":
            routing = routing * (habit + rules.eps)
        total = routing.sum()
        routing = routing / (total.clamp_min(SUM_FLOOR) if rules.authors else total)
        return (1 - surprise) * belief + surprise * routing, surprise

    def _surprise(self, feature: Tensor, expected: Tensor) -> Tensor:
        rules = self.rules
        if rules.surprise == "constant":
            return feature.new_full((1,), rules.constant)
        seen, awaited = unit(feature, self.floor), unit(expected, self.floor)
        if rules.surprise == "distance":
            return length(seen - awaited).clamp_max(1)
        half = 0.5 * rules.beta * (1 - (seen * awaited).sum(0, keepdim=True)) ** 2
        # 1 - exp(-2 a) without cancellation; there is no expm1 in ONNX.
        return 2 * torch.sinh(half) * torch.exp(-half)

    def _directions(self, prototypes: Tensor, expected: Tensor, belief: Tensor) -> Tensor:
        believed = torch.arange(len(belief)) == belief.argmax()
        others = torch.where(believed, 0.0, belief)
        held = believed.to(belief.dtype) @ prototypes
        offset = others.sum() * held - others @ prototypes
        if not self.rules.authors:
            shrink = (2 * held * offset - offset * offset).sum(0, keepdim=True)
            lost = shrink / (1 + (1 - shrink).clamp_min(0).sqrt())
            offset = (offset - lost * held) / (1 - lost).clamp_min(self.rules.eps)
        return torch.where(believed[:, None], offset, prototypes - expected)

    def _consensus(self, p: Tensor, prior: Tensor) -> Tensor:
        joint = p * (prior.clamp_min(PRIOR_FLOOR) if self.rules.authors else prior)
        total = joint.sum()
        floor = SUM_FLOOR if self.rules.authors else 1e-30
        return torch.where(total < 1e-30, p, joint / total.clamp_min(floor))

    def _moved(self, feature: Tensor, q: Tensor, prototypes: Tensor) -> Tensor:
        rules = self.rules
        if rules.prototypes == "off":
            return prototypes
        share = (torch.arange(len(q)) == q.argmax()).to(q.dtype) if rules.prototypes == "hard" else q
        pull = (rules.eta_mu * share)[:, None]
        moved = (1 - pull) * prototypes + pull * feature
        if not rules.authors:
            moved = unit(moved, rules.eps)
        if rules.omega_mu:
            moved = (1 - rules.omega_mu) * moved + rules.omega_mu * self.anchors  # type: ignore[operator]
        return unit(moved, NORM_FLOOR if rules.authors else rules.eps)


class KeelStep(Step):
    """Keel; sums of the adapter (life, total, doubts, spread) are means here, which float32 holds for longer."""

    prior: Tensor
    expected: Tensor
    origin: Tensor
    directions: Tensor

    def __init__(self, network: nn.Module, source: KeelSource, rules: KeelRules) -> None:
        super().__init__(network)
        for name in ("prior", "expected", "origin", "directions"):
            self.register_buffer(name, torch.from_numpy(getattr(source, name)).float())
        self.share, self.scale, self.rules = source.share, source.scale, rules

    @classmethod
    def of(cls, network: nn.Module, adapter: Keel) -> Self:
        """Make the step of a bound adapter."""
        return cls(network, adapter.of_source(), adapter.rules())

    def forward(
        self,
        x: Tensor,
        belief: Tensor,
        life: Tensor,
        total: Tensor,
        previous: Tensor,
        doubts: Tensor,
        hazard: Tensor,
        near: Tensor,
        spread: Tensor,
        far: Tensor,
        pairs: Tensor,
        count: Tensor,
        linked: Tensor,
    ) -> tuple[Tensor, ...]:
        """Answer one window (1, C, T) and return the state after it."""
        feature, p = self.encode(x)
        fresh, n = count == 0, count.to(p.dtype)
        life, total, doubts = (torch.where(fresh, 0.0, value) for value in (life, total, doubts))
        steps = tuple(torch.where(fresh, 0.0, value) for value in (near, spread, far))
        hazard, pairs = torch.where(fresh, self.rules.hazard, hazard), torch.where(fresh, 0, pairs)
        neighbour = (linked > 0) & ~fresh
        evidence = self._evidence(feature, p[0])
        doubts = doubts + (1 - torch.softmax(evidence, dim=0).amax(0, keepdim=True) - doubts) / (n + 1)
        shares, likelihood = self._righted(evidence, life, total, doubts, n)
        change, steps = self._change(evidence, previous, total, hazard, pairs.to(p.dtype), steps, neighbour)
        filtered, learned = self._filter(likelihood, shares, change, belief, hazard, n)
        q, hazard = torch.where(fresh, likelihood, filtered), torch.where(fresh, hazard, learned)
        life, total = life + (q - life) / (n + 1), total + (evidence - total) / (n + 1)
        pairs = pairs + (neighbour.to(pairs.dtype) if self.rules.surprise else 0)
        change = torch.where(fresh, 0.0, change)
        after = (q, life, total, evidence, doubts, hazard, *steps, pairs, count + 1, torch.ones_like(linked))
        return (q[None], p, change, *after)

    def _evidence(self, feature: Tensor, p: Tensor) -> Tensor:
        logits = centred(torch.log(p.clamp_min(TINY)))
        if not self.share:
            return logits
        cosines = self.directions @ unit(feature - self.origin, 1e-8)  # the floor of sight.ops.unit
        return (1 - self.share) * logits + self.share * self.scale * centred(cosines)

    def _righted(self, x: Tensor, life: Tensor, total: Tensor, doubts: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        rules, prior = self.rules, self.prior
        shares = (life * n + rules.patience * prior) / (n + rules.patience)
        drift = (total - self.expected) * n / (n + rules.patience)
        lean = rules.align * drift + rules.debias * torch.log(shares / prior)
        if rules.guard:
            spread = -(life * torch.log(life.clamp_min(TINY))).sum(0, keepdim=True)
            lean = lean * (torch.exp(spread) - 1).clamp_min(0) / (len(life) - 1)
        if rules.doubt:
            doubtful = (doubts * (n + 1) / rules.doubt + rules.patience) / (n + 1 + rules.patience)
            lean = lean * doubtful.clamp_max(1)
        return shares, torch.softmax(x - lean, dim=0)

    def _change(
        self,
        x: Tensor,
        previous: Tensor,
        total: Tensor,
        hazard: Tensor,
        pairs: Tensor,
        steps: tuple[Tensor, ...],
        neighbour: Tensor,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        near, spread, far = steps
        if not self.rules.surprise:
            return hazard, steps
        step = log_length(x - previous)
        deviation = torch.sqrt((spread * pairs + FIRST_PAIRS * FIRST_VARIANCE) / (pairs + FIRST_PAIRS))
        delta = ((far - near) / deviation).clamp_min(0)
        factor = self.rules.surprise * delta * ((step - near) / deviation - delta / 2)
        odds = hazard / (1 - hazard) * torch.exp(factor.clamp(-CERTAIN, CERTAIN))
        change = torch.where(neighbour & (pairs >= FIRST_PAIRS), odds / (1 + odds), hazard)
        after = near + (step - near) / (pairs + 1)
        wider = spread + ((step - near) * (step - after) - spread) / (pairs + 1)
        farther = far + (log_length(2**0.5 * (x - total)) - far) / (pairs + 1)
        learned = zip((after, wider, farther), steps, strict=True)
        return change, tuple(torch.where(neighbour, new, old) for new, old in learned)

    def _filter(
        self, likelihood: Tensor, shares: Tensor, change: Tensor, belief: Tensor, hazard: Tensor, n: Tensor
    ) -> tuple[Tensor, Tensor]:
        rules = self.rules
        weight = rules.temper + (1 - rules.temper) * (hazard / rules.hazard).clamp_max(1)
        likelihood = torch.pow(likelihood, weight)
        stayed = (1 - change) * belief * likelihood
        joint = stayed + change / len(belief) * likelihood
        total = joint.sum()
        q = torch.where(total < TINY, likelihood, joint / total.clamp_min(TINY))
        if not rules.rate:
            return q, hazard
        drawn = change * (shares * likelihood).sum()
        target = drawn / (drawn + stayed.sum()).clamp_min(TINY)
        rate = (1 / (FIRST_WINDOWS + n)).clamp_min(rules.rate)
        return q, (hazard + rate * (target - hazard)).clamp(LOWEST, HIGHEST)


def length(vectors: Tensor) -> Tensor:
    """Length along the last axis, which stays."""
    return (vectors * vectors).sum(-1, keepdim=True).sqrt()


def log_length(vector: Tensor) -> Tensor:
    """Logarithm of the length, (1,), bounded below."""
    return 0.5 * torch.log((vector * vector).sum(0, keepdim=True) + STILL)


def unit(vectors: Tensor, floor: float) -> Tensor:
    """Scale to length 1 along the last axis; what is shorter than `floor` is divided by it."""
    return vectors / length(vectors).clamp_min(floor)


def centred(values: Tensor) -> Tensor:
    """Subtract the mean."""
    return values - values.mean()
