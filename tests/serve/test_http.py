"""The service as its clients meet it: answers are those of a session alone, whatever the road they came by."""

from __future__ import annotations

import io
import json
import re
import threading
import time
import zipfile

import numpy as np
import pytest

from sight.serve import static_files
from sight.serve.chunk_format import Arrival, pack
from sight.serve.limits import Limits
from sight.serve.monitoring import JsonLines
from tests.helpers.keeping import RATE_HZ, alone, pieces, toy_model, walk
from tests.helpers.serving import agrees, closed, enrol, post, running

TOY = toy_model("toy", "1")


@pytest.fixture
def client(tmp_path):
    with running(tmp_path) as client:
        yield client


def expected(values, time_s=None, name="keel"):
    return alone(TOY, values, name, time_s)


# --- samples --------------------------------------------------------------------------------------------------------


def test_json_and_binary_chunks_give_the_answers_of_a_session(client):
    values = walk(1, 60)
    enrol(client, "json", "binary")
    told, other = [], []
    for number, piece in enumerate(pieces(values, np.random.default_rng(0)), start=1):
        told += post(client, "json", piece, seq=number)["events"]
        answer = client.post(
            f"/v1/wearers/binary/samples?seq={number}",
            content=piece.astype("<f4").tobytes(),
            headers={"content-type": "application/octet-stream"},
        )
        other += answer.json()["events"]
    assert len(told) == 59
    assert agrees(told, expected(values))
    assert agrees(other, expected(values))
    classes = TOY.card.classes
    assert [one["label"] for one in told] == [classes[np.argmax(one["q"])] for one in told]
    assert [one["raw"] for one in told] == [classes[np.argmax(one["p"])] for one in told]
    assert all(0 < one["latency_ms"] < 60_000 for one in told)
    stored = client.get("/v1/wearers/json/events?after=9&limit=20").json()["events"]
    assert [one["window"] for one in stored] == list(range(10, 30))
    assert [{**one, "latency_ms": None} for one in told[10:30]] == stored


def test_times_are_each_given_or_follow_from_the_first(client):
    values = walk(2, 40)
    enrol(client, "each", "first")
    times = [np.arange(200) / RATE_HZ + 1000, np.arange(200) / RATE_HZ + 1500]  # eight minutes away
    told, other = [], []
    for number, (piece, time_s) in enumerate(zip(np.split(values, 2), times, strict=True), start=1):
        told += post(client, "each", piece, seq=number, time_s=time_s.tolist())["events"]
        kind = {"content-type": "application/octet-stream"}
        path = f"/v1/wearers/first/samples?seq={number}&t0={time_s[0]}"
        other += client.post(path, content=piece.tobytes(), headers=kind).json()["events"]
    assert agrees(told, expected(values, np.concatenate(times)))
    assert agrees(other, expected(values, np.concatenate(times)))
    assert max(one["gap_s"] for one in told) > 400


def test_a_chunk_sent_twice_is_applied_once_and_one_left_out_is_asked_for(client):
    enrol(client, "anna")
    values = walk(3, 20)
    first = post(client, "anna", values[:100], seq=1)
    again = post(client, "anna", values[:100], seq=1)
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert [one["q"] for one in again["events"]] == [one["q"] for one in first["events"]]
    skipped = client.post("/v1/wearers/anna/samples", json={"seq": 5, "values": values[100:].tolist()})
    assert skipped.status_code == 409
    assert skipped.json()["expected"] == 2
    assert post(client, "anna", values[100:], seq=2)["seq"] == 2
    assert client.get("/v1/wearers/anna").json()["count"] == 19


def test_a_socket_carries_many_wearers_in_json_and_binary(client):
    wearers = [f"w{i}" for i in range(6)]
    enrol(client, *wearers)
    streams = {name: walk(10 + i, 30) for i, name in enumerate(wearers)}
    told = {name: [] for name in wearers}
    with client.websocket_connect("/v1/ingest") as socket:
        for number in range(6):
            parts = {name: values[number * 50 : number * 50 + 50] for name, values in streams.items()}
            socket.send_bytes(pack([Arrival(name, number + 1, part) for name, part in list(parts.items())[:5]]))
            socket.send_json({"type": "samples", "wearer": "w5", "seq": number + 1, "values": parts["w5"].tolist()})
            for _ in wearers:
                ack = socket.receive_json()
                assert (ack["type"], ack["seq"], ack["duplicate"]) == ("ack", number + 1, False)
                told[ack["wearer"]] += ack["events"]
    for name, values in streams.items():
        assert agrees(told[name], expected(values)), name
    assert client.service.metrics.batch._sum.get() == 36


