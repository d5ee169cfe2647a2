"""RoTTA: robust test-time adaptation with moving statistics, a timely memory and a slow teacher."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sight.base import Needs, Presets
from sight.methods.gradient import Stats, TeacherAdapter, cross_entropies, entropies
from sight.methods.gradient.augmentation import perturbed
from sight.methods.gradient.norms import learning
from sight.methods.gradient.window_memory import TimelyMemory
from sight.params import NonNegative, PositiveInt, UnitInterval


@dataclass(kw_only=True)
class RoTTA(TeacherAdapter):
    """Predicts with a slow teacher and trains its student on a balanced memory of recent and certain windows.

    Parameters
    ----------
    memory
        N, windows stored, at most N / K of each predicted class.
    nu
        Rate of the teacher towards the student.
    lambda_t, lambda_u
        Weights of age and of entropy in the choice of the window to replace.
    update_every
        Windows between two updates, under both rules.
    bn_rate
        Rate of the moving statistics ("ema" is the paper's robust batch normalisation).
    lr, rule, batch, bn_stats, seed
        See `sight.methods.gradient.GradientAdapter`.

    Notes
    -----
    Assumes that predicted classes can balance a stream whose labels are correlated, and that distributions change
    slowly. With `nu` 0.001 the parameters hardly move; nearly all change comes from statistics, which follow the
    memory, and thereby a class that is predicted for a long time.

    Differs from the authors' code in the student's view: theirs changes colours of images, here channels are scaled,
    rotated by at most 15 degrees, warped in magnitude and jittered, an inference. Statistics are taken over windows and
    time; their one-dimensional layer takes them over windows alone. As in their code, the teacher has its own
    statistics, and its average covers parameters only. Entropies are exact; theirs add 1e-6 under the logarithm. All
    windows are predicted, including a single last one. The memory of 256 in the preset "sight-paper" is inferred from
    the paper's memory column.

    Examples
    --------
    >>> from sight.testing import toy_network, toy_stream
    >>> adapter = RoTTA(memory=10, update_every=20).bind(toy_network())
    >>> q = adapter.step(toy_stream(n=40).x)
    >>> max(adapter.memory_.labels.tolist().count(k) for k in range(5))
    2

    References
    ----------
    L. Yuan, B. Xie, S. Li: Robust Test-Time Adaptation in Dynamic Scenarios. CVPR 2023, arXiv:2303.13899.
    """

    name: ClassVar[str] = "rotta"
    needs: ClassVar[Needs] = Needs(gradient=True, batch=True, raw_windows=True)
    presets: ClassVar[Presets] = {"sight-paper": {"lr": 1e-4, "batch": 32, "memory": 256}}
    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("weights", "snapshot", "optimiser", "windows")
    lr: NonNegative = 1e-3
    batch: PositiveInt = 64
    update_every: PositiveInt = 64
    memory: PositiveInt = 64
    nu: UnitInterval = 0.001
    lambda_t: NonNegative = 1.0
    lambda_u: NonNegative = 1.0
    bn_stats: Stats = "ema"
    bn_rate: UnitInterval = 0.05

    def _reset(self) -> None:
        super()._reset()
        self.memory_ = TimelyMemory(self.memory, self._shape, self.n_classes, self.lambda_t, self.lambda_u)
        self.count_ = 0

    def _waits(self) -> bool:
        return False  # updates use the memory

    def _predict(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            logits = self._teacher(x)
        q = torch.softmax(logits, dim=1)
        labels, uncertainties = q.argmax(dim=1).tolist(), entropies(logits).tolist()
        for window, label, uncertainty in zip(x.cpu().numpy(), labels, uncertainties, strict=True):
            self.memory_.add(window, label, uncertainty)
            self.count_ += 1
            if self.count_ % self.update_every == 0:
                self._replay()
        return q

    def _replay(self) -> None:
        held = self.memory_.size
        windows = self.memory_.windows[:held]
        view = perturbed(windows, self.random_.generator, self._noise_scale)
        with torch.no_grad(), learning(self._teacher):
            target = torch.softmax(self._teacher(self._tensor(windows)), dim=1)
        weight = torch.sigmoid(-self._tensor(self.memory_.age[:held] / self.memory))
        self._descend((weight * cross_entropies(target, self._learning_pass(self._tensor(view)))).mean())
        self._follow(self.nu)
