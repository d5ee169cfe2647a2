"""Norm layers against the literal formulas of their statistics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sight.methods.gradient.norms import (
    InstanceAwareNorm,
    StatsNorm,
    learning,
    norm_layers,
    norm_parameters,
    replace_batch_norms,
)


@pytest.fixture
def layer() -> nn.BatchNorm1d:
    rng = np.random.default_rng(0)
    layer = nn.BatchNorm1d(3).eval()
    with torch.no_grad():
        for tensor, values in (
            (layer.weight, rng.normal(1, 0.2, 3)),
            (layer.bias, rng.normal(0, 0.2, 3)),
            (layer.running_mean, rng.normal(0, 1, 3)),
            (layer.running_var, rng.uniform(0.5, 2, 3)),
        ):
            tensor.copy_(torch.tensor(values, dtype=torch.float32))
    return layer.requires_grad_(False)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor(np.random.default_rng(1).normal(0.5, 1.5, (4, 3, 7)), dtype=torch.float32)


def literal(x, mean, var, layer) -> np.ndarray:
    """Normalise each value with its own mean and variance, (B, C, T) or broadcastable."""
    w, b = (p.numpy().astype(float)[:, None] for p in (layer.weight, layer.bias))
    return (x.numpy().astype(float) - mean) / np.sqrt(var + layer.eps) * w + b


def stored(layer) -> tuple[np.ndarray, np.ndarray]:
    return tuple(b.numpy().astype(float)[:, None].copy() for b in (layer.running_mean, layer.running_var))


def batch(x) -> tuple[np.ndarray, np.ndarray]:
    values = x.numpy().astype(float)
    return tuple(np.array([f(values[:, c]) for c in range(3)])[:, None] for f in (np.mean, np.var))


def test_source_statistics_are_the_trained_layer(layer, x):
    assert torch.equal(StatsNorm(layer, "source")(x), layer(x))


def test_batch_statistics_reduce_over_windows_and_time(layer, x):
    assert np.allclose(StatsNorm(layer, "batch")(x).numpy(), literal(x, *batch(x), layer), atol=1e-5)


def test_mixed_statistics_do_not_move(layer, x):
    (m, v), (mb, vb) = stored(layer), batch(x)
    norm = StatsNorm(layer, "mix", rate=0.3)
    expected = literal(x, 0.7 * m + 0.3 * mb, 0.7 * v + 0.3 * vb, layer)
    with learning(norm):
        assert np.allclose(norm(x).numpy(), expected, atol=1e-5)
    assert np.allclose(norm(x).numpy(), expected, atol=1e-5)


def test_moving_statistics_move_only_while_learning(layer, x):
    (m, v), (mb, vb) = stored(layer), batch(x)
    norm = StatsNorm(layer, "ema", rate=0.05)
    assert np.allclose(norm(x).numpy(), literal(x, m, v, layer), atol=1e-5)
    m2, v2 = 0.95 * m + 0.05 * mb, 0.95 * v + 0.05 * vb
    with learning(norm):
        assert np.allclose(norm(x).numpy(), literal(x, m2, v2, layer), atol=1e-5)
    assert np.allclose(norm.running_mean.numpy(), m2[:, 0], atol=1e-6)
    assert np.allclose(norm.running_var.numpy(), v2[:, 0], atol=1e-6)
    assert np.allclose(norm(x).numpy(), literal(x, m2, v2, layer), atol=1e-5)


def test_gradient_flows_through_the_share_of_the_batch(layer, x):
    norm = StatsNorm(layer, "ema", rate=0.5)
    x.requires_grad_(True)
    with learning(norm):
        norm(x)[0, 0, 0].backward()
    # Another window of the same channel matters only through the statistics.
    assert x.grad[1, 0].abs().sum() > 0
    assert x.grad[1, 1].abs().sum() == 0


@pytest.mark.parametrize("stats", ["source", "batch", "ema", "mix"])
def test_a_single_value_per_channel_uses_the_trained_statistics(layer, stats):
    x = torch.tensor([[[1.0], [2.0], [3.0]]])
    norm = StatsNorm(layer, stats, 0.5)
    with learning(norm):
        assert torch.equal(norm(x), layer(x))
        assert torch.equal(norm(x[:, :, 0]), layer(x[:, :, 0]))


def instance_aware(x, mean, var, layer, k) -> np.ndarray:
    """Compute instance-aware normalisation value by value."""
    values, out = x.numpy().astype(float), np.empty(x.shape)
    length = x.shape[2]
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            m, v = mean[c, 0], var[c, 0]
            own, spread = values[i, c].mean(), values[i, c].var(ddof=1)
            sm = np.sqrt((v + layer.eps) / length)
            sv = (v + layer.eps) * np.sqrt(2 / (length - 1))
            shrink = lambda a, t: np.sign(a) * max(abs(a) - t, 0)  # noqa: E731
            m2, v2 = m + shrink(own - m, k * sm), max(0, v + shrink(spread - v, k * sv))
            out[i, c] = (values[i, c] - m2) / np.sqrt(v2 + layer.eps)
            out[i, c] = out[i, c] * float(layer.weight[c]) + float(layer.bias[c])
    return out


@pytest.mark.parametrize("k", [0.0, 0.5, 4.0])
def test_instance_aware_norm_equals_its_formula(layer, x, k):
    expected = instance_aware(x, *stored(layer), layer, k)
    assert np.allclose(InstanceAwareNorm(layer, k)(x).numpy(), expected, atol=1e-4)


def test_instance_aware_norm_uses_the_batch_while_learning(layer, x):
    (m, v), (mb, _) = stored(layer), batch(x)
    unbiased = np.array([x.numpy().astype(float)[:, c].var(ddof=1) for c in range(3)])[:, None]
    expected = instance_aware(x, mb, unbiased, layer, 1.0)
    norm = InstanceAwareNorm(layer, k=1.0, rate=0.01)
    with learning(norm):
        assert np.allclose(norm(x).numpy(), expected, atol=1e-4)
    assert np.allclose(norm.running_mean.numpy(), (0.99 * m + 0.01 * mb)[:, 0], atol=1e-6)
    assert np.allclose(norm.running_var.numpy(), (0.99 * v + 0.01 * unbiased)[:, 0], atol=1e-6)


def test_instance_aware_norm_does_not_correct_single_samples(layer):
    x = torch.tensor([[[1.0], [2.0], [3.0]], [[0.0], [1.0], [5.0]]])
    assert torch.allclose(InstanceAwareNorm(layer, 4.0)(x), layer(x), atol=1e-6)


def test_replacing_keeps_names_and_values():
    network = nn.Sequential(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Sequential(nn.BatchNorm1d(4)))
    network.append(nn.BatchNorm1d(4, track_running_stats=False))
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    assert replace_batch_norms(network, StatsNorm) == 2
    after = network.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert list(norm_layers(network)) == ["1", "3.0", "4"]


def test_only_norms_with_parameters_are_found():
    network = nn.Sequential(
        nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.LayerNorm(4, elementwise_affine=False), nn.Linear(4, 2)
    )
    assert list(norm_parameters(network)) == ["0.weight", "0.bias", "1.weight", "1.bias"]
