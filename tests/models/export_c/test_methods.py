"""Methods in C predict what their adapters predict, through gaps and on long streams, and exchange states with them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from benchmarks.device.host_library import Library

from sight.models.export.c import export_c
from sight.models.export.c.methods import METHODS
from sight.models.export.c.state_bytes import pack_state, unpack_state
from sight.models.given_features import FeatureSource, ProbabilitySource
from sight.registry import method
from sight.testing import ToySource, toy_stream

VARIANTS = [
    ("keel", {}),
    ("keel", {"surprise": 0.0, "rate": 0.0, "prototypes": 0.0, "penalty": 0.2}),
    ("keel", {"temper": 1.0, "align": 0.0, "debias": 0.0, "patience": 3.0, "gap_half_life_s": None}),
    ("sight", {}),
    ("sight", {"variant": "authors", "beta": 3.0}),
    ("sight", {"surprise": "distance", "habit": "raw", "prototypes": "hard"}),
    ("sight", {"surprise": 0.3, "routing": False, "habit": "off", "prototypes": "off", "omega_mu": 0.0}),
    ("sticky", {"s": 0.8}),
    ("sticky-learned", {"rate": 0.1}),
    ("ema", {"a": 0.6}),
]


@pytest.fixture(scope="module")
def toy():
    """Return a source with statistics, and features and probabilities of a wearer whose windows are hard to tell."""
    source = ToySource()
    return source, *source.encode(toy_stream(source, n=600, noise=3.0, seed=4).x)


def library(folder, source, adapter):
    return Library(export_c(source, folder / "c", method=adapter, encoder=False))


def test_every_method_in_c_is_tested():
    assert {name for name, _ in VARIANTS} == set(METHODS)


@pytest.mark.parametrize(("name", "fields"), VARIANTS, ids=str)
def test_c_agrees_with_the_adapter_through_gaps(tmp_path, toy, name, fields, monkeypatch):
    monkeypatch.setenv("SIGHT_KERNEL", "numpy")  # numba would be compiled for float64
    source, z, p = toy
    exact_source = ToySource(dtype="float64")
    exact_source.weight, exact_source.bias = (array.astype(np.float64) for array in (source.weight, source.bias))
    adapter, exact = method(name, **fields).bind(source), method(name, **fields).bind(exact_source)
    c = library(tmp_path, source, adapter)
    gaps, rows = np.where(np.arange(len(p)) % 97 == 50, 40.0, 0.0), []
    gaps[[0, 200]] = 5.0, 1e6
    for t in range(len(p)):
        adapter.gap(gaps[t])
        exact.gap(gaps[t])
        assert c.gap(gaps[t])
        window = z[t : t + 1], p[t : t + 1]
        rows.append((c.step(z[t], p[t]), adapter.refine(*window)[0], exact.refine(*map(np.float64, window))[0]))
    q, expected, reference = (np.array(column) for column in zip(*rows, strict=True))
    np.testing.assert_array_equal(q.argmax(axis=1), expected.argmax(axis=1))
    # Two of SIGHT's ablations amplify the rounding of float32, in Python as in C.
    rounding = np.abs(expected - reference).max()
    assert np.abs(q - expected).max() <= max(1e-5, 2 * rounding)
    assert rounding < 1e-6 or name == "sight"


@pytest.mark.parametrize("name", METHODS)
def test_a_state_moves_from_python_to_c_and_back(tmp_path, toy, name):
    source, z, p = toy
    adapter = method(name).bind(source)
    c = library(tmp_path, source, adapter)
    adapter.refine(z[:200], p[:200])
    assert c.load(pack_state(adapter))
    there = np.array([c.step(z[t], p[t]) for t in range(200, 400)])
    np.testing.assert_allclose(there, adapter.refine(z[200:400], p[200:400]), rtol=0, atol=1e-5)
    back = unpack_state(method(name).bind(source), c.save())
    assert int(back.state()["count"]) == 400
    np.testing.assert_allclose(
        back.refine(z[400:], p[400:]), [c.step(z[t], p[t]) for t in range(400, 600)], rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("name", METHODS)
def test_a_new_state_is_that_of_a_new_adapter(tmp_path, toy, name):
    adapter = method(name).bind(toy[0])
    c = library(tmp_path, toy[0], adapter)
    assert c.save() == pack_state(adapter)


def test_damaged_and_foreign_states_are_refused_by_both_sides(tmp_path, toy):
    source, z, p = toy
    adapter = method("keel").bind(source)
    adapter.refine(z[:20], p[:20])
    c = library(tmp_path, source, adapter)
    data, new = pack_state(adapter), c.save()
    other = pack_state(method("keel").bind(ToySource(seed=5)))
    infinite = bytearray(data[:-4])
    infinite[8:12] = np.float32(np.inf).tobytes()
    infinite += zlib.crc32(infinite).to_bytes(4, "little")
    flipped = [bytes(b ^ (8 * (i == at)) for i, b in enumerate(data)) for at in (0, 5, 30, len(data) - 1)]
    for bad in (*flipped, other, bytes(infinite)):
        assert not c.load(bad)
        assert c.save() == new
        with pytest.raises(ValueError, match=r"damaged|another model|NaN or infinity"):
            unpack_state(method("keel").bind(source), bad)
    for bad, words in ((data[:-1], "Expected 120 bytes"), (flipped[0], "start with b'SGT1'"), (flipped[2], "checksum")):
        with pytest.raises(ValueError, match=words):
            unpack_state(method("keel").bind(source), bad)


@pytest.mark.parametrize("name", METHODS)
def test_invalid_input_is_refused_and_changes_nothing(tmp_path, toy, name):
    source, z, p = toy
    c = library(tmp_path, source, method(name))
    c.step(z[0], p[0])
    before, bad = c.save(), np.full(source.weight.shape[1], np.nan)
    for wrong in ([np.nan] * 5, [0.5] * 5, [1.5, -0.5, 0, 0, 0], [np.inf] * 5):
        assert c.step(z[0], wrong) is None
    if method(name).needs.features != "no":
        assert c.step(bad, p[0]) is None
        assert c.step(np.full_like(bad, 1e18), p[0]) is None
        assert c.step(None, p[0]) is None
    for seconds in (-1.0, np.nan, np.inf):
        assert not c.gap(seconds)
    assert c.save() == before


@pytest.mark.parametrize("name", METHODS)
def test_refined_probabilities_may_replace_the_given_ones(tmp_path, toy, name):
    source, z, p = toy
    c = library(tmp_path, source, method(name))
    given = [*p[:20], *np.eye(p.shape[1], dtype=np.float32)]  # certain ones contradict each other
    apart = [c.step(*row) for row in zip(z, given, strict=False)]
    c.reset()
    np.testing.assert_array_equal([c.step(*row, in_place=True) for row in zip(z, given, strict=False)], apart)


def test_float_states_stay_exact_on_a_long_stream(tmp_path):
    source = ToySource()
    z, p = source.encode(toy_stream(source, n=20_000, noise=3.0, seed=9).x)
    expected = method("keel").bind(source).refine(z, p)
    c = library(tmp_path, source, method("keel"))
    q = np.array([c.step(z[t], p[t]) for t in range(len(p))])
    np.testing.assert_allclose(q, expected, rtol=0, atol=1e-4)
    tied = np.diff(np.sort(expected, axis=1)[:, -2:], axis=1)[:, 0] < 2e-4
    assert not ((q.argmax(axis=1) != expected.argmax(axis=1)) & ~tied).any()


def test_keel_without_source_statistics_needs_no_features(tmp_path, toy):
    source, _, p = ToySource(), *toy[1:]
    source.stats = None
    adapter = method("keel").bind(source)
    c = library(tmp_path, source, adapter)
    q = np.array([c.step(np.full(16, np.nan), row) for row in p])
    np.testing.assert_allclose(q, adapter.refine(np.zeros((len(p), 16), np.float32), p), rtol=0, atol=1e-5)


@pytest.mark.parametrize("sharpness", [1.0, 2.5])
@pytest.mark.parametrize("name", ["keel", "sticky", "sticky-learned", "ema"])
def test_probabilities_alone_are_refined_as_in_python(tmp_path, toy, name, sharpness):
    """Outputs of 8 bits contain zeros, which are no certainty."""
    source, given = ProbabilitySource(toy[0].classes, sharpness), np.round(255 * toy[2])
    given = (given / given.sum(axis=1, keepdims=True)).astype(np.float32)
    assert (given == 0).any()
    c = library(tmp_path, source, method(name))
    q = np.array([c.step(np.full(5, np.nan), row) for row in given])
    np.testing.assert_allclose(q, method(name).bind(source).step(given[:, :, None]), rtol=0, atol=1e-5)


def test_features_of_another_tool_are_refined_as_in_python(tmp_path, toy):
    source, z, p = FeatureSource(toy[0].weight, toy[0].bias, toy[0].classes), *toy[1:]
    c = library(tmp_path, source, method("sight"))
    q = np.array([c.step(*row) for row in zip(z, p, strict=True)])
    np.testing.assert_allclose(q, method("sight").bind(source).refine(z, p), rtol=0, atol=1e-5)
    with pytest.raises(TypeError, match="needs no features, got sight"):
        export_c(ProbabilitySource(source.classes), tmp_path / "none", method="sight", encoder=False)


def test_other_methods_are_refused(tmp_path):
    with pytest.raises(TypeError, match="Expected keel, sight, sticky, sticky-learned, ema for C, got t3a"):
        export_c(ToySource(), tmp_path / "c", method="t3a", encoder=False)