def test_a_gateway_gets_its_acknowledgements_together(client):
    enrol(client, "a", "b")
    with client.websocket_connect("/v1/ingest?acks=joined") as socket:
        socket.send_bytes(pack([Arrival(name, 1, walk(1, 3)) for name in ("a", "b", "nobody")]))
        answers = []
        while len(answers) < 3:
            answers += socket.receive_json()["acks"]
    assert sorted((one["type"], one["wearer"]) for one in answers) == [("ack", "a"), ("ack", "b"), ("error", "nobody")]


def test_chunks_of_many_wearers_meet_in_one_call_of_the_encoder(client):
    wearers = [f"w{i}" for i in range(20)]
    enrol(client, *wearers)
    calls, real = [], client.service.keeper.ingest
    client.service.keeper.ingest = lambda chunks: calls.append(len(chunks)) or real(chunks)
    with client.websocket_connect("/v1/ingest") as socket:
        socket.send_bytes(pack([Arrival(name, 1, walk(1, 3)) for name in wearers]))
        assert sum(len(socket.receive_json()["events"]) for _ in wearers) == 2 * len(wearers)
    assert sum(calls) == 20
    assert len(calls) <= 3


def test_what_is_wrong_with_a_chunk_costs_that_chunk_alone(client):
    enrol(client, "good", "bad")
    values = walk(4, 10)
    with client.websocket_connect("/v1/ingest") as socket:
        for wearer, part in (("bad", values[:50, :2]), ("nobody", values[:50]), ("good", values[:50])):
            socket.send_json({"type": "samples", "wearer": wearer, "seq": 1, "values": part.tolist()})
        answers = {one["wearer"]: one for one in (socket.receive_json() for _ in range(3))}
        assert "3 channels" in answers["bad"]["error"]
        assert "no wearer 'nobody'" in answers["nobody"]["error"]
        assert answers["good"]["type"] == "ack"
        socket.send_bytes(pack([Arrival("bad", 1, values[:50])]))
        assert socket.receive_json()["type"] == "ack"


# --- limits ---------------------------------------------------------------------------------------------------------


def test_limits_are_told_in_a_sentence(tmp_path):
    limits = Limits(message_bytes=4000, samples=100, chunks_per_s=0.3, wearers=2)
    with running(tmp_path, limits=limits) as client:
        enrol(client, "a", "b")
        third = client.put("/v1/wearers/c")
        assert (third.status_code, "at most 2 wearers" in third.json()["error"]) == (409, True)
        large = client.post("/v1/wearers/a/samples", content=b"x" * 5000)
        assert (large.status_code, "4000 bytes" in large.json()["error"]) == (413, True)
        kind = {"content-type": "application/octet-stream"}
        long = client.post("/v1/wearers/a/samples", content=bytes(101 * 12), headers=kind)
        assert (long.status_code, "100 samples" in long.json()["error"]) == (413, True)
        late = {"values": [[0, 0, 0]], "time_s": [1.8e12]}
        assert "check the unit" in client.post("/v1/wearers/a/samples", json=late).json()["error"]
        for number in (1, 2, 3):
            post(client, "a", walk(1, 1), seq=number)
        fast = client.post("/v1/wearers/a/samples", json={"seq": 4, "values": [[0, 0, 0]]})
        assert (fast.status_code, fast.headers["retry-after"]) == (429, "1")
        assert post(client, "b", walk(1, 1))["seq"] == 1
        assert 'sight_refused_total{reason="rate"} 1.0' in client.get("/metrics").text


class Slow:
    """Holds the keeper until it is let go."""

    def __init__(self, client):
        self.go = threading.Event()
        real = client.service.keeper.ingest
        client.service.keeper.ingest = lambda chunks: (self.go.wait(30), real(chunks))[1]


def test_a_full_queue_tells_callers_to_come_back(tmp_path):
    with running(tmp_path, limits=Limits(queue=4)) as client:
        enrol(client, "anna")
        slow = Slow(client)
        with client.websocket_connect("/v1/ingest") as socket:
            for number in range(1, 200):
                socket.send_bytes(pack([Arrival("anna", number, walk(1, 1))]))
                if client.service.metrics.depth._value.get() >= 4:
                    break
                time.sleep(0.005)
            busy = client.post("/v1/wearers/anna/samples", json={"values": [[0, 0, 0]]})
            assert (busy.status_code, "busy" in busy.json()["error"]) == (503, True)
            socket.send_bytes(pack([Arrival("anna", 1000, walk(1, 1))] * 2))
            slow.go.set()
            assert closed(socket).code == 1013
        enrol(client, "bela")
        assert post(client, "bela", walk(1, 3))["seq"] == 1


# --- wearers --------------------------------------------------------------------------------------------------------


