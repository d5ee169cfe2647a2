"""SIGHT against the authors' code and the paper's equations, and the effect of its fields."""

from __future__ import annotations

import numpy as np
import pytest

import sight
from sight.models.given_features import FeatureSource
from sight.testing import ToySource, toy_stream
from tests.helpers.transcription import sight_as_printed

GOLDEN = ("toy_class_defaults", "toy_large_norm", "toy_saturated", "toy_small_norm", "hapt_stream")
RATES = ("eta_mu", "omega_mu", "beta", "eta_h", "tau")


def toy(saturation=1.0, n=300, classes=5, dims=24, seed=0):
    source = ToySource(classes=classes, dims=dims, seed=seed, dtype="float64")
    z, _ = source.encode(toy_stream(source, n=n, seed=seed + 1).x)
    logits = saturation * (z @ source.weight.T + source.bias)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return z, p / p.sum(axis=1, keepdims=True), source.weight


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4)])
@pytest.mark.parametrize("name", GOLDEN)
def test_authors_variant_agrees_with_the_authors_code(golden, name, dtype, tolerance):
    stored = np.load(golden(f"official_sight_{name}.npz"))
    adapter = sight.method("sight", variant="authors", **{key: float(stored[key]) for key in RATES})
    adapter.bind(FeatureSource(stored["weight"].astype(dtype)))
    q = adapter.refine(stored["z"], stored["p"])
    assert q.dtype == dtype
    np.testing.assert_allclose(q, stored["q"], rtol=0, atol=tolerance)
    np.testing.assert_array_equal(q.argmax(axis=1), stored["q"].argmax(axis=1))
    np.testing.assert_allclose(adapter.class_prototypes(), stored["final_prototypes"], rtol=0, atol=tolerance)
    np.testing.assert_allclose(adapter.class_frequencies(), stored["final_habit"], rtol=0, atol=tolerance)


def test_the_preset_of_the_authors_is_their_program(golden):
    stored = np.load(golden("official_sight_hapt_stream.npz"))
    adapter = sight.method("sight", "authors")
    assert {key: adapter.params()[key] for key in RATES} == {key: float(stored[key]) for key in RATES}
    source, half = FeatureSource(stored["weight"].astype(np.float64)), len(stored["z"]) // 2
    adapter.bind(source)
    first = adapter.refine(stored["z"][:half], stored["p"][:half])
    adapter.gap(3600.0)  # their code has no rule for gaps
    q = np.concatenate([first, adapter.refine(stored["z"][half:], stored["p"][half:])])
    np.testing.assert_allclose(q, stored["q"], rtol=0, atol=1e-6)
    assert sight.method("sight", "authors", variant="paper").variant == "paper"  # explicit values override
    by_equations = sight.method("sight").bind(source).refine(stored["z"], stored["p"])
    assert (by_equations.argmax(axis=1) != stored["q"].argmax(axis=1)).any()


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4)])
@pytest.mark.parametrize("saturation", [1.0, 6.0, 40.0])
def test_paper_variant_agrees_with_the_printed_equations(dtype, tolerance, saturation):
    z, p, weight = toy(saturation, n=150)
    _agrees_with_print(z.astype(dtype), p.astype(dtype), weight.astype(dtype), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4)])
def test_paper_variant_agrees_with_the_printed_equations_on_a_real_stream(golden, dtype, tolerance):
    stored = np.load(golden("official_sight_hapt_stream.npz"))
    _agrees_with_print(stored["z"][:400], stored["p"][:400].astype(dtype), stored["weight"].astype(dtype), tolerance)


