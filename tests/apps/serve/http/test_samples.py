"""Samples over HTTP and WebSockets: events equal those of a session without a service, however chunks are sent."""

from __future__ import annotations

import io
import json
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sight.apps.serve.chunks import Chunk
from sight.apps.serve.message_format import pack
from sight.apps.serve.wearer_archive import ArchiveWriter
from tests.apps.serve.http.http_helpers import TOY, expected
from tests.helpers.services import BINARY, equal_events, post, put_wearers
from tests.helpers.sessions import RATE_HZ, make_stream, split_randomly


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
