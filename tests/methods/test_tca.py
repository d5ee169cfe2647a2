"""TCA against slow references, and against Adam of torch in all dimensions."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest
import torch

import sight
from sight.methods.tca import TCA, descend, head_basis
from sight.models.given_features import FeatureSource
from sight.registry import method
from sight.testing import ToySource, toy_stream
from tests.methods.test_output_baselines import entropy_of, stream


@pytest.mark.parametrize("fit", ["descent", "closed"])
def test_tca_moves_the_covariance_towards_the_banks(fit):
    source, z, p = stream(n=192)
    adapter = TCA(fit=fit, M=4).bind(source)
    adapter.refine(z, p)
    kept = []
    for k in range(5):
        mine = np.flatnonzero(p.argmax(axis=1) == k)
        kept += sorted(mine, key=lambda t: entropy_of(p[t]))[:4]
    wanted, found = np.cov(z[kept], rowvar=False), np.cov(z, rowvar=False)
    moved = adapter.map_.T @ found @ adapter.map_
    before, after = np.linalg.norm(found - wanted), np.linalg.norm(moved - wanted)
    assert after < (0.1 if fit == "closed" else 0.98) * before
    np.testing.assert_allclose(adapter.to_, z[kept].mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(adapter.from_, z.mean(axis=0), atol=1e-10)


def test_tca_running_moments_and_prediction():
    source, z, p = stream(n=80)
    adapter = TCA(every=40, fit="closed").bind(source)
    head, tail = adapter.refine(z[:40], p[:40]), adapter.refine(z[40:41], p[40:41])
    np.testing.assert_array_equal(head, p[:40])
    np.testing.assert_allclose(adapter.scatter_ / 40, np.cov(z[:41], rowvar=False), atol=1e-10)
    moved = (z[40] - z[:40].mean(axis=0)) @ adapter.map_ + adapter.to_
    logits = source.weight @ moved + source.bias
    np.testing.assert_allclose(tail[0], np.exp(logits) / np.exp(logits).sum(), atol=1e-8)


def test_tca_descent_follows_the_gradient_of_its_loss():
    rng = np.random.default_rng(0)
    found, wanted = (np.cov(rng.normal(size=(4, 30))) for _ in range(2))
    start = np.eye(4)
    slope = np.zeros((4, 4))
    for i in range(4):
        for j in range(4):
            step = np.zeros((4, 4))
            step[i, j] = 1e-6
            up, down = (start + sign * step for sign in (1, -1))
            losses = [np.linalg.norm(w.T @ found @ w - wanted) ** 2 for w in (up, down)]
            slope[i, j] = (losses[0] - losses[1]) / 2e-6
    np.testing.assert_allclose(descend(start, found, wanted, 1, 1e-3) - start, -1e-3 * np.sign(slope), atol=1e-6)


def test_tca_uses_no_labels_and_at_most_64_dimensions():
    for hook in (TCA.refine, TCA._refine_one, TCA.step):
        assert not {"y", "label", "labels"} & set(inspect.signature(hook).parameters)
    weight = np.random.default_rng(0).normal(size=(5, 300))
    basis = head_basis(weight, 64)
    assert basis.shape == (300, 5)
    np.testing.assert_allclose(weight @ basis @ basis.T, weight, atol=1e-9)  # the head depends on nothing else
    assert head_basis(np.random.default_rng(0).normal(size=(90, 300)), 64).shape == (300, 64)
    source = FeatureSource(weight)
    z = np.random.default_rng(1).normal(size=(70, 300))
    p = source.encode(z[:, :, None])[1]
    adapter = TCA().bind(source)
    adapter.refine(z, p)
    assert max(max(array.shape, default=0) for array in adapter.state().values()) <= 64
    toy = ToySource()
    windows = toy_stream(toy, n=100)
    relabelled = dataclasses.replace(windows, label=(windows.label + 1) % 5)
    predictions = [sight.run(TCA(M=3, every=10).bind(toy), stream).q for stream in (windows, relabelled)]
    np.testing.assert_array_equal(*predictions)
    assert not np.array_equal(predictions[0], toy.encode(windows.x)[1])


def test_tca_as_published_aligns_all_dimensions():
    """One fit over the whole stream equals Adam of torch from the identity on all D dimensions, as the authors do."""
    rng = np.random.default_rng(3)
    weight = 0.3 * rng.normal(size=(4, 256))
    z = rng.normal(size=(160, 256)) @ np.diag(rng.uniform(0.5, 3, 256)) + 0.5
    source = FeatureSource(weight)
    p = source.encode(z[:, :, None])[1]
    adapter = method("tca", "authors", every=len(z)).bind(source)
    np.testing.assert_array_equal(adapter.refine(z, p), p)  # the map is fitted after the last window

    kept = [
        t for k in range(4) for t in sorted(np.flatnonzero(p.argmax(axis=1) == k), key=lambda t: entropy_of(p[t]))[:20]
    ]
    linear = torch.eye(256, dtype=torch.float64, requires_grad=True)
    found, wanted = (torch.from_numpy(np.cov(rows, rowvar=False)) for rows in (z, z[kept]))
    optimiser = torch.optim.Adam([linear], lr=1e-3)
    for _ in range(20):
        optimiser.zero_grad()
        ((linear.T @ found @ linear - wanted) ** 2).sum().backward()
        optimiser.step()
    np.testing.assert_allclose(adapter.map_, linear.detach().numpy(), atol=1e-9)
    logits = ((z - z.mean(axis=0)) @ adapter.map_ + z[kept].mean(axis=0)) @ weight.T
    published = adapter.refine(z, p)
    np.testing.assert_array_equal(published.argmax(axis=1), logits.argmax(axis=1))

    restricted = method("tca", every=len(z)).bind(source)
    restricted.refine(z, p)
    moved = []
    for fitted, features in ((adapter, z), (restricted, z @ restricted._basis)):
        centred = features - features.mean(axis=0)
        moved.append(np.linalg.norm(centred @ fitted.map_ - centred) / np.linalg.norm(centred))
    assert moved[0] > 5 * moved[1], "20 steps move features far in many dimensions, and hardly in the head's span"
    assert adapter.map_.shape == (256, 256)
    assert adapter.max_state_bytes(source) == sum(array.nbytes for array in adapter.state().values())
