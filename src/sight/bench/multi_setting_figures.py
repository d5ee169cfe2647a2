"""Figures over several settings, on white so that they read on light pages and on dark ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sight.bench.figures import ACCENT, BLUE, GREEN, INK, ORANGE, RULE, SOFT, canvas, svg
from sight.bench.multi_setting import Across
from sight.bench.stats import Apart

#: Colours of the methods that chapters speak of.
COLOUR = {"SIGHT": ACCENT, "SIGHT, authors' code": "#c48a7e", "Sticky": BLUE, "EMA": ORANGE, "Keel": GREEN}
MARK = {"SIGHT": "o", "SIGHT, authors' code": "D", "Sticky": "s", "EMA": "v", "Keel": "P"}


def gains(across: Across, labels: Sequence[str]) -> str:
    """Gain over source-only of some methods on each setting, with intervals."""
    shown = list(across.summaries)
    labels = [label for label in labels if label in across.methods]
    with canvas(7.0, 1.0 + 0.48 * len(shown)) as (figure, axes):
        _rows(axes, shown)
        for at, label in enumerate(labels):
            shift = (at - (len(labels) - 1) / 2) * 0.17
            found = across.each(label)
            for row, name in enumerate(reversed(shown)):
                if name in found:
                    _interval(axes, found[name], row - shift, COLOUR.get(label, INK), MARK.get(label, "o"))
        axes.set_xlabel("Macro-F1 against source-only, points")
        _legend(figure, axes, labels)
        return svg(figure)


def forest(found: Mapping[str, Apart], label: str) -> str:
    """Differences with intervals, the best on top; methods that chapters speak of keep their colours."""
    order = sorted(found, key=lambda name: -found[name].mean)
    with canvas(6.4, 0.7 + 0.26 * len(order)) as (figure, axes):
        _rows(axes, order)
        for row, name in enumerate(reversed(order)):
            _interval(axes, found[name], row, COLOUR.get(name, SOFT), "o")
        axes.set_xlabel(label)
        return svg(figure)


def orders(found: Mapping[str, Across], labels: Sequence[str]) -> str:
    """Mean gain of some methods as the order of time is destroyed."""
    cases = [name.replace("blocks", "blocks of 32") for name in found]
    labels = [label for label in labels if all(label in own.whole for own in found.values())]
    with canvas(5.4, 3.0) as (figure, axes):
        axes.axhline(0, color=SOFT, lw=0.8)
        for at, label in enumerate(labels):
            own = [across.gain(label) for across in found.values()]
            places = np.arange(len(cases)) + (at - (len(labels) - 1) / 2) * 0.05
            colour = COLOUR.get(label, INK)
            axes.plot(places, [gain.mean for gain in own], "-", color=colour, lw=1.4)
            for place, gain in zip(places, own, strict=True):
                axes.plot([place, place], [gain.low, gain.high], color=colour, lw=1.2, alpha=0.7)
                axes.plot(place, gain.mean, MARK.get(label, "o"), color=colour, ms=5)
        axes.set_xticks(range(len(cases)), cases)
        axes.set_ylabel("Macro-F1 against\nsource-only, points")
        axes.grid(axis="y", color=RULE, lw=0.5)
        _legend(figure, axes, labels)
        return svg(figure)


def geometry(rows: Any, shown: Mapping[str, str]) -> str:
    """Separability of changes, and how often the deviation points at the new class, by setting."""
    present = [setting for setting in shown if (rows["setting"] == setting).any()]
    by = rows.groupby("setting")[["auc", "auc_true", "routing_top1", "chance", "raw_top1"]].mean().loc[present[::-1]]
    places = np.arange(len(by))
    with canvas(7.2, 1.0 + 0.27 * len(by), 2, sharey=True) as (figure, (left, right)):
        left.axvline(0.5, color=SOFT, lw=0.8)
        left.plot(by["auc"], places, "o", color=BLUE, ms=5, label="as it is")
        left.plot(by["auc_true"], places, "o", mfc="none", mec=INK, ms=9, label="if the belief were right")
        left.axvline(0.9, color=SOFT, lw=0.8, ls=":")
        left.set_xlim(0.4, 1.0)
        left.set_xlabel("AUC of surprise at a change")
        right.plot(100 * by["chance"], places, "|", color=INK, ms=11, mew=1.6, label="chance")
        right.plot(100 * by["routing_top1"], places, "o", color=ACCENT, ms=6, label="deviation")
        right.plot(100 * by["raw_top1"], places, "s", mfc="none", mec=SOFT, ms=9, label="classifier alone")
        right.set_xlim(0, 100)
        right.set_xlabel("New class found at a change, %")
        left.set_yticks(places, [shown[setting] for setting in by.index])
        for axes in (left, right):
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="x", color=RULE, lw=0.5)
            axes.set_axisbelow(True)
            axes.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, columnspacing=1.0)
        return svg(figure)


def _rows(axes: Any, names: Sequence[str]) -> None:
    axes.axvline(0, color=SOFT, lw=0.8)
    axes.set_yticks(range(len(names)), list(names)[::-1])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(axis="x", color=RULE, lw=0.5)
    axes.set_axisbelow(True)


def _interval(axes: Any, apart: Apart, at: float, colour: str, mark: str) -> None:
    if np.isfinite(apart.low):
        axes.plot([apart.low, apart.high], [at, at], color=colour, lw=1.3, solid_capstyle="butt")
    axes.plot(apart.mean, at, mark, color=colour, ms=4.5)


def _legend(figure: Any, axes: Any, labels: Sequence[str]) -> None:
    handles = [
        axes.plot([], [], MARK.get(label, "o"), color=COLOUR.get(label, INK), ms=5, label=label)[0] for label in labels
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(labels), fontsize=8)
