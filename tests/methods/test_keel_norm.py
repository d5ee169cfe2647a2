"""Keel with moved normalisation, against a slow reference and against plain Keel."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sight import wrap  # noqa: E402 - needs torch
from sight.methods.keel import Keel  # noqa: E402
from sight.methods.keel_norm import KeelNorm  # noqa: E402
from sight.models.export.onnx import export_onnx  # noqa: E402
from sight.models.onnx import OnnxSource  # noqa: E402
from sight.models.source_statistics import source_stats  # noqa: E402
from sight.models.torch import TorchSource  # noqa: E402
from sight.testing import ToySource, toy_network, toy_stream  # noqa: E402


@cache
def network(encoder="cnn"):
    return toy_network(encoder)


def batch_norms(module):
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, torch.nn.BatchNorm1d)}


def slow_reference(source, x, anchor, bound):
    """Predict window by window with sums, hooks and copied statistics."""
    module = TorchSource(copy.deepcopy(source.module()), classes=source.classes, stats=source.stats)
    layers, seen = batch_norms(module.network), {}
    for name, layer in layers.items():
        layer.register_forward_pre_hook(lambda _, inputs, name=name: seen.update({name: inputs[0].numpy()[0]}))
    trained = {
        name: (layer.running_mean.numpy().copy(), layer.running_var.numpy().copy()) for name, layer in layers.items()
    }
    sums = {name: anchor * np.stack((mean, var + mean**2)) for name, (mean, var) in trained.items()}
    keel, rows = Keel().bind(source), []
    for t, window in enumerate(x):
        share = keel.strength() / source.stats.subjects if t else 0.0
        for name, layer in layers.items():
            (mean, square), (old, old_var) = sums[name] / (anchor + t), trained[name]
            shift = np.clip((mean - old) / np.sqrt(old_var), -bound, bound)
            ratio = np.exp(np.clip(np.log((square - mean**2) / old_var), -bound, bound))
            layer.running_mean[:] = torch.from_numpy(old + share * shift * np.sqrt(old_var))
            layer.running_var[:] = torch.from_numpy(old_var * (1 + share * (ratio - 1)))
        rows.append(keel.refine(*module.encode(window[None]))[0])
        for name, values in seen.items():
            sums[name] += np.stack([values.mean(axis=1), (values**2).mean(axis=1)])
    return np.array(rows)


@pytest.mark.parametrize(("encoder", "bound"), [("cnn", 0.5), ("cnn", 0.1), ("resnet", 0.5)])
def test_predictions_equal_a_slow_reference(encoder, bound):
    x = toy_stream(n=60).x + 0.5
    q = KeelNorm(anchor=20, bound=bound).bind(network(encoder)).step(x)
    np.testing.assert_allclose(q, slow_reference(network(encoder), x, 20, bound), atol=1e-3)
    assert np.abs(q - Keel().bind(network(encoder)).step(x)).max() > 0.01


@pytest.mark.parametrize("encoder", ["cnn", "resnet"])
def test_the_first_window_is_keels_bit_for_bit(encoder):
    x = toy_stream(n=1).x
    assert (KeelNorm().bind(network(encoder)).step(x) == Keel().bind(network(encoder)).step(x)).all()


def many_subjects(subjects):
    source = copy.copy(network())
    source.stats = replace(source.stats, subjects=subjects)
    return source


def test_models_of_many_subjects_hardly_move_and_of_unknown_numbers_not_at_all():
    x = toy_stream(n=60).x + 0.5
    one, many = (
        np.abs(KeelNorm().bind(many_subjects(n)).step(x) - Keel().bind(many_subjects(n)).step(x)).max() for n in (1, 50)
    )
    assert many < one / 5
    unknown = KeelNorm().bind(many_subjects(0))
    assert (unknown.step(x) == Keel().bind(many_subjects(0)).step(x)).all()
    assert "number of training subjects is unknown" in unknown.notes()[0]


def test_raw_probabilities_are_those_of_the_moved_model():
    x = toy_stream(n=30).x + 0.5
    adapter, plain = KeelNorm().bind(network()), network().encode(x)[1]
    adapter.step(x)
    np.testing.assert_allclose(adapter.raw()[0], plain[0], atol=1e-6)
    assert np.abs(adapter.raw() - plain).max() > 1e-3
    with pytest.raises(NotImplementedError, match="does not encode"):
        Keel().bind(network()).raw()


def test_a_moved_sensor_is_corrected():
    """With an offset on one axis, Keel loses accuracy that the moved statistics restore."""
    stream = toy_stream(n=300)
    x = stream.x.copy()
    x[:, 0] += 1.5
    late, accuracies = slice(100, None), []
    for method in (Keel(), KeelNorm()):
        labels = method.bind(network()).step(x).argmax(axis=1)
        accuracies.append(float((labels == stream.label)[late].mean()))
    assert accuracies[1] > accuracies[0] + 0.05, accuracies


def test_the_cut_changes_no_bit():
    x = toy_stream(n=50).x + 0.5
    whole, cut = KeelNorm().bind(network()), KeelNorm().bind(network())
    pieces = np.concatenate([cut.step(x[t : t + 7]) for t in range(0, len(x), 7)])
    assert (whole.step(x) == pieces).all()
    assert all((whole.state()[key] == value).all() for key, value in cut.state().items())


def test_a_spike_changes_the_moments_by_a_bounded_amount():
    adapter = KeelNorm().bind(network())
    adapter.step(np.full((1, 3, 20), 1e12, np.float32))
    moved = np.abs(adapter.state()["moments"] - adapter.start)
    assert (moved <= (adapter.terms.highest - adapter.terms.lowest) / 100).all()
    assert np.isfinite(adapter.step(toy_stream(n=5).x)).all()


def test_state_is_small_and_a_gap_keeps_moments():
    adapter = KeelNorm().bind(toy_network(classes=12))
    adapter.step(toy_stream(ToySource(classes=12), n=10).x)
    before = adapter.state()
    adapter.gap(3600.0)
    after = adapter.state()
    assert (before["moments"] == after["moments"]).all()
    assert (before["belief"] != after["belief"]).any()
    assert sum(adapter.state_bytes().values()) <= 4 * 1024


def test_torch_sources_without_batch_normalisation_are_refined_by_keel():
    x, source = toy_stream(n=30).x, network("transformer")
    adapter = KeelNorm().bind(source)
    assert (adapter.step(x) == Keel().bind(source).step(x)).all()
    assert "plain Keel" in adapter.notes()[0]
    assert "surprise" in adapter.trace()
    assert KeelNorm().bind(network()).notes() == ()


def test_sources_without_a_network_are_refused(tmp_path):
    exported = OnnxSource(export_onnx(network(), tmp_path / "toy.onnx"))
    for source in (exported, ToySource()):
        with pytest.raises(TypeError, match="network"):
            KeelNorm().bind(source)


def test_wrapped_models_are_moved_by_their_own_layer_names():
    stream = toy_stream(n=40)
    source = wrap(network().network, encoder="features", head="head", classes=network().classes)
    source.stats = source_stats(source, stream.x, stream.label, subjects=1)
    assert set(source.norm_layers.widths) == {f"model.{name}" for name in batch_norms(network().network)}
    adapter = KeelNorm().bind(source)
    assert adapter.notes() == ()
    assert np.abs(adapter.step(stream.x + 1) - Keel().bind(source).step(stream.x + 1)).max() > 1e-3
