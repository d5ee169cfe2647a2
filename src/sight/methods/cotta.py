"""CoTTA: continual adaptation with a weight-averaged and augmentation-averaged teacher and stochastic restoration."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sight.base import Needs, Presets
from sight.methods.gradient import TeacherAdapter, cross_entropies
from sight.methods.gradient.augmentation import perturbed
from sight.params import NonNegative, PositiveInt, UnitInterval


@dataclass(kw_only=True)
class CoTTA(TeacherAdapter):
    """Trains all weights towards a slow teacher, and restores a few of them to the source at each update.

    Parameters
    ----------
    views
        Augmented views of a batch over which the teacher averages its logits if the source is uncertain.
    confidence
        Mean confidence of the source on a batch below which the teacher averages over views.
    follow
        Rate of the teacher towards the student.
    restore_share
        Probability of each weight to be restored to the source at each update.
    lr, rule, batch, update_every, bn_stats, bn_rate, seed
        See `sight.methods.gradient.GradientAdapter`.

    Notes
    -----
    Assumes that an average is a better teacher than each of its members. All networks use batch statistics, so that on
    correlated streams student, teacher and source fail together, as TENT does, and confirm each other.

    Differs from the authors' code in the views, which suit sensors (scaling, small rotations, magnitude warp, jitter;
    an inference), in dropout, which is off, and in computing views only when they are used. The threshold of 0.92 is
    theirs for ten classes; with few classes 0.9 is about as strict.

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
    presets: ClassVar[Presets] = {"sight-paper": {"lr": 1e-4, "batch": 32, "confidence": 0.9}}
    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("weights", "snapshot", "optimiser")
    lr: NonNegative = 1e-3
    batch: PositiveInt = 200
    views: PositiveInt = 32
    confidence: UnitInterval = 0.92
    follow: UnitInterval = 0.001
    restore_share: UnitInterval = 0.01

    def _trainable(self) -> dict[str, nn.Parameter]:
        return dict(self._network.named_parameters())

    def _predict(self, x: Tensor) -> Tensor:
        q = self._target(x)
        if self._waits():
            self._update_if_due(x)
        else:
            self._learn(x, q)
        return q

    def _update(self, x: Tensor, logits: Tensor | None = None) -> None:  # noqa: ARG002 - the teacher gives the target
        self._learn(x, self._target(x))

    def _learn(self, x: Tensor, target: Tensor) -> None:
        self._descend(cross_entropies(target, self._learning_pass(x)).mean())
        self._follow(self.follow, statistics=True)
        self._restore_some()

    @torch.no_grad()
    def _target(self, x: Tensor) -> Tensor:
        """Return the teacher's probabilities, averaged over views if the source is uncertain about the batch."""
        source = torch.softmax(functional_call(self._network, self._snapshot, (x,)), dim=1)
        if float(source.amax(dim=1).mean()) >= self.confidence:
            return torch.softmax(self._teacher(x), dim=1)
        windows = x.cpu().numpy()
        total = sum(
            self._teacher(self._tensor(perturbed(windows, self.random_.generator, self._noise_scale)))
            for _ in range(self.views)
        )
        return torch.softmax(total / self.views, dim=1)

    @torch.no_grad()
    def _restore_some(self) -> None:
        for name, parameter in self._trained.items():
            drawn = self.random_.generator.random(parameter.shape, dtype="float32") < self.restore_share
            chosen = torch.from_numpy(drawn).to(parameter.device)
            parameter.copy_(torch.where(chosen, self._snapshot[name], parameter))
