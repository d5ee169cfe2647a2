"""Unit of numeric timestamps, recognised by the column's name, by plausible dates and by plausible sampling rates."""

import re

import numpy as np

from sight.types import Array

#: Nanoseconds of each unit of time.
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
#: Endings of a column's name that state a unit.
_NAMED = re.compile(
    r"(?:^|[^a-z\u00b5\u03bc])(?:(?P<s>s|secs?|seconds?)|(?P<ms>ms|msecs?|millis|milliseconds?)"
    r"|(?P<us>[u\u00b5\u03bc]s|usecs?|micros|microseconds?)|(?P<ns>ns|nanos|nanoseconds?))\W*$"
)
#: Seconds since 1970 of plausible dates: the years 2000 to 2099.
DATES_S = (946_684_800, 4_102_444_800)
#: Plausible sampling rates of a wearable sensor if the expected rate is unknown.
RATES_HZ = (0.5, 500.0)
#: A recording outside these shares of the expected rate, or above this rate, is refused.
LOWEST_SHARE, HIGHEST_SHARE, HIGHEST_HZ = 0.25, 100.0, 10_000.0
#: Longest plausible recording.
LONGEST_DAYS = 400.0


def detect_unit(column: str, numbers: Array, expected_hz: float | None = None) -> str:
    """Return the unit of numeric timestamps, "s", "ms", "us" or "ns", given the name and first values of the column.

    The name decides if it states a unit. Otherwise it is the unit in which the sampling rate is plausible (within a
    factor of four of the expected one, else 0.5 to 500 Hz); a unit that makes the first value a date is preferred.
    Without any of these it is seconds.

    >>> detect_unit("time", np.arange(5) * 20), detect_unit("time_s", np.arange(5) * 20)
    ('ms', 's')
    >>> detect_unit("time", 1_700_000_000_000 + np.arange(5) * 20), detect_unit("time", np.arange(5) / 50)
    ('ms', 's')
    """
    if named := _NAMED.search(column.lower()):
        return str(named.lastgroup)
    finite = numbers[np.isfinite(numbers)]
    steps = np.diff(finite)
    steps = steps[steps > 0]
    date = _date_unit(abs(float(finite[0]))) if len(finite) else None
    if len(steps):
        step = float(np.quantile(steps, 0.5, method="lower"))
        near = [(LOWEST_SHARE * expected_hz, expected_hz / LOWEST_SHARE)] if expected_hz else []
        for low, high in (*near, RATES_HZ):
            fitting = [unit for unit, ns in UNITS.items() if low <= 1e9 / (step * ns) <= high]
            if fitting:
                return date if date in fitting else fitting[0]
    return date or "s"


def check_plausible_rate(rate_hz: float, expected_hz: float | None, where: str) -> None:
    """Raise ValueError if a rate estimated from timestamps is impossible, or far from the expected one."""
    low = LOWEST_SHARE * expected_hz if expected_hz else 0.0
    high = min(HIGHEST_SHARE * expected_hz, HIGHEST_HZ) if expected_hz else HIGHEST_HZ
    if low <= rate_hz <= high:
        return
    expected = f"about {expected_hz:g} Hz" if expected_hz else f"at most {HIGHEST_HZ:g} Hz"
    raise ValueError(
        f"{where}: expected a sampling rate of {expected}, but the timestamps give {rate_hz:.3g} Hz; set their unit "
        f"with time_unit (--time-unit s, ms, us or ns), or confirm the rate with rate (--rate {rate_hz:.3g})."
    )


def check_plausible_span(time_s: Array, where: str) -> None:
    """Raise ValueError if most of the timestamps, in seconds, span an implausible time; single wrong ones may."""
    sample = time_s[:: max(len(time_s) // 10_000, 1)]
    sample = sample[np.isfinite(sample)]
    days = float(np.ptp(np.quantile(sample, (0.05, 0.95), method="nearest"))) / 86_400 if len(sample) else 0.0
    if days > LONGEST_DAYS:
        raise ValueError(
            f"{where}: expected at most {LONGEST_DAYS:g} days, but the timestamps span {days:.0f} days; set their unit "
            f"with time_unit (--time-unit s, ms, us or ns), or remove rows with wrong times."
        )


def _date_unit(number: float) -> str | None:
    return next((unit for unit, ns in UNITS.items() if DATES_S[0] <= number * ns / 1e9 < DATES_S[1]), None)
