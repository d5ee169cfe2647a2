"""Chunks are valid by construction, and checked against the limits."""

from __future__ import annotations

import numpy as np
import pytest

from sight.apps.serve import limits
from sight.apps.serve.chunks import Chunk, check_limits
from sight.apps.serve.errors import Refused
from sight.apps.serve.limits import Limits
from sight.apps.serve.message_format import pack, unpack

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


def test_a_limit_is_above_zero():
    with pytest.raises(ValueError, match="message_bytes above 0"):
        Limits(message_bytes=0)


@pytest.mark.parametrize("name", ["../etc", "..", "", "a b", "a" * 65])
def test_a_name_that_is_not_valid_is_refused(name):
    assert limits.check_wearer("lab-07") == "lab-07"
    with pytest.raises(Refused, match="1 to 64 letters"):
        limits.check_wearer(name)


def test_a_rate_limiter_refills_with_time():
    now = [0.0]
    limiter = limits.RateLimiter(2.0, burst_s=1.0, clock=lambda: now[0])
    assert [limiter.delay_s("a") for _ in range(3)] == [0.0, 0.0, 0.5]
    now[0] = 0.5
    assert limiter.delay_s("a") == 0.0


def test_the_memory_of_a_rate_limiter_is_bounded(monkeypatch):
    monkeypatch.setattr(limits, "MAX_BUCKETS", 3)
    limiter = limits.RateLimiter(1.0, burst_s=1.0, clock=lambda: 0.0)
    assert [limiter.delay_s(caller) for caller in "aabcd"] == [0, 1, 0, 0, 0]
    assert limiter.delay_s("d") == 1
    assert limiter.delay_s("a") == 0  # the caller that was silent longest is forgotten


def test_chunks_with_times_are_packed():
    chunks = [Chunk("anna", 3, GOOD, time_s=np.arange(4.0)), Chunk("ben", None, GOOD, t0=7.5), Chunk("cleo", 1, GOOD)]
    assert len(pack(chunks[2:])) == 4 + 24 + len("cleo") + GOOD.nbytes
    for one, two in zip(unpack(pack(chunks), Limits()), chunks, strict=True):
        assert (one.wearer, one.seq, one.t0) == (two.wearer, two.seq, two.t0)
        np.testing.assert_array_equal(one.values, two.values)
        np.testing.assert_array_equal(one.time_s, two.time_s)


def test_samples_are_float32_and_times_float64():
    chunk = check_limits(Chunk("anna", None, [[0.1, 0.2], [0.3, 0.4]], [0, 1]), Limits())
    assert (chunk.values.dtype, chunk.time_s.dtype) == (np.float32, np.float64)
