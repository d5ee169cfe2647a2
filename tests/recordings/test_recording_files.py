"""Users' tables: columns, clocks, time zones, labels and errors."""

from __future__ import annotations

import gzip
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from sight.recordings.reading_options import Expected, ReadOptions
from sight.recordings.recording_files import READABLE, read
from sight.recordings.signal import prepare
from tests.helpers.layouts import capture_hours
from tests.helpers.memory import peak_megabytes

pd = pytest.importorskip("pandas")

HEADER = "time,x,y,z\n"


def write(path, text):
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def rows(n, rate=50, start=0.0):
    return "".join(f"{start + i / rate:.6f},{i},{-i},{i / 8}\n" for i in range(n))


# --- the same recording in several formats ------------------------------------------------------------------------


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    n = 3000
    time = pd.Timestamp("2024-03-01 10:00:00", tz="UTC") + pd.to_timedelta(np.arange(n) * 10_000, unit="us")
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=["x", "y", "z"])
    table.insert(0, "timestamp", time)
    table["activity"] = np.repeat(["walk", "sit", None], n // 3)
    return table


@pytest.mark.parametrize("kind", ["naive", "zoned", "epoch_ms", "seconds"])
def test_csv_and_parquet_give_identical_windows(frame, tmp_path, kind):
    if kind == "naive":
        frame["timestamp"] = frame["timestamp"].dt.tz_localize(None)
    if kind == "epoch_ms":
        frame["timestamp"] = np.arange(3000) * 10 + 1_709_287_200_000
    if kind == "seconds":
        frame["timestamp"] = np.arange(3000) / 100
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.csv.gz", index=False)
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    recordings = [
        read(tmp_path / name, ReadOptions(label_column="activity")) for name in ("a.csv", "a.csv.gz", "a.parquet")
    ]
    windows = [prepare(recording, rate_hz=50, window_s=2, stride_s=1) for recording in recordings]
    for other, cut in zip(recordings[1:], windows[1:], strict=True):
        assert other.start == recordings[0].start
        assert other.rate_hz == recordings[0].rate_hz == pytest.approx(100)
        for name in ("x", "time_s", "label", "gap_before_s"):
            np.testing.assert_array_equal(getattr(cut, name), getattr(windows[0], name))
    assert len(windows[0]) == 29
    assert set(windows[0].label.tolist()) == {-1, 0, 1}
    assert recordings[0].facts.classes == ["sit", "walk"]
    if kind != "seconds":
        assert recordings[0].start == datetime(2024, 3, 1, 10, tzinfo=UTC)


def test_values_are_read_exactly(tmp_path):
    recording = read(write(tmp_path / "p1.csv", HEADER + rows(100)))
    np.testing.assert_array_equal(recording.values[:, 0], np.arange(100, dtype=np.float32))
    np.testing.assert_array_equal(recording.values[:, 2], np.arange(100, dtype=np.float32) / 8)
    assert (recording.subject, recording.channels, recording.unit) == ("p1", ("x", "y", "z"), ("g",) * 3)
    assert recording.start is None
    assert recording.time_s[10] == pytest.approx(0.2)


# --- columns ------------------------------------------------------------------------------------------------------


def test_columns_by_mapping(tmp_path):
    text = "when,a,b,c\n" + rows(10)
    recording = read(
        write(tmp_path / "p.csv", text), ReadOptions(columns={"time": "when", "up": "c", "side": "a"}, unit="mg")
    )
    assert recording.channels == ("up", "side")
    assert recording.unit == ("mg", "mg")
    assert recording.values[8].tolist() == [1.0, 8.0]


@pytest.mark.parametrize(
    "header",
    [
        "Timestamp,Accelerometer X,Accelerometer Y,Accelerometer Z",
        "t,acc_x,acc_y,acc_z",
        "time (s),ax (g),ay (g),az (g)",
        "datetime,X,Y,Z",
    ],
)
def test_usual_names_are_recognised(tmp_path, header):
    recording = read(write(tmp_path / "p.csv", header + "\n" + rows(10)))
    assert recording.channels == ("x", "y", "z")
    assert recording.rate_hz == pytest.approx(50)


def test_a_gyroscope_has_its_own_unit(tmp_path):
    lines = "".join(f"{i / 50},1,2,3,4,5,6\n" for i in range(9))
    recording = read(write(tmp_path / "p.csv", "time,ax,ay,az,gx,gy,gz\n" + lines), ReadOptions(gyro_unit="rad/s"))
    assert recording.channels[3:] == ("gyro_x", "gyro_y", "gyro_z")
    assert recording.unit == ("g",) * 3 + ("rad/s",) * 3


def test_a_unit_that_contradicts_the_names_of_columns_gives_one_warning(tmp_path):
    lines = "".join(f"{t / 50},0,0,9.81\n" for t in range(100))
    path = write(tmp_path / "p.csv", "time,x [m/s\N{SUPERSCRIPT TWO}],y [m/s2],z [m/s2]\n" + lines)
    (warning,) = map(str, read(path, ReadOptions(unit="mg")).warnings)
    assert "m/s^2 but are read as mg" in warning
    assert read(path, ReadOptions(unit="m/s2")).warnings == ()
    assert read(path).warnings == ()


def test_the_unit_of_rotation_is_given_stated_or_expected(tmp_path):
    lines = "".join(f"{i / 50},1,2,3,4,5,6\n" for i in range(9))
    plain = write(tmp_path / "p.csv", "time,ax,ay,az,gx,gy,gz\n" + lines)
    stated = write(tmp_path / "q.csv", "time,ax,ay,az,gx (rad/s),gy (rad/s),gz (rad/s)\n" + lines)
    assert read(plain).unit[3:] == ("deg/s",) * 3
    assert read(plain, expected=Expected(gyro_unit="rad/s")).unit[3:] == ("rad/s",) * 3
    assert read(stated, expected=Expected(gyro_unit="deg/s")).unit[3:] == ("rad/s",) * 3
    assert read(stated, ReadOptions(gyro_unit="deg/s")).unit[3:] == ("deg/s",) * 3
    with pytest.raises(ValueError, match="deg/s, rad/s, got 'rpm'"):
        read(plain, ReadOptions(gyro_unit="rpm"))


def test_semicolons_and_decimal_commas(tmp_path):
    text = "time;x;y;z\n" + "".join(f"{i};0,5;-1,25;{i}\n" for i in range(5))
    recording = read(write(tmp_path / "p.csv", text))
    assert recording.values[2].tolist() == [0.5, -1.25, 2.0]


def test_decimal_commas_in_the_time_column(tmp_path):
    text = "time;x;y;z\n" + "".join(f"{i * 0.02:.2f};0.5;1;{i}\n".replace(".", ",") for i in range(9))
    recording = read(write(tmp_path / "p.csv", text))
    assert recording.rate_hz == pytest.approx(50)
    np.testing.assert_allclose(recording.time_s, np.arange(9) / 50)


def test_rows_without_time_column(tmp_path):
    path = write(tmp_path / "p.csv", "x,y,z\n" + "1,2,3\n" * 30)
    recording = read(path, ReadOptions(rate=25))
    assert recording.time_s[-1] == pytest.approx(29 / 25)
    with pytest.raises(ValueError, match="looks like time"):
        read(path)


def test_an_empty_cell_is_nan(tmp_path):
    recording = read(write(tmp_path / "p.csv", HEADER + "0,1,,3\n1,1,2,3\n"))
    assert np.isnan(recording.values[0, 1])


# --- clocks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_unit_of_epoch_times_is_detected(tmp_path, unit, scale):
    text = HEADER + "".join(f"{1_700_000_000 * scale + i * scale},0,0,1\n" for i in range(5))
    recording = read(write(tmp_path / "p.csv", text))
    assert recording.start == datetime.fromtimestamp(1_700_000_000, UTC)
    np.testing.assert_allclose(recording.time_s, np.arange(5), atol=1e-6)


def test_durations_in_milliseconds(tmp_path):
    text = "".join(f"{i * 20},0,0,1\n" for i in range(9))
    named = read(write(tmp_path / "a.csv", "time_ms,x,y,z\n" + text))
    given = read(write(tmp_path / "b.csv", "time,x,y,z\n" + text), ReadOptions(time_unit="ms"))
    assert named.rate_hz == given.rate_hz == pytest.approx(50)


@pytest.mark.parametrize("origin_s", [0, 5, 4000, 1_700_000_000])
@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
@pytest.mark.parametrize("expected_hz", [None, 30.0])
def test_the_unit_of_times_is_the_one_with_a_plausible_rate(tmp_path, origin_s, unit, scale, expected_hz):
    times = [origin_s * scale + i * scale / 50 for i in range(20)]
    lines = "".join(f"{t:.2f},0,0,1\n" if unit == "s" else f"{t:.0f},0,0,1\n" for t in times)
    recording = read(write(tmp_path / "p.csv", HEADER + lines), expected=Expected(rate_hz=expected_hz))
    assert recording.facts.time_unit == unit
    assert recording.rate_hz == pytest.approx(50, rel=1e-3)
    assert (recording.start is not None) == (origin_s > 1e8)


def test_a_rate_far_below_the_expected_one_is_refused_unless_confirmed(tmp_path):
    path = write(tmp_path / "p.csv", "time_s,x,y,z\n" + "".join(f"{i * 20},0,0,1\n" for i in range(9)))
    with pytest.raises(ValueError, match=r"about 50 Hz.*0\.05 Hz.*--time-unit"):
        read(path, expected=Expected(rate_hz=50))
    assert read(path, ReadOptions(time_unit="ms"), Expected(rate_hz=50)).rate_hz == pytest.approx(50)
    assert read(path, ReadOptions(rate=0.05), Expected(rate_hz=50)).rate_hz == 0.05
    fast = write(tmp_path / "q.csv", "time_ms,x,y,z\n" + rows(9))
    with pytest.raises(ValueError, match="5e\\+04 Hz"):
        read(fast)


def test_time_format(tmp_path):
    text = HEADER + "01/05/2024 12:00:00.00,0,0,1\n01/05/2024 12:00:00.50,0,0,1\n"
    recording = read(write(tmp_path / "p.csv", text), ReadOptions(time_format="%d/%m/%Y %H:%M:%S.%f"))
    assert recording.start == datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert recording.time_s.tolist() == [0, 0.5]


def test_time_zone_of_local_times(tmp_path):
    path = write(tmp_path / "p.csv", HEADER + "2024-07-01 12:00:00,0,0,1\n2024-07-01 12:00:01,0,0,1\n")
    assert read(path, ReadOptions(tz="Europe/Berlin")).start == datetime(2024, 7, 1, 10, tzinfo=UTC)
    assert "unknown" in read(path).facts.time_zone
    with pytest.raises(ValueError, match="no time zone 'Mars/Base'"):
        read(path, ReadOptions(tz="Mars/Base"))


@pytest.mark.parametrize(
    ("first", "second", "fact"),
    [
        ("2024-03-12T00:30:00+01:00", "2024-03-12T00:30:01+01:00", "+1 h from UTC, from the file"),
        ("2024-03-12 00:30:00-0330", "2024-03-12 00:30:01-0330", "-3.5 h from UTC, from the file"),
        ("2024-03-12T00:30:00Z", "2024-03-12T00:30:01Z", "UTC, from the file"),
    ],
)
def test_an_offset_in_the_text_decides_the_day(tmp_path, first, second, fact):
    path = write(tmp_path / "p.csv", HEADER + f"{first},0,0,1\n{second},0,0,1\n")
    recording = read(path)
    assert recording.start.strftime("%Y-%m-%d %H:%M") == "2024-03-12 00:30"
    assert recording.start == datetime.fromisoformat(first)
    assert recording.facts.time_zone == fact
    abroad = read(path, ReadOptions(tz="Asia/Tokyo"))
    assert abroad.start == recording.start
    assert (abroad.start.utcoffset(), abroad.facts.time_zone) == (timedelta(hours=9), "Asia/Tokyo")


@pytest.mark.parametrize(("zone", "offset_h"), [("Europe/Vienna", 2), ("+05:30", 5.5), ("UTC", 0)])
def test_the_zone_of_a_parquet_column_decides_the_day(tmp_path, zone, offset_h):
    time = pd.date_range("2024-07-01 00:30", periods=5, freq="20ms", tz=zone)
    pd.DataFrame({"time": time, "x": 0.0, "y": 0.0, "z": 1.0}).to_parquet(tmp_path / "p.parquet")
    recording = read(tmp_path / "p.parquet")
    assert recording.start.strftime("%Y-%m-%d %H:%M") == "2024-07-01 00:30"
    assert recording.start.utcoffset() == timedelta(hours=offset_h)
    assert "from the file" in recording.facts.time_zone


def test_an_offset_that_changes_is_warned_about(tmp_path):
    text = HEADER + "2024-03-31T01:59:59+01:00,0,0,1\n2024-03-31T03:00:00+02:00,0,0,1\n"
    path = write(tmp_path / "p.csv", text)
    assert "changes from UTC+01:00 to UTC+02:00" in read(path).warnings[0].text
    assert read(path, ReadOptions(tz="Europe/Berlin")).warnings == ()


@pytest.mark.parametrize("night", ["2023-10-28T22:30:00", "2024-03-30T22:30:00"])
def test_times_are_regular_across_the_change_of_summer_time(tmp_path, night):
    truth = [datetime.fromisoformat(night).replace(tzinfo=UTC) + timedelta(seconds=30 * i) for i in range(600)]
    local = [moment.astimezone(ZoneInfo("Europe/Berlin")).strftime("%Y-%m-%d %H:%M:%S") for moment in truth]
    path = write(tmp_path / "p.csv", HEADER + "".join(f"{moment},0,0,1\n" for moment in local))
    recording = read(path, ReadOptions(tz="Europe/Berlin"))
    np.testing.assert_array_equal(recording.time_s, 30.0 * np.arange(600))
    assert recording.start == truth[0]


@pytest.mark.parametrize("night", ["2023-10-28T22:30:00", "2024-03-30T22:30:00"])
@pytest.mark.parametrize("tz", [None, "Europe/Berlin"])
def test_times_are_regular_if_the_clock_is_not_changed_with_summer_time(tmp_path, night, tz):
    truth = [datetime.fromisoformat(night).replace(tzinfo=UTC) + timedelta(seconds=30 * i) for i in range(600)]
    offset = truth[0].astimezone(ZoneInfo("Europe/Berlin")).utcoffset()
    lines = "".join(f"{moment + offset:%Y-%m-%d %H:%M:%S},0,0,1\n" for moment in truth)
    recording = read(write(tmp_path / "p.csv", HEADER + lines), ReadOptions(tz=tz))
    np.testing.assert_array_equal(recording.time_s, 30.0 * np.arange(600))
    assert recording.start.timestamp() == truth[0].timestamp() + (0 if tz else offset.total_seconds())
    assert any("clock was not changed" in warning.text for warning in recording.warnings) == bool(tz)


# --- labels -------------------------------------------------------------------------------------------------------


def labelled(tmp_path):
    text = "time,x,y,z,label\n" + "".join(f"{i},0,0,1,{label}\n" for i, label in enumerate(["7", "1", "", "8", "1"]))
    return write(tmp_path / "p.csv", text)


def test_labels_by_map(tmp_path):
    recording = read(labelled(tmp_path), ReadOptions(label_column="label", names={"1": "walk", "7": "sit", "8": ""}))
    assert recording.labels.tolist() == [1, 0, -1, -1, 0]
    assert recording.facts.classes == ["walk", "sit"]


def test_numeric_labels_in_parquet(tmp_path):
    pd.DataFrame({"time": [0.0, 1, 2], "x": 0.0, "y": 0.0, "z": 1.0, "label": [7, np.nan, 1]}).to_parquet(
        tmp_path / "p.parquet"
    )
    recording = read(tmp_path / "p.parquet", ReadOptions(label_column="label"), Expected(classes=("1", "7")))
    assert recording.labels.tolist() == [1, -1, 0]


def test_a_label_not_in_the_map(tmp_path):
    with pytest.raises(ValueError, match=r"'8' \(1 sample\)"):
        read(labelled(tmp_path), ReadOptions(label_column="label"), Expected(classes=("1", "7")))


# --- bad files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", {}, "is empty"),
        (HEADER, {}, "no samples"),
        ("1,2\n5,6\n", {}, "acceleration axis among column 1, column 2"),
        ("5,2,3,4\n1,6,7,8\n", {}, "no column looks like time among x, y, z, column 4"),
        ("time,a,b\n0,1,2\n", {}, "acceleration axis among time, a, b"),
        (HEADER + rows(5), {"columns": {"time": "t", "x": "x"}}, "no column 't'; it has time, x, y, z"),
        (HEADER + rows(5), {"label_column": "act"}, "no label column 'act'"),
        (HEADER + rows(5) + "0.2,1,oops,3\n", {}, "line 7, column 'y': expected a number, got 'oops'"),
        (HEADER + rows(5) + "0.2,1\n", {}, "line 7 has 2 columns, the header 4"),
        (HEADER + "soon,1,2,3\nlater,1,2,3\n", {}, "line 2, column 'time': expected a number or a time"),
        (HEADER + rows(5) + "\n0;2,1,2,3\n", {}, "line 8, column 'time': expected a number, got '0;2'"),
        (HEADER + "0,1,2,3\n", {}, "set rate (--rate)"),
        (HEADER + rows(5), {"time_unit": "days"}, "time_unit (--time-unit) out of s, ms"),
    ],
)
def test_bad_tables_raise_one_line_errors(tmp_path, text, options, words):
    with pytest.raises(ValueError, match=r"p\.csv|time_unit") as caught:
        read(write(tmp_path / "p.csv", text), ReadOptions(**options))
    assert words in str(caught.value)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.999])
