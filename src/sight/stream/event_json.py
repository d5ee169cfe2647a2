"""An event in words that leave the process: plain numbers and names, the same for a pipe and for the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from sight.types import Event


def as_json(event: Event, classes: Sequence[str], latency_ms: float | None = None) -> dict[str, Any]:
    """Return what JSON can hold of an event; floats keep every bit, and what is not finite is null.

    Parameters
    ----------
    event
        Of a session.
    classes
        Names of the K classes.
    latency_ms
        From the arrival of the last sample to the answer, where it is known.
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


@dataclass
class Tally:
    """What a stream amounted to: windows, gaps, and answers other than the model's own."""

    windows: int = 0
    gaps: int = 0
    changed: int = 0

    def add(self, event: Event) -> None:
        """Count one event."""
        self.windows += 1
        self.gaps += event.gap_s > 0
        self.changed += bool(event.q.argmax() != event.p.argmax())

    def __str__(self) -> str:
        share = self.changed / max(self.windows, 1)
        return (
            f"{self.windows} windows, {self.gaps} gaps; {self.changed} ({share:.1%}) answered otherwise than by the "
            f"model alone"
        )
