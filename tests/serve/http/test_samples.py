"""The HTTP and WebSocket API: events equal those of a session without a service, however chunks are sent."""

from __future__ import annotations

import io
import json
import re
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from sight.methods import _compiled_adapter
from sight.methods._backend import choose
from sight.serve import schemas, static_files
from sight.serve.chunks import Chunk
from sight.serve.errors import INTERNAL, Refused
from sight.serve.limits import WEARER_RULE, Limits
from sight.serve.message_format import pack, parse
from sight.serve.metrics_and_logs import JsonLines
from sight.serve.wearer_archive import ArchiveWriter
from tests.helpers.services import BINARY, equal_events, post, put_wearers, read_until_closed, running
from tests.helpers.sessions import RATE_HZ, make_stream, split_randomly, toy_model, uninterrupted

TOY = toy_model("toy", "1")


@pytest.fixture
def client(tmp_path):
    with running(tmp_path) as client:
        yield client


def expected(values, time_s=None, name="keel"):
    return uninterrupted(TOY, values, name, time_s)


# --- samples --------------------------------------------------------------------------------------------------------


def test_json_and_binary_chunks_give_the_events_of_a_session(client):
    values = make_stream(1, 60)
    put_wearers(client, "json", "binary")
    from_json, from_binary = [], []
    for number, part in enumerate(split_randomly(values, np.random.default_rng(0)), start=1):
        from_json += post(client, "json", part, seq=number)["events"]
        path = f"/v1/wearers/binary/samples?seq={number}"
        response = client.post(path, content=part.astype("<f4").tobytes(), headers=BINARY)
        from_binary += response.json()["events"]
    assert len(from_json) == 59
    assert equal_events(from_json, expected(values))
    assert equal_events(from_binary, expected(values))
    wrong = client.post("/v1/wearers/binary/samples?times=true", content=bytes(12), headers=BINARY)
    assert wrong.status_code == 422
    assert "20 bytes for each sample, got 12 bytes" in wrong.json()["error"]
    classes = TOY.card.classes
    assert [event["label"] for event in from_json] == [classes[np.argmax(event["q"])] for event in from_json]
    assert [event["raw"] for event in from_json] == [classes[np.argmax(event["p"])] for event in from_json]
    assert all(0 < event["latency_ms"] < 60_000 for event in from_json)
    stored = client.get("/v1/wearers/json/events?after=9&limit=20").json()["events"]
    assert [event["window"] for event in stored] == list(range(10, 30))
    assert [{**event, "latency_ms": None} for event in from_json[10:30]] == stored


def test_a_chunk_has_all_times_or_the_first(client):
    values = make_stream(2, 40)
    put_wearers(client, "each", "first")
    times = [np.arange(200) / RATE_HZ + 1000, np.arange(200) / RATE_HZ + 1500]  # eight minutes away
    each, first = [], []
    for number, (part, time_s) in enumerate(zip(np.split(values, 2), times, strict=True), start=1):
        each += post(client, "each", part, seq=number, time_s=time_s.tolist())["events"]
        path = f"/v1/wearers/first/samples?seq={number}&t0={time_s[0]}"
        first += client.post(path, content=part.tobytes(), headers=BINARY).json()["events"]
    assert equal_events(each, expected(values, np.concatenate(times)))
    assert equal_events(first, expected(values, np.concatenate(times)))
    assert max(event["gap_s"] for event in each) > 400


def test_a_chunk_sent_twice_is_applied_once_and_a_skipped_one_is_named(client):
    put_wearers(client, "anna")
    values = make_stream(3, 20)
    first = post(client, "anna", values[:100], seq=1)
    again = post(client, "anna", values[:100], seq=1)
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert [event["q"] for event in again["events"]] == [event["q"] for event in first["events"]]
    skipped = client.post("/v1/wearers/anna/samples", json={"seq": 5, "values": values[100:].tolist()})
    assert skipped.status_code == 409
    assert skipped.json()["expected"] == 2
    assert post(client, "anna", values[100:], seq=2)["seq"] == 2
    assert client.get("/v1/wearers/anna").json()["count"] == 19


def test_a_rebooted_sensor_gets_an_error_and_starts_a_new_sequence(client):
    put_wearers(client, "anna")
    values = make_stream(3, 20)
    post(client, "anna", values[:100], seq=1)
    post(client, "anna", values[100:150], seq=2)
    reused = client.post("/v1/wearers/anna/samples", json={"seq": 1, "values": values[150:].tolist()})
    assert (reused.status_code, reused.json()["expected"]) == (409, 3)
    assert "/v1/wearers/anna/sequence" in reused.json()["error"]
    with client.websocket_connect("/v1/ingest") as socket:
        socket.send_bytes(pack([Chunk("anna", 1, values[150:])]))
        message = socket.receive_json()
        assert (message["type"], message["expected"]) == ("error", 3)
    assert client.post("/v1/wearers/anna/sequence").json()["seq"] == 0
    assert post(client, "anna", values[150:], seq=1)["seq"] == 1
    assert equal_events(client.get("/v1/wearers/anna/events").json()["events"], expected(values))


