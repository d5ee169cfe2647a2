"""Run of a cohort: every recording through one model and one method, then tables and a page over all of them."""

import json
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sight import __version__
from sight._util.code_hash import class_fingerprint
from sight._util.parallel import is_local, map_unordered
from sight.apps.cohort.memory_budget import available_bytes, estimate_bytes
from sight.apps.cohort.overview_page import write_overview
from sight.apps.cohort.participants import Participants, read_participants
from sight.apps.cohort.recording_job import LOG_FIELDS, RunConfig, process_recording
from sight.apps.cohort.recording_tables import has_tables
from sight.apps.cohort.results_folder import Failure, ResultsFolder, is_unchanged
from sight.apps.cohort.summary_tables import write_summary
from sight.base import Adapter, OutputAdapter
from sight.models.bundled import resolve
from sight.models.card import require_card
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_references import RecordingRef
from sight.recordings.window_cache import file_hash
from sight.results.output_tables.rules import TableRules
from sight.results.smoothing import require_smoothable, rule_of, stored_lag

#: Called with the number of finished recordings and the estimated time left.
OnDone = Callable[[int, str], None]

WORKER_DIED = (
    "Its worker process died every time, perhaps for lack of memory; run it alone with more --memory, or remove it."
)


@dataclass(frozen=True, kw_only=True)
class CohortOutcome:
    """Result of a cohort run."""

    finished: list[str]  # names of the recordings that have results, sorted
    reused: int  # number of those that had results before
    replaced: int  # number of those whose earlier results were replaced
    changes: str  # what differs from the earlier run, such as "method changed from keel to sight"
    failures: list[Failure]  # sorted
    participants: Participants | None = None  # what was joined, if a table of participants was given


def run(
    recordings: Sequence[RecordingRef],
    model: str | Path,
    adapter: Adapter,
    out: Path,
    *,
    options: ReadOptions | None = None,
    lag: float | None = None,
    engine: str = "loky",
    jobs: int | None = None,
    budget: int | None = None,
    on_done: OnDone | None = None,
    rules: TableRules | None = None,
    participants: Path | None = None,
    id_column: str | None = None,
) -> CohortOutcome:
    """Run every recording that has no results yet, and write tables and a page over all of them.

    A run in the same folder resumes the earlier one; with other `rules` only the tables are computed again. A
    checkpoint is exported to ONNX once if the method allows it. `lag` is that of `sight.adapt`, `engine` and `jobs` are
    those of `map_unordered`, `budget` are the bytes that recordings may use together, most of the free memory by
    default. `participants` is a CSV file with one row per participant, which is joined with the tables by its
    `id_column`, detected if None.
    """
    folder = ResultsFolder(Path(out).resolve())
    wanted, failures = _check_names(recordings, folder)
    rules = rules or TableRules()
    subjects = {ref.name: ref.subject or ref.name for ref in wanted}
    if participants is not None:  # an unsuitable file raises here, not after all recordings
        id_column = read_participants(participants, subjects, id_column).id_column
    with folder.locked() as log:
        before = folder.read_metadata()
        config = _prepare(resolve(model), adapter, folder, options or ReadOptions(), rules, lag)
        changes = _changes(before, folder.read_metadata())
        todo = _unfinished(wanted, config, folder)
        files = {ref.name: ref.file_names for ref in todo}
        reused, replaced, failed = len(wanted) - len(todo), 0, set()
        for entry in _process(todo, config, engine, jobs, budget, reused, on_done):
            print(json.dumps(entry), file=log, flush=True)  # a kill loses at most one line
            name = entry["recording"]
            reused += entry["reused"]
            replaced += entry["replaced"]
            if entry["error"]:
                failed.add(name)
                failures.append((name, files[name], entry["error"]))
        finished = sorted(ref.name for ref in wanted if ref.name not in failed)
        failures.sort()
        folder.write_failures(failures)
        people = None if participants is None else read_participants(participants, subjects, id_column, failed)
        folder.write_participants(people.matches if people else [])
        write_summary(folder, finished, people)
        write_overview(folder, finished, failures)
    return CohortOutcome(
        finished=finished, reused=reused, replaced=replaced, changes=changes, failures=failures, participants=people
    )


def _check_names(recordings: Iterable[RecordingRef], folder: ResultsFolder) -> tuple[list[RecordingRef], list[Failure]]:
    """Drop files inside the results folder, and report recordings whose name is taken or no text as failures."""
    wanted: dict[str, RecordingRef] = {}
    failures = []
    for ref in recordings:
        if any(path.resolve().is_relative_to(folder.root) for path in ref.files):
            continue
        name, files = (text.encode("utf-8", "backslashreplace").decode() for text in (ref.name, ref.file_names))
        if (name, files) != (ref.name, ref.file_names):
            failures.append((name, files, "Its name is not UTF-8, so no table could contain it; rename the file."))
        elif ref.name in wanted:
            failures.append((ref.name, ref.file_names, "Another recording has the same name; rename one of them."))
        else:
            wanted[ref.name] = ref
    if not wanted:
        raise ValueError("There is no recording outside the folder of results; choose another --out.")
    return list(wanted.values()), failures


