"""Whatever is thrown at it, the service says in one sentence what is wrong, stays up, and nobody else notices."""

from __future__ import annotations

import asyncio
import sqlite3
import struct

import numpy as np
import pytest
import schemathesis
import websockets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import max_response_time, positive_data_acceptance
from schemathesis.core.parameters import ParameterLocation

from sight.serve.chunk_format import MAGIC, Arrival, pack
from sight.serve.limits import Limits
from sight.serve.tokens import SCOPES, TokenBook
from tests.helpers.keeping import alone, toy_model, walk
from tests.helpers.serving import agrees, closed, enrol, listening, post, running

TOY = toy_model("toy", "1")
LIMITS = Limits(message_bytes=60_000, samples=500, wearers=200)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with running(tmp_path_factory.mktemp("fuzz"), limits=LIMITS) as client:
        enrol(client, "anna", "lab-07")
        yield client


@pytest.fixture(scope="module")
def wire(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wire")
    secret, _ = TokenBook(folder / "tokens.json").add(SCOPES)
    with listening(folder, LIMITS) as client:
        client.headers["authorization"] = f"Bearer {secret}"
        yield client


@pytest.mark.parametrize("mode", GenerationMode)
def test_every_route_keeps_what_its_description_promises(wire, mode):
    described = schemathesis.openapi.from_url(f"{wire.base_url}/openapi.json")
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) == 13
    for operation in operations:
        try:
            explore(wire, operation, mode)
        except Unsatisfiable:  # nothing about this route can be wrong
            assert mode == GenerationMode.NEGATIVE


def explore(wire, operation, mode):
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def check(case):
        if "{wearer}" in operation.path:
            enrol(wire, "lab-07")
        wrong = [place for place, made in case.meta.components.items() if made.mode != GenerationMode.POSITIVE]
        if ParameterLocation.HEADER not in wrong:
            case.headers = {**case.headers, "Authorization": wire.headers["authorization"]}
        response = case.call()
        # How many channels rows must have depends on the wearer's model, which no schema can say; and how long an
        # answer may take is measured where nothing else runs.
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


#: Messages that cannot be read: the socket is closed.
UNREADABLE = {
    "nothing": b"",
    "noise": bytes(range(256)),
    "magic alone": MAGIC,
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
    "a value like no other": head() + values(1, 2, 3, 4, 5, 1e30),
    "times that are none": head(flags=5) + np.array([0, np.nan], "<f8").tobytes() + bytes(24),
    "a start that is none": head(flags=3, t0=np.nan) + bytes(24),
    "milliseconds since 1970": head(flags=3, t0=1.8e12) + bytes(24),
    "no JSON": "{",
    "an array": "[]",
    "a number": "1e999",
    "no type": "{}",
    "an unknown type": '{"type":"drop","wearer":"anna"}',
    "deep JSON": "[" * 20_000,
    "deep objects": '{"type":' * 5_000,
    "a type that is no text": '{"type":7}',
    "an unknown field": '{"type":"samples","wearer":"anna","values":[[0,0,0]],"label":1}',
    "text for numbers": '{"type":"samples","wearer":"anna","values":[["0","0","0"]]}',
    "truth for numbers": '{"type":"samples","wearer":"anna","values":[[true,false,true]]}',
    "NaN": '{"type":"samples","wearer":"anna","values":[[NaN,0,0]]}',
    "Infinity": '{"type":"samples","wearer":"anna","values":[[Infinity,0,0]]}',
    "null": '{"type":"samples","wearer":"anna","values":null}',
    "half a chunk number": '{"type":"samples","wearer":"anna","seq":1.5,"values":[[0,0,0]]}',
    "a wearer in other letters": '{"type":"samples","wearer":"\\u0430nna","values":[[0,0,0]]}',
    "lone surrogates": '{"type":"samples","wearer":"\\ud800","values":[[0,0,0]]}',
    "a wearer with a zero byte": '{"type":"samples","wearer":"a\\u0000","values":[[0,0,0]]}',
    "no wearer": '{"type":"samples","values":[[0,0,0]]}',
}
#: Messages that can be read, and are refused with a sentence: the socket stays open.
REFUSED = {
    "ragged rows": {"values": [[0, 0, 0], [0]]},
    "empty rows": {"values": [[]]},
    "too few channels": {"values": [[0, 0]]},
    "too many samples": {"values": [[0, 0, 0]] * 501},
    "too many times": {"values": [[0, 0, 0]], "time_s": [0, 1]},
    "a time like no other": {"values": [[0, 0, 0]], "time_s": [1e300]},
    "a value beyond float32": {"values": [[1e300, 0, 0]]},
    "a chunk left out": {"values": [[0, 0, 0]], "seq": 2**50},
    "nobody": {"values": [[0, 0, 0]], "wearer": "nobody"},
}


class Undisturbed:
    """A wearer whose stream goes on between everything else, and is compared with a session alone at the end."""

    def __init__(self, client, name):
        self.client, self.name, self.values, self.told, self.number = client, name, walk(3, 100), [], 0
        enrol(client, name)

    def go_on(self):
        part = self.values[self.number * 20 : self.number * 20 + 20]
        self.number += 1
        self.told += post(self.client, self.name, part, seq=self.number)["events"]

    def check(self):
        assert self.number
        assert agrees(self.told, alone(TOY, self.values[: self.number * 20], "keel"))


def send(socket, message):
    (socket.send_bytes if isinstance(message, bytes) else socket.send_text)(message)