def test_dropped_samples_are_reported(client):
    put_wearers(client, "anna")
    values, time_s = make_stream(3, 4), np.arange(40) / 10
    time_s[20:25] = 0.5
    assert post(client, "anna", values, seq=1, time_s=time_s.tolist())["dropped"] == 5
    assert post(client, "anna", values, seq=1, time_s=time_s.tolist())["dropped"] is None
    info = client.get("/v1/wearers/anna").json()
    assert (info["samples"], info["dropped"]) == (35, 5)
    assert "sight_samples_dropped_total 5.0" in client.get("/metrics").text


def test_a_socket_carries_many_wearers_in_json_and_binary(client):
    wearers = [f"w{i}" for i in range(6)]
    put_wearers(client, *wearers)
    streams = {name: make_stream(10 + i, 30) for i, name in enumerate(wearers)}
    events = {name: [] for name in wearers}
    with client.websocket_connect("/v1/ingest") as socket:
        for number in range(6):
            parts = {name: values[number * 50 : number * 50 + 50] for name, values in streams.items()}
            socket.send_bytes(pack([Chunk(name, number + 1, part) for name, part in list(parts.items())[:5]]))
            socket.send_json({"type": "samples", "wearer": "w5", "seq": number + 1, "values": parts["w5"].tolist()})
            for _ in wearers:
                ack = socket.receive_json()
                assert (ack["type"], ack["seq"], ack["duplicate"]) == ("ack", number + 1, False)
                events[ack["wearer"]] += ack["events"]
    for name, values in streams.items():
        assert equal_events(events[name], expected(values)), name
    assert client.service.metrics.batch._sum.get() == 36


def test_acknowledgements_can_be_joined(client):
    put_wearers(client, "a", "b")
    with client.websocket_connect("/v1/ingest?acks=joined") as socket:
        socket.send_bytes(pack([Chunk(name, 1, make_stream(1, 3)) for name in ("a", "b", "absent")]))
        acks = []
        while len(acks) < 3:
            acks += socket.receive_json()["acks"]
    assert sorted((ack["type"], ack["wearer"]) for ack in acks) == [("ack", "a"), ("ack", "b"), ("error", "absent")]


def test_chunks_of_many_wearers_are_processed_together(client):
    wearers = [f"w{i}" for i in range(20)]
    put_wearers(client, *wearers)
    calls, real = [], client.service.manager.ingest
    client.service.manager.ingest = lambda chunks: calls.append(len(chunks)) or real(chunks)
    with client.websocket_connect("/v1/ingest") as socket:
        socket.send_bytes(pack([Chunk(name, 1, make_stream(1, 3)) for name in wearers]))
        assert sum(len(socket.receive_json()["events"]) for _ in wearers) == 2 * len(wearers)
    assert sum(calls) == 20
    assert len(calls) <= 3


def test_a_bad_chunk_affects_no_other_chunk(client):
    put_wearers(client, "good", "bad")
    values = make_stream(4, 10)
    with client.websocket_connect("/v1/ingest") as socket:
        for wearer, part in (("bad", values[:50, :2]), ("absent", values[:50]), ("good", values[:50])):
            socket.send_json({"type": "samples", "wearer": wearer, "seq": 1, "values": part.tolist()})
        messages = {message["wearer"]: message for message in (socket.receive_json() for _ in range(3))}
        assert "3 channels" in messages["bad"]["error"]
        assert "no wearer 'absent'" in messages["absent"]["error"]
        assert messages["good"]["type"] == "ack"
        socket.send_bytes(pack([Chunk("bad", 1, values[:50])]))
        assert socket.receive_json()["type"] == "ack"


def test_stored_events_are_read_in_pages(client):
    put_wearers(client, "anna")
    values = make_stream(1, 1300)
    for number, part in enumerate(np.split(values, [5000, 5030, 5060]), start=1):
        post(client, "anna", part, seq=number)
    pages, after = [], -1
    while after is not None:
        page = client.get(f"/v1/wearers/anna/events?after={after}").json()
        pages.append(page["events"])
        after = page["next"]
    assert [len(page) for page in pages] == [1000, 299]
    assert equal_events([event for page in pages for event in page], expected(values))
    assert client.get("/v1/wearers/anna/events?limit=1001").status_code == 422
    archive = zipfile.ZipFile(io.BytesIO(client.get("/v1/wearers/anna/export").content))
    exported = [json.loads(line) for line in archive.read("events.jsonl").splitlines()]
    assert equal_events(exported, expected(values))


