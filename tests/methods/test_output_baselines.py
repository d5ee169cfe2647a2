"""Gradient-free baselines against slow references, and on degenerate input."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

import sight
from sight.base import OutputAdapter
from sight.methods.lame import LAME, affinity, agree, energy
from sight.methods.oatta import OATTA
from sight.methods.t3a import T3A
from sight.models.given_features import FeatureSource
from sight.registry import get, method, names
from sight.testing import ToySource, toy_stream

OUTPUT_BASELINES = ("t3a", "lame", "oatta", "tca")


def stream(classes=5, n=120, dims=16, seed=0):
    source = ToySource(classes=classes, dims=dims, dtype="float64")
    z, p = source.encode(toy_stream(source, n=n, seed=seed).x)
    return source, z, p


def entropy_of(row):
    return -sum(v * np.log(v) for v in row if v > 0)


# --- T3A --------------------------------------------------------------------------------------------------------


def brute_force_t3a(source, z, p, m):
    """Store every support and sort all of them for each window."""
    seen = []
    for k in range(len(source.weight)):
        logits = source.weight @ source.weight[k] + source.bias
        row = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        seen.append((entropy_of(row), int(row.argmax()), source.weight[k]))
    scores = []
    for t in range(len(z)):
        seen.append((entropy_of(p[t]), int(p[t].argmax()), z[t]))
        directions = np.zeros_like(source.weight)
        for k in range(len(source.weight)):
            mine = sorted((item for item in seen if item[1] == k), key=lambda item: item[0])[:m]
            total = sum((f / np.linalg.norm(f) for _, _, f in mine), np.zeros(z.shape[1]))
            directions[k] = total / np.linalg.norm(total) if mine else 0
        scores.append(directions @ z[t])
    return np.array(scores)


@pytest.mark.parametrize("m", [1, 4, 200])
def test_t3a_supports_equal_a_brute_force_recomputation(m):
    source, z, p = stream()
    q = T3A(M=m).bind(source).refine(z, p)
    scores = brute_force_t3a(source, z, p, m)
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(q, expected, atol=1e-10)


def test_t3a_keeps_the_lowest_entropies_of_each_predicted_class():
    source, z, p = stream(n=300)
    adapter = T3A(M=5).bind(source)
    adapter.refine(z, p)
    own = p[p.argmax(axis=1) == 2]
    rows = np.exp(source.weight @ source.weight.T + source.bias)
    rows = rows / rows.sum(axis=1, keepdims=True)
    own = np.concatenate([own, rows[rows.argmax(axis=1) == 2]])
    expected = sorted(entropy_of(row) for row in own)[:5]
    np.testing.assert_allclose(sorted(adapter.supports_.entropy[2]), expected, atol=1e-12)


def test_t3a_stores_each_head_row_under_its_predicted_class():
    weight = np.array([[1.0, 0.0], [3.0, 0.1], [0.0, 1.0]])  # the first row is predicted as class 1
    adapter = T3A(M=4).bind(FeatureSource(weight))
    assert adapter.supports_.count.tolist() == [0, 2, 1]
    q = adapter.refine(np.array([[0.0, 1.0]]), np.array([[0.1, 0.1, 0.8]]))
    assert q[0].argmax() == 2
    assert q[0, 0] < q[0, 2]


def test_t3a_reports_the_bytes_of_its_state():
    source, z, p = stream()
    adapter = T3A(M=4).bind(source)
    adapter.refine(z, p)
    assert sum(adapter.state_bytes().values()) == sum(array.nbytes for array in adapter.state().values())


# --- LAME -------------------------------------------------------------------------------------------------------


def slow_affinity(z, neighbours):
    f = z / np.linalg.norm(z, axis=1, keepdims=True)
    distance = np.array([[np.linalg.norm(a - b) for b in f] for a in f])
    width = np.mean([sorted(row)[min(neighbours, len(f)) - 1] for row in distance])
    return np.exp(-(distance**2) / (2 * width**2))


def test_lame_reaches_its_fixed_point():
    source, z, p = stream(n=32)
    q = LAME(batch=32, iterations=5000, tolerance=0).bind(source).refine(z, p)
    kernel = slow_affinity(z, 5)
    logits = np.log(p + 1e-10) + kernel @ q
    once_more = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(q, once_more / once_more.sum(axis=1, keepdims=True), atol=1e-6)
    assert np.abs(q - p).max() > 0.01


def test_lame_lowers_its_energy_at_every_update():
    _, z, p = stream(n=32)
    kernel = slow_affinity(z, 5)

    def slow_energy(y):
        divergence = sum(y[i, k] * np.log(y[i, k] / (p[i, k] + 1e-10)) for i in range(32) for k in range(5))
        return divergence - 0.5 * sum(kernel[i, j] * y[i] @ y[j] for i in range(32) for j in range(32))

    energies = [slow_energy(agree(p, kernel, iterations=n, tolerance=0)) for n in range(1, 12)]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(energies))
    assert energies[-1] < slow_energy(p)
    last = agree(p, kernel, iterations=11, tolerance=0)
    assert energy(last, p, kernel) == pytest.approx(energies[-1])


def test_lame_kernels():
    _, z, _ = stream(n=20)
    f = z / np.linalg.norm(z, axis=1, keepdims=True)
    np.testing.assert_allclose(affinity(f, "rbf", 5), slow_affinity(z, 5), atol=1e-7)
    np.testing.assert_allclose(affinity(f, "linear", 5), f @ f.T)
    graph = affinity(f, "knn", 3)
    assert (graph.sum(axis=1) == 3).all()
    assert (np.diag(graph) == 0).all()
    for i in range(20):
        near = sorted((j for j in range(20) if j != i), key=lambda j: np.linalg.norm(f[i] - f[j]))[:3]
        assert sorted(np.flatnonzero(graph[i])) == sorted(near)


def test_lame_stream_returns_the_newest_row_of_a_sliding_buffer():
    source, z, p = stream(n=50)
    q = LAME(rule="stream", batch=8).bind(source).refine(z, p)
    for t in (0, 3, 7, 8, 30, 49):
        first = max(0, t - 7)
        whole = LAME(batch=8).bind(source).refine(z[first : t + 1], p[first : t + 1])
        np.testing.assert_allclose(q[t], whole[-1], atol=1e-12)


@pytest.mark.parametrize("rows", [1, 3])
def test_lame_of_equal_windows_is_defined(rows):
    """The width of rbf is 0 here, where the authors' formula is 0 / 0."""
    z, p = np.tile([[1.0, 2.0, 3.0]], (rows, 1)), np.tile([[0.6, 0.4]], (rows, 1))
    q = method("lame", tolerance=0.0).bind(FeatureSource(np.eye(2, 3))).refine(z, p)
    fixed = p[0]
    for _ in range(200):
        fixed = np.exp(np.log(p[0]) + rows * fixed)
        fixed /= fixed.sum()
    np.testing.assert_allclose(q, np.tile(fixed, (rows, 1)), atol=1e-9)
    assert q[0, 0] > 0.6
    lone = method("lame", kernel="knn").bind(FeatureSource(np.eye(2, 3))).refine(z[:1], p[:1])
    np.testing.assert_allclose(lone, p[:1], atol=1e-9)


