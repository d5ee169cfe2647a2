"""Processing of one recording of a cohort: read it, run the method, store windows and facts."""

import json
import platform
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from sight import __version__
from sight.apps.cohort.recording_tables import has_tables, read_summary, write_tables
from sight.apps.cohort.results_folder import ResultsFolder, file_stamp
from sight.apps.cohort.stored_windows import LAYOUT, write_epochs, write_windows
from sight.apps.cohort.thumbnail import thumbnail
from sight.base import Adapter, Source
from sight.models.card import require_card
from sight.recordings.read import read_windows
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_references import RecordingRef
from sight.recordings.window_cache import file_hash
from sight.results.output_files.info import info_facts
from sight.results.output_tables.rules import TableRules
from sight.results.summarise_recording import summarise_recording
from sight.results.summary import ResultSummary


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What all recordings of a run share."""

    out: Path  # folder of the results
    model: Path  # file that every process loads
    model_name: str  # of the file that the user gave
    model_hash: str  # of its content
    adapter: Adapter  # unbound, with its hyper-parameters
    method_hash: str  # of the method's code
    lag: float  # later windows that a prediction may use
    options: ReadOptions
    rules: TableRules
    overlap: float = 1.0  # number of windows that contain each sample

    def key(self, content: str) -> str:
        """Return the hash of what determines the windows of a recording; the rules determine its tables only."""
        method = (self.adapter.name, self.adapter.params(), self.lag, self.method_hash)
        parts = (content, self.model_hash, method, asdict(self.options), LAYOUT, __version__)
        return blake2b(json.dumps(parts, sort_keys=True, default=str).encode(), digest_size=20).hexdigest()


#: Fields of a log entry beside "recording" and "finished".
LOG_FIELDS: dict[str, Any] = {
    **{"content": "", "stamp": None, "error": "", "reused": False, "replaced": False},
    **{"seconds": 0.0, "cpu_seconds": 0.0, "peak_bytes": 0, "host": ""},
}
#: Contents of `info.json` that the facts of a recording lack: those of the run, and those of the rules.
OMITTED = ("versions", "files", "rules", "cut_points", "input", "model")


def process_recording(ref: RecordingRef, config: RunConfig) -> dict[str, Any]:
    """Run a recording unless its results exist already, and return its entry in the log.

    Errors are not raised but returned as ``entry["error"]``, which is empty if the recording is finished.
    """
    began, cpu, now_ns = time.perf_counter(), time.process_time(), time.time_ns()
    entry = {"recording": ref.name, **LOG_FIELDS}
    try:
        entry["stamp"] = file_stamp(ref.files, now_ns)
        entry["content"], entry["reused"], entry["replaced"] = _run(ref, config)
    except Exception as exception:  # a broken file may raise anything; the other recordings continue
        ResultsFolder(config.out).remove(ref.name)
        entry["error"] = _error_text(exception, ref)
    return entry | {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "peak_bytes": _peak_bytes(),
        "host": platform.node(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _run(ref: RecordingRef, config: RunConfig) -> tuple[str, bool, bool]:
    """Return the content hash, whether results for it existed already, and whether other results were replaced."""
    folder, source = ResultsFolder(config.out), _load_source(config.model, config.model_hash)
    windows = None if ref.files else read_windows(ref, require_card(source), config.options)
    content = " ".join(map(file_hash, ref.files)) or _windows_hash(windows)
    key = config.key(content)
    earlier = folder.read_facts(ref.name)
    if earlier is not None and earlier["key"] == key:
        if not has_tables(folder, ref.name, config.rules):
            write_tables(folder, ref.name, read_summary(folder, ref.name, earlier, config.rules))
        return content, True, False
    folder.remove(ref.name)
    summary = summarise_recording(
        ref,
        source,
        config.adapter,
        config.model_name,
        options=config.options,
        windows=windows,
        rules=config.rules,
        lag=config.lag,
    )
    folder.write(folder.windows(ref.name), lambda draft: write_windows(draft, summary, ref.name))
    if (epochs := summary.result.windows.epochs) is not None:
        folder.write(folder.epochs(ref.name), lambda draft: write_epochs(draft, epochs))
    write_tables(folder, ref.name, summary)
    folder.write_json(folder.facts(ref.name), _facts(summary, ref, key=key, content=content))
    return content, False, earlier is not None


def _facts(summary: ResultSummary, ref: RecordingRef, **hashes: str) -> dict[str, Any]:
    """Return the facts of a recording; they depend on recording, model and options alone, not on time or machine."""
    own = {"recording": ref.name, "subject": "", "file": ref.file_names, "dataset": ref.dataset, **hashes}
    facts: dict[str, Any] = own | info_facts(summary)
    start = summary.result.windows.start
    facts["stream"]["zone"] = getattr(start.tzinfo, "key", None) if start else None
    facts["sight_version"] = __version__
    facts["thumbnail"] = thumbnail(summary)
    return {key: value for key, value in facts.items() if key not in OMITTED}


@lru_cache(maxsize=1)
def _load_source(model: Path, content: str) -> Source:  # noqa: ARG001 - part of the cache key
    from sight.models.load import load

    return load(model)


def _windows_hash(windows: Any) -> str:
    digest = blake2b(digest_size=20)
    digest.update(repr((windows.window_s, windows.stride_s, windows.start, windows.x.shape)).encode())
    for array in (windows.x, windows.time_s, windows.label, windows.gap_before_s, windows.wear):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _error_text(exception: Exception, ref: RecordingRef) -> str:
    """Return the message of an exception without the folder of the file, which differs between machines."""
    text = " ".join(str(exception).split())
    for path in ref.files:
        text = text.replace(str(path), path.name)
    expected = isinstance(exception, ValueError | OSError) and text
    return text if expected else f"{type(exception).__name__}: {text}"


def _peak_bytes() -> int:
    """Return the peak memory of this process, 0 if unknown; `getrusage` would include the parent's before the fork."""
    try:
        text = Path("/proc/self/status").read_text("ascii")
        return int(text.partition("VmHWM:")[2].split()[0]) << 10
    except (OSError, IndexError, ValueError):
        return 0
