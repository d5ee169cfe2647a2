"""Metrics for Prometheus and logs as JSON lines; neither contains samples or predictions."""

import json
import logging
import platform
import time
import traceback
from collections import Counter as Counts
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from sight import __version__
from sight.apps.serve.errors import StoreFailed, describe
from sight.apps.serve.limits import RateLimiter

log = logging.getLogger("sight.apps.serve")
#: Id of the token of the request or WebSocket that is being processed; each line of the log carries it.
token_id: ContextVar[str | None] = ContextVar("token_id", default=None)

#: Upper bounds of the histogram of latencies, in seconds.
LATENCY_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
BATCH_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "color_message", "taskName"}


class Metrics:
    """Metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.chunks = Counter("sight_chunks", "Chunks acknowledged.", ["duplicate"], registry=registry)
        self.windows = Counter("sight_windows", "Windows predicted.", registry=registry)
        self.dropped = Counter(
            "sight_samples_dropped", "Samples not used because their time does not increase.", registry=registry
        )
        self.refused = Counter("sight_refused", "Requests and chunks refused.", ["reason"], registry=registry)
        self.latency = Histogram(
            "sight_latency_seconds",
            "From the arrival of a chunk to its acknowledgement.",
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.batch = Histogram(
            "sight_batch_chunks", "Chunks processed together.", buckets=BATCH_BUCKETS, registry=registry
        )
        self.ingest = Counter("sight_ingest_seconds", "Seconds spent on chunks, the store included.", registry=registry)
        self.store = Gauge("sight_store_seconds", "Seconds spent in the store since the start.", registry=registry)
        self.depth = Gauge("sight_queue_chunks", "Chunks waiting in the queue.", registry=registry)
        self.resident = Gauge("sight_resident_sessions", "Wearers in memory.", registry=registry)
        self.sockets = Gauge("sight_sockets", "Open WebSockets.", ["path"], registry=registry)
        self.lagging = Counter("sight_watchers_lagging", "Times a slow subscriber was restarted.", registry=registry)
        self.wearers = Gauge("sight_wearers", "Wearers stored.", registry=registry)
        self.ready = Gauge("sight_ready", "1 if chunks are accepted and can be stored, else 0.", registry=registry)
        self.space = Gauge("sight_store_bytes", "Bytes that the store uses, and free.", ["kind"], registry=registry)
        version = Gauge("sight_build_info", "1, with the versions as labels.", ["version", "python"], registry=registry)
        version.labels(__version__, platform.python_version()).set(1)
        ProcessCollector(registry=registry)  # processor time, memory, open files, start

    def text(self) -> bytes:
        return generate_latest(self._registry)


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object per line: time, level, event, and the fields given as ``extra``.

    Of an exception only type and traceback positions are written, because its text may quote what a client sent.
    """

    def format(self, record: logging.LogRecord) -> str:
        timestamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": timestamp, "level": record.levelname.lower(), "event": record.getMessage()}
        if (token := token_id.get()) is not None:
            line["token"] = token
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD_FIELDS}
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            line["exception"] = f"{kind.__module__}.{kind.__qualname__}"
            line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]
        return json.dumps(line, default=str)


class RepetitionFilter(logging.Filter):
    """Passes warnings and errors of one kind and token at a limited rate; the next line counts those left out."""

    def __init__(self, per_s: float = 0.5, burst_s: float = 20.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._limiter = RateLimiter(per_s, burst_s, clock)
        self._left_out: Counts[str] = Counts()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        exception = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        token = getattr(record, "token", token_id.get())
        kind = f"{record.name} {record.levelno} {str(record.msg)[:200]} {exception} {token}"
        if self._limiter.delay_s(kind):
            self._left_out[kind] += 1
            return False
        if left_out := self._left_out.pop(kind, 0):
            record.left_out = left_out
        return True


def log_failure(error: Exception, event: str, extra: Mapping[str, Any]) -> None:
    """Log an internal error, or the cause of a failure of the store; errors of clients are not logged."""
    if isinstance(error, StoreFailed):
        log.error(event, exc_info=error.__cause__ or error, extra={**extra, "reason": str(error)})
    elif describe(error)[2] == 500:
        log.error(event, exc_info=error, extra=extra)


def log_config() -> dict[str, Any]:
    levels = {"sight.apps.serve": "INFO", "uvicorn": "WARNING", "asyncio": "ERROR"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonLines}},
        "filters": {"repetitions": {"()": RepetitionFilter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "filters": ["repetitions"]}},
        "loggers": {
            name: {"handlers": ["stderr"], "level": lowest, "propagate": False} for name, lowest in levels.items()
        },
    }
