"""Time zones of wearers, and local times to UTC across changes to and from summer time."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import numpy as np

from sight.types import Array, Warning

HOUR_NS, MINUTE_NS = 3600 * 10**9, 60 * 10**9


def time_zone(tz: str) -> tzinfo:
    if tz.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(tz)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"There is no time zone {tz!r}; expected tz (--tz) such as Europe/Berlin.") from None


class LocalTimes:
    """Converter of local times, in nanoseconds and in the order of recording, to UTC; chunks may have any size.

    The two passes of the hour that repeats when summer time ends are distinguished by the step back between them.
    Local times that do not exist in spring are moved an hour later. A clock that goes on without a step where the
    offset from UTC changes was not changed; its offset is kept. Without a zone, times are taken as UTC, and an hour
    is added to those after a repeated hour.

    >>> local = np.array(["2023-10-29T02:30", "2023-10-29T02:59", "2023-10-29T02:00"], "M8[ns]").view(np.int64)
    >>> LocalTimes(time_zone("Europe/Berlin")).to_utc(local).view("M8[ns]").astype("M8[m]").astype(str).tolist()
    ['2023-10-29T00:30', '2023-10-29T00:59', '2023-10-29T01:00']
    """

    def __init__(self, zone: tzinfo | None) -> None:
        self.zone = zone
        self.warnings: list[Warning] = []
        self._latest: int | None = None
        self._added = 0  # without a zone: nanoseconds added after repeated hours
        self._repeats = self._second = False  # whether the latest time is in a repeated hour, and in its second pass
        self._offset: int | None = None
        self._unchanged = False  # whether the clock was found not to be changed
        self._offsets: dict[int, tuple[int, int]] = {}

    def to_utc(self, local: Array) -> Array:
        """Return the next local times, (n,) int64, in UTC."""
        if not len(local):
            return local
        before = np.concatenate(([local[0] if self._latest is None else self._latest], local[:-1]))
        self._latest = int(local[-1])
        return self._continued(local, before) if self.zone is None else local - self._offsets_of(local, local - before)

    def _continued(self, local: Array, before: Array) -> Array:
        """Add an hour after each step back by an hour at a whole hour."""
        step = local - before
        back = (step >= -HOUR_NS) & (step <= MINUTE_NS - HOUR_NS)
        back &= (before % HOUR_NS >= HOUR_NS - MINUTE_NS) & (local % HOUR_NS < MINUTE_NS)
        utc = local + self._added + HOUR_NS * np.cumsum(back)
        if back.any():
            if not self._added:
                self._warn_repeated(int(utc[np.argmax(back)]))
            self._added += HOUR_NS * int(back.sum())
        return np.asarray(utc)

    def _offsets_of(self, local: Array, step: Array) -> Array:
        first, second = self._both_offsets(local // MINUTE_NS)
        offset = np.where(self._is_second_pass(first > second, step), second, first)
        if not self._unchanged:
            before = np.concatenate(([offset[0] if self._offset is None else self._offset], offset[:-1]))
            changes = np.flatnonzero((offset != before) & (np.abs(step) < MINUTE_NS))
            if not len(changes):
                self._offset = int(offset[-1])
                return offset
            self._unchanged, self._offset = True, int(before[changes[0]])
            self._warn_unchanged(int(local[changes[0]]))
            offset[changes[0] :] = self._offset
            return offset
        return np.full(len(local), self._offset)

    def _both_offsets(self, minutes: Array) -> tuple[Array, Array]:
        """Return the offsets of each minute since 1970 in the first and second pass of a repeated hour."""
        begins = np.flatnonzero(np.diff(minutes, prepend=minutes[0] - 1))
        for minute in set(minutes[begins].tolist()) - set(self._offsets):
            moment = datetime(1970, 1, 1, tzinfo=self.zone) + timedelta(minutes=minute)
            one, two = (moment.replace(fold=fold).utcoffset() or timedelta() for fold in (0, 1))
            self._offsets[minute] = (one // timedelta(microseconds=1) * 1000, two // timedelta(microseconds=1) * 1000)
        offsets = np.array([self._offsets[minute] for minute in minutes[begins].tolist()], np.int64)
        first, second = np.repeat(offsets, np.diff(begins, append=len(minutes)), axis=0).T
        return first, second

    def _is_second_pass(self, repeats: Array, step: Array) -> Array:
        second = np.zeros(len(repeats), bool)
        edges = np.flatnonzero(np.diff(np.concatenate(([0], repeats.astype(np.int8), [0])))).reshape(-1, 2)
        for start, stop in edges.tolist():
            goes_on = start == 0 and self._repeats
            back = np.flatnonzero(step[start + (not goes_on) : stop] < -MINUTE_NS)  # a smaller step is a late sample
            if goes_on and self._second:
                second[start:stop] = True
            elif len(back):
                second[start + (not goes_on) + back[0] : stop] = True
        self._repeats, self._second = bool(repeats[-1]), bool(second[-1])
        return second

    def _warn_repeated(self, at: int) -> None:
        text = (
            f"Local times go back by an hour at {_minute(at)}, as at the end of summer time; later times are an hour "
            f"ahead of local ones."
        )
        remedy = "Set the time zone with tz (--tz)."
        self.warnings.append(Warning(kind="time-zone", severity="warning", text=text, remedy=remedy))

    def _warn_unchanged(self, at: int) -> None:
        event = f"The clock was not changed at {_minute(at)}, when summer time began or ended"
        self.warnings.append(Warning(kind="clock", severity="note", text=f"{event}; its offset from UTC is kept."))


def _minute(moment_ns: int) -> str:
    return str(np.datetime64(moment_ns, "ns").astype("M8[m]")).replace("T", " ")
