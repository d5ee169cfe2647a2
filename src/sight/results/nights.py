"""Nights of a recording: whether they can be computed, between which moments, and when the wearer woke."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import numpy as np

from sight.recordings.signal.nights import Night, find_nights
from sight.results.days import clock, seconds_to
from sight.types import Windows

NOON = timedelta(hours=12)


def why_no_nights(windows: Windows) -> str:
    """Return why nights cannot be computed; empty if they can."""
    if windows.epochs is None:
        return "there are no samples of an accelerometer with gravity"
    if windows.start is None:
        return "the recording has no start time"
    if windows.facts.placement is None:
        return "it is not known where the sensor was worn (set placement, --placement wrist)"
    if windows.facts.placement != "wrist":
        return f"the method is for the wrist, and the sensor was worn at the {windows.facts.placement}"
    return ""


def nights_of(windows: Windows) -> list[Night]:
    return [] if windows.epochs is None else find_nights(windows.epochs, _noons_s(windows))


def wakes_of(nights: Sequence[Night]) -> list[float]:
    """Return the moment of waking after each night, at the usual time of the wearer if its period was not found.

    Empty if no period was found.
    """
    found = [night.wake_s - night.noon_s for night in nights if night.is_found]
    usual = float(np.median(found)) if found else 0.0
    return [night.wake_s if night.is_found else night.noon_s + usual for night in nights] if found else []


def _noons_s(windows: Windows) -> Iterator[tuple[float, float]]:
    """Yield the pairs of successive local noons between which there are epochs."""
    if windows.start is None or windows.epochs is None:
        return
    time_s, at = windows.epochs.time_s, 0
    while at < len(time_s):
        local = clock(windows.start, float(time_s[at])).replace(tzinfo=None)
        evening = (local - NOON).date()
        noon_s, next_s = (seconds_to(windows.start, evening + timedelta(days=k), NOON) for k in (0, 1))
        yield noon_s, next_s
        at = int(np.searchsorted(time_s, next_s))
