"""Speed budgets: ratios within one run, with margins that noise does not exceed and a slowdown by two does.

Also: every time in the speed tables belongs to a method that adapted.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numba")
pytest.importorskip("onnx")

from benchmarks.speed import methods, tables, timing  # noqa: E402
from benchmarks.speed.naive_sight import NaiveSight  # noqa: E402
from benchmarks.speed.setup import SHAPES, make_setup  # noqa: E402

from sight import registry  # noqa: E402
from sight.apps.bench.experiment_report.table_format import DASH  # noqa: E402
from sight.methods.compiled.backend import FIRST, numba_backend, numpy_backend  # noqa: E402
from sight.methods.sight import SIGHT  # noqa: E402
from sight.models.given_features import FeatureSource  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    return make_setup(SHAPES[0], 64, tmp_path_factory.mktemp("setup"))


@pytest.fixture(scope="module")
def features(setup):
    return setup.onnx.encode(setup.x)


def test_naive_torch_sight_predicts_the_same(setup, features):
    z, p = features
    naive = NaiveSight(setup.torch)
    theirs = np.array(
        [naive.update(*pair).numpy() for pair in zip(torch.from_numpy(z), torch.from_numpy(p), strict=True)]
    )
    assert (SIGHT().bind(setup.onnx).refine(z, p).argmax(axis=1) == theirs.argmax(axis=1)).mean() > 0.95


def test_replay_is_far_faster_than_the_naive_torch_loop(setup, features):
    z, p = features
    adapter, naive = SIGHT().bind(setup.onnx), NaiveSight(setup.torch)
    assert adapter.backend.name == "numba"
    pairs = list(zip(torch.from_numpy(z), torch.from_numpy(p), strict=True))
    times = timing.medians(
        {"replay": lambda _: adapter.refine(z[:16], p[:16]), "naive": lambda n: naive.update(*pairs[n % len(pairs)])},
        60,
    )
    assert times["naive"] / (times["replay"] / 16) > 45  # 70 to 110


def test_a_live_step_costs_less_than_the_torch_forward(setup):
    adapter, x = SIGHT().bind(setup.onnx), torch.from_numpy(setup.x)

    def forward(n):
        with torch.inference_mode():
            setup.torch.network(x[n % 64 : n % 64 + 1])

    times = timing.medians(
        {"step": lambda n: adapter.step(setup.x[n % 64 : n % 64 + 1]), "forward": forward}, rounds=150
    )
    assert times["step"] / times["forward"] < 0.75  # 0.44 to 0.49


def test_adaptation_is_a_small_part_of_the_encoder(setup, features):
    z, p = features
    adapter = SIGHT().bind(setup.onnx)
    update = timing.alone(lambda _: adapter.refine(z[:16], p[:16]), 60) / 16
    encoder = timing.alone(lambda n: setup.onnx.encode(setup.x[n % 64 : n % 64 + 1]), 60)
    assert update / encoder < 0.05  # 0.027 to 0.034


def test_cost_is_linear_in_classes_and_windows():
    def seconds(classes, windows):
        rng = np.random.default_rng(0)
        adapter = SIGHT().bind(FeatureSource(rng.normal(size=(classes, 512)).astype(np.float32)))
        z = rng.normal(size=(windows, 512)).astype(np.float32)
        p = rng.dirichlet(np.ones(classes), size=windows).astype(np.float32)
        advance = numba_backend(SIGHT).advance
        return timing.alone(lambda _: advance(z, p, adapter.states.arrays, FIRST, *adapter.constants), 40)

    base = seconds(8, 16)
    assert seconds(32, 16) / base < 8  # 4 if linear, 16 if quadratic
    assert seconds(8, 64) / base < 8


def test_compiled_is_many_times_faster_than_numpy(features, setup):
    z, p = features
    adapter = SIGHT().bind(setup.onnx)
    arguments = (z[:8], p[:8], adapter.states.arrays, FIRST, *adapter.constants)
    tasks = {
        "numba": lambda _: numba_backend(SIGHT).advance(*arguments),
        "numpy": lambda _: numpy_backend(SIGHT).advance(*arguments),
    }
    times = timing.medians(tasks, rounds=40)
    assert times["numpy"] / times["numba"] > 12  # about 19


def test_live_state_is_little_more_than_the_prototypes():
    adapter = SIGHT().bind(FeatureSource(np.random.default_rng(0).normal(size=(5, 2048)).astype(np.float32)))
    assert sum(array.nbytes for array in adapter.state().values()) <= 41 * 1024
    assert adapter.many(10).nbytes <= 10 * 41 * 1024


def test_filtering_methods_update_on_the_timing_stream(setup, monkeypatch):
    monkeypatch.setattr(registry, "names", lambda _: ("sar", "eata", "sight"))
    steps = {"SIGHT on onnx": 0.3, "onnx encode": 0.2}
    rows = {row["method"]: row for row in methods.time_methods(setup, steps)}
    for name in ("sar", "eata"):
        assert rows[name]["updates_per_pass"] == 2  # two chunks of 32 windows
        assert rows[name]["ms_per_window"] > 0
    sight = rows["sight"]
    assert sight["updates_per_pass"] is None
    assert (sight["ms_per_window"], sight["source_ms_per_window"]) == pytest.approx((0.3, 0.2))
    assert sight["counted_state_bytes"] / 1024 == pytest.approx(sight["paper_state_kib"], abs=0.05)


def test_a_method_that_did_not_update_has_no_time(setup, monkeypatch):
    monkeypatch.setattr(registry, "names", lambda _: ("sar",))
    certain = registry.method
    monkeypatch.setattr(registry, "method", lambda name, preset: certain(name, preset, margin=0.0))
    (row,) = methods.time_methods(setup, {})
    assert row["updates_per_pass"] == 0
    assert row["ms_per_window"] is row["overhead"] is row["wearers_per_core"] is None
    assert DASH in tables._method(row)
