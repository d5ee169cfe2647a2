"""``sight stream`` on pipes: lines in every form give the predictions of offline processing."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import sight
from sight.models.load import load
from sight.recordings.signal import prepare
from sight.registry import method
from sight.results.prediction_loop import run
from sight.types import Recording
from tests.apps.cli.stream.stream_helpers import TIMEOUT_S, as_csv, as_json, assert_same, start, stream
from tests.helpers.streams import CHANNELS, make_recording


@pytest.mark.parametrize("layout", ["csv", "json", "chunks"])
def test_lines_in_a_pipe_give_the_predictions_of_offline(path, rows, expected, layout):
    text = {"csv": as_csv(rows), "json": as_json(rows), "chunks": as_json(rows, 37)}[layout]
    events, messages = stream(path, text=text)
    assert_same(events, expected)
    assert f"{len(events)} windows, 2 gaps" in messages
    assert "dropped: 1 repeated, 1 late, 2 with a missing value" in messages


def test_a_header_names_columns_in_any_order(path, rows, expected):
    header = "z,battery,time_s,x,y\n"
    text = header + as_csv([[z, 0.9, t, x, y] for t, x, y, z in rows])
    assert_same(stream(path, text=text)[0], expected)


def test_a_header_of_other_columns_is_refused(path, rows):
    """The rows have as many cells as samples, and would be read by position."""
    _, messages = stream(path, text="time_s,gyro_x,gyro_y,gyro_z\n" + as_csv(rows), code=2)
    assert "Line 1: The header time_s, gyro_x, gyro_y, gyro_z does not name the channels" in messages


EPOCH_S = 1_700_000_000


def iso(t, offset_h=0.0):
    return datetime.fromtimestamp(EPOCH_S + t, timezone(timedelta(hours=offset_h))).isoformat()


def table_lines(form, rows):
    """Return the text of a file in one of its usual forms, and the options with which `adapt` reads it."""
    cells = {
        "iso": lambda t, *v: (iso(t, 1), *v),
        "ms": lambda t, *v: (round(1000 * t), *v),
        "epoch ms": lambda t, *v: (round(1000 * (EPOCH_S + t)), *v),
        "mg": lambda t, *v: (t, *(1000 * value for value in v)),
        "decimal comma": lambda t, *v: (t, *v),
    }[form]
    separator = {"decimal comma": ";", "iso": "\t"}.get(form, ",")
    names = {"iso": "Timestamp,Accelerometer X,Accelerometer Y,Accelerometer Z", "mg": "time_s,ax,ay,up"}
    header = names.get(form, "time,ax,ay,az").replace(",", separator)
    text = "\n".join([header, *(separator.join(map(repr, cells(*row))) for row in rows)]).replace("'", "") + "\n"
    options = {"mg": ["--unit", "milli-g", "--columns", "z=up"]}.get(form, [])
    return text.replace(".", ",") if form == "decimal comma" else text, options


@pytest.mark.parametrize("form", ["iso", "ms", "epoch ms", "mg", "decimal comma"])
def test_a_file_that_adapt_reads_can_be_piped(path, rows, tmp_path, form):
    rows = [row for row in rows if np.isfinite(row).all()]
    text, options = table_lines(form, rows)
    events, messages = stream(path, *options, text=text)
    file = tmp_path / "day.csv"
    file.write_text(text)
    read = {"unit": "mg", "columns": {"z": "up"}} if options else {}
    windows = sight.read(file, load(path), **read)
    assert len(events) == len(windows) > 50
    origin_s = 0.0 if windows.start is None else windows.start.timestamp()
    assert [event["time_s"] for event in events] == pytest.approx(windows.time_s + origin_s, abs=0.02)
    result = run(method("keel").bind(load(path)), windows)
    agreement = np.mean(
        [event["raw"] == result.classes[k] for event, k in zip(events, result.p.argmax(1), strict=True)]
    )
    assert agreement > 0.9  # adapt estimates the rate from the whole file, which shifts the samples by microseconds
    assert "columns: time = " in messages


def test_the_rate_of_a_table_is_that_of_its_first_rows(path, tmp_path):
    values = make_recording(10.0).values[200:400]
    text = "time_s,x,y,z\n" + as_csv([[i / 25, *row] for i, row in enumerate(values.tolist())])
    events, _ = stream(path, text=text)
    (tmp_path / "day.csv").write_text(text)
    windows = sight.read(tmp_path / "day.csv", load(path))
    assert [event["time_s"] for event in events] == windows.time_s.tolist() == [*range(7)]
    np.testing.assert_allclose([event["p"] for event in events], load(path).encode(windows.x)[1], atol=1e-3)
    _, messages = stream(path, "--time-unit", "ms", text=text, code=2)
    assert "--time-unit" in messages


@pytest.mark.parametrize("night", ["2023-10-29T00:59:30", "2024-03-31T00:59:30"])
@pytest.mark.parametrize("tz", [[], ["--tz", "Europe/Vienna"]])
def test_local_times_in_a_pipe_lose_no_sample_when_summer_time_changes(path, night, tz):
    moments = [datetime.fromisoformat(night + "Z") + timedelta(seconds=i / 10) for i in range(600)]
    local = [moment.astimezone(ZoneInfo("Europe/Vienna")).strftime("%Y-%m-%d %H:%M:%S.%f") for moment in moments]
    _, messages = stream(path, *tz, text="time,x,y,z\n" + "".join(f"{text},0,0,1\n" for text in local))
    assert "600 samples" in messages
    assert "dropped" not in messages
    assert ("0 gaps" in messages) == (bool(tz) or "10-29" in night)


def test_input_without_a_window_is_an_error(path, rows):
    assert "no window of 2 s" in stream(path, text=as_csv(rows[:5]), code=2)[1]
    assert "no window of 2 s" in stream(path, text="hello\n" * 9, code=2)[1]
    assert "expected a header" in stream(path, "--columns", "x=a", text=as_csv(rows[:50]), code=2)[1]


def test_malformed_lines_are_reported_once_and_counted(path, rows, expected):
    clean = as_csv(rows).splitlines()
    bad = [
        '{"values": [1, 2]}',
        "garbage",
        "1,2",
        '{"time_s": [1, 2], "values": [1, 2, 3]}',
        "{",
        '{"v": 3}',
        "[[[1]]]",
    ]
    for at, line in zip(range(40, 640, 90), bad, strict=True):
        clean.insert(at, line)
    events, messages = stream(path, text="\n".join(clean))
    assert_same(events, expected)
    assert messages.count("was skipped") == 1
    assert "line 41 " in messages
    assert "7 malformed lines" in messages


def test_samples_without_times_and_a_method_with_hyper_parameters(path):
    source = load(path)
    values = make_recording(10.0).values[200:300]
    windows = prepare(
        Recording(values=values, time_s=np.arange(100) / 10, channels=CHANNELS, unit="g", rate_hz=10.0),
        rate_hz=10.0,
        window_s=2.0,
        stride_s=1.0,
    )
    result = run(method("sight", tau=0.2).bind(source), windows)
    events, _ = stream(path, "--method", "sight", "--set", "tau=0.2", text=as_csv(values.tolist()))
    assert_same(events, result)
    assert [event["surprise"] for event in events] == result.trace["surprise"].astype(float).tolist()


def test_invalid_options_are_refused(path, tmp_path):
    for options, keyword in [
        (["--serial", "a", "--mqtt", "b"], "choose one"),
        (["--mqtt", "http://x"], "mqtt://host:port/topic"),
        (["--mqtt", "mqtt://127.0.0.1:1/wearer/+/samples"], "topic of one wearer"),
        (["--mqtt", "mqtt://127.0.0.1:1/wearer/#"], "topic of one wearer"),
        (["--mqtt", "mqtt://127.0.0.1:1/wearer/%00"], "topic without NUL"),
        (["--state", "/dev/zero"], "a folder, a device or a pipe"),
        (["--method", "tent", "--set", "rule=stream"], "no network to adapt"),
        (["--replay", tmp_path / "no.csv"], "no file or folder"),
        (["--mqtt", "mqtt://127.0.0.1:1/t"], "no MQTT broker"),
        (["--serial", "/dev/absent"], "serial port /dev/absent (No such file or directory)"),
    ]:
        assert keyword in stream(path, *options, code=2)[1]


def test_a_closed_pipe_ends_the_stream(path, rows):
    with start(path, stdin=subprocess.PIPE) as process:
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.write(as_csv(rows))
            process.stdin.flush()
        # Standard input stays open: the closed output ends the stream.
        assert process.wait(TIMEOUT_S) == 0
        assert "Traceback" not in process.stderr.read()
