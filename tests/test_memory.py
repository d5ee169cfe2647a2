"""Memories keep what their rule selects, and can be saved and restored."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sight.methods.feature_memory import FeatureQueue, SeededGenerator, Supports
from sight.methods.gradient.window_memory import BalancedReservoir, Fifo, TimelyMemory


def marked(value: int) -> np.ndarray:
    return np.full((1, 2), value, np.float32)


def marks(memory) -> list[int]:
    return sorted(int(window[0, 0]) for window in memory.windows[: memory.size])


def test_supports_keep_the_lowest_entropies_of_each_class():
    rng = np.random.default_rng(0)
    supports = Supports(classes=3, per_class=4, dims=5)
    offered = [(rng.normal(size=5).astype(np.float32), int(rng.integers(3)), float(rng.random())) for _ in range(60)]
    for feature, label, entropy in offered:
        supports.add(feature, label, entropy)
    for k in range(3):
        best = sorted((item for item in offered if item[1] == k), key=lambda item: item[2])[:4]
        held = np.sort(supports.entropy[k])
        assert np.allclose(held, [np.float32(item[2]) for item in best])
        assert np.allclose(supports.means()[k], np.mean([item[0] for item in best], axis=0), atol=1e-6)
        total = sum(item[0] / np.linalg.norm(item[0]) for item in best)
        assert np.allclose(supports.directions()[k], total / np.linalg.norm(total), atol=1e-6)


def test_supports_of_an_empty_class_are_zero():
    supports = Supports(classes=2, per_class=3, dims=4)
    supports.add(np.ones(4), label=1, entropy=0.1)
    assert not supports.means()[0].any()
    assert not supports.directions()[0].any()
    with pytest.raises(ValueError, match="at least 1 support"):
        Supports(classes=2, per_class=0, dims=4)


def test_fifo_returns_the_latest_in_time_order():
    fifo = Fifo(capacity=3, shape=(1, 2))
    for value in range(5):
        fifo.add(marked(value))
        expected = list(range(max(0, value - 2), value + 1))
        assert fifo.latest(3)[:, 0, 0].tolist() == expected
    assert fifo.latest(2)[:, 0, 0].tolist() == [3, 4]


def test_memories_take_their_shape_from_the_first_window():
    fifo = Fifo(capacity=3)
    fifo.add(marked(1))
    assert fifo.windows.shape == (3, 1, 2)
    with pytest.raises(ValueError, match=r"\(1, 2\) as before, got \(2, 2\)"):
        fifo.add(np.zeros((2, 2)))


def test_balanced_reservoir_balances_a_skewed_stream():
    rng = np.random.default_rng(0)
    memory = BalancedReservoir(capacity=12, shape=(1, 2), classes=3)
    labels = np.repeat([0, 1, 2], [200, 30, 4])
    for value, label in enumerate(labels):
        memory.add(marked(value), int(label), rng)
    assert memory.held.tolist() == [4, 4, 4]
    assert memory.seen.tolist() == [200, 30, 4]
    assert all(
        labels[mark] == label for mark, label in zip(memory.windows[:, 0, 0].astype(int), memory.labels, strict=True)
    )


def test_balanced_reservoir_evicts_only_from_a_largest_class():
    rng = np.random.default_rng(1)
    memory = BalancedReservoir(capacity=9, shape=(1, 2), classes=4)
    for value in range(400):
        label = int(rng.choice(4, p=[0.6, 0.2, 0.15, 0.05]))
        before = memory.held
        full = memory.size == 9
        kept = memory.add(marked(value), label, rng)
        change = memory.held - before
        if full and before[label] < before.max():
            assert kept
            assert change[label] == 1
            loser = int(np.argmin(change))
            assert change[loser] == -1
            assert before[loser] == before.max()
        elif full:
            assert not change.any()


def test_balanced_reservoir_is_a_uniform_sample_over_time():
    length, capacity, trials = 20, 5, 1000
    hits = np.zeros(length)
    rng = np.random.default_rng(2)
    for _ in range(trials):
        memory = BalancedReservoir(capacity=capacity, shape=(1, 2), classes=2)
        for value in range(length):
            memory.add(marked(value), 0, rng)
        hits[marks(memory)] += 1
    expected = trials * capacity / length
    deviation = math.sqrt(expected * (1 - capacity / length))
    assert np.abs(hits - expected).max() < 4 * deviation


def slow_timely(stream: list[tuple[int, int, float]], capacity: int, classes: int) -> list[int]:
    """Apply the rule with plain lists; items are [mark, label, uncertainty, age]."""
    items: list[list[float]] = []

    def score(age: float, uncertainty: float) -> float:
        return 1 / (1 + math.exp(-age / capacity)) + uncertainty / math.log(classes)

    for mark, label, uncertainty in stream:
        counts = [sum(item[1] == k for item in items) for k in range(classes)]
        if counts[label] < capacity / classes and len(items) < capacity:
            items.append([mark, label, uncertainty, 0])
        else:
            if counts[label] < capacity / classes:
                crowd = [k for k in range(classes) if counts[k] == max(counts)]
            else:
                crowd = [label]
            worst = max((item for item in items if item[1] in crowd), key=lambda item: score(item[3], item[2]))
            if score(worst[3], worst[2]) > score(0, uncertainty):
                items.remove(worst)
                items.append([mark, label, uncertainty, 0])
        for item in items:
            item[3] += 1
    return sorted(int(item[0]) for item in items)


@pytest.mark.parametrize(("capacity", "classes"), [(6, 3), (8, 5), (4, 2)])
def test_timely_memory_equals_the_slow_rule(capacity, classes):
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.ones(classes) * 0.5)
    stream = [(t, int(rng.choice(classes, p=shares)), float(rng.random() * math.log(classes))) for t in range(150)]
    memory = TimelyMemory(capacity, (1, 2), classes)
    for t, (mark, label, uncertainty) in enumerate(stream):
        memory.add(marked(mark), label, uncertainty)
        assert marks(memory) == slow_timely(stream[: t + 1], capacity, classes)


def test_timely_memory_evicts_the_oldest_of_equally_certain_items():
    memory = TimelyMemory(4, (1, 2), classes=2)
    for value in range(3):
        memory.add(marked(value), label=0, uncertainty=0.3)
    # Class 0 has its share of two, so the third replaced the first.
    assert marks(memory) == [1, 2]
    assert not memory.add(marked(9), label=0, uncertainty=0.69)
    assert marks(memory) == [1, 2]


def test_feature_queue_replaces_the_oldest():
    queue = FeatureQueue(capacity=3, dims=1, classes=2)
    for value in range(5):
        queue.add(np.full((1, 1), value), np.eye(2)[[value % 2]], np.array([value % 2]))
    assert sorted(queue.features.ravel().tolist()) == [2, 3, 4]
    assert queue.size == 3
    assert all(int(f) % 2 == label for f, label in zip(queue.features.ravel(), queue.labels, strict=True))


def test_a_generator_continues_where_it_was_saved():
    first, other = SeededGenerator(5), SeededGenerator(6)
    first.generator.random(7)
    first.generator.integers(10, size=3, dtype=np.uint32)
    other.restore(first.state())
    assert (other.generator.random(4) == first.generator.random(4)).all()
    drawn = [item.generator.integers(9, size=4, dtype=np.uint32) for item in (first, other)]
    assert (drawn[0] == drawn[1]).all()


def test_memories_can_be_restored():
    memory = TimelyMemory(4, None, classes=2)
    fresh = TimelyMemory(4, None, classes=2)
    for value in range(6):
        memory.add(marked(value), value % 2, 0.1 * value)
    fresh.restore(memory.state())
    memory.add(marked(7), 1, 0.0)
    fresh.add(marked(7), 1, 0.0)
    assert all((memory.state()[name] == fresh.state()[name]).all() for name in memory.state())