def test_lame_keeps_the_class_of_a_single_window_and_a_gap_empties_the_buffer():
    source, z, p = stream(n=40)
    alone = LAME(batch=1).bind(source).refine(z, p)
    assert (alone.argmax(axis=1) == p.argmax(axis=1)).all()
    sliding = LAME(rule="stream").bind(source)
    sliding.refine(z[:20], p[:20])
    sliding.gap(60)
    np.testing.assert_array_equal(sliding.refine(z[20:], p[20:]), sliding.clone().refine(z[20:], p[20:]))


# --- OATTA ------------------------------------------------------------------------------------------------------


def hmm_forward(p, transitions, first):
    """Return the posterior of the present state by explicit sums over previous states."""
    alpha, rows = first.copy(), [first.copy()]
    for t in range(1, len(p)):
        alpha = np.array(
            [p[t, j] * sum(alpha[i] * transitions[i, j] for i in range(len(first))) for j in range(len(first))]
        )
        alpha = alpha / alpha.sum()
        rows.append(alpha)
    return np.array(rows)


def test_oatta_with_fixed_transitions_is_the_forward_algorithm():
    source, _, p = stream(n=60)
    adapter = OATTA(s=0.8, e=0.0, th=-np.inf).bind(source)
    q = adapter.refine(np.zeros((60, 16)), p)
    np.testing.assert_allclose(q, hmm_forward(p, adapter.transitions(), p[0]), atol=1e-10)


def test_oatta_learns_from_the_two_slice_posterior():
    source, _, p = stream(n=2)
    adapter = OATTA(s=0.5, e=0.1, c0=2.0).bind(source)
    a = adapter.transitions()
    adapter.refine(np.zeros((2, 16)), p)
    pairs = np.array([[p[0, i] * a[i, j] * p[1, j] for j in range(5)] for i in range(5)])
    before = 2.0 * (0.5 * np.eye(5) + 0.1)
    np.testing.assert_allclose(adapter.counts_, 0.9 * before + 0.1 * pairs / pairs.sum(), atol=1e-12)


