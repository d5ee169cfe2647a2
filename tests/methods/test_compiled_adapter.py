"""Compiled steps against the numpy ones, for one wearer and many, and the fallback to numpy."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import timeit
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sight.methods.compiled import backend as _backend
from sight.methods.compiled.backend import FIRST, choose, numba_backend, numpy_backend
from sight.methods.keel import Keel
from sight.methods.ops import relax
from sight.methods.sight import SIGHT
from sight.models.given_features import FeatureSource
from sight.results.prediction_loop import run
from sight.testing import ToySource
from sight.types import SourceStats, Windows
from tests.helpers.transcription import sight_as_printed
from tests.methods.test_sight import GOLDEN, RATES, toy

compiled = pytest.importorskip("sight.methods.sight.compiled")
numba_module = pytest.importorskip("sight.methods.compiled.numba")

SIGHT_SWITCHES = {
    "surprise": ("geometric", "distance", "off"),
    "routing": (True, False),
    "habit": ("sqrt", "raw", "off"),
    "prototypes": ("soft", "hard", "off"),
    "omega_mu": (0.01, 0.0),
}
KEEL_SWITCHES = {
    "prototypes": (0.3, 0.0),
    "debias": (2.5, 0.0),
    "penalty": (1.0, 0.0),
    "surprise": (1.5, 0.0),
    "rate": (0.005, 0.0),
}


def with_stats(weight):
    """Return a source whose class means lie where its head points."""
    prior = np.linspace(1, 2, len(weight)) / np.linspace(1, 2, len(weight)).sum()
    stats = SourceStats(prior=prior, feature_mean=prior @ weight, class_means=weight, count=100)
    return FeatureSource(weight, stats=stats)


def advanced(adapter, backend, z, p):
    """Return predictions, trace and final state of a fresh clone with one implementation."""
    clone = adapter.clone()
    q, trace = backend.advance(z, p, clone.states.arrays, FIRST, *clone.constants)
    return {"q": q, "trace": trace, **clone.state()}


def assert_backends_agree(adapter, z, p, **tolerance):
    slow, fast = (advanced(adapter, backend(type(adapter)), z, p) for backend in (numpy_backend, numba_backend))
    for name, value in slow.items():
        np.testing.assert_allclose(fast[name], value, err_msg=f"{adapter} {name}", **tolerance)


def as_type(dtype, *arrays):
    return tuple(array.astype(dtype) for array in arrays)


# --- both implementations agree -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-4)])
@pytest.mark.parametrize("variant", ["paper", "authors"])
def test_sight_agrees_with_numpy_for_all_fields(dtype, tolerance, variant):
    for saturation in (1.0, 20.0):
        z, p, weight = as_type(dtype, *toy(saturation, n=40))
        for values in itertools.product(*SIGHT_SWITCHES.values()):
            adapter = SIGHT(variant=variant, **dict(zip(SIGHT_SWITCHES, values, strict=True)))
            assert_backends_agree(adapter.bind(FeatureSource(weight)), z, p, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-6)])
def test_keel_agrees_with_numpy_for_all_fields(dtype, tolerance):
    for saturation in (1.0, 20.0):
        z, p, weight = as_type(dtype, *toy(saturation, n=60))
        for values in itertools.product(*KEEL_SWITCHES.values()):
            adapter = Keel(**dict(zip(KEEL_SWITCHES, values, strict=True)))
            assert_backends_agree(adapter.bind(with_stats(weight)), z, p, rtol=1e-9, atol=tolerance)


@given(
    seed=st.integers(0, 2**16),
    classes=st.integers(2, 7),
    dims=st.integers(2, 70),  # with one feature the displacement is rounding noise
    variant=st.sampled_from(["paper", "authors"]),
    eta_mu=st.floats(0, 1),
    eta_h=st.floats(0, 1),
    omega_mu=st.floats(0, 1),
    scale=st.sampled_from([1e-6, 1.0, 1e4]),
)
@settings(max_examples=50, deadline=None)
def test_sight_agrees_with_numpy_for_any_rates_and_sizes(seed, classes, dims, scale, **fields):
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(classes, dims))
    z, p = scale * rng.normal(size=(12, dims)), rng.dirichlet(np.full(classes, 0.3), size=12)
    assert_backends_agree(SIGHT(tau=0.5, **fields).bind(FeatureSource(weight)), z, p, rtol=0, atol=1e-6)


@given(
    seed=st.integers(0, 2**16),
    classes=st.integers(2, 7),
    dims=st.integers(1, 70),
    temper=st.floats(0, 1),
    hazard=st.floats(0.01, 0.95),
    patience=st.floats(0.1, 100),
    stats=st.booleans(),
    scale=st.sampled_from([1e-6, 1.0, 1e4]),
)
@settings(max_examples=50, deadline=None)
def test_keel_agrees_with_numpy_for_any_fields_and_sizes(seed, classes, dims, stats, scale, **fields):
    rng = np.random.default_rng(seed)
    weight, z = rng.normal(size=(classes, dims)), scale * rng.normal(size=(20, dims))
    p = rng.dirichlet(np.full(classes, 0.3), size=20)
    source = with_stats(weight) if stats else FeatureSource(weight)
    assert_backends_agree(Keel(**fields).bind(source), z, p, rtol=1e-7, atol=1e-8)


def test_keel_agrees_with_numpy_on_certain_predictions():
    p = np.eye(3)[[0, 1, 2, 0, 0, 1, 1, 2]]
    assert_backends_agree(Keel().bind(FeatureSource(np.eye(3, 4))), np.zeros((8, 4)), p, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4)])
@pytest.mark.parametrize("name", GOLDEN)
def test_compiled_authors_variant_agrees_with_the_authors_code(golden, name, dtype, tolerance):
    stored = np.load(golden(f"official_sight_{name}.npz"))
    z, p, weight = as_type(dtype, stored["z"], stored["p"], stored["weight"])
    adapter = SIGHT(variant="authors", **{key: float(stored[key]) for key in RATES}).bind(FeatureSource(weight))
    found = advanced(adapter, numba_backend(SIGHT), z, p)
    np.testing.assert_allclose(found["q"], stored["q"], rtol=0, atol=tolerance)
    np.testing.assert_array_equal(found["q"].argmax(axis=1), stored["q"].argmax(axis=1))
    np.testing.assert_allclose(found["prototypes"], stored["final_prototypes"], rtol=0, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4)])
def test_compiled_paper_variant_agrees_with_the_printed_equations(golden, dtype, tolerance):
    stored = np.load(golden("official_sight_hapt_stream.npz"))
    z, p, weight = as_type(dtype, stored["z"][:400], stored["p"][:400], stored["weight"])
    found = advanced(SIGHT().bind(FeatureSource(weight)), numba_backend(SIGHT), z, p)
    printed, surprise, prototypes, _ = sight_as_printed(stored["z"][:400], p, stored["weight"])
    np.testing.assert_allclose(found["q"], printed, rtol=0, atol=tolerance)
    np.testing.assert_allclose(found["trace"][:, 0], surprise, rtol=0, atol=tolerance)
    np.testing.assert_allclose(found["prototypes"], prototypes, rtol=0, atol=tolerance)


def test_a_prototype_opposite_to_the_feature_keeps_length_one():
    weight = np.eye(2, 40, dtype=np.float32)
    z = np.tile(-weight[0] + 1e-4 * np.linspace(-1, 1, 40, dtype=np.float32), (3, 1))
    p = np.tile(np.float32([0.9, 0.1]), (3, 1))
    adapter = SIGHT(eta_mu=0.5, omega_mu=0.0, prototypes="hard").bind(FeatureSource(weight))
    prototypes = advanced(adapter, numba_backend(SIGHT), z, p)["prototypes"]
    np.testing.assert_allclose(np.linalg.norm(prototypes, axis=1), 1, atol=1e-5)


def test_keel_continues_from_a_state_of_the_other_implementation(monkeypatch):
    z, p, weight = as_type(np.float32, *toy(3.0, n=400, dims=64))
    monkeypatch.setenv("SIGHT_KERNEL", "numpy")
    slow = Keel().bind(with_stats(weight))
    whole = slow.refine(z, p)
    slow.reset().refine(z[:200], p[:200])
    monkeypatch.setenv("SIGHT_KERNEL", "numba")
    quick = Keel().bind(with_stats(weight)).restore(slow.state())
    later = quick.refine(z[200:], p[200:])
    np.testing.assert_allclose(later, whole[200:], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(later.argmax(axis=1), whole[200:].argmax(axis=1))


# --- many wearers -------------------------------------------------------------------------------------------------

VARIANTS = {"paper": SIGHT(), "authors": SIGHT(variant="authors"), "keel": Keel()}
EACH = pytest.mark.parametrize("method", VARIANTS.values(), ids=VARIANTS)


@pytest.mark.parametrize("kernel", ["numba", "numpy"])
@EACH
def test_chunks_and_many_wearers_are_equal_bit_for_bit(monkeypatch, method, kernel):
    monkeypatch.setenv("SIGHT_KERNEL", kernel)
    z, p, weight = as_type(np.float32, *toy(5.0, n=120, dims=70))
    adapter = method.clone().bind(with_stats(weight))
    whole = adapter.refine(z, p)
    end = adapter.state()
    adapter.reset()
    np.testing.assert_array_equal(
        whole, np.concatenate([adapter.refine(z[t : t + 1], p[t : t + 1]) for t in range(120)])
    )
    many = adapter.many(3)
    others = np.roll(np.arange(120), 7)
    for t in range(120):
        q = many.refine(z[[t, others[t]]], p[[t, others[t]]], rows=np.array([2, 0]))
        np.testing.assert_array_equal(q[0], whole[t])
    for name, value in many.state(2).items():
        np.testing.assert_array_equal(value, end[name])
    assert many.state(slice(None))["count"].tolist() == [120, 0, 120]
    many.reset()
    rows = np.array([2, 0, 1])
    q, _ = many.advance(np.tile(z[:40], (3, 1)), np.tile(p[:40], (3, 1)), rows)  # 40 windows of each wearer
    np.testing.assert_array_equal(q, np.tile(whole[:40], (3, 1)))


@EACH
def test_many_wearers_resume_relax_and_reset_as_an_adapter(method):
    z, p, weight = as_type(np.float32, *toy(3.0, n=30))
    adapter = method.clone().bind(with_stats(weight))
    adapter.refine(z[:20], p[:20])
    many = adapter.many(2)
    many.restore(1, adapter.state())
    adapter.gap(45.0)
    many.gap(45.0)
    np.testing.assert_array_equal(many.refine(z[20:21], p[20:21], rows=[1])[0], adapter.refine(z[20:21], p[20:21])[0])
    np.testing.assert_allclose(many.state(0)["belief"], 1 / len(weight), rtol=1e-7)
    for name, value in adapter.state().items():
        np.testing.assert_array_equal(many.state(1)[name], value)
        assert many.state(1)[name].dtype == value.dtype
    other = adapter.many(2)
    other.restore(slice(None), many.state(slice(None)))
    many.reset([1])
    for name, value in many.state(1).items():
        np.testing.assert_array_equal(value, adapter.clone().state()[name])
        np.testing.assert_array_equal(other.state(1)[name], adapter.state()[name])


@EACH
def test_a_gap_after_the_first_window_relaxes_the_belief(method):
    z, p, weight = as_type(np.float32, *toy(3.0, n=1))
    many = method.clone().bind(with_stats(weight)).many(2)
    q = many.refine(z, p, rows=[1])[0]
    many.gap(45.0)
    expected = relax(q, 45.0, method.gap_half_life_s)
    assert np.abs(expected - q).max() > 0.01
    np.testing.assert_allclose(many.state(1)["belief"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("what", "wearer", "value"), [("z", 1, np.nan), ("z", 0, np.inf), ("p", 0, 5.0), ("p", 1, -0.5)]
)
@pytest.mark.parametrize("method", [SIGHT(), Keel()], ids=["sight", "keel"])
def test_many_wearers_refuse_bad_input_before_any_change(what, wearer, value, method):
    z, p, weight = as_type(np.float32, *toy(n=2))
    many = method.clone().bind(FeatureSource(weight)).many(2)
    before = many.state(slice(None))
    {"z": z, "p": p}[what][wearer, 0] = value
    with pytest.raises(ValueError, match=rf"(feature|probabilities|window) {wearer}\b"):
        many.refine(z, p)
    for rows in ([0, 0], [0, 2], [-1, 0], [[0, 1]]):
        with pytest.raises(ValueError, match="distinct rows"):
            many.refine(z, p, rows=rows)
    with pytest.raises(ValueError, match="belief"):
        many.restore(0, many.state(0) | {"belief": np.ones(2)})
    for name, array in many.state(slice(None)).items():
        np.testing.assert_array_equal(array, before[name])


# --- choice of the implementation ---------------------------------------------------------------------------------


def test_compiled_keel_is_much_faster_than_numpy():
    z, p, weight = as_type(np.float32, *toy(3.0, n=100, dims=2048))
    adapter = Keel().bind(with_stats(weight))
    seconds = [
        min(timeit.repeat(lambda: advanced(adapter, backend, z, p), number=1, repeat=5))  # noqa: B023
        for backend in (numpy_backend(Keel), numba_backend(Keel))
    ]
    assert seconds[0] / seconds[1] > 5  # about 20


def test_read_only_and_strided_input_does_not_compile_again():
    z, p, weight = as_type(np.float32, *toy(n=20))
    adapter = SIGHT().bind(FeatureSource(weight))
    expected = adapter.refine(z, p)
    signatures = len(compiled._advance.signatures), len(numba_module.is_valid.signatures)
    wide = np.zeros((20, 2 * z.shape[1]), np.float32)
    wide[:, ::2] = z
    p.setflags(write=False)
    np.testing.assert_array_equal(adapter.reset().refine(wide[:, ::2], p), expected)
    assert (len(compiled._advance.signatures), len(numba_module.is_valid.signatures)) == signatures


@pytest.mark.parametrize("method", [SIGHT, Keel])
def test_the_environment_variable_chooses(method, monkeypatch):
    for name in ("numpy", "numba"):
        monkeypatch.setenv("SIGHT_KERNEL", name)
        assert choose(method, np.float32).name == name
    monkeypatch.setenv("SIGHT_KERNEL", "fortran")
    with pytest.raises(ValueError, match="SIGHT_KERNEL"):
        choose(method, np.float32)


@pytest.mark.parametrize("method", ["sight.SIGHT", "keel.Keel"])
def test_without_numba_the_numpy_step_is_used(method):
    module, name = method.split(".")
    code = f"""
