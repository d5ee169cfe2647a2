"""`sight serve` as a process: it stops in good order, goes on later, and refuses what would be unsafe."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import time

import httpx
import numpy as np
import pytest
import websockets

from sight.datasets.synthetic import Synthetic
from sight.registry import method
from sight.serve.chunk_format import Arrival, pack
from sight.serve.tokens import TokenBook
from sight.sources import load
from sight.stream import Session
from tests.conftest import ROOT
from tests.helpers.keeping import walk
from tests.helpers.serving import Child, agrees, command, onnx_model


def session_answers(values):
    return Session(load(onnx_model()), method("keel")).push(values)


async def stream(child, wearer, parts, first=1, pause_s=0.0):
    """Send chunks without waiting for answers; return those, and the code the socket was closed with."""
    async with websockets.connect(f"ws://127.0.0.1:{child.port}/v1/ingest") as socket:

        async def send():
            for number, part in enumerate(parts, start=first):
                await socket.send(pack([Arrival(wearer, number, part)]))
                await asyncio.sleep(pause_s)

        sending, acks = asyncio.create_task(send()), []
        try:
            while len(acks) < len(parts):
                acks.append(json.loads(await socket.recv()))
        except websockets.ConnectionClosed as closed:
            sending.cancel()
            return acks, closed.rcvd.code
    return acks, 1000


def test_a_service_that_is_asked_to_stop_answers_what_it_took_and_goes_on_later(tmp_path):
    values = walk(11, 600)
    parts = np.split(values, 300)
    child = Child(tmp_path, "-m", str(onnx_model()))
    child.ready().put("/v1/wearers/anna").raise_for_status()

    async def stopped():
        task = asyncio.create_task(stream(child, "anna", parts, pause_s=0.02))
        with httpx.Client(base_url=child.url) as client:
            while await asyncio.to_thread(lambda: client.get("/v1/wearers/anna").json()["seq"]) < 20:
                await asyncio.sleep(0.01)
        child.process.terminate()
        return await task

    acks, code = asyncio.run(stopped())
    assert code == 1012
    assert child.process.wait(30) == 0
    assert [ack["seq"] for ack in acks] == list(range(1, len(acks) + 1))
    assert 20 <= len(acks) < len(parts)
    assert [line["event"] for line in child.lines()][-2:] == ["draining", "closed"]
    child = Child(tmp_path, "-m", str(onnx_model()))
    known = child.ready().get("/v1/wearers/anna").json()["seq"]
    assert known == len(acks)  # everything taken was answered
    rest, code = asyncio.run(stream(child, "anna", parts[known:], first=known + 1))
    assert code == 1000
    told = [event for ack in acks + rest for event in ack["events"]]
    assert agrees(told, session_answers(values))
    assert child.stop() == 0


def test_tls_and_tokens_open_the_service_to_others(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*words.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    secret, _ = TokenBook(tmp_path / "data" / "tokens.json").add(["read"], ["*"])
    options = ["-m", str(onnx_model()), "--host", "0.0.0.0", "--tls-cert", str(cert), "--tls-key", str(key)]
    child = Child(tmp_path / "data", *options)
    client = child.ready(ssl.create_default_context(cafile=str(cert)))
    assert child.url.startswith("https://")
    assert client.get("/v1/wearers").status_code == 401
    assert client.get("/v1/wearers", headers={"authorization": f"Bearer {secret}"}).json() == {"wearers": []}
    assert child.stop() == 0


def test_the_command_refuses_what_would_be_unsafe_or_cannot_work(tmp_path):
    for words, sentence in (
        (["--host", "0.0.0.0"], "Expected a token before listening on 0.0.0.0"),
        (["--tls-cert", tmp_path / "cert.pem"], "Expected both --tls-cert and --tls-key"),
        (["--limit", "wearer=3"], "no parameter 'wearer'"),
        (["--limit", "wearers=0"], "limit wearers above 0"),
        (["--port", "0"], "at least one model"),
    ):
        shown = command("--data", tmp_path / "data", *words)
        assert shown.exit_code == 2, shown.output
        assert sentence in " ".join(shown.output.split()), shown.output


@pytest.mark.long
def test_the_demo_runs_offline_within_half_a_minute_and_is_quick_the_second_time(tmp_path):
    for most_s in (60, 20):  # machines that run tests are busy
        start = time.monotonic()
        child = Child(tmp_path, "--demo")
        client = child.ready()
        assert time.monotonic() - start < most_s
        while client.get("/v1/wearers/demo-anna").json().get("count", 0) < 30:
            time.sleep(0.2)
        assert len(client.get("/v1/wearers").json()["wearers"]) == 3
        assert child.stop() == 0


def test_the_page_of_the_docs_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / "serve.md").read_text("utf-8")
    program = re.search(r"```python\n(.*?)```", text, re.S)[1]
    assert sum(bool(line) for line in program.splitlines()) <= 12
    child = Child(tmp_path, "-m", str(onnx_model()))
    client = child.ready()
    here = program.replace("127.0.0.1:8000", f"127.0.0.1:{child.port}")
    for times in (1, 2):  # the second goes on after the first
        exec(here, {})
        shown = capsys.readouterr().out.split()
        assert len(shown) > 5
        assert set(shown) <= set(" ".join(load(onnx_model()).classes).split())
        assert client.get("/v1/wearers/lab-07").json()["seq"] == 12 * times
    assert child.stop() == 0


def test_the_commands_of_the_docs_fit_the_demo():
    text = (ROOT / "docs" / "serve.md").read_text("utf-8")
    body = json.loads(re.search(r"-d '(\{\"seq\".*?\})'", text)[1])
    assert {len(row) for row in body["values"]} == {len(Synthetic().channels)}


def test_a_new_token_alone_goes_to_standard_output(tmp_path):
    shown = command("token", "add", "--data", tmp_path)
    assert TokenBook(tmp_path / "tokens.json").find(shown.stdout.removesuffix("\n")) is not None
    assert "shown this once" in shown.stderr
