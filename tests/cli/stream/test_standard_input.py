"""``sight stream`` on pipes, a serial port, a real MQTT broker and replayed recordings."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import sight
from sight.evaluate import run
from sight.registry import method
from sight.signal import prepare
from sight.sources import load
from sight.stream import Session
from sight.types import Recording
from tests.helpers.commands import run_sight
from tests.helpers.streams import CHANNELS, exported_model, make_recording, offline_windows

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return exported_model(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def expected(path):
    """Offline result of 700 samples with gaps, repeated, late and non-finite samples."""
    source = load(path)
    return run(method("keel").bind(source), offline_windows(make_recording(10.0), source))


@pytest.fixture(scope="module")
def rows():
    whole = make_recording(10.0)
    return [[t, *values] for t, values in zip(whole.time_s.tolist(), whole.values.tolist(), strict=True)]


def start(path, *options, **pipes):
    """Start the command in a process of its own."""
    command = [sys.executable, "-m", "sight", "stream", "-m", str(path), *map(str, options)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **pipes)


def stream(path, *options, text="", code=0):
    """Run the command in this process; return its events and messages."""
    result = run_sight("stream", "-m", path, *options, text=text, code=code)
    return [json.loads(line) for line in result.stdout.splitlines()], " ".join(result.stderr.split())


def assert_same(events, result):
    assert [event["window"] for event in events] == list(range(len(result.windows)))
    assert [event["time_s"] for event in events] == result.windows.time_s.tolist()
    assert [event["gap_s"] for event in events] == result.windows.gap_before_s.tolist()
    assert [event["q"] for event in events] == result.q.tolist()
    assert [event["p"] for event in events] == result.p.tolist()
    assert [event["label"] for event in events] == [result.classes[k] for k in result.q.argmax(axis=1)]


def as_csv(rows):
    return "".join(",".join(map(repr, row)) + "\n" for row in rows)


def as_json(rows, size=1):
    chunks = [rows[i : i + size] for i in range(0, len(rows), size)]
    if size == 1:
        return "".join(json.dumps({"time_s": row[0], "values": row[1:]}) + "\n" for row in rows)
    return "".join(
        json.dumps({"time_s": [row[0] for row in chunk], "values": [row[1:] for row in chunk]}) + "\n"
        for chunk in chunks
    )


def lines_of(process, wanted):
    """Read this many lines within a minute."""
    alarm = threading.Timer(TIMEOUT_S, process.kill)
    alarm.start()
    try:
        return [json.loads(process.stdout.readline()) for _ in range(wanted)]
    finally:
        alarm.cancel()


def stop(process, number):
    """Send a signal; return the remaining events and the messages."""
    process.send_signal(number)
    events = [json.loads(line) for line in process.stdout.read().splitlines()]
    messages = " ".join(process.stderr.read().split())
    assert process.wait(TIMEOUT_S) == 0, messages
    assert "Traceback" not in messages
    return events, messages


# --- standard input -------------------------------------------------------------------------------------------------


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
        (["--method", "tent", "--set", "rule=stream"], "no network to adapt"),
        (["--replay", tmp_path / "no.csv"], "no file or folder"),
        (["--mqtt", "mqtt://127.0.0.1:1/t"], "no MQTT broker"),
        (["--serial", "/dev/absent"], "serial port /dev/absent (No such file or directory)"),
    ]:
        assert keyword in stream(path, *options, code=2)[1]


def test_a_closed_pipe_ends_the_stream(path, rows):
    process = start(path, stdin=subprocess.PIPE)
    process.stdout.close()
    with suppress(BrokenPipeError):
        process.stdin.write(as_csv(rows))
        process.stdin.flush()
    # Standard input stays open: the closed output ends the stream.
    assert process.wait(TIMEOUT_S) == 0
    assert "Traceback" not in process.stderr.read()
    process.stdin.close()


# --- state ----------------------------------------------------------------------------------------------------------


def test_a_stream_resumes_from_its_state_file_bit_for_bit(path, rows, expected, tmp_path):
    state, events = tmp_path / "wearer.state", []
    for part in (rows[:333], rows[333:334], rows[334:]):
        more, messages = stream(path, "--state", state, text=as_csv(part))
        events += more
        assert f"saved to {state}" in messages
    assert "resumed from" in messages
    for event, q in zip(events, expected.q.tolist(), strict=False):
        assert event["q"] == q
    # A saved stream is not flushed: the last window waits for another sample.
    assert len(expected.q) - 1 <= len(events) <= len(expected.q)


def test_a_signal_ends_the_stream_with_a_summary_and_saves_its_state(path, rows, expected, tmp_path):
    state = tmp_path / "wearer.state"
    process = start(path, "--state", state, stdin=subprocess.PIPE)
    process.stdin.write(as_csv(rows[:200]))
    process.stdin.flush()
    events = lines_of(process, 15)
    remaining, messages = stop(process, signal.SIGTERM)
    events += remaining
    assert f"stream: {len(events)} windows" in messages
    more, _ = stream(path, "--state", state, text=as_csv(rows[200:]))
    for event, q in zip(events + more, expected.q.tolist(), strict=False):
        assert event["q"] == q
    assert [event["window"] for event in events + more] == list(range(len(events + more)))


def test_the_state_is_saved_regularly(path, rows, tmp_path):
    state = tmp_path / "wearer.state"
    process = start(path, "--state", state, "--save-every", 5, stdin=subprocess.PIPE)
    process.stdin.write(as_csv(rows[:200]))
    process.stdin.flush()
    lines_of(process, 15)
    deadline = time.monotonic() + TIMEOUT_S
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait(TIMEOUT_S)
    _, messages = stream(path, "--state", state, text=as_csv(rows[200:]))
    assert "resumed from" in messages


def test_a_state_file_that_is_damaged_or_does_not_fit_is_refused(path, rows, tmp_path):
    state = tmp_path / "wearer.state"
    stream(path, "--state", state, text=as_csv(rows[:100]))
    whole = state.read_bytes()
    flipped = bytearray(whole)
    flipped[-3] ^= 1
    for content, options, keyword in [
        (whole[: len(whole) // 2], [], "part of one"),
        (bytes(flipped), [], "damaged"),
        (b"", [], "something else"),
        (whole, ["--method", "sight"], "saved with method keel"),
        (whole, ["--rate", "20"], "saved at 10 Hz, this run uses 20 Hz"),
    ]:
        state.write_bytes(content)
        assert keyword in stream(path, "--state", state, *options, code=2)[1]
        assert state.read_bytes() == content


# --- devices --------------------------------------------------------------------------------------------------------


def test_a_serial_port_is_read(path, rows, expected):
    ours, theirs = os.openpty()
    process = start(path, "--serial", os.ttyname(theirs), "--baud", 115200)
    assert "listening to" in process.stderr.readline()
    text = as_csv(rows).encode()
    sender = threading.Thread(target=lambda: [os.write(ours, text[i : i + 500]) for i in range(0, len(text), 500)])
    sender.start()
    events = lines_of(process, len(expected.q))
    sender.join(TIMEOUT_S)
    remaining, _ = stop(process, signal.SIGINT)
    os.close(ours)
    os.close(theirs)
    assert_same(events + remaining, expected)


def test_a_file_is_replayed(path, rows, expected, tmp_path):
    table = tmp_path / "day.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([["t", *CHANNELS], *rows])
    options = ("--replay", table, "--columns", "time=t,x=x,y=y,z=z", "--rate", 10)
    events, _ = stream(path, *options, "--speed", 0)
    start_s = events[0]["time_s"] - expected.windows.time_s[0]
    np.testing.assert_allclose([event["time_s"] - start_s for event in events], expected.windows.time_s, atol=1e-6)
    np.testing.assert_allclose([event["q"] for event in events], expected.q, atol=1e-4)
    began = time.monotonic()
    stream(path, *options, "--speed", 70)
    assert time.monotonic() - began >= 700 / 10 / 70


def test_a_replay_resumes_where_the_state_file_ends(path, rows, tmp_path):
    tables = [tmp_path / "begin.csv", tmp_path / "day.csv"]
    for table, count in zip(tables, (400, len(rows)), strict=True):
        with table.open("w", newline="") as file:
            csv.writer(file).writerows([["t", *CHANNELS], *rows[:count]])
    options = ("--columns", "time=t,x=x,y=y,z=z", "--rate", 10, "--speed", 0)
    whole, _ = stream(path, "--replay", tables[1], *options, "--state", tmp_path / "whole")
    first, _ = stream(path, "--replay", tables[0], *options, "--state", tmp_path / "parts")
    second, messages = stream(path, "--replay", tables[1], *options, "--state", tmp_path / "parts")
    once, twice = ([(e["window"], e["time_s"], e["q"]) for e in events] for events in (whole, first + second))
    assert second
    assert once == twice
    assert "replay resumes at " in messages
    assert f"{len(second)} windows" in messages
    assert 250 < int(re.search(r"(\d+) samples", messages)[1]) <= 300  # of this run, not of the first
    third, messages = stream(path, "--replay", tables[1], *options, "--state", tmp_path / "parts")
    assert third == []
    assert "covers the whole recording" in messages
    assert "0 windows" in messages


def mosquitto(port, folder, anonymous="true"):
    program = shutil.which("mosquitto", path=os.pathsep.join((os.environ["PATH"], "/usr/sbin")))
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("mosquitto is not installed")
    config = folder / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous {anonymous}\n")
    broker = subprocess.Popen([program, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return broker
        except OSError:
            time.sleep(0.05)
    broker.kill()
    pytest.fail("mosquitto did not start")
    return None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_refused_connection_is_reported(path, tmp_path):
    port = free_port()
    broker = mosquitto(port, tmp_path, anonymous="false")
    try:
        _, messages = stream(path, "--mqtt", f"mqtt://me:wrong@127.0.0.1:{port}/wearer/7", code=2)
    finally:
        broker.terminate()
        broker.wait(TIMEOUT_S)
    assert "Not authorized" in messages


def publish_until_predicted(process, port, rows, wanted):
    """Publish a message repeatedly until its predictions arrive; repeated samples are dropped."""
    from paho.mqtt.publish import single

    arrived = threading.Event()

    def send():
        while not arrived.wait(0.2):
            single("wearer/7", as_json(rows, len(rows)), hostname="127.0.0.1", port=port)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        return lines_of(process, wanted)
    finally:
        arrived.set()
        sender.join(TIMEOUT_S)


def test_mqtt_reconnects_after_a_restart_of_the_broker(path, rows, expected, tmp_path):
    whole, port = make_recording(10.0), free_port()
    early = len(Session(load(path), method("none")).push(whole.values[:250], whole.time_s[:250]))
    broker = mosquitto(port, tmp_path)
    process = start(path, "--mqtt", f"mqtt://127.0.0.1:{port}/wearer/7")
    try:
        events = publish_until_predicted(process, port, rows[:250], early)
        broker.terminate()
        broker.wait(TIMEOUT_S)
        broker = mosquitto(port, tmp_path)
        events += publish_until_predicted(process, port, rows[250:], len(expected.q) - early)
        remaining, messages = stop(process, signal.SIGTERM)
    finally:
        process.kill()
        broker.terminate()
        broker.wait(TIMEOUT_S)
    assert_same(events + remaining, expected)
    assert messages.count("listening to wearer/7") == 2
    assert "reconnecting" in messages
