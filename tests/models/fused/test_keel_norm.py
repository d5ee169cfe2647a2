"""Keel-norm as a fused graph: it agrees with the adapter through gaps, and exchanges states with it."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from sight.methods.keel_norm import KeelNorm  # noqa: E402
from sight.models.export.fused import export_fused  # noqa: E402
from sight.models.fused_model import FUSED, FusedSession  # noqa: E402
from sight.models.onnx import OnnxSource  # noqa: E402
from sight.testing import toy_network, toy_stream  # noqa: E402
from tests.models.fused.fused_helpers import assert_agreement_through_gaps, assert_states_move, run  # noqa: E402


@pytest.mark.parametrize(
    ("encoder", "fields"),
    [
        ("cnn", {}),
        ("cnn", {"bound": 0.1}),
        pytest.param("resnet", {"anchor": 20.0, "gap_half_life_s": None}, marks=pytest.mark.long),
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
    return export_fused(toy_network(), tmp_path_factory.mktemp("norm") / "fused.onnx", KeelNorm())


def test_keel_norm_moves_between_graph_and_adapter(fused_keel_norm):
    x, adapter = toy_stream(n=60).x + np.float32(1), KeelNorm().bind(toy_network())
    session = FusedSession(fused_keel_norm)
    assert_states_move(session, adapter, x)
    with pytest.raises(ValueError, match="moments"):
        session.restore({**adapter.state(), "moments": np.ones((2, 3))})


def test_zeros_start_a_new_wearer_of_keel_norm(fused_keel_norm):
    session, x = FusedSession(fused_keel_norm), toy_stream(n=5).x
    expected = run(session, x)[0]
    session.restore({name: np.zeros_like(value) for name, value in session.state().items()})
    np.testing.assert_array_equal(run(session, x)[0], expected)
    facts = json.loads({entry.key: entry.value for entry in onnx.load(fused_keel_norm).metadata_props}[FUSED])
    assert (facts["method"], facts["state_version"], facts["state"][-1]) == ("keel-norm", 2, "moments")
    with pytest.raises(ValueError, match="fused graph that includes the adaptation"):
        OnnxSource(fused_keel_norm)


def test_keel_norm_is_not_fused_without_batch_normalisation(tmp_path):
    with pytest.raises(ValueError, match=r"plain Keel.*export with the method keel"):
        export_fused(toy_network("transformer"), tmp_path / "fused.onnx", KeelNorm())
