"""Live views: history, then everything once, as much as a page can draw, and never at the cost of the others."""

from __future__ import annotations

import asyncio
import json
import threading

import numpy as np
import pytest

from sight.serve.demo import Replay
from sight.serve.monitoring import JsonLines
from sight.serve.sockets import Watch
from sight.serve.subscriptions import HISTORY
from sight.types import Recording
from tests.helpers.keeping import RATE_HZ, alone, toy_model, walk
from tests.helpers.serving import agrees, closed, enrol, post, running, until

TOY = toy_model("toy", "1")


@pytest.fixture
def client(tmp_path):
    with running(tmp_path) as client:
        yield client


def expected(values):
    return alone(TOY, values, "keel")


def test_watchers_get_history_then_everything_live_once(client):
    enrol(client, "anna", "bela")
    values = walk(7, 700)
    for piece in np.split(values[:6500], 13):
        post(client, "anna", piece)
    with client.websocket_connect("/v1/watch") as socket:
        socket.send_json({"type": "watch", "wearer": "anna"})
        hello = socket.receive_json()
        assert (hello["type"], hello["method"], hello["rate_hz"], hello["window_s"]) == ("hello", "keel", 10.0, 2.0)
        assert hello["classes"] == list(TOY.card.classes)
        assert agrees(hello["history"], expected(values)[649 - HISTORY : 649])
        post(client, "anna", values[6500:6520])
        live = until(socket, "picture")
        events = [one for one in live if one["type"] == "event"]
        signals = [one for one in live if one["type"] == "signal"]
        assert agrees(events, expected(values)[649:651])
        assert np.allclose(np.concatenate([one["values"] for one in signals]), values[6500:6520], atol=1e-4)
        assert np.allclose(np.concatenate([one["time_s"] for one in signals]), np.arange(6500, 6520) / RATE_HZ)
        assert live[-1]["count"] == 651
        socket.send_json({"type": "watch", "wearer": "bela"})
        assert until(socket, "hello")[-1]["history"] == []
        post(client, "anna", values[6520:6600])
        post(client, "bela", values[:30])
        assert {one["wearer"] for one in until(socket, "picture")} == {"bela"}
        socket.send_json({"type": "watch", "wearer": "nobody"})
        assert "no wearer" in until(socket, "error")[-1]["error"]


def test_the_signal_is_thinned_to_what_a_page_can_draw(client):
    enrol(client, "fast", rate_hz=100.0)
    with client.websocket_connect("/v1/watch") as socket:
        socket.send_json({"type": "watch", "wearer": "fast"})
        until(socket, "hello")
        for start in range(0, 300, 30):
            post(client, "fast", np.full((30, 3), start, np.float32))
        times = [t for one in until(socket, "picture") if one["type"] == "signal" for t in one["time_s"]]
    assert np.allclose(np.diff(times), 0.04)


def test_a_watcher_who_sleeps_is_moved_on_and_holds_nobody_up(client):
    enrol(client, "anna")
    values = walk(8, 400)
    with client.websocket_connect("/v1/watch") as socket:
        socket.send_json({"type": "watch", "wearer": "anna"})
        until(socket, "hello")
        (watched,) = client.service.hub._watched.values()
        (watcher,) = watched.watchers
        watcher.most = 20
        gate = threading.Event()
        real = client.service.batcher.call

        async def held(function, *args, **kwargs):
            while not gate.is_set():
                await asyncio.sleep(0.01)
            return await real(function, *args, **kwargs)

        for text in range(25):  # as many as its outbox does not hold
            watcher.push(json.dumps({"type": "noise", "number": text}))
        assert watcher.lagging
        client.service.batcher.call = held
        for piece in np.split(values, 40):
            post(client, "anna", piece)
        gate.set()
        hello = until(socket, "hello")[-1]
        numbers = [one["window"] for one in hello["history"]]
        while not numbers or numbers[-1] < 398:
            message = socket.receive_json()
            if message["type"] == "event":
                numbers.append(message["window"])
            elif message["type"] == "hello":
                numbers = [one["window"] for one in message["history"]]
    assert numbers == list(range(399))
    assert client.service.metrics.lagging._value.get() >= 1


@pytest.mark.parametrize("owner", ["hello", "writer", "picture"])
def test_a_view_that_fails_is_logged_and_told_to_its_watcher_alone(client, monkeypatch, caplog, owner):
    def failing(*_):
        raise ZeroDivisionError("0.123456 is part of a sample")

    enrol(client, "anna")
    with client.websocket_connect("/v1/watch") as other, client.websocket_connect("/v1/watch") as socket:
        other.send_json({"type": "watch", "wearer": "anna"})
        until(other, "hello")
        if owner == "hello":  # the keeper fails while the greeting is made
            monkeypatch.setattr(client.service, "_latest", failing)
        elif owner == "writer":  # something in the loop that writes
            monkeypatch.setattr(Watch, "_send", failing)
        else:
            monkeypatch.setattr(client.service.keeper, "picture", failing)
        socket.send_json({"type": "watch", "wearer": "anna"})
        if owner == "picture":  # nobody's socket depends on it
            until(socket, "hello")
            post(client, "anna", walk(7, 3))
            assert [one["window"] for one in (*until(socket, "event"), *until(socket, "event")) if "window" in one]
            assert "picture failed" in [record.message for record in caplog.records]
            return
        end = closed(socket)
        assert (end.code, end.reason) == (1011, "Something went wrong in the service; its log tells what.")
        (record,) = (one for one in caplog.records if one.message == "socket failed")
        assert record.path == "/v1/watch"
        assert "0.123456" not in JsonLines().format(record)
        monkeypatch.undo()
        post(client, "anna", walk(7, 3))
        assert until(other, "event")[-1]["window"] == 0


def test_replayed_wearers_go_on_where_they_were(client):
    values = walk(9, 60)
    recording = Recording(
        values=values,
        time_s=np.arange(600) / RATE_HZ,
        channels=("x", "y", "z"),
        unit="g",
        rate_hz=RATE_HZ,
        labels=np.repeat([1, -1, 0], 200),
    )

    done = client.service.metrics.chunks.labels("false")._value

    def replay(chunks):
        async def some():
            task = asyncio.create_task(Replay(client.service, {"demo": recording}, speed=400.0).run())
            while done.get() < chunks:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        client.portal.call(some)
        return client.get("/v1/wearers/demo").json()

    assert 20 <= replay(20)["seq"] < 60
    with client.websocket_connect("/v1/watch") as socket:
        socket.send_json({"type": "watch", "wearer": "demo"})
        hello = until(socket, "hello")[-1]
    first, second = hello["classes"][:2]
    assert hello["truth"] == {"round_s": 59.9 + 60, "starts": [[0, second], [20, None], [40, first]]}
    assert replay(90)["seq"] >= 90
    events = client.get("/v1/wearers/demo/events").json()["events"]
    starts = [one["time_s"] for one in events]
    assert starts == sorted(set(starts))
    classes = [one["p"] for one in events[:58]]
    assert classes == [one.p.tolist() for one in alone(client.service.keeper.models.get("four"), values, "none")][:58]
