"""Figures as SVG that a person would put in a paper: vector, legible in grey, the same bytes for the same numbers."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from sight.bench.aggregate import MethodSummary, grids
from sight.bench.analyses import AROUND, EDGES
from sight.bench.result_rows import details
from sight.report.palette import COLOURS
from sight.types import Array

INK, SOFT, RULE, ACCENT = "#1d1f23", "#7d828a", "#d9d6cf", "#8a2f1d"
BLUE, ORANGE, GREEN = (COLOURS[i][0] for i in range(3))
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "sight",
    "svg.fonttype": "path",
}
#: Paper's letters of the hyper-parameters.
LETTERS = {
    "beta": r"$\beta$",
    "tau": r"$\tau$",
    "eta_mu": r"$\eta_\mu$",
    "eta_h": r"$\eta_h$",
    "omega_mu": r"$\omega_\mu$",
}


@contextmanager
def canvas(width: float, height: float, columns: int = 1, **kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """Give a figure and its axes; nothing of the caller's matplotlib is touched."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height))
        yield figure, figure.subplots(1, columns, **kwargs)


def svg(figure: Any) -> str:
    """Write a figure as SVG without date or program, so that a rerun gives the same file."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def forest(summary: MethodSummary, metric: str = "Macro-F1") -> str:
    """Difference of each method to source-only with its interval; diamonds are the paper's."""
    table = summary.table[summary.table["delta"].notna()].sort_values("delta", kind="stable")
    with canvas(6.4, 0.9 + 0.27 * len(table)) as (figure, axes):
        axes.axvline(0, color=SOFT, lw=0.8)
        for at, (label, row) in enumerate(table.iterrows()):
            colour = ACCENT if str(label).startswith("SIGHT") else INK
            if np.isfinite(row["low"]):
                axes.plot([row["low"], row["high"]], [at, at], color=colour, lw=1.4, solid_capstyle="butt")
            axes.plot(row["delta"], at, "o", color=colour, ms=5)
            if np.isfinite(row["paper_delta"]):
                axes.plot(row["paper_delta"], at, "D", color="white", mec=BLUE, ms=4.5, zorder=3)
        axes.set_yticks(range(len(table)), table.index)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.6, len(table) - 0.4)
        axes.grid(axis="x", color=RULE, lw=0.5)
        axes.set_axisbelow(True)
        base = summary.table.at[summary.baseline, "mean"]
        axes.set_xlabel(f"{metric} against source-only ({base:.1f}), points")
        bracketed = bool(table["low"].notna().any())
        measured = "measured, 95 % interval over people" if bracketed else "measured"
        handles = [axes.plot([], [], "o-" if bracketed else "o", color=INK, ms=5, lw=1.4, label=measured)[0]]
        if table["paper_delta"].notna().any():
            handles += axes.plot([], [], "D", color="white", mec=BLUE, ms=4.5, label="printed in the paper")
        figure.legend(handles=handles, loc="outside upper left", ncols=2, fontsize=8)
        return svg(figure)


def sensitivity(summary: MethodSummary, defaults: Mapping[str, float]) -> str:
    """Difference to source-only along each grid; a ring marks the value of the paper."""
    found = {
        name: [(value, summary.table.loc[label]) for value, label in own.items()]
        for name, own in grids(summary.table).items()
    }
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
    """Macro-F1 of each method under several conditions, such as orders of the stream or networks."""
    cases, first = list(summaries), next(iter(summaries.values()))
    labels = list(dict.fromkeys(label for s in summaries.values() for label in s.table.index))
    values = np.array([[s.table["mean"].get(label, np.nan) for s in summaries.values()] for label in labels])
    places = _apart(values[:, -1], values)
    with canvas(2.6 + 1.2 * len(cases), 3.4) as (figure, axes):
        for at, (label, own) in enumerate(zip(labels, values, strict=True)):
            ours, base = str(label).startswith("SIGHT"), label == first.baseline
            colour = ACCENT if ours else SOFT if base else COLOURS[at % len(COLOURS)][0]
            axes.plot(own, "--" if base else "o-", color=colour, lw=2 if ours else 1.2, ms=4, zorder=3 if ours else 2)
            if not np.isfinite(places[at]):
                continue  # not run under the last condition: a line without a name would have no place for it
            axes.annotate(label, (len(cases) - 0.92, places[at]), va="center", color=colour, annotation_clip=False)
        axes.set_xticks(range(len(cases)), cases)
        axes.set_xlim(-0.15, len(cases) - 0.15)
        axes.set_ylabel("Macro-F1, points")
        axes.grid(axis="y", color=RULE, lw=0.5)
        return svg(figure)


