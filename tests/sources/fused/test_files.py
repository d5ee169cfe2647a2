"""Fused graphs against adapters, the graph of the encoder, and its quantised form on real data."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")


from sight.encoders.cnn import CNN  # noqa: E402
from sight.methods._backend import choose  # noqa: E402
from sight.methods.keel import Keel  # noqa: E402
from sight.methods.keel_norm import KeelNorm  # noqa: E402
from sight.methods.sight import SIGHT  # noqa: E402
from sight.metrics import confusion, macro_f1_all  # noqa: E402
from sight.registry import resolve  # noqa: E402
from sight.sources.fused import FUSED, FusedSession  # noqa: E402
from sight.sources.fused_export import export_fused  # noqa: E402
from sight.sources.onnx import OnnxSource  # noqa: E402
from sight.sources.onnx_export import export_onnx  # noqa: E402
from sight.sources.quantise import quantise  # noqa: E402
from sight.sources.torch import TorchSource  # noqa: E402
from sight.sources.torch_to_onnx import prepare_network, to_graph  # noqa: E402
from sight.testing import ToySource, toy_network, toy_stream  # noqa: E402
from sight.train import train  # noqa: E402
from tests.helpers import saturation  # noqa: E402

SHAPE = (2, 40)


@pytest.fixture(scope="module")
def source():
    torch.manual_seed(0)
    return TorchSource(CNN(channels=2, classes=4), classes=("a", "b", "c", "d"))


@pytest.fixture(scope="module")
def windows():
    rng = np.random.default_rng(0)
    level = np.repeat(rng.uniform(0.1, 4, size=(6, 2, 1)), 10, axis=0)
    return (level * rng.normal(size=(60, *SHAPE))).astype(np.float32)


@pytest.fixture(scope="module")
def fused(source, tmp_path_factory):
    return export_fused(source, tmp_path_factory.mktemp("fused") / "fused.onnx", SIGHT(tau=0.2), shape=SHAPE)


@pytest.fixture(scope="module")
def hapt(tmp_path_factory):
    """Return a source trained on one subject of HAPT, and 1,000 windows of others in time order."""
    from sight.datasets.hapt import HAPT
    from tests.conftest import data_folder, require

    dataset = HAPT(root=require(data_folder() / "hapt.zip"))
    trained = train(dataset.windows("1", cache=False), dataset.classes, epochs=3)
    stream = [dataset.windows(subject, cache=False) for subject in ("2", "3")]
    x = np.concatenate([windows.x for windows in stream])[:1000]
    label = np.concatenate([windows.label for windows in stream])[:1000]
    path = export_onnx(trained, tmp_path_factory.mktemp("hapt") / "plain.onnx")
    return trained, path, x, label


def run(session, windows):
    rows = [session.step(window) for window in windows]
    return tuple(np.array(column) for column in zip(*rows, strict=True))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"surprise": "distance", "habit": "raw", "prototypes": "hard"},
        {"surprise": 0.3, "habit": "off", "prototypes": "off"},
        {"variant": "authors", "routing": False, "omega_mu": 0.0, "beta": 4.0},
    ],
    ids=str,
)
def test_fused_sight_agrees_with_the_adapter(tmp_path, source, windows, fields):
    adapter = SIGHT(**fields).bind(source)
    session = FusedSession(export_fused(source, tmp_path / "fused.onnx", SIGHT(**fields), shape=SHAPE))
    q, p, surprise = run(session, windows)
    np.testing.assert_allclose(q, adapter.step(windows), rtol=0, atol=5e-5)
    np.testing.assert_allclose(p, source.encode(windows)[1], rtol=0, atol=1e-6)
    np.testing.assert_allclose(surprise, adapter.trace()["surprise"], rtol=0, atol=5e-5)
    for name, value in adapter.state().items():
        np.testing.assert_allclose(session.state()[name], value, rtol=0, atol=5e-5, err_msg=name)


def test_the_smallest_epsilon_survives_the_export(tmp_path, source, windows):
    """A class that was never predicted has habit 0: without sqrt(0 + 1e-8), probabilities would be 0 or NaN."""
    adapter = SIGHT(surprise=1.0, routing=False).bind(source)
    session = FusedSession(export_fused(source, tmp_path / "f.onnx", SIGHT(surprise=1.0, routing=False), shape=SHAPE))
    for runner in (adapter, session):
        runner.restore({**adapter.state(), "count": np.array(5), "habit": np.zeros(4, np.float32)})
    q = session.step(windows[0])[0]
    np.testing.assert_allclose(q, adapter.step(windows[:1])[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(q, source.encode(windows[:1])[1][0], rtol=0, atol=1e-5)


def test_the_exporter_keeps_tiny_additions():
    class Guard(torch.nn.Module):
        def forward(self, x):
            return x / (x + 1e-8)

    import onnxruntime

    model = to_graph(Guard(), (torch.zeros(3),), ["x"], ["y"])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": np.zeros(3, np.float32)})[0], 0)


def test_sight_moves_between_graph_and_adapter(fused, source, windows):
    adapter = SIGHT(tau=0.2).bind(source)
    session = FusedSession(fused)
    run(session, windows[:20])
    adapter.restore(session.state())
    session.gap(12.0)
    adapter.gap(12.0)
    np.testing.assert_allclose(session.step(windows[20])[0], adapter.step(windows[20:21])[0], rtol=0, atol=5e-5)
    session.reset()
    for name, value in adapter.reset().state().items():
        np.testing.assert_array_equal(session.state()[name], value)


def test_a_state_of_zeros_starts_a_new_wearer(fused, windows):
    session = FusedSession(fused)
    expected = [session.step(window) for window in windows[:2]]
    zeros = {"prototypes": np.zeros((4, 2048)), "habit": np.zeros(4), "belief": np.zeros(4), "count": 0}
    session.restore(zeros)
    for window, (q, _, _) in zip(windows, expected, strict=False):
        np.testing.assert_array_equal(session.step(window)[0], q)


def test_the_file_describes_its_state_and_params(fused):
    model, names = onnx.load(fused), list(SIGHT.layout.entries)
    assert [tensor.name for tensor in model.graph.input] == ["x", *names]
    assert [tensor.name for tensor in model.graph.output] == ["q", "p", "surprise", *(f"next_{n}" for n in names)]
    facts = json.loads({entry.key: entry.value for entry in model.metadata_props}[FUSED])
    assert (facts["format"], facts["state_version"], facts["method"]) == (2, 1, "sight")
    assert (facts["params"]["tau"], facts["class_frequencies"], facts["state"]) == (0.2, "habit", names)


def test_a_session_refuses_invalid_input(tmp_path, fused, source, windows):
    plain = export_onnx(source, tmp_path / "plain.onnx", shape=SHAPE)
    with pytest.raises(ValueError, match="holds no method"):
        FusedSession(plain)
    session = FusedSession(fused)
    session.step(windows[0])
    before = session.state()
    with pytest.raises(ValueError, match="one by one"):
        session.step(windows[:2])
    with pytest.raises(ValueError, match="NaN"):
        session.step(np.full(SHAPE, np.nan))
    for seconds in (-1, np.nan, np.inf):
        with pytest.raises(ValueError, match="gap"):
            session.gap(seconds)
    with pytest.raises(ValueError, match="prototypes"):
        session.restore({**before, "prototypes": np.ones((3, 2048))})
    for name, value in session.state().items():
        np.testing.assert_array_equal(value, before[name])


def test_other_methods_cannot_be_fused(tmp_path, source):
    from sight.methods.ema import EMA

    with pytest.raises(TypeError, match="Expected sight or keel"):
        export_fused(source, tmp_path / "fused.onnx", EMA(), shape=SHAPE)


# --- keel ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy():
    """Return a perceptron with source statistics, and a function that makes a stream for it."""
    world, rng = ToySource(), np.random.default_rng(0)
    label = np.tile(np.arange(5), 200)
    x = (world.centres[label] + 2.5 * rng.normal(size=(1000, *world.shape))).astype(np.float32)
    trained = train((x.reshape(-1, 60, 1), label), world.classes, encoder="mlp", epochs=4, rate_hz=1.0)
    return trained, lambda n: toy_stream(world, n=n, noise=2.5, seed=3).x.reshape(-1, 60, 1)


@pytest.fixture(scope="module")
def fused_keel(toy, tmp_path_factory):
    return export_fused(toy[0], tmp_path_factory.mktemp("keel") / "fused.onnx", Keel())


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"surprise": 0.0, "rate": 0.0, "guard": False, "prototypes": 0.0, "penalty": 0.2},
        {"doubt": 0.0, "temper": 1.0, "align": 0.0, "debias": 0.0, "patience": 3.0, "gap_half_life_s": None},
    ],
    ids=str,
)
def test_fused_keel_agrees_with_the_adapter_through_gaps(tmp_path, toy, fields):
    trained, stream = toy
    adapter, x = Keel(**fields).bind(trained), stream(1000)
    session = FusedSession(export_fused(trained, tmp_path / "fused.onnx", Keel(**fields)))
    p = assert_agreement_through_gaps(session, adapter, x, atol=2e-5)
    np.testing.assert_allclose(p, trained.encode(x)[1], rtol=0, atol=1e-6)


def assert_agreement_through_gaps(session, adapter, x, atol):
    """Step both over four pieces with gaps between them, compare predictions and states, return p of the session."""
    pieces, raw = np.split(x, 4), []
    for number, piece in enumerate(pieces):
        for runner in (adapter, session):
            runner.gap(20.0 * number)
        q, p, surprise = run(session, piece)
        expected = adapter.step(piece)
        np.testing.assert_allclose(q, expected, rtol=0, atol=atol)
        np.testing.assert_array_equal(q.argmax(axis=1), expected.argmax(axis=1))
        np.testing.assert_allclose(surprise, adapter.trace()["surprise"], rtol=0, atol=5e-5)
        raw.append(p)
    for name, value in adapter.state().items():
        np.testing.assert_allclose(session.state()[name], value, rtol=1e-5, atol=1e-3, err_msg=name)
    return np.concatenate(raw)


@pytest.mark.parametrize("windows", [4_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_fused_keel_stays_exact_on_a_long_stream(fused_keel, toy, windows):
    trained, stream = toy
    x = stream(windows)
    q = run(FusedSession(fused_keel), x)[0]
    expected = Keel().bind(trained).step(x)
    np.testing.assert_allclose(q, expected, rtol=0, atol=1e-4)
    other = q.argmax(axis=1) != expected.argmax(axis=1)  # float32 may resolve a tie differently
    tied = np.diff(np.sort(expected, axis=1)[:, -2:], axis=1)[:, 0] < 2e-4
    assert not (other & ~tied).any()
    assert other.sum() <= 1


def test_fused_keel_without_statistics(tmp_path, source, windows):
    session = FusedSession(export_fused(source, tmp_path / "fused.onnx", Keel(), shape=SHAPE))
    np.testing.assert_allclose(run(session, windows)[0], Keel().bind(source).step(windows), rtol=0, atol=5e-5)


def test_keel_moves_between_graph_and_adapter(fused_keel, toy):
    trained, stream = toy
    x, adapter = stream(60), Keel().bind(trained)
    session = FusedSession(fused_keel)
    for name, value in adapter.state().items():
        np.testing.assert_allclose(session.state()[name], value, rtol=1e-7, err_msg=name)
    run(session, x[:30])
    adapter.restore(session.state())
    np.testing.assert_allclose(run(session, x[30:45])[0], adapter.step(x[30:45]), rtol=0, atol=2e-5)
    session.restore(adapter.state())
    np.testing.assert_allclose(run(session, x[45:])[0], adapter.step(x[45:]), rtol=0, atol=2e-5)
    with pytest.raises(ValueError, match="frequencies"):
        session.restore({**adapter.state(), "frequencies": np.ones(3)})


# --- keel-norm ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoder", "fields"),
    [
        ("cnn", {}),
        ("cnn", {"tolerance": 0.1, "scaled": True}),
        pytest.param("resnet", {"tolerance": 0.0, "anchor": 20.0, "gap_half_life_s": None}, marks=pytest.mark.long),
        pytest.param("resnet", {"tolerance": 0.0, "layers": 2, "confident": 0.6}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_fused_keel_norm_agrees_with_the_adapter_through_gaps(tmp_path, encoder, fields):
    source, x = toy_network(encoder), 1.5 * toy_stream(n=400).x + np.float32(1)
    adapter = KeelNorm(**fields).bind(source)
    session = FusedSession(export_fused(source, tmp_path / "fused.onnx", KeelNorm(**fields)))
    for name, value in adapter.state().items():
        np.testing.assert_allclose(session.state()[name], value, rtol=1e-6, err_msg=name)
    assert_agreement_through_gaps(session, adapter, x, atol=5e-5)


@pytest.fixture(scope="module")
def fused_keel_norm(tmp_path_factory):
    return export_fused(toy_network(), tmp_path_factory.mktemp("norm") / "fused.onnx", KeelNorm(tolerance=0.0))


def test_keel_norm_moves_between_graph_and_adapter(fused_keel_norm):
    x, adapter = toy_stream(n=60).x + np.float32(1), KeelNorm(tolerance=0.0).bind(toy_network())
    session = FusedSession(fused_keel_norm)
    run(session, x[:30])
    adapter.restore(session.state())
    np.testing.assert_allclose(run(session, x[30:45])[0], adapter.step(x[30:45]), rtol=0, atol=2e-5)
    session.restore(adapter.state())
    np.testing.assert_allclose(run(session, x[45:])[0], adapter.step(x[45:]), rtol=0, atol=2e-5)
    with pytest.raises(ValueError, match="moments"):
        session.restore({**adapter.state(), "moments": np.ones((2, 5, 3))})


def test_zeros_start_a_new_wearer_of_keel_norm(fused_keel_norm):
    session, x = FusedSession(fused_keel_norm), toy_stream(n=5).x
    expected = run(session, x)[0]
    session.restore({name: np.zeros_like(value) for name, value in session.state().items()})
    np.testing.assert_array_equal(run(session, x)[0], expected)
    facts = json.loads({entry.key: entry.value for entry in onnx.load(fused_keel_norm).metadata_props}[FUSED])
    assert (facts["method"], facts["state_version"], facts["state"][-2:]) == ("keel-norm", 1, ["weights", "moments"])
    with pytest.raises(ValueError, match="fused graph that includes the adaptation"):
        OnnxSource(fused_keel_norm)


def test_keel_norm_is_not_fused_without_batch_normalisation(tmp_path):
    with pytest.raises(ValueError, match=r"plain Keel.*export with the method keel"):
        export_fused(toy_network("transformer"), tmp_path / "fused.onnx", KeelNorm())


def test_the_examples_of_the_docs_run(tmp_path, toy, capsys, monkeypatch):
    from typer.testing import CliRunner

    from sight.cli import app
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
    assert (facts["method"], facts["state_version"], facts["params"]["debias"]) == ("keel", 2, 4.0)
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
    monkeypatch.setattr("sight.sources.torch_to_onnx.strip_metadata", lambda model: model)
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


@pytest.mark.real
@pytest.mark.parametrize("method", [SIGHT(variant="authors"), Keel()], ids=["authors", "keel"])
def test_four_implementations_agree_on_a_real_stream(tmp_path, hapt, monkeypatch, method):
    trained, path, x, _ = hapt
    exported = OnnxSource(path)
    predictions = {"torch": method.clone().bind(trained).step(x)}
    for name in {"numpy", choose(type(method), np.float32).name}:
        monkeypatch.setenv("SIGHT_KERNEL", name)
        predictions[name] = method.clone().bind(exported).step(x)
    predictions["fused"] = run(FusedSession(export_fused(trained, tmp_path / "fused.onnx", method)), x)[0]
    predictions["step in torch"] = torch_step(trained, method, x[:200])
    for name, q in predictions.items():
        expected = predictions["numpy"][: len(q)]
        np.testing.assert_allclose(q, expected, rtol=0, atol=5e-5, err_msg=name)
        np.testing.assert_array_equal(q.argmax(axis=1), expected.argmax(axis=1), err_msg=name)


def torch_step(source, method, x):
    step = resolve(method.fused_step)(source.network, method.clone().bind(source))
    state = [torch.from_numpy(zeros) for zeros in method.layout.graph_zeros(*source.weight.shape).values()]
    rows = []
    with torch.inference_mode():
        for window in x:
            q, _, _, *state = step(torch.from_numpy(window[None]), *state)
            rows.append(q[0].numpy())
    return np.array(rows)


@pytest.mark.real
def test_online_and_offline_are_equal_bit_for_bit(hapt):
    _, path, x, _ = hapt
    adapter = SIGHT().bind(OnnxSource(path))
    whole = adapter.step(x[:300])
    single = np.concatenate([adapter.reset().step(x[:1]), *(adapter.step(x[t : t + 1]) for t in range(1, 300))])
    np.testing.assert_array_equal(whole, single)


@pytest.mark.real
def test_quantisation_keeps_accuracy_on_real_data(tmp_path, hapt):
    trained, path, x, label = hapt
    small = OnnxSource(quantise(path, tmp_path / "int8.onnx", x[::5]))
    assert small.path.stat().st_size < 0.6 * path.stat().st_size
    labelled = label >= 0
    scores = [
        macro_f1_all(confusion(label[labelled], source.encode(x[labelled])[1].argmax(axis=1), 6))
        for source in (trained, small)
    ]
    assert scores[1] > scores[0] - 0.03
    assert small.classes == trained.classes
    exact, clipped = (saturation.run(small.path, x[::25], saturate) for saturate in (False, True))
    np.testing.assert_array_equal(exact, clipped)  # as on a processor without VNNI
