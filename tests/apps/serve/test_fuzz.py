"""Invalid requests, messages and stored data get an error, and neither stop the service nor affect other wearers."""

from __future__ import annotations

import asyncio
import sqlite3
import struct

import numpy as np
import pytest
import schemathesis
import websockets
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import max_response_time, positive_data_acceptance
from schemathesis.core.parameters import ParameterLocation

from sight.apps.serve.chunks import Chunk
from sight.apps.serve.limits import Limits
from sight.apps.serve.message_format import MAGIC, pack
from sight.apps.serve.tokens import SCOPES, TokenFile
from tests.helpers.services import equal_events, listening, post, put_wearers, read_until_closed, running
from tests.helpers.sessions import make_stream, toy_model, uninterrupted

TOY = toy_model("toy", "1")
LIMITS = Limits(message_bytes=60_000, samples=500, wearers=200)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with running(tmp_path_factory.mktemp("fuzz"), limits=LIMITS) as client:
        put_wearers(client, "anna", "lab-07")
        yield client


@pytest.fixture(scope="module")
def network_client(tmp_path_factory):
    """A client of a service that listens on a port."""
    folder = tmp_path_factory.mktemp("network")
    secret, _ = TokenFile(folder / "tokens.json").add(SCOPES)
    with listening(folder, LIMITS) as client:
        client.headers["authorization"] = f"Bearer {secret}"
        yield client


@pytest.mark.parametrize("mode", GenerationMode)
def test_every_route_behaves_as_described(network_client, mode):
    described = schemathesis.openapi.from_url(f"{network_client.base_url}/openapi.json")
    operations = [result.ok() for result in described.get_all_operations()]
    assert len(operations) == 14
    for operation in operations:
        try:
            explore(network_client, operation, mode)
        except Unsatisfiable:  # this route has nothing to get wrong
            assert mode == GenerationMode.NEGATIVE


def explore(network_client, operation, mode):
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def check(case):
        if "{wearer}" in operation.path:
            put_wearers(network_client, "lab-07")
        invalid = [name for name, part in case.meta.components.items() if part.mode != GenerationMode.POSITIVE]
        if ParameterLocation.HEADER not in invalid:
            case.headers = {**case.headers, "Authorization": network_client.headers["authorization"]}
        response = case.call()
        # The number of channels depends on the wearer's model, which the schema cannot express; response times are
        # measured elsewhere.
        case.validate_response(response, excluded_checks=[positive_data_acceptance, max_response_time])
        if response.status_code >= 400:
            assert isinstance(response.json()["error"], str)

    check()


# --- sockets --------------------------------------------------------------------------------------------------------


def head(wearer=b"anna", flags=1, channels=3, samples=2, seq=1, t0=0.0, length=None):
    count = len(wearer) if length is None else length
    return MAGIC + struct.pack("<BBHIQd", count, flags, channels, samples, seq, t0) + wearer


def values(*numbers):
    return np.array(numbers, "<f4").tobytes()


