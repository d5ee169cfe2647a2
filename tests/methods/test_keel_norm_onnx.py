"""keel-norm on exported files: agreement with torch, streaming, wearers that share a model, and what is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

import sight  # noqa: E402 - needs torch
from sight.checks import CHECKS, Case  # noqa: E402
from sight.methods.keel import Keel  # noqa: E402
from sight.methods.keel_norm import KeelNorm, compiled, reference  # noqa: E402
from sight.models.encoders.mlp import MLP  # noqa: E402
from sight.models.export.onnx import export_onnx  # noqa: E402
from sight.models.model_inspection import inspect  # noqa: E402
from sight.models.onnx import MOMENTS, NORMS, STATISTICS, OnnxSource  # noqa: E402
from sight.models.source_statistics import source_stats  # noqa: E402
from sight.models.torch import TorchSource  # noqa: E402
from sight.testing import toy_network, toy_stream  # noqa: E402

ENCODERS = ("cnn", "resnet", "mlp")
FIELDS = ({}, {"anchor": 20.0}, {"bound": 0.1})


def stream(encoder="cnn", n=100):
    x = 1.5 * toy_stream(n=n).x + np.float32(1.0)  # the layers were trained with other moments
    return x.reshape(n, 60, 1) if encoder == "mlp" else x


@cache
def network(encoder="cnn"):
    if encoder != "mlp":
        return toy_network(encoder)
    torch.manual_seed(0)
    source = TorchSource(MLP(channels=60, classes=5), classes=toy_network().classes)
    windows = toy_stream(n=300, seed=4)
    x = windows.x.reshape(-1, 60, 1)
    source.network.train()(torch.from_numpy(x))
    source.network.eval()
    source.stats = source_stats(source, x, windows.label, subjects=1)
    return source


@cache
def exported(encoder="cnn"):
    path = Path(mkdtemp()) / f"{encoder}.onnx"
    return OnnxSource(export_onnx(network(encoder), path, norms=True, shape=stream(encoder, 1).shape[1:]))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return export_onnx(network(), tmp_path_factory.mktemp("plain") / "plain.onnx")


# --- agreement ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_encoder_agrees_with_torch_under_any_statistics(encoder):
    source, twin, x = network(encoder), exported(encoder), stream(encoder, 70)
    for ours, theirs in zip(source.encode(x), twin.encode(x), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5 * max(1, np.abs(ours).max()))
    assert twin.norm_layers.widths == source.norm_layers.widths
    np.testing.assert_array_equal(twin.norm_layers.trained, source.norm_layers.trained)
    rng, trained = np.random.default_rng(0), source.norm_layers.trained
    encoders = source.norm_encoder(), twin.norm_encoder()
    for t in range(10):
        moved = (trained * rng.uniform(0.5, 2, size=trained.shape)).astype(np.float32)
        for ours, theirs in zip(*(encode(x[t : t + 1], moved) for encode in encoders), strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5 * max(1, np.abs(ours).max()))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_predictions_agree_with_torch(encoder, fields):
    x = stream(encoder, 150)
    ours, theirs = (KeelNorm(**fields).bind(source) for source in (network(encoder), exported(encoder)))
    expected, q = ours.step(x), theirs.step(x)
    np.testing.assert_allclose(q, expected, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(q.argmax(axis=1), expected.argmax(axis=1))
    assert theirs.notes() == ()
    for name, value in ours.state().items():
        np.testing.assert_allclose(theirs.state()[name], value, rtol=1e-3, atol=1e-3, err_msg=name)
    assert np.abs(q - Keel().bind(exported(encoder)).step(x)).max() > 1e-3


def test_the_trained_statistics_give_the_bits_of_plain_encoding():
    source, x = exported(), stream(n=130)
    encode, trained = source.norm_encoder(), source.norm_layers.trained
    z, p = source.encode(x)
    for t in range(len(x)):
        alone = encode(x[t : t + 1], trained)
        assert (alone[0][0] == z[t]).all()
        assert (alone[1][0] == p[t]).all()


@pytest.mark.parametrize("bound", [0.1, 0.5, 10.0])
def test_compiled_updates_equal_numpy_bit_for_bit(bound):
    rng = np.random.default_rng(0)
    adapter = KeelNorm(bound=bound).bind(exported())
    for spread, share in ((0.0, 1.0), (0.05, 0.3), (0.5, 0.7)):
        moments = adapter.start * rng.uniform(1 - spread, 1 + spread, adapter.start.shape).astype(np.float32)
        written, seen = np.empty((2, *moments.shape), np.float32), (moments * rng.uniform(-9, 9)).astype(np.float32)
        learned = [moments.copy(), moments.copy()]
        for i, updates in enumerate((reference, compiled)):
            updates.move(moments, adapter.terms, share, written[i])
            updates.learn(seen, adapter.terms, 103.0, learned[i])
        assert (written[0] == written[1]).all()
        assert (learned[0] == learned[1]).all()


# --- streaming and wearers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS)
def test_the_contract_holds_on_a_file(check):
    CHECKS[check](Case(adapter=KeelNorm(), given_source=exported(), given_stream=toy_stream(n=60)))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_online_in_any_cut_equals_offline_bit_for_bit(encoder):
    x, adapter = stream(encoder), KeelNorm().bind(exported(encoder))
    whole, trace = adapter.step(x), adapter.trace()["surprise"]
    for size in (1, 7, 64):
        adapter.reset()
        pieces = [(adapter.step(x[t : t + size]), adapter.trace()["surprise"]) for t in range(0, len(x), size)]
        assert (np.concatenate([q for q, _ in pieces]) == whole).all()
        assert (np.concatenate([surprise for _, surprise in pieces]) == trace).all()


@pytest.mark.parametrize("make", [network, exported], ids=["torch", "onnx"])
def test_copies_of_an_adapter_share_nothing_that_changes(make):
    """As in the service, which copies one bound adapter for all wearers of a model."""
    template = KeelNorm().bind(make())
    streams = [stream(), stream()[::-1].copy() - np.float32(2)]
    alone = [template.clone().step(x) for x in streams]
    template.step(streams[1][:5])
    wearers = [copy(template).reset() for _ in streams]
    rows = [[wearer.step(x[t : t + 1]) for wearer, x in zip(wearers, streams, strict=True)] for t in range(100)]
    for i, expected in enumerate(alone):
        assert (np.concatenate([row[i] for row in rows]) == expected).all()
    threaded = [copy(template).reset() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: threaded[i].step(streams[i % 2]), range(4)))
    assert all((q == alone[i % 2]).all() for i, q in enumerate(found))


def test_an_adapter_in_use_can_be_copied():
    adapter = KeelNorm().bind(network())
    x = stream()
    adapter.step(x[:50])
    others = deepcopy(adapter), pickle.loads(pickle.dumps(adapter))
    expected = adapter.step(x[50:])
    assert all((other.step(x[50:]) == expected).all() for other in others)


def test_without_torch_and_numba_a_file_is_enough(tmp_path):
    adapter, x = KeelNorm().bind(exported()), stream(n=20)
    np.savez(tmp_path / "expected.npz", x=x, q=adapter.step(x))
    code = """
        import sys
        for name in ("torch", "numba", "onnx", "pandas", "scipy"):
            sys.modules[name] = None
        import numpy as np, sight
        from sight import registry
        with np.load(sys.argv[2]) as file:
            x, expected = file["x"], file["q"]
        adapter = sight.method("keel-norm").bind(sight.load(sys.argv[1]))
        assert "keel-norm" in registry.supporting("fused_step")
        np.testing.assert_allclose(adapter.step(x), expected, rtol=0, atol=1e-5)
        assert adapter.keel.backend.name == "numpy"
        """
    command = [sys.executable, "-c", textwrap.dedent(code), str(exported().path), str(tmp_path / "expected.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- files --------------------------------------------------------------------------------------------------------


def test_only_the_option_changes_the_file(tmp_path, plain):
    again = export_onnx(network(), tmp_path / "again.onnx")
    assert plain.read_bytes() == again.read_bytes()
    graph, norms = onnx.load(plain).graph, onnx.load(exported().path).graph
    assert [value.name for value in graph.input] == ["x"]
    assert [value.name for value in norms.input] == ["x", STATISTICS]
    assert [value.name for value in norms.output] == [*(value.name for value in graph.output), MOMENTS]
    assert exported().path.stat().st_size < plain.stat().st_size + 40_000
    assert inspect(exported().path)["norms"]
    assert not inspect(plain)["norms"]


def test_a_file_that_is_exported_again_still_takes_statistics(tmp_path):
    again = OnnxSource(sight.export(exported(), tmp_path / "again.onnx"))
    x = stream(n=10)
    assert (KeelNorm().bind(again).step(x) == KeelNorm().bind(exported()).step(x)).all()
    plain = OnnxSource(export_onnx(network(), tmp_path / "plain.onnx"))
    added = OnnxSource(sight.export(plain, tmp_path / "added.onnx", norms=True))
    np.testing.assert_allclose(KeelNorm().bind(added).step(x), KeelNorm().bind(again).step(x), rtol=0, atol=1e-5)


def test_a_file_without_statistics_is_refused(plain):
    with pytest.raises(TypeError, match=r"sight export --norms.*or use keel"):
        KeelNorm().bind(OnnxSource(plain))
    with pytest.raises(TypeError, match="--norms"):
        OnnxSource(plain).norm_encoder()


def test_networks_without_batch_normalisation_are_not_exported(tmp_path):
    with pytest.raises(ValueError, match=r"batch normalisation, found none.*use keel"):
        export_onnx(toy_network("transformer"), tmp_path / "none.onnx", norms=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ['["nothing"]', '{"nothing": 3}', "tensor"])
def test_damaged_metadata_are_refused(tmp_path, damage):
    model = onnx.load(exported().path)
    for entry in model.metadata_props:
        if damage != "tensor" and entry.key == NORMS:
            entry.value = damage
    if damage == "tensor":
        model.graph.input.pop()
        model.graph.output.pop()
    onnx.save(model, tmp_path / "damaged.onnx")
    with pytest.raises(ValueError, match="export the model again"):
        OnnxSource(tmp_path / "damaged.onnx")
