"""SIGHT against the authors' code, against the paper's equations, and against its own promises."""

from __future__ import annotations

import numpy as np
import pytest

import sight
from sight.sources import FeatureSource
from sight.testing import ToySource, toy_stream
from tests.helpers.transcription import sight_as_printed

GOLDEN = ("toy_class_defaults", "toy_large_norm", "toy_saturated", "toy_small_norm", "hapt_stream")
SETTINGS = ("eta_mu", "omega_mu", "beta", "eta_h", "tau")


def toy(saturation=1.0, n=300, classes=5, dims=24, seed=0):
    source = ToySource(classes=classes, dims=dims, seed=seed, dtype="float64")
    z, _ = source.encode(toy_stream(source, n=n, seed=seed + 1).x)
    logits = saturation * (z @ source.weight.T + source.bias)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return z, p / p.sum(axis=1, keepdims=True), source.weight


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4)])
@pytest.mark.parametrize("name", GOLDEN)
def test_authors_variant_answers_as_the_authors_code(golden, name, dtype, tolerance):
    stored = np.load(golden(f"official_sight_{name}.npz"))
    adapter = sight.method("sight", variant="authors", **{key: float(stored[key]) for key in SETTINGS})
    adapter.bind(FeatureSource(stored["weight"].astype(dtype)))
    q = adapter.refine(stored["z"], stored["p"])
    assert q.dtype == dtype
    np.testing.assert_allclose(q, stored["q"], rtol=0, atol=tolerance)
    np.testing.assert_array_equal(q.argmax(axis=1), stored["q"].argmax(axis=1))
    np.testing.assert_allclose(adapter.prototypes_, stored["final_prototypes"], rtol=0, atol=tolerance)
    np.testing.assert_allclose(adapter.habit_, stored["final_habit"], rtol=0, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4)])
@pytest.mark.parametrize("saturation", [1.0, 6.0, 40.0])
def test_paper_variant_is_the_printed_equations(dtype, tolerance, saturation):
    z, p, weight = toy(saturation)
    _agrees_with_print(z.astype(dtype), p.astype(dtype), weight.astype(dtype), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4)])
def test_paper_variant_is_the_printed_equations_on_a_real_stream(golden, dtype, tolerance):
    stored = np.load(golden("official_sight_hapt_stream.npz"))
    _agrees_with_print(stored["z"], stored["p"].astype(dtype), stored["weight"].astype(dtype), tolerance)