def test_chunks_are_processed_between_the_pages_of_an_export(client, monkeypatch):
    """The export of a wearer stops after its first page until a chunk of another wearer was acknowledged."""
    put_wearers(client, "anna", "bela")
    for _ in range(3):
        post(client, "anna", make_stream(1, 400))
    acknowledged, calls = threading.Event(), []
    real = ArchiveWriter.add

    def add(writer, events):
        calls.append(len(events))
        assert acknowledged.wait(30)
        return real(writer, events)

    monkeypatch.setattr(ArchiveWriter, "add", add)
    with ThreadPoolExecutor(1) as pool:
        export = pool.submit(client.get, "/v1/wearers/anna/export")
        while not calls:
            time.sleep(0.01)
        post(client, "bela", make_stream(1, 3))
        acknowledged.set()
        content = export.result(60).content
    assert len(zipfile.ZipFile(io.BytesIO(content)).read("events.jsonl").splitlines()) == sum(calls) == 1199
    assert max(calls) <= 1000


# --- limits ---------------------------------------------------------------------------------------------------------


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


# --- wearers --------------------------------------------------------------------------------------------------------


def test_several_models_are_served_and_a_wearer_moves(client):
    listed = client.get("/v1/models").json()
    assert listed["default"] == "four@1"
    assert [f"{model['name']}@{model['version']}" for model in listed["models"]] == ["four@1", "toy@1", "toy@2"]
    assert client.put("/v1/wearers/a").json()["model"] == "four@1"
    assert client.put("/v1/wearers/b", json={"model": "toy"}).json()["model"] == "toy@2"
    put_wearers(client, "c", method="sight", params={"tau": 0.1})
    assert client.put("/v1/wearers/c", json={"model": "toy@2"}).status_code == 409
    values = make_stream(5, 20)
    before = post(client, "c", values[:100])
    moved = client.post("/v1/wearers/c/move", json={"model": "toy@2"})
    assert moved.json()["model"] == "toy@2"
    assert moved.json()["count"] == len(before["events"])
    assert client.post("/v1/wearers/c/move", json={"model": "four"}).status_code == 409
    after = post(client, "c", values[100:])["events"]
    raw = uninterrupted(toy_model("toy", "2", seed=1), values, "none")
    assert [event["p"] for event in after] == [event.p.tolist() for event in raw[len(before["events"]) :]]
    wrong = client.put("/v1/wearers/d", json={"method": "sigth"})
    assert (wrong.status_code, "sight" in wrong.json()["error"]) == (422, True)
    wrong = client.put("/v1/wearers/d", json={"rate": 10})
    assert "rate: unknown field" in wrong.json()["error"]
    assert "model, method, params, rate_hz" in wrong.json()["error"]


def test_a_wearer_is_read_exported_reset_and_deleted(client):
    put_wearers(client, "anna", "bela")
    values = make_stream(6, 30)
    post(client, "anna", values)
    post(client, "bela", values)
    info = client.get("/v1/wearers/anna").json()
    assert (info["count"], info["seq"], info["time_s"]) == (29, 1, 29.9)
    assert sum(info["adaptation"]["time_use_s"]) == 29
    assert np.isclose(sum(info["adaptation"]["class_frequencies"]), 1)
    archive = client.get("/v1/wearers/anna/export")
    assert archive.headers["content-type"] == "application/zip"
    assert zipfile.ZipFile(io.BytesIO(archive.content)).testzip() is None
    assert client.post("/v1/wearers/anna/reset").json()["count"] == 0
    assert equal_events(post(client, "anna", values, seq=2)["events"], expected(values))
    assert client.delete("/v1/wearers/anna").status_code == 204
    assert {client.get("/v1/wearers/anna").status_code, client.delete("/v1/wearers/anna").status_code} == {404}
    assert list(latest(client)) == ["bela"]
    put_wearers(client, "anna")
    assert client.get("/v1/wearers/anna/events").json() == {"events": [], "next": None}


