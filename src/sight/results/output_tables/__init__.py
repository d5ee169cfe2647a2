"""Tables of a result, one module each, and their registry.

A module below defines `TABLE`. With its line in `TABLES`, the table is written by `sight adapt`, described in
`info.json`, an attribute of `sight.Adaptation`, and concatenated over the recordings of a cohort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from sight.results.summary import ResultSummary

Row: TypeAlias = Mapping[str, Any]
#: date: ISO text; time: ISO text of the moment in the column with the suffix ``_s``.
Kind: TypeAlias = Literal["number", "int", "bool", "text", "date", "time"]

#: Name of each table and the module that defines it, in the order of the output files.
TABLES = {
    "segments": "sight.results.output_tables.segments",
    "daily": "sight.results.output_tables.daily",
    "hourly": "sight.results.output_tables.hourly",
    "day_statistics": "sight.results.output_tables.day_statistics",
    "nights": "sight.results.output_tables.nights",
    "bouts": "sight.results.output_tables.bouts",
    "nonwear": "sight.results.output_tables.nonwear",
    "summary": "sight.results.output_tables.subject",
    "quality": "sight.results.output_tables.quality",
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Description of an output table.

    Parameters
    ----------
    name
        Name of the file without its suffix, of the attribute and of the table of a cohort.
    description
        What one row is.
    fixed
        Columns that do not depend on the classes of the model.
    rows
        Takes the summary of a result and returns one mapping per row, from column to value.
    columns
        Takes the summary and returns all columns in their order; None if they are the `fixed` ones.
    kinds
        Kind of the columns that are not numbers.
    heading
        Heading of a section of the report with the rows; empty for no section.
    in_cohort
        Whether a cohort concatenates the tables of its recordings.
    """

    name: str
    description: str
    fixed: tuple[str, ...]
    rows: Callable[[ResultSummary], Sequence[Row]]
    columns: Callable[[ResultSummary], Sequence[str]] | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    heading: str = ""
    in_cohort: bool = True

    @property
    def file(self) -> str:
        return f"{self.name}.csv"

    def columns_of(self, summary: ResultSummary) -> Sequence[str]:
        return self.fixed if self.columns is None else self.columns(summary)


def table(name: str) -> Table:
    found: Table = import_module(TABLES[name]).TABLE
    return found


def all_tables() -> Iterator[Table]:
    return map(table, TABLES)
