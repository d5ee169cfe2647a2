"""Run fused sessions, and compare them with adapters."""

from __future__ import annotations

import numpy as np

SHAPE = (2, 40)


def run(session, windows):
    rows = [session.step(window) for window in windows]
    return tuple(np.array(column) for column in zip(*rows, strict=True))


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


def assert_states_move(session, adapter, x):
    """Move a wearer from the session to the adapter and back; both predict the same after each move."""
    run(session, x[:30])
    adapter.restore(session.state())
    np.testing.assert_allclose(run(session, x[30:45])[0], adapter.step(x[30:45]), rtol=0, atol=2e-5)
    session.restore(adapter.state())
    np.testing.assert_allclose(run(session, x[45:])[0], adapter.step(x[45:]), rtol=0, atol=2e-5)
