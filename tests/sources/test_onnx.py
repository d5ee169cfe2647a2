"""Exported models: the answers of the network they came from, and what a file tells of itself."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import OrderedDict

import numpy as np
import pytest
import safetensors.numpy
import torch
from torch import nn

import sight
from sight import sources
from sight.base import Source
from sight.sources.onnx import OnnxSource
from sight.sources.onnx_export import export_onnx
from tests.helpers.untrained import NAMES, make, windows


@pytest.fixture(scope="module", params=NAMES)
def exported(request, tmp_path_factory):
    source = make(request.param, fill=True)
    path = export_onnx(source, tmp_path_factory.mktemp("onnx") / f"{request.param}.onnx")
    return source, path


# --- onnx ---------------------------------------------------------------------------------------------------------


def test_onnx_agrees_with_torch(exported):
    source, path = exported
    twin = sight.load(path)
    x = windows(source, n=40)
    x[1, 2] = np.nan  # filled inside the graph too
    for ours, theirs in zip(source.encode(x), twin.encode(x), strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-5, rtol=0)
        assert theirs.dtype == np.float32
    assert isinstance(twin, Source)
    assert twin.card == source.card
    assert twin.classes == source.classes
    assert np.array_equal(twin.weight, source.weight)
    assert np.array_equal(twin.bias, source.bias)
    assert np.array_equal(twin.stats.class_means, source.stats.class_means)
    assert (twin.stats.count, twin.shape) == (77, (3, source.card.length))


def test_onnx_answers_are_bit_identical_however_a_stream_is_cut(exported):
    source, path = exported
    twin, x = OnnxSource(path), windows(source, n=40)
    z, p = twin.encode(x)
    for size in (1, 2, 3, 7, 16, 33):
        parts = [twin.encode(x[i : i + size]) for i in range(0, 40, size)]
        assert np.array_equal(np.concatenate([part[0] for part in parts]), z)
        assert np.array_equal(np.concatenate([part[1] for part in parts]), p)
    assert [part.shape for part in twin.encode(x[:0])] == [(0, z.shape[1]), (0, 4)]


def test_onnx_file_names_its_inputs_and_outputs_and_takes_batches(exported):
    import onnxruntime

    source, path = exported
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == ["x"]
    assert [value.name for value in session.get_outputs()] == ["features", "logits", "probabilities"]
    x = windows(source, n=5)
    z, logits, p = session.run(None, {"x": x})
    np.testing.assert_allclose(logits, z @ source.weight.T + source.bias, atol=1e-4)
    np.testing.assert_allclose(p, source.encode(x)[1], atol=1e-5)


def test_onnx_refuses(exported, tmp_path):
    source, path = exported
    twin = OnnxSource(path, threads=2)
    with pytest.raises(TypeError, match=r"sight\.load of the \.safetensors file"):
        twin.module()
    with pytest.raises(ValueError, match=r"Expected windows \(B, 3, "):
        twin.encode(np.zeros((1, 4, source.card.length)))
    (tmp_path / "cut.onnx").write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="not an ONNX model that onnxruntime can read, or is cut short"):
        sight.load(tmp_path / "cut.onnx")


def test_the_exporter_keeps_a_small_epsilon(tmp_path):
    class Guarded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.classifier = nn.Linear(3, 2)

        def features(self, x):
            total = x.mean(dim=2)
            return total / (total.norm(dim=1, keepdim=True) + 1e-8)

        def forward(self, x):
            return self.classifier(self.features(x))

    twin = sight.load(export_onnx(sight.wrap(Guarded()), tmp_path / "g.onnx", shape=(3, 4)))
    assert np.array_equal(twin.encode(np.zeros((1, 3, 4)))[0], np.zeros((1, 3)))


def test_onnx_needs_neither_torch_nor_onnx(exported):
    source, path = exported
    x = windows(source, n=3)
    program = f"""
        import sys
        for name in ("torch", "onnx", "onnxscript", "numba", "pandas", "scipy"):
            sys.modules[name] = None
        import numpy as np
        import sight, sight.sources
        assert "onnxruntime" not in sys.modules
        source = sight.load({str(path)!r})
        x = np.array({x.tolist()!r}, dtype=np.float32)
        adapter = sight.method("sight").bind(source)
        print(source.encode(x)[1].tobytes().hex(), adapter.step(x).shape, source.stats.count)
        print(sight.sources.inspect({str(path)!r})["encoder"])
        open("m.safetensors", "wb").close()
        try:
            sight.load("m.safetensors")
        except ModuleNotFoundError as error:
            print(error)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, cwd=path.parent, check=False
    )
    assert ran.returncode == 0, ran.stderr
    answer, encoder, refusal = ran.stdout.splitlines()
    assert answer == f"{OnnxSource(path).encode(x)[1].tobytes().hex()} (3, 4) 77"
    assert encoder == source.card.encoder
    assert "needs torch, which is not installed" in refusal


