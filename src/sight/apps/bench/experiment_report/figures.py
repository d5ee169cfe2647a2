"""Figures as SVG; the same numbers give the same bytes."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from itertools import pairwise
from typing import Any

import numpy as np

from sight.apps.bench.analyses import AROUND, EDGES
from sight.apps.bench.experiment_report.analysis_tables import class_means
from sight.apps.bench.experiment_report.summary import HIGHLIGHTED, MethodSummary, grids
from sight.apps.bench.result_rows import arrays, matrices
from sight.results.report.palette import SERIES
from sight.results.score_statistics import Difference
from sight.types import Array

INK, SOFT, RULE, ACCENT = "#1d1f23", "#7d828a", "#d9d6cf", "#8a2f1d"
BLUE, ORANGE, GREEN = SERIES[:3]
#: Colours of methods that the documentation discusses; others are drawn in black.
COLOUR = {"SIGHT": ACCENT, "SIGHT, authors' code": "#c48a7e", "Sticky": BLUE, "EMA": ORANGE, "Keel": GREEN}
STYLE = str(resources.files("sight.apps.bench.experiment_report") / "figures.mplstyle")
#: Symbols of the hyper-parameters in the paper.
LETTERS = {
    **{"beta": r"$\beta$", "tau": r"$\tau$"},
    **{"eta_mu": r"$\eta_\mu$", "eta_h": r"$\eta_h$", "omega_mu": r"$\omega_\mu$"},
}


@contextmanager
def canvas(width: float, height: float, columns: int = 1, **kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes; the caller's matplotlib settings stay unchanged."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(fname=STYLE):
        figure = Figure(figsize=(width, height))
        yield figure, figure.subplots(1, columns, **kwargs)


def svg(figure: Any) -> str:
    import matplotlib as mpl

    with mpl.rc_context(fname=STYLE):
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def forest(gains: Mapping[str, Difference], xlabel: str, paper: Mapping[str, float] | None = None) -> str:
    """Draw differences with their intervals, the best on top, and the paper's values as diamonds."""
    order = sorted(gains, key=lambda label: gains[label].mean)
    with canvas(6.4, 0.9 + 0.27 * len(order)) as (figure, axes):
        named_rows(axes, order)
        for row, label in enumerate(order):
            draw_interval(axes, gains[label], row, COLOUR.get(label, INK))
            if paper and np.isfinite(paper[label]):
                axes.plot(paper[label], row, "D", color="white", mec=BLUE, ms=4.5, zorder=3)
        axes.set_xlabel(xlabel)
        intervals = any(np.isfinite(gain.low) for gain in gains.values())
        label = "measured, 95 % interval over subjects and source models" if intervals else "measured"
        handles = [axes.plot([], [], "o-" if intervals else "o", color=INK, ms=5, lw=1.4, label=label)[0]]
        if paper and np.isfinite(list(paper.values())).any():
            handles += axes.plot([], [], "D", color="white", mec=BLUE, ms=4.5, label="printed in the paper")
        figure.legend(handles=handles, loc="outside upper left", ncols=2, fontsize=8)
        return svg(figure)


