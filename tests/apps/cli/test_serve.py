"""`sight serve` as a process: stop and restart, TLS, tokens, and the examples of the docs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import ssl
import subprocess
import time
from contextlib import suppress

import httpx
import numpy as np
import pytest
import websockets

from sight.apps.cli import serve
from sight.apps.serve.chunks import Chunk
from sight.apps.serve.message_format import pack
from sight.apps.serve.tokens import TokenFile
from sight.apps.stream import Session
from sight.datasets.synthetic import Synthetic
from sight.models.load import load
from sight.registry import method
from tests.conftest import ROOT
from tests.helpers.services import ChildService, equal_events, serve_command, unread_socket, write_onnx
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


def test_responses_are_sent_at_once():
    with serve._listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(("writable", "expected"), [(True, None), (False, "kernels")])
def test_compiled_steps_are_kept_with_the_data_if_the_package_is_read_only(tmp_path, monkeypatch, writable, expected):
    monkeypatch.setattr(os, "access", lambda path, _: writable or path != ROOT / "src" / "sight" / "methods")
    monkeypatch.setattr(os, "environ", {})
    serve._set_kernel_cache(tmp_path)
    assert os.environ.get("NUMBA_CACHE_DIR") == (None if expected is None else str(tmp_path / expected))


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
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    curve = "ec -pkeyopt ec_paramgen_curve:prime256v1"  # quicker than RSA
    words = f"openssl req -x509 -newkey {curve} -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*words.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    secret, _ = TokenFile(tmp_path / "data" / "tokens.json").add(["read"], ["*"])
    options = ["-m", str(model), "--host", "0.0.0.0", "--tls-cert", str(cert), "--tls-key", str(key)]
    child = ChildService(tmp_path / "data", *options)
    client = child.ready(ssl.create_default_context(cafile=str(cert)))
    assert child.url.startswith("https://")
    assert client.get("/v1/wearers").status_code == 401
    assert client.get("/v1/wearers", headers={"authorization": f"Bearer {secret}"}).json() == {"wearers": []}
    client.close()
    assert child.stop() == 0


def test_unsafe_and_impossible_options_are_refused(tmp_path):
    for options, text in (
        (["--host", "0.0.0.0"], "Expected a token before listening on 0.0.0.0"),
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
