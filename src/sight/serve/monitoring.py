"""What operators see: metrics for Prometheus and logs as JSON lines, never a sample of anybody's signal."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

log = logging.getLogger("sight.serve")

#: Upper edges of the buckets of latencies, in seconds.
EDGES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "color_message", "taskName"}


class Metrics:
    """Counters of one service, in a registry of their own.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.refused.labels("rate").inc()
    >>> 'sight_refused_total{reason="rate"} 1.0' in metrics.text().decode()
    True
    """

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self.chunks = Counter("sight_chunks", "Chunks made durable.", ["duplicate"], registry=registry)
        self.windows = Counter("sight_windows", "Windows answered.", registry=registry)
        self.refused = Counter("sight_refused", "Inputs turned away.", ["reason"], registry=registry)
        self.latency = Histogram(
            "sight_latency_seconds", "From the arrival of a chunk to its answer.", buckets=EDGES, registry=registry
        )
        self.batch = Histogram(
            "sight_batch_chunks", "Chunks of one call.", buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500), registry=registry
        )
        self.ingest = Counter(
            "sight_ingest_seconds", "Seconds in the keeper: windows, encoder, method, store.", registry=registry
        )
        self.store = Gauge("sight_store_seconds", "Seconds spent in the store since the start.", registry=registry)
        self.depth = Gauge("sight_queue_chunks", "Chunks that wait for their turn.", registry=registry)
        self.resident = Gauge("sight_resident_sessions", "Wearers held in memory.", registry=registry)
        self.sockets = Gauge("sight_sockets", "Open sockets.", ["path"], registry=registry)
        self.lagging = Counter("sight_watchers_lagging", "Times a slow watcher was moved on.", registry=registry)

    def text(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        return generate_latest(self._registry)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, what happened, and the fields given as ``extra``.

    Of an exception its kind and places are told, not its text, which may quote what somebody sent.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= {key: value for key, value in vars(record).items() if key not in _PLAIN}
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, places = record.exc_info
            line["exception"] = f"{kind.__module__}.{kind.__qualname__}"
            line["at"] = [f"{one.filename}:{one.lineno} {one.name}" for one in traceback.extract_tb(places)]
        return json.dumps(line, default=str)


def log_config(level: str = "INFO") -> dict[str, Any]:
    """Return a logging configuration that writes ours and the server's records as JSON lines to standard error."""
    levels = {"sight.serve": level, "uvicorn": "WARNING"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonLines}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "loggers": {
            name: {"handlers": ["stderr"], "level": least, "propagate": False} for name, least in levels.items()
        },
    }
