"""Tables of docs/keel.md, computed from the files in benchmarks/results/keel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sight.apps.bench.experiment_report.summary import HARM, METRIC, RUN, by_run
from sight.apps.bench.experiment_report.table_format import number
from sight.apps.bench.settings import short_name
from tools.findings_data import KEEL, KEEL_NORM, SOURCE_ONLY, names, rows_of
from tools.findings_tables import markdown
from tools.result_files import RESULTS, read_csv

#: Methods of days.csv in the table.
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
#: Methods on models of one subject, and those that also ran on days.
SINGLE = (KEEL, KEEL_NORM, "RoTTA", "OFTTA", "T3A")
ON_DAYS = (KEEL, KEEL_NORM, "T3A")
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
    """Return the gains of `keel-norm` and of methods like it on recordings and days, with models of one subject."""
    recordings, days_ = rows_of("table-main"), rows_of("days")
    settings = {name: short for name, short in names("main").items() if name.endswith("-single")}
    rows = []
    for label in SINGLE:
        cells = [_gain_and_harm(recordings[recordings["setting"] == name], label, METRIC) for name in settings]
        if label in ON_DAYS:
            own = [_gain_and_harm(days_[days_["setting"] == name], label, "accuracy") for name in settings]
            cells = ["; ".join(pair) for pair in zip(cells, own, strict=True)]
        rows.append([label, *cells])
    return markdown(["recordings; days", *settings.values()], rows)


def _gain_and_harm(rows: Any, label: str, score: str) -> str:
    """Return the mean gain over runs, and the percentage of runs that lose more than the margin."""
    runs = by_run(rows, [score], [SOURCE_ONLY, label], run=["order", *RUN])[score]
    gains = (100 * (runs[label] - runs[SOURCE_ONLY])).dropna()
    return f"{number(gains.mean(), sign=True)} ({100 * (gains.round(9) < -HARM).mean():.1f})"


def unknown_classes() -> str:
    """Return how well scores detect windows of a class that the source model was not trained on."""
    means = [row for row in read("unknown_classes") if row["left_out"] == "mean"]
    settings = {row["setting"]: short_name(row["setting"]) for row in means}
    own = {(row["setting"], row["score"]): row for row in means}
    rows = []
    for score, text in SCORES.items():
        found = [own[setting, score] for setting in settings]
        areas = [f"{float(row['auroc']):.2f}" for row in found]
        detected = [f"{100 * float(row['unknown_detected_at_5_percent_false_alarms']):.0f} %" for row in found]
        rows.append([text, *areas, *detected])
    heads = [f"{kind}, {name}" for kind in ("AUROC", "detected") for name in settings.values()]
    return markdown(["score", *heads], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "keel-days": days,
    "keel-days-pooled": functools.partial(days, "pooled"),
    "keel-parts": parts,
    "keel-left-out": left_out,
    "keel-normalisation": normalisation,
    "keel-unknown-classes": unknown_classes,
}
