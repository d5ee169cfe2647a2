"""`sight serve` as a process: stop and restart, TLS, tokens, and the examples of the docs."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import threading
import time
from contextlib import ExitStack, suppress
from errno import ENOSPC
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import numpy as np
import pytest
import websockets

from sight._util import atomic
from sight.apps.cli import serve, serve_check
from sight.apps.serve.chunks import Chunk
from sight.apps.serve.message_format import pack
from sight.apps.serve.tokens import TokenFile
from sight.apps.stream import Session
from sight.datasets.synthetic import Synthetic
from sight.models.load import load
from sight.registry import method
from tests.conftest import ROOT
from tests.helpers.services import (
    ChildService,
    equal_events,
    serve_command,
    unread_socket,
    write_certificate,
    write_onnx,
)
from tests.helpers.sessions import make_stream


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_onnx(tmp_path_factory.mktemp("models") / "toy@1.onnx")


async def send_chunks(child, wearer, parts, first=1, pause_s=0.0):
    """Send chunks without waiting for acknowledgements; return those, and the code the socket was closed with."""
    async with websockets.connect(f"ws://127.0.0.1:{child.port}/v1/ingest") as socket:

        async def send():
            for number, part in enumerate(parts, start=first):
                await socket.send(pack([Chunk(wearer, number, part)]))
                await asyncio.sleep(pause_s)

        sending, acks = asyncio.create_task(send()), []
        try:
            while len(acks) < len(parts):
                acks.append(json.loads(await socket.recv()))
        except websockets.ConnectionClosed as closed:
            sending.cancel()
            return acks, closed.rcvd.code
    return acks, 1000


@pytest.mark.long
def test_a_client_that_does_not_read_delays_the_stop_by_seconds_only(model, tmp_path):
    """The acknowledgements of a chunk of a thousand windows fill the buffers between service and client."""
    child = ChildService(tmp_path, "-m", str(model))
    client = child.ready()
    client.put("/v1/wearers/anna").raise_for_status()
    message = pack([Chunk("anna", 1, make_stream(1, 1000))])
    frame = bytes([0x82, 0xFF]) + len(message).to_bytes(8, "big") + bytes(4) + message
    with unread_socket(child.port) as raw:
        raw.settimeout(5)
        with suppress(OSError):  # the service has stopped reading
            for _ in range(100):
                raw.sendall(frame)
        start = time.monotonic()
        child.process.terminate()
        assert child.wait(60) == 0
        assert time.monotonic() - start < 20


#: Request that opens a WebSocket.
UPGRADE = (
    b"GET /v1/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def test_responses_are_sent_at_once():
    with serve._listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_connection_that_is_kept_open_is_as_fast_as_a_new_one_and_few_open_files_shut_nobody_out(model, tmp_path):
    """Without TCP_NODELAY a kept connection waits 40 ms for each response; the two are measured in turn."""
    child = ChildService(tmp_path, "-m", str(model), open_files=300)
    try:
        child.ready()
        kept = HTTPConnection("127.0.0.1", child.port, timeout=60)
        seconds = {"kept": [], "new": []}
        for _ in range(25):
            for kind, connection in (("kept", kept), ("new", HTTPConnection("127.0.0.1", child.port, timeout=60))):
                start = time.perf_counter()
                connection.request("GET", "/healthz")
                assert connection.getresponse().read() == b'{"status":"ok"}'
                seconds[kind].append(time.perf_counter() - start)
                connection.close() if kind == "new" else None
        kept.close()
        assert np.median(seconds["kept"][5:]) < 3 * np.median(seconds["new"][5:]) + 0.005

        with ExitStack() as stack:  # more half-sent headers than the service has files
            for _ in range(400):
                raw = stack.enter_context(socket.create_connection(("127.0.0.1", child.port)))
                with suppress(OSError):
                    raw.sendall(b"GET /healthz HTTP/1.1\r\nhost: x")
            for _ in range(3):
                assert httpx.get(f"{child.url}/healthz", timeout=30).status_code == 200
        with ExitStack() as stack:  # as many WebSockets as connections, half of them refused
            for _ in range(172):
                raw = stack.enter_context(socket.create_connection(("127.0.0.1", child.port)))
                raw.sendall(UPGRADE)
                assert raw.recv(4096)
            for _ in range(3):
                assert httpx.get(f"{child.url}/healthz", timeout=30).status_code == 200
        (limited,) = [line for line in child.lines() if line["event"] == "fewer connections"]
        assert (limited["open_connections"], limited["open_files"]) == (172, 300)
    finally:
        assert child.stop() == 0
    assert not [line for line in child.lines() if line["level"] == "error"]


def test_a_stopped_service_acknowledges_what_it_accepted_and_continues_later(model, tmp_path):
    values = make_stream(11, 300)
    parts = np.split(values, 150)
    child = ChildService(tmp_path, "-m", str(model))
    child.ready().put("/v1/wearers/anna").raise_for_status()

    async def stop_while_sending():
        task = asyncio.create_task(send_chunks(child, "anna", parts, pause_s=0.1))
        with httpx.Client(base_url=child.url, timeout=60) as client:
            while await asyncio.to_thread(lambda: client.get("/v1/wearers/anna").json()["seq"]) < 20:
                await asyncio.sleep(0.01)
        child.process.terminate()
        return await task

    acks, code = asyncio.run(stop_while_sending())
    assert code == 1012
    assert child.wait() == 0
    assert [ack["seq"] for ack in acks] == list(range(1, len(acks) + 1))
    assert 20 <= len(acks) < len(parts)
    assert [line["event"] for line in child.lines()][-2:] == ["draining", "closed"]
    child = ChildService(tmp_path, "-m", str(model))
    applied = child.ready().get("/v1/wearers/anna").json()["seq"]
    assert applied == len(acks)
    rest, code = asyncio.run(send_chunks(child, "anna", parts[applied:], first=applied + 1))
    assert code == 1000
    events = [event for ack in acks + rest for event in ack["events"]]
    assert equal_events(events, Session(load(model), method("keel")).push(values))
    assert child.stop() == 0


def test_tls_and_tokens(model, tmp_path):
    cert, key = write_certificate(tmp_path)
    secret, _ = TokenFile(tmp_path / "data" / "tokens.json").add(["read"], ["*"])
    options = ["-m", str(model), "--host", "0.0.0.0", "--tls-cert", str(cert), "--tls-key", str(key)]
    child = ChildService(tmp_path / "data", *options)
    client = child.ready(ssl.create_default_context(cafile=str(cert)))
    assert child.url.startswith("https://")
    assert client.get("/v1/wearers").status_code == 401
    assert client.get("/v1/wearers", headers={"authorization": f"Bearer {secret}"}).json() == {"wearers": []}
    client.close()
    assert serve_command("check", "--data", tmp_path / "data").output == "ready\n"  # for health checks, over TLS too
    assert child.stop() == 0
    stopped = serve_command("check", "--data", tmp_path / "data")
    assert (stopped.exit_code, "No service uses" in stopped.output) == (1, True)


@pytest.mark.parametrize(("status", "expected"), [(200, (0, "ready")), (503, (1, "status 503")), (0, (1, "respond"))])
def test_a_check_reports_whether_the_service_is_ready(tmp_path, status, expected):
    class Ready(BaseHTTPRequestHandler):
        def do_GET(self):
            assert self.path == "/readyz"
            if status:
                self.send_response(status)
                self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        (tmp_path / "service.json").write_text(json.dumps({"url": f"http://127.0.0.1:{server.server_port}/"}))
        result = serve_command("check", "--data", tmp_path)
        thread.join()
    assert (result.exit_code, expected[1] in result.output) == (expected[0], True), result.output


def test_a_check_waits_for_a_service_that_starts(tmp_path, monkeypatch):
    problems = ["not yet", "not yet", ""]
    monkeypatch.setattr(serve_check, "_problem", lambda _: problems.pop(0))
    monkeypatch.setattr(serve_check, "PAUSE_S", 0.01)
    assert serve_command("check", "--data", tmp_path, "--wait", 30).exit_code == 0
    assert not problems
    (tmp_path / "service.json").write_text("[]")
    monkeypatch.undo()
    assert "no readable service.json" in serve_command("check", "--data", tmp_path).output


@pytest.mark.parametrize(
    ("address", "reached"),
    [
        ("http://0.0.0.0:80/", "http://127.0.0.1:80/"),
        ("https://[::]:443/", "https://[::1]:443/"),
        ("http://10.0.0.5:8000/", "http://10.0.0.5:8000/"),
    ],
)
def test_the_address_for_checks_is_one_that_this_machine_reaches(tmp_path, address, reached):
    with serve._address_file(tmp_path / "service.json", address):
        assert json.loads((tmp_path / "service.json").read_text()) == {"url": reached}
    assert not (tmp_path / "service.json").exists()


def test_a_service_starts_although_its_address_cannot_be_written(tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "write_json", fail)
    with serve._address_file(tmp_path / "service.json", "http://127.0.0.1:80/"):
        assert "service.json cannot be written (No space left on device)" in capsys.readouterr().err
    assert not (tmp_path / "service.json").exists()


def test_unsafe_and_impossible_options_are_refused(tmp_path):
    for options, text in (
        (["--host", "0.0.0.0"], "Expected a token before listening on 0.0.0.0"),
        (["--demo", "--trusted-proxy", "example.org"], "Expected addresses or networks of --trusted-proxy"),
        (["--tls-cert", tmp_path / "cert.pem"], "Expected both --tls-cert and --tls-key"),
        (["--limit", "wearer=3"], "'wearer'"),
        (["--limit", "wearers=0"], "limit wearers above 0"),
        (["--port", "0"], "with -m, or use --demo"),
    ):
        result = serve_command("--data", tmp_path / "data", *options)
        assert result.exit_code == 2, result.output
        assert text in " ".join(result.output.split()), result.output


@pytest.mark.long
def test_the_demo_starts_with_little_processor_time_and_continues(tmp_path):
    import psutil

    for most_s in (60, 20):  # the first time steps may have to be compiled
        child = ChildService(tmp_path, "--demo")
        client = child.ready()
        used = psutil.Process(child.process.pid).cpu_times()
        assert used.user + used.system < most_s
        while client.get("/v1/wearers/demo-anna").json().get("count", 0) < 30:
            time.sleep(0.2)
        assert len(client.get("/v1/wearers").json()["wearers"]) == 3
        assert child.stop() == 0


def test_the_python_example_of_the_docs_runs(model, tmp_path, capsys):
    text = (ROOT / "docs" / "serve.md").read_text("utf-8")
    program = re.search(r"```python\n(.*?)```", text, re.S)[1]
    child = ChildService(tmp_path, "-m", str(model))
    client = child.ready()
    program = program.replace("127.0.0.1:8000", f"127.0.0.1:{child.port}")
    for times in (1, 2):  # the second run continues after the first
        exec(program, {})
        printed = capsys.readouterr().out.split()
        assert len(printed) > 5
        assert set(printed) <= set(" ".join(load(model).classes).split())
        assert client.get("/v1/wearers/lab-07").json()["seq"] == 12 * times
    assert child.stop() == 0


def test_the_curl_example_of_the_docs_fits_the_demo():
    text = (ROOT / "docs" / "serve.md").read_text("utf-8")
    body = json.loads(re.search(r"-d '(\{\"seq\".*?\})'", text)[1])
    assert {len(row) for row in body["values"]} == {len(Synthetic().channels)}


def test_only_the_new_token_is_written_to_standard_output(tmp_path):
    result = serve_command("token", "add", "--data", tmp_path)
    token = TokenFile(tmp_path / "tokens.json").find(result.stdout.removesuffix("\n"))
    assert token is not None
    assert token.id in result.stderr
