"""A service for tests: in this process on toy models, or as a child by its own command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import httpx
import numpy as np
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from sight.serve.app import create_app
from sight.serve.limits import Limits
from sight.serve.service import Service
from sight.serve.session_manager import Keeper
from sight.serve.sqlite_store import SqliteStore
from sight.serve.tokens import TokenBook
from tests.helpers.keeping import toy_models

HERE = "http://127.0.0.1"


def make_service(folder: Path, limits: Limits | None = None) -> Service:
    keeper = Keeper(toy_models(), SqliteStore(folder / "store.sqlite"), limits=limits or Limits())
    return Service(keeper, TokenBook(folder / "tokens.json"))


@contextmanager
def running(folder: Path, *, limits: Limits | None = None) -> Iterator[TestClient]:
    """Run the application on the toy models; `client.service` is what is behind it."""
    service = make_service(folder, limits)
    named = {"host": "127.0.0.1"}  # sockets of the test client go by another name otherwise
    with TestClient(create_app(service), base_url=HERE, headers=named, raise_server_exceptions=False) as client:
        client.service = service
        yield client


@contextmanager
def listening(folder: Path, limits: Limits) -> Iterator[httpx.Client]:
    """Run the application on a real port, in a thread, as the command sets it up."""
    import uvicorn

    app = create_app(make_service(folder, limits))
    config = uvicorn.Config(app, port=0, ws_max_size=limits.message_bytes, log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


def closed(socket) -> WebSocketDisconnect:
    """Read a socket to its end, and say how that came."""
    try:
        while True:
            socket.receive_json()
    except WebSocketDisconnect as end:
        return end


def until(socket, kind: str) -> list[dict]:
    """Read messages up to the first of a kind."""
    seen: list[dict] = []
    while not seen or seen[-1]["type"] != kind:
        seen.append(socket.receive_json())
    return seen


def command(*words):
    """Run `sight serve` with these words, in this process."""
    from typer.testing import CliRunner

    from sight.cli import app

    return CliRunner().invoke(app, ["serve", *map(str, words)], env={"COLUMNS": "200"})


def enrol(client: TestClient, *wearers: str, **facts) -> None:
    for wearer in wearers:
        answer = client.put(f"/v1/wearers/{wearer}", json={"model": "toy@1", **facts})
        assert answer.status_code == 200, answer.text


def post(client: TestClient, wearer: str, values: np.ndarray, **fields) -> dict:
    answer = client.post(f"/v1/wearers/{wearer}/samples", json={"values": values.tolist(), **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def agrees(told: list[dict], expected: list) -> bool:
    """Whether answers in JSON are those of a session, to the last bit."""
    return [(one["window"], one["time_s"], one["gap_s"], one["q"], one["p"]) for one in told] == [
        (one.window, one.time_s, one.gap_s, one.q.tolist(), one.p.tolist()) for one in expected
    ]


@cache
def onnx_model() -> Path:
    """A small network for three channels at 10 Hz, exported."""
    from sight.sources.onnx_export import export_onnx
    from sight.testing import toy_network

    return export_onnx(toy_network("resnet"), Path(mkdtemp(prefix="sight-model-")) / "small.onnx")


class Child:
    """`sight serve` as a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-m", "sight", "serve", "--data", str(folder), "--port", "0", *options]
        self.log = folder / "service.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        shown = ""
        for line in self.process.stdout:
            shown += line
            if found := re.search(r"(https?)://\S+?:(\d+)", line):
                break
        else:
            raise RuntimeError(f"the service did not start: {shown}{self.log.read_text()}")
        self.port, self.url = int(found[2]), f"{found[1]}://127.0.0.1:{found[2]}"

    def ready(self, verify=True) -> httpx.Client:
        """A client of the service, once it is ready."""
        client = httpx.Client(base_url=self.url, verify=verify, transport=httpx.HTTPTransport(retries=5, verify=verify))
        assert client.get("/readyz", timeout=60).json() == {"status": "ok"}
        return client

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(30)
