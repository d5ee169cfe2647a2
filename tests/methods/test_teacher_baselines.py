"""Methods with teachers, views and contrastive losses, against slow references that share no code with them."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from sight import registry
from sight.methods.accup import contrastive_loss
from sight.methods.coa_har import masked_info_nce
from sight.methods.feature_memory import SeededGenerator
from sight.methods.gradient.augmentation import perturbed
from sight.methods.gradient.norms import learning
from sight.models.torch import TorchSource
from tests.helpers.networks import close, network_with, probabilities, source, trainable, windows


@pytest.fixture(scope="module")
def model() -> TorchSource:
    return source()


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return windows()[0]


# --- RoTTA ----------------------------------------------------------------------------------------------------------


def test_rotta_trains_the_student_and_the_teacher_follows(model, x):
    adapter = registry.method("rotta", memory=20, update_every=20, nu=0.25).bind(model)
    teacher, student = copy.deepcopy(adapter._teacher), copy.deepcopy(adapter._network)
    assert np.allclose(adapter.step(x[:20]), model.encode(x[:20])[1], atol=1e-5)
    held = adapter.memory_.size
    memory, age = adapter.memory_.windows[:held], adapter.memory_.age[:held]
    assert 5 <= held <= 20
    with torch.no_grad(), learning(teacher):
        target = torch.softmax(teacher(torch.from_numpy(memory)), dim=1)
    optimiser = torch.optim.Adam(trainable(student), lr=1e-3)
    with learning(student):
        log_p = torch.log_softmax(
            student(torch.from_numpy(perturbed(memory, SeededGenerator(0).generator, 1.0))), dim=1
        )
    loss = 0
    for i in range(held):
        weight = math.exp(-age[i] / 20) / (1 + math.exp(-age[i] / 20))
        loss = loss - weight * sum(target[i, k] * log_p[i, k] for k in range(5)) / held
    loss.backward()
    optimiser.step()
    assert close(adapter, student, atol=1e-5)
    for name, p in teacher.named_parameters():
        expected = 0.75 * p + 0.25 * dict(student.named_parameters())[name]
        assert torch.allclose(dict(adapter._teacher.named_parameters())[name], expected, atol=1e-6)


def test_rotta_predicts_with_its_teacher(model, x):
    adapter = registry.method("rotta", memory=16, update_every=16, batch=16, lr=0.5, nu=0.0, bn_stats="source").bind(
        model
    )
    for first in (0, 16, 32):
        batch = x[first : first + 16]
        assert np.allclose(adapter.step(batch), model.encode(batch)[1], atol=1e-5)
    assert not close(adapter, model.module(), atol=0.1)


# --- CoTTA ----------------------------------------------------------------------------------------------------------


def test_cotta_restores_the_given_share_of_weights(model, x):
    start = dict(model.module().named_parameters())
    shares = []
    for share in (0.0, 0.1, 1.0):
        adapter = registry.method("cotta", restore_share=share, confidence=0.0, lr=1e-2).bind(model)
        adapter.step(x[:32])
        restored = [(p == start[name]).float().sum().item() for name, p in adapter._trained.items()]
        shares.append(sum(restored) / sum(p.numel() for p in start.values()))
    assert shares[0] < 0.01
    assert shares[1] == pytest.approx(0.1, abs=0.01)
    assert shares[2] == 1


def test_cotta_teacher_is_the_running_mean_of_the_student(model, x):
    adapter = registry.method("cotta", restore_share=0.0, confidence=0.0, follow=0.2).bind(model)
    expected = {name: p.detach().clone() for name, p in model.module().named_parameters()}
    for first in (0, 32):
        adapter.step(x[first : first + 32])
        for name, p in adapter._trained.items():
            expected[name] = 0.8 * expected[name] + 0.2 * p.detach()
    teacher = dict(adapter._teacher.named_parameters())
    assert all(torch.allclose(teacher[name], value, atol=1e-6) for name, value in expected.items())


def test_cotta_averages_views_if_the_source_is_uncertain(model, x):
    network = network_with(model, "batch")
    certain = registry.method("cotta", confidence=0.0).bind(model)
    assert np.allclose(certain.step(x[:32]), probabilities(network, x[:32]), atol=1e-5)
    uncertain = registry.method("cotta", confidence=1.0, views=3).bind(model)
    rng, total = SeededGenerator(0).generator, 0
    for _ in range(3):
        with torch.no_grad():
            total = total + network(torch.from_numpy(perturbed(x[:32], rng, 1.0))) / 3
    assert np.allclose(uncertain.step(x[:32]), torch.softmax(total, dim=1).numpy(), atol=1e-5)


# --- ACCUP ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [[0, 1, 0, 2], [0, 0, 0, 0]])
def test_accup_loss_equals_the_double_loop(labels):
    views = np.random.default_rng(0).normal(size=(3, 4, 5))
    points = views.reshape(12, 5) / np.linalg.norm(views.reshape(12, 5), axis=1, keepdims=True)
    label, total = labels * 3, 0.0
    for i in range(12):
        others = [j for j in range(12) if j != i]
        all_together = math.log(sum(math.exp(points[i] @ points[j] / 0.7) for j in others))
        positives = [j for j in others if label[j] == label[i]]
        total -= sum(points[i] @ points[j] / 0.7 - all_together for j in positives) / len(positives) / 12
    loss = contrastive_loss(torch.tensor(views), torch.tensor(labels), 0.7)
    assert float(loss) == pytest.approx(total, rel=1e-6)


def test_accup_uses_the_more_certain_prediction(model, x):
    adapter = registry.method("accup", M=2, tau=20.0).bind(model)
    adapter.step(x[:32])
    z, _ = model.encode(x[32:64])
    logits = torch.tensor(z @ model.weight.T + model.bias) * torch.linspace(0.02, 3, 32)[:, None]
    q = adapter._ensemble(z, logits).numpy()
    centres = adapter.supports_.means()
    by_prototype = 0
    for i in range(32):
        cosines = [z[i] @ c / max(np.linalg.norm(z[i]) * np.linalg.norm(c), 1e-8) for c in centres]
        pair = [
            np.exp(s - np.max(s)) / np.exp(s - np.max(s)).sum() for s in (20 * np.array(cosines), logits[i].numpy())
        ]
        spread = [-(p * np.log(p)).sum() for p in pair]
        by_prototype += spread[0] < spread[1]
        assert np.allclose(q[i], pair[0] if spread[0] < spread[1] else pair[1], atol=1e-4)
    assert 0 < by_prototype < 32


def test_accup_trains_everything_except_the_head(model, x):
    adapter = registry.method("accup").bind(model)
    adapter.step(x[:32])
    start = dict(model.module().named_parameters())
    moved = {name for name, p in adapter._network.named_parameters() if not torch.equal(p, start[name])}
    assert moved == set(start) - {"head.weight", "head.bias"}


# --- COA-HAR --------------------------------------------------------------------------------------------------------


def test_coa_har_contrasts_with_enough_negatives_of_other_labels():
    rng = np.random.default_rng(0)
    unit = lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)  # noqa: E731
    query, key, queue = unit(rng.normal(size=(3, 6))), unit(rng.normal(size=(3, 6))), unit(rng.normal(size=(20, 6)))
    labels, queue_labels = np.array([0, 1, 2]), np.array([0] * 14 + [1] * 6)
    terms = []
    for i in range(3):
        negatives = [queue[j] for j in range(20) if queue_labels[j] != labels[i]]  # 6, 14 and 20 of them
        if len(negatives) >= 8:
            up = math.exp(query[i] @ key[i] / 0.07)
            terms.append(-math.log(up / (up + sum(math.exp(query[i] @ n / 0.07) for n in negatives))))
    assert len(terms) == 2
    tensors = [torch.tensor(a) for a in (query, key, queue)]
    allowed = torch.tensor(labels[:, None] != queue_labels)
    assert float(masked_info_nce(*tensors, allowed, 0.07)) == pytest.approx(np.mean(terms), rel=1e-6)
    assert float(masked_info_nce(*tensors, allowed & False, 0.07)) == 0


def test_coa_har_labels_by_the_mean_of_nearest_neighbours(model, x):
    adapter = registry.method("coa-har", memory=64, neighbours=3).bind(model)
    rng = np.random.default_rng(1)
    z, p = model.encode(x[:40])
    wrong = rng.permuted(p, axis=1)
    adapter.queue_.add(z / np.linalg.norm(z, axis=1, keepdims=True), wrong, np.zeros(40))
    found = adapter._pseudo_labels(torch.from_numpy(x[40:60]))
    for i, query in enumerate(model.encode(x[40:60])[0]):
        cosines = [query @ other / (np.linalg.norm(query) * np.linalg.norm(other)) for other in z]
        nearest = np.argsort(cosines)[-3:]
        assert int(found[i]) == wrong[nearest].mean(axis=0).argmax()


def test_coa_har_queues_after_the_loss_and_updates_the_chosen_parameters(model, x):
    for update, expected in (("norm", 6), ("all", 11)):
        adapter = registry.method("coa-har", update=update, update_every=16, memory=40).bind(model)
        adapter.step(x[:15])
        assert adapter.queue_.size == 0
        adapter.step(x[15:48])
        assert adapter.queue_.size == 40
        assert int(adapter.queue_.seen) == 48
        start = dict(model.module().named_parameters())
        assert sum(not torch.equal(p, start[name]) for name, p in adapter._network.named_parameters()) == expected


def test_coa_har_emits_before_or_after_its_update(model, x):
    before = registry.method("coa-har", update_every=16, lr=1e-2).bind(model).step(x[:16])
    after = registry.method("coa-har", update_every=16, lr=1e-2, emit="post").bind(model).step(x[:16])
    assert np.allclose(before, model.encode(x[:16])[1], atol=1e-5)
    assert np.allclose(after[:15], before[:15], atol=1e-5)
    assert np.abs(after[15] - before[15]).max() > 1e-4
