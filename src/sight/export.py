"""The whole of SIGHT in one ONNX graph: encoder, head and adaptation, state in and state out.

Runs from any language that has ONNX Runtime; `sight.sources.fused.FusedSession` is the runner in Python.

State, version 1 (K classes, D features; all tensors float32 but the last)::

    prototypes  (K, D)  in: prototypes  out: next_prototypes
    habit       (K,)    in: habit       out: next_habit
    belief      (K,)    in: belief      out: next_belief
    count       (1,)    in: count       out: next_count       int32, windows seen

Where `count` is 0 the graph starts a new wearer and ignores the other three, so zeros of the right shape are a fresh
state. The other input is `x` (1, C, T) in the units of the sensor; the other outputs are `q` (1, K) refined, `p` (1, K)
raw, and `surprise` (1,).

A gap of s seconds is the host's to apply, before the next window, if count > 0:
``belief = 1 / K + (belief - 1 / K) * 2 ** (-s / half_life)``; the half-life is in the metadata ``sight.fused``, and
null means that beliefs do not fade.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from sight.kernels.reference import COSINE_FLOOR, NORM_FLOOR, PRIOR_FLOOR, SUM_FLOOR, Rules
from sight.methods.sight import SIGHT
from sight.sources.checkpoint import write_whole
from sight.sources.fused import STATE, STATE_VERSION, FusedSession
from sight.sources.lean import prepared, to_graph
from sight.sources.onnx import FUSED, metadata
from sight.sources.quantise import quantise
from sight.sources.torch import TorchSource

__all__ = ["SightStep", "export_fused", "quantise"]

INPUTS = ("x", *STATE)
OUTPUTS = ("q", "p", "surprise", *(f"next_{name}" for name in STATE))


def export_fused(
    source: TorchSource, path: str | Path, adapter: SIGHT | None = None, *, shape: tuple[int, int] | None = None
) -> Path:
    """Write a source and SIGHT as one graph, (window, state) to (answers, new state); see the module for the layout.

    Parameters
    ----------
    source
        Trained or wrapped.
    path
        Where to write.
    adapter
        SIGHT with the settings to bake in, of either variant; the defaults if None.
    shape
        (C, T) of a window, for wrapped networks; a trained one knows.
    """
    adapter = SIGHT() if adapter is None else adapter
    if not isinstance(adapter, SIGHT):
        raise TypeError(f"Expected SIGHT for a fused graph, got {adapter.name}; other methods run on the plain export.")
    if shape is None and source.card is None:
        raise ValueError("Expected shape=(C, T) for a wrapped network, got None; say what its windows look like.")
    shape = shape or (len(source.card.channels), source.card.length)  # type: ignore[union-attr]
    bound = dataclasses.replace(adapter).bind(source)
    classes, dims = source.weight.shape
    step = SightStep(
        prepared(source.network, shape).cpu(), torch.from_numpy(bound.state()["prototypes"]), bound.rules()
    )
    fresh = (torch.zeros(classes, dims), torch.zeros(classes), torch.zeros(classes), torch.zeros(1, dtype=torch.int32))
    model = to_graph(step, (torch.zeros(1, *shape), *fresh), INPUTS, OUTPUTS)
    texts = metadata(
        classes=source.classes, weight=source.weight, bias=source.bias, card=source.card, stats=source.stats
    )
    texts[FUSED] = json.dumps({"state_version": STATE_VERSION, "method": adapter.name, "settings": adapter.settings()})
    for key, value in texts.items():
        model.metadata_props.add(key=key, value=value)
    data: bytes = model.SerializeToString()
    _compare(bound, data, shape)
    return write_whole(path, data)


def _compare(adapter: SIGHT, data: bytes, shape: tuple[int, int]) -> None:
    """Refuse a graph that answers otherwise than the adapter; nothing has been written yet."""
    x = np.random.default_rng(0).normal(size=(8, *shape)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        session = FusedSession(write_whole(Path(folder) / "trial.onnx", data))
        fused = np.array([session.step(window)[0] for window in x])
    worst = float(np.abs(fused - adapter.step(x)).max())
    if not worst <= 1e-4:
        raise RuntimeError(
            f"The fused graph answers otherwise than the adapter, by {worst:.1e} where 1e-4 was expected; "
            f"nothing was written. Does the network do something onnx cannot express?"
        )


class SightStep(nn.Module):
    """Encoder, head and one step of SIGHT in torch, written for the exporter: no branch depends on a value.

    It is `sight.kernels.reference` in other words; the two are tested against each other.
    """

    def __init__(self, network: nn.Module, anchors: Tensor, rules: Rules) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("anchors", anchors)
        self.rules = rules
        self.floor = COSINE_FLOOR if rules.authors else rules.eps

    def forward(
        self, x: Tensor, prototypes: Tensor, habit: Tensor, belief: Tensor, count: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Answer one window (1, C, T) and return the state after it."""
        rules, uniform = self.rules, 1 / len(habit)
        z = self.network.features(x)  # type: ignore[operator]
        p = torch.softmax(self.network.head(z), dim=1)  # type: ignore[operator]
        feature, evidence = z[0], p[0]
        fresh = count == 0
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


def length(vectors: Tensor) -> Tensor:
    """Length along the last axis, which stays."""
    return (vectors * vectors).sum(-1, keepdim=True).sqrt()


def unit(vectors: Tensor, floor: float) -> Tensor:
    """Scale to length 1 along the last axis; what is shorter than `floor` is divided by it."""
    return vectors / length(vectors).clamp_min(floor)
