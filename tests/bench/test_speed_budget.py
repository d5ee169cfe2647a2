"""Speed as a promise: ratios inside one run, with margins that noise does not cross and a regression of 2x does."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numba")
pytest.importorskip("onnx")

from sight.bench import timing  # noqa: E402
from sight.bench.naive_sight import PlainSight  # noqa: E402
from sight.bench.timing_models import SHAPES, make  # noqa: E402
from sight.methods._backend import FIRST, numba_backend, numpy_backend  # noqa: E402
from sight.methods.sight import SIGHT  # noqa: E402
from sight.sources import FeatureSource  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    return make(SHAPES[0], 64, tmp_path_factory.mktemp("bed"))


@pytest.fixture(scope="module")
def features(bed):
    return bed.onnx.encode(bed.x)


def test_plain_torch_rival_answers_the_same(bed, features):
    z, p = features
    plain = PlainSight(bed.torch)
    theirs = np.array(
        [plain.update(*pair).numpy() for pair in zip(torch.from_numpy(z), torch.from_numpy(p), strict=True)]
    )
    assert (SIGHT().bind(bed.onnx).refine(z, p).argmax(axis=1) == theirs.argmax(axis=1)).mean() > 0.95


def test_replay_is_far_quicker_than_the_plain_torch_loop(bed, features):
    z, p = features
    adapter, plain = SIGHT().bind(bed.onnx), PlainSight(bed.torch)
    assert adapter.backend.name == "numba"
    pairs = list(zip(torch.from_numpy(z), torch.from_numpy(p), strict=True))
    times = timing.medians(
        {"replay": lambda _: adapter.refine(z[:16], p[:16]), "plain": lambda n: plain.update(*pairs[n % len(pairs)])},
        60,
    )
    assert times["plain"] / (times["replay"] / 16) > 45  # 70 to 110


def test_a_live_step_costs_less_than_the_torch_forward(bed):
    adapter, x = SIGHT().bind(bed.onnx), torch.from_numpy(bed.x)

    def forward(n):
        with torch.inference_mode():
            bed.torch.network(x[n % 64 : n % 64 + 1])

    times = timing.medians({"step": lambda n: adapter.step(bed.x[n % 64 : n % 64 + 1]), "forward": forward}, rounds=150)
    assert times["step"] / times["forward"] < 0.75  # 0.44 to 0.49


def test_adaptation_is_a_small_part_of_the_encoder(bed, features):
    z, p = features
    adapter = SIGHT().bind(bed.onnx)
    update = timing.alone(lambda _: adapter.refine(z[:16], p[:16]), 60) / 16
    encoder = timing.alone(lambda n: bed.onnx.encode(bed.x[n % 64 : n % 64 + 1]), 60)
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


def test_compiled_beats_numpy_many_times(features, bed):
    z, p = features
    adapter = SIGHT().bind(bed.onnx)
    arguments = (z[:8], p[:8], adapter.states.arrays, FIRST, *adapter.constants)
    tasks = {
        "numba": lambda _: numba_backend(SIGHT).advance(*arguments),
        "numpy": lambda _: numpy_backend(SIGHT).advance(*arguments),
    }
    times = timing.medians(tasks, rounds=40)
    assert times["numpy"] / times["numba"] > 12  # about 19


def test_live_state_is_the_prototypes_and_little_more():
    adapter = SIGHT().bind(FeatureSource(np.random.default_rng(0).normal(size=(5, 2048)).astype(np.float32)))
    assert sum(array.nbytes for array in adapter.state().values()) <= 41 * 1024
    assert adapter.many(10).nbytes <= 10 * 41 * 1024
