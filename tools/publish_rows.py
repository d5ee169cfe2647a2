"""Copy finished benchmark rows to ``benchmarks/results``, print what changes, and write the reports there again.

    python -m tools.publish_rows runs                       # every EXPERIMENT_SETTING.parquet of a folder of runs
    python -m tools.publish_rows runs/days_hapt.parquet     # one of them
    python -m tools.publish_rows runs --partial             # also rows of some methods, seeds or pairs
    python -m tools.publish_rows runs --add --partial       # beside the committed rows of the same experiments

Without ``--add`` a file replaces the committed one. Rows are refused, and nothing is copied, if a method lacks a run
that another one has, or if some rows failed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sight._util.atomic import write_atomic
from sight.apps.bench import result_rows
from sight.apps.bench.experiment_report.write import describe_partial, write_report
from sight.apps.bench.experiments import experiments, load_experiment
from tools.findings_data import RESULTS

RUN = ["sources", "target", "seed", "encoder", "order", "protocol"]
#: Columns that differ between two computations of the same row.
UNCOMPARED = ("computed_at", "seconds", "machine", "sight", "python", "numpy", "torch", "numba", "scipy", "trial")


def publish(places: Sequence[Path], to: Path = RESULTS, *, partial: bool = False, add: bool = False) -> list[str]:
    """Copy result files as ``SETTING/EXPERIMENT_SETTING.parquet``, and return a line for each of them.

    With `add`, committed rows stay, except those of the same runs and methods.

    Raises
    ------
    ValueError
        If rows are missing; nothing is copied then.
    """
    files = [file for place in places for file in (sorted(place.glob("*.parquet")) if place.is_dir() else [place])]
    if not files:
        raise ValueError(f"Expected result files (.parquet) in {', '.join(map(str, places))}, found none.")
    for file in files:
        if file.with_suffix(".failures.txt").exists():
            raise ValueError(f"{file}: some rows failed; run the experiment again.")
    with tempfile.TemporaryDirectory() as folder:
        merged = dict.fromkeys(_merged(file, to, Path(folder)) for file in files) if add else files
        return _publish(list(merged), to, partial)


def _merged(file: Path, to: Path, folder: Path) -> Path:
    """Write the rows of a file, and the committed rows of other runs and methods, to a folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    new = pq.read_table(file)
    experiment, setting = (new[name][0].as_py() for name in ("experiment", "setting"))
    name = f"{experiment}_{setting}.parquet"
    committed = next((path for path in (folder / name, to / setting / name) if path.exists()), None)
    if committed is not None:
        old = pq.read_table(committed)
        columns = [key for key in ("label", *RUN) if key in old.column_names and key in new.column_names]
        before, after = (list(zip(*(part[key].to_pylist() for key in columns), strict=True)) for part in (old, new))
        replaced = set(after)
        kept = old.filter([run not in replaced for run in before])
        new = pa.concat_tables([kept, new], promote_options="permissive")
    return result_rows.write_table(folder / name, new)


def _publish(files: Sequence[Path], to: Path, partial: bool) -> list[str]:
    tables = {file: result_rows.read([file]) for file in files}
    for file, table in tables.items():
        _check(file, table, partial)
    lines, settings = [], set()
    for file, table in tables.items():
        experiment, setting = table["experiment"].iloc[0], table["setting"].iloc[0]
        path = to / setting / f"{experiment}_{setting}.parquet"
        lines.append(f"{path.stem}: {_difference(path, table)}")
        write_atomic(path, file.read_bytes())
        settings.add(setting)
    for setting in sorted(settings):
        write_report([to / setting], to / setting, formats="markdown")
    rows = sorted({path.parent for path in to.glob("*/*.parquet")})
    write_report(rows, to / "main-settings", only_across=True, formats="markdown")
    return lines


def _check(file: Path, table: Any, partial: bool) -> None:
    runs = table.groupby("label").apply(lambda own: frozenset(own[RUN].itertuples(index=False, name=None)))
    every = frozenset().union(*runs)
    missing = {label: len(every - own) for label, own in runs.items() if own != every}
    if missing:
        counts = ", ".join(f"{label} ({count})" for label, count in missing.items())
        raise ValueError(f"{file}: runs are missing of {counts}; run the experiment again.")
    name = table["experiment"].iloc[0]
    planned = {variant.label for variant in load_experiment(name).variants} if name in experiments() else set()
    absent = sorted(planned - set(runs.index))
    found = [*describe_partial(table), *([f"Partial: without {', '.join(absent)}."] if absent else [])]
    if (found or file.name.endswith(".part.parquet")) and not partial:
        raise ValueError(
            f"{file}: {' '.join(found)} Complete the experiment, publish with "
            "--partial, or add the rows to the committed ones with --add --partial."
        )


def _difference(path: Path, new: Any) -> str:
    """Return how the rows differ from those of a committed file."""
    if not path.exists():
        return f"{len(new):,} rows, all new"
    old = result_rows.read([path])
    columns = [name for name in new if name in old and name not in UNCOMPARED]
    before, after = (
        {key: values for key, *values in zip(_keys(table), *(table[c].map(str) for c in columns), strict=True)}
        for table in (old, new)
    )
    same = sum(before.get(key) == values for key, values in after.items())
    changed = sum(key in before for key in after) - same
    versions = " to ".join(", ".join(sorted(table["sight"].unique())) for table in (old, new))
    return (
        f"{len(after.keys() - before.keys()):,} new, {changed:,} changed, {same:,} equal, "
        f"{len(before.keys() - after.keys()):,} removed rows; sight {versions}"
    )


def _keys(table: Any) -> list[tuple[Any, ...]]:
    return list(table[["label", *RUN]].itertuples(index=False, name=None))


def main() -> None:
    """Parse the arguments, publish, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", type=Path, metavar="RUNS")
    parser.add_argument("--to", type=Path, default=RESULTS)
    parser.add_argument("--partial", action="store_true")
    parser.add_argument("--add", action="store_true")
    given = parser.parse_args()
    try:
        print("\n".join(publish(given.places, given.to, partial=given.partial, add=given.add)))
    except ValueError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
