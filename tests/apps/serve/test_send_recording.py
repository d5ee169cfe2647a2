"""Transfers of recordings to a service: complete, resumable, and patient while the service is busy."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from sight.apps.serve import client as client_module
from sight.apps.serve.client import Client, RequestRefusedError
from sight.apps.serve.limits import Limits
from sight.apps.serve.send_recording import Transfer
from sight.types import Recording
from tests.helpers.services import equal_events, listening
from tests.helpers.sessions import make_stream, toy_model, uninterrupted

START = datetime(2024, 3, 12, 8, tzinfo=UTC)
TOY = toy_model("toy", "1")


def make_recording(seconds: int = 300, rate_hz: float = 10.0, start: datetime | None = START) -> Recording:
    """Return a recording with irregular times and a gap of ten seconds."""
    values = make_stream(3, seconds)
    time_s = np.arange(len(values)) / rate_hz + np.random.default_rng(0).uniform(0, 0.02, len(values))
    time_s[len(values) // 2 :] += 10.0
    return Recording(values=values, time_s=time_s, channels=("x", "y", "z"), unit="g", rate_hz=rate_hz, start=start)


@pytest.fixture
def service(tmp_path):
    with listening(tmp_path, Limits(samples=400)) as running:
        yield running


@pytest.fixture
def client(service):
    with Client(str(service.base_url)) as opened:
        yield opened


def transfer_to(client, recording, wearer="anna", **options) -> Transfer:
    return Transfer(client, wearer, [recording], model="toy@1", **options)


def stored(service, wearer="anna") -> list[dict]:
    return service.get(f"/v1/wearers/{wearer}/events").json()["events"]


def expected(recording):
    return uninterrupted(TOY, recording.values, "keel", recording.time_s + START.timestamp())


def test_an_interrupted_transfer_continues_after_the_latest_sample(service, client):
    recording = make_recording()
    assert client.card("toy@1").channels == recording.channels
    first = transfer_to(client, recording)
    running = first.run()
    next(running)
    next(running)
    running.close()
    second = transfer_to(client, recording)
    assert list(second.run())[-1] == second.total == len(recording.values)
    assert (second.present, first.sent + second.sent) == (first.sent, second.total)
    assert first.sent > 0
    assert equal_events(stored(service), expected(recording))
    assert first.windows + second.windows == len(stored(service))
    assert first.changed + second.changed == sum(event["label"] != event["raw"] for event in stored(service))
    third = transfer_to(client, recording)
    assert list(third.run()) == []
    assert (third.present, third.sent) == (third.total, 0)


def test_chunks_that_are_too_large_are_halved(service, client):
    transfer = transfer_to(client, make_recording())
    list(transfer.run())
    assert transfer.sent / transfer.chunks <= 400
    assert equal_events(stored(service), expected(make_recording()))


def test_samples_without_a_value_are_left_out_and_counted(service, client):
    recording = make_recording(60)
    recording.values[100:103, 1] = np.nan
    transfer = transfer_to(client, recording)
    assert list(transfer.run())[-1] == 600
    assert (transfer.without_value, transfer.sent, transfer.dropped) == (3, 597, 0)
    assert service.get("/v1/wearers/anna").json()["samples"] == 597


def test_a_wearer_of_nearly_the_same_rate_is_accepted_and_another_refused(client):
    list(transfer_to(client, make_recording(20)).run())
    later = make_recording(20, rate_hz=10.1, start=datetime(2024, 3, 13, tzinfo=UTC))
    assert list(transfer_to(client, later).run())[-1] == 200
    with pytest.raises(RequestRefusedError, match=r"rate_hz is 10\.0, not 20\.0"):
        transfer_to(client, make_recording(20, rate_hz=20.0))
    with pytest.raises(ValueError, match="letters, digits"):
        transfer_to(client, later, wearer="../etc")
    with pytest.raises(ValueError, match="its models: four"):
        client.card("walk")


MODEL = {"id": "walk@1", "name": "walk", "classes": ["a", "b"], "channels": ["x"], "units": ["g"], "encoder": "cnn"}
MODEL |= {"dataset": "", "rate_hz": 10.0, "window_s": 2.0, "stride_s": 1.0}
MODELS = {"default": "walk@1", "models": [MODEL]}


@contextmanager
def stub(*answers, port=0):
    """A server that gives these statuses in turn; 0 closes the connection."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.do_POST()

        def do_POST(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status = left.pop(0)
            if status == 0:
                self.close_connection = True
                return
            content = {"dropped": 0, "events": []} if self.command == "POST" else MODELS
            body = json.dumps({"error": "busy"} if status != 200 else content).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_same_chunk_is_sent_again_while_the_service_is_busy_or_away(monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_WAIT_S", 0.01)
    reasons = []
    with stub(503, 429, 0, 200) as url, Client(url, on_wait=reasons.append) as client:
        assert client.send("anna", 1, np.zeros((2, 3)), np.arange(2.0))["events"] == []
    assert reasons[:2] == ["busy", "busy"]
    assert "cannot be reached" in reasons[2]
    with stub(503, 503, 503, 503) as url, Client(url, retry_s=0.02) as client, pytest.raises(ConnectionError):
        client.send("anna", 1, np.zeros((2, 3)), np.arange(2.0))
    with stub(0, 422) as url, Client(url) as client, pytest.raises(RequestRefusedError, match="busy") as refused:
        client.send("anna", 1, np.zeros((2, 3)), np.arange(2.0))
    assert refused.value.status == 422


@pytest.mark.parametrize(
    ("content", "words"),
    [("a page", "no JSON; is it a service"), ({"a": 1}, "as a service of sight"), ({"models": [5]}, "as a service")],
)
def test_another_program_at_the_address_is_reported(monkeypatch, content, words):
    monkeypatch.setattr(sys.modules[__name__], "MODELS", content)
    with stub(200) as url, Client(url) as client, pytest.raises(ValueError, match=words):
        client.card()


def test_the_first_request_waits_for_a_service_that_starts(tmp_path, monkeypatch):
    """A gateway and its service may be started together."""
    monkeypatch.setattr(client_module, "FIRST_WAIT_S", 0.05)
    with stub() as url:
        pass  # its port is free again
    reasons = []
    with ExitStack() as stack:

        def start(reason):
            if not reasons:
                stack.enter_context(stub(200, port=int(url.rpartition(":")[2])))
            reasons.append(reason)

        with Client(url, on_wait=start) as client:
            assert client.card().classes == ("a", "b")
    assert "cannot be reached" in reasons[0]
    with pytest.raises(ConnectionError, match="cannot be reached"):
        Client(url, retry_s=0.1).card()
    for wrong in ("127.0.0.1:8000", "ftp://host", "http://"):
        with pytest.raises(ValueError, match="Expected the address of a service"):
            Client(wrong)
