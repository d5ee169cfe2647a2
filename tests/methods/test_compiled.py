"""The compiled step against the numpy one, in every setting, and its promises: cuts, fleets, resuming, falling back."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import timeit

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sight.kernels import SightState, backend, from_half, half, keel_reference, reference
from sight.kernels import backend as backend_module
from sight.methods.keel import Keel
from sight.methods.sight import SIGHT
from sight.sources import FeatureSource
from sight.types import SourceStats
from tests.helpers.transcription import sight_as_printed
from tests.methods.test_sight import GOLDEN, SETTINGS, toy

compiled = pytest.importorskip("sight.kernels.compiled")
keel_compiled = pytest.importorskip("sight.kernels.keel_compiled")

ABLATIONS = [
    dict(zip(("surprise", "routing", "habit", "prototypes", "omega_mu"), values, strict=True))
    for values in itertools.product(
        ("geometric", "distance", "off"), (True, False), ("sqrt", "raw", "off"), ("soft", "hard", "off"), (0.01, 0.0)
    )
]


def fresh(weight, rules):
    floor = reference.NORM_FLOOR if rules.authors else rules.eps
    anchors = weight / np.maximum(np.linalg.norm(weight, axis=1, keepdims=True), floor)
    uniform = np.full(len(weight), 1 / len(weight), weight.dtype)
    return anchors, SightState(anchors.copy(), uniform.copy(), uniform.copy())


def both(z, p, weight, rules):
    answers = []
    for implementation in (reference, compiled):
        anchors, state = fresh(weight, rules)
        q, surprise = implementation.replay(z, p, state, anchors, 0, rules)
        answers.append((q, surprise, *state))
    return zip(*answers, strict=True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-4)])
@pytest.mark.parametrize("variant", ["paper", "authors"])
def test_every_setting_answers_as_numpy_does(dtype, tolerance, variant):
    for saturation in (1.0, 20.0):
        z, p, weight = (array.astype(dtype) for array in toy(saturation, n=80))
        for fields in ABLATIONS:
            rules = SIGHT(variant=variant, **fields).rules()
            for ours, theirs in both(z, p, weight, rules):
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance, err_msg=str(fields))


@given(
    seed=st.integers(0, 2**16),
    classes=st.integers(2, 7),
    dims=st.integers(1, 70),
    variant=st.sampled_from(["paper", "authors"]),
    eta_mu=st.floats(0, 1),
    eta_h=st.floats(0, 1),
    omega_mu=st.floats(0, 1),
    scale=st.sampled_from([1e-6, 1.0, 1e4]),
)
@settings(max_examples=60, deadline=None)
def test_any_rates_and_sizes_answer_as_numpy_does(seed, classes, dims, variant, eta_mu, eta_h, omega_mu, scale):
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(classes, dims))
    z = scale * rng.normal(size=(12, dims))
    p = rng.dirichlet(np.full(classes, 0.3), size=12)
    rules = SIGHT(variant=variant, eta_mu=eta_mu, eta_h=eta_h, omega_mu=omega_mu, tau=0.5).rules()
    for ours, theirs in both(z, p, weight, rules):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4)])
@pytest.mark.parametrize("name", GOLDEN)
def test_compiled_authors_variant_answers_as_the_authors_code(golden, name, dtype, tolerance):
    stored = np.load(golden(f"official_sight_{name}.npz"))
    rules = SIGHT(variant="authors", **{key: float(stored[key]) for key in SETTINGS}).rules()
    anchors, state = fresh(stored["weight"].astype(dtype), rules)
    q, _ = compiled.replay(stored["z"].astype(dtype), stored["p"].astype(dtype), state, anchors, 0, rules)
    np.testing.assert_allclose(q, stored["q"], rtol=0, atol=tolerance)
    np.testing.assert_array_equal(q.argmax(axis=1), stored["q"].argmax(axis=1))
    np.testing.assert_allclose(state.prototypes, stored["final_prototypes"], rtol=0, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-4)])
def test_compiled_paper_variant_is_the_printed_equations(golden, dtype, tolerance):
    stored = np.load(golden("official_sight_hapt_stream.npz"))
    rules = SIGHT().rules()
    anchors, state = fresh(stored["weight"].astype(dtype), rules)
    q, surprise = compiled.replay(stored["z"].astype(dtype), stored["p"].astype(dtype), state, anchors, 0, rules)
    printed, lam, prototypes, _ = sight_as_printed(stored["z"], stored["p"].astype(dtype), stored["weight"])
    np.testing.assert_allclose(q, printed, rtol=0, atol=tolerance)
    np.testing.assert_allclose(surprise, lam, rtol=0, atol=tolerance)
    np.testing.assert_allclose(state.prototypes, prototypes, rtol=0, atol=tolerance)


def test_a_prototype_opposite_to_the_feature_keeps_length_one():
    weight = np.eye(2, 40, dtype=np.float32)
    z = np.tile(-weight[0] + 1e-4 * np.linspace(-1, 1, 40, dtype=np.float32), (3, 1))
    p = np.tile(np.float32([0.9, 0.1]), (3, 1))
    rules = SIGHT(eta_mu=0.5, omega_mu=0.0, prototypes="hard").rules()
    anchors, state = fresh(weight, rules)
    compiled.replay(z, p, state, anchors, 0, rules)
    np.testing.assert_allclose(np.linalg.norm(state.prototypes, axis=1), 1, atol=1e-5)


METHODS = {"paper": SIGHT(), "authors": SIGHT(variant="authors"), "keel": Keel()}
FLEETS = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def with_stats(weight):
    """A source whose class means lie where its head points."""
    prior = np.linspace(1, 2, len(weight)) / np.linspace(1, 2, len(weight)).sum()
    stats = SourceStats(prior=prior, feature_mean=prior @ weight, class_means=weight, count=100)
    return FeatureSource(weight, stats=stats)


@FLEETS
def test_cuts_and_fleets_change_no_bit(method):
    z, p, weight = (array.astype(np.float32) for array in toy(5.0, n=120, dims=70))
    adapter = method.clone().bind(with_stats(weight))
    whole = adapter.refine(z, p)
    end = adapter.state()
    pieces = adapter.reset() and [adapter.refine(z[t : t + 1], p[t : t + 1]) for t in range(120)]
    np.testing.assert_array_equal(whole, np.concatenate(pieces))
    fleet = adapter.fleet(3)
    others = np.roll(np.arange(120), 7)
    for t in range(120):
        q = fleet.refine(z[[t, others[t]]], p[[t, others[t]]], rows=np.array([2, 0]))
        np.testing.assert_array_equal(q[0], whole[t])
    for name, value in fleet.state(2).items():
        np.testing.assert_array_equal(value, end[name])
    assert fleet.count.tolist() == [120, 0, 120]


@FLEETS
def test_fleet_resumes_relaxes_and_forgets_as_an_adapter_does(method):
    z, p, weight = (array.astype(np.float32) for array in toy(3.0, n=30))
    adapter = method.clone().bind(with_stats(weight))
    adapter.refine(z[:20], p[:20])
    fleet = adapter.fleet(2)
    fleet.restore(1, adapter.state())
    adapter.gap(45.0)
    fleet.gap(45.0)
    np.testing.assert_array_equal(fleet.refine(z[20:21], p[20:21], rows=[1])[0], adapter.refine(z[20:21], p[20:21])[0])
    np.testing.assert_allclose(fleet.state(0)["belief"], 1 / len(weight), rtol=1e-7)
    for name, value in adapter.state().items():
        np.testing.assert_array_equal(fleet.state(1)[name], value)
        assert fleet.state(1)[name].dtype == value.dtype
    fleet.reset([1])
    for name, value in fleet.state(1).items():
        np.testing.assert_array_equal(value, adapter.clone().state()[name])


@pytest.mark.parametrize(
    ("what", "wearer", "value"), [("z", 1, np.nan), ("z", 0, np.inf), ("p", 0, 5.0), ("p", 1, -0.5)]
)
@pytest.mark.parametrize("method", [SIGHT(), Keel()], ids=["sight", "keel"])
def test_fleet_refuses_bad_input_before_any_change(what, wearer, value, method):
    z, p, weight = (array.astype(np.float32) for array in toy(n=2))
    fleet = method.clone().bind(FeatureSource(weight)).fleet(2)
    before = fleet.block.copy()
    {"z": z, "p": p}[what][wearer, 0] = value
    with pytest.raises(ValueError, match=f"wearer {wearer}"):
        fleet.refine(z, p)
    with pytest.raises(ValueError, match="nobody twice"):
        fleet.refine(z, p, rows=[0, 0])
    np.testing.assert_array_equal(fleet.block, before)
    assert not fleet.count.any()


def test_half_a_state_costs_half_and_hardly_moves_the_answers():
    z, p, weight = (array.astype(np.float32) for array in toy(3.0, n=60, dims=512))
    adapter = SIGHT().bind(FeatureSource(weight))
    adapter.refine(z[:30], p[:30])
    state = adapter.state()
    stored = half(state)
    assert stored["prototypes"].nbytes * 2 == state["prototypes"].nbytes
    resumed = adapter.clone().restore(from_half(stored))
    np.testing.assert_allclose(np.linalg.norm(resumed.prototypes_, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(resumed.refine(z[30:], p[30:]), adapter.refine(z[30:], p[30:]), atol=5e-3)


# --- keel ---------------------------------------------------------------------------------------------------------

SWITCHES = {
    "prototypes": (0.3, 0.0),
    "debias": (2.5, 0.0),
    "guard": (True, False),
    "doubt": (0.05, 0.0),
    "surprise": (1.5, 0.0),
    "rate": (0.005, 0.0),
}


def both_keels(adapter, z, p):
    answers = []
    for implementation in (keel_reference, keel_compiled):
        state = adapter.reset()._packed()
        q, trace = implementation.replay(z, p, state, adapter.of_source(), adapter.rules())
        answers.append((q, trace, *state))
    return zip(*answers, strict=True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-6)])
def test_every_setting_of_keel_answers_as_numpy_does(dtype, tolerance):
    for saturation in (1.0, 20.0):
        z, p, weight = (array.astype(dtype) for array in toy(saturation, n=80))
        for values in itertools.product(*SWITCHES.values()):
            fields = dict(zip(SWITCHES, values, strict=True))
            for ours, theirs in both_keels(Keel(**fields).bind(with_stats(weight)), z, p):
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=tolerance, err_msg=str(fields))


@given(
    seed=st.integers(0, 2**16),
    classes=st.integers(2, 7),
    dims=st.integers(1, 70),
    temper=st.floats(0, 1),
    hazard=st.floats(0.01, 0.95),
    patience=st.floats(0.1, 100),
    known=st.booleans(),
    scale=st.sampled_from([1e-6, 1.0, 1e4]),
)
@settings(max_examples=60, deadline=None)
def test_any_keel_answers_as_numpy_does(seed, classes, dims, temper, hazard, patience, known, scale):
    rng = np.random.default_rng(seed)
    weight, z = rng.normal(size=(classes, dims)), scale * rng.normal(size=(20, dims))
    p = rng.dirichlet(np.full(classes, 0.3), size=20)
    adapter = Keel(temper=temper, hazard=hazard, patience=patience)
    adapter.bind(with_stats(weight) if known else FeatureSource(weight))
    for ours, theirs in both_keels(adapter, z, p):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-8)


def test_keel_goes_on_from_a_state_of_the_other_implementation(monkeypatch):
    z, p, weight = (array.astype(np.float32) for array in toy(3.0, n=400, dims=256))
    monkeypatch.setenv("SIGHT_KERNEL", "numpy")
    slow = Keel().bind(with_stats(weight))
    whole = slow.refine(z, p)
    slow.reset().refine(z[:200], p[:200])
    monkeypatch.setenv("SIGHT_KERNEL", "numba")
    quick = Keel().bind(with_stats(weight)).restore(slow.state())
    rest = quick.refine(z[200:], p[200:])
    np.testing.assert_allclose(rest, whole[200:], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(rest.argmax(axis=1), whole[200:].argmax(axis=1))
    assert {name: (v.shape, v.dtype) for name, v in quick.state().items()} == {
        name: (v.shape, v.dtype) for name, v in slow.state().items()
    }


def test_compiled_keel_beats_numpy_many_times():
    z, p, weight = (array.astype(np.float32) for array in toy(3.0, n=200, dims=2048))
    adapter = Keel().bind(with_stats(weight))
    seconds = []
    for implementation in (keel_reference, keel_compiled):
        arguments = z, p, adapter._packed(), adapter.of_source(), adapter.rules()
        seconds.append(min(timeit.repeat(lambda: implementation.replay(*arguments), number=1, repeat=7)))  # noqa: B023
    assert seconds[0] / seconds[1] > 6  # about 25


def test_certain_answers_are_the_same_in_both():
    p = np.eye(3)[[0, 1, 2, 0, 0, 1, 1, 2]]
    for ours, theirs in both_keels(Keel().bind(FeatureSource(np.eye(3, 4))), np.zeros((8, 4)), p):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


# --- both ---------------------------------------------------------------------------------------------------------


def test_read_only_and_strided_input_is_taken_without_compiling_again():
    z, p, weight = (array.astype(np.float32) for array in toy(n=20))
    adapter = SIGHT().bind(FeatureSource(weight))
    expected = adapter.refine(z, p)
    known = len(compiled._advance.signatures), len(compiled.sound.signatures)
    wide = np.zeros((20, 2 * z.shape[1]), np.float32)
    wide[:, ::2] = z
    p.setflags(write=False)
    np.testing.assert_array_equal(adapter.reset().refine(wide[:, ::2], p), expected)
    assert (len(compiled._advance.signatures), len(compiled.sound.signatures)) == known


def test_variable_chooses_and_a_wrong_word_is_refused(monkeypatch):
    monkeypatch.setenv("SIGHT_KERNEL", "numpy")
    assert backend() == backend(np.float64)
    assert (backend().name, backend().replay) == ("numpy", reference.replay)
    assert backend(method="keel").replay is keel_reference.replay
    monkeypatch.setenv("SIGHT_KERNEL", "numba")
    assert backend().name == backend(method="keel").name == "numba"
    monkeypatch.setenv("SIGHT_KERNEL", "fortran")
    with pytest.raises(ValueError, match="SIGHT_KERNEL"):
        backend()


@pytest.mark.parametrize("method", ["sight.SIGHT", "keel.Keel"])
def test_without_numba_everything_still_works(method):
    module, name = method.split(".")
    code = f"""
