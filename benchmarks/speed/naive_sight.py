"""SIGHT as a direct transcription of the paper's equations in torch, for comparison of speed."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sight.models.torch import TorchSource


class NaiveSight:
    """The paper's step with loops over classes, not optimised and not protected against cancellation."""

    def __init__(self, source: TorchSource) -> None:
        self.network = source.network
        self.head: nn.Linear = source.network.head  # type: ignore[assignment]
        self.anchors = [functional.normalize(row, dim=0) for row in self.head.weight.detach()]
        self.prototypes = [anchor.clone() for anchor in self.anchors]
        self.habit = torch.full((len(self.anchors),), 1 / len(self.anchors))
        self.belief: Tensor | None = None

    @torch.inference_mode()
    def step(self, x: Tensor) -> Tensor:
        """Return the probabilities of one window (1, C, T), then adapt."""
        z: Tensor = self.network.features(x)  # type: ignore[operator]
        return self.update(z[0], torch.softmax(self.head(z), dim=1)[0])

    @torch.inference_mode()
    def update(self, z: Tensor, p: Tensor) -> Tensor:
        """Refine the probabilities (K,) of features (D,), then adapt."""
        beta, tau, eta_mu, eta_h, omega_mu, eps = 1.0, 0.05, 0.005, 0.05, 0.01, 1e-8
        feature = functional.normalize(z, dim=0, eps=eps)
        q = p
        if self.belief is not None:
            expected = torch.zeros_like(feature)
            for k, prototype in enumerate(self.prototypes):
                expected = expected + self.belief[k] * prototype
            expected = functional.normalize(expected, dim=0, eps=eps)
            surprise = 1 - torch.exp(-beta * (1 - torch.dot(feature, expected)) ** 2)
            deviation = functional.normalize(feature - expected, dim=0, eps=eps)
            scores = []
            for prototype in self.prototypes:
                direction = functional.normalize(prototype - expected, dim=0, eps=eps)
                scores.append(torch.dot(deviation, direction) / tau)
            routing = torch.softmax(torch.stack(scores), dim=0)
            tempered = torch.sqrt(self.habit + eps)
            calibrated = routing * (tempered / tempered.sum())
            prior = (1 - surprise) * self.belief + surprise * calibrated / calibrated.sum()
            q = p * prior / (p * prior).sum()
        self.belief = q
        self.habit = (1 - eta_h) * self.habit + eta_h * q
        for k, anchor in enumerate(self.anchors):
            rate = eta_mu * q[k]
            pulled = functional.normalize((1 - rate) * self.prototypes[k] + rate * feature, dim=0, eps=eps)
            self.prototypes[k] = functional.normalize((1 - omega_mu) * pulled + omega_mu * anchor, dim=0, eps=eps)
        return q
