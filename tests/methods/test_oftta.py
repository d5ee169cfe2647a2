"""OFTTA's mixed normalisation and its head, against hand-made statistics and against T3A."""

from __future__ import annotations

import numpy as np
import pytest

from sight.methods.t3a import T3A
from sight.testing import toy_network

torch = pytest.importorskip("torch")

from sight.methods.oftta import OFTTA, MixedNorm  # noqa: E402 - needs torch


def numpy_oftta_features(network, x, shares):
    """Compute features layer by layer, with normalisation by hand."""
    shares = list(shares)
    for layer in network.blocks.modules():
        if isinstance(layer, torch.nn.BatchNorm1d):
            a = shares.pop(0)
            data = x.numpy()
            mean = a * layer.running_mean.numpy() + (1 - a) * data.mean(axis=(0, 2))
            std_source = np.sqrt(layer.running_var.numpy()) + 1e-5
            std = a * std_source + (1 - a) * np.sqrt(data.var(axis=(0, 2)) + layer.eps)
            y = (data - mean[:, None]) / std[:, None]
            x = torch.from_numpy(y * layer.weight.detach().numpy()[:, None] + layer.bias.detach().numpy()[:, None])
        elif not isinstance(layer, torch.nn.Sequential):
            x = layer(x)
    assert not shares
    return network.pool(x).flatten(1).numpy()


@pytest.mark.parametrize("order", ["forward", "reversed"])
def test_statistics_are_mixed_by_the_shares(order):
    source = toy_network()
    x = np.random.default_rng(0).normal(size=(16, 3, 20)).astype("float32")
    adapter = OFTTA(edtn_order=order).bind(source)
    with torch.no_grad():
        found = adapter._network.features(torch.from_numpy(x)).numpy()
        shares = [0.1, 0.1 * 9.9**0.5, 0.99]
        expected = numpy_oftta_features(
            source.module(), torch.from_numpy(x), shares if order == "forward" else shares[::-1]
        )
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_with_the_sources_statistics_it_is_t3a():
    source = toy_network()
    x = np.random.default_rng(0).normal(size=(40, 3, 20)).astype("float32")
    plain = T3A(M=10).bind(source).step(x)
    mixed = OFTTA(M=10, first=1.0, last=1.0, rule="stream").bind(source).step(x)
    np.testing.assert_allclose(mixed, plain, atol=1e-3)
    default = OFTTA(M=10, rule="stream").bind(source).step(x)
    assert np.abs(default - plain).max() > 1e-2


def test_chunks_share_statistics_and_other_networks_stay_unchanged():
    x = np.random.default_rng(0).normal(size=(32, 3, 20)).astype("float32")
    source = toy_network()
    chunk = OFTTA(batch=32).bind(source)
    assert chunk.chunk == 32
    assert np.abs(chunk.step(x) - chunk.clone(batch=4).step(x)).max() > 1e-3
    transformer = toy_network("transformer")
    adapter = OFTTA().bind(transformer)
    assert not any(isinstance(layer, MixedNorm) for layer in adapter._network.modules())
    with torch.no_grad():
        z = adapter._network.features(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(z, transformer.encode(x)[0], atol=1e-5)


def test_state_bytes_equal_the_papers_figure():
    adapter = OFTTA(M=10).bind(toy_network(classes=4))
    kinds = adapter.state_bytes()
    assert sum(kinds[kind] for kind in OFTTA.MEMORY_SUM) / 1024 == pytest.approx(325.0, rel=0.01)
