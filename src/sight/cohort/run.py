"""Runs a cohort: every recording through one model and one method, then tables and a page over all of them."""

from __future__ import annotations

import csv
import json
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sight._version import __version__
from sight.base import Adapter, OutputAdapter
from sight.card import require_card
from sight.cohort.memory_budget import available, needed
from sight.cohort.overview_page import write_overview
from sight.cohort.recording_job import Done, Job, Stream, process
from sight.cohort.results_folder import Store, append, unchanged
from sight.cohort.summary_tables import summarise
from sight.datasets.window_cache import file_hash
from sight.fingerprint import class_fingerprint
from sight.parallel import map_unordered
from sight.types import Windows

#: Called with the number of recordings finished, and how long the rest may take.
OnDone = Callable[[int, str], None]

DIED = (
    "Its worker process died whenever it was tried, perhaps for lack of memory; run it alone with more --memory, or "
    "take it out of the folder."
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a cohort.

    Parameters
    ----------
    finished
        Names of the recordings that have results, sorted.
    kept
        How many of them had results before.
    failures
        Recording, file and what was wrong with it.
    """

    finished: list[str]
    kept: int
    failures: list[tuple[str, str, str]]


def run(
    streams: Sequence[Stream],
    model: Path,
    adapter: Adapter,
    out: Path,
    *,
    read: Callable[[Any, Any, Any], Windows],
    reading: Any,
    engine: str = "loky",
    jobs: int | None = None,
    budget: int | None = None,
    on_done: OnDone | None = None,
) -> Outcome:
    """Answer every recording that has no results yet, and write tables and a page over all of them.

    Parameters
    ----------
    streams
        The recordings.
    model
        A model file; a checkpoint is exported to ONNX once where the method allows.
    adapter
        The method with its settings, not bound yet.
    out
        Folder of the results; the same folder goes on where a run ended.
    read, reading
        How a recording becomes windows, as in `sight.cohort.recording_job.Job`.
    engine, jobs
        As in `sight.parallel.spread`.
    budget
        Bytes that recordings may need together; most of what is free by default.
    on_done
        Called after each recording.
    """
    store = Store(Path(out).resolve())
    wanted, refused = _told_apart(streams, store)
    broken: dict[str, str] = {}
    with store.opened() as log:
        job = _job(Path(model), adapter, store, read, reading)
        todo = _unfinished(wanted, job, store)
        files = {stream.name: stream.path.name if stream.path else "" for stream in todo}
        kept = len(wanted) - len(todo)
        for done in _spread(todo, job, engine, jobs, budget, kept, on_done):
            append(log, _entry(done))
            kept += done.kept
            if done.error:
                broken[done.name] = done.error
        failures = sorted([*refused, *((name, files[name], error) for name, error in broken.items())])
        finished = sorted(stream.name for stream in wanted if stream.name not in broken)
        _write_failures(store, failures)
        summarise(store, finished)
        write_overview(store, finished, failures)
    return Outcome(finished=finished, kept=kept, failures=failures)


def _told_apart(streams: Iterable[Stream], store: Store) -> tuple[list[Stream], list[tuple[str, str, str]]]:
    """Leave out our own results, and refuse a second recording of one name."""
    wanted: dict[str, Stream] = {}
    refused = []
    for stream in streams:
        if stream.path is not None and stream.path.resolve().is_relative_to(store.root):
            continue
        if stream.name in wanted:
            file = stream.path.name if stream.path else ""
            refused.append((stream.name, file, "Another recording has this name too; rename one of them."))
        else:
            wanted[stream.name] = stream
    if not wanted:
        raise ValueError("There is no recording outside the folder of results; name another --out.")
    return list(wanted.values()), refused


def _job(model: Path, adapter: Adapter, store: Store, read: Callable[[Any, Any, Any], Windows], reading: Any) -> Job:
    """Bring the model into the folder in the form that processes load, and say what the folder is about."""
    content = file_hash(model)
    form = ".onnx" if isinstance(adapter, OutputAdapter) else model.suffix
    ready = store.root / f"model{form}"
    about = _settings(store)
    if not ready.is_file() or about.get("model", {}).get("content") != content:
        if model.suffix == form:
            store.write(ready, lambda draft: shutil.copyfile(model, draft))
        else:
            from sight.sources.onnx_export import export_onnx
            from sight.sources.torch import TorchSource

            store.write(ready, lambda draft: export_onnx(TorchSource.load(model), draft))
    from sight.sources import load

    source: Any = load(ready)
    card = require_card(source, model)
    adapter.clone().bind(source)  # what the method cannot work with is told once, not for every recording
    facts = {"file": model.name, "content": content, **_card(source)}
    method = {"method": adapter.name, "params": adapter.params()}
    store.write_json(
        store.settings,
        {"model": facts, **method, "classes": source.classes, "reading": asdict(reading), "sight_version": __version__},
    )
    return Job(
        out=store.root,
        model=ready,
        model_hash=content,
        adapter=adapter,
        code=class_fingerprint(type(adapter)),
        read=read,
        reading=reading,
        overlap=card.window_s / card.stride_s,
    )


def _card(source: Any) -> dict[str, Any]:
    keys = ("encoder", "dataset", "rate_hz", "window_s", "stride_s", "channels", "units")
    return {key: getattr(source.card, key) for key in keys}


def _settings(store: Store) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(store.settings.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _unfinished(streams: Sequence[Stream], job: Job, store: Store) -> list[Stream]:
    """Leave out recordings whose file has not changed since its results were written, without reading it."""
    stamps = store.stamps()

    def finished(stream: Stream) -> bool:
        seen, content = stamps.get(stream.name, (None, ""))
        facts = store.read_facts(stream.name) if unchanged(stream.path, seen) else None
        return facts is not None and facts["key"] == job.key(content)

    return [stream for stream in streams if not finished(stream)]


def _spread(
    todo: Sequence[Stream],
    job: Job,
    engine: str,
    jobs: int | None,
    budget: int | None,
    before: int,
    on_done: OnDone | None,
) -> Iterable[Done]:
    if not todo:
        return
    sizes = [needed(stream.path, job.overlap) for stream in todo]
    # A cluster grants each worker memory of its own; only here does this machine's bound everything.
    here = engine in ("serial", "loky") or engine.startswith("dask:local:")
    budget = budget or (available() if here else None)
    began, did = time.monotonic(), 0
    for count, (at, done) in enumerate(
        map_unordered(
            process,
            [(stream, job) for stream in todo],
            engine,
            jobs,
            memory=sizes,
            budget=budget,
            lost=lambda at: Done(name=todo[at].name, error=DIED),
        ),
        start=1,
    ):
        did += sizes[at]
        yield done
        if on_done:
            on_done(before + count, _left((time.monotonic() - began) * (sum(sizes) - did) / did))


def _left(seconds: float) -> str:
    if seconds < 1:
        return ""
    minutes, hours = seconds / 60, seconds / 3600
    about = f"{hours:.1f} h" if hours >= 2 else f"{minutes:.0f} min" if minutes >= 2 else f"{seconds:.0f} s"
    return f"about {about} left"


def _entry(done: Done) -> dict[str, Any]:
    entry = asdict(done)
    return {"recording": entry.pop("name"), **entry, "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def _write_failures(store: Store, failures: Sequence[tuple[str, str, str]]) -> None:
    if not failures:
        store.failures.unlink(missing_ok=True)
        return

    def write(draft: Path) -> None:
        with draft.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerows([("recording", "file", "error"), *failures])

    store.write(store.failures, write)
