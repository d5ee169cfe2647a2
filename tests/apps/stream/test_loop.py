"""The live loop, its interruption by signals, and replayed recordings."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time

import numpy as np
import pytest

from sight.apps.stream import Session
from sight.apps.stream.interrupts import StopOnSignal
from sight.apps.stream.loop import run_loop
from sight.apps.stream.replay import replay
from sight.models.load import load
from sight.recordings.signal import prepare
from sight.registry import get, method
from sight.results.prediction_loop import run
from sight.testing import toy_card
from sight.types import Recording
from tests.helpers.commands import run_sight
from tests.helpers.streams import CHANNELS, assert_same_predictions, make_recording, push_all, random_chunks, toy_source


def export_untrained(dataset, folder):
    """Export a network with random weights for the windows of a dataset."""
    import torch

    from sight.models.export.onnx import export_onnx
    from sight.models.torch import TorchSource

    with torch.random.fork_rng():
        torch.manual_seed(3)
        network = get("encoders", "resnet")(channels=len(dataset.channels), classes=len(dataset.classes))
    fields = {name: getattr(dataset, name) for name in ("classes", "units", "rate_hz", "window_s", "stride_s")}
    card = toy_card(channels=dataset.channels, encoder="resnet", encoder_args=network.encoder_args, **fields)
    return export_onnx(TorchSource(network.eval(), classes=dataset.classes, card=card), folder / "model.onnx")


def test_the_loop_saves_regularly_and_when_the_sensor_is_unplugged():
    source, whole, saved, events = toy_source(), make_recording(10.0), [], []
    session = Session(source, method("none"))

    def device():
        yield from replay(dataclasses.replace(whole, values=whole.values[:150], time_s=whole.time_s[:150]), speed=0)
        raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        run_loop(
            session,
            device(),
            lambda event, _: events.append(event),
            save=lambda: saved.append(session.count),
            save_every=4,
        )
    assert saved == [4, 8, 12, session.count]
    assert [event.window for event in events] == list(range(session.count))


def test_a_signal_ends_the_loop_at_once_while_waiting_and_after_the_item_while_working():
    def items(when):
        yield "first"
        if when == "waiting":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
        yield "second"
        yield "third"

    with StopOnSignal() as stop:
        assert list(stop.iterate(items("waiting"))) == ["first"]
    seen = []
    with StopOnSignal() as stop:
        for item in stop.iterate(items("working")):
            if item == "second":
                os.kill(os.getpid(), signal.SIGINT)
            seen.append(item)
    assert seen == ["first", "second"]


def short_recording():
    values, time_s = np.zeros((5, 3), np.float32), np.arange(5.0)
    return Recording(values=values, time_s=time_s, channels=CHANNELS, unit="g", rate_hz=1.0)


def test_a_replay_keeps_the_pace_of_the_recording():
    began = time.monotonic()
    assert sum(len(samples.values) for samples in replay(short_recording(), speed=10)) == 5
    assert 0.5 <= time.monotonic() - began < 5
    with pytest.raises(ValueError, match="speed"):
        list(replay(short_recording(), speed=-1))


def test_a_resumed_replay_neither_repeats_samples_nor_waits_for_them():
    began = time.monotonic()
    times = [samples.time_s.tolist() for samples in replay(short_recording(), speed=10, after_s=3.0)]
    assert times == [[4.0]]
    assert time.monotonic() - began < 0.4
    assert list(replay(short_recording(), after_s=4.0)) == []


def test_a_replayed_subject_gives_the_predictions_of_adapt(tmp_path):
    import pyarrow.parquet as pq

    from sight.datasets.synthetic import Synthetic

    path = export_untrained(Synthetic, tmp_path)
    options = ["-m", path, "--option", "hours=0.1", "--option", "gaps_per_hour=60"]
    run_sight("adapt", "synthetic:W12", "-o", tmp_path / "out", "--lag", "0", *options)
    table = pq.read_table(tmp_path / "out" / "windows.parquet").to_pydict()
    streamed = run_sight("stream", "--replay", "synthetic:W12", "--speed", "0", *options)
    events = [json.loads(line) for line in streamed.stdout.splitlines()]
    assert [event["time_s"] for event in events] == table["time_s"]
    assert [event["gap_s"] for event in events] == table["gap_before_s"]
    assert sum(gap > 0 for gap in table["gap_before_s"]) > 0
    for k, name in enumerate(load(path).classes):
        assert [event["q"][k] for event in events] == table[f"q_{name}"]


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "file", "subject"), [("hapt", "hapt.zip", "5"), ("hugadb", "hugadb_right_thigh.zip", "1")]
)
def test_a_real_recording_in_any_chunks_gives_the_predictions_of_offline(real, tmp_path, name, file, subject):
    check_chunks(get("datasets", name)(real(file)), subject, tmp_path)


def test_a_recording_of_a_dataset_in_any_chunks_gives_the_predictions_of_offline(hapt_files, tmp_path):
    check_chunks(get("datasets", "hapt")(hapt_files), "2", tmp_path)


def check_chunks(dataset, subject, tmp_path):
    source = load(export_untrained(dataset, tmp_path))
    whole = next(dataset.recordings(subject))
    windows = prepare(whole, rate_hz=dataset.rate_hz, window_s=dataset.window_s, stride_s=dataset.stride_s)
    result = run(method("keel").bind(source), windows)
    assert len(windows) > 100
    second = round(whole.rate_hz)
    for chunks in (
        random_chunks(len(whole.values), 5),
        [slice(i, i + second) for i in range(0, len(whole.values), second)],
    ):
        session = Session(source, method("keel"), rate_in_hz=whole.rate_hz)
        assert_same_predictions(push_all(session, whole, chunks), result)
