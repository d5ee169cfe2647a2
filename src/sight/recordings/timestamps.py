"""Timestamps of users' tables: numbers, dates and local times to seconds since the first sample.

The time zone of the result decides on which day a sample lies. It is the caller's, or else the one in the file: an
offset in the text, or the zone of a typed column.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from sight.recordings.local_times import LocalTimes, time_zone
from sight.recordings.signal.clock import blocks
from sight.recordings.timestamp_units import UNITS, detect_unit
from sight.types import Array, Warning


def _zone_warning(text: str, remedy: str) -> Warning:
    return Warning(kind="time-zone", severity="warning", text=text, remedy=remedy)


#: A larger number of seconds is a date (after 1973), a smaller one a duration.
EPOCH_S = 1e8
#: Nanoseconds of a missing timestamp.
MISSING = np.iinfo(np.int64).min
#: Values of the fact `time_zone` if neither the file nor the caller gives the zone of the wearer.
UNKNOWN_ZONE = "unknown, UTC assumed"
UTC_MOMENTS = "UTC, from the file"
#: Warning for each of them.
ZONE_WARNINGS = {
    UNKNOWN_ZONE: _zone_warning("Timestamps have no time zone and are taken as UTC.", "set it with tz (--tz)."),
    UTC_MOMENTS: _zone_warning(
        "Timestamps are in UTC, so days begin at midnight UTC.", "set the wearer's time zone with tz (--tz)."
    ),
}
#: Place of the colon before the milliseconds in a time of GENEActiv.
COLON = len("2024-05-01 12:00:00")
COLON_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d:\d+")
OFFSET = re.compile(r"(?:(Z)|([+-])(\d{2}):?(\d{2}))$")


@dataclass(frozen=True, kw_only=True)
class TimeFormat:
    """How the values of a time column are read."""

    #: "number", "iso", "colon" (ISO with a colon before the milliseconds), "format" (text in the layout of strptime) or
    #: "timestamp" (typed column of Parquet)
    kind: str
    unit_ns: int = 1  # nanoseconds of one unit of a number
    dated: bool = True  # whether values are dates; otherwise they are seconds from an unknown origin
    zone: tzinfo | None = None  # time zone of the values; None for local times of an unknown zone
    layout: str = ""  # the strptime format, for "format"

    @property
    def unit(self) -> str:
        return next(name for name, ns in UNITS.items() if ns == self.unit_ns)


def text_format(sample: Any, layout: str | None = None) -> TimeFormat | None:
    """Return the format of a time column that holds text or typed timestamps, from its first value; None for numbers.

    >>> text_format("2024-05-01T12:00:00+02:00").zone
    datetime.timezone(datetime.timedelta(seconds=7200))
    >>> text_format("1700000000123") is None
    True
    """
    if layout is not None:
        return TimeFormat(kind="format", layout=layout, zone=_zone_of_layout(str(sample), layout))
    if isinstance(sample, datetime):
        return TimeFormat(kind="timestamp", zone=_plain_zone(sample.tzinfo))
    try:
        float(sample)
    except (TypeError, ValueError):
        kind = "colon" if COLON_TIME.fullmatch(str(sample)) else "iso"
        return TimeFormat(kind=kind, zone=text_offset(str(sample)))
    return None


def number_format(column: str, numbers: Array, unit: str | None = None, expected_hz: float | None = None) -> TimeFormat:
    """Return the format of a time column of numbers, from its name and first values; `unit` overrides the detection.

    >>> number_format("t", np.array([1.7e12, 1.7e12 + 20])).dated, number_format("time_ms", np.array([0.0, 20.0])).dated
    (True, False)
    """
    if unit is not None and unit not in UNITS:
        raise ValueError(f"Expected time_unit (--time-unit) out of {', '.join(UNITS)}, got {unit!r}.")
    unit_ns = UNITS[unit or detect_unit(column, numbers, expected_hz)]
    first = numbers[np.isfinite(numbers)][:1]
    return TimeFormat(
        kind="number", unit_ns=unit_ns, dated=bool((abs(first) * unit_ns >= EPOCH_S * 1e9).any()), zone=UTC
    )


def text_offset(text: str) -> tzinfo | None:
    """Return the offset from UTC at the end of a timestamp, or None.

    >>> text_offset("2024-05-01 12:00:00-0330"), text_offset("2024-05-01")
    (datetime.timezone(datetime.timedelta(days=-1, seconds=73800)), None)
    """
    found = OFFSET.search(text.strip()[10:])
    if found is None:
        return None
    if found[1]:
        return UTC
    minutes = 60 * int(found[3]) + int(found[4])
    return timezone(timedelta(minutes=-minutes if found[2] == "-" else minutes))


class UnreadableTimeError(ValueError):
    """A time that cannot be read, and its row among the values."""

    def __init__(self, row: int, text: Any) -> None:
        super().__init__(
            f"expected a number or a time such as 2024-05-01 12:00:00.25, got {text!r}; repair or remove it, or set "
            f"the unit of numbers with time_unit (--time-unit), or the layout of text with time_format (--time-format, "
            f"such as '%d/%m/%Y %H:%M:%S.%f')."
        )
        self.row = row


def to_nanoseconds(values: Any, form: TimeFormat) -> Array:
    """Convert a pyarrow array of timestamps to nanoseconds; local times as if they were UTC."""
    import pyarrow as pa

    try:
        return _converted(values, form)
    except (pa.ArrowInvalid, ValueError):
        row, stop = 0, len(values)
        while stop - row > 1:  # the first that cannot be read is in this range
            middle = (row + stop) // 2
            try:
                _converted(values[row:middle], form)
                row = middle
            except (pa.ArrowInvalid, ValueError):
                stop = middle
        raise UnreadableTimeError(row, values[row].as_py()) from None


def _converted(values: Any, form: TimeFormat) -> Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if form.kind == "number":
        return _scaled(values.to_numpy(zero_copy_only=False), form.unit_ns)
    if form.kind == "format":
        import pandas as pd

        parsed = pd.to_datetime(values.to_pandas(), format=form.layout, utc=form.zone is not None)
        return np.asarray(parsed.to_numpy("M8[ns]")).view(np.int64)
    if form.kind == "colon":
        values = pc.binary_replace_slice(values, start=COLON, stop=COLON + 1, replacement=".")
    if form.kind == "iso" and pc.any(pc.match_substring(values, ",")).as_py():
        values = pc.replace_substring(values, ",", ".")  # decimal commas, which ISO 8601 allows
    moments = values.cast(pa.timestamp("ns", tz="UTC" if form.zone else None))
    return np.asarray(moments.to_numpy(zero_copy_only=False)).astype("M8[ns]", copy=False).view(np.int64)


def date_and_time(date: Any, time: Any) -> Any:
    """Join two pyarrow arrays, of dates and of times of day, as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(date.type):
        date = pc.strftime(date, format="%Y-%m-%d")
    return pc.binary_join_element_wise(date.cast(pa.string()), time.cast(pa.string()), " ")


