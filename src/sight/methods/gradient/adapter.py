"""Base classes of methods that back-propagate at test time: a private network, an optimiser, two streaming rules."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sight._util.object_state import Stateful
from sight.base import Adapter
from sight.methods.feature_memory import SeededGenerator
from sight.methods.gradient.norms import Stats, StatsNorm, learning, norm_parameters, replace_batch_norms
from sight.methods.gradient.private_copy import check_private_copy
from sight.methods.gradient.window_memory import Fifo
from sight.methods.ops import entropy
from sight.params import NonNegative, PositiveInt, UnitInterval
from sight.types import Array

Rule: TypeAlias = Literal["chunk", "stream"]


class LiveTensors(Stateful):
    """Tensors of a network or an optimiser as state; restoring copies into them."""

    _fixed: ClassVar[bool] = True

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = dict(tensors)

    def _own(self) -> dict[str, Array]:
        return {name: tensor.detach().cpu().numpy() for name, tensor in self.tensors.items()}

    def _set_state(self, state: Mapping[str, Array]) -> None:
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(torch.from_numpy(np.array(state[name])))


@dataclass(kw_only=True)
class GradientAdapter(Adapter):
    """Base class of methods that train a private copy of the source's network, which stays in evaluation mode.

    A method writes `_loss`; or `_update`, if a loss is not enough; or `_predict`, if it also predicts in its own way.

    Parameters
    ----------
    lr
        Learning rate.
    rule
        "chunk": a step predicts all windows it gets, then learns from them. "stream": each window is predicted alone,
        and the method learns after every `update_every` windows, however the stream is cut.
    batch
        Windows of a step under the chunk rule; the last chunk may be shorter.
    update_every
        Windows between two updates under the stream rule.
    bn_stats
        Statistics of batch normalisation: "source", "batch", "ema" (stored, moving while the method learns) or "mix"
        (source and batch). No effect on networks without batch normalisation.
    bn_rate
        Weight of the batch in "ema" and "mix".
    seed
        Seed of all randomness in the method.

    Notes
    -----
    Dropout is off. `reset` returns to a snapshot taken at `bind`, so that the source may change afterwards.
    `state_bytes` counts the complete private networks as weights; `MEMORY_SUM` names the kinds whose sum is the memory
    column of the SIGHT paper, in KB of 1,024 bytes.
    """

    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("snapshot", "optimiser")
    lr: NonNegative = 1e-3
    rule: Rule = "chunk"
    batch: PositiveInt = 32
    update_every: PositiveInt = 1
    bn_stats: Stats = "batch"
    bn_rate: UnitInterval = 0.1
    seed: int = 0

    def state_bytes(self) -> dict[str, int]:
        kinds = {
            "weights": sum(_bytes(network.state_dict().values()) for network in self._networks()),
            "snapshot": _bytes(self._snapshot.values()),
        }
        kind_of = {"optimiser": "optimiser", "supports": "features"}
        for key, array in self.state().items():
            owner, _, part = key.partition(".")
            if owner not in ("weights", "teacher"):
                kind = kind_of.get(owner, part if part in ("windows", "features") else "statistics")
                kinds[kind] = kinds.get(kind, 0) + array.nbytes
        return kinds

    def _bind(self) -> None:
        self._network: Any = copy.deepcopy(self.source.module()).eval().requires_grad_(False)
        replace_batch_norms(self._network, self._norm)
        self._snapshot = {name: tensor.clone() for name, tensor in self._network.state_dict().items()}
        self._trained = self._trainable()
        if not self._trained:
            raise ValueError(
                f"{self.name}: expected a norm layer to train, got none in {type(self._network).__name__}; "
                f"use a network with BatchNorm or LayerNorm, or a method that trains all weights."
            )
        for parameter in self._trained.values():
            parameter.requires_grad_(True)
        card = self.source.card
        self._shape = None if card is None else (len(card.channels), card.length)  # (C, T), if known
        std = getattr(self._network, "std", None)
        self._noise_scale = std.cpu().numpy() if isinstance(std, Tensor) else 1.0
        self._max_entropy = float(np.log(self.n_classes))
        self._first = True

    def _reset(self) -> None:
        self._network.load_state_dict(self._snapshot)
        self.weights_ = LiveTensors(_moving(self._network, self._trained))
        self._optimiser = self._make_optimiser(list(self._trained.values()))
        self.optimiser_ = LiveTensors(_prepared(self._optimiser, self._trained))
        self.random_ = SeededGenerator(self.seed)
        if self._waits():
            self.pending_ = Fifo(self.update_every, self._shape)

    def _networks(self) -> list[nn.Module]:
        return [self._network]

    def _norm(self, layer: _BatchNorm) -> nn.Module:
        """Return the layer that replaces a batch normalisation."""
        return StatsNorm(layer, self.bn_stats, self.bn_rate)

    def _trainable(self) -> dict[str, nn.Parameter]:
        """Return the parameters to train by name; by default those of the norm layers."""
        return norm_parameters(self._network)

    def _make_optimiser(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=self.lr)

    def _step(self, x: Array) -> Array:
        if self._shape is not None and x.shape[1:] != self._shape:
            raise ValueError(f"{self.name}: expected windows (B, {self._shape[0]}, {self._shape[1]}), got {x.shape}.")
        if self._first:  # the shape of a wrapped network's windows is unknown before
            for network in self._networks():
                check_private_copy(self.name, self.source.module(), network, self._tensor(x[:1]))
            self._first = False
        pieces = [x] if self.rule == "chunk" else [x[t : t + 1] for t in range(len(x))]
        q = np.concatenate([self._predict(self._tensor(piece)).cpu().numpy() for piece in pieces])
        self._trace = {"entropy": entropy(q)}
        return q.astype(self.source.weight.dtype, copy=False)

    def _predict(self, x: Tensor) -> Tensor:
        """Return probabilities of windows, then learn from them if an update is due."""
        one_pass = not self._waits() and self.bn_stats != "ema"
        with torch.set_grad_enabled(one_pass):
            logits = self._network(x)
        if one_pass:
            self._update(x, logits)
        else:
            self._update_if_due(x)
        return torch.softmax(logits.detach(), dim=1)

    def _update_if_due(self, x: Tensor) -> None:
        if not self._waits():
            self._update(x)
            return
        self.pending_.add(x[0].cpu().numpy())
        if int(self.pending_.seen) % self.update_every == 0:
            self._update(self._tensor(self.pending_.windows))

    def _update(self, x: Tensor, logits: Tensor | None = None) -> None:
        """Learn from windows; `logits` are those of the prediction, if they have a gradient."""
        loss = self._loss(x, self._learning_pass(x) if logits is None else logits)
        if loss is not None:
            self._descend(loss)

    def _loss(self, x: Tensor, logits: Tensor) -> Tensor | None:
        """Return the loss of a batch, or None to skip it."""
        raise NotImplementedError(f"{type(self).__name__} writes none of _loss, _update and _predict.")

    def _learning_pass(self, x: Tensor) -> Tensor:
        with learning(self._network):
            logits: Tensor = self._network(x)
        return logits

    def _descend(self, loss: Tensor) -> None:
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

    def _waits(self) -> bool:
        """Return whether windows are collected before an update."""
        return self.rule == "stream" and self.update_every > 1

    def _tensor(self, x: Array) -> Tensor:
        like = next(self._network.parameters())
        return torch.as_tensor(x, dtype=like.dtype, device=like.device)


@dataclass(kw_only=True)
class TeacherAdapter(GradientAdapter):
    """Base class of methods with a teacher, a second network that slowly follows the trained one."""

    def _bind(self) -> None:
        super()._bind()
        self._teacher: Any = copy.deepcopy(self._network).requires_grad_(False)

    def _reset(self) -> None:
        super()._reset()
        self._teacher.load_state_dict(self._snapshot)
        self.teacher_ = LiveTensors(_moving(self._teacher, self._trained))

    def _networks(self) -> list[nn.Module]:
        return [self._network, self._teacher]

    @torch.no_grad()
    def _follow(self, rate: float, statistics: bool = False) -> None:
        """Move the teacher's parameters, and with `statistics` its moving statistics, by `rate` to the student's."""
        for name, leader in self.weights_.tensors.items():
            if statistics or name in self._trained:
                self.teacher_.tensors[name].lerp_(leader, rate)


def entropies(logits: Tensor) -> Tensor:
    """Return the entropy in nats of each row of logits, (B,)."""
    log_p = torch.log_softmax(logits, dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def cross_entropies(target: Tensor, logits: Tensor) -> Tensor:
    """Return the cross entropy of each row of logits against fixed target probabilities, (B,)."""
    return -(target.detach() * torch.log_softmax(logits, dim=1)).sum(dim=1)


def _moving(network: nn.Module, trained: Iterable[str]) -> dict[str, Tensor]:
    parameters = dict(network.named_parameters())
    statistics = {
        f"{name}.{key}": buffer
        for name, layer in network.named_modules()
        if isinstance(layer, StatsNorm)
        for key, buffer in layer.named_buffers()
        if key.startswith("running")
    }
    return {name: parameters[name] for name in trained} | statistics


def _prepared(optimiser: torch.optim.Optimizer, trained: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """Create the state of an optimiser before its first step, so that the saved state has one shape."""
    adam = isinstance(optimiser, torch.optim.Adam)
    slots = {}
    for name, parameter in trained.items():
        for slot in ("step", "exp_avg", "exp_avg_sq") if adam else ("momentum_buffer",):
            tensor = torch.zeros(()) if slot == "step" else torch.zeros_like(parameter, requires_grad=False)
            optimiser.state[parameter][slot] = slots[f"{name}.{slot}"] = tensor
    return slots


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
