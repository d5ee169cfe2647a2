"""The bundled models in every form: fused graph, int8 and C source, from the files that the package contains."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

from benchmarks.device.host_library import Library

import sight
from sight.models.bundled import names
from sight.models.fused_model import FusedSession
from sight.models.onnx import random_windows
from sight.registry import method
from tests.helpers.commands import run_sight

#: One model is enough in the short tests: all three have the same network.
MODELS = [pytest.param(name, marks=[pytest.mark.long] if name != "wrist-18" else []) for name in names()]


@pytest.fixture(scope="module")
def given(request):
    """Return a bundled model, and windows that resemble its training data."""
    source = sight.load(request.param)
    return request.param, source, random_windows(source.card, 60, source.shape)


@pytest.mark.parametrize("given", MODELS, indirect=True)
@pytest.mark.parametrize("name", ["keel", "sight"])
def test_a_fused_graph_predicts_what_the_method_predicts(tmp_path, given, name):
    pytest.importorskip("torch")
    model, source, x = given
    run_sight("export", model, "--fused", "--method", name, "-o", tmp_path / "fused.onnx")
    session = FusedSession(tmp_path / "fused.onnx")
    refined = np.array([session.step(window)[0] for window in x])
    expected = method(name).bind(source).step(x)
    np.testing.assert_allclose(refined, expected, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(refined.argmax(axis=1), expected.argmax(axis=1))


@pytest.mark.parametrize("given", MODELS, indirect=True)
def test_int8_needs_no_recording_and_c_agrees_with_the_graph(tmp_path, given):
    model, source, x = given
    run_sight("export", model, "--int8", "stored", "-o", tmp_path / "small.onnx")
    assert (tmp_path / "small.onnx").stat().st_size < 0.5 * source.path.stat().st_size
    run_sight("export", model, "--c", "--int8", "stored", "-o", tmp_path / "c")
    small, c = sight.load(tmp_path / "small.onnx").encode(x)[1], Library(tmp_path / "c").encode(x)[1]
    assert (small.argmax(axis=1) == c.argmax(axis=1)).mean() >= 0.95
    assert np.abs(small - c).mean() < 0.01


def test_a_quantised_model_cannot_be_fused(tmp_path):
    pytest.importorskip("torch")
    run_sight("export", "waist", "--int8", "stored", "-o", tmp_path / "small.onnx")
    shown = run_sight("export", tmp_path / "small.onnx", "--fused", "-o", tmp_path / "fused.onnx", code=2).output
    assert "export the float32 model" in " ".join(shown.split())
    assert not (tmp_path / "fused.onnx").exists()
