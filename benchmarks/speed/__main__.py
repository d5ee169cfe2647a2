"""Time every method, or each stage of ``sight adapt``, and print the tables.

python -m benchmarks.speed methods --quick
python -m benchmarks.speed pipeline day.parquet -m wrist
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import rich.table
from benchmarks.speed import methods, pipeline
from benchmarks.speed.tables import speed_tables
from rich.console import Console

from sight.apps.bench.experiment_report.table_format import Table
from sight.apps.bench.preflight import check_writable


def main() -> None:
    """Parse the arguments, measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    own = commands.add_parser("methods", help="every method at the shapes of HARTH and CAPTURE-24, on one thread")
    own.add_argument("--quick", action="store_true", help="fewer repetitions; less precise")
    own.add_argument("-o", "--out", type=Path, default=Path("out/speed.json"), help="file for the figures")
    own = commands.add_parser("pipeline", help="each stage from a file to its report")
    own.add_argument("file", type=Path, help="CSV, Parquet or device file")
    own.add_argument("-m", "--model", required=True, help="name or file of an exported model")
    own.add_argument("--tz", help="time zone of the wearer")
    own.add_argument("-o", "--out", type=Path, default=Path("out/pipeline.json"), help="file for the figures")
    given = parser.parse_args()
    check_writable(given.out.parent)
    if given.command == "methods":
        show(speed_tables(methods.measure(out=given.out, quick=given.quick)))
    else:
        show([pipeline.pipeline_table(pipeline.measure(given.file, given.model, given.out, tz=given.tz))])
    print(f"All figures, machine and versions are in {given.out}.")


def show(tables: Iterable[Table]) -> None:
    """Print tables in the terminal."""
    for entry in tables:
        table = rich.table.Table(*entry.heads, title=entry.title)
        for row in entry.rows:
            table.add_row(*(cell.text for cell in row))
        Console().print(table)


if __name__ == "__main__":
    main()
