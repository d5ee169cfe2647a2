"""Wearers over HTTP: created, moved between models, listed, exported, reset and deleted."""

from __future__ import annotations

import io
import time
import zipfile

import numpy as np

from tests.apps.serve.http.http_helpers import TOY, expected
from tests.helpers.services import equal_events, post, put_wearers, running
from tests.helpers.sessions import make_stream, toy_model, uninterrupted


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