import sys
sys.modules["numba"] = None
import numpy as np
from sight.methods.{module} import {name}
from sight.models.given_features import FeatureSource
z, p = np.eye(3, 4, dtype=np.float32), np.full((3, 3), 1 / 3, np.float32)
adapter = {name}().bind(FeatureSource(np.eye(3, 4, dtype=np.float32)))
assert adapter.refine(z, p).shape == (3, 3)
assert adapter.many(2).refine(z[:2], p[:2]).shape == (2, 3)
print(adapter.backend.name, "|", adapter.backend.reason)
"""
    environment = {key: value for key, value in os.environ.items() if key != "SIGHT_KERNEL"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.startswith("numpy | numba cannot be imported")


@pytest.mark.parametrize(
    "broken", [lambda *_: 1 / 0, lambda _, p, *__: (np.zeros_like(p), p[:, :1])], ids=["fails", "wrong"]
)
def test_a_compiled_step_that_fails_or_is_wrong_is_not_used(broken, monkeypatch):
    _backend._numba_or_numpy.cache_clear()
    try:
        monkeypatch.setattr(compiled, "advance", broken)
        chosen = choose(SIGHT, np.float32)
        assert chosen.name == "numpy"
        assert "does not run here" in chosen.reason
        monkeypatch.setenv("SIGHT_KERNEL", "numba")
        with pytest.raises(RuntimeError, match="requests numba"):
            choose(SIGHT, np.float32)
    finally:
        _backend._numba_or_numpy.cache_clear()


def test_without_a_writable_folder_there_is_no_cache(monkeypatch):
    def refuse(*_, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: (function, options)

    monkeypatch.setattr(numba_module, "njit", refuse)
    function, options = numba_module.compile_with()(len)
    assert function is len
    assert "cache" not in options


def test_importing_methods_does_not_import_numba():
    code = "import sight, sight.methods.sight, sight.methods.keel, sys; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_long_stream_is_processed_in_pieces():
    n, dims = 20_000, 512
    source = ToySource(channels=1, length=2, dims=dims)
    x = np.random.default_rng(0).normal(size=(n, 1, 2)).astype(np.float32)
    day = Windows(
        x=x, time_s=np.arange(n, dtype=float), label=np.full(n, -1), gap_before_s=np.zeros(n), window_s=2, stride_s=1
    )
    adapter = SIGHT().bind(source)
    tracemalloc.start()
    result = run(adapter, day)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(result.q) == n
    assert peak < 0.2 * n * dims * 4