def named_rows(axes: Any, names: Sequence[str]) -> None:
    """Prepare axes with one named row per method or setting, from bottom to top."""
    axes.axvline(0, color=SOFT, lw=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(axis="x", color=RULE, lw=0.5)
    axes.set_axisbelow(True)


def draw_interval(axes: Any, difference: Difference, row: float, colour: str, marker: str = "o") -> None:
    if np.isfinite(difference.low):
        axes.plot([difference.low, difference.high], [row, row], color=colour, lw=1.4, solid_capstyle="butt")
    axes.plot(difference.mean, row, marker, color=colour, ms=5)


def sensitivity(summary: MethodSummary) -> str:
    """Draw the difference to source-only along each grid; a ring marks the default value."""
    table = summary.table
    varied = grids(table["params"])
    found = {name: [(value, table.loc[label]) for value, label in own.items()] for name, own in varied.items()}
    in_grid = table.index.isin([label for own in varied.values() for label in own.values()])
    default = table.loc[~in_grid & table["method"].isin(table.loc[in_grid, "method"]), "params"]
    defaults = json.loads(default.iloc[0]) if len(default) else {}
    with canvas(2.1 * len(found), 2.5, len(found), sharey=True, squeeze=False) as (figure, axes):
        for panel, (name, points) in zip(axes[0], found.items(), strict=True):
            places, rows = np.arange(len(points)), [row for _, row in points]
            panel.axhline(0, color=SOFT, lw=0.8)
            panel.fill_between(
                places, *([row[side] for row in rows] for side in ("low", "high")), color=BLUE, alpha=0.15, lw=0
            )
            panel.plot(places, [row["delta"] for row in rows], "o-", color=BLUE, ms=4, lw=1.4)
            for at, (value, row) in enumerate(points):
                if value == defaults.get(name):
                    panel.plot(at, row["delta"], "o", ms=9, mfc="none", mec=ACCENT, mew=1.2)
            panel.set_xticks(places, [f"{value:g}" for value, _ in points])
            panel.set_title(LETTERS.get(name, name), loc="center")
        axes[0][0].set_ylabel("Macro-F1 against\nsource-only, points")
        return svg(figure)


def conditions(summaries: Mapping[str, MethodSummary]) -> str:
    """Draw the macro-F1 of each method under several conditions, such as stream orders or networks."""
    names, first = list(summaries), next(iter(summaries.values()))
    methods = {label: method for s in summaries.values() for label, method in s.table["method"].items()}
    labels = list(methods)
    values = np.array([[s.table["mean"].get(label, np.nan) for s in summaries.values()] for label in labels])
    places = _spaced(values[:, -1], values)
    with canvas(2.6 + 1.2 * len(names), 3.4) as (figure, axes):
        for at, (label, own) in enumerate(zip(labels, values, strict=True)):
            ours, base = methods[label] == HIGHLIGHTED, label == first.source_only
            colour = ACCENT if ours else SOFT if base else SERIES[at % len(SERIES)]
            axes.plot(own, "--" if base else "o-", color=colour, lw=2 if ours else 1.2, ms=4, zorder=3 if ours else 2)
            if not np.isfinite(places[at]):
                continue  # not run under the last condition, where names are written
            axes.annotate(label, (len(names) - 0.92, places[at]), va="center", color=colour, annotation_clip=False)
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-0.15, len(names) - 0.15)
        axes.set_ylabel("Macro-F1, points")
        axes.grid(axis="y", color=RULE, lw=0.5)
        return svg(figure)


def _spaced(wanted: Array, values: Array) -> Array:
    """Return positions at least one text line apart, in the same order."""
    step = 0.062 * max(float(np.nanmax(values) - np.nanmin(values)), 1e-9)
    places = np.array(wanted, dtype=float)
    order = np.argsort(places, kind="stable")
    for below, above in pairwise(order.tolist()):
        places[above] = max(places[above], places[below] + step)
    return places - float(np.nanmean(places - wanted))