def test_models_stand_side_by_side_and_a_wearer_moves(client):
    told = client.get("/v1/models").json()
    assert told["default"] == "four@1"
    assert [f"{one['name']}@{one['version']}" for one in told["models"]] == ["four@1", "toy@1", "toy@2"]
    assert client.put("/v1/wearers/a").json()["model"] == "four@1"
    assert client.put("/v1/wearers/b", json={"model": "toy"}).json()["model"] == "toy@2"
    enrol(client, "c", method="sight", params={"tau": 0.1})
    assert client.put("/v1/wearers/c", json={"model": "toy@2"}).status_code == 409
    values = walk(5, 20)
    before = post(client, "c", values[:100])
    moved = client.post("/v1/wearers/c/move", json={"model": "toy@2"})
    assert moved.json()["model"] == "toy@2"
    assert moved.json()["count"] == len(before["events"])
    assert client.post("/v1/wearers/c/move", json={"model": "four"}).status_code == 409
    after = post(client, "c", values[100:])["events"]
    raw = alone(toy_model("toy", "2", seed=1), values, "none")
    assert [one["p"] for one in after] == [one.p.tolist() for one in raw[len(before["events"]) :]]
    wrong = client.put("/v1/wearers/d", json={"method": "sigth"})
    assert (wrong.status_code, "sight" in wrong.json()["error"]) == (422, True)
    wrong = client.put("/v1/wearers/d", json={"rate": 10})
    assert wrong.json()["error"] == (
        "Expected JSON as /openapi.json tells it; rate: there is no such field; "
        "known are model, method, params, rate_hz."
    )


def test_a_wearer_is_read_exported_reset_and_deleted(client):
    enrol(client, "anna", "bela")
    values = walk(6, 30)
    post(client, "anna", values)
    post(client, "bela", values)
    told = client.get("/v1/wearers/anna").json()
    assert (told["count"], told["seq"], told["time_s"]) == (29, 1, 29.9)
    assert sum(told["picture"]["time_use_s"]) == 29
    assert np.isclose(sum(told["picture"]["habit"]), 1)
    archive = client.get("/v1/wearers/anna/export")
    assert archive.headers["content-type"] == "application/zip"
    assert zipfile.ZipFile(io.BytesIO(archive.content)).testzip() is None
    assert client.post("/v1/wearers/anna/reset").json()["count"] == 0
    assert agrees(post(client, "anna", values, seq=2)["events"], expected(values))
    assert client.delete("/v1/wearers/anna").status_code == 204
    assert {client.get("/v1/wearers/anna").status_code, client.delete("/v1/wearers/anna").status_code} == {404}
    assert [one["wearer"] for one in client.get("/v1/wearers").json()["wearers"]] == ["bela"]
    enrol(client, "anna")
    assert client.get("/v1/wearers/anna/events").json() == {"events": []}


def test_the_list_tells_what_each_did_last(tmp_path):
    values = walk(6, 30)
    with running(tmp_path) as client:
        enrol(client, "anna", "bela", "cleo")
        assert latest(client) == dict.fromkeys(("anna", "bela", "cleo"), (0, None, None))
        post(client, "anna", values[:150], seq=1)
        post(client, "bela", values[:15], seq=1)  # no window yet
        told = latest(client)
        label = TOY.card.classes[expected(values)[13].q.argmax()]
        assert told["anna"][:2] == (14, label)
        assert told["bela"][:2] == (0, None)
        assert told["cleo"] == (0, None, None)
        time.sleep(0.3)
        post(client, "bela", values[15:30], seq=2)
        post(client, "anna", values[:150], seq=1)  # was there before: nobody was heard
        again = latest(client)
        assert again["anna"][2] >= told["anna"][2] + 0.3
        assert again["anna"][2] >= again["bela"][2] + 0.29  # told to a millisecond
        assert again["bela"][:2] == (2, TOY.card.classes[expected(values)[1].q.argmax()])
        client.post("/v1/wearers/bela/reset")
        client.delete("/v1/wearers/cleo")
        assert {name: one[:2] for name, one in latest(client).items()} == {"anna": (14, label), "bela": (0, None)}
    with running(tmp_path) as client:  # another life: what they did is known, since when they are quiet is not
        assert latest(client) == {"anna": (14, label, None), "bela": (0, None, None)}


def latest(client):
    rows = client.get("/v1/wearers").json()["wearers"]
    assert [row["wearer"] for row in rows] == sorted(row["wearer"] for row in rows)
    return {row["wearer"]: (row["count"], row["label"], row["idle_s"]) for row in rows}


def test_a_long_list_is_read_once(tmp_path, monkeypatch):
    with running(tmp_path) as client:
        keeper = client.service.keeper
        for number in range(200):
            keeper.create(f"w{number:03d}", model="toy@1", method="none")
        assert len(latest(client)) == 200

        def asked(*_):
            raise AssertionError("the store was asked again")

        for name in ("wearers", "newest", "load"):
            monkeypatch.setattr(keeper.store, name, asked)
        post(client, "w007", walk(6, 3))
        assert latest(client)["w007"][0] == 2


