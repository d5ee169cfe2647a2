"""Gains of Keel on source models of three subjects, by the share of the correction that they get.

Run the benchmark with the files of this folder's ``few_subjects``, then this script on its results::

    sight bench run share.toml -d hapt-body.toml -o OUT/hapt-body       # the same for hapt-total and wisdm
    python -m benchmarks.keel.few_subjects OUT RESULTS

It writes RESULTS/few_subjects.csv: macro-F1 on recordings and accuracy on days that one class fills, in points over
source-only, and the percentage of runs that lose more than 3 points.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
from benchmarks.keel.evaluate import MARGIN
from benchmarks.keel.search import write

from sight.apps.bench.result_rows import read

RUN = ["sources", "target", "seed", "order"]


def gains(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return the gains over source-only in points, a row for each run and a column for each method."""
    table = 100 * rows.pivot_table(index=RUN, columns="label", values=score)
    return table.sub(table.pop("Source-only"), axis=0)


def main() -> None:
    """Write a row for each setting and method."""
    runs, results = (Path(name) for name in sys.argv[1:3])
    found: list[dict[str, Any]] = []
    for path in sorted(runs.glob("*/share_*.parquet")):
        rows = read([path])
        recorded = rows["order"] == "chronological"
        recordings, days = gains(rows[recorded], "macro_f1_union"), gains(rows[~recorded], "accuracy")
        for label in recordings:
            figures: dict[str, Any] = {"setting": path.parent.name, "method": label}
            for name, own in (("recordings", recordings[label]), ("days", days[label])):
                harmed = 100 * float((own < -MARGIN).mean())
                figures |= {name: float(own.mean()), f"{name}_harmed_percent": harmed}
            found.append(figures)
    write(results / "few_subjects.csv", found)


if __name__ == "__main__":
    main()