def _apart(wanted: Array, values: Array) -> Array:
    """Move labels at least a line apart, in their order."""
    step = 0.062 * max(float(np.nanmax(values) - np.nanmin(values)), 1e-9)
    places = np.array(wanted, dtype=float)
    order = np.argsort(places, kind="stable")
    for below, above in pairwise(order.tolist()):
        places[above] = max(places[above], places[below] + step)
    return places - float(np.nanmean(places - wanted))


def geometry(rows: Any) -> str:
    """Similarity to the expected state inside segments and at changes, and how well deviations route."""
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    with canvas(7.0, 2.7, 2, width_ratios=(3, 2)) as (figure, (left, right)):
        for name, colour, label in (("inside", BLUE, "inside a segment"), ("change", ORANGE, "right after a change")):
            counts = np.sum(details(rows, f"histogram_{name}"), axis=0)
            share = counts / max(counts.sum(), 1)
            left.fill_between(middle, share, step="mid", color=colour, alpha=0.35, lw=0)
            left.plot(middle, share, drawstyle="steps-mid", color=colour, lw=1.2, label=label)
        left.set_xlabel("Cosine of feature and expected state")
        left.set_ylabel("Share of windows")
        left.set_ylim(bottom=0)
        filled = np.flatnonzero(
            np.sum([details(rows, f"histogram_{name}") for name in ("inside", "change")], axis=(0, 1))
        )
        if len(filled):
            left.set_xlim(EDGES[filled[0]] - 0.05, min(EDGES[filled[-1] + 1] + 0.05, 1))
        left.legend(fontsize=8, loc="upper left")
        left.set_title(f"AUC {rows['auc'].mean():.2f}")
        names = {
            "routing_top1": "deviation,\nfirst of K",
            "routing_top2": "deviation,\nfirst two",
            "raw_top1": "classifier\nalone",
        }
        bars = [100 * rows[name].mean() for name in names]
        right.bar(range(len(bars)), bars, width=0.6, color=[ACCENT, "#c48a7e", SOFT])
        chance = 100 * rows["chance"].mean()
        right.plot([-0.4, 0.4], [chance] * 2, color=INK, lw=1.2)
        right.plot([0.6, 1.4], [2 * chance] * 2, color=INK, lw=1.2, label="chance")
        right.set_xticks(range(len(bars)), names.values(), fontsize=8)
        right.set_ylim(0, 100)
        right.set_ylabel("New class found\nat a change, %")
        right.legend(fontsize=8)
        return svg(figure)


def prototypes(rows: Any, classes: Sequence[str]) -> str:
    """Cosine of a prototype with the wearer's own centroid, first against last segment; "" where no class has two."""
    first, last = (_class_means(details(rows, name)) for name in ("first", "last"))
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
        handles = [
            axes.plot([], [], "o", mfc=f, mec=INK, ms=6, label=t)[0]
            for f, t in (("white", "first segment"), (INK, "last segment"))
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=2, fontsize=8)
        return svg(figure)


def motivation(rows: Any, classes: Sequence[str]) -> str:
    """Transitions of the classifier's answers, and the feature's deviation around a true change."""
    counts = np.sum(details(rows, "transitions_raw"), axis=0)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    sums, seen = (np.sum(details(rows, name), axis=0) for name in ("deviation_sum", "deviation_count"))
    size = max(2.6, 0.26 * len(classes))
    with canvas(2 * size + 3.2, size + 0.9, 2, width_ratios=(1, 1.2)) as (figure, (left, right)):
        left.imshow(share, cmap="Blues", vmin=0, vmax=1)
        left.set_xticks(range(len(classes)), classes, rotation=45, ha="right", fontsize=8)
        left.set_yticks(range(len(classes)), classes, fontsize=8)
        if len(classes) <= 8:
            for i, j in np.ndindex(*share.shape):
                if share[i, j] >= 0.005:
                    left.text(
                        j,
                        i,
                        f"{share[i, j]:.2f}".removeprefix("0"),
                        ha="center",
                        va="center",
                        fontsize=7,
                        color="white" if share[i, j] > 0.6 else INK,
                    )
        left.set_title("Answer of a window, given the one before")
        offsets = np.arange(-AROUND, AROUND + 1)
        kept = seen > 0
        right.axvline(0, color=SOFT, lw=0.8, ls=":")
        right.plot(offsets[kept], sums[kept] / seen[kept], "o-", color=BLUE, ms=4, lw=1.4)
        right.set_xlabel("Windows from a true change")
        right.set_ylabel("1 \N{MINUS SIGN} cosine to the expected state")
        right.set_title("Feature deviation")
        return svg(figure)


def _class_means(lists: Sequence[Sequence[float]]) -> Array:
    """Mean over streams for each class, NaN where none has it."""
    values = np.array(lists, dtype=float)
    known = ~np.isnan(values)
    total: Array = np.where(known, values, 0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)
