"""Limits: messages, chunks, wearers and the queue are bounded, and what exceeds them is refused with a reason."""

from __future__ import annotations

import json
import threading
import time

import pytest
from pydantic import TypeAdapter, ValidationError

from sight.apps.serve import message_format, schemas
from sight.apps.serve.chunks import Chunk
from sight.apps.serve.errors import Refused
from sight.apps.serve.limits import Limits, RateLimiter
from sight.apps.serve.message_format import pack, parse
from tests.helpers.services import BINARY, post, put_wearers, read_until, read_until_closed, running
from tests.helpers.sessions import make_stream


def test_limits_are_reported(tmp_path):
    limits = Limits(message_bytes=4000, samples=100, chunks_per_s=0.5, wearers=2)
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


def test_reading_a_wearer_is_limited_for_each_token(tmp_path):
    """A request about a wearer may load it into memory, and another one out of it."""
    with running(tmp_path, limits=Limits(requests_per_s=1.0)) as client:  # ten at once
        put_wearers(client, "anna")
        statuses = [client.get("/v1/wearers/anna").status_code for _ in range(12)]
        assert statuses.count(200) in (9, 10)
        refused = client.get("/v1/wearers/anna/events")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "1 requests per second of one token" in refused.json()["error"]
        assert post(client, "anna", make_stream(1, 1))["seq"] == 1  # samples have a limit of their own
        assert client.get("/healthz").status_code == 200
        client.service.request_rate = RateLimiter(5.0, burst_s=0.1)
        with client.websocket_connect("/v1/watch") as socket:
            start = time.monotonic()
            for _ in range(4):  # the first at once
                socket.send_json({"type": "watch", "wearer": "anna"})
                read_until(socket, "hello")
            assert time.monotonic() - start > 0.5


def test_the_rate_is_checked_before_a_wearer_is_loaded(tmp_path, monkeypatch):
    with running(tmp_path, limits=Limits(chunks_per_s=0.1)) as client:  # one at once
        put_wearers(client, "anna")
        loaded = []
        real = client.service.manager.info
        monkeypatch.setattr(client.service.manager, "info", lambda *given, **_: loaded.append(given) or real(*given))
        statuses = [
            client.post("/v1/wearers/anna/samples", content=bytes(12), headers=BINARY).status_code for _ in range(5)
        ]
        assert statuses == [200, 429, 429, 429, 429]
        assert len(loaded) == 1


@pytest.mark.parametrize("path", ["samples", "create", "socket"])
def test_a_body_of_many_lists_is_refused_before_it_is_parsed(tmp_path, monkeypatch, path):
    """Parsing 250,000 lists takes most of a second, in which nothing else is done."""
    parsed = []
    monkeypatch.setattr(message_format, "from_json", lambda *given, **_: parsed.append(given))
    body = '{"type": "samples", "wearer": "anna", "values": [' + ",".join(["[1]"] * 250_000) + "]}"
    with running(tmp_path) as client:
        if path == "socket":
            with client.websocket_connect("/v1/ingest") as socket:
                socket.send_text(body)
                assert "20000 samples" in read_until_closed(socket).reason
        else:
            urls = {"samples": ("POST", "/v1/wearers/anna/samples"), "create": ("PUT", "/v1/wearers/anna")}
            response = client.request(*urls[path], content=body, headers={"content-type": "application/json"})
            assert response.status_code == 413
        assert not parsed


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
        parse(adapter, json.dumps(body), Limits(samples=10**6))
    assert sum(counts) <= 2


class Blocked:
    """Blocks the session manager until `go` is set."""

    def __init__(self, client):
        self.go = threading.Event()
        real = client.service.manager.ingest
        client.service.manager.ingest = lambda chunks: (self.go.wait(30), real(chunks))[1]


def test_a_socket_is_read_no_faster_than_its_limit(tmp_path):
    with running(tmp_path, limits=Limits(connection_chunks_per_s=20.0)) as client:  # twenty at once
        put_wearers(client, "anna")
        with client.websocket_connect("/v1/ingest") as socket:
            start = time.monotonic()
            socket.send_bytes(pack([Chunk("anna", number, make_stream(1, 1)) for number in range(1, 41)]))
            assert [socket.receive_json()["seq"] for _ in range(40)] == list(range(1, 41))
            assert time.monotonic() - start > 0.9


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