#: Messages that cannot be read; the socket is closed.
UNREADABLE = {
    "nothing": b"",
    "noise": bytes(range(256)),
    "magic uninterrupted": MAGIC,
    "half a header": head()[:12],
    "no values": head(),
    "values cut short": head() + bytes(23),
    "trailing bytes": head() + bytes(24) + b"x",
    "no samples": head(samples=0),
    "no channels": head(channels=0),
    "a thousand million samples": head(samples=2**32 - 1, channels=65535),
    "unknown flags": head(flags=64) + bytes(24),
    "a name that is a path": head(b"../../etc") + bytes(24),
    "a name of other letters": head("ännä".encode()) + bytes(24),
    "a name longer than the message": head(b"an", length=255) + bytes(24),
    "chunk number 0": head(seq=0) + bytes(24),
    "chunk number 2**64 - 1": head(seq=2**64 - 1) + bytes(24),
    "not a number": head() + values(1, 2, 3, 4, 5, np.nan),
    "infinity": head() + values(1, 2, 3, 4, 5, np.inf),
    "a value out of range": head() + values(1, 2, 3, 4, 5, 1e30),
    "times that are not finite": head(flags=5) + np.array([0, np.nan], "<f8").tobytes() + bytes(24),
    "a start that is not finite": head(flags=3, t0=np.nan) + bytes(24),
    "milliseconds since 1970": head(flags=3, t0=1.8e12) + bytes(24),
    "invalid JSON": "{",
    "an array": "[]",
    "a number": "1e999",
    "no type": "{}",
    "an unknown type": '{"type":"drop","wearer":"anna"}',
    "deep JSON": "[" * 20_000,
    "deep objects": '{"type":' * 5_000,
    "a type that is a number": '{"type":7}',
    "an unknown field": '{"type":"samples","wearer":"anna","values":[[0,0,0]],"label":1}',
    "text for numbers": '{"type":"samples","wearer":"anna","values":[["0","0","0"]]}',
    "booleans for numbers": '{"type":"samples","wearer":"anna","values":[[true,false,true]]}',
    "NaN": '{"type":"samples","wearer":"anna","values":[[NaN,0,0]]}',
    "Infinity": '{"type":"samples","wearer":"anna","values":[[Infinity,0,0]]}',
    "null": '{"type":"samples","wearer":"anna","values":null}',
    "a fractional chunk number": '{"type":"samples","wearer":"anna","seq":1.5,"values":[[0,0,0]]}',
    "a wearer in other letters": '{"type":"samples","wearer":"\\u0430nna","values":[[0,0,0]]}',
    "lone surrogates": '{"type":"samples","wearer":"\\ud800","values":[[0,0,0]]}',
    "a wearer with a zero byte": '{"type":"samples","wearer":"a\\u0000","values":[[0,0,0]]}',
    "no wearer": '{"type":"samples","values":[[0,0,0]]}',
}
#: Messages that can be read but are refused; the socket stays open.
REFUSED = {
    "ragged rows": {"values": [[0, 0, 0], [0]]},
    "empty rows": {"values": [[]]},
    "too few channels": {"values": [[0, 0]]},
    "too many samples": {"values": [[0, 0, 0]] * 501},
    "too many times": {"values": [[0, 0, 0]], "time_s": [0, 1]},
    "a time out of range": {"values": [[0, 0, 0]], "time_s": [1e300]},
    "a value beyond float32": {"values": [[1e300, 0, 0]]},
    "a skipped chunk": {"values": [[0, 0, 0]], "seq": 2**50},
    "an unknown wearer": {"values": [[0, 0, 0]], "wearer": "absent"},
}


class OtherWearer:
    """A wearer that sends valid chunks in between; its events must equal those of a session without a service."""

    def __init__(self, client, name):
        self.client, self.name, self.values, self.events, self.number = client, name, make_stream(3, 100), [], 0
        put_wearers(client, name)

    def send_next(self):
        part = self.values[self.number * 20 : self.number * 20 + 20]
        self.number += 1
        self.events += post(self.client, self.name, part, seq=self.number)["events"]

    def check(self):
        assert self.number
        assert equal_events(self.events, uninterrupted(TOY, self.values[: self.number * 20], "keel"))


def send(socket, message):
    (socket.send_bytes if isinstance(message, bytes) else socket.send_text)(message)


def test_unreadable_messages_close_their_socket_only(client):
    other = OtherWearer(client, "other-1")
    before = client.get("/v1/wearers/anna").json()
    for number, (name, message) in enumerate(UNREADABLE.items()):
        with client.websocket_connect("/v1/ingest") as socket:
            send(socket, message)
            end = read_until_closed(socket)
            assert end.code == 1007, name
            assert end.reason, name
        if number % 4 == 0:
            other.send_next()
    other.check()
    assert client.get("/v1/wearers/anna").json() == before


def test_refused_chunks_get_an_error_and_the_socket_stays_open(client):
    other = OtherWearer(client, "other-2")
    before = client.get("/v1/wearers/anna").json()
    with client.websocket_connect("/v1/ingest") as socket:
        for name, fields in REFUSED.items():
            socket.send_json({"type": "samples", "wearer": "anna", "seq": 1, **fields})
            message = socket.receive_json()
            assert message["type"] == "error", name
            assert message["error"].endswith("."), name
            other.send_next()
        socket.send_json({"type": "auth", "token": "not needed here"})
        socket.send_bytes(pack([Chunk("other-2", 1, other.values[:20])]))
        assert socket.receive_json()["duplicate"]
    other.check()
    assert client.get("/v1/wearers/anna").json() == before


