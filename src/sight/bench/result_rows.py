"""Result rows as a table: Parquet files with everything needed to repeat a row, read back and put together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sight.atomic import write_atomic

#: What was run on whom, and what of it a later run may have changed; of rows that agree in all of these one is kept.
RUN = ("experiment", "setting", "encoder", "order", "label", "method", "sources", "target", "seed")
VERSION = ("params", "code", "sight")
#: What holds several values; JSON in the file, since each row has its own.
NESTED = ("options", "windowing", "label_map", "needs", "params", "training", "notes", "state_kinds", "details")


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Lay rows out as a table: names and single figures as columns, whatever holds several values as JSON."""
    import pandas as pd

    return pd.DataFrame([_flat(row) for row in rows])


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    scores = row["scores"]
    flat = {key: value for key, value in row.items() if key not in ("scores", "versions", "state_bytes")}
    flat["sources"] = "+".join(row["sources"])
    flat["state_bytes"] = sum(row["state_bytes"].values())
    flat["state_kinds"] = row["state_bytes"]
    flat["completed"] = bool(row["needs"]["completed"])
    flat["details"] = {key: value for key, value in scores.items() if isinstance(value, list)}
    flat |= {name: json.dumps(flat[name], sort_keys=True) for name in NESTED}
    single = {key: value for key, value in scores.items() if not isinstance(value, list)}
    return {**flat, **row["versions"], **single}


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as Parquet, whole or not at all."""
    return write_atomic(path, frame(rows).to_parquet(index=False, compression="zstd", compression_level=9))


def read(places: Sequence[Path]) -> Any:
    """Read result files, or all in some folders, into one table; the same row in two files counts once.

    Parameters
    ----------
    places
        Parquet files, or folders that hold them.

    Notes
    -----
    Of a method that was run again with other code, settings or version, the newest file decides which is kept;
    ``attrs["left_out"]`` of the table counts the rows of the others by label.
    """
    import pandas as pd

    for place in places:
        if not place.exists():
            raise ValueError(f"There is no result file or folder {place}; run an experiment first (sight bench run).")
    files = [file for place in places for file in (sorted(place.rglob("*.parquet")) if place.is_dir() else [place])]
    if not files:
        raise ValueError(
            f"Expected result files (.parquet) in {', '.join(map(str, places))}, got none; "
            f"make some with: sight bench run table-main --dataset synthetic"
        )
    table = _newest(pd.concat([_file(file) for file in files], ignore_index=True))
    order = ["experiment", "setting", "trial", "place"]
    return table.sort_values(order, kind="stable", ignore_index=True)


def _file(path: Path) -> Any:
    import pandas as pd

    try:
        table = pd.read_parquet(path)
    except ValueError:  # Arrow tells of bytes and footers
        raise ValueError(f"{path} is no Parquet file; expected one that sight bench run wrote.") from None
    if not {"experiment", "setting", "label", "details"} <= set(table.columns):
        raise ValueError(f"{path}: expected rows of sight bench run, got columns {list(table.columns)[:6]}.")
    return table.assign(written=path.stat().st_mtime_ns)


def _newest(table: Any) -> Any:
    """Keep each row once, and no version of a method of which a newer one holds some run too."""
    # The ranked comparisons share one leaderboard, and so one version of each method.
    board = table["experiment"].mask(table["ranked"], "ranked")
    version = [board, *(table[name] for name in ("setting", "label", *VERSION))]
    time = table["written"].groupby(version).transform("max")
    older = time < time.groupby([board, *(table[name] for name in RUN[1:])]).transform("max")
    gone = older.groupby(version).transform("any")
    kept = table[~gone].drop_duplicates([*RUN, *VERSION]).drop(columns="written")
    kept.attrs["left_out"] = {label: int(n) for label, n in table.loc[gone, "label"].value_counts(sort=False).items()}
    return kept


def details(table: Any, name: str) -> list[Any]:
    """Return one of the nested figures of each row, such as "histogram_inside"."""
    return [json.loads(text)[name] for text in table["details"]]
