"""Full report of one recording of a cohort, written on demand from its stored windows."""

from __future__ import annotations

from pathlib import Path

from sight.cohort.overview_page import write_overview
from sight.cohort.results_folder import ResultsFolder
from sight.cohort.window_table import read_result
from sight.ops import choices
from sight.report import write_report


def write_recording_page(out: Path, name: str) -> Path:
    """Write ``pages/NAME.html`` for a recording, link it in the overview, and return its path."""
    folder = ResultsFolder(out)
    facts = folder.read_facts(name)
    if facts is None:
        names = folder.names()
        if not names:
            raise ValueError(f"There is no cohort in {out}; run: sight cohort run FOLDER --out {out}")
        raise ValueError(f"There is no recording {name!r} in {out}; {choices(name, names)}")
    header = {key: facts[key] for key in ("subject", "file", "dataset", "content") if facts[key]}
    header["model"] = folder.read_metadata()["model"]
    result = read_result(folder.windows(name), facts)
    written = write_report(folder.page(name), result, title=f"Activities of {name}", facts=header)
    write_overview(folder, folder.names(), folder.read_failures())
    return written
