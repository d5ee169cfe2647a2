"""Run ``sight stream``, write its input, and read and compare its events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.commands import run_sight

TIMEOUT_S = 60


@contextmanager
def start(path, *options, **pipes) -> Iterator[subprocess.Popen]:
    """Start the command in a process of its own, which is killed at the end if it still runs."""
    command = [sys.executable, "-m", "sight", "stream", "-m", str(path), *map(str, options)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **pipes}
    with subprocess.Popen(command, text=True, env=env, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


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
