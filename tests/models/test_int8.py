"""Quantised models: the same predictions on processors with and without VNNI."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

import onnxruntime.quantization

from sight.models.export.int8 import quantise
from sight.models.export.onnx import export_onnx
from sight.models.onnx import OnnxSource, open_session
from tests.helpers import saturation
from tests.helpers.networks import source, windows


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return export_onnx(source(), tmp_path_factory.mktemp("plain") / "plain.onnx")


@pytest.fixture(scope="module")
def small(plain):
    return quantise(plain, plain.with_name("int8.onnx"), windows()[0])


@pytest.fixture
def full_range(plain, monkeypatch):
    """Quantise with all 8 bits of the weights, as versions before 0.2 did."""
    original = onnxruntime.quantization.quantize_static
    full = lambda *args, **options: original(*args, **{**options, "reduce_range": False})  # noqa: E731
    monkeypatch.setattr(onnxruntime.quantization, "quantize_static", full)
    return quantise(plain, plain.with_name("full.onnx"), windows()[0])


def test_only_the_first_convolution_stays_float32(small):
    assert len(saturation.conv_weights(small)) == 2  # of the three of the 1D-CNN


def test_no_pair_of_products_can_saturate(small, full_range):
    assert all(saturation.largest_pair(weight) <= saturation.LARGEST for weight in saturation.conv_weights(small))
    assert all(saturation.largest_pair(weight) > saturation.LARGEST for weight in saturation.conv_weights(full_range))


def test_saturating_convolutions_give_the_same_predictions(small, full_range):
    x = windows(n=24, seed=5)[0]
    exact, clipped = (saturation.run(small, x, saturate) for saturate in (False, True))
    np.testing.assert_array_equal(exact, clipped)
    np.testing.assert_allclose(exact, OnnxSource(small).encode(x)[1], atol=0.02)  # ties may round differently
    exact, clipped = (saturation.run(full_range, 2 * x, saturate) for saturate in (False, True))
    assert np.abs(exact - clipped).max() > 0.01


def test_sessions_compute_exactly_for_full_range_files_too(full_range):
    options = open_session(full_range).get_session_options()
    assert options.get_session_config_entry("session.x64quantprecision") == "1"