# --- inspect ------------------------------------------------------------------------------------------------------


def test_inspect_checkpoint_and_export(exported, tmp_path):
    source, path = exported
    facts = sources.inspect(source.save(tmp_path / "m.safetensors"))
    assert facts["kind"] == "checkpoint of sight"
    assert facts["parameters"] == sum(p.numel() for p in source.network.parameters())
    assert facts["size_bytes"] == (tmp_path / "m.safetensors").stat().st_size
    assert (facts["stats"], facts["fisher"], facts["fills_nan"]) == (True, False, True)
    dims = source.weight.shape[1]
    assert facts["cut"] == f"features ({dims}) | head (Linear {dims} to 4)"
    other = sources.inspect(path)
    assert other["kind"] == "ONNX model of sight"
    shared = ("encoder", "classes", "channels", "rate_hz", "window_s", "stats", "cut")
    assert {key: other[key] for key in shared} == {key: facts[key] for key in shared}
    json.dumps([facts, other])


def foreign_onnx(path, model):
    program = torch.onnx.export(model.eval(), (torch.zeros(2, 3, 20),), dynamo=True, verbose=False)
    path.write_bytes(program.model_proto.SerializeToString())
    return path


@pytest.mark.filterwarnings("ignore")
def test_inspect_foreign_files(tmp_path):
    linear = nn.Sequential(OrderedDict(flat=nn.Flatten(), head=nn.Linear(60, 4), out=nn.Softmax(dim=1)))
    facts = sources.inspect(foreign_onnx(tmp_path / "a.onnx", linear))
    assert facts["kind"] == "ONNX model of somebody else"
    assert list(facts["outputs"].values()) == [[2, 4]]
    assert facts["cut"].startswith("before Gemm")
    assert "head.weight" in facts["cut"]
    with pytest.raises(ValueError, match="without the metadata of sight"):
        sight.load(tmp_path / "a.onnx")
    facts = sources.inspect(foreign_onnx(tmp_path / "b.onnx", nn.Sequential(nn.Conv1d(3, 4, 20), nn.Flatten())))
    assert facts["cut"] is None
    assert "no output is a linear layer" in facts["why_not"]
    (tmp_path / "c.safetensors").write_bytes(safetensors.numpy.save({"fc.weight": np.zeros((2, 3))}))
    facts = sources.inspect(tmp_path / "c.safetensors")
    assert (facts["cut"], facts["tensors"], facts["values"]) == (None, {"fc.weight": [2, 3]}, 6)
    assert "sight.wrap" in facts["why_not"]
    with pytest.raises(ValueError, match=r"Expected a \.safetensors or \.onnx file"):
        sources.inspect(tmp_path / "d.pt")


def test_inspect_without_onnx_package(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    from sight.sources.inspection import _foreign_cut

    assert "pip install onnx" in _foreign_cut(tmp_path / "any.onnx")["why_not"]
