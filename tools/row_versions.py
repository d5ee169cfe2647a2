"""Versions and dates of the results behind a generated table.

Functions that return benchmark rows call `record`, those that read other files of results `record_entries`. `recording`
collects what was recorded while a table is built, and the line under the table states it. So a table cannot use rows
that its line does not name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

LINE = re.compile(r"^\*Rows of sight (.+), computed [\d-]+(?: to [\d-]+)?\.\*$", re.MULTILINE)


@dataclass
class RowVersions:
    """Versions of sight, and dates of computation."""

    versions: set[str] = field(default_factory=set)
    dates: set[str] = field(default_factory=set)

    def add(self, versions: Iterable[str], times: Iterable[str]) -> None:
        """Add versions, and the dates of ISO times."""
        self.versions |= set(versions)
        self.dates |= {time[:10] for time in times}

    def line(self) -> str:
        """Return the line under a table; an empty text without rows."""
        if not self.versions:
            return ""
        ends = dict.fromkeys((min(self.dates), max(self.dates)))
        return f"*Rows of sight {' and '.join(sorted(self.versions))}, computed {' to '.join(ends)}.*"


_RECORDERS: ContextVar[tuple[RowVersions, ...]] = ContextVar("recorders", default=())


@contextmanager
def recording() -> Iterator[RowVersions]:
    """Collect the versions of all results that are recorded in the block."""
    found = RowVersions()
    token = _RECORDERS.set((*_RECORDERS.get(), found))
    try:
        yield found
    finally:
        _RECORDERS.reset(token)


def record(rows: Any) -> Any:
    """Add rows, as `sight.apps.bench.result_rows.read` returns them, to the recorders, and return them."""
    for recorder in _RECORDERS.get():
        recorder.add(rows["sight"].unique(), rows["computed_at"].unique())
    return rows


def record_entries(entries: Iterable[Mapping[str, Any]]) -> None:
    """Add entries with the keys ``sight`` and ``computed_at`` to the recorders."""
    found = list(entries)
    for recorder in _RECORDERS.get():
        recorder.add((entry["sight"] for entry in found), (entry["computed_at"] for entry in found))


def versions_in(text: str) -> set[str]:
    """Return the versions that the lines of a text name."""
    return {version for names in LINE.findall(text) for version in names.split(" and ")}