def _agrees_with_print(z, p, weight, tolerance):
    adapter = sight.method("sight").bind(FeatureSource(weight))
    q = adapter.refine(z, p)
    printed, surprise, prototypes, habit = sight_as_printed(z, p, weight)
    np.testing.assert_allclose(q, printed, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(q.argmax(axis=1), printed.argmax(axis=1))
    np.testing.assert_allclose(adapter.trace()["surprise"], surprise, rtol=0, atol=tolerance)
    np.testing.assert_allclose(adapter.class_prototypes(), prototypes, rtol=0, atol=tolerance)
    np.testing.assert_allclose(adapter.class_frequencies(), habit, rtol=0, atol=tolerance)


def test_fields_reach_the_printed_equations():
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
def test_each_ablation_changes_the_predictions(variant, ablation):
    z, p, weight = toy()
    full = sight.refine(10 * z, p, weight, method="sight", variant=variant)
    without = sight.refine(10 * z, p, weight, method="sight", variant=variant, **ablation)
    assert np.abs(full - without).max() > 1e-6
    np.testing.assert_allclose(without.sum(axis=1), 1, atol=1e-9)


def test_ablations_do_what_the_docstring_says():
    z, p, weight = toy()
    off = sight.method("sight", surprise="off").bind(FeatureSource(weight))
    off.refine(z, p)
    assert set(off.trace()["surprise"][1:]) == {0.5}
    frozen = sight.method("sight", prototypes="off").bind(FeatureSource(weight))
    start = frozen.class_prototypes().copy()
    frozen.refine(z, p)
    np.testing.assert_array_equal(frozen.class_prototypes(), start)
    far = sight.method("sight", surprise="distance").bind(FeatureSource(weight))
    far.refine(-z, p)
    assert far.trace()["surprise"].max() == 1
    hard = sight.method("sight", prototypes="hard", omega_mu=0.0).bind(FeatureSource(weight))
    before = hard.class_prototypes().copy()
    predicted = hard.refine(z[:1], p[:1]).argmax()
    moved = np.abs(hard.class_prototypes() - before).max(axis=1) > 1e-12
    assert moved.tolist() == [k == predicted for k in range(5)]


def test_a_gap_relaxes_the_belief_and_nothing_else():
    z, p, weight = toy(saturation=6)
    adapter = sight.method("sight", gap_half_life_s=30.0).bind(FeatureSource(weight))
    adapter.gap(100.0)
    np.testing.assert_array_equal(adapter.state()["belief"], 0.2)
    adapter.refine(z[:50], p[:50])
    before = adapter.state()
    adapter.gap(60.0)
    after = adapter.state()
    np.testing.assert_allclose(after.pop("belief"), 0.2 + (before["belief"] - 0.2) / 4)
    assert after["count"] == 50
    for name, value in after.items():
        np.testing.assert_array_equal(value, before[name])


def test_refine_reports_gaps_to_the_method():
    z, p, weight = toy(saturation=0.3)
    gaps = np.zeros(len(p))
    gaps[[100, 200]] = 1e6
    with_gaps = sight.refine(z, p, weight, method="sight", gap_before_s=gaps)
    plain = sight.refine(z, p, weight, method="sight")
    np.testing.assert_array_equal(with_gaps[:100], plain[:100])
    assert np.abs(with_gaps[100:] - plain[100:]).max() > 1e-6
    kept = sight.refine(z, p, weight, method="sight", gap_before_s=gaps, gap_half_life_s=None)
    np.testing.assert_array_equal(kept, plain)


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
def test_invalid_fields_are_refused(field, value):
    with pytest.raises(ValueError, match=f"sight: expected .*{field}.* got "):
        sight.method("sight", **{field: value})


def test_state_bytes_equal_the_papers_figures():
    for classes, kilobytes in ((5, 80.0), (4, 64.0)):
        source = FeatureSource(np.random.default_rng(0).normal(size=(classes, 2048)).astype(np.float32))
        total = sum(sight.method("sight").bind(source).state_bytes().values())
        assert round(total / 1024, 1) == kilobytes


def test_the_evidence_is_returned_if_its_product_with_the_prior_vanishes():
    weight = np.eye(3, 4)
    p = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    q = sight.refine(np.eye(4)[[0, 2]], p, weight, method="sight", surprise=0.0)
    np.testing.assert_array_equal(q, p)