# --- operating ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/wearers", "/v1/wearers/anna", "/v1/wearers/anna/events", "/metrics"])
def test_what_nobody_foresaw_is_a_plain_error_with_the_headers_of_all(client, monkeypatch, caplog, path):
    enrol(client, "anna")
    assert client.get(path).status_code == 200

    async def failing(*_):
        raise ZeroDivisionError("0.123456 is part of a sample")

    monkeypatch.setattr(client.service.batcher, "call", failing)
    answer = client.get(path)
    assert (answer.status_code, list(answer.json())) == (500, ["error"])
    assert answer.json()["error"] == "Something went wrong in the service; its log tells what."
    assert static_files.HEADERS.items() <= dict(answer.headers).items()
    assert answer.headers["cache-control"] == "no-store"
    (record,) = (one for one in caplog.records if one.message == "request failed")
    assert (record.request, record.path) == (answer.headers["x-request-id"], path)
    line = JsonLines().format(record)
    assert json.loads(line)["exception"] == "builtins.ZeroDivisionError"
    assert "failing" in json.loads(line)["at"][-1]
    assert "0.123456" not in line
    monkeypatch.undo()
    assert client.get(path).status_code == 200


def test_a_store_that_fails_is_logged_once_and_told(client, caplog):
    enrol(client, "anna")
    client.service.keeper.store._base.execute("PRAGMA max_page_count = 1")  # as small as it is: the disk is full
    values = walk(6, 3).repeat(200, axis=0).tolist()
    answer = client.post("/v1/wearers/anna/samples", json={"values": values})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "look at its disk" in answer.json()["error"]
    with client.websocket_connect("/v1/ingest") as socket:
        socket.send_json({"type": "samples", "wearer": "anna", "seq": 1, "values": values})
        assert "look at its disk" in socket.receive_json()["error"]
    posted, sent = (record for record in caplog.records if record.message == "store failed")
    assert (posted.path, sent.wearer) == ("/v1/wearers/anna/samples", "anna")
    line = json.loads(JsonLines().format(posted))
    assert (line["level"], line["exception"]) == ("error", "sqlite3.OperationalError")
    assert "sqlite_store.py" in line["at"][-1]


def test_a_listener_that_fails_costs_nobody_an_answer(client, caplog):
    enrol(client, "anna")

    def failing(*_):
        raise ZeroDivisionError

    client.service.batcher.listeners.append(failing)
    for seq in (1, 2):
        assert post(client, "anna", walk(6, 3), seq=seq)["seq"] == seq
    assert [record.message for record in caplog.records].count("listener failed") == 2


def test_metrics_and_health_tell_how_the_service_is(client, caplog):
    enrol(client, "anna")
    with caplog.at_level("INFO", logger="sight.serve"):
        post(client, "anna", np.full((40, 3), 0.123456), seq=1)
        post(client, "anna", np.full((40, 3), 0.123456), seq=1)
        client.delete("/v1/wearers/anna")
    told = client.get("/metrics").text
    for line in (
        'sight_chunks_total{duplicate="false"} 1.0',
        'sight_chunks_total{duplicate="true"} 1.0',
        "sight_windows_total 3.0",
        "sight_latency_seconds_count 2.0",
        "sight_queue_chunks 0.0",
        "sight_resident_sessions 0.0",
    ):
        assert line in told, line
    assert float(re.search(r"^sight_store_seconds (\S+)", told, re.M)[1]) > 0
    assert client.get("/healthz").json() == client.get("/readyz").json() == {"status": "ok"}
    assert any(record.message == "deleted" and record.wearer == "anna" for record in caplog.records)
    assert "0.1234" not in caplog.text
    client.service.ready = False
    assert client.get("/readyz").status_code == 503
    client.service.ready = True


def test_pages_come_from_a_fixed_list_with_strict_headers(client):
    for path in ("/", "/device"):
        page = client.get(path)
        assert page.status_code == 200
        assert "text/html" in page.headers["content-type"]
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert client.get(path, headers={"if-none-match": page.headers["etag"]}).status_code == 304
    names = static_files.manifest()
    assert {"index.html", "device.html"} < set(names)
    for name, file in names.items():
        answer = client.get(f"/static/{name}", headers={"accept-encoding": "identity"})
        assert (answer.status_code, "content-encoding" in answer.headers) == (200, False), name
        assert len(answer.content) >= len(file.content)
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/", "/docs"):
        missing = client.get(path)
        assert (missing.status_code, list(missing.json())) == (404, ["error"])
