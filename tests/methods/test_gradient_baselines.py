"""Methods that minimise entropy, against slow references that share no code with them."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from sight import registry
from sight.methods.gradient.norms import learning
from sight.methods.rem import ranked_loss
from sight.models.torch import TorchSource
from tests.helpers.networks import close, entropy_of, network_with, probabilities, source, trainable, windows


@pytest.fixture(scope="module")
def model() -> TorchSource:
    return source()


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return windows()[0]


# --- TENT -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stats", ["source", "batch"])
def test_tent_predicts_then_takes_one_adam_step_on_the_mean_entropy(model, x, stats):
    adapter = registry.method("tent", bn_stats=stats, batch=32).bind(model)
    network = network_with(model, stats)
    optimiser = torch.optim.Adam(trainable(network), lr=1e-3)
    for first in (0, 32):
        batch = x[first : first + 32]
        assert np.allclose(adapter.step(batch), probabilities(network, batch), atol=1e-5)
        optimiser.zero_grad()
        entropy_of(network(torch.from_numpy(batch))).mean().backward()
        optimiser.step()
        assert close(adapter, network)


def test_tent_collects_windows_between_updates_of_a_stream(model, x):
    adapter = registry.method("tent", bn_stats="source", rule="stream", update_every=4).bind(model)
    start = adapter.state()
    moved = []
    for t in range(8):
        adapter.step(x[t : t + 1])
        moved.append(any((start[k] != v).any() for k, v in adapter.state().items() if k.startswith("weights")))
    assert moved == [False, False, False, True, True, True, True, True]
    network = network_with(model, "source")
    optimiser = torch.optim.Adam(trainable(network), lr=1e-3)
    for first in (0, 4):
        optimiser.zero_grad()
        entropy_of(network(torch.from_numpy(x[first : first + 4]))).mean().backward()
        optimiser.step()
    assert close(adapter, network)


# --- NOTE -----------------------------------------------------------------------------------------------------------


def test_note_trains_on_its_whole_memory_when_an_update_is_due(model, x):
    adapter = registry.method("note", memory=16, update_every=16).bind(model)
    network = copy.deepcopy(adapter._network)
    adapter.step(x[:15])
    assert close(adapter, network, atol=0)
    adapter.step(x[15:16])
    optimiser = torch.optim.Adam(trainable(network), lr=1e-4)
    with learning(network):
        entropy_of(network(torch.from_numpy(x[:16]))).mean().backward()
    optimiser.step()
    assert close(adapter, network, atol=1e-5)
    assert not torch.equal(adapter._network.blocks[0][1].running_mean, model.module().blocks[0][1].running_mean)


def test_note_keeps_a_balanced_memory_of_an_unbalanced_stream(model):
    x, label = windows(n=600, seed=4)
    rare = np.concatenate([x[label == 0][:60], x[label == 3][:6], x[label == 0][60:90], x[label == 1][:5]])
    adapter = registry.method("note", memory=9, update_every=10_000, iabn=False, bn_stats="source").bind(model)
    predicted = adapter.step(rare).argmax(axis=1)
    seen = np.bincount(predicted, minlength=5)
    assert adapter.memory_.seen.tolist() == seen.tolist()
    counts = seen[seen > 0]
    held = adapter.memory_.held[seen > 0]
    assert held.sum() == 9
    assert (held >= np.minimum(counts, 9 // len(counts))).all()


def test_note_corrects_the_normalisation_of_windows_that_are_far_off(model, x):
    far = x[:4] * 5 + 3
    plain = registry.method("note", iabn=False, bn_stats="source").bind(model).step(far)
    aware = registry.method("note", k=1.0).bind(model).step(far)
    tolerant = registry.method("note", k=1e6).bind(model).step(far)
    assert np.allclose(tolerant, plain, atol=1e-5)
    assert np.abs(aware - plain).max() > 0.01


# --- SAR ------------------------------------------------------------------------------------------------------------


def test_sar_takes_the_gradient_after_an_ascent_step_on_certain_windows(model, x):
    adapter = registry.method("sar", bn_stats="source", margin=0.1, reset_below=0, lr=0.1).bind(model)
    network, margin = network_with(model, "source"), 0.1 * math.log(5)
    velocity = [torch.zeros_like(p) for p in trainable(network)]
    kept_windows = 0
    for first in (0, 40):
        batch = torch.from_numpy(x[first : first + 40])
        adapter.step(batch.numpy())
        kept = [i for i in range(40) if entropy_of(network(batch[i : i + 1]))[0] < margin]
        kept_windows += len(kept)
        gradients = torch.autograd.grad(entropy_of(network(batch[kept])).mean(), trainable(network))
        length = math.sqrt(sum(float((g**2).sum()) for g in gradients))
        uphill = copy.deepcopy(network)
        with torch.no_grad():
            for p, g in zip(trainable(uphill), gradients, strict=True):
                p.add_(0.05 * g / length)
        still = entropy_of(uphill(batch[kept])).detach() < margin
        second = torch.autograd.grad(entropy_of(uphill(batch[kept])[still]).mean(), trainable(uphill))
        with torch.no_grad():
            for p, v, g in zip(trainable(network), velocity, second, strict=True):
                v.mul_(0.9).add_(g)
                p.sub_(0.1 * v)
        assert close(adapter, network, atol=1e-5)
    assert adapter.kept_ == kept_windows
    assert 0 < adapter.kept_ < adapter.seen_ == 80


def test_sar_resets_once_and_starts_a_new_average(model, x):
    adapter = registry.method("sar", reset_below=0.1, lr=0.1).bind(model)
    adapter.step(x[:40])
    assert adapter.resets_ == 0
    start = adapter.clone().state()
    adapter._reset_if_collapsed(-1.0)  # far below the threshold
    assert adapter.resets_ == 1
    state = adapter.state()
    assert all((state[key] == start[key]).all() for key in state if key.startswith("weights"))
    assert any(state[key].any() for key in state if key.endswith("momentum_buffer"))  # momentum stays
    adapter._reset_if_collapsed(0.5)  # a stale average of about -0.9 would reset again
    assert adapter.resets_ == 1
    assert adapter.average_ == 0.5
    adapter._reset_if_collapsed(0.1)
    assert adapter.average_ == pytest.approx(0.9 * 0.5 + 0.1 * 0.1)


def test_sar_skips_a_batch_without_certain_windows(model, x):
    adapter = registry.method("sar", lr=0.5).bind(model)
    adapter.step(x[:40])
    adapter = adapter.clone(margin=0.0).restore(adapter.state())
    before = adapter.state()
    adapter.step(x[40:80])
    after = adapter.state()
    assert all(
        (before[key] == after[key]).all() for key in before if key.startswith(("weights", "optimiser", "average"))
    )


@pytest.mark.parametrize(
    ("fields", "windows", "share"),
    [
        ({"batch": 32}, 32, 1),
        ({"batch": 8}, 8, 8 / 32),
        ({"rule": "stream"}, 1, 1 / 16),
        ({"rule": "stream", "update_every": 4}, 4, 4 / 32),
    ],
)
def test_sar_learns_more_slowly_from_small_batches(model, x, fields, windows, share):
    scaled, plain = (
        registry.method("sar", bn_stats="source", margin=1.0, reset_below=0, lr=lr, scale_lr=scale, **fields).bind(
            model
        )
        for lr, scale in ((0.1, True), (0.1 * share, False))
    )
    start = plain.state()
    for adapter in (scaled, plain):
        adapter.step(x[:windows])
    states = scaled.state(), plain.state()
    weights = [key for key in start if key.startswith("weights")]
    assert all(np.allclose(states[0][key], states[1][key], atol=1e-7) for key in weights)
    assert any((states[0][key] != start[key]).any() for key in weights)


def test_sar_can_freeze_the_last_norm_layers(model):
    names = list(registry.method("sar", frozen_last=1).bind(model)._trained)
    assert len(names) == 4
    assert not any(name.startswith("blocks.3") for name in names)


# --- EATA -----------------------------------------------------------------------------------------------------------


def test_eata_trains_on_certain_and_new_windows_only(model, x):
    adapter = registry.method("eata", bn_stats="source", margin=0.2, similarity=0.5, batch=16, lr=0.0).bind(model)
    margin, average, kept, certain_windows = 0.2 * math.log(5), None, 0, 0
    for first in range(0, 96, 16):
        adapter.step(x[first : first + 16])
        chosen = []
        for p in model.encode(x[first : first + 16])[1].astype(float):
            certain = -sum(v * math.log(v) for v in p) < margin
            new = average is None or abs(p @ average) / (np.linalg.norm(p) * np.linalg.norm(average)) < 0.5
            certain_windows += certain
            if certain and new:
                chosen.append(p)
        kept += len(chosen)
        if chosen:
            mean = np.mean(chosen, axis=0)
            average = mean if average is None else 0.9 * average + 0.1 * mean
    assert (adapter.seen_, adapter.certain_, adapter.kept_) == (96, certain_windows, kept)
    assert 16 < adapter.kept_ < adapter.certain_ < 96
    assert np.allclose(adapter.average_, average, atol=1e-4)


@pytest.mark.parametrize("kind", ["authors", "per_window"])
def test_eata_weights_certain_windows_and_pulls_back_by_fisher(model, x, kind):
    rng = np.random.default_rng(0)
    network = network_with(model, "source")
    start = [p.detach().clone() for p in trainable(network)]
    fisher = {n: rng.random(p.shape).astype(np.float32) for n, p in network.named_parameters() if p.requires_grad}
    rich = TorchSource(model.module(), classes=model.classes, fisher={f"{kind}.{n}": v for n, v in fisher.items()})
    fields = {"alpha": 3.0, "lr": 0.05, "momentum": 0.0, "similarity": 1.0, "fisher": kind}
    adapter = registry.method("eata", bn_stats="source", **fields).bind(rich)
    assert adapter.notes() == ()
    for first in (0, 32):
        batch = torch.from_numpy(x[first : first + 32])
        adapter.step(batch.numpy())
        h = entropy_of(network(batch))
        kept = h < 0.4 * math.log(5)
        loss = (torch.exp(0.4 * math.log(5) - h.detach()) * h)[kept].mean()
        for p, value, p0 in zip(trainable(network), fisher.values(), start, strict=True):
            loss = loss + 3.0 * (torch.from_numpy(value) * (p - p0) ** 2).sum()
        gradients = torch.autograd.grad(loss, trainable(network))
        with torch.no_grad():
            for p, g in zip(trainable(network), gradients, strict=True):
                p.sub_(0.05 * g)
        assert close(adapter, network, atol=1e-5)


def test_eata_reports_missing_fisher_information(model):
    assert "no Fisher" in registry.method("eata").bind(model).notes()[0]


# --- REM ------------------------------------------------------------------------------------------------------------


def test_rem_loss_equals_the_double_loop():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 6, 4))
    p = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    h = -(p * np.log(p)).sum(axis=2)
    agreement = disorder = 0.0
    for i in range(3):
        for j in range(i):  # j is the easier view
            agreement += np.mean([-sum(p[j, b, k] * math.log(p[i, b, k]) for k in range(4)) for b in range(6)])
            disorder += np.mean([max(h[j, b] - h[i, b] + 0.1, 0) for b in range(6)])
    loss = ranked_loss([torch.tensor(view) for view in logits], ranking=2.0, margin=0.1)
    assert float(loss) == pytest.approx(agreement + 2 * disorder, rel=1e-6)


def test_rem_loss_has_the_right_gradients():
    easy = torch.tensor([[0.1, 0.0]], requires_grad=True)
    hard = torch.tensor([[3.0, 0.0]], requires_grad=True)
    ranked_loss([easy, hard], ranking=1.0, margin=0.0).backward()
    assert easy.grad[0, 0] < 0 < easy.grad[0, 1]  # becomes more certain: its entropy was higher
    assert hard.grad[0, 0] > 0 > hard.grad[0, 1]  # moves to the easier view's prediction


def test_rem_rounds_the_masked_share_as_the_authors_do():
    adapter = registry.method("rem").bind(source())
    x = torch.arange(24.0).repeat(1, 3, 1) + 0.5
    masked = adapter._masked(x, torch.arange(24)[None], level=1)
    assert (masked != x).any(dim=1).sum() == 24 - int(0.9 * 24) == 3


@pytest.mark.parametrize("encoder", ["cnn", "transformer"])
def test_rem_masks_the_most_important_samples_by_channel_means(encoder):
    model, (x, _) = source(encoder), windows(n=6)
    adapter = registry.method("rem").bind(model)
    batch = torch.from_numpy(x)
    adapter._network(batch)
    importance = adapter._importance(batch)
    assert importance.shape == (6, 24)
    masked = adapter._masked(batch, importance.argsort(dim=1, descending=True, stable=True), level=2)
    for i in range(6):
        most = set(np.argsort(-importance[i].numpy(), kind="stable")[:5].tolist())  # 24 - int(0.8 * 24)
        changed = {t for t in range(24) if (masked[i, :, t] != batch[i, :, t]).any()}
        assert changed == most
        assert np.allclose(masked[i][:, sorted(most)], x[i].mean(axis=1, keepdims=True), atol=1e-6)
