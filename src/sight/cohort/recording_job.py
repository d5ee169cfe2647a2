"""What a process of a cohort does: reads one recording, answers it, and leaves its windows and facts."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sight._version import __version__
from sight.base import Adapter, Source
from sight.cohort.results_folder import Store, stamp
from sight.cohort.thumbnail import thumbnail
from sight.cohort.window_table import LAYOUT, write_windows
from sight.datasets.window_cache import file_hash
from sight.outputs import info_facts
from sight.report import ResultSummary
from sight.types import Windows


class Stream(Protocol):
    """A recording to be read: a file, or a person of a dataset."""

    @property
    def name(self) -> str:
        """Name of its results."""

    @property
    def path(self) -> Path | None:
        """The file, if it is one."""

    @property
    def dataset(self) -> str:
        """The dataset, if it is a person of one."""

    @property
    def subject(self) -> str:
        """Who wore the sensor, if known."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all recordings of a run share.

    Parameters
    ----------
    out
        Folder of the results.
    model, model_hash
        The model file that every process loads, and the hash of the one the user gave.
    adapter, code
        The method with its settings, not bound yet, and the hash of its code; methods of others change on their own.
    read
        Reads a stream as windows for a source: called with stream, source and `reading`.
    reading
        How to read; a dataclass.
    overlap
        How many windows hold each sample.
    """

    out: Path
    model: Path
    model_hash: str
    adapter: Adapter
    code: str
    read: Callable[[Any, Any, Any], Windows]
    reading: Any
    overlap: float = 1.0

    def key(self, content: str) -> str:
        """Hash all that decides the results of a recording with this content."""
        reading = asdict(self.reading) if is_dataclass(self.reading) else self.reading  # type: ignore[arg-type]
        method = (self.adapter.name, self.adapter.params(), self.code)
        parts = (content, self.model_hash, method, reading, LAYOUT, __version__)
        return blake2b(json.dumps(parts, sort_keys=True, default=str).encode(), digest_size=20).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Done:
    """What became of a recording; the part beyond the error is for the log alone."""

    name: str
    content: str = ""
    error: str = ""
    kept: bool = False
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    host: str = ""
    stamp: list[Any] | None = None


def process(stream: Stream, job: Job) -> Done:
    """Answer a recording, unless its results are there already; whatever is wrong with it is told, not raised."""
    began, cpu, now_ns = time.perf_counter(), time.process_time(), time.time_ns()
    content, seen, kept, error = "", None, False, ""
    try:
        seen = stamp(stream.path, now_ns)
        content, kept = _answer(stream, job)
    except Exception as problem:  # a file may be broken in ways nobody thought of; the others go on
        Store(job.out).forget(stream.name)
        error = _sentence(problem, stream)
    return Done(
        name=stream.name,
        content=content,
        error=error,
        kept=kept,
        seconds=time.perf_counter() - began,
        cpu_seconds=time.process_time() - cpu,
        peak_bytes=_peak_bytes(),
        host=platform.node(),
        stamp=seen,
    )


def _answer(stream: Stream, job: Job) -> tuple[str, bool]:
    """Return the hash of the content, and whether results of it were there."""
    from sight.evaluate import run

    store, source = Store(job.out), _source(job.model, job.model_hash)
    windows = job.read(stream, source, job.reading) if stream.path is None else None
    content = _content(windows) if windows is not None else file_hash(Path(str(stream.path)))
    key = job.key(content)
    earlier = store.read_facts(stream.name)
    if earlier is not None and earlier["key"] == key:
        return content, True
    store.forget(stream.name)
    windows = windows if windows is not None else job.read(stream, source, job.reading)
    summary = ResultSummary(run(job.adapter.clone().bind(source), windows))
    store.write(store.windows(stream.name), lambda draft: write_windows(draft, summary, stream.name))
    store.write_json(store.facts(stream.name), _facts(summary, stream, key=key, content=content))
    return content, False


def _facts(summary: ResultSummary, stream: Stream, **hashes: str) -> dict[str, Any]:
    """Tell about a recording what depends on it, the model and the settings alone."""
    about = {
        "recording": stream.name,
        "subject": stream.subject or stream.name,
        "file": stream.path.name if stream.path else "",
        "dataset": stream.dataset,
        **hashes,
    }
    facts = info_facts(summary, about)
    start = summary.result.windows.start
    facts["stream"]["zone"] = getattr(start.tzinfo, "key", None) if start else None
    facts["sight_version"] = __version__
    facts["thumbnail"] = thumbnail(summary)
    return {key: value for key, value in facts.items() if key not in ("versions", "files")}


@lru_cache(maxsize=1)
def _source(model: Path, content: str) -> Source:  # noqa: ARG001 - another content, another source
    from sight.sources import load

    return load(model)


def _content(windows: Windows) -> str:
    """Hash windows that come from no single file."""
    digest = blake2b(digest_size=20)
    digest.update(repr((windows.window_s, windows.stride_s, windows.start, windows.x.shape)).encode())
    for array in (windows.x, windows.time_s, windows.label, windows.gap_before_s, windows.wear):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _sentence(problem: Exception, stream: Stream) -> str:
    """Say what was wrong; the place of the folder is not told, for it differs between machines."""
    text = " ".join(str(problem).split())
    if stream.path is not None:
        text = text.replace(str(stream.path), stream.path.name)
    expected = isinstance(problem, ValueError | OSError) and text
    return text if expected else f"{type(problem).__name__}: {text}"


def _peak_bytes() -> int:
    """Return the most memory this process ever held; 0 where the system does not tell.

    `getrusage` would count what the parent held at the moment it started this process.
    """
    try:
        text = Path("/proc/self/status").read_text("ascii")
        return int(text.partition("VmHWM:")[2].split()[0]) << 10
    except (OSError, IndexError, ValueError):
        return 0