def test_the_list_has_the_latest_prediction_of_each_wearer(tmp_path):
    values = make_stream(6, 30)
    with running(tmp_path) as client:
        put_wearers(client, "anna", "bela", "cleo")
        assert latest(client) == dict.fromkeys(("anna", "bela", "cleo"), (0, None, None))
        post(client, "anna", values[:150], seq=1)
        post(client, "bela", values[:15], seq=1)  # no window yet
        listed = latest(client)
        label = TOY.card.classes[expected(values)[13].q.argmax()]
        assert listed["anna"][:2] == (14, label)
        assert listed["bela"][:2] == (0, None)
        assert listed["cleo"] == (0, None, None)
        time.sleep(0.3)
        post(client, "bela", values[15:30], seq=2)
        post(client, "anna", values[:150], seq=1)  # a duplicate, which does not count as activity
        again = latest(client)
        assert again["anna"][2] >= listed["anna"][2] + 0.3
        assert again["anna"][2] >= again["bela"][2] + 0.29  # rounded to a millisecond
        assert again["bela"][:2] == (2, TOY.card.classes[expected(values)[1].q.argmax()])
        client.post("/v1/wearers/bela/reset")
        client.delete("/v1/wearers/cleo")
        assert {name: row[:2] for name, row in latest(client).items()} == {"anna": (14, label), "bela": (0, None)}
    with running(tmp_path) as client:  # after a restart idle_s starts again
        assert latest(client) == {"anna": (14, label, None), "bela": (0, None, None)}


def latest(client):
    rows = client.get("/v1/wearers").json()["wearers"]
    assert [row["wearer"] for row in rows] == sorted(row["wearer"] for row in rows)
    return {row["wearer"]: (row["count"], row["label"], row["idle_s"]) for row in rows}


def test_a_long_list_is_read_from_the_store_once(tmp_path, monkeypatch):
    with running(tmp_path) as client:
        manager = client.service.manager
        for number in range(50):
            manager.create(f"w{number:03d}", model="toy@1", method="none")
        assert len(latest(client)) == 50

        def fail(*_):
            raise AssertionError("the store was read again")

        for name in ("wearers", "latest_events", "load"):
            monkeypatch.setattr(manager.store, name, fail)
        post(client, "w007", make_stream(6, 3))
        assert latest(client)["w007"][0] == 2


# --- operating ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/wearers", "/v1/wearers/anna", "/v1/wearers/anna/events", "/metrics"])
def test_an_internal_error_is_logged_and_has_the_usual_headers(client, monkeypatch, caplog, path):
    put_wearers(client, "anna")
    assert client.get(path).status_code == 200

    async def failing(*_, **__):
        raise ZeroDivisionError("0.123456 is part of a sample")

    monkeypatch.setattr(client.service.queue, "call", failing)
    response = client.get(path)
    assert (response.status_code, response.json()) == (500, {"error": INTERNAL})
    assert static_files.HEADERS.items() <= dict(response.headers).items()
    assert response.headers["cache-control"] == "no-store"
    (record,) = (record for record in caplog.records if record.message == "request failed")
    assert (record.request, record.path) == (response.headers["x-request-id"], path)
    line = JsonLines().format(record)
    assert json.loads(line)["exception"] == "builtins.ZeroDivisionError"
    assert "failing" in json.loads(line)["at"][-1]
    assert "0.123456" not in line
    monkeypatch.undo()
    assert client.get(path).status_code == 200


def test_a_store_that_fails_is_logged_once_and_reported(client, caplog):
    put_wearers(client, "anna")
    client.service.manager.store._db.execute("PRAGMA max_page_count = 1")  # like a full disk
    values = make_stream(6, 3).repeat(200, axis=0).tolist()
    response = client.post("/v1/wearers/anna/samples", json={"values": values})
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert "check the store" in response.json()["error"]
    with client.websocket_connect("/v1/ingest") as socket:
        socket.send_json({"type": "samples", "wearer": "anna", "seq": 1, "values": values})
        assert "check the store" in socket.receive_json()["error"]
    posted, sent = (record for record in caplog.records if record.message == "store failed")
    assert (posted.path, sent.wearer) == ("/v1/wearers/anna/samples", "anna")
    line = json.loads(JsonLines().format(posted))
    assert (line["level"], line["exception"]) == ("error", "sqlite3.OperationalError")
    assert "sqlite_store.py" in line["at"][-1]


def test_a_batch_that_fails_refuses_its_chunks_and_the_next_one_is_applied(client, caplog, monkeypatch):
    put_wearers(client, "anna")

    def failing(_):
        raise ZeroDivisionError

    body = {"seq": 1, "values": make_stream(6, 3).tolist()}
    with monkeypatch.context() as patch:
        patch.setattr(client.service.manager, "ingest", failing)
        response = client.post("/v1/wearers/anna/samples", json=body)
    assert (response.status_code, response.json()["error"]) == (500, INTERNAL)
    assert "batch failed" in [record.message for record in caplog.records]
    assert client.post("/v1/wearers/anna/samples", json=body).status_code == 200


