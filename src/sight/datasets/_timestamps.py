"""Timestamps of users' tables: numbers, dates and local times to seconds since the first sample."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from sight.datasets._dataset_files import first_words
from sight.types import Array

#: Nanoseconds of each unit of time.
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
#: A larger number of seconds is a date (after 1973), a smaller one a duration.
EPOCH_S = 1e8
#: Nanoseconds of a missing timestamp.
MISSING = np.iinfo(np.int64).min
#: Value of the fact `time_zone` if neither the file nor the caller gives one.
UNKNOWN_ZONE = "unknown, UTC assumed"
OFFSET = re.compile(r"(Z|[+-]\d{2}:?\d{2})$")


@dataclass(frozen=True, kw_only=True)
class TimeFormat:
    """How the values of a time column are read."""

    kind: str  # "number", "iso", "format" (text in the layout of strptime) or "timestamp" (typed column of Parquet)
    unit_ns: int = 1  # nanoseconds of one unit of a number
    dated: bool = True  # whether values are dates; otherwise they are seconds from an unknown origin
    zoned: bool = True  # whether values have a time zone, or are seconds since 1970 in UTC
    layout: str = ""  # the strptime format, for "format"


def detect_format(column: str, sample: Any, *, unit: str | None = None, layout: str | None = None) -> TimeFormat:
    """Return the format of a time column, from its name and first value.

    Examples
    --------
    >>> detect_format("t", "1700000000123").unit_ns, detect_format("time_ms", "20").dated
    (1000000, False)
    >>> detect_format("when", "2024-05-01T12:00:00+02:00").zoned
    True
    """
    if unit is not None and unit not in UNITS:
        raise ValueError(f"Expected a time unit out of {', '.join(UNITS)}, got {unit!r}.")
    if layout is not None:
        return TimeFormat(kind="format", layout=layout, zoned="%z" in layout)
    if isinstance(sample, datetime):
        return TimeFormat(kind="timestamp", zoned=sample.tzinfo is not None)
    try:
        number = float(sample)
    except (TypeError, ValueError):
        return TimeFormat(kind="iso", zoned=bool(OFFSET.search(str(sample).strip()[10:])))
    unit_ns = UNITS[unit or _detect_unit(column, abs(number))]
    return TimeFormat(kind="number", unit_ns=unit_ns, dated=abs(number) * unit_ns >= EPOCH_S * 1e9)


def to_nanoseconds(values: Any, form: TimeFormat, where: str) -> Array:
    """Convert a pyarrow array of timestamps to nanoseconds; local times as if they were UTC."""
    import pyarrow as pa

    try:
        if form.kind == "number":
            return _scaled(values.to_numpy(zero_copy_only=False), form.unit_ns)
        if form.kind == "format":
            import pandas as pd

            parsed = pd.to_datetime(values.to_pandas(), format=form.layout, utc=form.zoned)
            return np.asarray(parsed.to_numpy("M8[ns]")).view(np.int64)
        moments = values.cast(pa.timestamp("ns", tz="UTC" if form.zoned else None))
    except (pa.ArrowInvalid, ValueError) as error:
        raise ValueError(
            f"{where}: a timestamp cannot be read ({first_words(error)}); expected numbers or "
            f"times such as 2024-05-01 12:00:00.25, or give time_format."
        ) from None
    return np.asarray(moments.to_numpy(zero_copy_only=False)).astype("M8[ns]").view(np.int64)


def to_seconds(moments: Array, form: TimeFormat, tz: str | None) -> tuple[Array, datetime | None, dict[str, Any]]:
    """Convert nanoseconds to seconds since the first timestamp; return them, that timestamp, and facts."""
    missing = moments == MISSING
    if not form.dated:
        return _seconds_since(moments, 0, missing), None, {}
    zone = time_zone(tz)
    if not form.zoned and tz is not None:
        moments = local_to_utc(moments, tz)
    if missing.all():
        return np.full(len(moments), np.nan), None, {}
    first = int(moments[np.argmin(missing)])
    start = datetime.fromtimestamp(first // 10**9, UTC) + timedelta(microseconds=first % 10**9 // 1000)
    facts = {"time_zone": str(zone) if form.zoned or tz is not None else UNKNOWN_ZONE}
    return _seconds_since(moments, first - first % 1000, missing), start.astimezone(zone), facts


def time_zone(tz: str | None) -> tzinfo:
    """Return a time zone by its name, UTC for None."""
    if tz is None or tz.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(tz)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"There is no time zone {tz!r}; expected a name such as Europe/Berlin.") from None


def local_to_utc(moments: Array, tz: str) -> Array:
    """Convert local times of a zone, in the order of recording, to UTC.

    Notes
    -----
    The two passes of the hour that repeats when summer time ends are distinguished by the step back between them.
    Local times that do not exist in spring are moved an hour later.

    Examples
    --------
    >>> local = np.array(["2023-10-29T02:30", "2023-10-29T02:59", "2023-10-29T02:00"], "M8[ns]").view(np.int64)
    >>> local_to_utc(local, "Europe/Berlin").view("M8[ns]").astype("M8[m]").astype(str).tolist()
    ['2023-10-29T00:30', '2023-10-29T00:59', '2023-10-29T01:00']
    """
    import pandas as pd

    zone = time_zone(tz)
    naive = pd.DatetimeIndex(moments.view("M8[ns]"))
    hour = pd.Timedelta(hours=1)
    moved = naive.tz_localize(zone, ambiguous="NaT", nonexistent=hour)
    repeated = np.asarray(moved.isna() & ~naive.isna())
    if repeated.any():
        moved = naive.tz_localize(zone, ambiguous=_first_pass(moments, repeated), nonexistent=hour)
    return np.asarray(moved.tz_convert("UTC").tz_localize(None).to_numpy("M8[ns]")).view(np.int64)


def _first_pass(moments: Array, repeated: Array) -> Array:
    """Return whether each time of a repeated hour belongs to its first pass."""
    first = repeated.copy()
    edges = np.flatnonzero(np.diff(np.concatenate(([0], repeated.astype(np.int8), [0])))).reshape(-1, 2)
    for start, stop in edges:
        back = np.flatnonzero(np.diff(moments[start:stop]) < 0)
        if len(back):
            first[start + back[0] + 1 : stop] = False
    return first


def _detect_unit(column: str, number: float) -> str:
    for unit, least in (("ns", 1e17), ("us", 1e14), ("ms", 1e11), ("s", EPOCH_S)):
        if number >= least:
            return unit
    ending = re.search(r"(?:^|[^a-z])(ms|us|ns|s)\W*$", column.lower())
    return ending[1] if ending else "s"


def _scaled(numbers: Array, unit_ns: int) -> Array:
    missing = ~np.isfinite(numbers)
    scaled = np.rint(np.where(missing, 0.0, numbers) * unit_ns).astype(np.int64)
    scaled[missing] = MISSING
    return np.asarray(scaled)


def _seconds_since(moments: Array, origin: int, missing: Array) -> Array:
    seconds = (moments - origin) / 1e9
    if missing.any():
        seconds[missing] = np.nan
    return np.asarray(seconds)
