"""COA-HAR: contrastive online adaptation with sensor augmentation; completed by us in large part."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import Tensor, nn

from sight.base import Needs, Presets
from sight.methods.feature_memory import FeatureQueue
from sight.methods.gradient import Rule, Stats, TeacherAdapter
from sight.methods.gradient.augmentation import strong, weak
from sight.methods.gradient.norms import learning
from sight.methods.gradient.window_memory import Fifo
from sight.params import NonNegative, Positive, PositiveInt, UnitInterval

#: Windows with fewer negatives are left out of the contrastive term.
FEWEST_NEGATIVES = 8


@dataclass(kw_only=True)
class COAHAR(TeacherAdapter):
    """Trains on refined pseudo-labels and a contrastive loss between augmented views, of recent and older windows.

    Parameters
    ----------
    memory
        Windows stored for replay, and features stored for neighbours and negatives.
    neighbours
        Nearest features whose mean probability gives the pseudo-label.
    follow
        Rate of the momentum encoder towards the trained one.
    temperature
        Temperature of the contrastive loss.
    diversity
        Adds the term that pushes the mean prediction of a batch towards uniform.
    update
        "all" parameters, as in the paper's abstract, or "norm" layers only, as in the SIGHT paper's memory column.
    emit
        "pre": windows are predicted before the update they belong to; "post": after it.
    update_every
        Windows between two updates, under both rules; each update replays as many again.
    lr, rule, batch, bn_stats, bn_rate, seed
        See `sight.methods.gradient.GradientAdapter`.

    Notes
    -----
    The authors' code is not public. The paper describes contrastive and self-supervised losses, sensor augmentation,
    refined pseudo-labels and periodic updates with replay; the SIGHT paper's memory column implies two networks, 256
    windows and 256 features. The other parts are our completion, along AdaContrast: a momentum encoder, pseudo-labels
    by nearest neighbours, InfoNCE against features of other pseudo-labels, the diversity term, and the augmentations
    (weak: jitter; strong: rotation, scaling, magnitude and time warp, permutation and jitter). One queue serves
    neighbours and negatives, as the memory column leaves space for one only. Features enter it after the loss, so that
    labels and features belong together. Windows with fewer than 8 negatives skip the contrastive term.

    Assumes that neighbours in feature space share a label. On correlated streams the queue holds one activity:
    negatives are rare, neighbours repeat the same error, and the diversity term pushes a long activity towards classes
    that do not occur.

    Examples
    --------
    >>> from sight.testing import toy_network, toy_stream
    >>> adapter = COAHAR(update_every=16, update="norm").bind(toy_network())
    >>> adapter.step(toy_stream(n=40).x).shape, adapter.queue_.size
    ((40, 5), 32)

    References
    ----------
    V. Fortes Rey, P. M. Bressane Rezende, B. Zhou, S. Suh, P. Lukowicz: COA-HAR: Exploring contrastive online
    test-time adaptation for wearable sensor-based human activity recognition using sensor data augmentation. Expert
    Systems with Applications 297, 129288, 2026. doi:10.1016/j.eswa.2025.129288.
    D. Chen, D. Wang, T. Darrell, S. Ebrahimi: Contrastive Test-Time Adaptation. CVPR 2022. arXiv:2204.10377.
    """

    name: ClassVar[str] = "coa-har"
    needs: ClassVar[Needs] = Needs(gradient=True, raw_windows=True, completed=True)
    presets: ClassVar[Presets] = {"sight-paper": {"lr": 1e-4, "batch": 32, "update": "norm"}}
    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("weights", "optimiser", "windows", "features")
    lr: NonNegative = 1e-4
    rule: Rule = "stream"
    update_every: PositiveInt = 32
    bn_stats: Stats = "source"
    memory: PositiveInt = 256
    neighbours: PositiveInt = 10
    follow: UnitInterval = 0.001
    temperature: Positive = 0.07
    diversity: bool = True
    update: Literal["all", "norm"] = "all"
    emit: Literal["pre", "post"] = "pre"

    def _trainable(self) -> dict[str, nn.Parameter]:
        return dict(self._network.named_parameters()) if self.update == "all" else super()._trainable()

    def _reset(self) -> None:
        super()._reset()
        classes, dims = self.source.weight.shape
        self.replay_ = Fifo(self.memory, self._shape)
        self.queue_ = FeatureQueue(self.memory, dims, classes)

    def _waits(self) -> bool:
        return False  # updates use the memory

    def _predict(self, x: Tensor) -> Tensor:
        q = self._probabilities(x)
        for window in x.cpu().numpy():
            self.replay_.add(window)
            if int(self.replay_.seen) % self.update_every == 0:
                self._learn()
        return q if self.emit == "pre" else self._probabilities(x)

    @torch.no_grad()
    def _probabilities(self, x: Tensor) -> Tensor:
        return torch.softmax(self._network(x), dim=1)

    def _learn(self) -> None:
        rng = self.random_.generator
        latest = self.replay_.latest(self.update_every)
        older = self.replay_.windows[rng.integers(self.replay_.size, size=len(latest))]
        windows = np.concatenate([latest, older])
        views = [self._tensor(view(windows, rng, self._noise_scale)) for view in (weak, strong, strong)]
        labels = self._pseudo_labels(views[0])
        with torch.no_grad():
            keys = F.normalize(self._teacher.features(views[2]), dim=1)
        with learning(self._network):
            features = self._network.features(views[1])
        self._descend(self._total_loss(features, keys, labels))
        self._follow(self.follow, statistics=True)
        self._enqueue(views[0][: len(latest)], labels[: len(latest)])

    @torch.no_grad()
    def _enqueue(self, x: Tensor, labels: Tensor) -> None:
        features = self._teacher.features(x)
        p = torch.softmax(self._teacher.head(features), dim=1)
        self.queue_.add(F.normalize(features, dim=1).cpu().numpy(), p.cpu().numpy(), labels.cpu().numpy())

    @torch.no_grad()
    def _pseudo_labels(self, x: Tensor) -> Tensor:
        """Return labels (B,) by nearest neighbours in the queue, or by the network while the queue is short."""
        features, held = self._network.features(x), self.queue_.size
        if held < min(32, self.memory):
            own: Tensor = self._network.head(features)
            return own.argmax(dim=1)
        nearness = F.normalize(features, dim=1) @ self._tensor(self.queue_.features[:held]).T
        nearest = nearness.topk(min(self.neighbours, held), dim=1).indices
        return self._tensor(self.queue_.probabilities)[nearest].mean(dim=1).argmax(dim=1)

    def _total_loss(self, features: Tensor, keys: Tensor, labels: Tensor) -> Tensor:
        logits = self._network.head(features)
        loss = F.cross_entropy(logits, labels)
        held = self.queue_.size
        negatives, queued = self._tensor(self.queue_.features[:held]), torch.from_numpy(self.queue_.labels[:held])
        differs = labels[:, None] != queued.to(labels.device)
        loss = loss + masked_info_nce(F.normalize(features, dim=1), keys, negatives, differs, self.temperature)
        if self.diversity:
            mean = torch.softmax(logits, dim=1).mean(dim=0)
            loss = loss + (mean * torch.log(mean + 1e-8)).sum()
        return loss


def masked_info_nce(query: Tensor, key: Tensor, negatives: Tensor, allowed: Tensor, temperature: float) -> Tensor:
    """Return the InfoNCE loss of unit queries (B, D) and their keys against negatives (Q, D), as `allowed` (B, Q).

    It is the mean over queries with at least `FEWEST_NEGATIVES` negatives; 0 if there is none.
    """
    enough = allowed.sum(dim=1) >= FEWEST_NEGATIVES
    if not enough.any():
        return query.new_zeros(())
    positive = (query * key).sum(dim=1, keepdim=True)
    against = (query @ negatives.T).masked_fill(~allowed, -torch.inf)
    scores = torch.cat([positive, against], dim=1)[enough] / temperature
    return (scores.logsumexp(dim=1) - scores[:, 0]).mean()
