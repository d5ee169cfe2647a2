"""Keel with class-conditional normalisation, against a slow reference and against plain Keel."""

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
from sight.models.statistics import source_stats  # noqa: E402
from sight.models.torch import TorchSource  # noqa: E402
from sight.testing import ToySource, toy_network, toy_stream  # noqa: E402


@cache
def network(encoder="cnn"):
    return toy_network(encoder)


def batch_norms(module):
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, torch.nn.BatchNorm1d)}


def slow_reference(source, x, anchor, tolerance):
    """Predict window by window with sums, hooks and copied statistics."""
    module = TorchSource(copy.deepcopy(source.module()), classes=source.classes, stats=source.stats)
    layers, seen = batch_norms(module.network), {}
    for name, layer in layers.items():
        layer.register_forward_pre_hook(lambda _, inputs, name=name: seen.update({name: inputs[0].numpy()[0]}))
    trained = {name: (layer.running_mean.clone(), layer.running_var.clone()) for name, layer in layers.items()}
    start, prior, keel = source.stats.norms, source.stats.prior, Keel().bind(source)
    weights = np.zeros(len(prior))
    sums = {name: np.zeros(moments.shape) for name, moments in start.items()}
    rows = []
    for window in x:
        for name, layer in layers.items():
            mixed = (anchor * start[name] + sums[name]) / (anchor + weights)[:, None]
            (mean, square), (old, old_square) = prior @ mixed, prior @ start[name]
            var, old_var = square - mean**2, old_square - old**2
            shift, change = (mean - old) / np.sqrt(old_var), np.log(var / old_var)
            shift, change = (np.sign(v) * np.maximum(np.abs(v) - tolerance, 0) for v in (shift, change))
            layer.running_mean[:] = trained[name][0] + torch.from_numpy(shift * np.sqrt(old_var))
            layer.running_var[:] = trained[name][1] * torch.from_numpy(np.exp(change))
        rows.append(keel.refine(*module.encode(window[None]))[0])
        weights += rows[-1]
        for name, values in seen.items():
            moments = np.stack([values.mean(axis=1), (values**2).mean(axis=1)])
            sums[name] += rows[-1][:, None] * moments[:, None]
    return np.array(rows)


@pytest.mark.parametrize(("encoder", "tolerance"), [("cnn", 0.0), ("cnn", 0.1), ("resnet", 0.0)])
def test_predictions_equal_a_slow_reference(encoder, tolerance):
    x = toy_stream(n=60).x + 0.5
    q = KeelNorm(anchor=20, tolerance=tolerance).bind(network(encoder)).step(x)
    np.testing.assert_allclose(q, slow_reference(network(encoder), x, 20, tolerance), atol=1e-3)
    assert np.abs(q - Keel().bind(network(encoder)).step(x)).max() > 0.02


@pytest.mark.parametrize("encoder", ["cnn", "resnet"])
def test_the_first_window_is_keels_bit_for_bit(encoder):
    x = toy_stream(n=1).x
    assert (KeelNorm().bind(network(encoder)).step(x) == Keel().bind(network(encoder)).step(x)).all()


def test_without_confident_windows_it_is_keel():
    x = toy_stream(n=40).x
    adapter, keel = KeelNorm(confident=1.0).bind(network()), Keel().bind(network())
    plain = np.concatenate([keel.step(x[t : t + 1]) for t in range(len(x))])
    assert (adapter.step(x) == plain).all()
    assert not adapter.state()["weights"].any()


def test_a_moved_sensor_is_corrected():
    """With a gain and an offset on one axis, Keel loses accuracy that the moved statistics restore."""
    stream = toy_stream(n=300)
    x = stream.x.copy()
    x[:, 0] = 0.4 * x[:, 0] + 2.5
    keel, moved = (
        method.bind(network()).step(x).argmax(axis=1) for method in (Keel(), KeelNorm(anchor=10, tolerance=0))
    )
    late = slice(100, None)
    accuracies = [float((labels == stream.label)[late].mean()) for labels in (keel, moved)]
    assert accuracies[1] > accuracies[0] + 0.05, accuracies


def test_a_displacement_within_the_tolerance_changes_nothing():
    x = toy_stream(n=60).x
    keel = Keel().bind(network())
    plain = np.concatenate([keel.step(x[t : t + 1]) for t in range(len(x))])
    assert (KeelNorm(tolerance=2.0).bind(network()).step(x) == plain).all()
    assert (KeelNorm(tolerance=2.0, anchor=1.0).bind(network()).step(x + 20) != plain).any()


def test_the_cut_changes_no_bit_and_options_limit_the_change():
    x = toy_stream(n=50).x + 0.5
    source = network()
    whole, cut = KeelNorm(tolerance=0).bind(source), KeelNorm(tolerance=0).bind(source)
    pieces = np.concatenate([cut.step(x[t : t + 7]) for t in range(0, len(x), 7)])
    assert (whole.step(x) == pieces).all()
    assert all((whole.state()[key] == value).all() for key, value in cut.state().items())
    first = KeelNorm(layers=1, tolerance=0).bind(source)
    first.step(x)
    assert first.state()["moments"].shape == (2, 5, 64)
    assert (first.state()["moments"] != first.terms.start).any()
    scaled = KeelNorm(scaled=True, tolerance=0).bind(source)
    assert np.abs(scaled.step(x) - whole.reset().step(x)).max() > 1e-6


def test_a_spike_changes_the_moments_by_a_bounded_amount():
    adapter = KeelNorm().bind(network())
    adapter.step(np.full((1, 3, 20), 1e12, np.float32))
    moved = np.abs(adapter.state()["moments"] - adapter.terms.start)
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
    assert sum(adapter.state_bytes().values()) <= 41 * 1024


def test_torch_sources_without_moments_are_refined_by_keel():
    x = toy_stream(n=30).x
    plain = TorchSource(network().network, classes=network().classes, card=network().card)
    plain.stats = replace(network().stats, norms=None)
    for source in (network("transformer"), plain):
        adapter = KeelNorm().bind(source)
        assert (adapter.step(x) == Keel().bind(source).step(x)).all()
        assert "plain Keel" in adapter.notes()[0]
        assert "surprise" in adapter.trace()
    assert KeelNorm().bind(network()).notes() == ()


def test_sources_without_a_network_are_refused(tmp_path):
    exported = OnnxSource(export_onnx(network(), tmp_path / "toy.onnx"))
    assert exported.stats.norms is None
    for source in (exported, ToySource()):
        with pytest.raises(TypeError, match="network"):
            KeelNorm().bind(source)


def test_moments_of_another_network_are_refused():
    stats = replace(network().stats, norms={name: array[:, :, :2] for name, array in network().stats.norms.items()})
    source = TorchSource(network().network, classes=network().classes, stats=stats)
    with pytest.raises(ValueError, match="compute the statistics with this model"):
        KeelNorm().bind(source)


def test_wrapped_models_get_moments_by_their_own_layer_names():
    stream = toy_stream(n=40)
    source = wrap(network().network, encoder="features", head="head", classes=network().classes)
    source.stats = source_stats(source, stream.x, stream.label)
    assert set(source.stats.norms) == {f"model.{name}" for name in batch_norms(network().network)}
    adapter = KeelNorm(tolerance=0).bind(source)
    assert adapter.notes() == ()
    assert np.abs(adapter.step(stream.x + 1) - Keel().bind(source).step(stream.x + 1)).max() > 1e-3