import sys
sys.modules["numba"] = None
import numpy as np
from sight.kernels import backend
from sight.methods.{module} import {name}
from sight.sources import FeatureSource
z, p = np.eye(3, 4, dtype=np.float32), np.full((3, 3), 1 / 3, np.float32)
adapter = {name}().bind(FeatureSource(np.eye(3, 4, dtype=np.float32)))
assert adapter.refine(z, p).shape == (3, 3)
assert adapter.fleet(2).refine(z[:2], p[:2]).shape == (2, 3)
print(adapter._backend.name, "|", adapter._backend.reason)
"""
    environment = {key: value for key, value in os.environ.items() if key != "SIGHT_KERNEL"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.startswith("numpy | numba cannot be imported")


def test_a_compiled_step_that_fails_or_lies_is_not_used(monkeypatch):
    module = sys.modules[backend_module.__module__]
    for broken in (lambda *_: 1 / 0, lambda _, p, *__: (np.zeros_like(p), p[:, 0])):
        module._compiled.cache_clear()
        monkeypatch.setattr(compiled, "replay", broken)
        assert backend().name == "numpy"
        assert "does not run here" in backend().reason
        monkeypatch.setenv("SIGHT_KERNEL", "numba")
        with pytest.raises(RuntimeError, match="asks for numba"):
            backend()
        monkeypatch.delenv("SIGHT_KERNEL")
    monkeypatch.undo()
    module._compiled.cache_clear()


def test_no_writable_folder_for_the_cache_is_no_obstacle(monkeypatch):
    def refuse(*_, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: (function, options)

    monkeypatch.setattr(compiled, "njit", refuse)
    function, options = compiled._compile(len)
    assert function is len
    assert "cache" not in options


def test_importing_sight_brings_no_numba():
    code = "import sight, sight.methods.sight, sight.methods.keel, sys; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_day_of_windows_never_holds_all_features():
    import tracemalloc

    from sight.evaluate import run
    from sight.testing import ToySource
    from sight.types import Windows

    n, dims = 86_400, 512
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
    assert peak < 0.15 * n * dims * 4