def test_the_watch_socket_accepts_its_own_messages_only(client):
    for message in (
        b"\x00",
        '{"type":"samples","wearer":"anna","values":[[0,0,0]]}',
        '{"type":"watch"}',
        "{",
        "[" * 9000,
    ):
        with client.websocket_connect("/v1/watch") as socket:
            send(socket, message)
            assert read_until_closed(socket).code == (1003 if isinstance(message, bytes) else 1007)


@given(
    st.one_of(st.binary(max_size=200), st.binary(max_size=120).map(lambda tail: head() + tail), st.text(max_size=80))
)
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_random_messages_are_refused_or_acknowledged(client, message):
    with client.websocket_connect("/v1/ingest") as socket:
        send(socket, message)
        send(socket, "end")
        end = read_until_closed(socket)
        assert end.code == 1007
        assert len(end.reason.encode()) <= 123
    assert client.get("/healthz").json() == {"status": "ok"}


def test_a_message_that_is_too_large_closes_its_socket(network_client):
    address = f"ws://127.0.0.1:{network_client.base_url.port}/v1/ingest"
    headers = {"authorization": network_client.headers["authorization"]}

    async def attempt(message):
        async with websockets.connect(address, additional_headers=headers) as socket:
            await socket.send(message)
            try:
                return await socket.recv()
            except websockets.ConnectionClosed as end:
                return end.rcvd.code

    size = LIMITS.message_bytes
    assert [asyncio.run(attempt(text * (size + 1))) for text in (b"x", "x")] == [1009, 1009]
    assert asyncio.run(attempt("x" * size)) == 1007
    assert network_client.get("/healthz").json() == {"status": "ok"}


# --- stored data ----------------------------------------------------------------------------------------------------

#: Table, column and change; tests/apps/serve/session_manager/test_failures.py covers every combination.
DAMAGED = {
    "truncated state": ("state_1", "state", lambda blob: blob[: len(blob) // 2]),
    "one bit of a state flipped": ("state_1", "state", lambda blob: blob[:-5] + bytes([blob[-5] ^ 4]) + blob[-4:]),
    "empty samples": ("inputs_1", "samples", lambda _: b""),
    "first byte of samples flipped": ("inputs_1", "samples", lambda blob: blob[:9] + bytes([blob[9] ^ 1]) + blob[10:]),
    "configuration of another version": ("wearers", "config", lambda blob: bytes([99]) + blob[1:]),
    "noise as configuration": ("wearers", "config", lambda blob: np.random.default_rng(0).bytes(len(blob))),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_data_are_reported_and_affect_their_wearer_only(tmp_path, name):
    stream = make_stream(5, 30)
    with running(tmp_path) as client:
        put_wearers(client, "anna", "bela")
        for wearer in ("anna", "bela"):
            post(client, wearer, stream[:55], seq=1)
        client.service.manager.close = client.service.manager.store.close  # like a kill: sessions are not saved
    damage(tmp_path / "store.sqlite", *DAMAGED[name])
    with running(tmp_path) as client:
        for response in (
            client.get("/v1/wearers/anna"),
            client.post("/v1/wearers/anna/samples", json={"seq": 2, "values": [[0, 0, 0]]}),
        ):
            assert response.status_code == 409, response.text
            assert "anna" in response.json()["error"]
            assert response.json()["error"].endswith(".")
        with client.websocket_connect("/v1/watch") as socket:
            socket.send_json({"type": "watch", "wearer": "anna"})
            assert socket.receive_json()["type"] == "error"
        assert equal_events(post(client, "bela", stream[55:], seq=2)["events"], uninterrupted(TOY, stream, "keel")[4:])
        assert client.get("/v1/wearers").status_code == 200
        assert client.delete("/v1/wearers/anna").status_code == 204
        put_wearers(client, "anna")
        assert equal_events(post(client, "anna", stream)["events"], uninterrupted(TOY, stream, "keel"))


def damage(path, table, column, change):
    where = "id = 1" if table == "wearers" else "TRUE"
    with sqlite3.connect(path) as db:
        rows = db.execute(f"SELECT rowid, {column} FROM {table} WHERE {where}").fetchall()
        assert rows
        for number, blob in rows:
            db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (change(blob), number))
    db.close()
