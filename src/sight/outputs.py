"""Files that a run leaves for people and programs: windows, segments, days, facts and a report.

Nothing is ever left out of them: time not worn, gaps and low confidence are columns. A set is drafted whole in a
temporary folder and moved into place at the end, `info.json` last, so a folder that holds it is complete.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from sight._version import __version__
from sight.report import LOW_CONFIDENCE, ResultSummary, write_report
from sight.report.result_summary import clock
from sight.segments import segments
from sight.types import Array, Result

#: Name to content; moved into place in this order.
FILES = {
    "windows.parquet": "one row a window: raw and refined answers, confidence, wear, gaps",
    "segments.csv": "one row a run of one refined class; a gap ends a run",
    "daily.csv": "one row a day and class: worn minutes, and the day's wear, non-wear and gap minutes",
    "report.html": "all of it to look at",
    "info.json": "facts, versions, settings, model, input",
}
SEGMENT_COLUMNS = (
    *("start_s", "end_s", "start", "end", "duration_s", "class"),
    *("mean_confidence", "windows", "wear_share", "gap_before_s"),
)
DAILY_COLUMNS = (
    *("day", "date", "class", "minutes", "raw_minutes", "low_confidence_minutes"),
    *("day_wear_minutes", "day_non_wear_minutes", "day_gap_minutes"),
)


def write_outputs(
    result: Result,
    folder: str | Path,
    *,
    info: Mapping[str, Any],
    others: Sequence[Result] = (),
    rows: Sequence[Mapping[str, Any]] | None = None,
    low_confidence: float = LOW_CONFIDENCE,
) -> dict[str, Path]:
    """Write every output file of a result, all of them or none, and return their paths by name.

    Parameters
    ----------
    result
        The stream and the answers on it.
    folder
        Where the files go; made if need be, files of an earlier run are replaced.
    info
        What the run knows beyond the result: "title" and "subject" head the report, mappings such as "input" (facts
        of the file) and "model" (its card) are kept as they are.
    others, rows
        Other methods to show in the report, as `sight.report.write_report` takes them.
    low_confidence
        Below this probability of the answered class a window is marked.
    """
    _require_pyarrow()
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"Expected a folder for the output files, but {folder} is a file; name another place.")
    summary = ResultSummary(result, low_confidence)
    fresh = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".draft-") as name:
            draft = Path(name)
            _write_windows(draft / "windows.parquet", summary)
            _write_csv(draft / "segments.csv", SEGMENT_COLUMNS, segment_rows(summary))
            _write_csv(draft / "daily.csv", DAILY_COLUMNS, daily_rows(summary))
            facts = {key: value for key, value in info.items() if key != "title"}
            title = {"title": str(info["title"])} if "title" in info else {}
            write_report(
                draft / "report.html",
                result,
                others=others,
                rows=rows,
                facts=facts,
                low_confidence=low_confidence,
                **title,
            )
            write_json(draft / "info.json", info_facts(summary, info))
            (folder / "info.json").unlink(missing_ok=True)
            for file in FILES:
                os.replace(draft / file, folder / file)
    except BaseException:
        if fresh and not any(folder.iterdir()):
            folder.rmdir()
        raise
    return {file: folder / file for file in FILES}


# --- windows ---------------------------------------------------------------------------------------------------------


def window_columns(summary: ResultSummary) -> dict[str, Any]:
    """Give the columns of `windows.parquet`, name to (N,); names carry units."""
    result, w = summary.result, summary.result.windows
    names = np.array(summary.classes, dtype=object)
    columns: dict[str, Any] = {"time_s": w.time_s}
    if w.start is not None:
        columns["time"] = [summary.clock(second) for second in w.time_s.tolist()]
    columns |= {
        "window_s": np.full(len(w), w.window_s),
        "raw_class": names[summary.raw],
        "class": names[summary.refined],
        "confidence": summary.confidence,
    }
    columns |= {f"p_{name}": result.p[:, k] for k, name in enumerate(names)}
    columns |= {f"q_{name}": result.q[:, k] for k, name in enumerate(names)}
    columns |= {key: np.asarray(values) for key, values in result.trace.items()}
    columns |= {"gap_before_s": w.gap_before_s, "wear": summary.worn, "low_confidence": summary.unsure}
    if summary.truth is not None:
        columns["label"] = np.array([*summary.classes, None], dtype=object)[summary.truth]
    return columns


def _write_windows(path: Path, summary: ResultSummary) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = ("raw_class", "class", "label")
    table = pa.table(
        {key: pa.array(column, pa.string() if key in text else None) for key, column in window_columns(summary).items()}
    )
    facts = {"method": summary.result.method, "sight_version": __version__}
    pq.write_table(table.replace_schema_metadata(facts), path)


def _require_pyarrow() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise ModuleNotFoundError(
            'Output files need pyarrow, which is not installed; run: pip install "sight-har[data]".', name="pyarrow"
        )


# --- segments and days -----------------------------------------------------------------------------------------------


def segment_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Give the rows of `segments.csv`."""
    w = summary.result.windows
    found = segments(summary.refined, w.time_s, w.window_s, w.stride_s, w.gap_before_s)
    first = np.cumsum(found.windows) - found.windows
    rows: list[dict[str, Any]] = []
    for i, (start, end, k, count) in enumerate(zip(*(column.tolist() for column in found), strict=True)):
        here = slice(first[i], first[i] + count)
        rows.append(
            {
                "start_s": _short(start),
                "end_s": _short(end),
                "start": _iso(summary.clock(start)),
                "end": _iso(summary.clock(end)),
                "duration_s": _short(end - start),
                "class": summary.classes[k],
                "mean_confidence": _short(summary.confidence[here].mean(), 4),
                "windows": count,
                "wear_share": _short(summary.worn[here].mean(), 4),
                "gap_before_s": _short(w.gap_before_s[first[i]]),
            }
        )
    return rows


