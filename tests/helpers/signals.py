"""Recordings for the tests of the signal steps."""

from __future__ import annotations

import numpy as np

from sight.types import Recording


def recording(values, time_s, rate_hz, labels=None, **fields):
    """A recording of one to six channels in g."""
    values = np.asarray(values, np.float32)
    values = values[:, None] if values.ndim == 1 else values
    names = ("x", "y", "z", "gx", "gy", "gz")[: values.shape[1]]
    fields = {"channels": names, "unit": "g"} | fields
    return Recording(values=values, time_s=np.asarray(time_s, float), rate_hz=rate_hz, labels=labels, **fields)