def test_a_truncated_gz(tmp_path, share):
    whole = gzip.compress((HEADER + rows(20_000)).encode())
    (tmp_path / "p.csv.gz").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match="truncated"):
        read(tmp_path / "p.csv.gz")


def test_not_a_gz_and_not_a_parquet(tmp_path):
    for name in ("p.csv.gz", "p.parquet"):
        (tmp_path / name).write_text("hello hello hello")
        with pytest.raises(ValueError, match="damaged"):
            read(tmp_path / name)


def test_equal_names_of_parquet_columns_are_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = [pa.array(np.arange(50) / 10), *(pa.array(np.zeros(50)) for _ in range(4))]
    pq.write_table(pa.Table.from_arrays(columns, ["time", "x", "y", "z", "x"]), tmp_path / "twice.parquet")
    with pytest.raises(ValueError, match="several columns called x; rename"):
        read(tmp_path / "twice.parquet")


def test_text_in_a_parquet_channel(tmp_path):
    pd.DataFrame({"time": [0.0, 1], "x": ["a", "b"], "y": 0.0, "z": 1.0}).to_parquet(tmp_path / "p.parquet")
    with pytest.raises(ValueError, match=r"p\.parquet"):
        read(tmp_path / "p.parquet")


def test_unsupported_and_missing_files(tmp_path):
    (tmp_path / "p.txt").write_text("")
    with pytest.raises(ValueError, match=r"\.csv, \.csv\.gz, \.tsv.*\.xlsx"):
        read(tmp_path / "p.txt")
    with pytest.raises(ValueError, match="There is no file"):
        read(tmp_path / "absent.csv")
    assert ".cwa.gz" in READABLE


# --- memory -------------------------------------------------------------------------------------------------------

READ = """
from sight.recordings.recording_files import read
from sight.recordings.reading_options import ReadOptions
from sight.recordings.signal import prepare
recording = read(sys.argv[1], ReadOptions(label_column="annotation"))
windows = prepare(recording, rate_hz=100, window_s=10, stride_s=10)
print(len(recording.values), len(windows))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize(("hours", "limit_mb"), [(2, 400), pytest.param(24, 1000, marks=pytest.mark.long)])
def test_memory_of_a_long_recording(tmp_path, hours, limit_mb):
    capture_hours(tmp_path, hours)
    samples, windows, peak_mb = peak_megabytes(READ, tmp_path / "P001.csv.gz")
    assert (samples, windows) == (360_000 * hours, 360 * hours)
    assert peak_mb < limit_mb
