"""Figures of docs/findings.md, drawn from the committed benchmark rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sight.apps.bench.experiment_report.figures import (
    ACCENT,
    BLUE,
    COLOUR,
    INK,
    RULE,
    SOFT,
    canvas,
    draw_interval,
    forest,
    named_rows,
    svg,
)
from sight.apps.bench.experiment_report.multi_setting_summary import MultiSettingSummary
from tools.findings_data import AUTHORS, KEEL, SIGHT, STICKY, names, rows_of, summary
from tools.findings_tables import ORDERS

MARKERS = {SIGHT: "o", AUTHORS: "D", STICKY: "s", KEEL: "P"}


def figures() -> dict[str, str]:
    """Return all figures by file name."""
    parts = summary("keel-parts")
    labels = [label for label in parts.complete if parts.methods[label] == "keel" and label != KEEL]
    differences = {label: parts.difference(label, KEEL) for label in labels}
    found = {
        "gains": gains(summary("table-main"), (SIGHT, AUTHORS, STICKY, KEEL)),
        "means": forest(summary("table-main").mean_gains, "Mean gain over source-only, points of macro-F1"),
        "order": orders({name: summary("order", "all", order=name) for name in ORDERS}, (SIGHT, STICKY, "OATTA", KEEL)),
        "geometry": geometry(rows_of("geometry", "all", label=SIGHT), names()),
        "parts": forest(differences, "Macro-F1 against Keel, points, mean over settings"),
    }
    return {f"findings-{name}.svg": text for name, text in found.items()}


def gains(found: MultiSettingSummary, labels: Sequence[str]) -> str:
    """Draw the gain over source-only of some methods on each setting, with intervals."""
    settings = list(found.summaries)[::-1]
    with canvas(7.0, 1.0 + 0.48 * len(settings)) as (figure, axes):
        named_rows(axes, settings)
        for at, label in enumerate(labels):
            shift = (at - (len(labels) - 1) / 2) * 0.17
            own = found.by_setting(label)
            for row, name in enumerate(settings):
                draw_interval(axes, own[name], row - shift, COLOUR.get(label, INK), MARKERS.get(label, "o"))
        axes.set_xlabel("Macro-F1 against source-only, points")
        _legend(figure, axes, labels)
        return svg(figure)


def orders(found: Mapping[str, MultiSettingSummary], labels: Sequence[str]) -> str:
    """Draw the mean gain of some methods for each stream order."""
    with canvas(5.4, 3.0) as (figure, axes):
        axes.axhline(0, color=SOFT, lw=0.8)
        for at, label in enumerate(labels):
            own = [one.gain(label) for one in found.values()]
            places = np.arange(len(own)) + (at - (len(labels) - 1) / 2) * 0.05
            colour = COLOUR.get(label, INK)
            axes.plot(places, [gain.mean for gain in own], "-", color=colour, lw=1.4)
            for place, gain in zip(places, own, strict=True):
                axes.plot([place, place], [gain.low, gain.high], color=colour, lw=1.2, alpha=0.7)
                axes.plot(place, gain.mean, MARKERS.get(label, "o"), color=colour, ms=5)
        axes.set_xticks(range(len(found)), [ORDERS[name] for name in found])
        axes.set_ylabel("Macro-F1 against\nsource-only, points")
        axes.grid(axis="y", color=RULE, lw=0.5)
        _legend(figure, axes, labels)
        return svg(figure)


def geometry(rows: Any, short_names: Mapping[str, str]) -> str:
    """Draw the separability of changes, and how often the new class is identified, by setting."""
    present = [setting for setting in short_names if (rows["setting"] == setting).any()]
    by = rows.groupby("setting")[["auc", "auc_true", "routing_top1", "chance", "raw_top1"]].mean().loc[present[::-1]]
    places = np.arange(len(by))
    with canvas(7.2, 1.0 + 0.27 * len(by), 2, sharey=True) as (figure, (left, right)):
        left.axvline(0.5, color=SOFT, lw=0.8)
        left.plot(by["auc"], places, "o", color=BLUE, ms=5, label="adapted prototypes")
        left.plot(by["auc_true"], places, "o", mfc="none", mec=INK, ms=9, label="true class")
        left.set_xlim(0.4, 1.0)
        left.set_xlabel("AUC of surprise at a change")
        right.plot(100 * by["chance"], places, "|", color=INK, ms=11, mew=1.6, label="chance")
        right.plot(100 * by["routing_top1"], places, "o", color=ACCENT, ms=6, label="deviation")
        right.plot(100 * by["raw_top1"], places, "s", mfc="none", mec=SOFT, ms=9, label="source-only")
        right.set_xlim(0, 100)
        right.set_xlabel("New class identified at a change, %")
        left.set_yticks(places, [short_names[setting] for setting in by.index])
        for axes in (left, right):
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="x", color=RULE, lw=0.5)
            axes.set_axisbelow(True)
            axes.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, columnspacing=1.0)
        return svg(figure)


def _legend(figure: Any, axes: Any, labels: Sequence[str]) -> None:
    handles = [
        axes.plot([], [], MARKERS.get(label, "o"), color=COLOUR.get(label, INK), ms=5, label=label)[0]
        for label in labels
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(labels), fontsize=8)
