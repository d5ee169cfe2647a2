"""Recordings for the tests of the signal steps."""

from __future__ import annotations

import numpy as np

from sight.types import Recording


def recording(values, time_s, rate_hz, labels=None, **fields):
    """Return a recording of one to six channels in g."""
    values = np.asarray(values, np.float32)
    values = values[:, None] if values.ndim == 1 else values
    names = ("x", "y", "z", "gx", "gy", "gz")[: values.shape[1]]
    fields = {"channels": names, "unit": "g"} | fields
    return Recording(values=values, time_s=np.asarray(time_s, float), rate_hz=rate_hz, labels=labels, **fields)


def irregular_recording(rate_hz, seed=0, n=1500):
    """Return a recording with jitter, jumps, bursts, gaps, repeated and decreasing times, and NaN."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(n) / rate_hz + rng.uniform(-0.2, 0.2, n) / rate_hz
    time_s[n // 4 :] += 0.4 / rate_hz
    time_s[n // 3 :] += 3.0
    time_s[n // 2 :] += 20.0
    time_s[2 * n // 3 :] += 4.3 / rate_hz
    burst = n // 5
    fast = time_s[burst] + np.arange(1, 9) / (10 * rate_hz)
    time_s = np.concatenate((time_s[: burst + 1], fast, time_s[burst + 1 :]))
    time_s[700] = time_s[699]
    time_s[800] = time_s[790]
    values = rng.normal(size=(len(time_s), 3)).astype(np.float32)
    values[600:602] = np.nan
    values[900, 1] = np.nan
    return recording(values, time_s, rate_hz)
