"""Services for tests: in this process on toy models, or as a child process."""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import safetensors.numpy
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from sight.apps.serve.app import create_app
from sight.apps.serve.limits import Limits
from sight.apps.serve.service import Service
from sight.apps.serve.session_manager import SessionManager
from sight.apps.serve.sqlite_store import SqliteStore
from sight.apps.serve.tokens import TokenFile
from sight.apps.serve.web_server import Server
from sight.models.onnx import CARD, CLASSES, TENSORS
from sight.testing import toy_card
from sight.types import Event
from tests.helpers.sessions import toy_models

BINARY = {"content-type": "application/octet-stream"}


def make_service(folder: Path, limits: Limits | None = None) -> Service:
    manager = SessionManager(toy_models(), SqliteStore(folder / "store.sqlite"), limits=limits or Limits())
    return Service(manager, TokenFile(folder / "tokens.json"))


@contextmanager
def running(folder: Path, *, limits: Limits | None = None) -> Iterator[TestClient]:
    """Run the application on the toy models; `client.service` is its service."""
    service = make_service(folder, limits)
    headers = {"host": "127.0.0.1"}  # WebSockets of the test client use another host name otherwise
    app = create_app(service)
    with TestClient(app, base_url="http://127.0.0.1", headers=headers, raise_server_exceptions=False) as client:
        client.service = service
        yield client


@contextmanager
def listening(folder: Path, limits: Limits, **options) -> Iterator[httpx.Client]:
    """Run the application on a port, in a thread, configured as the command does; `options` are those of uvicorn."""
    service = make_service(folder, limits)
    server = Server(service, None, log_config=None, **options)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60) as client:
            client.service = service
            yield client
    finally:
        server.should_exit = True
        thread.join()


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate of 127.0.0.1 and its key; return their paths."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    curve = "ec -pkeyopt ec_paramgen_curve:prime256v1"  # quicker than RSA
    words = f"openssl req -x509 -newkey {curve} -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*words.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def unread_socket(port: int) -> socket.socket:
    """Return a raw connection with small buffers after a WebSocket handshake."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", port))
    lines = ["GET /v1/ingest HTTP/1.1", f"host: 127.0.0.1:{port}", "connection: upgrade", "upgrade: websocket"]
    lines += ["sec-websocket-version: 13", "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==", "", ""]
    raw.sendall("\r\n".join(lines).encode())
    assert raw.recv(12).endswith(b"101")
    return raw


def read_until_closed(socket) -> WebSocketDisconnect:
    """Read a WebSocket until it is closed; return how it was closed."""
    try:
        while True:
            socket.receive_json()
    except WebSocketDisconnect as end:
        return end


def read_until(socket, message_type: str) -> list[dict]:
    """Return the messages up to the first of a type."""
    messages: list[dict] = []
    while not messages or messages[-1]["type"] != message_type:
        messages.append(socket.receive_json())
    return messages


def serve_command(*arguments):
    """Run `sight serve` with these arguments in this process."""
    from typer.testing import CliRunner

    from sight.apps.cli import app

    return CliRunner().invoke(app, ["serve", *map(str, arguments)], env={"COLUMNS": "200"})


def put_wearers(client: TestClient, *wearers: str, **options) -> None:
    for wearer in wearers:
        response = client.put(f"/v1/wearers/{wearer}", json={"model": "toy@1", **options})
        assert response.status_code == 200, response.text


def post(client: TestClient, wearer: str, values: np.ndarray, **fields) -> dict:
    """Send a chunk as JSON; return the acknowledgement."""
    response = client.post(f"/v1/wearers/{wearer}/samples", json={"values": values.tolist(), **fields})
    assert response.status_code == 200, response.text
    return response.json()


def equal_events(received: Sequence[dict], expected: Sequence[Event]) -> bool:
    """Return whether events in JSON equal those of a session bit for bit."""
    return [(one["window"], one["time_s"], one["gap_s"], one["q"], one["p"]) for one in received] == [
        (one.window, one.time_s, one.gap_s, one.q.tolist(), one.p.tolist()) for one in expected
    ]


def write_onnx(
    path: Path, *, channels=("x", "y", "z"), units=("g",) * 3, rate_hz=10.0, classes=5, version=None
) -> Path:
    """Write a small network with random weights, without torch: mean and power of each channel, a layer, a head."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    names, training = tuple(f"activity-{k}" for k in range(classes)), {} if version is None else {"version": version}
    card = toy_card(channels=tuple(channels), units=tuple(units), classes=names, rate_hz=rate_hz, training=training)
    rng, dims = np.random.default_rng(0), 16
    weights = {"hidden": rng.normal(size=(2 * len(channels), dims)), "head": rng.normal(size=(dims, classes))}
    weights = {name: value.astype(np.float32) for name, value in weights.items()} | {"axes": np.array([2])}
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["x", "x"], ["squared"]),
        helper.make_node("ReduceMean", ["squared", "axes"], ["power"], keepdims=0),
        helper.make_node("Concat", ["mean", "power"], ["pooled"], axis=1),
        helper.make_node("MatMul", ["pooled", "hidden"], ["layer"]),
        helper.make_node("Tanh", ["layer"], ["features"]),
        helper.make_node("MatMul", ["features", "head"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"]),
    ]
    shapes = {"x": ["N", len(channels), round(2 * rate_hz)], "features": ["N", dims], "probabilities": ["N", classes]}
    x, *outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "toy", [x], outputs, constants),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    head = {"head.weight": np.ascontiguousarray(weights["head"].T), "head.bias": np.zeros(classes, np.float32)}
    tensors = base64.b64encode(safetensors.numpy.save(head)).decode("ascii")
    helper.set_model_props(model, {CLASSES: json.dumps(card.classes), CARD: card.to_json(), TENSORS: tensors})
    onnx.save(model, path)
    return path


class ChildService:
    """`sight serve` in a process of its own."""

    def __init__(self, folder: Path, *options: str, open_files: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "sight", "serve", "--data", str(folder), "--port", "0", *options]
        if open_files is not None:
            command = ["prlimit", f"--nofile={open_files}:{open_files}", *command]
        self.log, self._clients = folder / "service.log", []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        output = ""
        for line in self.process.stdout:
            output += line
            if address := re.search(r"(https?)://\S+?:(\d+)", line):
                break
        else:
            raise RuntimeError(f"the service did not start: {output}{self.log.read_text()}")
        self.port, self.url = int(address[2]), f"{address[1]}://127.0.0.1:{address[2]}"

    def ready(self, verify=True) -> httpx.Client:
        """Return a client of the service, once it is ready; `stop` and `wait` close it."""
        client = httpx.Client(
            base_url=self.url, verify=verify, timeout=60, transport=httpx.HTTPTransport(retries=5, verify=verify)
        )
        self._clients.append(client)
        assert client.get("/readyz", timeout=60).json() == {"status": "ok"}
        return client

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def stop(self) -> int:
        self.process.terminate()
        return self.wait()

    def wait(self, seconds: float = 30) -> int:
        """Return the exit code once the process has ended."""
        for client in self._clients:
            client.close()
        code = self.process.wait(seconds)
        self.process.stdout.close()
        return code
