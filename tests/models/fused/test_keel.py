"""Keel as a fused graph: it agrees with the adapter through gaps and on long streams, and exchanges states with it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from sight.methods.keel import Keel
from sight.models.export.fused import export_fused
from sight.models.fused_model import FusedSession
from tests.models.fused.fused_helpers import SHAPE, assert_agreement_through_gaps, assert_states_move, run


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"surprise": 0.0, "rate": 0.0, "prototypes": 0.0, "penalty": 0.2},
        {"temper": 1.0, "align": 0.0, "debias": 0.0, "patience": 3.0, "gap_half_life_s": None},
    ],
    ids=str,
)
def test_fused_keel_agrees_with_the_adapter_through_gaps(tmp_path, toy, fields):
    trained, stream = toy
    adapter, x = Keel(**fields).bind(trained), stream(1000)
    session = FusedSession(export_fused(trained, tmp_path / "fused.onnx", Keel(**fields)))
    p = assert_agreement_through_gaps(session, adapter, x, atol=2e-5)
    np.testing.assert_allclose(p, trained.encode(x)[1], rtol=0, atol=1e-6)


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
    assert_states_move(session, adapter, x)
    with pytest.raises(ValueError, match="frequencies"):
        session.restore({**adapter.state(), "frequencies": np.ones(3)})
