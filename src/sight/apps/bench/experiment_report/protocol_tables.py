"""Gain of each method under several protocols and stream orders, beside the printed one."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from sight.apps.bench.experiment_report.figures import COLOUR, RULE, SOFT, canvas, svg
from sight.apps.bench.experiment_report.summary import MethodSummary, summarise
from sight.apps.bench.experiment_report.table_format import DASH, Cell, Table, number
from sight.apps.bench.experiments import experiments, load_experiment

Summaries: TypeAlias = Mapping[tuple[str, str], MethodSummary]  # by protocol and order

NOTE = (
    "Difference to source-only in macro-F1, mean over target subjects, in points; the column of source-only has its "
    "macro-F1, mean over pairs. First row: the printed values on the same pairs. Orders: of recording (time), of the "
    "dataset's files, and sorted by activity."
)
#: Marker of each stream order.
MARKERS = {"time": "o", "files": "s", "activity": "^", "chronological": "o"}


def summaries(own: Any) -> Summaries:
    """Summarise rows on one setting by protocol, in the order of the experiment's list, and stream order."""
    found = {(str(p), str(o)): summarise(part) for (p, o), part in own.groupby(["protocol", "order"], sort=False)}
    name = own["experiment"].iloc[0]
    listed = [*load_experiment(name).protocols] if name in experiments() else []
    places = {protocol: place for place, protocol in enumerate(dict.fromkeys([*listed, *(p for p, _ in found)]))}
    return dict(sorted(found.items(), key=lambda item: places[item[0][0]]))


def gains(found: Summaries, name: str, title: str) -> Table:
    """Return a row for each protocol and order, after one with the printed values."""
    rows, labels = [], _labels(found)
    for (protocol, order), summary in found.items():
        levels, deltas = summary.table["mean"], summary.table["delta"]
        cells = [
            Cell(
                number(levels[label]) if label == summary.source_only else number(deltas.get(label, np.nan), sign=True)
            )
            for label in labels
        ]
        rows.append([Cell(f"{protocol}, {order}"), Cell(str(summary.seeds)), *cells])
    base, printed = summary.source_only, summary.table
    values = {label: printed["paper" if label == base else "paper_delta"].get(label, np.nan) for label in labels}
    first = [Cell(number(value, sign=label != base)) for label, value in values.items()]
    heads = ["Protocol, order", "Seeds", *labels]
    return Table(name=name, title=title, heads=heads, rows=[[Cell("printed"), Cell(DASH), *first], *rows], note=NOTE)


def figure(found: Summaries) -> str:
    """Draw the gain of each method by protocol, a marker for each order, and the printed gain as a line."""
    labels, protocols = _labels(found)[1:], list(dict.fromkeys(protocol for protocol, _ in found))
    with canvas(2.4 + 1.7 * len(labels), 1.2 + 0.28 * len(protocols), len(labels), sharey=True, squeeze=False) as (
        drawn,
        panels,
    ):
        for axes, label in zip(panels[0], labels, strict=True):
            for (protocol, order), summary in found.items():
                gain, row = summary.table["delta"].get(label, np.nan), protocols.index(protocol)
                marker = MARKERS.get(order, "o")
                axes.plot(gain, row, marker, color=COLOUR.get(label, SOFT), ms=4, label=order if not row else None)
            printed = summary.table["paper_delta"].get(label, np.nan)
            if np.isfinite(printed):
                axes.axvline(printed, color=COLOUR.get(label, SOFT), lw=1, ls="--")
            axes.axvline(0, color=RULE, lw=0.8, zorder=0)
            axes.set_title(label.replace(", ", ",\n"), fontsize=7)
            axes.set_yticks(range(len(protocols)), protocols)
        panels[0][0].invert_yaxis()
        drawn.legend(*panels[0][-1].get_legend_handles_labels(), fontsize=7, loc="outside lower right", ncols=3)
        drawn.supxlabel("Macro-F1 against source-only, points; dashed: printed", fontsize=8)
        return svg(drawn)


def _labels(found: Summaries) -> list[str]:
    """Return the labels of all methods, source-only first."""
    return list(dict.fromkeys(label for summary in found.values() for label in summary.table.index))
