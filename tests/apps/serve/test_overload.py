"""Clients that send slowly, send too much or do not read: they are disconnected, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from contextlib import ExitStack
from types import SimpleNamespace

import httpx
import pytest
from starlette.datastructures import Headers, QueryParams, State
from websockets.sync.client import connect

from sight.apps.serve import connection_limits, ingest_socket, sockets, web_server
from sight.apps.serve.chunks import Chunk
from sight.apps.serve.ingest_socket import IngestConnection
from sight.apps.serve.limits import Limits
from sight.apps.serve.message_format import pack
from sight.apps.serve.metrics_and_logs import JsonLines, RepetitionFilter, log_config
from sight.apps.serve.tokens import SCOPES, TokenFile
from tests.helpers.services import listening, make_service, put_wearers, unread_socket, write_certificate
from tests.helpers.sessions import make_stream

# --- clients that do not read -----------------------------------------------------------------------------------------


class UnreadSocket:
    """A socket whose client sends one message again and again and reads nothing."""

    def __init__(self, message: bytes) -> None:
        self.headers, self.query_params, self.state = Headers({}), QueryParams(""), State()
        self.message, self.received, self.closed = message, 0, None

    async def accept(self) -> None:
        pass

    async def receive(self) -> dict:
        self.received += 1
        await asyncio.sleep(0)
        return {"type": "websocket.receive", "bytes": self.message}

    async def send_text(self, _: str) -> None:
        await asyncio.Event().wait()

    async def close(self, code: int, reason: str) -> None:
        self.closed = code, reason
        await asyncio.Event().wait()


@pytest.mark.parametrize("query", ["", "acks=joined"])
def test_a_socket_that_is_not_read_is_closed(tmp_path, monkeypatch, query):
    monkeypatch.setattr(ingest_socket, "MAX_UNSENT", 50_000)
    monkeypatch.setattr(ingest_socket, "UNSENT_S", 0.2)
    monkeypatch.setattr(sockets, "CLOSE_S", 0.1)
    service = make_service(tmp_path, Limits(chunks_per_s=1e6, connection_chunks_per_s=1e6))
    # Every chunk is refused with an error of more than 100 bytes.
    unread = UnreadSocket(pack([Chunk("absent", 1, make_stream(1, 1))] * 10))
    unread.query_params = QueryParams(query)
    connection = IngestConnection(service, unread)

    async def run() -> None:
        await service.start()
        await asyncio.wait_for(connection.run(), 60)
        await service.close()

    asyncio.run(run())
    assert unread.closed == (1013, ingest_socket.UNREAD)
    # What was pending when reading stopped is still acknowledged.
    assert 50_000 < connection._unsent < 50_000 + 200 * ingest_socket.MAX_PENDING
    assert unread.received < 1000


def test_pending_samples_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(ingest_socket, "MAX_PENDING_SAMPLES", 100)
    monkeypatch.setattr(sockets, "CLOSE_S", 0.1)
    service = make_service(tmp_path)
    unread = UnreadSocket(pack([Chunk("absent", 1, make_stream(1, 6))]))  # 60 samples
    connection = IngestConnection(service, unread)

    async def run() -> None:
        service.ready = True
        service.queue._start_batch = lambda: None  # nothing is processed
        task = asyncio.create_task(connection.run())
        for _ in range(200):
            await asyncio.sleep(0)
        connection.stop()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert (connection._pending, unread.received) == (2, 3)
    service.manager.close()


def is_disconnected(raw: socket.socket, within_s: float = 30.0) -> bool:
    """Return whether the other side ends the connection within some time, without reading much."""
    raw.settimeout(within_s)
    try:
        while raw.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def is_disconnected_while_sending(raw: socket.socket, data: bytes, within_s: float = 30.0) -> bool:
    """Return whether the other side ends the connection although this one goes on sending."""
    raw.settimeout(within_s)
    end = time.monotonic() + within_s
    try:
        while time.monotonic() < end:
            raw.sendall(data)
            time.sleep(0.01)
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def ping() -> bytes:
    return bytes([0x89, 0x80 | 125]) + bytes(4) + bytes(125)


def test_pings_of_a_client_that_does_not_read_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(connection_limits, "STALLED_S", 0.5)
    with listening(tmp_path, Limits()) as client, unread_socket(client.base_url.port) as raw:
        assert is_disconnected_while_sending(raw, ping() * 2000)
        assert client.get("/healthz").status_code == 200


# --- clients without a token ------------------------------------------------------------------------------------------


@pytest.fixture
def owner(tmp_path):
    return TokenFile(tmp_path / "tokens.json").add(SCOPES)[0]


def test_a_long_first_message_is_not_read(tmp_path, owner, monkeypatch):
    parsed, real = [], sockets.parse
    monkeypatch.setattr(sockets, "parse", lambda adapter, text: parsed.append(len(text)) or real(adapter, text))
    with listening(tmp_path, Limits()) as client:
        url = f"ws://127.0.0.1:{client.base_url.port}/v1/ingest"
        with connect(url) as stranger:  # complete, and refused before it is parsed
            stranger.send(json.dumps({"type": "auth", "token": owner} | {f"field{i}": i for i in range(1000)}))
            with pytest.raises(Exception, match="1008"):
                stranger.recv(timeout=30)
        with unread_socket(client.base_url.port) as raw:  # the header of a frame of 1 MB, and a part of it
            raw.sendall(bytes([0x81, 0xFF]) + (1 << 20).to_bytes(8, "big") + bytes(4) + b"x" * 100_000)
            assert is_disconnected(raw)
    assert max(parsed, default=0) <= connection_limits.AUTH_BYTES


def test_a_long_message_may_follow_the_token_at_once(tmp_path, owner):
    with listening(tmp_path, Limits()) as client:
        client.headers["authorization"] = f"Bearer {owner}"
        put_wearers(client, "anna")
        url = f"ws://127.0.0.1:{client.base_url.port}/v1/ingest"
        message = {"type": "samples", "wearer": "anna", "seq": 1, "values": make_stream(1, 100).tolist()}
        with connect(url) as stream:
            stream.send(json.dumps({"type": "auth", "token": owner}))
            stream.send(json.dumps(message))
            assert json.loads(stream.recv(timeout=30))["type"] == "ack"
        with connect(url, additional_headers={"authorization": f"Bearer {owner}"}) as stream:
            stream.send(json.dumps(message))
            assert json.loads(stream.recv(timeout=30))["duplicate"]


def test_sockets_without_a_token_do_not_keep_token_holders_out(tmp_path, owner):
    with listening(tmp_path, Limits(unauthenticated=5, connections=3)) as client, ExitStack() as stack:
        url = f"ws://127.0.0.1:{client.base_url.port}/v1/watch"
        strangers = [stack.enter_context(connect(url)) for _ in range(8)]
        for stranger in strangers[:3]:  # the oldest made room
            with pytest.raises(Exception, match="1013"):
                stranger.recv(timeout=30)
        client.headers["authorization"] = f"Bearer {owner}"
        put_wearers(client, "anna")
        for _ in range(3):
            holder = stack.enter_context(connect(url))
            holder.send(json.dumps({"type": "auth", "token": owner}))
            holder.send(json.dumps({"type": "watch", "wearer": "anna"}))
            assert json.loads(holder.recv(timeout=30))["type"] == "hello"
        fourth = stack.enter_context(connect(url, additional_headers={"authorization": f"Bearer {owner}"}))
        with pytest.raises(Exception, match="1013"):
            fourth.recv(timeout=30)


def test_a_token_is_checked_before_the_request_is_validated(tmp_path, owner):
    with listening(tmp_path, Limits(message_bytes=1000)) as client:
        for method, path in (
            ("PUT", "/v1/wearers/anna"),
            ("POST", "/v1/wearers/anna/samples?seq=x"),
            ("POST", "/v1/wearers/a%20b/samples"),
            ("GET", "/v1/wearers/anna/events?limit=x"),
        ):
            assert client.request(method, path, content=b"{" * 5000).status_code == 401, path


# --- slow and many connections ----------------------------------------------------------------------------------------


def half_request(port: int) -> socket.socket:
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-")
    return raw


def test_headers_have_a_deadline(tmp_path, monkeypatch):
    monkeypatch.setattr(connection_limits, "HEADER_S", 0.3)
    with listening(tmp_path, Limits()) as client, ExitStack() as stack:
        port = client.base_url.port
        slow = stack.enter_context(half_request(port))
        assert is_disconnected_while_sending(slow, b"y")
        silent = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert is_disconnected(silent)
        assert client.get("/healthz").status_code == 200


def test_a_handshake_has_a_deadline(tmp_path, monkeypatch):
    monkeypatch.setattr(web_server, "HEADER_S", 0.3)
    cert, key = write_certificate(tmp_path)
    with (
        listening(tmp_path, Limits(), ssl_certfile=cert, ssl_keyfile=key) as client,
        socket.create_connection(("127.0.0.1", client.base_url.port)) as raw,
    ):
        assert is_disconnected(raw)


def test_an_unread_body_does_not_extend_the_connection(tmp_path, owner, monkeypatch):
    monkeypatch.setattr(connection_limits, "HEADER_S", 0.3)
    with listening(tmp_path, Limits()) as client:
        raw = socket.create_connection(("127.0.0.1", client.base_url.port))
        raw.sendall(b"PUT /v1/wearers/anna HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n")
        assert b"401" in raw.recv(1000)
        with raw:
            assert is_disconnected_while_sending(raw, b"y")


def test_connections_without_a_request_make_room_for_new_ones(tmp_path):
    with listening(tmp_path, Limits(open_connections=10)) as client, ExitStack() as stack:
        port = client.base_url.port
        idle = [stack.enter_context(half_request(port)) for _ in range(30)]
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port)) as other:
                other.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
                other.settimeout(30)
                assert b"200" in other.recv(100)
        assert all(is_disconnected(raw) for raw in idle[:20])


def half_body(port: int) -> socket.socket:
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(b"PUT /v1/wearers/anna HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000\r\n\r\n{")
    return raw


def test_connections_with_half_a_body_make_room_for_new_ones(tmp_path, caplog):
    with listening(tmp_path, Limits(open_connections=10)) as client, ExitStack() as stack:
        idle = [stack.enter_context(half_body(client.base_url.port)) for _ in range(30)]
        for _ in range(3):
            with httpx.Client(base_url=client.base_url, timeout=60) as other:
                for _ in range(2):  # also after a complete request on the same connection
                    assert other.get("/healthz").status_code == 200
        assert all(is_disconnected(raw) for raw in idle[:20])
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_few_permitted_connections_are_not_all_sockets(tmp_path):
    service = make_service(tmp_path, Limits(open_connections=100, connections=80))
    server = web_server.Server(service, None)
    server.permit_connections(100)
    assert service.limits.connections == 80
    server.permit_connections(20)
    assert (service.limits.connections, server.config.http.max_connections) == (10, 20)
    service.manager.close()


def test_the_state_of_the_protocol_is_that_of_the_socket():
    """The application reports through `state`, which both share."""
    scope = {"type": "websocket", "state": {}, "headers": []}
    connection = SimpleNamespace(socket=sockets.WebSocket(scope, None, None))
    sockets.Connection._set_token(connection, None)
    assert scope["state"] == {"authenticated": False}


def test_repeated_log_lines_are_limited_and_counted():
    now = [0.0]
    repetitions = RepetitionFilter(per_s=1.0, burst_s=10.0, clock=lambda: now[0])
    record = logging.getLogger("uvicorn.error").makeRecord

    def lines(count, message, level=logging.WARNING):
        records = [record("uvicorn.error", level, "", 0, message, (), None) for _ in range(count)]
        return [JsonLines().format(one) for one in records if repetitions.filter(one)]

    assert len(lines(1000, "Invalid HTTP request received.")) == 10
    assert len(lines(5, "another warning")) == 5
    assert len(lines(50, "created", logging.INFO)) == 50
    now[0] = 1.0
    (line,) = lines(1, "Invalid HTTP request received.")
    assert json.loads(line)["left_out"] == 990
    assert log_config()["handlers"]["stderr"]["filters"] == ["repetitions"]
