"""CoTTA: a teacher averaged over weights and views, and weights that now and then return to the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sight.base import Needs
from sight.methods._augment import perturbed
from sight.methods._torch import TeacherAdapter, cross_entropies


@dataclass(kw_only=True)
class CoTTA(TeacherAdapter):
    """Trains all weights towards a slow teacher, and lets a few return to the source at each update.

    Parameters
    ----------
    views
        Changed views of a batch whose logits the teacher averages where the source is unsure.
    confidence
        Mean confidence of the source on a batch, under which the teacher averages over views.
    follow
        Rate of the teacher towards the student.
    restore_share
        Probability of each weight to return to the source at each update.
    lr, rule, batch, update_every, bn_stats, bn_rate, seed
        As for every method with gradients.

    Notes
    -----
    It believes that an average is a better teacher than any of its members. All networks use batch statistics, so on
    correlated streams student, teacher and source fail together, as TENT does, and their agreement confirms it.

    Differs from the authors' code in the views, which are those of the sensor (scaling, small turns, magnitude warp,
    jitter; an inference), in dropout, which stays off, and in computing views only where they are used. The
    threshold of 0.92 is theirs for ten classes; with few classes 0.9 is about as strict.

    Examples
    --------
    >>> from sight.testing import toy_network, toy_stream
    >>> CoTTA(views=2, confidence=0.9).bind(toy_network()).step(toy_stream(n=20).x).shape
    (20, 5)

    References
    ----------
    Q. Wang, O. Fink, L. Van Gool, D. Dai: Continual Test-Time Domain Adaptation. CVPR 2022.
    arXiv:2203.13591.
    """

    name: ClassVar[str] = "cotta"
    needs: ClassVar[Needs] = Needs(gradient=True, batch=True)
    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("weights", "snapshot", "optimiser")
    _counts: ClassVar[tuple[str, ...]] = (*TeacherAdapter._counts, "views")
    _shares: ClassVar[tuple[str, ...]] = (*TeacherAdapter._shares, "confidence", "follow", "restore_share")
    lr: float = 1e-3
    batch: int = 200
    views: int = 32
    confidence: float = 0.92
    follow: float = 0.001
    restore_share: float = 0.01

    def _trainable(self) -> dict[str, nn.Parameter]:
        return dict(self._network.named_parameters())

    def _piece(self, x: Tensor) -> Tensor:
        q = self._target(x)
        if self._waits():
            self._when_due(x)
        else:
            self._learn(x, q)
        return q

    def _update(self, x: Tensor, logits: Tensor | None = None) -> None:  # noqa: ARG002 - the teacher has the say
        self._learn(x, self._target(x))

    def _learn(self, x: Tensor, target: Tensor) -> None:
        self._descend(cross_entropies(target, self._learning_pass(x)).mean())
        self._follow(self.follow, statistics=True)
        self._return_some()

    @torch.no_grad()
    def _target(self, x: Tensor) -> Tensor:
        """Return the teacher's probabilities, averaged over views where the source is unsure of the batch."""
        source = torch.softmax(functional_call(self._network, self._snapshot, (x,)), dim=1)
        if float(source.amax(dim=1).mean()) >= self.confidence:
            return torch.softmax(self._teacher(x), dim=1)
        windows = x.cpu().numpy()
        total = sum(
            self._teacher(self._tensor(perturbed(windows, self.dice_.generator, self._noise_scale)))
            for _ in range(self.views)
        )
        return torch.softmax(total / self.views, dim=1)

    @torch.no_grad()
    def _return_some(self) -> None:
        """Put source values back into a random few weights."""
        for name, parameter in self._trained.items():
            back = self.dice_.generator.random(parameter.shape, dtype="float32") < self.restore_share
            chosen = torch.from_numpy(back).to(parameter.device)
            parameter.copy_(torch.where(chosen, self._snapshot[name], parameter))
