"""Full reports of recordings of a cohort, written on demand from their stored windows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sight._util.text import choices
from sight.apps.cohort.overview_page import write_overview
from sight.apps.cohort.recording_tables import read_summary
from sight.apps.cohort.results_folder import ResultsFolder
from sight.results.report import write_report
from sight.results.tables.rules import TableRules


def write_recording_pages(out: Path, names: Sequence[str]) -> list[Path]:
    """Write ``pages/NAME.html`` for each recording, and link them in the overview."""
    folder = ResultsFolder(out)
    written = [_write_page(folder, name) for name in names]
    write_overview(folder, folder.names(), folder.read_failures())
    return written


def _write_page(folder: ResultsFolder, name: str) -> Path:
    facts = folder.read_facts(name)
    if facts is None:
        names = folder.names()
        if not names:
            raise ValueError(f"There is no cohort in {folder.root}; run: sight cohort run FOLDER --out {folder.root}")
        raise ValueError(f"There is no recording {name!r} in {folder.root}; {choices(name, names)}")
    metadata = folder.read_metadata()
    summary = read_summary(folder, name, facts, TableRules(**metadata["rules"]))
    summary.info |= {key: facts[key] for key in ("file", "dataset", "content") if facts[key]}
    summary.info |= {"model": metadata["model"], "title": f"Activities of {name}"}
    return write_report(folder.page(name), summary)