def daily_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Give the rows of `daily.csv`: minutes of each class are worn ones, columns of the day start with `day_`."""
    gaps = summary.gaps
    rows = []
    for number, (day, start, end) in enumerate(days(summary), start=1):
        seconds = _overlap(summary.start_s, summary.end_s, start, end)
        worn = np.where(summary.worn, seconds, 0.0)
        of_day = {
            "day_wear_minutes": worn.sum(),
            "day_non_wear_minutes": seconds.sum() - worn.sum(),
            "day_gap_minutes": _overlap(gaps[:, 0], gaps[:, 1], start, end).sum(),
        }
        for k, name in enumerate(summary.classes):
            here = summary.refined == k
            of_class = {
                "minutes": worn[here].sum(),
                "raw_minutes": worn[summary.raw == k].sum(),
                "low_confidence_minutes": worn[here & summary.unsure].sum(),
            }
            figures = {key: _short(value / 60) for key, value in (of_class | of_day).items()}
            rows.append({"day": number, "date": "" if day is None else day.isoformat(), "class": name} | figures)
    return rows


def days(summary: ResultSummary) -> list[tuple[date | None, float, float]]:
    """Cut a stream at midnight of the wearer's clock, or every 24 hours where nobody knows the clock.

    Returns
    -------
    list of (date or None, start, end)
        Seconds of the stream at which each day begins and ends.
    """
    if not len(summary):
        return []
    first, last = float(summary.start_s[0]), float(summary.end_s[-1])
    start = summary.result.windows.start
    if start is None:
        count = max(1, int(np.ceil((last - first) / 86400)))
        return [(None, first + 86400 * i, first + 86400 * (i + 1)) for i in range(count)]
    found: list[tuple[date | None, float, float]] = []
    day, end = clock(start, first).date(), -np.inf
    while end < last:
        following = day + timedelta(days=1)
        begin, end = (_seconds(start, midnight) for midnight in (day, following))
        found.append((day, begin, end))
        day = following
    return found


def _seconds(start: datetime, day: date) -> float:
    """Elapsed seconds from the start to the midnight that begins a day; time zones with summer time are honoured."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=start.tzinfo)
    return midnight.timestamp() - start.timestamp() if start.tzinfo else (midnight - start).total_seconds()


def _overlap(start: Array, end: Array, low: float, high: float) -> Array:
    return np.asarray(np.clip(np.minimum(end, high) - np.maximum(start, low), 0, None))


# --- facts -----------------------------------------------------------------------------------------------------------


def info_facts(summary: ResultSummary, info: Mapping[str, Any]) -> dict[str, Any]:
    """Give the content of `info.json`; what the caller passes keeps its name, what is known here comes after."""
    result, w = summary.result, summary.result.windows
    known: dict[str, Any] = {
        "method": result.method,
        "params": result.params,
        "classes": result.classes,
        "facts": {key: value for key, value in result.facts.items() if key != "state_bytes"},
        "state_bytes": result.facts.get("state_bytes", {}),
        "stream": {
            "windows": len(w),
            "window_s": w.window_s,
            "stride_s": w.stride_s,
            "start": w.start,
            "recorded_s": float(summary.seconds.sum()),
            "wear_s": float(summary.seconds[summary.worn].sum()),
            "gaps": len(summary.gaps),
            "gap_s": float(np.diff(summary.gaps).sum()),
            "low_confidence_below": summary.low_confidence,
            "low_confidence_windows": int(summary.unsure.sum()),
            "changed_windows": int((summary.raw != summary.refined).sum()),
            "facts": w.facts,
        },
        "versions": {
            "sight": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **{name: version(name) for name in ("numpy", "pyarrow", "torch", "onnxruntime") if name in sys.modules},
        },
        "files": FILES,
    }
    return dict(info) | known


# --- plain writing ---------------------------------------------------------------------------------------------------


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_json(path: Path, content: Any) -> Path:
    """Write anything as JSON, whole or not at all; a number that is not finite becomes null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    draft.write_text(json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
    return draft.replace(path)


def _plain(value: Any) -> Any:
    """Turn anything into what JSON knows; a number that is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in value]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _iso(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(timespec="milliseconds")


def _short(value: float, digits: int = 3) -> float:
    return round(float(value), digits)
