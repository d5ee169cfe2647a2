"""Models and recordings for tests of live sessions."""

from __future__ import annotations

from functools import cache

import numpy as np

from sight.recordings.signal import prepare
from sight.testing import ToySource, toy_card
from sight.types import Recording

CHANNELS = ("x", "y", "z")


def toy_source(rate_hz=10.0, stride_s=1.0, **fields):
    """Return a toy source with a card."""
    source = ToySource()
    source.card = toy_card(rate_hz=rate_hz, window_s=source.shape[1] / rate_hz, stride_s=stride_s, **fields)
    return source


@cache
def exported_model(folder):
    """Export a network with a card as ONNX, which encodes windows one by one; once for all tests."""
    from sight.models.export.onnx import export_onnx
    from sight.testing import toy_network

    return export_onnx(toy_network("cnn"), folder / "live.onnx")


def make_recording(rate_hz, seed=0, n=700):
    """Return a recording with jitter, a hole, gaps, bursts, repeated, late and non-finite samples."""
    rng = np.random.default_rng(seed)
    time_s = 100.0 + np.arange(n) / rate_hz + rng.uniform(-0.2, 0.2, n) / rate_hz
    time_s[n // 3 :] += 7.0
    time_s[n // 2 :] += 3 / rate_hz
    time_s[2 * n // 3 :] += 900.0
    time_s[n // 5] = time_s[n // 5 - 1]
    time_s[n // 4] = time_s[n // 4 - 9]
    time_s[n // 6 : n // 6 + 4] = time_s[n // 6] + np.arange(4) / (9 * rate_hz)
    level = np.repeat(rng.normal(size=(n // 50 + 1, 3)), 50, axis=0)[:n]
    values = (level + 0.5 * rng.normal(size=(n, 3))).astype(np.float32)
    values[n // 7] = np.nan
    values[n // 8, 1] = np.inf
    return Recording(values=values, time_s=time_s, channels=CHANNELS, unit="g", rate_hz=rate_hz)


def offline_windows(recording, source, **fields):
    """Return the windows that offline processing cuts for a source."""
    card = source.card
    return prepare(recording, rate_hz=card.rate_hz, window_s=card.window_s, stride_s=card.stride_s, **fields)


def random_chunks(n, seed):
    """Split n samples at random: empty chunks, single samples, long ones."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.integers(0, n + 1, rng.integers(0, 60)))
    return [slice(a, b) for a, b in zip([0, *edges], [*edges, n], strict=True)]


def push_all(session, recording, chunks):
    """Push a recording in chunks, flush, and return all events."""
    events = []
    for chunk in chunks:
        events += session.push(recording.values[chunk], recording.time_s[chunk])
    return events + session.flush()


def assert_same_predictions(events, result):
    """Compare events with an offline result, bit for bit."""
    windows = result.windows
    assert [event.window for event in events] == list(range(len(windows)))
    assert [event.time_s for event in events] == windows.time_s.tolist()
    assert [event.gap_s for event in events] == windows.gap_before_s.tolist()
    np.testing.assert_array_equal(np.stack([event.p for event in events]), result.p)
    np.testing.assert_array_equal(np.stack([event.q for event in events]), result.q)
    for name, values in result.trace.items():
        assert [event.diagnostics[name] for event in events] == values.astype(float).tolist()
