"""``sight stream`` as a user meets it: pipes, a serial line, a real broker, a recording as a device."""

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

import numpy as np
import pytest
from typer.testing import CliRunner

from sight.cli import app
from sight.evaluate import run
from sight.registry import method
from sight.signal import prepare
from sight.sources import load
from sight.stream import Session
from sight.types import Recording
from tests.stream.test_session import NAMES, exported, offline, wearer

PATIENCE_S = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return exported(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def expected(path):
    """What offline answers to a wearer of 700 samples with gaps, repeats, late samples and NaN."""
    source = load(path)
    return run(method("keel").bind(source), offline(wearer(10.0), source))


@pytest.fixture(scope="module")
def rows():
    whole = wearer(10.0)
    return [[t, *values] for t, values in zip(whole.time_s.tolist(), whole.values.tolist(), strict=True)]


def command(path, *words):
    return [sys.executable, "-m", "sight", "stream", "-m", str(path), *map(str, words)]


def start(path, *words, **pipes):
    env = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.Popen(
        command(path, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **pipes
    )


def stream(path, *words, text="", code=0):
    """Run the command in this process."""
    words = [str(word) for word in ("stream", "-m", path, *words)]
    shown = CliRunner().invoke(app, words, input=text, env={"COLUMNS": "200"})
    assert shown.exit_code == code, shown.output
    return [json.loads(line) for line in shown.stdout.splitlines()], " ".join(shown.stderr.split())


def same(events, result):
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
        json.dumps({"time_s": [row[0] for row in some], "values": [row[1:] for row in some]}) + "\n" for some in chunks
    )


def lines_of(process, wanted):
    """Read lines until there are so many; the process has a minute for them."""
    alarm = threading.Timer(PATIENCE_S, process.kill)
    alarm.start()
    try:
        return [json.loads(process.stdout.readline()) for _ in range(wanted)]
    finally:
        alarm.cancel()


def ended(process, number):
    """Send a signal; return the events that still came, and what was told."""
    process.send_signal(number)
    events = [json.loads(line) for line in process.stdout.read().splitlines()]
    told = " ".join(process.stderr.read().split())
    assert process.wait(PATIENCE_S) == 0, told
    assert "Traceback" not in told
    return events, told


# --- standard input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["csv", "json", "chunks"])
def test_lines_in_a_pipe_are_answered_as_offline(path, rows, expected, layout):
    text = {"csv": as_csv(rows), "json": as_json(rows), "chunks": as_json(rows, 37)}[layout]
    events, told = stream(path, text=text)
    same(events, expected)
    assert f"{len(events)} windows, 2 gaps" in told
    assert "dropped: 1 duplicate samples, 1 backward samples, 2 nan samples" in told


def test_a_header_names_columns_in_any_order(path, rows, expected):
    header = "z,battery,time_s,x,y\n"
    text = header + as_csv([[z, 0.9, t, x, y] for t, x, y, z in rows])
    same(stream(path, text=text)[0], expected)


def test_malformed_lines_are_told_once_and_counted(path, rows, expected):
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
    events, told = stream(path, text="\n".join(clean))
    same(events, expected)
    assert told.count("is no sample of x, y, z") == 1
    assert "line 41 " in told
    assert "7 lines could not be read" in told


def test_no_times_a_method_and_its_settings(path):
    source = load(path)
    values = wearer(10.0).values[200:300]
    windows = prepare(
        Recording(values=values, time_s=np.arange(100) / 10, channels=NAMES, unit="g", rate_hz=10.0),
        rate_hz=10.0,
        window_s=2.0,
        stride_s=1.0,
    )
    result = run(method("sight", tau=0.2).bind(source), windows)
    events, _ = stream(path, "--method", "sight", "--set", "tau=0.2", text=as_csv(values.tolist()))
    same(events, result)
    assert [event["surprise"] for event in events] == result.trace["surprise"].astype(float).tolist()


def test_mistakes_end_with_one_sentence(path, tmp_path):
    for words, sentence in [
        (["--serial", "a", "--mqtt", "b"], "choose one"),
        (["--mqtt", "http://x"], "mqtt://host:port/topic"),
        (["--method", "tent", "--set", "rule=stream"], "no network to adapt"),
        (["--replay", tmp_path / "no.csv"], "no file or folder"),
        (["--mqtt", "mqtt://127.0.0.1:1/t"], "no MQTT broker"),
    ]:
        assert sentence in stream(path, *words, code=2)[1]


def test_a_listener_that_leaves_ends_it_cleanly(path, rows):
    process = start(path, stdin=subprocess.PIPE)
    process.stdout.close()
    with suppress(BrokenPipeError):
        process.stdin.write(as_csv(rows))
        process.stdin.flush()
    # Standard input stays open: it is the listener who ends it.
    assert process.wait(PATIENCE_S) == 0
    assert "Traceback" not in process.stderr.read()
    process.stdin.close()


# --- state ----------------------------------------------------------------------------------------------------------


def test_a_wearer_goes_on_from_a_file_bit_for_bit(path, rows, expected, tmp_path):
    state, events = tmp_path / "wearer.state", []
    for some in (rows[:333], rows[333:334], rows[334:]):
        more, told = stream(path, "--state", state, text=as_csv(some))
        events += more
        assert f"saved to {state}" in told
    assert "goes on from" in told
    for event, q in zip(events, expected.q.tolist(), strict=False):
        assert event["q"] == q
    # A stream that is kept is not flushed: the last window waits for a next sample.
    assert len(expected.q) - 1 <= len(events) <= len(expected.q)


def test_a_signal_ends_it_with_a_summary_and_what_was_learned(path, rows, expected, tmp_path):
    state = tmp_path / "wearer.state"
    process = start(path, "--state", state, stdin=subprocess.PIPE)
    process.stdin.write(as_csv(rows[:200]))
    process.stdin.flush()
    events = lines_of(process, 15)
    rest, told = ended(process, signal.SIGTERM)
    events += rest
    assert f"stream: {len(events)} windows" in told
    more, _ = stream(path, "--state", state, text=as_csv(rows[200:]))
    for event, q in zip(events + more, expected.q.tolist(), strict=False):
        assert event["q"] == q
    assert [event["window"] for event in events + more] == list(range(len(events + more)))


def test_it_is_saved_now_and_then_so_that_a_kill_loses_little(path, rows, tmp_path):
    state = tmp_path / "wearer.state"
    process = start(path, "--state", state, "--save-every", 5, stdin=subprocess.PIPE)
    process.stdin.write(as_csv(rows[:200]))
    process.stdin.flush()
    lines_of(process, 15)
    deadline = time.monotonic() + PATIENCE_S
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait(PATIENCE_S)
    _, told = stream(path, "--state", state, text=as_csv(rows[200:]))
    assert "goes on from" in told


def test_a_state_that_is_damaged_or_of_another_method_is_refused(path, rows, tmp_path):
    state = tmp_path / "wearer.state"
    stream(path, "--state", state, text=as_csv(rows[:100]))
    whole = state.read_bytes()
    flipped = bytearray(whole)
    flipped[-3] ^= 1
    for content, words, sentence in [
        (whole[: len(whole) // 2], [], "got something else or a part of one"),
        (bytes(flipped), [], "damaged"),
        (b"", [], "got something else"),
        (whole, ["--method", "sight"], "another method"),
        (whole, ["--rate", "20"], "another rate"),
    ]:
        state.write_bytes(content)
        assert sentence in stream(path, "--state", state, *words, code=2)[1]
        assert state.read_bytes() == content


# --- devices --------------------------------------------------------------------------------------------------------


def test_a_serial_port_is_read_as_it_sends(path, rows, expected):
    ours, theirs = os.openpty()
    process = start(path, "--serial", os.ttyname(theirs), "--baud", 115200)
    assert "listens to" in process.stderr.readline()
    text = as_csv(rows).encode()
    sender = threading.Thread(target=lambda: [os.write(ours, text[i : i + 500]) for i in range(0, len(text), 500)])
    sender.start()
    events = lines_of(process, len(expected.q))
    sender.join(PATIENCE_S)
    rest, _ = ended(process, signal.SIGINT)
    os.close(ours)
    os.close(theirs)
    same(events + rest, expected)


def test_a_file_is_replayed_as_a_device(path, rows, expected, tmp_path):
    table = tmp_path / "day.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([["t", *NAMES], *rows])
    words = ("--replay", table, "--columns", "time=t,x=x,y=y,z=z", "--rate", 10)
    events, _ = stream(path, *words, "--speed", 0)
    start_s = events[0]["time_s"] - expected.windows.time_s[0]
    np.testing.assert_allclose([event["time_s"] - start_s for event in events], expected.windows.time_s, atol=1e-6)
    np.testing.assert_allclose([event["q"] for event in events], expected.q, atol=1e-4)
    began = time.monotonic()
    stream(path, *words, "--speed", 20)
    assert time.monotonic() - began >= 700 / 10 / 20


def test_a_replay_goes_on_where_the_state_ended(path, rows, tmp_path):
    tables = [tmp_path / "begin.csv", tmp_path / "day.csv"]
    for table, count in zip(tables, (400, len(rows)), strict=True):
        with table.open("w", newline="") as file:
            csv.writer(file).writerows([["t", *NAMES], *rows[:count]])
    words = ("--columns", "time=t,x=x,y=y,z=z", "--rate", 10, "--speed", 0)
    whole, _ = stream(path, "--replay", tables[1], *words, "--state", tmp_path / "whole")
    first, _ = stream(path, "--replay", tables[0], *words, "--state", tmp_path / "parts")
    rest, told = stream(path, "--replay", tables[1], *words, "--state", tmp_path / "parts")
    plain = [[(event["window"], event["time_s"], event["q"]) for event in events] for events in (whole, first + rest)]
    assert rest
    assert plain[0] == plain[1]
    assert "replay goes on at " in told
    assert f"{len(rest)} windows" in told
    assert 250 < int(re.search(r"(\d+) samples", told)[1]) <= 300  # of this run, not of the first
    again, told = stream(path, "--replay", tables[1], *words, "--state", tmp_path / "parts")
    assert again == []
    assert "has seen the recording up to its end" in told
    assert "0 windows" in told


def mosquitto(port, folder, anonymous="true"):
    program = shutil.which("mosquitto", path=os.pathsep.join((os.environ["PATH"], "/usr/sbin")))
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("mosquitto is not installed")
    config = folder / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous {anonymous}\n")
    broker = subprocess.Popen([program, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE_S
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


def test_a_broker_that_refuses_us_is_named(path, tmp_path):
    port = free_port()
    broker = mosquitto(port, tmp_path, anonymous="false")
    try:
        _, told = stream(path, "--mqtt", f"mqtt://me:wrong@127.0.0.1:{port}/wearer/7", code=2)
    finally:
        broker.terminate()
        broker.wait(PATIENCE_S)
    assert "refused the connection: Not authorized" in told


def sent_until_answered(process, port, rows, wanted):
    """Send one message over and over until it is answered; a repeat moves no time forward and is dropped."""
    from paho.mqtt.publish import single

    answered = threading.Event()

    def send():
        while not answered.wait(0.2):
            single("wearer/7", as_json(rows, len(rows)), hostname="127.0.0.1", port=port)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        return lines_of(process, wanted)
    finally:
        answered.set()
        sender.join(PATIENCE_S)


def test_mqtt_goes_on_when_the_broker_comes_back(path, rows, expected, tmp_path):
    whole, port = wearer(10.0), free_port()
    early = len(Session(load(path), method("none")).push(whole.values[:250], whole.time_s[:250]))
    broker = mosquitto(port, tmp_path)
    process = start(path, "--mqtt", f"mqtt://127.0.0.1:{port}/wearer/7")
    try:
        events = sent_until_answered(process, port, rows[:250], early)
        broker.terminate()
        broker.wait(PATIENCE_S)
        broker = mosquitto(port, tmp_path)
        events += sent_until_answered(process, port, rows[250:], len(expected.q) - early)
        rest, told = ended(process, signal.SIGTERM)
    finally:
        process.kill()
        broker.terminate()
        broker.wait(PATIENCE_S)
    same(events + rest, expected)
    assert told.count("listens to wearer/7") == 2
    assert "went away" in told
