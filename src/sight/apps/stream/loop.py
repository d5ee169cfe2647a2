"""Live loop: push chunks into a session, report events and save the session."""

from collections.abc import Callable, Iterable
from time import perf_counter

from sight.apps.stream.session import Session
from sight.apps.stream.table_lines import Samples
from sight.types import Event


def run_loop(
    session: Session,
    chunks: Iterable[Samples],
    on_event: Callable[[Event, float], None],
    *,
    save: Callable[[], object] | None = None,
    save_every: int = 60,
) -> None:
    """Push chunks into a session until they end; `on_event` gets each event and its milliseconds since arrival.

    `save` is called between chunks after `save_every` windows, and at the end. A saved session can be resumed, so its
    last incomplete windows wait; without `save` they are flushed at the end.
    """
    saved = session.count

    def predict(chunk: Samples | None) -> None:
        arrived = perf_counter()
        events = session.flush() if chunk is None else session.push(*chunk)
        latency_ms = 1e3 * (perf_counter() - arrived)
        for event in events:
            on_event(event, latency_ms)

    try:
        for chunk in chunks:
            predict(chunk)
            if save is not None and session.count - saved >= save_every:
                save()
                saved = session.count
        if save is None:
            predict(None)
    except OSError:  # the sensor or the reader of our output is gone; keep the adapted state
        if save is not None:
            save()
        raise
    if save is not None:
        save()
