"""JSON form of an event, used by ``sight stream`` and by the service."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from sight.types import Event


def as_json(event: Event, classes: Sequence[str], latency_ms: float | None = None) -> dict[str, Any]:
    """Return an event as a JSON object; floats keep every bit, non-finite diagnostics become null.

    `latency_ms` is the time from the arrival of the last sample to the prediction, or None if unknown.
    """
    q, p = event.q.tolist(), event.p.tolist()
    diagnostics = {name: float(value) if isfinite(value) else None for name, value in event.diagnostics.items()}
    return {
        "window": event.window,
        "time_s": event.time_s,
        "label": classes[q.index(max(q))],
        "raw": classes[p.index(max(p))],
        "q": q,
        "p": p,
        "gap_s": event.gap_s,
        "surprise": diagnostics.get("surprise"),
        "diagnostics": diagnostics,
        "latency_ms": latency_ms,
    }
