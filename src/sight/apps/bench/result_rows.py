"""Parquet tables of benchmark results: writing rows, reading them, and keeping the newest version of each.

A file holds one row per method and run (source, target, seed). Figures are stored as float32, lists of numbers as typed
lists (matrices row by row), nested values as JSON. Scores that follow from the confusion matrix are not stored; reading
computes them.
"""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sight._util.atomic import write_atomic
from sight.results.metrics import MINUTES_PER_DAY
from sight.types import Array

#: Columns that identify a run of a method, and columns that a later run may change.
RUN = ("experiment", "setting", "encoder", "order", "protocol", "label", "method", "sources", "target", "seed")
VERSION = ("params", "code")
#: Nested values, stored as JSON.
NESTED = ("options", "windowing", "label_map", "needs", "params", "training", "notes", "state_kinds")
#: Lists that follow from the confusion matrix.
PER_CLASS = ("f1", "precision", "recall", "support", "time_use_error_min")
#: Scores that follow from the confusion matrix, by kind of experiment.
DERIVED: dict[str, tuple[str, ...]] = {
    "compare": (
        *("accuracy", "balanced_accuracy", "macro_f1_union", "macro_f1_truth", "macro_f1_all", "kappa"),
        *("time_use_mae_min", "frames_correct"),
    ),
    "classes": ("accuracy", "balanced_accuracy"),
}


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return the runner's rows as a DataFrame, as `read` returns them from a file."""
    return _derive(_stored(rows))


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    import pyarrow as pa

    table = _stored(rows)
    single = {name: np.float32 for name in table if table[name].dtype == np.float64}
    return write_table(path, pa.Table.from_pandas(table.astype(single), preserve_index=False))


