"""Encoders in C: features and probabilities of the model in float32, and of its 8-bit version in int8."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from benchmarks.device.host_library import Library  # noqa: E402

import sight  # noqa: E402
from sight.models.export.c import export_c  # noqa: E402
from sight.models.export.c.layers import Signal  # noqa: E402
from sight.models.export.c.memory_plan import order_layers, place_signals  # noqa: E402
from sight.models.export.c.onnx_layers import read_encoder  # noqa: E402
from sight.models.export.int8 import quantise, store_ranges  # noqa: E402
from sight.models.export.onnx import export_onnx  # noqa: E402
from sight.models.onnx import OnnxSource, random_windows  # noqa: E402
from tests.helpers.networks import source as make_source, windows  # noqa: E402

#: Odd after each of the strides of both networks, so that every kernel meets the end of a signal.
LENGTH = 131


def assert_same(c, source, x):
    z, p = c.encode(x)
    expected_z, expected_p = source.encode(x)
    np.testing.assert_allclose(z, expected_z, rtol=0, atol=1e-5 * max(1, np.abs(expected_z).max()))
    np.testing.assert_allclose(p, expected_p, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(p.argmax(axis=1), expected_p.argmax(axis=1))


@pytest.fixture(scope="module", params=["cnn", "resnet"])
def exported(request, tmp_path_factory):
    """Return a network that fits synthetic windows of an odd length, as an exported file, and such windows."""
    path = tmp_path_factory.mktemp(request.param) / "plain.onnx"
    return OnnxSource(export_onnx(make_source(request.param, length=LENGTH), path)), *windows(
        length=LENGTH, n=200, seed=6
    )


def test_trained_networks_are_the_same_in_c(tmp_path, exported):
    source, x, _ = exported
    assert_same(Library(export_c(source, tmp_path / "c")), source, x)


@pytest.mark.parametrize("name", ["waist", "wrist-18"])
def test_bundled_models_are_the_same_in_c(tmp_path, name):
    source = sight.load(name)
    assert_same(Library(export_c(source, tmp_path / "c")), source, random_windows(source.card, 40, source.shape))


def test_missing_values_are_filled_as_in_training(tmp_path):
    source = make_source("resnet", length=50)
    card = dataclasses.replace(source.card, mean=(0.5, 0.0, 1.0), std=(2.0, 1.0, 0.5), fill=(0.5, -1.0, 2.0))
    network = sight.registry.get("encoders", "resnet")(**card.encoder_args)
    network.load_state_dict(source.network.state_dict())
    network.normalise(card.mean, card.std, card.fill)
    filled = type(source)(network, classes=source.classes, card=card)
    x = windows(length=50, n=20, seed=6)[0]
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    assert_same(Library(export_c(filled, tmp_path / "c")), filled, x)


class Own(torch.nn.Module):
    """Network of somebody else: channels that are no multiple of four, no batch normalisation, a shared convolution."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv1d(2, 6, 4, stride=3)
        self.again = torch.nn.Conv1d(6, 6, 3, padding=1)
        self.pool = torch.nn.MaxPool1d(3, stride=2)
        self.head = torch.nn.Linear(6, 3)

    def features(self, x):
        x = self.again(self.first(x).relu()).relu()
        return self.pool(self.again(x)).mean(dim=2)

    def forward(self, x):
        return self.head(self.features(x))


def test_a_network_of_somebody_else(tmp_path):
    torch.manual_seed(0)
    source = sight.wrap(Own().eval(), encoder="features", head="head", classes=("a", "b", "c"))
    x = np.random.default_rng(0).normal(size=(20, 2, 41)).astype(np.float32)
    path = export_onnx(source, tmp_path / "own.onnx", shape=(2, 41))
    assert_same(Library(export_c(OnnxSource(path), tmp_path / "c", method="sticky")), source, x)
    with pytest.raises(ValueError, match="multiple of four"):
        export_c(OnnxSource(path), tmp_path / "small", method="sticky", int8=x)


def test_other_encoders_are_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"Expected an encoder of convolutions.*--adapter-only"):
        export_c(make_source("transformer"), tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_int8_agrees_with_the_quantised_graph(tmp_path, exported):
    source, x, label = exported
    c = Library(export_c(source, tmp_path / "c", int8=x))
    graph = OnnxSource(quantise(source.path, tmp_path / "small.onnx", x))
    (z, p), (graph_z, graph_p), (_, exact) = c.encode(x), graph.encode(x), source.encode(x)
    assert np.abs(z - graph_z).max() < 0.06 * np.abs(graph_z).max()
    assert (p.argmax(axis=1) == graph_p.argmax(axis=1)).mean() >= 0.97
    scores = [(rows.argmax(axis=1) == label).mean() for rows in (exact, p)]
    assert abs(scores[0] - scores[1]) <= 0.01


def test_stored_ranges_give_the_same_bytes_as_the_windows_they_came_from(tmp_path, exported):
    source, x, _ = exported
    path = tmp_path / "plain.onnx"
    path.write_bytes(source.path.read_bytes())
    with pytest.raises(ValueError, match="contains no ranges"):
        quantise(path, tmp_path / "none.onnx")
    expected = onnx.load(quantise(path, tmp_path / "given.onnx", x)).graph
    store_ranges(path, x)
    assert onnx.load(quantise(path, tmp_path / "stored.onnx")).graph == expected
    for kind, int8 in (("stored", "stored"), ("given", x)):
        export_c(OnnxSource(path), tmp_path / kind, int8=int8)
    assert (tmp_path / "stored" / "encoder.c").read_text() == (tmp_path / "given" / "encoder.c").read_text()


def test_no_signal_is_written_over_before_its_last_use(exported):
    model = read_encoder(exported[0].graph())
    model.layers = order_layers(model)
    places, size = place_signals(model)

    def span(signal: Signal) -> set[int]:
        return set(range(places[signal], places[signal] + signal.nbytes))

    for at, layer in enumerate(model.layers):
        assert max(span(layer.output)) < size
        later = {signal for other in model.layers[at + 1 :] for signal in other.inputs} | {model.last, layer.input}
        known = [model.input, *(earlier.output for earlier in model.layers[:at])]
        assert all(span(layer.output).isdisjoint(span(signal)) for signal in known if signal in later)
