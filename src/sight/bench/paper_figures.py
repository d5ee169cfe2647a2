"""The figures that the paper prints, one number a row of ``paper.csv``."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import NamedTuple

#: Tables of scores by pair; the paper prints some pairs here, some there.
BY_PAIR = ("main", "detailed")


class Figure(NamedTuple):
    """A printed number, and its standard deviation over seeds where it is printed."""

    value: float
    std: float | None


@cache
def figures(metric: str = "mf1") -> dict[tuple[str, str, str, str], Figure]:
    """Return the figures of a metric by (table, dataset, case, method).

    Examples
    --------
    >>> figures()["main", "harth", "average", "SIGHT"].value
    76.73
    """
    text = (resources.files("sight.bench") / "configs" / "paper.csv").read_text("utf-8")
    return {
        (row["table"], row["dataset"], row["case"], row["method"]): Figure(
            float(row["value"]), float(row["std"]) if row["std"] else None
        )
        for row in csv.DictReader(text.splitlines())
        if row["metric"] == metric
    }


def of_pair(dataset: str, case: str, method: str) -> Figure | None:
    """Return what the paper prints for a pair of people, in whichever table it stands.

    Examples
    --------
    >>> of_pair("ucihar", "S01->S16", "SIGHT")
    Figure(value=39.34, std=2.74)
    """
    found = (figures().get((table, dataset, case, method)) for table in BY_PAIR)
    return next((figure for figure in found if figure is not None), None)


def average(table: str, dataset: str, case: str, method: str) -> float | None:
    """Return the average that a table of the paper prints for a case, such as a network or an order of the stream."""
    figure = figures().get((table, dataset, case, method))
    return None if figure is None else figure.value


def mean_over(dataset: str, cases: list[str], method: str) -> float | None:
    """Average the paper's figures over exactly these pairs; None where one is not printed."""
    found = [of_pair(dataset, case, method) for case in cases]
    values = [figure.value for figure in found if figure is not None]
    return sum(values) / len(values) if values and len(values) == len(cases) else None