def test_messages_that_cannot_be_read_close_their_socket_alone(client):
    other = Undisturbed(client, "other-1")
    before = client.get("/v1/wearers/anna").json()
    for number, (name, message) in enumerate(UNREADABLE.items()):
        with client.websocket_connect("/v1/ingest") as socket:
            send(socket, message)
            end = closed(socket)
            assert end.code == 1007, name
            assert end.reason, name
        if number % 4 == 0:
            other.go_on()
    other.check()
    assert client.get("/v1/wearers/anna").json() == before


def test_chunks_that_are_wrong_get_a_sentence_and_the_socket_stays(client):
    other = Undisturbed(client, "other-2")
    before = client.get("/v1/wearers/anna").json()
    with client.websocket_connect("/v1/ingest") as socket:
        for name, fields in REFUSED.items():
            socket.send_json({"type": "samples", "wearer": "anna", "seq": 1, **fields})
            told = socket.receive_json()
            assert told["type"] == "error", name
            assert told["error"].endswith("."), name
            other.go_on()
        socket.send_json({"type": "auth", "token": "not needed here"})
        socket.send_bytes(pack([Arrival("other-2", 1, walk(1, 1))]))
        assert socket.receive_json()["duplicate"]
    other.check()
    assert client.get("/v1/wearers/anna").json() == before


def test_the_watching_socket_takes_its_own_messages_only(client):
    for message in (
        b"\x00",
        '{"type":"samples","wearer":"anna","values":[[0,0,0]]}',
        '{"type":"watch"}',
        "{",
        "[" * 9000,
    ):
        with client.websocket_connect("/v1/watch") as socket:
            send(socket, message)
            assert closed(socket).code == (1003 if isinstance(message, bytes) else 1007)


@given(
    st.one_of(st.binary(max_size=200), st.binary(max_size=120).map(lambda tail: head() + tail), st.text(max_size=80))
)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_random_messages_are_refused_or_acknowledged(client, message):
    with client.websocket_connect("/v1/ingest") as socket:
        send(socket, message)
        send(socket, "end")
        end = closed(socket)
        assert end.code == 1007
        assert len(end.reason.encode()) <= 123
    assert client.get("/healthz").json() == {"status": "ok"}


def test_a_message_that_is_too_large_ends_its_socket_on_the_wire(wire):
    place = f"ws://127.0.0.1:{wire.base_url.port}/v1/ingest"
    known = {"authorization": wire.headers["authorization"]}

    async def attempt(message):
        async with websockets.connect(place, additional_headers=known) as socket:
            await socket.send(message)
            try:
                return await socket.recv()
            except websockets.ConnectionClosed as end:
                return end.rcvd.code

    size = LIMITS.message_bytes
    assert [asyncio.run(attempt(text * (size + 1))) for text in (b"x", "x")] == [1009, 1009]
    assert asyncio.run(attempt("x" * size)) == 1007
    assert wire.get("/healthz").json() == {"status": "ok"}


# --- what is stored -------------------------------------------------------------------------------------------------

DAMAGE = {
    "truncated": lambda blob: blob[: len(blob) // 2],
    "empty": lambda _: b"",
    "one bit flipped": lambda blob: blob[:-5] + bytes([blob[-5] ^ 4]) + blob[-4:],
    "first byte of the content flipped": lambda blob: blob[:9] + bytes([blob[9] ^ 1]) + blob[10:],
    "another version": lambda blob: bytes([99]) + blob[1:],
    "noise": lambda blob: bytes(np.random.default_rng(0).integers(0, 256, len(blob), dtype=np.uint8)),
}


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize(("table", "column"), [("state_1", "state"), ("inputs_1", "samples"), ("wearers", "facts")])
def test_damage_to_one_wearers_store_is_told_and_touches_nobody_else(tmp_path, name, table, column):
    stream = walk(5, 30)
    with running(tmp_path) as client:
        enrol(client, "anna", "bela")
        for wearer in ("anna", "bela"):
            post(client, wearer, stream[:55], seq=1)
        client.service.keeper.resident = 10**9  # ends as a kill would: without saving anybody
        client.service.keeper.close = client.service.keeper.store.close
    damage(tmp_path / "store.sqlite", table, column, DAMAGE[name])
    with running(tmp_path) as client:
        for told in (
            client.get("/v1/wearers/anna"),
            client.post("/v1/wearers/anna/samples", json={"seq": 2, "values": [[0, 0, 0]]}),
        ):
            assert told.status_code == 409, told.text
            assert "anna" in told.json()["error"]
            assert told.json()["error"].endswith(".")
        with client.websocket_connect("/v1/watch") as socket:
            socket.send_json({"type": "watch", "wearer": "anna"})
            assert socket.receive_json()["type"] == "error"
        assert agrees(post(client, "bela", stream[55:], seq=2)["events"], alone(TOY, stream, "keel")[4:])
        assert client.get("/v1/wearers").status_code == 200
        assert client.delete("/v1/wearers/anna").status_code == 204
        enrol(client, "anna")
        assert agrees(post(client, "anna", stream)["events"], alone(TOY, stream, "keel"))


def damage(path, table, column, change):
    place = "id = 1" if table == "wearers" else "TRUE"
    with sqlite3.connect(path) as base:
        rows = base.execute(f"SELECT rowid, {column} FROM {table} WHERE {place}").fetchall()
        assert rows
        for number, blob in rows:
            base.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (change(blob), number))
    base.close()
