"""Tables and figures of docs/reproduction.md, from the committed rows of the experiment ``reproduction``."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from sight.apps.bench import paper_values, result_rows
from sight.apps.bench.experiment_report import protocol_tables
from sight.apps.bench.experiment_report.protocol_tables import Summaries
from sight.apps.bench.experiment_report.summary import METRIC
from sight.apps.bench.experiment_report.table_format import DASH, number
from tools.findings_data import SIGHT, SOURCE_ONLY, names, rows_of
from tools.findings_tables import markdown
from tools.result_files import RESULTS
from tools.row_versions import record

SETTINGS = {"ucihar": "hapt", "uschad": "uschad"}
ORDERS = ("time", "files", "activity")


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
    """Return how closely source-only and SIGHT's gain agree with the printed values pair by pair, by protocol."""
    rows = record(_rows(setting))
    rows = rows[(rows["order"] == "files") & rows["label"].isin([SOURCE_ONLY, SIGHT])]
    scores = (
        rows.groupby(["protocol", "label", "paper_dataset", "paper_pair"], sort=False)[METRIC].mean().unstack("label")
    )
    lines = []
    for protocol, own in scores.groupby("protocol", sort=False):
        found = [(dataset, pair) for _, dataset, pair in own.index]
        printed, printed_sight = (
            np.array([paper_values.of_pair(*place, label) for place in found], float) for label in (SOURCE_ONLY, SIGHT)
        )
        level, gain = 100 * own[SOURCE_ONLY].to_numpy(), 100 * (own[SIGHT] - own[SOURCE_ONLY]).to_numpy()
        correlations = [np.corrcoef(*values)[0, 1] for values in ((level, printed), (gain, printed_sight - printed))]
        distance = number(np.sqrt(np.mean((level - printed) ** 2)))
        of_levels, of_gains = (number(value, 2) for value in correlations)
        lines.append([protocol, number(level.mean()), of_levels, distance, number(gain.mean(), sign=True), of_gains])
    heads = ("source-only, mean", "correlation", "RMS difference", "gain of SIGHT, mean", "correlation of gains")
    return markdown(["Protocol", *heads], lines)


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
}
