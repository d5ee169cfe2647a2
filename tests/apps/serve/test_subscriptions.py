"""Subscriptions: history, then every event once, a thinned signal, and no effect on other clients."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import numpy as np
import pytest

from sight.apps.serve.demo_replay import replay
from sight.apps.serve.errors import INTERNAL
from sight.apps.serve.metrics_and_logs import JsonLines
from sight.apps.serve.subscriptions import HISTORY
from sight.apps.serve.watch_socket import WatchConnection
from sight.types import Recording
from tests.helpers.services import equal_events, post, put_wearers, read_until, read_until_closed, running
from tests.helpers.sessions import RATE_HZ, make_stream, toy_model, uninterrupted

TOY = toy_model("toy", "1")


@pytest.fixture
def client(tmp_path):
    with running(tmp_path) as client:
        yield client


def expected(values):
    return uninterrupted(TOY, values, "keel")


def test_subscribers_get_the_history_then_every_event_once(client):
    put_wearers(client, "anna", "bela")
    values = make_stream(7, 700)
    for part in np.split(values[:6500], 13):
        post(client, "anna", part)
    with client.websocket_connect("/v1/watch") as socket:
        socket.send_json({"type": "watch", "wearer": "anna"})
        hello = socket.receive_json()
        assert (hello["type"], hello["method"], hello["rate_hz"], hello["window_s"]) == ("hello", "keel", 10.0, 2.0)
        assert hello["classes"] == list(TOY.card.classes)
        assert hello["adaptation"]["count"] == hello["count"] == 649
        assert equal_events(hello["history"], expected(values)[649 - HISTORY : 649])
        post(client, "anna", values[6500:6520])
        live = read_until(socket, "adaptation")
        events = [message for message in live if message["type"] == "event"]
        signals = [message for message in live if message["type"] == "signal"]
        assert equal_events(events, expected(values)[649:651])
        assert np.allclose(np.concatenate([signal["values"] for signal in signals]), values[6500:6520], atol=1e-4)
        assert np.allclose(np.concatenate([signal["time_s"] for signal in signals]), np.arange(6500, 6520) / RATE_HZ)
        assert live[-1]["count"] == 651
        socket.send_json({"type": "watch", "wearer": "bela"})
        assert read_until(socket, "hello")[-1]["history"] == []
        post(client, "anna", values[6520:6600])
        post(client, "bela", values[:30])
        assert {message["wearer"] for message in read_until(socket, "adaptation")} == {"bela"}
        socket.send_json({"type": "watch", "wearer": "absent"})
        assert "no wearer" in read_until(socket, "error")[-1]["error"]


def test_the_signal_is_thinned_to_25_hz(client):
    put_wearers(client, "fast", rate_hz=100.0)
    with client.websocket_connect("/v1/watch") as socket:
        socket.send_json({"type": "watch", "wearer": "fast"})
        read_until(socket, "hello")
        for start in range(0, 300, 30):
            post(client, "fast", np.full((30, 3), start, np.float32))
        messages = read_until(socket, "adaptation")
    times = [time_s for message in messages if message["type"] == "signal" for time_s in message["time_s"]]
    assert np.allclose(np.diff(times), 0.04)


def test_a_slow_subscriber_restarts_and_delays_no_other_client(client):
    put_wearers(client, "anna")
    values = make_stream(8, 400)
    with client.websocket_connect("/v1/watch") as socket:
        socket.send_json({"type": "watch", "wearer": "anna"})
        read_until(socket, "hello")
        (channel,) = client.service.subscriptions._channels.values()
        (subscriber,) = channel.subscribers
        subscriber.capacity = 20
        gate = threading.Event()
        real = client.service.queue.call

        async def blocked(function, *args, **kwargs):
            while not gate.is_set():
                await asyncio.sleep(0.01)
            return await real(function, *args, **kwargs)

        for number in range(25):  # more than its outbox holds
            subscriber.push(json.dumps({"type": "noise", "number": number}), None)
        assert subscriber._lagging
        client.service.queue.call = blocked
        for part in np.split(values, 40):
            post(client, "anna", part)
        gate.set()
        hello = read_until(socket, "hello")[-1]
        numbers = [event["window"] for event in hello["history"]]
        while not numbers or numbers[-1] < 398:
            message = socket.receive_json()
            if message["type"] == "event":
                numbers.append(message["window"])
            elif message["type"] == "hello":
                numbers = [event["window"] for event in message["history"]]
    assert numbers == list(range(399))
    assert client.service.metrics.lagging._value.get() >= 1


def test_subscribers_are_informed_that_the_wearer_was_deleted(client):
    put_wearers(client, "anna")
    with client.websocket_connect("/v1/watch") as socket:
        socket.send_json({"type": "watch", "wearer": "anna"})
        read_until(socket, "hello")
        assert client.delete("/v1/wearers/anna").status_code == 204
        error = read_until(socket, "error")[-1]
        assert (error["wearer"], "deleted" in error["error"]) == ("anna", True)
        put_wearers(client, "anna")
        post(client, "anna", make_stream(7, 3))
        socket.send_json({"type": "watch", "wearer": "anna"})
        assert len(read_until(socket, "hello")[-1]["history"]) == 2


@pytest.mark.parametrize("part", ["hello", "writer", "adaptation"])
def test_a_failing_subscription_is_logged_and_closed(client, monkeypatch, caplog, part):
    def failing(*_):
        raise ZeroDivisionError("0.123456 is part of a sample")

    put_wearers(client, "anna")
    with client.websocket_connect("/v1/watch") as other, client.websocket_connect("/v1/watch") as socket:
        other.send_json({"type": "watch", "wearer": "anna"})
        read_until(other, "hello")
        if part == "hello":  # the first message cannot be made
            monkeypatch.setattr(client.service, "_hello_text", failing)
        elif part == "writer":
            monkeypatch.setattr(WatchConnection, "_send_hello", failing)
        else:
            monkeypatch.setattr(client.service.manager, "adaptation", failing)
        socket.send_json({"type": "watch", "wearer": "anna"})
        if part == "adaptation":  # the socket stays open without it
            read_until(socket, "hello")
            post(client, "anna", make_stream(7, 3))
            messages = [*read_until(socket, "event"), *read_until(socket, "event")]
            assert [message["window"] for message in messages if message["type"] == "event"] == [0, 1]
            end = time.monotonic() + 30
            while "adaptation summary failed" not in [record.message for record in caplog.records]:
                assert time.monotonic() < end
                time.sleep(0.01)
            return
        end = read_until_closed(socket)
        assert (end.code, end.reason) == (1011, INTERNAL)
        (record,) = (record for record in caplog.records if record.message == "socket failed")
        assert record.path == "/v1/watch"
        assert "0.123456" not in JsonLines().format(record)
        monkeypatch.undo()
        post(client, "anna", make_stream(7, 3))
        assert read_until(other, "event")[-1]["window"] == 0


def test_a_replay_continues_where_it_stopped(client):
    values = make_stream(9, 60)
    recording = Recording(
        values=values,
        time_s=np.arange(600) / RATE_HZ,
        channels=("x", "y", "z"),
        unit="g",
        rate_hz=RATE_HZ,
        labels=np.repeat([1, -1, 0], 200),
    )

    done = client.service.metrics.chunks.labels("false")._value

    def replay_until(chunks):
        async def send_chunks():
            task = asyncio.create_task(replay(client.service, {"demo": recording}, speed=400.0))
            while done.get() < chunks:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        client.portal.call(send_chunks)
        return client.get("/v1/wearers/demo").json()

    assert 20 <= replay_until(20)["seq"] < 60
    with client.websocket_connect("/v1/watch") as socket:
        socket.send_json({"type": "watch", "wearer": "demo"})
        hello = read_until(socket, "hello")[-1]
    first, second = hello["classes"][:2]
    assert hello["truth"] == {"round_s": 59.9 + 60, "starts": [[0, second], [20, None], [40, first]]}
    assert replay_until(90)["seq"] >= 90
    events = client.get("/v1/wearers/demo/events").json()["events"]
    starts = [event["time_s"] for event in events]
    assert starts == sorted(set(starts))
    four = client.service.manager.models.get("four")
    raw = [event.p.tolist() for event in uninterrupted(four, values, "none")]
    assert [event["p"] for event in events[:58]] == raw[:58]
