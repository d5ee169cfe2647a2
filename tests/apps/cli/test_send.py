"""``sight send``: a file to a service, across kills of the command and of the service."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from sight.apps.serve.tokens import TokenFile
from sight.apps.stream.session import Session
from sight.models.load import load
from sight.registry import method
from tests.apps.serve.pages.page_helpers import PageService
from tests.helpers.commands import output_of
from tests.helpers.services import ChildService, equal_events, write_onnx
from tests.helpers.sessions import make_stream

START_S = 1_710_230_400


@pytest.fixture
def model(tmp_path):
    return write_onnx(tmp_path / "small.onnx")


def write_csv(path, seconds):
    """Write a file of 10 Hz; return its path, values and times."""
    values = make_stream(5, seconds)
    time_s = START_S + np.arange(len(values)) / 10
    rows = (f"{t!r},{x!r},{y!r},{z!r}" for t, (x, y, z) in zip(time_s.tolist(), values.tolist(), strict=True))
    path.write_text("time,x,y,z\n" + "\n".join(rows) + "\n")
    return path, values, time_s


def events_of(service, wearer):
    events, after = [], -1
    while after is not None:
        page = service.request(f"/v1/wearers/{wearer}/events?after={after}")
        events, after = events + page["events"], page["next"]
    return events


def test_a_file_is_sent_with_a_token_and_only_once(model, tmp_path, monkeypatch):
    file, _, _ = write_csv(tmp_path / "walk.csv", 90)
    secret, _ = TokenFile(tmp_path / "data" / "tokens.json").add(["ingest"], ["lab-*"])
    child = ChildService(tmp_path / "data", "-m", str(model))
    child.ready().close()
    monkeypatch.setenv("SIGHT_TOKEN", secret)
    arguments = ("send", file, "--to", child.url, "--wearer", "lab-07", "--tz", "UTC")
    printed = output_of(*arguments)
    assert "Sent 900 samples in 2 chunks" in printed
    assert "89 windows predicted" in printed
    assert f"{child.url}/#lab-07" in printed
    assert "Sent 0 samples in 0 chunks" in output_of(*arguments)
    assert child.stop() == 0


@pytest.mark.long
def test_nothing_is_lost_or_sent_twice_when_command_and_service_are_killed(model, tmp_path):
    file, values, time_s = write_csv(tmp_path / "walk.csv", 1200)
    folder = tmp_path / "data"
    folder.mkdir()
    service = PageService(folder, model).start()
    words = ["send", str(file), "--to", service.url, "--wearer", "anna", "--tz", "UTC", "--speed", "60"]

    def start():
        return subprocess.Popen([sys.executable, "-m", "sight", *words], stdout=subprocess.DEVNULL)

    def wait_for(count):
        while service.request("/v1/wearers/anna", method="PUT")["count"] < count:
            time.sleep(0.05)

    sender = start()
    time.sleep(1)
    wait_for(200)
    sender.kill()  # the command
    sender.wait()
    sender = start()
    wait_for(500)
    service.kill()  # the service, while the command goes on
    time.sleep(2)
    service.start()
    assert sender.wait(120) == 0
    session = Session(load(model), method("keel"))
    assert equal_events(events_of(service, "anna"), session.push(values, time_s))
    service.kill()
