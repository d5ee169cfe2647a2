"""CSV files as the software of device makers exports them, dates in two columns, and options for others."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from sight.recordings.csv_heads import csv_head
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_files import read
from sight.recordings.signal.quality import rest_g
from tests.helpers.csv_exports import START, times, write_actigraph, write_geneactiv, write_omgui
from tests.helpers.device_files import wrist

pd = pytest.importorskip("pandas")

N, RATE = 3000, 30
ACC = wrist(RATE, N)
VIENNA = ReadOptions(tz="Europe/Vienna")


def assert_read(recording, digits=3, offset_h=1):
    """Check values, clock and rate of a recording made of `ACC`."""
    np.testing.assert_allclose(recording.values, ACC, rtol=0, atol=0.51 * 10**-digits)
    assert recording.start.replace(tzinfo=None) == START
    assert recording.start.utcoffset() == timedelta(hours=offset_h)
    np.testing.assert_allclose(recording.time_s, np.arange(N) / RATE, rtol=0, atol=6e-4)
    assert recording.rate_hz == pytest.approx(RATE, rel=1e-3)
    assert (recording.channels, recording.unit) == (("x", "y", "z"), ("g",) * 3)
    assert rest_g(recording) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("timestamps", [False, True])
@pytest.mark.parametrize("layout", ["M/d/yyyy", "dd.MM.yyyy"])
@pytest.mark.parametrize("comma", [False, True])
def test_actigraph(tmp_path, timestamps, layout, comma):
    path = write_actigraph(tmp_path / "p.csv", ACC, RATE, timestamps=timestamps, layout=layout, comma=comma)
    recording = read(path, VIENNA)
    assert_read(recording)
    facts = recording.facts
    assert (facts.device, facts.serial, facts.firmware) == ("ActiGraph GT3X+", "MOS2D12345678", "1.9.2")
    assert recording.rate_hz == RATE
    assert recording.warnings == ()


def test_actigraph_without_names_of_columns(tmp_path):
    assert_read(read(write_actigraph(tmp_path / "p.csv", ACC, RATE, names=False), VIENNA))
    assert_read(read(write_actigraph(tmp_path / "p.csv", ACC, RATE, names=False, timestamps=True), VIENNA))


def test_actigraph_without_a_zone_is_taken_as_utc(tmp_path):
    recording = read(write_actigraph(tmp_path / "p.csv", ACC, RATE))
    assert_read(recording, offset_h=0)
    assert "unknown" in recording.facts.time_zone


def test_counts_of_actigraph_are_refused(tmp_path):
    path = write_actigraph(tmp_path / "p.csv", ACC, RATE, epoch="00:01:00")
    with pytest.raises(ValueError, match=r"p\.csv has counts of epochs of 00:01:00; export raw data"):
        read(path)


def test_geneactiv(tmp_path):
    recording = read(write_geneactiv(tmp_path / "p.csv", ACC, RATE))
    assert_read(recording, digits=4)
    facts = recording.facts
    assert (facts.device, facts.serial, facts.firmware) == ("GENEActiv 1.1", "012967", "Ver4.08a")
    assert facts.time_zone == "+1 h from UTC, from the file"
    assert_read(read(tmp_path / "p.csv", ReadOptions(tz="Europe/London")), digits=4, offset_h=0)


def test_epochs_of_geneactiv_are_refused(tmp_path):
    with pytest.raises(ValueError, match="12 columns, as an export of epochs has"):
        read(write_geneactiv(tmp_path / "p.csv", ACC, RATE, epochs=True))


def test_omgui(tmp_path):
    recording = read(write_omgui(tmp_path / "p.csv", ACC, RATE), VIENNA)
    assert_read(recording, digits=5)
    (note,) = recording.warnings
    assert (note.severity, note.text) == ("note", "The file has no names of columns; they are taken as time, x, y, z.")


def test_exports_may_be_gzipped(tmp_path):
    for write in (write_actigraph, write_geneactiv, write_omgui):
        plain = write(tmp_path / "p.csv", ACC, RATE)
        (tmp_path / "p.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
        assert_read(read(tmp_path / "p.csv.gz", VIENNA))


def test_exports_ignore_the_time_format_of_other_files(tmp_path):
    options = ReadOptions(tz="Europe/Vienna", time_format="%d/%m/%Y %H:%M:%S.%f")
    assert_read(read(write_geneactiv(tmp_path / "p.csv", ACC, RATE), options), digits=4)
    assert_read(read(write_actigraph(tmp_path / "q.csv", ACC, RATE, timestamps=True), options))


def test_columns_without_names_can_be_chosen(tmp_path):
    lines = [f"{i / 50:.2f},0.1,0.2,0.9,1,2,3,77\n" for i in range(200)]
    (tmp_path / "p.csv").write_text("".join(lines))
    assert read(tmp_path / "p.csv").values[0].tolist() == pytest.approx([0.1, 0.2, 0.9])
    chosen = {f"gyro_{axis}": f"column {5 + i}" for i, axis in enumerate("xyz")}
    assert read(tmp_path / "p.csv", ReadOptions(columns=chosen)).values[0].tolist() == [1, 2, 3]


# --- date and time in two columns ---------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["date,time,x,y,z", "Datum,Uhrzeit,x,y,z", "time,date,x,y,z", ""])
def test_date_and_time_in_two_columns(tmp_path, header):
    rows = []
    for moment, (x, y, z) in zip(times(RATE, N), ACC, strict=True):
        pair = [f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"]
        rows.append(",".join([*(reversed(pair) if header.startswith("time") else pair), f"{x:.4f},{y:.4f},{z:.4f}"]))
    (tmp_path / "p.csv").write_text("\n".join([*([header] if header else []), *rows]) + "\n")
    assert_read(read(tmp_path / "p.csv", VIENNA), digits=4)


def test_two_columns_in_another_layout(tmp_path):
    rows = [f"{moment:%d/%m/%Y};{moment:%H:%M:%S};0,1;0,2;0,9\n" for moment in times(1, 20)]
    (tmp_path / "p.csv").write_text("Tag;Zeit;x;y;z\n" + "".join(rows))
    with pytest.raises(ValueError, match=r"line 2, column 'Tag \+ Zeit'.*'05/03/2024 09:30:00'.*--time-format"):
        read(tmp_path / "p.csv")
    layout = "%d/%m/%Y %H:%M:%S"
    for columns in ({}, {"time": "Tag+Zeit"}):
        recording = read(tmp_path / "p.csv", ReadOptions(time_format=layout, tz="UTC", columns=columns))
        assert (recording.start, recording.time_s[-1]) == (START.replace(tzinfo=UTC), 19)


@pytest.mark.parametrize("columns", ["Tag;Zeit", "time"])
@pytest.mark.parametrize("mark", [".", ","])
def test_dates_with_dots_begin_with_the_day(tmp_path, columns, mark):
    between = ";" if columns == "Tag;Zeit" else " "
    moments = [f"{m:%d.%m.%Y}{between}{m:%H:%M:%S}{mark}{m.microsecond // 1000:03}" for m in times(RATE, N)]
    rows = [f"{moment};{x:.4f};{y:.4f};{z:.4f}\n" for moment, (x, y, z) in zip(moments, ACC, strict=True)]
    (tmp_path / "p.csv").write_text(f"{columns};x;y;z\n" + "".join(rows))
    assert_read(read(tmp_path / "p.csv", VIENNA), digits=4)


def test_two_columns_of_parquet_and_excel(tmp_path):
    pytest.importorskip("openpyxl")
    moments = times(RATE, 200)
    table = pd.DataFrame({"date": [m.date() for m in moments], "time": [m.time() for m in moments]})
    table[["x", "y", "z"]] = ACC[:200]
    table.to_parquet(tmp_path / "p.parquet")
    table.to_excel(tmp_path / "p.xlsx", index=False)
    for name in ("p.parquet", "p.xlsx"):
        recording = read(tmp_path / name, VIENNA)
        assert recording.start.replace(tzinfo=None) == START
        np.testing.assert_allclose(recording.time_s, np.arange(200) / RATE, atol=1e-3)


def test_a_column_with_both_is_preferred(tmp_path):
    rows = [f"2024-03-05,{moment:%Y-%m-%d %H:%M:%S},0,0,1\n" for moment in times(1, 20)]
    (tmp_path / "p.csv").write_text("day,time,x,y,z\n" + "".join(rows))
    assert read(tmp_path / "p.csv", VIENNA).time_s[-1] == 19


# --- options for other files --------------------------------------------------------------------------------------


def plain(path, before="", header="", rate=None):
    stamps = [f"{i / rate:.4f}," if rate else "" for i in range(N)]
    rows = "".join(f"{stamp}{x:.4f},{y:.4f},{z:.4f}\n" for stamp, (x, y, z) in zip(stamps, ACC, strict=True))
    path.write_text(before + header + rows)
    return path


@pytest.mark.parametrize("header", ["", "x,y,z\n"])
def test_skip_rate_and_start(tmp_path, header):
    path = plain(tmp_path / "p.csv", before="Logger 7\n\nunit: g, wrist\n", header=header)
    options = {"skip": 3, "rate": RATE, "start": "2024-03-05 09:30", "tz": "Europe/Vienna"}
    assert_read(read(path, ReadOptions(**options)), digits=4)
    moved = read(path, ReadOptions(**options | {"start": "2024-03-05T09:30:00+02:00"}))
    assert moved.start.isoformat() == "2024-03-05T08:30:00+01:00"
    assert "unknown" in read(path, ReadOptions(**options | {"tz": None})).facts.time_zone


def test_start_of_relative_times(tmp_path):
    path = plain(tmp_path / "p.csv", rate=RATE)
    recording = read(path, ReadOptions(start="2024-03-05 09:30", tz="Europe/Vienna"))
    assert recording.start.replace(tzinfo=None) == START
    assert read(path).start is None


def test_start_is_the_time_of_the_first_sample(tmp_path):
    (tmp_path / "p.csv").write_text("t,x,y,z\n" + "".join(f"{5 + i / 50},0,0,1\n" for i in range(100)))
    recording = read(tmp_path / "p.csv", ReadOptions(start="2024-03-05 09:30", tz="UTC"))
    assert recording.start + timedelta(seconds=recording.time_s[0]) == START.replace(tzinfo=UTC)


def test_start_contradicts_dates(tmp_path):
    path = write_omgui(tmp_path / "p.csv", ACC, RATE)
    with pytest.raises(ValueError, match=r"has dates of its own; leave start \(--start\) out"):
        read(path, ReadOptions(start="2024-03-05 09:30"))
    with pytest.raises(ValueError, match=r"Expected start \(--start\) such as .*, got 'noon'"):
        read(plain(tmp_path / "q.csv", rate=RATE), ReadOptions(start="noon"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{0},1,2,3\n" * 3 + "5/3/2024 9:30,1,2,3\n", "line 5, column 'time': .* got '5/3/2024 9:30'"),
        (
            "{0},1,2,3\n" * 3 + '\n"2024-03-05 09:30:99,5",1,2,3\n',
            "line 6, column 'time': .* got '2024-03-05 09:30:99,5'",
        ),
    ],
)
def test_an_unreadable_time_is_shown_with_its_place_as_it_stands(tmp_path, text, place):
    (tmp_path / "p.csv").write_text("time,x,y,z\n" + text.format("2024-03-05 09:30:00"))
    with pytest.raises(ValueError, match=rf"p\.csv, {place}") as caught:
        read(tmp_path / "p.csv")
    assert "pandas" not in str(caught.value)
    assert "--time-format" in str(caught.value)


def test_an_unreadable_time_behind_the_header_of_an_export(tmp_path):
    path = write_geneactiv(tmp_path / "p.csv", ACC, RATE)
    lines = path.read_text().splitlines()
    lines[1500] = lines[1500].replace(":", "h", 1)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"p\.csv, line 1501, column 'time'"):
        read(path)


def test_an_unreadable_time_of_a_typed_table_has_its_row(tmp_path):
    moments = [str(moment) for moment in times(1, 5)]
    pd.DataFrame({"time": [*moments, "later"], "x": 0.0, "y": 0.0, "z": 1.0}).to_parquet(tmp_path / "p.parquet")
    with pytest.raises(ValueError, match=r"p\.parquet, row 6, column 'time': .* got 'later'"):
        read(tmp_path / "p.parquet")


def test_heads_of_makers_are_recognised_by_their_first_lines():
    assert csv_head(["time,x,y,z", "0,0,0,1"], None, "p").names == ()
    assert csv_head(["0,0,0,1", "1,0,0,1"], None, "p").names == ("time", "x", "y", "z")
    assert csv_head(["0;0;1", "0;0;1"], None, "p").names == ("x", "y", "z")
    assert csv_head(["note", "time,x,y,z", "0,0,0,1"], 1, "p").skip == 1
    assert csv_head(["1,2,3,4", "0,2,3,4"], None, "p").names == ("x", "y", "z", "column 4")  # the first decreases


def test_times_with_a_colon_before_the_milliseconds_are_read(tmp_path):
    (tmp_path / "p.csv").write_text(
        "time,x,y,z\n" + "".join(f"2024-05-01 12:00:00:{i * 20:03},0,0,1\n" for i in range(9))
    )
    recording = read(tmp_path / "p.csv")
    assert recording.start == datetime(2024, 5, 1, 12, tzinfo=UTC)
    np.testing.assert_allclose(recording.time_s, np.arange(9) / 50)