def geometry(rows: Any) -> str:
    """Draw the similarity to the expected state inside segments and at changes, and where deviations point."""
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    with canvas(7.0, 2.7, 2, width_ratios=(3, 2)) as (figure, (left, right)):
        for name, colour, label in (("inside", BLUE, "inside a segment"), ("change", ORANGE, "right after a change")):
            counts = arrays(rows, f"histogram_{name}").sum(axis=0)
            share = counts / max(counts.sum(), 1)
            left.fill_between(middle, share, step="mid", color=colour, alpha=0.35, lw=0)
            left.plot(middle, share, drawstyle="steps-mid", color=colour, lw=1.2, label=label)
        left.set_xlabel("Cosine of feature and expected state")
        left.set_ylabel("Share of windows")
        left.set_ylim(bottom=0)
        filled = np.flatnonzero(sum(arrays(rows, f"histogram_{name}").sum(axis=0) for name in ("inside", "change")))
        if len(filled):
            left.set_xlim(EDGES[filled[0]] - 0.05, min(EDGES[filled[-1] + 1] + 0.05, 1))
        left.legend(fontsize=8, loc="upper left")
        left.set_title(f"AUC {rows['auc'].mean():.2f}")
        deviation = {"routing_top1": "deviation,\nfirst of K", "routing_top2": "deviation,\nfirst two"}
        names = deviation | {"raw_top1": "source-only"}
        bars = [100 * rows[name].mean() for name in names]
        right.bar(range(len(bars)), bars, width=0.6, color=[ACCENT, "#c48a7e", SOFT])
        chance = 100 * rows["chance"].mean()
        right.plot([-0.4, 0.4], [chance] * 2, color=INK, lw=1.2)
        right.plot([0.6, 1.4], [2 * chance] * 2, color=INK, lw=1.2, label="chance")
        right.set_xticks(range(len(bars)), names.values(), fontsize=8)
        right.set_ylim(0, 100)
        right.set_ylabel("New class identified\nat a change, %")
        right.legend(fontsize=8)
        return svg(figure)


def prototypes(rows: Any) -> str:
    """Draw the cosine of prototype and class centroid, first against last segment; "" if no class has two segments."""
    classes = list(rows["classes"].iloc[0])
    first, last = (class_means(arrays(rows, name)) for name in ("prototype_first", "prototype_last"))
    shown = [k for k in range(len(classes)) if np.isfinite(first[k])]
    if not shown:
        return ""
    with canvas(5.6, 1.1 + 0.3 * len(shown)) as (figure, axes):
        for at, k in enumerate(reversed(shown)):
            colour = GREEN if last[k] >= first[k] else ACCENT
            axes.plot([first[k], last[k]], [at, at], color=colour, lw=2, solid_capstyle="butt")
            axes.plot(first[k], at, "o", mfc="white", mec=colour, ms=6)
            axes.plot(last[k], at, "o", color=colour, ms=6)
        axes.set_yticks(range(len(shown)), [classes[k] for k in reversed(shown)])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.grid(axis="x", color=RULE, lw=0.5)
        axes.set_xlabel("Cosine of prototype and true centroid")
        handles = axes.plot([], [], "o", mfc="white", mec=INK, ms=6, label="first segment")
        handles += axes.plot([], [], "o", mfc=INK, mec=INK, ms=6, label="last segment")
        figure.legend(handles=handles, loc="outside upper left", ncols=2, fontsize=8)
        return svg(figure)


def motivation(rows: Any) -> str:
    """Draw the transitions of the source model's predictions, and the feature's deviation around a true change."""
    classes = list(rows["classes"].iloc[0])
    counts = matrices(rows, "transitions_raw").sum(axis=0)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    sums, seen = (arrays(rows, name).sum(axis=0) for name in ("deviation_sum", "deviation_count"))
    size = max(2.6, 0.26 * len(classes))
    with canvas(2 * size + 3.2, size + 0.9, 2, width_ratios=(1, 1.2)) as (figure, (left, right)):
        left.imshow(share, cmap="Blues", vmin=0, vmax=1)
        left.set_xticks(range(len(classes)), classes, rotation=45, ha="right", fontsize=8)
        left.set_yticks(range(len(classes)), classes, fontsize=8)
        if len(classes) <= 8:
            for i, j in np.ndindex(*share.shape):
                if share[i, j] >= 0.005:
                    colour = "white" if share[i, j] > 0.6 else INK
                    text = f"{share[i, j]:.2f}".removeprefix("0")
                    left.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
        left.set_title("Predicted class, given the one before")
        offsets = np.arange(-AROUND, AROUND + 1)
        kept = seen > 0
        right.axvline(0, color=SOFT, lw=0.8, ls=":")
        right.plot(offsets[kept], sums[kept] / seen[kept], "o-", color=BLUE, ms=4, lw=1.4)
        right.set_xlabel("Windows from a true change")
        right.set_ylabel("1 \N{MINUS SIGN} cosine to the expected state")
        right.set_title("Feature deviation")
        return svg(figure)
