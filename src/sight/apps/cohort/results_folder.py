"""Folder of a cohort's results: paths, atomic writes, and the run log.

Files are drafted in ``.drafts`` and moved into place, so a file is complete or absent, and the next run removes what a
kill left behind. Only the log contains times and machines; all other files depend on the recordings, the model and
the options alone.
"""

import csv
import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sight._util.atomic import sync, write_json
from sight.recordings.window_cache import SETTLED_NS
from sight.results.output_files.csv import from_cell, write_csv
from sight.results.output_tables import all_tables

#: Recording, file and error of a recording that could not be read.
Failure = tuple[str, str, str]


def cohort_tables() -> list[str]:
    return [table.name for table in all_tables() if table.in_cohort]


class ResultsFolder:
    """Paths and files of a folder of results."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.summary = self.root / "summary"  # tables over all recordings
        self.metadata = self.root / "cohort.json"  # model, method, hyper-parameters and reading options
        self.log = self.root / "log.jsonl"  # one line for each processed recording: when, where, how long
        self._failures = self.root / "failures.csv"
        self._drafts = self.root / ".drafts"

    def windows(self, name: str) -> Path:
        return self.root / "windows" / f"{name}.parquet"

    def epochs(self, name: str) -> Path:
        """Return the path of a recording's epochs, which exists if it has any."""
        return self.root / "epochs" / f"{name}.parquet"

    def facts(self, name: str) -> Path:
        """Return the path of a recording's facts; they are written last, so they mark it as finished."""
        return self.root / "facts" / f"{name}.json"

    def table(self, kind: str, name: str) -> Path:
        return self.root / "tables" / kind / f"{name}.parquet"

    def page(self, name: str) -> Path:
        """Return the path of a recording's full report, which exists only after `sight cohort page`."""
        return self.root / "pages" / f"{name}.html"

    def names(self) -> list[str]:
        return sorted(path.stem for path in (self.root / "facts").glob("*.json"))

    def read_facts(self, name: str) -> dict[str, Any] | None:
        return _read_json(self.facts(name)) if self.windows(name).is_file() else None

    def read_metadata(self) -> dict[str, Any]:
        return _read_json(self.metadata) or {}

    def remove(self, name: str) -> None:
        tables = (self.table(kind, name) for kind in cohort_tables())
        for path in (self.facts(name), self.windows(name), self.epochs(name), *tables, self.page(name)):
            path.unlink(missing_ok=True)

    def write(self, path: Path, write: Callable[[Path], object]) -> None:
        """Call `write` with a draft path, then move the draft into place."""
        self._drafts.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._drafts / f"{uuid.uuid4().hex}{path.suffix}"
        try:
            write(draft)
            sync(draft)
            draft.replace(path)
            sync(path.parent)
        finally:
            draft.unlink(missing_ok=True)

    def write_json(self, path: Path, content: Any) -> None:
        self.write(path, lambda draft: write_json(draft, content))

    def write_participants(self, matches: Sequence[Mapping[str, Any]]) -> None:
        """Write which recording each participant has; without participants, remove the file."""
        self._write_list(self.root / "participants.csv", ("participant", "recording", "status"), matches)

    def write_failures(self, failures: Sequence[Failure]) -> None:
        columns = ("recording", "file", "error")
        rows = [dict(zip(columns, failure, strict=True)) for failure in failures]
        self._write_list(self._failures, columns, rows)

    def read_failures(self) -> list[Failure]:
        if not self._failures.exists():
            return []
        with self._failures.open(encoding="utf-8", newline="") as file:
            _, *rows = csv.reader(file)
        return [(name, path, error) for name, path, error in (map(from_cell, row) for row in rows)]

    def _write_list(self, path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            self.write(path, lambda draft: write_csv(draft, columns, rows))
        else:
            path.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[IO[str]]:
        """Open the log, locked against other runs; drafts are removed before and after."""
        self.root.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8") as log:
            _lock(log, self.root)
            shutil.rmtree(self._drafts, ignore_errors=True)
            try:
                yield log
            finally:
                shutil.rmtree(self._drafts, ignore_errors=True)

    def logged_stamps(self) -> dict[str, tuple[list[Any], str]]:
        """Return the latest logged stamp and content hash of each recording's file."""
        stamps: dict[str, tuple[list[Any], str]] = {}
        if self.log.is_file():
            for line in self.log.read_text("utf-8", errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                    stamps[entry["recording"]] = entry["stamp"], entry["content"]
                except (ValueError, KeyError, TypeError):
                    continue  # a line cut short by a kill
        return stamps


def file_stamp(files: Sequence[Path], now_ns: int) -> list[Any] | None:
    """Return path, inode, size and times of files, which change with their content; None if they may not show it.

    A change of a file changes the time of its inode, which programs cannot set. A file changed a moment ago may change
    again within the resolution of that time.
    """
    stamp: list[Any] = []
    for path in files:
        state = path.stat()
        stamp += [str(path.resolve()), state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns]
        if now_ns - max(state.st_mtime_ns, state.st_ctime_ns) <= SETTLED_NS:
            return None
    return stamp or None


def is_unchanged(files: Sequence[Path], stamp: list[Any] | None) -> bool:
    try:
        return stamp is not None and file_stamp(files, 1 << 62) == stamp
    except OSError:
        return False


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return content


def _lock(log: IO[str], root: Path) -> None:
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        return
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"Another run is using {root}; wait until it ends, or choose another folder.") from None
