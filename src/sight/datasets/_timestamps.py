"""Timestamps of any kind to nanoseconds, and local times to the zone they were written in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from sight.types import Array

#: Nanoseconds of each unit a number may count.
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
#: From here on a number of seconds is a date and not a stopwatch (1973).
EPOCH_S = 1e8
#: Stands for a moment that is missing.
MISSING = np.iinfo(np.int64).min
ZONED = re.compile(r"(Z|[+-]\d{2}:?\d{2})$")


@dataclass(frozen=True, kw_only=True)
class TimeColumn:
    """How the values of a time column are read.

    Parameters
    ----------
    kind
        "number", "iso", "format" or "timestamp", the last for files that store times as such.
    per_unit_ns
        Nanoseconds of one unit of a number.
    dated
        Whether values name a date; else they are seconds from anywhere.
    zoned
        Whether values carry their own zone, or count from 1970 in UTC.
    layout
        The `strptime` format, for "format".
    """

    kind: str
    per_unit_ns: int = 1
    dated: bool = True
    zoned: bool = True
    layout: str = ""


def understand(column: str, sample: Any, *, unit: str | None = None, layout: str | None = None) -> TimeColumn:
    """Decide from a column's name and first value how to read it.

    Examples
    --------
    >>> understand("t", "1700000000123").per_unit_ns, understand("time_ms", "20").dated
    (1000000, False)
    >>> understand("when", "2024-05-01T12:00:00+02:00").zoned
    True
    """
    if unit is not None and unit not in UNITS:
        raise ValueError(f"Expected a time unit out of {', '.join(UNITS)}, got {unit!r}.")
    if layout is not None:
        return TimeColumn(kind="format", layout=layout, zoned="%z" in layout)
    if isinstance(sample, datetime):
        return TimeColumn(kind="timestamp", zoned=sample.tzinfo is not None)
    try:
        number = float(sample)
    except (TypeError, ValueError):
        return TimeColumn(kind="iso", zoned=bool(ZONED.search(str(sample).strip()[10:])))
    per_unit = UNITS[unit or _unit(column, abs(number))]
    return TimeColumn(kind="number", per_unit_ns=per_unit, dated=abs(number) * per_unit >= EPOCH_S * 1e9)


def nanoseconds(values: Any, how: TimeColumn, where: str) -> Array:
    """Read a pyarrow array of timestamps as nanoseconds; local ones as if they were UTC."""
    import pyarrow as pa

    try:
        if how.kind == "number":
            return _scaled(values.to_numpy(zero_copy_only=False), how.per_unit_ns)
        if how.kind == "format":
            import pandas as pd

            parsed = pd.to_datetime(values.to_pandas(), format=how.layout, utc=how.zoned)
            return np.asarray(parsed.to_numpy("M8[ns]")).view(np.int64)
        moments = values.cast(pa.timestamp("ns", tz="UTC" if how.zoned else None))
    except (pa.ArrowInvalid, ValueError) as error:
        raise ValueError(
            f"{where}: a timestamp cannot be read ({' '.join(str(error).split())[:100]}); expected numbers or "
            f"times such as 2024-05-01 12:00:00.25, or give time_format."
        ) from None
    return np.asarray(moments.to_numpy(zero_copy_only=False)).astype("M8[ns]").view(np.int64)


def clock(moments: Array, how: TimeColumn, tz: str | None) -> tuple[Array, datetime | None, dict[str, Any]]:
    """Turn nanoseconds into seconds since the first moment, that moment with its zone, and facts."""
    missing = moments == MISSING
    if not how.dated:
        return _seconds(moments, 0, missing), None, {}
    zone, known = zone_of(tz), how.zoned or tz is not None
    if not how.zoned and tz is not None:
        moments = localise(moments, tz)
    if missing.all():
        return np.full(len(moments), np.nan), None, {}
    first = int(moments[np.argmin(missing)])
    start = datetime.fromtimestamp(first // 10**9, UTC) + timedelta(microseconds=first % 10**9 // 1000)
    facts = {"time_zone": str(zone) if known else "not told, taken as UTC"}
    return _seconds(moments, first - first % 1000, missing), start.astimezone(zone), facts


def zone_of(tz: str | None) -> tzinfo:
    """Return a time zone by its name, UTC for None."""
    if tz is None or tz.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(tz)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"There is no time zone {tz!r}; expected a name such as Europe/Berlin.") from None


def localise(moments: Array, tz: str) -> Array:
    """Take local times of a zone, in the order they were written, to UTC.

    Notes
    -----
    The hour that comes twice when summer time ends is told apart by the step back between its two passes; a clock
    that was not put forward in spring is taken an hour later, so time never stands still.

    Examples
    --------
    >>> local = np.array(["2023-10-29T02:30", "2023-10-29T02:59", "2023-10-29T02:00"], "M8[ns]").view(np.int64)
    >>> localise(local, "Europe/Berlin").view("M8[ns]").astype("M8[m]").astype(str).tolist()
    ['2023-10-29T00:30', '2023-10-29T00:59', '2023-10-29T01:00']
    """
    import pandas as pd

    zone = zone_of(tz)
    naive = pd.DatetimeIndex(moments.view("M8[ns]"))
    skipped = pd.Timedelta(hours=1)
    moved = naive.tz_localize(zone, ambiguous="NaT", nonexistent=skipped)
    twice = np.asarray(moved.isna() & ~naive.isna())
    if twice.any():
        moved = naive.tz_localize(zone, ambiguous=_first_pass(moments, twice), nonexistent=skipped)
    return np.asarray(moved.tz_convert("UTC").tz_localize(None).to_numpy("M8[ns]")).view(np.int64)


def _first_pass(moments: Array, twice: Array) -> Array:
    """Whether each time of a repeated hour belongs to its first pass."""
    first = twice.copy()
    edges = np.flatnonzero(np.diff(np.concatenate(([0], twice.astype(np.int8), [0])))).reshape(-1, 2)
    for start, stop in edges:
        back = np.flatnonzero(np.diff(moments[start:stop]) < 0)
        if len(back):
            first[start + back[0] + 1 : stop] = False
    return first


def _unit(column: str, number: float) -> str:
    for unit, least in (("ns", 1e17), ("us", 1e14), ("ms", 1e11), ("s", EPOCH_S)):
        if number >= least:
            return unit
    ending = re.search(r"(?:^|[^a-z])(ms|us|ns|s)\W*$", column.lower())
    return ending[1] if ending else "s"


def _scaled(numbers: Array, per_unit_ns: int) -> Array:
    missing = ~np.isfinite(numbers)
    scaled = np.rint(np.where(missing, 0.0, numbers) * per_unit_ns).astype(np.int64)
    scaled[missing] = MISSING
    return np.asarray(scaled)


def _seconds(moments: Array, origin: int, missing: Array) -> Array:
    seconds = (moments - origin) / 1e9
    if missing.any():
        seconds[missing] = np.nan
    return np.asarray(seconds)
