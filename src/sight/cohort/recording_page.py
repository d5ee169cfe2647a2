"""The full report of one recording of a cohort, on demand, from what the run stored."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from sight.cohort.overview_page import write_overview
from sight.cohort.results_folder import Store
from sight.cohort.window_table import read_result
from sight.ops import choices
from sight.report import write_report


def write_page(out: Path, name: str) -> Path:
    """Write `pages/NAME.html`, let the overview lead to it, and return its path.

    Parameters
    ----------
    out
        Folder of the cohort.
    name
        Name of the recording.
    """
    store = Store(Path(out))
    facts = store.read_facts(name)
    if facts is None:
        known = store.names()
        if not known:
            raise ValueError(f"There is no cohort in {out}; run: sight cohort run FOLDER --out {out}")
        raise ValueError(f"There is no recording {name!r} in {out}; {choices(name, known)}")
    model = json.loads(store.settings.read_text("utf-8"))["model"]
    told = {key: facts[key] for key in ("subject", "file", "dataset", "content") if facts[key]}
    result = read_result(store.windows(name), facts)
    written = write_report(store.page(name), result, title=f"Activities of {name}", facts=told | {"model": model})
    write_overview(store, store.names(), _failures(store))
    return written


def _failures(store: Store) -> list[tuple[str, str, str]]:
    if not store.failures.exists():
        return []
    with store.failures.open(encoding="utf-8", newline="") as stream:
        _, *rows = csv.reader(stream)
    return [(name, file, error) for name, file, error in rows]
