"""A table as an outsider would add it: one module with `TABLE`."""

from __future__ import annotations

from sight.results.output_tables import Table


def rows(summary):
    return [{"class": name, "windows": int((summary.refined == k).sum())} for k, name in enumerate(summary.classes)]


TABLE = Table(
    name="counts",
    description="one row per class: number of windows",
    fixed=("class", "windows"),
    rows=rows,
    kinds={"class": "text", "windows": "int"},
    heading="Windows of each class",
)
