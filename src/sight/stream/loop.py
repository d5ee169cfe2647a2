"""The live loop: chunks into a session, answers out, the session kept now and then and at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter

from sight.stream.line_parser import Samples
from sight.stream.session import Session
from sight.types import Event


def follow(
    session: Session,
    chunks: Iterable[Samples],
    answered: Callable[[Event, float], None],
    *,
    keep: Callable[[], object] | None = None,
    every: int = 60,
) -> None:
    """Push chunks until there are no more.

    Parameters
    ----------
    session
        Goes on from where it is.
    chunks
        In the order they arrive.
    answered
        Called with each event, and the milliseconds from the arrival of its chunk.
    keep
        Saves the session; called between two chunks, never inside one. A session that is kept goes on another time,
        so its last windows wait; one that is not is flushed at the end.
    every
        Windows between two saves.
    """
    keep_now = keep or (lambda: None)
    kept = session.count
    try:
        for samples in chunks:
            arrived = perf_counter()
            _report(session.push(*samples), arrived, answered)
            if session.count - kept >= every:
                keep_now()
                kept = session.count
        if keep is None:
            _report(session.flush(), perf_counter(), answered)
    except OSError:  # the sensor or whoever listens went away: what was learned stays
        keep_now()
        raise
    keep_now()


def _report(events: list[Event], arrived: float, answered: Callable[[Event, float], None]) -> None:
    latency_ms = 1e3 * (perf_counter() - arrived)
    for event in events:
        answered(event, latency_ms)
