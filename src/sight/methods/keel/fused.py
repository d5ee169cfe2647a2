"""Keel's step in torch, for the export as ONNX."""

import torch
from torch import Tensor, nn

from sight.methods.compiled.fused import FusedStep, unit
from sight.methods.keel import state as s
from sight.methods.keel.method import Keel


class KeelStep(FusedStep):
    """Keel with its model; see `sight.methods.keel.reference` for the computation.

    Sums of the adapter (frequencies, evidence, spread) are means here, which float32 holds more exactly.
    """

    prior: Tensor
    expected: Tensor
    origin: Tensor
    directions: Tensor

    def __init__(self, network: nn.Module, adapter: Keel) -> None:
        super().__init__(network, adapter)
        terms, self.params = adapter.constants
        for name in ("prior", "expected", "origin", "directions"):
            self.register_buffer(name, torch.from_numpy(getattr(terms, name)).float())
        self.share, self.scale = terms.share, terms.scale

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        belief, frequencies, evidence, previous, hazard, near, spread, far, pairs, count, linked = state
        feature, p = self.encode(x)
        fresh, n = count == 0, count.to(p.dtype)
        frequencies, evidence = (torch.where(fresh, 0.0, value) for value in (frequencies, evidence))
        distances = tuple(torch.where(fresh, 0.0, value) for value in (near, spread, far))
        hazard, pairs = torch.where(fresh, self.params.hazard, hazard), torch.where(fresh, 0, pairs)
        neighbour = (linked > 0) & ~fresh
        own = self._evidence(feature, p[0])
        shares, likelihood = self._corrected(own, frequencies, evidence, n)
        change, distances = self._change(own, previous, evidence, hazard, pairs.to(p.dtype), distances, neighbour)
        filtered, learned = self._filter(likelihood, shares, change, belief, hazard, n)
        q, hazard = torch.where(fresh, likelihood, filtered), torch.where(fresh, hazard, learned)
        frequencies = frequencies + (q - frequencies) / (n + 1)
        evidence = evidence + (own - evidence) / (n + 1)
        pairs = pairs + (neighbour.to(pairs.dtype) if self.params.surprise else 0)
        change = torch.where(fresh, 0.0, change)
        after = (q, frequencies, evidence, own, hazard, *distances, pairs, count + 1, torch.ones_like(linked))
        return (q[None], p, change, *after)

    def _evidence(self, feature: Tensor, p: Tensor) -> Tensor:
        logits = centred(torch.log(p.clamp_min(s.TINY)))
        if not self.share:
            return logits
        cosines = self.directions @ unit(feature - self.origin, 1e-8)  # the floor of sight.methods.ops.unit
        mixed: Tensor = (1 - self.share) * logits + self.share * self.scale * centred(cosines)
        return mixed

    def _corrected(self, x: Tensor, frequencies: Tensor, evidence: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        params, prior = self.params, self.prior
        shares = (frequencies * n + params.patience * prior) / (n + params.patience)
        drift = (evidence - self.expected) * n / (n + params.patience)
        excess = (params.debias * torch.log(shares / prior)).clamp(-s.HIGHEST_RAISE, params.penalty)
        bias = params.align * drift + excess
        return shares, torch.softmax(x - self._coverage(frequencies) * bias, dim=0)

    def _coverage(self, frequencies: Tensor) -> Tensor:
        spread = -(frequencies * torch.log(frequencies.clamp_min(s.TINY))).sum(0, keepdim=True)
        covered = (torch.exp(spread) - 1) / (len(frequencies) - 1)
        share: Tensor = (covered - s.LEAST_COVERAGE).clamp_min(0) / (1 - s.LEAST_COVERAGE)
        return share

    def _change(
        self,
        x: Tensor,
        previous: Tensor,
        mean: Tensor,
        hazard: Tensor,
        pairs: Tensor,
        distances: tuple[Tensor, ...],
        neighbour: Tensor,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        near, spread, far = distances
        if not self.params.surprise:
            return hazard, distances
        distance = log_length(x - previous)
        deviation = torch.sqrt((spread * pairs + s.FIRST_PAIRS * s.FIRST_VARIANCE) / (pairs + s.FIRST_PAIRS))
        delta = ((far - near) / deviation).clamp_min(0)
        factor = self.params.surprise * delta * ((distance - near) / deviation - delta / 2)
        odds = hazard / (1 - hazard) * torch.exp(factor.clamp(-s.CERTAIN, s.CERTAIN))
        change = torch.where(neighbour & (pairs >= s.FIRST_PAIRS), odds / (1 + odds), hazard)
        nearer = near + (distance - near) / (pairs + 1)
        wider = spread + ((distance - near) * (distance - nearer) - spread) / (pairs + 1)
        farther = far + (log_length(2**0.5 * (x - mean)) - far) / (pairs + 1)
        learned = zip((nearer, wider, farther), distances, strict=True)
        return change, tuple(torch.where(neighbour, new, old) for new, old in learned)

    def _filter(
        self, likelihood: Tensor, shares: Tensor, change: Tensor, belief: Tensor, hazard: Tensor, n: Tensor
    ) -> tuple[Tensor, Tensor]:
        params = self.params
        weight = params.temper + (1 - params.temper) * (hazard / params.hazard).clamp_max(1)
        likelihood = torch.pow(likelihood, weight)
        stayed = (1 - change) * belief * likelihood
        joint = stayed + change / len(belief) * likelihood
        total = joint.sum()
        q = torch.where(total < s.TINY, likelihood, joint / total.clamp_min(s.TINY))
        if not params.rate:
            return q, hazard
        drawn = change * (shares * likelihood).sum()
        target = drawn / (drawn + stayed.sum()).clamp_min(s.TINY)
        rate = (1 / (s.FIRST_WINDOWS + n)).clamp_min(params.rate)
        return q, (hazard + rate * (target - hazard)).clamp(s.LOWEST, s.HIGHEST)


def log_length(vector: Tensor) -> Tensor:
    return 0.5 * torch.log((vector * vector).sum(0, keepdim=True) + s.STILL)


def centred(values: Tensor) -> Tensor:
    return values - values.mean()