def _agrees_with_print(z, p, weight, tolerance):
    adapter = sight.method("sight").bind(FeatureSource(weight))
    q = adapter.refine(z, p)
    printed, surprise, prototypes, habit = sight_as_printed(z, p, weight)
    np.testing.assert_allclose(q, printed, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(q.argmax(axis=1), printed.argmax(axis=1))
    np.testing.assert_allclose(adapter.trace()["surprise"], surprise, rtol=0, atol=tolerance)
    np.testing.assert_allclose(adapter.prototypes_, prototypes, rtol=0, atol=tolerance)
    np.testing.assert_allclose(adapter.habit_, habit, rtol=0, atol=tolerance)


def test_settings_reach_the_printed_equations():
    z, p, weight = toy()
    changed = {"beta": 3.0, "tau": 0.2, "eta_mu": 0.02, "eta_h": 0.2, "omega_mu": 0.1}
    printed = sight_as_printed(z, p, weight, **changed)[0]
    np.testing.assert_allclose(sight.refine(z, p, weight, method="sight", **changed), printed, rtol=0, atol=1e-6)
    assert np.abs(printed - sight_as_printed(z, p, weight)[0]).max() > 0.01


@pytest.mark.parametrize("variant", ["paper", "authors"])
@pytest.mark.parametrize(
    "ablation",
    [
        {"surprise": "distance"},
        {"surprise": "off"},
        {"surprise": 0.3},
        {"routing": False},
        {"habit": "raw"},
        {"habit": "off"},
        {"prototypes": "hard"},
        {"prototypes": "off"},
        {"omega_mu": 0.0},
    ],
)
def test_each_ablation_changes_the_answers_and_keeps_them_probabilities(variant, ablation):
    z, p, weight = toy()
    full = sight.refine(10 * z, p, weight, method="sight", variant=variant)
    without = sight.refine(10 * z, p, weight, method="sight", variant=variant, **ablation)
    assert np.abs(full - without).max() > 1e-6
    np.testing.assert_allclose(without.sum(axis=1), 1, atol=1e-9)


def test_ablations_mean_what_the_docs_say():
    z, p, weight = toy()
    off = sight.method("sight", surprise="off").bind(FeatureSource(weight))
    off.refine(z, p)
    assert set(off.trace()["surprise"][1:]) == {0.5}
    frozen = sight.method("sight", prototypes="off").bind(FeatureSource(weight))
    start = frozen.prototypes_.copy()
    frozen.refine(z, p)
    np.testing.assert_array_equal(frozen.prototypes_, start)
    far = sight.method("sight", surprise="distance").bind(FeatureSource(weight))
    far.refine(-z, p)
    assert far.trace()["surprise"].max() == 1
    hard = sight.method("sight", prototypes="hard", omega_mu=0.0).bind(FeatureSource(weight))
    before = hard.prototypes_.copy()
    answered = hard.refine(z[:1], p[:1]).argmax()
    moved = np.abs(hard.prototypes_ - before).max(axis=1) > 1e-12
    assert moved.tolist() == [k == answered for k in range(5)]


def test_a_gap_relaxes_the_belief_and_keeps_knowledge():
    z, p, weight = toy(saturation=6)
    adapter = sight.method("sight", gap_half_life_s=30.0).bind(FeatureSource(weight))
    adapter.gap(100.0)
    np.testing.assert_array_equal(adapter.belief_, 0.2)
    adapter.refine(z[:50], p[:50])
    belief, habit, prototypes = adapter.belief_.copy(), adapter.habit_.copy(), adapter.prototypes_.copy()
    adapter.gap(60.0)
    np.testing.assert_allclose(adapter.belief_, 0.2 + (belief - 0.2) / 4)
    np.testing.assert_array_equal(adapter.habit_, habit)
    np.testing.assert_array_equal(adapter.prototypes_, prototypes)
    assert adapter.count_ == 50


def test_gaps_given_to_refine_reach_the_method():
    z, p, weight = toy(saturation=0.3)
    gaps = np.zeros(len(p))
    gaps[[100, 200]] = 1e6
    with_gaps = sight.refine(z, p, weight, method="sight", gap_before_s=gaps)
    plain = sight.refine(z, p, weight, method="sight")
    np.testing.assert_array_equal(with_gaps[:100], plain[:100])
    assert np.abs(with_gaps[100:] - plain[100:]).max() > 1e-6
    deaf = sight.refine(z, p, weight, method="sight", gap_before_s=gaps, gap_half_life_s=None)
    np.testing.assert_array_equal(deaf, plain)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("variant", "code"),
        ("beta", -1),
        ("tau", 0),
        ("eta_mu", 1.5),
        ("omega_mu", -0.1),
        ("surprise", "loud"),
        ("surprise", 2.0),
        ("habit", "log"),
        ("prototypes", "firm"),
        ("gap_half_life_s", 0),
        ("eps", 0),
        ("tau", float("nan")),
    ],
)
def test_impossible_settings_are_refused_by_name(field, value):
    with pytest.raises(ValueError, match=field if field != "surprise" else "surprise"):
        sight.method("sight", **{field: value})


def test_memory_is_the_papers_sum():
    for classes, kilobytes in ((5, 80.0), (4, 64.0)):
        source = FeatureSource(np.random.default_rng(0).normal(size=(classes, 2048)).astype(np.float32))
        total = sum(sight.method("sight").bind(source).state_bytes().values())
        assert round(total / 1024, 1) == kilobytes


def test_evidence_and_prior_that_exclude_each_other_leave_the_evidence():
    weight = np.eye(3, 4)
    p = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    q = sight.refine(np.eye(4)[[0, 2]], p, weight, method="sight", surprise=0.0)
    np.testing.assert_array_equal(q, p)
