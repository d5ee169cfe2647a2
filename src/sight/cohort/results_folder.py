"""The folder of a cohort: where things lie, what is finished, and the log of who took how long.

Whatever is written under a name that counts is drafted in `.drafts` and moved there, so a file is whole or absent, and
the next run sweeps up what a kill left. Only the log knows times and machines; everything else depends on the
recordings, the model and the settings alone.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sight.atomic import write_json
from sight.datasets.window_cache import SETTLED_NS


@dataclass(frozen=True)
class Store:
    """A folder of results.

    Parameters
    ----------
    root
        Where it is.
    """

    root: Path

    def windows(self, name: str) -> Path:
        """Windows of a recording."""
        return self.root / "windows" / f"{name}.parquet"

    def facts(self, name: str) -> Path:
        """Facts of a recording; written last, so a recording that has them is finished."""
        return self.root / "facts" / f"{name}.json"

    def page(self, name: str) -> Path:
        """Full report of a recording, where somebody has asked for it."""
        return self.root / "pages" / f"{name}.html"

    @property
    def failures(self) -> Path:
        """Recordings that could not be read; not there where all could."""
        return self.root / "failures.csv"

    @property
    def summary(self) -> Path:
        """Tables over all recordings."""
        return self.root / "summary"

    @property
    def settings(self) -> Path:
        """What all recordings share: model, method, settings."""
        return self.root / "cohort.json"

    @property
    def log(self) -> Path:
        """One line for each recording that was worked on: when, where, how long."""
        return self.root / "log.jsonl"

    @property
    def drafts(self) -> Path:
        """Files that are not finished."""
        return self.root / ".drafts"

    def write(self, path: Path, write: Callable[[Path], object]) -> None:
        """Have a file drafted, then move it into place."""
        self.drafts.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.drafts / f"{uuid.uuid4().hex}{path.suffix}"
        try:
            write(draft)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    def write_json(self, path: Path, content: Any) -> None:
        """Write JSON, whole or not at all."""
        self.write(path, lambda draft: write_json(draft, content))

    def read_facts(self, name: str) -> dict[str, Any] | None:
        """Return the facts of a finished recording, or None."""
        try:
            found: dict[str, Any] = json.loads(self.facts(name).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if self.windows(name).is_file() else None

    def names(self) -> list[str]:
        """Return the names of all finished recordings, sorted."""
        return sorted(path.stem for path in (self.root / "facts").glob("*.json"))

    def forget(self, name: str) -> None:
        """Remove what an earlier content of a recording left."""
        self.facts(name).unlink(missing_ok=True)
        self.windows(name).unlink(missing_ok=True)
        self.page(name).unlink(missing_ok=True)

    @contextmanager
    def opened(self) -> Iterator[IO[str]]:
        """Open the log for one run at a time, and clear drafts before and after it."""
        self.root.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8") as log:
            _lock(log, self.root)
            shutil.rmtree(self.drafts, ignore_errors=True)
            try:
                yield log
            finally:
                shutil.rmtree(self.drafts, ignore_errors=True)

    def stamps(self) -> dict[str, tuple[list[Any], str]]:
        """Return, by name, how each file looked when its content was last hashed, and the hash."""
        found: dict[str, tuple[list[Any], str]] = {}
        if self.log.is_file():
            for line in self.log.read_text("utf-8", errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                    found[entry["recording"]] = entry["stamp"], entry["content"]
                except (ValueError, KeyError, TypeError):
                    continue  # a line cut short by a kill
        return found


def stamp(path: Path | None, now_ns: int) -> list[Any] | None:
    """Tell how a file looks without reading it; None where that would not show a change of its content.

    Changing a file changes the time of its inode, which no program can set; a file changed a moment ago may change once
    more within the grain of that time.
    """
    if path is None:
        return None
    state = path.stat()
    seen = [str(path.resolve()), state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns]
    return seen if now_ns - max(state.st_mtime_ns, state.st_ctime_ns) > SETTLED_NS else None


def unchanged(path: Path | None, seen: list[Any] | None) -> bool:
    """Return whether a file looks as it did."""
    try:
        return path is not None and seen is not None and stamp(path, 1 << 62) == seen
    except OSError:
        return False


def append(log: IO[str], entry: Mapping[str, Any]) -> None:
    """Add a line at once, so that a kill loses one line at most."""
    log.write(json.dumps(entry) + "\n")
    log.flush()


def _lock(log: IO[str], root: Path) -> None:
    try:
        import fcntl
    except ModuleNotFoundError:  # not on Windows
        return
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"Another run works in {root} at the moment; wait for it to end, or name another folder."
        ) from None