def _prepare(
    model: Path, adapter: Adapter, folder: ResultsFolder, options: ReadOptions, rules: TableRules, lag: float | None
) -> RunConfig:
    """Copy or export the model into the folder, check that the method accepts it, and write the metadata."""
    lag = stored_lag(adapter.name) if lag is None else lag
    require_smoothable(adapter.name, lag)
    content = file_hash(model)
    suffix = ".onnx" if isinstance(adapter, OutputAdapter) else model.suffix
    stored = folder.root / f"model{suffix}"
    if not stored.is_file() or folder.read_metadata().get("model", {}).get("content") != content:
        if model.suffix == suffix:
            folder.write(stored, lambda draft: shutil.copyfile(model, draft))
        else:
            from sight.models.export.onnx import export_onnx
            from sight.models.torch import TorchSource

            folder.write(stored, lambda draft: export_onnx(TorchSource.load(model), draft))
    from sight.models.load import load

    source: Any = load(stored)
    card = require_card(source, model)
    rules.require_classes(tuple(source.classes))
    adapter.clone().bind(source)  # a method that does not fit raises here, once, and not for every recording
    fields = ("encoder", "dataset", "rate_hz", "window_s", "stride_s", "channels", "units")
    metadata = {
        "model": {"file": model.name, "content": content, **{name: getattr(card, name) for name in fields}},
        "method": adapter.name,
        "params": adapter.params(),
        "rule": rule_of(lag) if lag else adapter.rule,
        "classes": source.classes,
        "reading": asdict(options),
        "rules": asdict(rules),
        "sight_version": __version__,
    }
    folder.write_json(folder.metadata, metadata)
    return RunConfig(
        out=folder.root,
        model=stored,
        model_name=model.name,
        model_hash=content,
        adapter=adapter,
        method_hash=class_fingerprint(type(adapter)),
        lag=lag,
        options=options,
        rules=rules,
        overlap=card.window_s / card.stride_s,
    )


def _changes(before: dict[str, Any], now: dict[str, Any]) -> str:
    if not before or before == now:
        return ""
    texts = []
    for key, name in (("method", "method"), ("rule", "streaming rule"), ("sight_version", "version of sight")):
        if before.get(key) != now[key]:
            texts.append(f"{name} changed from {before.get(key)} to {now[key]}")
    changed = {
        "hyper-parameters": before.get("method") == now["method"] and before.get("params") != now["params"],
        "model": before.get("model", {}).get("content") != now["model"]["content"],
        "reading options": before.get("reading") != now["reading"],
    }
    return ", ".join([*texts, *(f"{name} changed" for name, differs in changed.items() if differs)])


def _unfinished(recordings: Sequence[RecordingRef], config: RunConfig, folder: ResultsFolder) -> list[RecordingRef]:
    """Return the recordings without results for these rules, and those whose file may have changed."""
    stamps = folder.logged_stamps()

    def is_finished(ref: RecordingRef) -> bool:
        stamp, content = stamps.get(ref.name, (None, ""))
        facts = folder.read_facts(ref.name) if is_unchanged(ref.files, stamp) else None
        known = facts is not None and facts["key"] == config.key(content)
        return known and has_tables(folder, ref.name, config.rules)

    return [ref for ref in recordings if not is_finished(ref)]


def _process(
    todo: Sequence[RecordingRef],
    config: RunConfig,
    engine: str,
    jobs: int | None,
    budget: int | None,
    finished: int,
    on_done: OnDone | None,
) -> Iterable[dict[str, Any]]:
    if not todo:
        return
    sizes = [estimate_bytes(ref.files, config.overlap) for ref in todo]
    entries = map_unordered(
        process_recording,
        [(ref, config) for ref in todo],
        engine,
        jobs,
        memory=sizes,
        # The workers of a cluster have memory of their own; only local ones share that of this machine.
        budget=budget or (available_bytes() if is_local(engine) else None),
        on_lost=lambda index: {"recording": todo[index].name, **LOG_FIELDS, "error": WORKER_DIED},
    )
    began, done_bytes = time.monotonic(), 0
    for count, (index, entry) in enumerate(entries, start=finished + 1):
        done_bytes += sizes[index]
        yield entry
        if on_done:
            on_done(count, time_left(time.monotonic() - began, done_bytes, sum(sizes)))


def time_left(elapsed_s: float, done_bytes: float, total_bytes: float) -> str:
    """Return the remaining time as text, if the remaining bytes take as long as the finished ones."""
    seconds = elapsed_s * (total_bytes - done_bytes) / done_bytes
    if seconds < 1:
        return ""
    minutes, hours = seconds / 60, seconds / 3600
    text = f"{hours:.1f} h" if hours >= 2 else f"{minutes:.0f} min" if minutes >= 2 else f"{seconds:.0f} s"
    return f"about {text} left"