def write_table(path: Path, content: Any) -> Path:
    """Write an Arrow table of rows."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(
        content.replace_schema_metadata(None), buffer, compression="zstd", compression_level=19, write_statistics=False
    )
    return write_atomic(path, buffer.getvalue())


def _stored(rows: Sequence[Mapping[str, Any]]) -> Any:
    import pandas as pd

    return pd.DataFrame([_flat(row) for row in rows])


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    scores = row["scores"]
    flat = {key: value for key, value in row.items() if key not in ("scores", "versions", "state_bytes")}
    flat["sources"] = "+".join(row["sources"])
    flat["state_bytes"] = sum(row["state_bytes"].values())
    flat["state_kinds"] = row["state_bytes"]
    flat["completed"] = bool(row["needs"]["completed"])
    flat |= {name: json.dumps(flat[name], sort_keys=True) for name in NESTED}
    dropped = {*PER_CLASS, *(DERIVED.get(row["kind"], ()) if "confusion" in scores else ())}
    figures = {name: _array(value) if isinstance(value, list) else value for name, value in scores.items()}
    return {**flat, **row["versions"], **{name: value for name, value in figures.items() if name not in dropped}}


def _array(values: list[Any]) -> Array:
    """Flatten a list, or a matrix as a list of lists, into int32 or float64."""
    array = np.array(values)
    return array.ravel().astype(np.int32 if array.dtype.kind == "i" else np.float64)


def arrays(table: Any, name: str) -> Array:
    """Return a list column of rows with equal sizes, (rows, size)."""
    return np.stack(list(table[name]))


def matrices(table: Any, name: str) -> Array:
    """Return a matrix column of rows with K classes, (rows, K, K)."""
    flat = arrays(table, name)
    size = round(flat.shape[1] ** 0.5)
    return flat.reshape(len(flat), size, size)


def _derive(table: Any) -> Any:
    if "protocol" not in table:  # rows of experiments without protocols
        table["protocol"] = ""
    if "confusion" not in table:
        return table
    sizes = table["confusion"].map(lambda value: len(value) if isinstance(value, np.ndarray) else 0)
    parts = [part for (_, size), part in table.groupby([table["kind"], sizes]) if size]
    for part in parts:
        scores = confusion_scores(matrices(part, "confusion"))
        for name in DERIVED[part["kind"].iloc[0]]:
            table.loc[part.index, name] = scores[name]
    return table


def confusion_scores(confusion: Array) -> dict[str, Array]:
    """Return the scores of `sight.results.metrics` that follow from confusion matrices (n, K, K), each (n,)."""
    right = np.diagonal(confusion, axis1=1, axis2=2)
    truth, predicted, total = confusion.sum(axis=2), confusion.sum(axis=1), confusion.sum(axis=(1, 2))
    f1, recall = 2 * right / np.maximum(truth + predicted, 1), right / np.maximum(truth, 1)
    some = np.where(total > 0, total, np.nan)
    accuracy = right.sum(axis=1) / some
    chance = (truth * predicted).sum(axis=1, dtype=np.float64) / some**2
    minutes = (predicted - truth) / some[:, None] * MINUTES_PER_DAY
    return {
        "accuracy": accuracy,
        "frames_correct": accuracy,
        "balanced_accuracy": _masked_mean(recall, truth > 0),
        "macro_f1_union": _masked_mean(f1, truth + predicted > 0),
        "macro_f1_truth": _masked_mean(f1, truth > 0),
        "macro_f1_all": np.where(total > 0, f1.mean(axis=1), np.nan),
        "kappa": (accuracy - chance) / np.where(chance < 1, 1 - chance, np.nan),
        "time_use_mae_min": np.abs(minutes).mean(axis=1),
    }


def _masked_mean(values: Array, mask: Array) -> Array:
    count = mask.sum(axis=1)
    mean: Array = np.where(mask, values, 0).sum(axis=1) / np.where(count > 0, count, np.nan)
    return mean


def read(places: Sequence[Path]) -> Any:
    """Read result files, or all files below folders, into one table.

    A row that is in two files counts once. Of a method that was run again with other code or parameters, only the rows
    with the newest ``computed_at`` are kept; ``attrs["left_out"]`` of the table counts the other rows by label.
    """
    import pandas as pd

    for place in places:
        if not place.exists():
            raise ValueError(f"There is no result file or folder {place}; run an experiment first (sight bench run).")
    files = [file for place in places for file in (sorted(place.rglob("*.parquet")) if place.is_dir() else [place])]
    if not files:
        raise ValueError(
            f"Expected result files (.parquet) in {', '.join(map(str, places))}, found none; "
            f"create some with: sight bench run table-main --dataset synthetic"
        )
    table = _newest(pd.concat([_read_file(file) for file in files], ignore_index=True))
    order = ["experiment", "setting", "trial", "position"]
    return table.sort_values(order, kind="stable", ignore_index=True)


def _read_file(path: Path) -> Any:
    import pandas as pd

    try:
        table = pd.read_parquet(path)
    except ValueError:  # the message of Arrow is about bytes and footers
        raise ValueError(f"{path} is not a Parquet file; expected one written by sight bench run.") from None
    if not {"experiment", "setting", "label", "computed_at"} <= set(table.columns):
        raise ValueError(f"{path}: expected rows of sight bench run, found columns {list(table.columns)[:6]}.")
    return _derive(table.astype({name: np.float64 for name in table if table[name].dtype == np.float32}))


def _newest(table: Any) -> Any:
    """Keep each row once, and of each method only the version computed last."""
    # Ranked comparisons share a leaderboard, so each method appears in one version across them.
    board = table["experiment"].mask(table["ranked"], "ranked")
    version = [board, *(table[name] for name in ("setting", "label", *VERSION))]
    time = table["computed_at"].groupby(version).transform("max")
    older = time < time.groupby([board, *(table[name] for name in RUN[1:])]).transform("max")
    gone = older.groupby(version).transform("any")
    latest_first = table[~gone].sort_values("computed_at", ascending=False, kind="stable")
    kept = latest_first.drop_duplicates([*RUN, *VERSION])
    kept.attrs["left_out"] = {label: int(n) for label, n in table.loc[gone, "label"].value_counts(sort=False).items()}
    return kept
