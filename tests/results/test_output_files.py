"""Output files against values computed by hand; the set of files is complete or absent."""

from __future__ import annotations

import csv
import json
import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from sight.registry import method
from sight.results.output_files.info import files
from sight.results.output_files.outputs import write_outputs
from sight.results.prediction_loop import run
from sight.results.summary import ResultSummary
from sight.testing import ToySource, toy_stream
from sight.types import RecordingFacts, Result, Windows

BERLIN = ZoneInfo("Europe/Berlin")
ONE, TWO = (0.9, 0.1), (0.2, 0.8)


def midnight_result(start=datetime(2025, 3, 3, 23, 57, tzinfo=BERLIN), label=(0, 0, 1, -1, 1, 0)) -> Result:
    """Return six windows around midnight: three, a gap of ten minutes, three of which the last is not worn.

    Windows of 60 s start every 30 s, so they represent 30 30 60 | 30 30 60 s; midnight is at 180 s.
    """
    windows = Windows(
        x=np.zeros((6, 1, 1), np.float32),
        time_s=np.array([0.0, 30, 60, 720, 750, 780]),
        label=np.array(label),
        gap_before_s=np.array([0.0, 0, 0, 600, 0, 0]),
        wear=np.array([True] * 5 + [False]),
        window_s=60.0,
        stride_s=30.0,
        start=start,
        facts=RecordingFacts(details={"resampled": np.float32(50), "seconds": float("nan")}),
    )
    q = np.array([ONE, ONE, TWO, TWO, (0.45, 0.55), ONE])
    return Result(
        method="sight",
        params={"tau": 0.05, "gap_half_life_s": None},
        classes=("sit", "walk"),
        p=np.array([ONE, TWO, TWO, TWO, TWO, ONE]),
        q=q,
        windows=windows,
        trace={"surprise": np.linspace(0, 1, 6)},
        rule="window",
        state_bytes={"prototypes": 12},
    )


def summary_of(result: Result | None = None, info=None) -> ResultSummary:
    return ResultSummary(result or midnight_result(), info=info)


