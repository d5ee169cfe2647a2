"""Tables and figures of docs/reproduction.md, from the committed rows of the experiment ``reproduction``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from sight.apps.bench import paper_values, result_rows
from sight.apps.bench.experiment_report import protocol_tables
from sight.apps.bench.experiment_report.protocol_tables import Summaries
from sight.apps.bench.experiment_report.summary import METRIC, summarise
from sight.apps.bench.experiment_report.table_format import DASH, number, points
from sight.results.score_statistics import Difference
from sight.types import Array
from tools.findings_data import SIGHT, SOURCE_ONLY, names, rows_of
from tools.findings_tables import markdown
from tools.result_files import RESULTS
from tools.row_versions import record

SETTINGS = {"ucihar": "hapt-filters", "uschad": "uschad"}
ORDERS = ("time", "files", "activity")
OATTA = "OATTA"
#: Protocols of which the default filters of HAPT are shown beside UCI-HAR's.
COMPARED = ("as in the other experiments", "inputs not scaled")


@functools.cache
def _rows(setting: str) -> object:
    return result_rows.read([RESULTS / setting / f"reproduction_{setting}.parquet"])


def summaries(setting: str) -> Summaries:
    """Return the summary of each protocol and order on a setting."""
    return protocol_tables.summaries(record(_rows(setting)))


def protocols(setting: str) -> str:
    """Return the gains of all methods by protocol: in a cell those of the three orders."""
    found = summaries(setting)
    first = next(iter(found.values()))
    labels = list(first.table.index)
    printed = {
        label: number(
            first.table["paper" if label == SOURCE_ONLY else "paper_delta"].get(label, np.nan),
            sign=label != SOURCE_ONLY,
        )
        for label in labels
    }
    rows = [["printed", *(printed[label] or DASH for label in labels)]]
    for protocol in dict.fromkeys(protocol for protocol, _ in found):
        rows.append([protocol, *(_orders(found, protocol, label) for label in labels)])
    return markdown(["Protocol", *labels], rows)


def _orders(found: Summaries, protocol: str, label: str) -> str:
    base = label == SOURCE_ONLY
    column = "mean" if base else "delta"
    values = [found[protocol, order].table[column].get(label, np.nan) for order in ORDERS]
    return " / ".join(number(value, sign=not base) for value in values)


def by_pair(setting: str) -> str:
    """Return how closely source-only and the gains of SIGHT and OATTA agree with the printed pairs, by protocol."""
    lines = [
        _agreement(setting, protocol) for protocol in dict.fromkeys(protocol for protocol, _ in summaries(setting))
    ]
    if setting == SETTINGS["ucihar"]:
        lines += [_agreement("hapt", protocol, note=", default filters") for protocol in COMPARED]
    heads = ["Protocol", "source-only", "correlation", "RMS difference"]
    return markdown([*heads, "gain of SIGHT", "correlation", "gain of OATTA", "correlation"], lines)


def _agreement(setting: str, protocol: str, note: str = "") -> list[str]:
    rows = record(_rows(setting))
    own = rows[(rows["order"] == "files") & (rows["protocol"] == protocol)]
    gains = {label: _pairs(own, label, label) for label in (SIGHT, OATTA)}
    level, printed, *_ = gains[SIGHT]
    cells = [number(level.mean()), _correlation(level, printed), number(np.sqrt(np.mean((level - printed) ** 2)))]
    for *_, gain, printed in gains.values():
        cells += [number(gain.mean(), sign=True), _correlation(gain, printed)]
    return [f"{protocol}{note}", *cells]


def _pairs(rows: Any, label: str, printed: str) -> tuple[Array, Array, Array, Array]:
    """Return values by pair of subjects: source-only, here and printed, and the gain of a method, here and printed."""
    own = rows[rows["label"].isin([SOURCE_ONLY, label])]
    scores = own.groupby(["label", "paper_dataset", "paper_pair"], sort=False)[METRIC].mean().unstack("label")
    names = (SOURCE_ONLY, printed)
    levels, methods = (
        np.array([paper_values.of_pair(*place, name) for place in scores.index], float) for name in names
    )
    level, gain = 100 * scores[SOURCE_ONLY].to_numpy(), 100 * (scores[label] - scores[SOURCE_ONLY]).to_numpy()
    return level, levels, gain, methods - levels


def _correlation(a: Array, b: Array) -> str:
    return number(np.corrcoef(a, b)[0, 1], 2)


def coa_har() -> str:
    """Return gain, subjects that lose, and agreement with the printed losses by pair, of variants of COA-HAR."""
    rows = record(result_rows.read([RESULTS / "hapt-filters" / "coa-har_hapt-filters.parquet"]))
    table = summarise(rows).table.drop(index=SOURCE_ONLY)
    lines = []
    for label, row in table.iterrows():
        correlation = _correlation(*_pairs(rows, label, "COA-HAR")[2:])
        gain = points(Difference(row["delta"], row["low"], row["high"]))
        lines.append([label, gain, f"{row['losses']:.0f} of {row[['wins', 'ties', 'losses']].sum():.0f}", correlation])
    return markdown(["Variant", "gain", "subjects that lose", "correlation with the printed losses by pair"], lines)


def similarity() -> str:
    """Return the cosine of feature and expected state inside segments and at changes, by variant of SIGHT."""
    rows = rows_of("geometry", "paper")
    columns = {
        "similarity_inside": "inside segments",
        "similarity_change": "at a change",
        "auc": "AUC",
        "routing_top1": "new class by routing, %",
        "raw_top1": "by the source model, %",
    }
    lines = []
    for setting, short in names("paper").items():
        for label, own in rows[rows["setting"] == setting].groupby("label", sort=False):
            means = own[list(columns)].mean()
            shares = [f"{100 * means[name]:.0f}" for name in ("routing_top1", "raw_top1")]
            lines.append([short, str(label), *(number(means[name], 2) for name in list(columns)[:3]), *shares])
    return markdown(["Setting", "Variant", *columns.values()], lines)


def figures() -> dict[str, str]:
    """Return the figures by file name: the printed gain against ours by protocol."""
    return {
        f"reproduction-{name}.svg": protocol_tables.figure(summaries(setting)) for name, setting in SETTINGS.items()
    }


BLOCKS: dict[str, Callable[[], str]] = {
    **{f"reproduction-{name}": functools.partial(protocols, setting) for name, setting in SETTINGS.items()},
    **{f"reproduction-{name}-pairs": functools.partial(by_pair, setting) for name, setting in SETTINGS.items()},
    "reproduction-similarity": similarity,
    "reproduction-coa-har": coa_har,
}
