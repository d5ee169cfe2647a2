"""Tables of docs/keel.md, computed from the files in benchmarks/results/keel."""

from __future__ import annotations

import functools
from collections.abc import Callable

from sight.apps.bench.experiment_report.table_format import number
from tools.findings_tables import markdown
from tools.result_files import RESULTS, read_csv

#: Methods of days.csv in the table, and single-subject settings of normalisation.csv with their short names.
DAYS = (
    "sticky",
    "sticky-learned",
    "Keel, filter only",
    "Keel",
    "Keel, 5 windows later",
    "sticky-learned, whole recording",
    "Keel, filter only, whole recording",
    "Keel, whole recording",
)
SINGLE = {
    "hapt-total_S": "HAPT S",
    "hapt-body_S": "HAPT body S",
    "hugadb_S": "HuGaDB S",
    "wisdm_S": "WISDM S",
    "uschad_S": "USC-HAD S",
}
LAGS = ("live", "whole recording")
FIGURES = ("recordings", "all days", "worst 1 %, worst", "days, macro-F1", "minutes")
#: Scores for unknown classes in the file, and in the table.
SCORES = {
    "max p": "highest probability of the source model",
    "max q": "highest probability of Keel",
    "energy": "energy of the logits",
    "distance": "distance to the nearest class mean",
    "cosine": "highest cosine to a class mean",
    "agreement": "agreement of head and class means",
}


def read(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    return read_csv(RESULTS / "keel" / f"{name}.csv")


def days(settings: str = "all") -> str:
    """Return the gains on recordings and on days that one class fills, for development and held-out targets."""
    found = {(row["method"], row["half"]): row for row in read("days") if row["settings"] == settings}
    rows = [
        [f"{method}, {half}", *_figures(found[method, half])] for half in ("development", "held out") for method in DAYS
    ]
    return markdown(["", *FIGURES], rows)


def _figures(row: dict[str, str]) -> list[str]:
    return [
        _with_harm(row, "recordings"),
        _with_harm(row, "days"),
        f"{_signed(row['days_worst_percentile'])}, {_signed(row['days_worst'])}",
        _signed(row["days_macro_f1"]),
        _signed(row["days_minutes"]),
    ]


def _signed(value: str) -> str:
    return number(float(value), sign=True)


def _with_harm(row: dict[str, str], name: str, suffix: str = "") -> str:
    return f"{_signed(row[name + suffix])} ({float(row[f'{name}_harmed{suffix}']):.1f})"


def parts() -> str:
    """Return the effect of each part: one hyper-parameter or constant changed, live and on whole recordings."""
    found = {(row["change"], row["used"]): row for row in read("parts")}
    rows = []
    for change in dict.fromkeys(change for change, _ in found):
        cells = [_with_harm(found[change, used], name) for used in LAGS for name in ("recordings", "days")]
        rows.append([change, *cells])
    return markdown(["", *(f"{name}, {used}" for used in LAGS for name in ("recordings", "days"))], rows)


def left_out() -> str:
    """Return the values chosen without a dataset, and their gains on that dataset beside those of the defaults."""
    fields = ("prototypes", "align", "temper")
    rows = [
        [
            row["left_out"],
            ", ".join(f"{float(row[name]):g}" for name in fields),
            *(_with_harm(row, name, suffix) for suffix in ("", "_defaults") for name in ("recordings", "days")),
        ]
        for row in read("left_out")
    ]
    heads = [f"{name}{which}" for which in ("", ", defaults") for name in ("recordings", "days")]
    return markdown(["left out", ", ".join(fields), *heads], rows)


def normalisation() -> str:
    """Return the gains of `keel-norm` on recordings and days with source models of one subject."""
    found = read("normalisation")
    rows = []
    for method, half in dict.fromkeys((row["method"], row["half"]) for row in found):
        own = {row["setting"]: row for row in found if (row["method"], row["half"]) == (method, half)}
        cells = [f"{_with_harm(own[name], 'recordings')}; {_with_harm(own[name], 'days')}" for name in SINGLE]
        rows.append([f"{method}, {half}", *cells])
    return markdown(["recordings; days", *SINGLE.values()], rows)


def unknown_classes() -> str:
    """Return how well scores detect windows of a class that the source model does not know."""
    own = {(row["dataset"], row["score"]): row for row in read("unknown_classes") if row["left_out"] == "mean"}
    rows = []
    for score, text in SCORES.items():
        found = [own[dataset, score] for dataset in ("hapt-total", "wisdm")]
        areas = [f"{float(row['auroc']):.2f}" for row in found]
        detected = [f"{100 * float(row['unknown_detected_at_5_percent_false_alarms']):.0f} %" for row in found]
        rows.append([text, *areas, *detected])
    return markdown(["score", "AUROC, HAPT", "AUROC, WISDM", "detected, HAPT", "detected, WISDM"], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "keel-days": days,
    "keel-days-pooled": functools.partial(days, "pooled"),
    "keel-parts": parts,
    "keel-left-out": left_out,
    "keel-normalisation": normalisation,
    "keel-unknown-classes": unknown_classes,
}
