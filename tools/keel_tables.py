"""Tables of docs/keel.md, computed from the files in benchmarks/results/keel."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from sight.apps.bench.experiment_report.table_format import number
from tools.findings_tables import markdown

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "keel"
#: Names of the settings in the files, and their short names.
SETTINGS = {
    "extrasensory_P": "ExtraSensory P",
    "hugadb_P": "HuGaDB P",
    "hugadb_S": "HuGaDB S",
    "hapt-total_P": "HAPT P",
    "hapt-total_S": "HAPT S",
    "hapt-body_P": "HAPT body P",
    "hapt-body_S": "HAPT body S",
    "wisdm_P": "WISDM P",
    "wisdm_S": "WISDM S",
}
#: Rows of normalisation.csv in the table; the others are variants that were looked at.
NORMALISATION = ("keel", "sticky", "anchor 100", "tolerance 0.25", "tolerance 0.5")
#: Scores for unknown classes in the file, and in the table.
SCORES = {
    "max p": "highest probability of the source model",
    "max q": "highest probability of Keel",
    "energy": "energy of the logits",
    "distance": "distance to the nearest class mean",
    "cosine": "highest cosine to a class mean",
    "agreement": "agreement of head and class means",
}


@functools.cache
def read(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _by_setting(rows: Iterable[Sequence[str]], *more: str) -> str:
    return markdown(["", *SETTINGS.values(), *more], rows)


def days(sources: str = "all") -> str:
    """Return the gains on recordings, and on days that one class fills, of variants of Keel."""

    def gain(row: dict[str, str], name: str) -> str:
        return number(float(row[name]), sign=True)

    def with_harm(row: dict[str, str], name: str, prefix: str) -> str:
        return f"{gain(row, name)} ({float(row[f'{prefix}harmed_percent']):.1f})"

    rows = [
        [
            f"{row['method']}, {row['half']}",
            with_harm(row, "mean", ""),
            *(gain(row, name) for name in ("day-60", "day-80", "day-94")),
            with_harm(row, "days", "days_"),
            f"{gain(row, 'days_worst_percentile')}, {gain(row, 'days_worst')}",
            with_harm(row, "sitting", "sitting_"),
        ]
        for row in read("days")
        if row["sources"] == sources and row["method"] != "Keel 0.1"
    ]
    return markdown(["", "recordings", "60 %", "80 %", "94 %", "all days", "worst 1 %, worst", "sitting"], rows)


def normalisation() -> str:
    """Return gains of `keel-norm` and its options on recordings and days, for two trainings of the source models."""
    found = [row for row in read("normalisation") if row["method"] in NORMALISATION]
    rows = []
    for training, method in dict.fromkeys((row["training"], row["method"]) for row in found):
        own = [row for row in found if (row["training"], row["method"]) == (training, method)]
        cells = [f"{method}, training {training}"]
        for recorded in (True, False):
            chosen = [row for row in own if (row["order"] == "recorded") == recorded]
            by_setting = [_pooled([r for r in chosen if r["setting"] == name], "gain") for name in SETTINGS]
            gains = [gain for gain in by_setting if gain is not None]
            harmed, worst = _pooled(chosen, "harmed_percent"), min(float(row["worst"]) for row in chosen)
            cells += [*map(_signed, by_setting)] if recorded else []
            cells += [_signed(float(np.mean(gains))), f"{harmed:.1f} %", _signed(worst)]
        rows.append(cells)
    heads = [*SETTINGS.values(), "mean", "harmed", "worst", "days", "harmed", "worst"]
    return markdown(["", *heads], rows)


def moved_sensor() -> str:
    """Return the scores of methods on a sensor at another place, means over subjects."""
    found = read("moved_sensor")
    base = {row["subject"]: float(row["macro_f1"]) for row in found if row["method"] == "none"}
    rows = []
    for method in dict.fromkeys(row["method"] for row in found):
        own = [row for row in found if row["method"] == method]
        accuracy, macro_f1 = (np.mean([float(row[name]) for row in own]) for name in ("accuracy", "macro_f1"))
        gains = np.array([float(row["macro_f1"]) - base[row["subject"]] for row in own])
        harmed = f"{100 * (gains < -3).mean():.0f} %"
        rows.append([method, number(float(accuracy)), number(float(macro_f1)), _signed(float(gains.mean())), harmed])
    return markdown(["", "accuracy", "macro-F1", "gain", "harmed"], rows)


def few_subjects() -> str:
    """Return the gains on source models of three subjects by the share of the correction, means over settings."""
    labels = {"Sticky": "sticky", "pooled 0": "Keel, a third", "pooled 0.25": "Keel, half", "Keel": "Keel, two thirds"}
    labels |= {"pooled 0.75": "Keel, five sixths", "pooled 1": "Keel, in full"}
    rows = []
    for method, label in labels.items():
        own = [row for row in read("few_subjects") if row["method"] == method]
        cells = [label]
        for name in ("recordings", "days"):
            mean, harmed = (np.mean([float(row[f"{name}{end}"]) for row in own]) for end in ("", "_harmed_percent"))
            cells += [_signed(float(mean)), f"{harmed:.1f} %"]
        rows.append(cells)
    return markdown(["share of the correction", "recordings", "harmed", "days", "harmed"], rows)


def _signed(value: float | None) -> str:
    return "-" if value is None else number(value, sign=True)


def _pooled(rows: Sequence[dict[str, str]], column: str) -> float | None:
    """Return the mean of a column, weighted by runs; None without rows."""
    runs = sum(int(row["runs"]) for row in rows)
    return sum(int(row["runs"]) * float(row[column]) for row in rows) / runs if runs else None


def sensitivity() -> str:
    """Return the effect of each hyper-parameter at 0, or at its value without effect."""
    off = {
        "prototypes": "0.00",
        "align": "0.00",
        "debias": "0.00",
        "penalty": "99.00",
        "pooled": "1.00",
        "guard": "0.00",
        "least": "0.00",
        "doubt": "0.00",
        "surprise": "0.00",
        "temper": "1.00",
        "rate": "0.00",
    }
    found = {(row["field"], row["value"]): row for row in read("sensitivity")}
    names = ("mean", "harmed_percent", "days", "days_harmed_percent")
    rows = []
    for field, value in [("defaults", ""), *off.items()]:
        row = found[field, value]
        cells = [number(float(row[name]), sign="percent" not in name) for name in names]
        label = "least coverage, a constant," if field == "least" else f"`{field}`"
        rows.append([f"{label} = {float(value):g}" if value else "defaults", *cells])
    return markdown(["", "recordings, macro-F1", "harmed, %", "days, accuracy", "harmed, %"], rows)


def fixed_lag() -> str:
    """Return the gains of predictions that wait for later windows."""
    texts = {"0": "no delay", "1": "1 window", "all": "whole recording"}
    rows = [
        [
            texts.get(row["lag"], f"{row['lag']} windows"),
            *(number(float(row[name]), sign=True) for name in (*SETTINGS, "mean")),
        ]
        for row in read("fixed_lag")
        if row["figure"] == "macro_f1_gain" and row["lag"] != "10"
    ]
    return _by_setting(rows, "mean")


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
    "keel-normalisation": normalisation,
    "keel-moved-sensor": moved_sensor,
    "keel-few-subjects": few_subjects,
    "keel-sensitivity": sensitivity,
    "keel-fixed-lag": fixed_lag,
    "keel-unknown-classes": unknown_classes,
}