def test_oatta_gate_returns_raw_probabilities_without_evidence_for_order():
    source, z, p = stream(n=100)
    uniform = OATTA(s=0.0, e=0.0, th=1e-9).bind(source)
    np.testing.assert_array_equal(uniform.refine(z, p), p)
    # Transitions that contradict every next window: the evidence becomes negative and the gate closes.
    flips = np.where(np.arange(100)[:, None] % 2 == np.arange(5) % 2, 0.3, 0.05)
    flips = flips / flips.sum(axis=1, keepdims=True)
    contradicted = OATTA(s=0.95, e=0.0).bind(source)
    np.testing.assert_array_equal(contradicted.refine(z, flips), flips)
    assert contradicted.diagnostics()["evidence"] < 0
    assert contradicted.diagnostics()["gate"] == 0


def test_oatta_gate_opens_on_a_persistent_stream_and_learns_to_stay():
    source = FeatureSource(np.eye(3, 4))
    label = np.repeat(np.arange(9) % 3, 40)
    p = np.full((360, 3), 0.2)
    p[np.arange(360), label] = 0.6
    p[::10] = 1 / 3
    adapter = OATTA().bind(source)
    q = adapter.refine(np.ones((360, 4)), p)
    assert adapter.trace()["gate"][100:].mean() > 0.9
    assert adapter.transitions()[2, 2] > 0.6
    unsure = np.arange(100, 360)[(np.arange(100, 360) % 10 == 0) & (np.arange(100, 360) % 40 != 0)]
    assert (q[unsure].argmax(axis=1) == label[unsure]).all()


# --- all of them, degenerate input -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OUTPUT_BASELINES)
def test_zero_features_and_certain_predictions(name):
    weight = np.random.default_rng(0).normal(size=(4, 100)).astype("float32")
    certain = np.eye(4, dtype="float32")[np.zeros(70, int)]
    q = sight.refine(np.zeros((70, 100), "float32"), certain, weight, method=name)
    assert np.isfinite(q).all()
    alternating = np.eye(4, dtype="float32")[np.arange(70) % 4]
    q = sight.refine(np.ones((70, 100), "float32"), alternating, weight, method=name)
    assert np.isfinite(q).all()
    np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("t3a", {"M": -1}),
        ("lame", {"rule": "sliding"}),
        ("lame", {"kernel": "cubic"}),
        ("lame", {"batch": 0}),
        ("oatta", {"e": 1.5}),
        ("oatta", {"carry": "nothing"}),
        ("tca", {"fit": "magic"}),
        ("tca", {"dims": 0}),
    ],
)
def test_invalid_fields_are_refused(name, fields):
    key = next(iter(fields))
    with pytest.raises(ValueError, match=f"{name}: expected .*{key}"):
        method(name, **fields)


@pytest.mark.parametrize("name", ["ema", "sticky", "sticky-learned", "oatta"])
def test_a_state_starts_without_belief_and_counts_windows(name):
    source, z, p = stream(n=7)
    adapter = method(name).bind(source)
    np.testing.assert_allclose(adapter.state()["belief"], 1 / 5)
    assert adapter.state()["count"] == 0
    adapter.refine(z, p)
    assert adapter.state()["count"] == 7


@pytest.mark.parametrize("name", ["ema", "sticky-learned", "oatta", "t3a", "tca", "sight", "keel"])
def test_the_declared_size_of_a_state_is_exact_in_float64(name):
    source, z, p = stream()
    adapter = method(name).bind(source)
    adapter.refine(z, p)
    assert method(name).max_state_bytes(source) == sum(array.nbytes for array in adapter.state().values())


def test_methods_without_public_code_are_marked():
    assert {name for name in names("methods") if get("methods", name).needs.completed} == {"coa-har", "oatta"}


def test_methods_on_features_and_the_checks_do_not_import_torch():
    on_features = [name for name in names("methods") if issubclass(get("methods", name), OutputAdapter)]
    assert {"keel", "sight", *OUTPUT_BASELINES} <= set(on_features)
    code = (
        "import sys, sight.checks\n"
        "from sight.registry import get, method\n"
        f"for name in {on_features}: sight.checks.CHECKS['probabilities'](sight.checks.Case(adapter=method(name)))\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
