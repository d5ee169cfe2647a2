"""What methods that back-propagate at test time share: a private network, an optimiser, two streaming rules."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sight.methods._memory import Dice, Remembers
from sight.methods._norms import Stats, StatsNorm, learning, norm_parameters, replace_batch_norms
from sight.methods._replay import Fifo
from sight.ops import entropy
from sight.types import Array


class Tensors:
    """Live tensors of a network or an optimiser, stored as arrays."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = dict(tensors)

    def arrays(self) -> dict[str, Array]:
        """Name to array."""
        return {name: tensor.detach().cpu().numpy() for name, tensor in self.tensors.items()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Copy stored arrays into the live tensors."""
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(torch.from_numpy(np.array(arrays[name])))


@dataclass(kw_only=True)
class GradientAdapter(Remembers):
    """Owns a private copy of the source's network, always in evaluation mode, and trains some of its parameters.

    A method writes `_loss`, or `_update` where a loss is not enough, or `_piece` where it also answers its own way.

    Parameters
    ----------
    lr
        Learning rate.
    rule
        "chunk": a step answers all windows it is given, then learns from them. "stream": each window is answered
        at once and alone, and learning follows every `update_every` windows, however the stream is cut.
    batch
        Windows that the chunk rule wants in one step; the last chunk is shorter, and counts.
    update_every
        Windows between two updates of the stream rule.
    bn_stats
        Statistics of batch normalisation: "source", "batch", "ema" (stored, moving while the method learns) or
        "mix" (source and batch). Networks without batch normalisation have nothing to choose.
    bn_rate
        Weight of the batch in "ema" and "mix".
    seed
        Of everything random in the method.

    Notes
    -----
    Dropout stays off. `reset` returns to a snapshot taken at `bind`, so the source may live its own life.
    `state_bytes` counts private networks whole, as weights; `MEMORY_SUM` names the kinds whose sum is the memory
    column of the SIGHT paper, in KB of 1,024 bytes.
    """

    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("snapshot", "optimiser")
    _counts: ClassVar[tuple[str, ...]] = ("batch", "update_every")  # fields of at least 1
    _amounts: ClassVar[tuple[str, ...]] = ("lr",)  # fields of at least 0
    _shares: ClassVar[tuple[str, ...]] = ("bn_rate",)  # fields from 0 to 1
    _positive: ClassVar[tuple[str, ...]] = ()  # fields above 0
    _choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "rule": ("chunk", "stream"),
        "bn_stats": ("source", "batch", "ema", "mix"),
    }
    lr: float = 1e-3
    rule: Literal["chunk", "stream"] = "chunk"
    batch: int = 32
    update_every: int = 1
    bn_stats: Stats = "batch"
    bn_rate: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        values = self.params()
        wrong = [f"{key} >= 1, got {values[key]}" for key in self._counts if not values[key] >= 1]
        wrong += [f"{key} >= 0, got {values[key]}" for key in self._amounts if not 0 <= values[key] < np.inf]
        wrong += [f"{key} > 0, got {values[key]}" for key in self._positive if not 0 < values[key] < np.inf]
        wrong += [f"0 <= {key} <= 1, got {values[key]}" for key in self._shares if not 0 <= values[key] <= 1]
        wrong += [
            f"{key} {' or '.join(map(repr, allowed))}, got {values[key]!r}"
            for key, allowed in self._choices.items()
            if values[key] not in allowed
        ]
        if wrong:
            raise ValueError(f"{self.name}: expected {'; '.join(wrong)}.")

    @property
    def chunk(self) -> int | None:
        """Windows the streaming rule wants in one step; None where any cut gives the same answers."""
        return self.batch if self.rule == "chunk" else None

    def state_bytes(self) -> dict[str, int]:
        """Count bytes by kind, memories at full capacity; `MEMORY_SUM` names those of the paper's column."""
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

    # --- life -------------------------------------------------------------------------------------------------

    def _bind(self) -> None:
        self._network: Any = copy.deepcopy(self.source.module()).eval().requires_grad_(False)
        replace_batch_norms(self._network, self._norm)
        self._snapshot = {name: tensor.clone() for name, tensor in self._network.state_dict().items()}
        self._trained = self._trainable()
        if not self._trained:
            raise ValueError(
                f"{self.name}: found no norm layer in {type(self._network).__name__}, so there is nothing to train; "
                f"use a network with BatchNorm or LayerNorm, or a method that trains all weights."
            )
        for parameter in self._trained.values():
            parameter.requires_grad_(True)
        card = self.source.card
        self._shape = None if card is None else (len(card.channels), card.length)  # (C, T), where it is known
        std = getattr(self._network, "std", None)
        self._noise_scale = std.cpu().numpy() if isinstance(std, Tensor) else 1.0
        self._max_entropy = float(np.log(self.n_classes))
        self._fresh = True

    def _reset(self) -> None:
        self._network.load_state_dict(self._snapshot)
        self.weights_ = Tensors(_moving(self._network, self._trained))
        self._optimiser = self._make_optimiser(list(self._trained.values()))
        self.optimiser_ = Tensors(_prepared(self._optimiser, self._trained))
        self.dice_ = Dice(self.seed)
        if self._waits():
            self.pending_ = Fifo(self.update_every, self._shape)

    def _networks(self) -> list[nn.Module]:
        """Return every network held."""
        return [self._network]

    def _norm(self, layer: _BatchNorm) -> nn.Module:
        """Return what stands in for a batch normalisation."""
        return StatsNorm(layer, self.bn_stats, self.bn_rate)

    def _trainable(self) -> dict[str, nn.Parameter]:
        """Return the parameters to train by name; the norm layers' unless a method says otherwise."""
        return norm_parameters(self._network)

    def _make_optimiser(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=self.lr)

    # --- stream -----------------------------------------------------------------------------------------------

    def _step(self, x: Array) -> Array:
        if self._shape is not None and x.shape[1:] != self._shape:
            raise ValueError(f"{self.name}: expected windows (B, {self._shape[0]}, {self._shape[1]}), got {x.shape}.")
        if self._fresh:  # a wrapped network checks its cut on its first windows, before statistics can move
            with torch.no_grad():
                for network in self._networks():
                    network(self._tensor(x[:1]))
            self._fresh = False
        pieces = [x] if self.rule == "chunk" else [x[t : t + 1] for t in range(len(x))]
        q = np.concatenate([self._piece(self._tensor(piece)).cpu().numpy() for piece in pieces])
        self._trace = {"entropy": entropy(q)}
        return q.astype(self.source.weight.dtype, copy=False)

    def _piece(self, x: Tensor) -> Tensor:
        """Answer windows with probabilities, then learn from them when it is time."""
        one_pass = not self._waits() and self.bn_stats != "ema"
        with torch.set_grad_enabled(one_pass):
            logits = self._network(x)
        if one_pass:
            self._update(x, logits)
        else:
            self._when_due(x)
        return torch.softmax(logits.detach(), dim=1)

    def _when_due(self, x: Tensor) -> None:
        """Learn from windows now, or once enough have come."""
        if not self._waits():
            self._update(x)
            return
        self.pending_.add(x[0].cpu().numpy())
        if int(self.pending_.seen) % self.update_every == 0:
            self._update(self._tensor(self.pending_.windows))

    def _update(self, x: Tensor, logits: Tensor | None = None) -> None:
        """Learn from windows; `logits` are those of the answer, where they still have their gradient."""
        loss = self._loss(x, self._learning_pass(x) if logits is None else logits)
        if loss is not None:
            self._descend(loss)

    def _loss(self, x: Tensor, logits: Tensor) -> Tensor | None:
        """Return what to make small on a batch, or None to leave it out."""
        raise NotImplementedError(f"{type(self).__name__} writes none of _loss, _update and _piece.")

    def _learning_pass(self, x: Tensor) -> Tensor:
        """Windows to logits, with gradient and with statistics that may move."""
        with learning(self._network):
            logits: Tensor = self._network(x)
        return logits

    def _descend(self, loss: Tensor) -> None:
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

    def _waits(self) -> bool:
        """Whether windows are collected before an update."""
        return self.rule == "stream" and self.update_every > 1

    def _tensor(self, x: Array) -> Tensor:
        like = next(self._network.parameters())
        return torch.as_tensor(x, dtype=like.dtype, device=like.device)


@dataclass(kw_only=True)
class TeacherAdapter(GradientAdapter):
    """Keeps a second network that follows the trained one slowly."""

    def _bind(self) -> None:
        super()._bind()
        self._teacher: Any = copy.deepcopy(self._network).requires_grad_(False)

    def _reset(self) -> None:
        super()._reset()
        self._teacher.load_state_dict(self._snapshot)
        self.teacher_ = Tensors(_moving(self._teacher, self._trained))

    def _networks(self) -> list[nn.Module]:
        return [self._network, self._teacher]

    @torch.no_grad()
    def _follow(self, rate: float, statistics: bool = False) -> None:
        """Move the teacher's parameters, on demand also its moving statistics, by `rate` towards the student's."""
        for name, leader in self.weights_.tensors.items():
            if statistics or name in self._trained:
                self.teacher_.tensors[name].lerp_(leader, rate)


def entropies(logits: Tensor) -> Tensor:
    """Entropy in nats of each row of logits, (B,)."""
    log_p = torch.log_softmax(logits, dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def cross_entropies(target: Tensor, logits: Tensor) -> Tensor:
    """Cross entropy of each row of logits against fixed target probabilities, (B,)."""
    return -(target.detach() * torch.log_softmax(logits, dim=1)).sum(dim=1)


def _moving(network: nn.Module, trained: Iterable[str]) -> dict[str, Tensor]:
    """Return all tensors that adaptation can change: trained parameters and statistics of norm layers."""
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
    """Give an optimiser its state before the first step, so that stored state has one shape; zeros mean fresh."""
    adam = isinstance(optimiser, torch.optim.Adam)
    found = {}
    for name, parameter in trained.items():
        for slot in ("step", "exp_avg", "exp_avg_sq") if adam else ("momentum_buffer",):
            tensor = torch.zeros(()) if slot == "step" else torch.zeros_like(parameter, requires_grad=False)
            optimiser.state[parameter][slot] = found[f"{name}.{slot}"] = tensor
    return found


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
