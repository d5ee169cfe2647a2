"""Exported files: what they hold, the graph of the encoder, and the examples of the docs that use them."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from sight.methods.keel import Keel  # noqa: E402
from sight.methods.sight import SIGHT  # noqa: E402
from sight.models.export.fused import export_fused  # noqa: E402
from sight.models.export.onnx import export_onnx  # noqa: E402
from sight.models.export.torch_graph import prepare_network, to_graph  # noqa: E402
from sight.models.fused_model import FUSED  # noqa: E402
from sight.models.onnx import OnnxSource  # noqa: E402
from sight.models.torch import TorchSource  # noqa: E402
from tests.models.fused.fused_helpers import SHAPE  # noqa: E402


def test_the_exporter_keeps_tiny_additions():
    class Guard(torch.nn.Module):
        def forward(self, x):
            return x / (x + 1e-8)

    import onnxruntime

    model = to_graph(Guard(), (torch.zeros(3),), ["x"], ["y"])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": np.zeros(3, np.float32)})[0], 0)


def test_the_file_describes_its_state_and_params(fused):
    model, names = onnx.load(fused), list(SIGHT.layout.entries)
    assert [tensor.name for tensor in model.graph.input] == ["x", *names]
    assert [tensor.name for tensor in model.graph.output] == ["q", "p", "surprise", *(f"next_{n}" for n in names)]
    facts = json.loads({entry.key: entry.value for entry in model.metadata_props}[FUSED])
    assert (facts["format"], facts["state_version"], facts["method"]) == (2, 1, "sight")
    assert (facts["params"]["tau"], facts["class_frequencies"], facts["state"]) == (0.2, "habit", names)


def test_other_methods_cannot_be_fused(tmp_path, source):
    from sight.methods.ema import EMA

    with pytest.raises(TypeError, match="Expected sight or keel"):
        export_fused(source, tmp_path / "fused.onnx", EMA(), shape=SHAPE)


def test_the_examples_of_the_docs_run(tmp_path, toy, capsys, monkeypatch):
    from typer.testing import CliRunner

    from sight.apps.cli import app
    from tests.conftest import ROOT

    monkeypatch.chdir(tmp_path)
    trained, stream = toy
    x = stream(80)
    trained.save(tmp_path / "model.safetensors")
    arguments = ["export", "model.safetensors", "--fused", "--method", "sight", "--set", "tau=0.2", "-o", "watch.onnx"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    capsys.readouterr()
    page = (ROOT / "docs" / "onnx.md").read_text("utf-8")
    adapter, gaps_s = SIGHT(tau=0.2).bind(trained), np.where(np.arange(len(x)) % 9 == 5, 400.0, 0.0)
    expected = []
    for window, gap_s in zip(x, gaps_s, strict=True):
        adapter.gap(gap_s)
        expected.append(trained.classes[adapter.step(window[None]).argmax()])
    for example in page.split("```python")[1:]:
        exec(example.split("```")[0], {"windows": x, "gaps_s": gaps_s})
    assert [line.rpartition(" ")[0] for line in capsys.readouterr().out.splitlines()] == 2 * expected


def test_the_file_of_keel_has_what_hosts_need(fused_keel):
    model = onnx.load(fused_keel)
    facts = json.loads({entry.key: entry.value for entry in model.metadata_props}[FUSED])
    assert (facts["method"], facts["state_version"], facts["params"]["debias"]) == ("keel", 3, 4.0)
    assert [tensor.name for tensor in model.graph.input] == ["x", *facts["state"]]
    assert (facts["gap_clears"], facts["class_frequencies"]) == (["linked"], "frequencies")
    types = {tensor.name: tensor.type.tensor_type.elem_type for tensor in model.graph.input}
    assert set(types.values()) == {onnx.TensorProto.FLOAT, onnx.TensorProto.INT32}


@pytest.mark.parametrize(("name", "length"), [("cnn", 133), ("resnet", 100)])
def test_the_exported_encoder_agrees_with_the_network(tmp_path, name, length):
    from sight import registry

    torch.manual_seed(1)
    network = registry.get("encoders", name)(channels=3, classes=4)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    plain = TorchSource(network, classes=tuple("abcd"))
    x = np.random.default_rng(0).normal(size=(5, 3, length)).astype(np.float32)
    exported = OnnxSource(export_onnx(plain, tmp_path / "encoder.onnx", shape=(3, length)))
    for ours, theirs in zip(plain.encode(x), exported.encode(x), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5 * max(1, np.abs(ours).max()))


EXPORTS = {
    "plain": export_onnx,
    "keel": lambda *where, **shape: export_fused(*where, Keel(), **shape),
}


@pytest.mark.parametrize("form", EXPORTS)
def test_files_hold_no_metadata_of_the_exporter(tmp_path, source, form, monkeypatch):
    path = EXPORTS[form](source, tmp_path / "encoder.onnx", shape=SHAPE)
    graph = onnx.load(path).graph
    assert not any(len(node.metadata_props) for node in graph.node)
    assert not any(len(value.metadata_props) for value in (graph, *graph.input, *graph.output, *graph.value_info))
    assert b"site-packages" not in path.read_bytes()
    monkeypatch.setattr("sight.models.export.torch_graph.strip_metadata", lambda model: model)
    noted = EXPORTS[form](source, tmp_path / "noted.onnx", shape=SHAPE)
    assert any(len(node.metadata_props) for node in onnx.load(noted).graph.node)
    assert path.stat().st_size < noted.stat().st_size - 20_000


def test_convolutions_become_image_convolutions(tmp_path, source):
    keys = list(source.network.state_dict())
    model = onnx.load(export_onnx(source, tmp_path / "encoder.onnx", shape=SHAPE))
    kernels = [a.ints for node in model.graph.node if node.op_type == "Conv" for a in node.attribute]
    assert all(len(tensor.dims) != 3 for tensor in model.graph.initializer)
    assert [1, 5] in [list(k) for k in kernels]
    assert len(model.graph.node) < 40
    assert list(source.network.state_dict()) == keys
    assert prepare_network(source.network, SHAPE) is not source.network
