"""Windows of one recording as Parquet, in columns that are the same for all recordings of a cohort, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from sight._version import __version__
from sight.outputs import days, window_columns
from sight.report import ResultSummary
from sight.types import UNLABELLED, Array, Result, Windows

#: Raised by one whenever columns or facts change, so that recordings of an older layout are run again.
LAYOUT = 1
#: Columns of text; few values, many rows.
TEXTS = ("recording", "raw_class", "class", "previous_class", "label")


def columns_of(summary: ResultSummary, name: str) -> dict[str, Any]:
    """Give the columns of a recording: those of `sight adapt`, and what queries over a cohort need beside them."""
    own = window_columns(summary)
    time = own.pop("time", None)
    label = own.pop("label", None)
    day, date = _days(summary)
    first = {
        "recording": np.full(len(summary), name, dtype=object),
        "time_s": own.pop("time_s"),
        "time": _none(summary) if time is None else [moment.replace(tzinfo=None) for moment in time],
        "date": date,
        "day": day,
        "duration_s": summary.seconds,
    }
    gap = summary.result.windows.gap_before_s.copy()
    gap[:1] = 0  # before the first window nothing is missing
    last = {"previous_class": _previous(summary), "label": _none(summary) if label is None else label}
    return first | own | {"gap_before_s": gap} | last


def write_windows(path: Path, summary: ResultSummary, name: str) -> None:
    """Write the windows of a recording; the same answers give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = dict.fromkeys(TEXTS, pa.string()) | {"time": pa.timestamp("us"), "date": pa.date32(), "day": pa.int32()}
    table = pa.table({key: pa.array(column, types.get(key)) for key, column in columns_of(summary, name).items()})
    facts = {"method": summary.result.method, "sight_version": __version__, "layout": str(LAYOUT)}
    pq.write_table(table.replace_schema_metadata(facts), path, compression="zstd")


def read_result(path: Path, facts: Mapping[str, Any]) -> Result:
    """Read a recording back as the result that was written; the samples themselves are not kept.

    Parameters
    ----------
    path
        Its windows.
    facts
        Its facts, as the run wrote them.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    stored = {key: table.column(key) for key in table.column_names}
    classes, stream = tuple(facts["classes"]), facts["stream"]
    number = {name: k for k, name in enumerate(classes)} | {None: UNLABELLED}
    known = {*TEXTS, "time_s", "time", "date", "day", "duration_s", "window_s", "confidence", "gap_before_s", "wear"}
    known |= {"low_confidence", *(f"{kind}_{name}" for kind in "pq" for name in classes)}
    windows = Windows(
        x=np.empty((table.num_rows, 0, 0), np.float32),
        time_s=_array(stored["time_s"]),
        label=np.array([number[name] for name in stored["label"].to_pylist()], dtype=np.int64),
        gap_before_s=_array(stored["gap_before_s"]),
        wear=_array(stored["wear"]),
        window_s=stream["window_s"],
        stride_s=stream["stride_s"],
        start=_start(stream),
        facts=stream["facts"],
    )
    p, q = (np.stack([_array(stored[f"{kind}_{name}"]) for name in classes], axis=1) for kind in "pq")
    return Result(
        method=facts["method"],
        params=facts["params"],
        classes=classes,
        p=p,
        q=q,
        windows=windows,
        trace={key: _array(column) for key, column in stored.items() if key not in known},
        facts={**facts["facts"], "state_bytes": facts["state_bytes"]},
    )


def _days(summary: ResultSummary) -> tuple[Array, list[Any]]:
    """Give number and date of the day in which each window begins; days change at the wearer's midnight."""
    found = days(summary)
    place = np.searchsorted([begin for _, begin, _ in found], summary.start_s, side="right")
    return place, [found[number - 1][0] for number in place.tolist()]


def _previous(summary: ResultSummary) -> Array:
    """Give the class of the window before, where both were worn and no gap lies between."""
    joined = np.append(False, summary.worn[1:] & summary.worn[:-1])
    joined &= summary.result.windows.gap_before_s == 0
    before = np.append(0, summary.refined[:-1])
    return np.asarray(np.where(joined, np.array(summary.classes, dtype=object)[before], None))


def _start(stream: Mapping[str, Any]) -> datetime | None:
    if stream["start"] is None:
        return None
    start = datetime.fromisoformat(stream["start"])
    return start.astimezone(ZoneInfo(stream["zone"])) if stream.get("zone") else start


def _none(summary: ResultSummary) -> list[None]:
    return [None] * len(summary)


def _array(column: Any) -> Array:
    found: Array = column.to_numpy()
    return found
