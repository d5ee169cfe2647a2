"""Exported models: agreement with the network they came from, and inspection of model files."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import numpy as np
import onnx
import pytest
import safetensors.numpy
from onnx import TensorProto, helper, numpy_helper

import sight
from sight.base import Source
from sight.models.export.onnx import check_agreement, export_onnx
from sight.models.model_inspection import inspect
from sight.models.onnx import OnnxSource, open_session
from tests.helpers.untrained import NAMES, make, windows


@pytest.fixture(scope="module", params=NAMES)
def exported(request, tmp_path_factory):
    source = make(request.param, fill=True)
    path = export_onnx(source, tmp_path_factory.mktemp("onnx") / f"{request.param}.onnx")
    return source, path


def test_onnx_agrees_with_torch(exported):
    source, path = exported
    twin = sight.load(path)
    x = windows(source, n=40)
    x[1, 2] = np.nan  # filled inside the graph too
    for expected, actual in zip(source.encode(x), twin.encode(x), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-5, rtol=0)
        assert actual.dtype == np.float32
    assert isinstance(twin, Source)
    assert twin.card == source.card
    assert twin.classes == source.classes
    assert np.array_equal(twin.weight, source.weight)
    assert np.array_equal(twin.bias, source.bias)
    assert np.array_equal(twin.stats.class_means, source.stats.class_means)
    assert (twin.stats.count, twin.stats.subjects, twin.shape) == (77, 5, (3, source.card.length))


def test_onnx_predictions_are_bit_identical_for_any_chunk_size_and_number_of_threads(exported):
    source, path = exported
    twin, x = OnnxSource(path), windows(source, n=150)
    alone = [twin.encode(x[t : t + 1]) for t in range(150)]
    z, p = (np.concatenate(parts) for parts in zip(*alone, strict=True))
    for size, threads in ((7, 1), (64, 1), (100, 1), (150, 2)):
        twin.threads = threads
        parts = [twin.encode(x[i : i + size]) for i in range(0, 150, size)]
        assert np.array_equal(np.concatenate([part[0] for part in parts]), z)
        assert np.array_equal(np.concatenate([part[1] for part in parts]), p)
    assert [part.shape for part in twin.encode(x[:0])] == [(0, z.shape[1]), (0, 4)]


@pytest.mark.parametrize("exported", ["cnn"], indirect=True)
def test_windows_are_encoded_one_by_one_if_batches_change_bits(exported, monkeypatch):
    source, path = exported
    twin, x = OnnxSource(path), windows(source, n=130)
    sizes, run = [], twin._session.run

    def noisy(outputs, feed):
        sizes.append(len(feed["x"]))
        z, p = run(outputs, feed)
        return [z + (1e-6 if len(z) > 1 else 0), p]

    monkeypatch.setattr(twin, "_session", type("Session", (), {"run": staticmethod(noisy)}))
    twin.encode(x)
    assert not twin._batches_are_exact
    assert sizes[-130:] == [1] * 130


def test_names_of_inputs_and_outputs_and_batches(exported):
    source, path = exported
    session = open_session(path)
    assert [value.name for value in session.get_inputs()] == ["x"]
    assert [value.name for value in session.get_outputs()] == ["features", "logits", "probabilities"]
    x = windows(source, n=5)
    z, logits, p = session.run(None, {"x": x})
    np.testing.assert_allclose(logits, z @ source.weight.T + source.bias, atol=1e-4)
    np.testing.assert_allclose(p, source.encode(x)[1], atol=1e-5)


def test_disagreement_raises():
    check_agreement("features", np.full(3, 100.0), np.full(3, 100.0005), tolerance=1e-5)
    for wrong in (0.5002, np.nan):
        with pytest.raises(RuntimeError, match="probabilities"):
            check_agreement("probabilities", np.full(3, 0.5), np.full(3, wrong), tolerance=1e-4)


@pytest.mark.parametrize("exported", ["cnn"], indirect=True)
def test_invalid_uses_raise(exported, tmp_path):
    source, path = exported
    twin = OnnxSource(path, threads=2)
    with pytest.raises(TypeError, match=r"sight\.load"):
        twin.module()
    with pytest.raises(ValueError, match=r"\(B, 3, 40\)"):
        twin.encode(np.zeros((1, 4, source.card.length)))
    (tmp_path / "cut.onnx").write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="cut short"):
        sight.load(tmp_path / "cut.onnx")


@pytest.mark.parametrize("exported", ["cnn"], indirect=True)
def test_onnx_needs_neither_torch_nor_onnx(exported):
    source, path = exported
    x = windows(source, n=3)
    program = f"""
        import sys
        for name in ("torch", "onnx", "onnxscript", "numba", "pandas", "scipy"):
            sys.modules[name] = None
        import numpy as np
        import sight, sight.models.model_inspection
        assert "onnxruntime" not in sys.modules
        source = sight.load({str(path)!r})
        x = np.array({x.tolist()!r}, dtype=np.float32)
        adapter = sight.method("sight").bind(source)
        print(source.encode(x)[1].tobytes().hex(), adapter.step(x).shape, source.stats.count)
        print(sight.models.model_inspection.inspect({str(path)!r})["encoder"])
        open("m.safetensors", "wb").close()
        try:
            sight.load("m.safetensors")
        except ModuleNotFoundError as error:
            print(error)
    """
    completed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, cwd=path.parent, check=False
    )
    assert completed.returncode == 0, completed.stderr
    predictions, encoder, error = completed.stdout.splitlines()
    assert predictions == f"{OnnxSource(path).encode(x)[1].tobytes().hex()} (3, 4) 77"
    assert encoder == source.card.encoder
    assert "needs torch" in error


def test_inspect_checkpoint_and_export(exported, tmp_path):
    source, path = exported
    facts = inspect(source.save(tmp_path / "m.safetensors"))
    assert facts["kind"] == "checkpoint of sight"
    assert facts["parameters"] == sum(p.numel() for p in source.network.parameters())
    assert facts["size_bytes"] == (tmp_path / "m.safetensors").stat().st_size
    assert (facts["stats"], facts["fisher"], facts["fills_nan"]) == (True, False, True)
    dims = source.weight.shape[1]
    assert facts["split"] == f"features ({dims}) | head (Linear {dims} to 4)"
    exported_facts = inspect(path)
    assert exported_facts["kind"] == "ONNX model of sight"
    shared = ("encoder", "classes", "channels", "rate_hz", "window_s", "stats", "split")
    assert {key: exported_facts[key] for key in shared} == {key: facts[key] for key in shared}
    json.dumps([facts, exported_facts])


def write_graph(path, nodes, outputs, **weights):
    """Write an ONNX file that sight did not export."""
    tensors = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in weights.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 20])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, outputs)
    graph = helper.make_graph([helper.make_node(*node) for node in nodes], "foreign", [x], [out], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


LINEAR_ENDINGS = {
    "Gemm": [("Gemm", ["z", "head.weight", "head.bias"], ["out"])],
    "MatMul": [
        ("MatMul", ["z", "head.weight"], ["m"]),
        ("Add", ["m", "head.bias"], ["a"]),
        ("Softmax", ["a"], ["out"]),
    ],
}


@pytest.mark.parametrize("operator", LINEAR_ENDINGS)
def test_inspect_finds_the_head_of_a_foreign_graph(tmp_path, operator):
    nodes = [("Flatten", ["x"], ["z"]), *LINEAR_ENDINGS[operator]]
    path = write_graph(tmp_path / "a.onnx", nodes, [2, 4], **{"head.weight": (60, 4), "head.bias": (4,)})
    facts = inspect(path)
    assert list(facts["outputs"].values()) == [[2, 4]]
    assert facts["split"].startswith(f"before {operator}")
    assert "head.weight" in facts["split"]
    with pytest.raises(ValueError, match="metadata"):
        sight.load(path)


def test_inspect_foreign_files_without_a_head(tmp_path, monkeypatch):
    path = write_graph(
        tmp_path / "b.onnx", [("Conv", ["x", "w"], ["z"]), ("Flatten", ["z"], ["out"])], [2, 4], w=(4, 3, 20)
    )
    facts = inspect(path)
    assert facts["split"] is None
    assert "linear layer" in facts["why_not"]
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "pip install onnx" in inspect(path)["why_not"]
    (tmp_path / "c.safetensors").write_bytes(safetensors.numpy.save({"fc.weight": np.zeros((2, 3))}))
    facts = inspect(tmp_path / "c.safetensors")
    assert (facts["split"], facts["tensors"], facts["values"]) == (None, {"fc.weight": [2, 3]}, 6)
    assert "sight.wrap" in facts["why_not"]
    with pytest.raises(ValueError, match=r"\.safetensors or \.onnx"):
        inspect(tmp_path / "d.pt")


def test_threads_follow_the_environment(monkeypatch):
    monkeypatch.setenv("SIGHT_THREADS", "3")
    assert (sight.load("wrist", threads=None).threads, sight.load("wrist").threads) == (3, 1)
    monkeypatch.setenv("SIGHT_THREADS", "all")
    with pytest.raises(ValueError, match="SIGHT_THREADS"):
        sight.load("wrist", threads=None)
    monkeypatch.delenv("SIGHT_THREADS")
    assert sight.load("wrist", threads=None).threads >= 1
