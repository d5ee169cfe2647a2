"""``sight stream`` on a serial port, a real MQTT broker and replayed recordings."""

from __future__ import annotations

import csv
import os
import re
import signal
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

from sight.apps.stream import Session
from sight.models.load import load
from sight.registry import method
from tests.apps.cli.stream.stream_helpers import TIMEOUT_S, as_csv, as_json, assert_same, lines_of, start, stop, stream
from tests.helpers.requirements import program
from tests.helpers.sessions import free_port
from tests.helpers.streams import CHANNELS, make_recording


def test_a_serial_port_is_read(path, rows, expected):
    ours, theirs = os.openpty()
    text = as_csv(rows).encode()
    sender = threading.Thread(target=lambda: [os.write(ours, text[i : i + 500]) for i in range(0, len(text), 500)])
    with start(path, "--serial", os.ttyname(theirs), "--baud", 115200) as process:
        assert "listening to" in process.stderr.readline()
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
    command = program("mosquitto", package="mosquitto")
    config = folder / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous {anonymous}\n")
    broker = subprocess.Popen([command, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
    try:
        with start(path, "--mqtt", f"mqtt://127.0.0.1:{port}/wearer/7") as process:
            events = publish_until_predicted(process, port, rows[:250], early)
            broker.terminate()
            broker.wait(TIMEOUT_S)
            broker = mosquitto(port, tmp_path)
            events += publish_until_predicted(process, port, rows[250:], len(expected.q) - early)
            remaining, messages = stop(process, signal.SIGTERM)
    finally:
        broker.terminate()
        broker.wait(TIMEOUT_S)
    assert_same(events + remaining, expected)
    assert messages.count("listening to wearer/7") == 2
    assert "reconnecting" in messages
