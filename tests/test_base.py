"""The base classes of adapters: final methods, refused input and saved state."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import numpy as np
import pytest

import sight
from sight.base import Adapter, OutputAdapter, Source
from sight.models.given_features import FeatureSource
from sight.testing import ToySource, toy_network, toy_stream


@pytest.fixture
def bound():
    return sight.method("sight").bind(ToySource())


@pytest.mark.parametrize("kernel", ["numpy", "numba"])
@pytest.mark.parametrize("name", ["sight", "keel", "t3a"])
def test_features_of_absurd_length_are_refused_and_change_nothing(monkeypatch, name, kernel):
    monkeypatch.setenv("SIGHT_KERNEL", kernel)
    source = ToySource()
    adapter = sight.method(name).bind(source)
    z, p = source.encode(toy_stream(source, n=6).x)
    adapter.refine(z, p)
    before = adapter.state()
    z[3] = 3e38
    with pytest.raises(ValueError, match="window 3"):
        adapter.refine(z, p)
    assert all(np.array_equal(value, before[key]) for key, value in adapter.state().items())


@dataclass(kw_only=True)
class Waiting(OutputAdapter):
    """Method whose second window waits for an event."""

    name = "waiting"

    def _reset(self):
        self.count_ = 0

    def _refine_one(self, z, p):  # noqa: ARG002
        inside.set()
        assert release.wait(20)
        self.count_ += 1
        return p


inside, release = Event(), Event()


def test_a_second_thread_is_refused_and_changes_nothing():
    source = ToySource()
    adapter = Waiting().bind(source)
    x = toy_stream(source, n=2).x
    z, p = source.encode(x)
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(adapter.step, x)
        assert inside.wait(20)
        calls = (lambda: adapter.step(x), lambda: adapter.refine(z, p), lambda: adapter.peek(x), lambda: adapter.gap(1))
        for call in calls:
            with pytest.raises(RuntimeError, match="another thread"):
                call()
        release.set()
        working.result(20)
    assert adapter.count_ == 2
    adapter.step(x)  # one after the other is fine
    assert copy.deepcopy(adapter).step(x).shape == (2, 5)


FINAL = (
    "bind",
    "reset",
    "clone",
    "step",
    "peek",
    "gap",
    "state",
    "restore",
    "params",
    "trace",
    "diagnostics",
    "source",
)


@pytest.mark.parametrize("name", [*FINAL, "n_classes", "predict", "refine", "check_input"])
def test_final_methods_cannot_be_overridden(name):
    with pytest.raises(TypeError, match=f"overrides {name}.*hook"):
        type("Broken", (OutputAdapter,), {name: lambda _: None})


@pytest.mark.parametrize("name", ["chunk", "rule", "notes", "state_bytes", "class_frequencies", "class_prototypes"])
def test_other_methods_can_be_overridden(name):
    type("Fine", (OutputAdapter,), {name: lambda _: None})


def test_predict_encodes_a_window_only_for_methods_that_need_it():
    source = toy_network()
    x = toy_stream(n=6).x
    z, p = source.encode(x)
    on_outputs, on_windows = sight.method("ema").bind(source), sight.method("tent").bind(source)
    twins = [adapter.clone() for adapter in (on_outputs, on_windows)]
    assert np.array_equal(on_outputs.predict(x, z, p), twins[0].refine(z, p))
    assert np.array_equal(on_windows.predict(x, z, p), twins[1].step(x))


def test_sources_fulfil_the_protocol():
    for source in (ToySource(), FeatureSource(np.eye(2)), toy_network()):
        assert isinstance(source, Source)


@pytest.mark.parametrize(
    "weight", [np.ones((1, 3)), np.ones(3), np.array([[1.0, 2], [0, 0]]), np.array([[1, np.nan], [1, 1]])]
)
def test_invalid_heads_are_refused(weight):
    with pytest.raises(ValueError, match=r"[Ee]xpected"):
        sight.method("none").bind(FeatureSource(weight))


@pytest.mark.parametrize(
    ("z", "p", "words"),
    [
        (np.ones((2, 9)), np.full((2, 5), 0.2), "expected features"),
        (np.ones((2, 16)), np.full((2, 4), 0.25), "expected features"),
        (np.full((2, 16), np.nan), np.full((2, 5), 0.2), "feature 0"),
        (np.ones((2, 16)), np.array([[0.2] * 5, [0.5] * 5]), "window 1"),
        (np.ones((2, 16)), np.array([[0.2] * 5, [1.4, -0.4, 0, 0, 0]]), "window 1"),
        (np.ones((2, 16)), np.array([[np.inf, 0, 0, 0, 0], [0.2] * 5]), "probabilities 0"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(bound, z, p, words):
    before = bound.state()
    with pytest.raises(ValueError, match=words):
        bound.refine(z, p)
    after = bound.state()
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_windows_of_the_wrong_rank_are_refused(bound):
    with pytest.raises(ValueError, match="B, C, T"):
        bound.step(np.ones((3, 20)))


def test_no_windows_give_no_predictions(bound):
    assert bound.step(np.empty((0, 3, 20), np.float32)).shape == (0, 5)
    assert bound.state()["count"] == 0


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_invalid_gaps_are_refused(bound, seconds):
    with pytest.raises(ValueError, match="gap"):
        bound.gap(seconds)


def test_clone_suggests_the_closest_field(bound):
    with pytest.raises(TypeError, match="Did you mean 'eta_mu'"):
        bound.clone(eta_m=1)
    assert bound.clone(tau=0.3).tau == 0.3


def test_foreign_and_damaged_states_are_refused(bound):
    stream = toy_stream(n=5)
    bound.step(stream.x)
    good = bound.state()
    with pytest.raises(ValueError, match="another method"):
        bound.restore({"belief": good["belief"]})
    with pytest.raises(ValueError, match="another model"):
        bound.restore(good | {"habit": good["habit"][:2]})
    with pytest.raises(ValueError, match="damaged"):
        bound.restore(good | {"habit": np.full_like(good["habit"], np.nan)})


@pytest.mark.parametrize("name", sight.registry.TABLES["methods"])
def test_an_empty_array_is_no_valid_state(name):
    """Only a memory of windows may be empty, with its capacity as the first axis."""
    features = issubclass(sight.registry.get("methods", name), OutputAdapter)
    adapter = sight.method(name).bind(ToySource() if features else toy_network())
    adapter.step(toy_stream(n=40).x)
    before = adapter.state()
    for key, value in before.items():
        if value.shape != (0,):
            with pytest.raises(ValueError, match="another model"):
                adapter.restore(before | {key: np.empty(0, value.dtype)})
        if value.ndim == 3 and not key.endswith(".windows"):
            with pytest.raises(ValueError, match="another model"):
                adapter.restore(before | {key: value[:, :0]})
    after = adapter.state()
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_a_memory_may_start_without_a_window_shape():
    """A wrapped network has no card: a fresh and a used memory of the same capacity can restore each other."""
    source = sight.wrap(toy_network().module(), encoder="features", head="head", classes=list("abcde"))
    x = toy_stream(n=40).x
    used, fresh = (sight.method("note", memory=8).bind(source) for _ in range(2))
    used.step(x)
    empty, full = fresh.state(), used.state()
    assert empty["memory.windows"].shape == (8, 0, 0)
    np.testing.assert_array_equal(fresh.restore(full).step(x), used.step(x))
    assert used.restore(empty).step(x).shape == (40, 5)
    with pytest.raises(ValueError, match="another model"):
        used.restore(sight.method("note", memory=9).bind(source).state() | {"memory.labels": empty["memory.labels"]})


def test_state_is_a_copy(bound):
    saved = bound.state()
    bound.step(toy_stream(n=5).x)
    assert saved["count"] == 0
    assert not np.array_equal(saved["belief"], bound.state()["belief"])


def test_adapter_is_abstract():
    with pytest.raises(TypeError):
        Adapter()


def test_labels_are_nowhere_in_the_contract():
    import inspect

    for owner in (Adapter, OutputAdapter):
        for name, function in inspect.getmembers(owner, inspect.isfunction):
            parameters = inspect.signature(function).parameters
            assert not {"y", "label", "labels", "truth"} & set(parameters), f"{owner.__name__}.{name}"


def test_adapters_of_one_source_can_run_in_several_threads():
    source, stream = ToySource(), toy_stream(n=200)
    names = ["keel", "sight", "keel", "sight"]

    def run(name):
        adapter = sight.method(name).bind(source)
        return np.concatenate([adapter.step(stream.x[i : i + 1]) for i in range(len(stream.x))])

    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(run, names))
    assert all(np.array_equal(q, run(name)) for q, name in zip(together, names, strict=True))
