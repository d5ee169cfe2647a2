"""Limits: messages, chunks, wearers and the queue are bounded, and what exceeds them is refused with a reason."""

from __future__ import annotations

import json
import threading
import time

import pytest
from pydantic import TypeAdapter, ValidationError

from sight.apps.serve import schemas
from sight.apps.serve.chunks import Chunk
from sight.apps.serve.errors import Refused
from sight.apps.serve.limits import Limits
from sight.apps.serve.message_format import pack, parse
from tests.helpers.services import BINARY, post, put_wearers, read_until_closed, running
from tests.helpers.sessions import make_stream


def test_limits_are_reported(tmp_path):
    limits = Limits(message_bytes=4000, samples=100, chunks_per_s=0.3, wearers=2)
    with running(tmp_path, limits=limits) as client:
        put_wearers(client, "a", "b")
        third = client.put("/v1/wearers/c")
        assert (third.status_code, "at most 2 wearers" in third.json()["error"]) == (409, True)
        large = client.post("/v1/wearers/a/samples", content=b"x" * 5000)
        assert (large.status_code, "4000 bytes" in large.json()["error"]) == (413, True)
        long = client.post("/v1/wearers/a/samples", content=bytes(101 * 12), headers=BINARY)
        assert (long.status_code, "100 samples" in long.json()["error"]) == (413, True)
        late = {"values": [[0, 0, 0]], "time_s": [1.8e12]}
        assert "check the unit" in client.post("/v1/wearers/a/samples", json=late).json()["error"]
        for number in (1, 2, 3):
            post(client, "a", make_stream(1, 1), seq=number)
        fast = client.post("/v1/wearers/a/samples", json={"seq": 4, "values": [[0, 0, 0]]})
        assert (fast.status_code, fast.headers["retry-after"]) == (429, "1")
        assert post(client, "b", make_stream(1, 1))["seq"] == 1
        assert 'sight_refused_total{reason="rate"} 1.0' in client.get("/metrics").text


def test_a_message_has_a_limited_number_of_chunks(tmp_path):
    with running(tmp_path, limits=Limits(message_chunks=3)) as client:
        put_wearers(client, "anna")
        parts = [Chunk("anna", number, make_stream(number, 1)) for number in (1, 2, 3, 4)]
        with client.websocket_connect("/v1/ingest") as socket:
            socket.send_bytes(pack(parts))
            end = read_until_closed(socket)
            assert (end.code, "at most 3 chunks" in end.reason) == (1007, True)
        assert client.get("/v1/wearers/anna").json()["seq"] == 0
        with client.websocket_connect("/v1/ingest") as socket:
            socket.send_bytes(pack(parts[:3]))
            assert [socket.receive_json()["seq"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    "body",
    [
        {"values": [["x", "y", "z"]] * 50_000},
        {"values": [[0, 0, 0]], "time_s": ["x"] * 100_000},
        {"values": [[0, 0, 0]]} | {f"field{i}": 0 for i in range(50_000)},
        {"params": {f"param{i}": [0] for i in range(50_000)}},
    ],
)
def test_the_first_mistake_ends_the_validation(monkeypatch, body):
    """A request with many mistakes would otherwise take seconds."""
    counts = []

    def counting(name):
        real = getattr(TypeAdapter, name)

        def validate(adapter, content):
            try:
                return real(adapter, content)
            except ValidationError as error:
                counts.append(error.error_count())
                raise

        monkeypatch.setattr(TypeAdapter, name, validate)

    counting("validate_python")
    counting("validate_json")
    adapter = TypeAdapter(schemas.Create if "params" in body else schemas.Samples)
    with pytest.raises(Refused, match="Expected JSON"):
        parse(adapter, json.dumps(body))
    assert sum(counts) <= 2


class Blocked:
    """Blocks the session manager until `go` is set."""

    def __init__(self, client):
        self.go = threading.Event()
        real = client.service.manager.ingest
        client.service.manager.ingest = lambda chunks: (self.go.wait(30), real(chunks))[1]


def test_a_full_queue_refuses_chunks(tmp_path):
    with running(tmp_path, limits=Limits(queue=4)) as client:
        put_wearers(client, "anna")
        blocked = Blocked(client)
        with client.websocket_connect("/v1/ingest") as socket:
            for number in range(1, 200):
                socket.send_bytes(pack([Chunk("anna", number, make_stream(1, 1))]))
                if client.service.metrics.depth._value.get() >= 4:
                    break
                time.sleep(0.005)
            busy = client.post("/v1/wearers/anna/samples", json={"values": [[0, 0, 0]]})
            assert (busy.status_code, "busy" in busy.json()["error"]) == (503, True)
            socket.send_bytes(pack([Chunk("anna", 1000, make_stream(1, 1))] * 2))
            blocked.go.set()
            assert read_until_closed(socket).code == 1013
        put_wearers(client, "bela")
        assert post(client, "bela", make_stream(1, 3))["seq"] == 1