def cell_text(value: Any) -> str:
    """Return a cell of a date or a time of day as `date_and_time` joins it."""
    return f"{value:%Y-%m-%d}" if isinstance(value, datetime) else str(value)


def start_time(start: str | datetime | None, tz: str | None, zone: tzinfo | None) -> tuple[datetime | None, str | None]:
    """Return the start of a recording whose times are no dates, and the fact `time_zone`.

    A start without a zone is in `tz`, else in the `zone` of the file, else in UTC.
    """
    if start is None:
        return None, None
    try:
        moment = datetime.fromisoformat(start) if isinstance(start, str) else start
    except ValueError:
        raise ValueError(f"Expected start (--start) such as 2024-05-01 09:00:00, got {start!r}.") from None
    wanted = time_zone(tz) if tz is not None else None
    if moment.tzinfo is not None:
        moment = moment.astimezone(wanted) if wanted else moment
        return moment, tz or _zone_fact(moment)
    moment = moment.replace(tzinfo=wanted or zone or UTC)
    return moment, tz or (_zone_fact(moment) if zone else UNKNOWN_ZONE)


def to_seconds(
    moments: Array, form: TimeFormat, tz: str | None, zone: tzinfo | None = None
) -> tuple[Array, datetime | None, str | None, list[Warning]]:
    """Convert nanoseconds, in place, to seconds since the first timestamp.

    `zone` is that of local times as the file states it elsewhere. Returns these seconds, the first timestamp, the fact
    `time_zone` and warnings.
    """
    some = len(moments) > 0 and moments.min() == MISSING  # MISSING is the smallest number
    missing = moments == MISSING if some else np.zeros(1, bool)
    if not form.dated:
        return seconds_since(moments, 0, missing), None, None, []
    stated = form.zone or zone
    own = time_zone(tz) if tz is not None else stated or UTC
    warnings: list[Warning] = []
    if form.zone is None:
        moments, warnings = _from_local(moments, None if tz is None and zone is None else own)
    if missing.all():
        return np.full(len(moments), np.nan), None, None, []
    first = int(moments[np.argmin(missing)])
    start = datetime.fromtimestamp(first // 10**9, UTC) + timedelta(microseconds=first % 10**9 // 1000)
    start = start.astimezone(own)
    fact = tz if tz is not None else UNKNOWN_ZONE if stated is None else _zone_fact(start)
    return seconds_since(moments, first - first % 1000, missing), start, fact, warnings


def offset_warnings(form: TimeFormat, last: Any) -> list[Warning]:
    """Return a warning if the offset in the text changes, as it does with summer time."""
    end = None if form.kind != "iso" or form.zone is None else text_offset(str(last))
    if end is None or end == form.zone:
        return []
    text = f"The offset from UTC changes from {form.zone} to {end} in the file, and days follow the first."
    return [_zone_warning(text, "set the time zone with tz (--tz).")]


def _from_local(moments: Array, zone: tzinfo | None) -> tuple[Array, list[Warning]]:
    clock, moments = LocalTimes(zone), moments if moments.flags.writeable else moments.copy()
    for block in blocks(0, len(moments)):
        known = moments[block] != MISSING
        moments[block][known] = clock.to_utc(moments[block][known])
    return moments, clock.warnings


def _plain_zone(zone: tzinfo | None) -> tzinfo | None:
    """Return the zone of a typed column as one that `datetime` arithmetic handles."""
    return zone if zone is None or isinstance(zone, timezone) else time_zone(str(zone))


def _zone_of_layout(sample: str, layout: str) -> tzinfo | None:
    if "%z" not in layout:
        return None
    try:
        return datetime.strptime(sample.strip(), layout).tzinfo or UTC
    except ValueError:
        return UTC  # the values are read with the same layout, which raises with the remedy


def _zone_fact(start: datetime) -> str:
    if isinstance(start.tzinfo, ZoneInfo):
        return f"{start.tzinfo.key}, from the file"
    hours = (start.utcoffset() or timedelta()) / timedelta(minutes=1) / 60
    return f"{hours:+g} h from UTC, from the file" if hours else UTC_MOMENTS


def _scaled(numbers: Array, unit_ns: int) -> Array:
    numbers = numbers.astype(np.float64, copy=False)
    missing = ~np.isfinite(numbers)
    exact = np.rint(np.where(missing, 0.0, numbers) * unit_ns)
    if len(exact) and np.abs(exact).max() >= 2.0**63:
        raise ValueError(f"{np.abs(exact).max() / 1e9:.3g} s is more than 292 years")
    scaled = exact.astype(np.int64)
    scaled[missing] = MISSING
    return np.asarray(scaled)


def seconds_since(moments: Array, origin: int, missing: Array | None = None) -> Array:
    """Return nanoseconds as seconds since `origin`, NaN where `missing`; in place where possible."""
    # A week of times is half a gigabyte.
    seconds = moments.view(np.float64) if moments.flags.writeable else np.empty(len(moments))
    for block in blocks(0, len(moments)):
        seconds[block] = (moments[block] - origin) / 1e9
    if missing is not None and missing.any():
        seconds[missing] = np.nan
    return seconds