def test_bodies_of_another_type_are_refused(client):
    put_wearers(client, "anna")
    header = {"content-type": "text/csv"}
    assert client.put("/v1/wearers/ben", content=b"1,2", headers=header).status_code == 415
    assert client.post("/v1/wearers/anna/samples?seq=1", content=b"1,2", headers=header).status_code == 415
    assert client.get("/v1/wearers/ben").status_code == 404


def test_a_service_that_stops_refuses_chunks(client):
    put_wearers(client, "anna")
    body = {"seq": 1, "values": make_stream(6, 3).tolist()}
    client.service.ready = False
    response = client.post("/v1/wearers/anna/samples", json=body)
    assert (response.status_code, client.get("/readyz").status_code) == (503, 503)
    client.service.ready = True
    assert client.post("/v1/wearers/anna/samples", json=body).json()["seq"] == 1


def test_a_failing_publication_delays_no_acknowledgement(client, caplog):
    put_wearers(client, "anna")

    def failing(*_):
        raise ZeroDivisionError

    client.service.queue.on_ack = failing
    for seq in (1, 2):
        assert post(client, "anna", make_stream(6, 3), seq=seq)["seq"] == seq
    assert [record.message for record in caplog.records].count("publication failed") == 2


def test_the_service_is_ready_once_its_kernels_are_compiled(tmp_path, monkeypatch):
    monkeypatch.delenv("SIGHT_KERNEL", raising=False)
    compiled = []
    monkeypatch.setattr(_compiled_adapter, "choose", lambda *given: compiled.append(given) or choose(*given))
    with running(tmp_path) as client:
        assert client.get("/readyz").status_code == 200
        at_start = len(compiled)
        assert at_start == len(list(client.service.manager.models))
        assert client.put("/v1/wearers/anna", json={"method": "sight"}).status_code == 200
        assert len(compiled) == at_start + 1  # before the session manager needs it


def test_creation_is_logged_once(client, caplog):
    with caplog.at_level("INFO", logger="sight.serve"):
        for _ in range(3):
            assert client.put("/v1/wearers/anna").status_code == 200
    assert [record.message for record in caplog.records].count("created") == 1


def test_an_invalid_name_of_a_wearer_is_explained(client):
    response = client.put(f"/v1/wearers/{'x' * 65}")
    assert (response.status_code, response.json()) == (422, {"error": WEARER_RULE})


def test_metrics_and_health(client, caplog):
    put_wearers(client, "anna")
    with caplog.at_level("INFO", logger="sight.serve"):
        post(client, "anna", np.full((40, 3), 0.123456), seq=1)
        post(client, "anna", np.full((40, 3), 0.123456), seq=1)
        client.delete("/v1/wearers/anna")
    text = client.get("/metrics").text
    for line in (
        'sight_chunks_total{duplicate="false"} 1.0',
        'sight_chunks_total{duplicate="true"} 1.0',
        "sight_windows_total 3.0",
        "sight_latency_seconds_count 2.0",
        "sight_queue_chunks 0.0",
        "sight_resident_sessions 0.0",
    ):
        assert line in text, line
    assert float(re.search(r"^sight_store_seconds (\S+)", text, re.M)[1]) > 0
    assert client.get("/healthz").json() == client.get("/readyz").json() == {"status": "ok"}
    assert any(record.message == "deleted" and record.wearer == "anna" for record in caplog.records)
    assert "0.1234" not in caplog.text
    client.service.ready = False
    assert client.get("/readyz").status_code == 503
    client.service.ready = True


def test_pages_are_served_from_a_fixed_list_with_strict_headers(client):
    for path in ("/", "/device"):
        page = client.get(path)
        assert page.status_code == 200
        assert "text/html" in page.headers["content-type"]
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert client.get(path, headers={"if-none-match": page.headers["etag"]}).status_code == 304
    files = static_files.read_files()
    assert {"index.html", "device.html"} < set(files)
    for name, file in files.items():
        response = client.get(f"/static/{name}", headers={"accept-encoding": "identity"})
        assert (response.status_code, "content-encoding" in response.headers) == (200, False), name
        assert len(response.content) >= len(file.content)
        packed = client.get(f"/static/{name}", headers={"accept-encoding": "gzip"})
        assert ("content-encoding" in packed.headers, packed.content) == (file.gzipped, response.content), name
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/", "/docs"):
        missing = client.get(path)
        assert (missing.status_code, list(missing.json())) == (404, ["error"])
