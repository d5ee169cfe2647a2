"""Chunks are valid by construction, and checked against the limits."""

from __future__ import annotations

import numpy as np
import pytest

from sight.serve.chunks import Chunk, check_limits
from sight.serve.errors import Refused
from sight.serve.limits import Limits

GOOD = np.zeros((4, 3), np.float32)


@pytest.mark.parametrize(
    ("values", "options", "reason"),
    [
        (np.zeros(4), {}, "shape"),
        (np.zeros((0, 3)), {}, "shape"),
        (np.zeros((4, 0)), {}, "shape"),
        (np.zeros((2, 3, 3)), {}, "shape"),
        (GOOD, {"time_s": np.arange(3.0)}, "shape"),
        (GOOD, {"time_s": np.zeros((4, 1))}, "shape"),
        (GOOD, {"seq": 0}, "seq"),
        (GOOD, {"seq": 2**53 + 1}, "seq"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(values, options, reason):
    with pytest.raises(Refused) as raised:
        Chunk("anna", **{"seq": 1, "values": values, **options})
    assert raised.value.reason == reason


@pytest.mark.parametrize(
    ("values", "options", "reason"),
    [
        (np.zeros((20_001, 3)), {}, "samples"),
        (np.full((4, 3), 2e9), {}, "values"),
        (np.full((4, 3), np.nan), {}, "values"),
        (np.full((4, 3), 1e300), {}, "values"),
        (GOOD, {"time_s": np.full(4, np.inf)}, "time"),
        (GOOD, {"t0": float("nan")}, "time"),
        (GOOD, {"t0": -1.8e12}, "time"),
    ],
)
def test_limits_are_enforced(values, options, reason):
    chunk = Chunk("anna", 1, values, **options)
    with pytest.raises(Refused) as raised:
        check_limits(chunk, Limits())
    assert raised.value.reason == reason


def test_samples_are_float32_and_times_float64():
    chunk = check_limits(Chunk("anna", None, [[0.1, 0.2], [0.3, 0.4]], [0, 1]), Limits())
    assert (chunk.values.dtype, chunk.time_s.dtype) == (np.float32, np.float64)
