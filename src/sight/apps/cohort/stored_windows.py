"""Parquet table of a recording's windows, with the same columns for all recordings of a cohort."""

import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from sight import __version__
from sight.results.output_tables.windows import window_columns
from sight.results.summary import ResultSummary
from sight.types import UNLABELLED, Array, Epochs, RecordingFacts, Result, Warning, Windows

#: Increased whenever columns or facts change, so that recordings with an older layout are run again.
LAYOUT = 5
#: Text columns.
TEXT_COLUMNS = ("recording", "raw_class", "class", "previous_class", "label")
#: Intensity of movement; null if it is unknown.
INTENSITY_COLUMNS = ("enmo_mg", "mad_mg")
#: Other columns except probabilities; any further column is a trace of the method.
NUMBER_COLUMNS = (
    *("time_s", "time", "date", "day", "duration_s", "window_s"),
    *("confidence", "gap_before_s", "wear", "low_confidence", "in_bed"),
)


def table_columns(summary: ResultSummary, name: str) -> dict[str, Any]:
    """Return the columns of `sight adapt` and those that queries over a cohort need as well."""
    own = window_columns(summary)
    time = own.pop("time", None)
    label = own.pop("label", None)
    day, date = _days(summary)
    first = {
        "recording": np.full(len(summary), name, dtype=object),
        "time_s": own.pop("time_s"),
        "time": _nulls(summary) if time is None else [moment.replace(tzinfo=None) for moment in time],
        "date": date,
        "day": day,
        "duration_s": summary.seconds,
    }
    gap = summary.result.windows.gap_before_s.copy()
    gap[:1] = 0  # nothing is missing before the first window
    unknown = {key: _nulls(summary) for key in (*INTENSITY_COLUMNS, "in_bed") if key not in own}
    last = {"previous_class": _previous(summary), "label": _nulls(summary) if label is None else label}
    return first | own | unknown | {"gap_before_s": gap} | last


def write_windows(path: Path, summary: ResultSummary, name: str) -> None:
    """Write the windows of a recording; equal results give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"time": pa.timestamp("us"), "date": pa.date32(), "day": pa.int32(), "in_bed": pa.bool_()}
    types |= dict.fromkeys(TEXT_COLUMNS, pa.string()) | dict.fromkeys(INTENSITY_COLUMNS, pa.float64())
    table = pa.table({key: pa.array(column, types.get(key)) for key, column in table_columns(summary, name).items()})
    facts = {"method": summary.result.method, "sight_version": __version__, "layout": str(LAYOUT)}
    pq.write_table(table.replace_schema_metadata(facts), path, compression="zstd")


def write_epochs(path: Path, epochs: Epochs) -> None:
    """Write the epochs of a recording."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({each.name: getattr(epochs, each.name) for each in fields(epochs)})
    pq.write_table(table, path, compression="zstd")


def read_epochs(path: Path) -> Epochs | None:
    import pyarrow.parquet as pq

    if not path.is_file():
        return None
    table = pq.read_table(path)
    return Epochs(**{name: table.column(name).to_numpy() for name in table.column_names})


def read_result(path: Path, facts: Mapping[str, Any], epochs: Path) -> Result:
    """Read the result of a recording from its windows, facts and epochs; samples are not stored."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    stored: dict[str, Array] = {key: table.column(key).to_numpy() for key in table.column_names}
    classes, stream = tuple(facts["classes"]), facts["stream"]
    index = {name: k for k, name in enumerate(classes)} | {None: UNLABELLED}
    probabilities = (f"{kind}_{name}" for kind in "pq" for name in classes)
    columns = {*TEXT_COLUMNS, *NUMBER_COLUMNS, *INTENSITY_COLUMNS, *probabilities}
    windows = Windows(
        x=np.empty((table.num_rows, 0, 0), np.float32),
        time_s=stored["time_s"],
        label=np.array([index[name] for name in stored["label"].tolist()], dtype=np.int64),
        gap_before_s=stored["gap_before_s"],
        wear=stored["wear"],
        window_s=stream["window_s"],
        stride_s=stream["stride_s"],
        start=_start(stream),
        intensity={key: stored[key] for key in INTENSITY_COLUMNS if table.column(key).null_count < table.num_rows},
        epochs=read_epochs(epochs),
        warnings=tuple(Warning(**warning) for warning in facts["warnings"]),
        facts=RecordingFacts.from_dict(stream["facts"]),
    )
    p, q = (np.stack([stored[f"{kind}_{name}"] for name in classes], axis=1) for kind in "pq")
    return Result(
        method=facts["method"],
        params=facts["params"],
        lag=math.inf if facts["lag"] is None else facts["lag"],
        classes=classes,
        p=p,
        q=q,
        windows=windows,
        trace={key: column for key, column in stored.items() if key not in columns},
        state_bytes=facts["state_bytes"],
        **facts["facts"],
    )


def _days(summary: ResultSummary) -> tuple[Array, list[Any]]:
    """Return number and date of the day in which each window begins; a day begins at the wearer's midnight."""
    listed = summary.days
    place = np.searchsorted([day.start_s for day in listed], summary.start_s, side="right") - 1
    return np.array([day.number for day in listed], np.int64)[place], [listed[k].date for k in place.tolist()]


def _previous(summary: ResultSummary) -> Array:
    """Return the class of the previous window, None after a gap or if either window was not worn."""
    joined = np.append(False, summary.worn[1:] & summary.worn[:-1])
    joined &= summary.result.windows.gap_before_s == 0
    before = np.append(0, summary.refined[:-1])
    return np.asarray(np.where(joined, np.array(summary.classes, dtype=object)[before], None))


def _start(stream: Mapping[str, Any]) -> datetime | None:
    if stream["start"] is None:
        return None
    start = datetime.fromisoformat(stream["start"])
    return start.astimezone(ZoneInfo(stream["zone"])) if stream.get("zone") else start


def _nulls(summary: ResultSummary) -> list[None]:
    return [None] * len(summary)