def read_rows(path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_windows_parquet_columns(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    monkeypatch.setattr("sight.results.summary.LOW_CONFIDENCE", 0.6)

    path = write_outputs(summary_of(), tmp_path / "out")["windows.parquet"]
    table = pq.read_table(path).to_pydict()
    assert list(table) == [
        *("time_s", "time", "window_s", "raw_class", "class", "confidence", "p_sit", "p_walk", "q_sit", "q_walk"),
        *("surprise", "gap_before_s", "wear", "low_confidence", "label"),
    ]
    assert table["raw_class"] == ["sit", "walk", "walk", "walk", "walk", "sit"]
    assert table["class"] == ["sit", "sit", "walk", "walk", "walk", "sit"]
    assert table["label"] == ["sit", "sit", "walk", None, "walk", "sit"]
    assert table["confidence"] == [0.9, 0.9, 0.8, 0.8, 0.55, 0.9]
    assert table["low_confidence"] == [False] * 4 + [True, False]
    assert table["wear"] == [True] * 5 + [False]
    assert table["time"][3].astimezone(BERLIN).isoformat() == "2025-03-04T00:09:00+01:00"


def test_time_and_label_columns_are_omitted_if_unknown(tmp_path):
    import pyarrow.parquet as pq

    path = write_outputs(summary_of(midnight_result(start=None, label=[-1] * 6)), tmp_path)["windows.parquet"]
    assert {"time", "label"}.isdisjoint(pq.read_schema(path).names)


def test_segments_end_at_changes_and_gaps(tmp_path):
    rows = read_rows(write_outputs(summary_of(), tmp_path)["segments.csv"])
    segments = [(row["start_s"], row["end_s"], row["duration_s"], row["class"], row["windows"]) for row in rows]
    assert segments == [
        ("0.0", "60.0", "60.0", "sit", "2"),
        ("60.0", "120.0", "60.0", "walk", "1"),
        ("720.0", "780.0", "60.0", "walk", "2"),
        ("780.0", "840.0", "60.0", "sit", "1"),
    ]
    assert [row["mean_confidence"] for row in rows] == ["0.9", "0.8", "0.675", "0.9"]
    assert rows[2]["start"] == "2025-03-04T00:09:00.000+01:00"
    assert (rows[2]["gap_before_s"], rows[3]["wear_share"]) == ("600.0", "0.0")


def test_csv_files_hold_the_rows_of_the_tables(tmp_path):
    paths = write_outputs(summary_of(info={"subject": "S01", "model": {"file": "wrist.onnx"}}), tmp_path)
    first, second = read_rows(paths["daily.csv"])
    assert (first["date"], first["weekday"], first["complete"], first["valid"]) == (
        *("2025-03-03", "Monday", "FALSE", "FALSE"),
    )
    assert (float(second["walk_h"]), float(second["gap_h"])) == pytest.approx((1 / 60, 9 / 60), abs=1e-4)
    bouts = read_rows(paths["bouts.csv"])
    assert [(row["day"], row["class"], row["duration_min"]) for row in bouts] == [
        *(("1", "sit", "1.0"), ("1", "walk", "1.0"), ("2", "walk", "1.0")),
    ]
    assert [row["kind"] for row in read_rows(paths["nonwear.csv"])] == ["gap", "non-wear"]
    (row,) = read_rows(paths["summary.csv"])
    assert (row["subject"], row["model"], row["days"], row["valid_days"]) == ("S01", "wrist.onnx", "2", "0")
    assert (row["walk_h"], row["walk_bouts_per_day"]) == ("", "")


def test_windows_csv_is_optional_and_has_local_times(tmp_path):
    paths = write_outputs(summary_of(), tmp_path, csv=True)
    rows = read_rows(paths["windows.csv"])
    assert rows[3]["time"] == "2025-03-04T00:09:00.000+01:00"
    assert [row["class"] for row in rows] == ["sit", "sit", "walk", "walk", "walk", "sit"]
    assert rows[3]["label"] == ""
    write_outputs(summary_of(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(files())


def test_info_json_contains_the_entries_of_the_caller(tmp_path):
    facts = {"input": {"file": "a.cwa", "size_bytes": np.int64(7)}, "model": {"encoder": "cnn"}, "subject": "S01"}
    info = json.loads(write_outputs(summary_of(info=facts), tmp_path)["info.json"].read_text("utf-8"))
    assert info["input"] == {"file": "a.cwa", "size_bytes": 7}
    assert (info["model"], info["subject"]) == ({"encoder": "cnn"}, "S01")
    assert (info["method"], info["params"]) == ("sight", {"tau": 0.05, "gap_half_life_s": None})
    assert (info["state_bytes"], info["stream"]["facts"]["seconds"]) == ({"prototypes": 12}, None)
    stream = info["stream"]
    assert (stream["windows"], stream["recorded_s"], stream["wear_s"], stream["gap_s"]) == (6, 240, 180, 600)
    assert stream["start"] == "2025-03-03T23:57:00+01:00"
    assert info["versions"]["numpy"] == np.__version__
    assert set(info["files"]) == set(files()) == {path.name for path in tmp_path.iterdir()}


def test_an_error_keeps_the_files_of_the_previous_run(tmp_path):
    paths = write_outputs(summary_of(), tmp_path / "out")
    before = {name: path.read_bytes() for name, path in paths.items()}
    other_stream = run(method("none").bind(ToySource()), toy_stream(n=5))
    with pytest.raises(ValueError, match="one stream"):
        write_outputs(summary_of(), tmp_path / "out", others=[other_stream])
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    with pytest.raises(ValueError, match="one stream"):
        write_outputs(summary_of(), tmp_path / "new", others=[other_stream])
    assert not (tmp_path / "new").exists()


def test_other_files_in_the_folder_are_kept(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    write_outputs(summary_of(), tmp_path)
    write_outputs(summary_of(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*files(), "notes.txt"}


def test_output_path_that_is_a_file_raises(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ValueError, match="out is a file"):
        write_outputs(summary_of(), tmp_path / "out")


def test_without_pyarrow_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        write_outputs(summary_of(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_empty_stream_gives_headers_only(tmp_path):
    result = run(method("sight").bind(ToySource()), toy_stream(n=0))
    paths = write_outputs(summary_of(result), tmp_path)
    assert all(read_rows(paths[f"{name}.csv"]) == [] for name in ("segments", "daily", "bouts", "nonwear"))
    assert paths["daily.csv"].read_text().startswith("day,date,weekday,complete")
    assert read_rows(paths["summary.csv"])[0]["valid_days"] == "0"
    assert "no window" in paths["report.html"].read_text("utf-8")


@pytest.mark.parametrize("name", ["sight", "keel", "sticky-learned"])
def test_glossary_explains_the_diagnostic_columns(name):
    columns = run(method(name).bind(ToySource()), toy_stream(n=5)).trace
    text = (Path(__file__).parents[2] / "GLOSSARY.md").read_text("utf-8")
    assert columns
    assert [column for column in columns if f"`{column}`" not in text] == []
