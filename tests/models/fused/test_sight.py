"""SIGHT as a fused graph: it agrees with the adapter, exchanges states with it, and refuses invalid input."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from sight.methods.sight import SIGHT
from sight.models.export.fused import export_fused
from sight.models.export.onnx import export_onnx
from sight.models.fused_model import FusedSession
from tests.models.fused.fused_helpers import SHAPE, run


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
