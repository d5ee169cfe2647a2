"""The parts of the live room by themselves: lines, files of state, pace, the loop, and recordings that are real."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from typer.testing import CliRunner

from sight.card import ModelCard
from sight.cli import app
from sight.evaluate import run
from sight.registry import get, method
from sight.signal import prepare
from sight.sources import load
from sight.stream import Session, state_file
from sight.stream.event_json import Tally, as_json
from sight.stream.interrupts import Stop
from sight.stream.line_parser import LONGEST_LINE, Lines, split
from sight.stream.loop import follow
from sight.stream.readers import from_file
from sight.stream.replay import on_one_clock, replay
from sight.types import Event, Recording
from tests.stream.test_session import NAMES, chunks, pushed, same_answers, toy, wearer


def model_for(dataset, folder):
    """Write a network of random weights for the windows of a dataset as ONNX."""
    import torch

    from sight.sources.onnx_export import export_onnx
    from sight.sources.torch import TorchSource

    with torch.random.fork_rng():
        torch.manual_seed(3)
        network = get("encoders", "resnet")(channels=len(dataset.channels), classes=len(dataset.classes))
    fields = ("classes", "channels", "units", "rate_hz", "window_s", "stride_s")
    card = ModelCard(
        encoder="resnet",
        encoder_args=network.encoder_args,
        mean=(0.0,) * len(dataset.channels),
        std=(1.0,) * len(dataset.channels),
        **{name: getattr(dataset, name) for name in fields},
    )
    return export_onnx(TorchSource(network.eval(), classes=dataset.classes, card=card), folder / "model.onnx")


# --- lines ----------------------------------------------------------------------------------------------------------


def test_json_and_csv_mean_the_same():
    lines = Lines(("x", "y"))
    texts = [
        '{"time_s": 1, "values": [1, 2]}',
        '{"time_s": [2, 3], "values": [[3, 4], [5, null]]}',
        "4, 7, 8",
        "# a remark",
        "",
        "5,,9",
    ]
    [samples] = lines.read(texts)
    np.testing.assert_array_equal(samples.values, [[1, 2], [3, 4], [5, np.nan], [7, 8], [np.nan, 9]])
    assert samples.time_s.tolist() == [1, 2, 3, 4, 5]
    assert (lines.number, lines.malformed) == (6, 0)


def test_samples_with_and_without_times_stay_apart():
    parts = Lines(("x",)).read(["1", "[2]", "0.5,3", '{"values": [4]}'])
    assert [part.values.ravel().tolist() for part in parts] == [[1, 2], [3], [4]]
    assert [part.time_s is None for part in parts] == [True, False, True]


def test_what_cannot_be_read_is_counted_and_told_once():
    told = []
    lines = Lines(NAMES, told.append)
    bad = ["x", "1,2", "1,2,3,4,5", "{}", '{"values": "abc"}', '{"values": [[1, 2], [3]]}', "[" * 100_000, "1,2,z"]
    bad += ['{"values": [1, 2, 3], "time_s": "noon"}', '{"values": {"x": 1}}', f'{{"values": [1, 2, 1{"0" * 400}]}}']
    assert lines.read(["1,2,3", *bad])[0].values.tolist() == [[1, 2, 3]]
    assert lines.malformed == len(bad)
    assert len(told) == 1
    assert told[0].startswith("line 2 is no sample of x, y, z")


def test_numbers_beyond_single_precision_become_infinity_which_the_clock_drops():
    [samples] = Lines(("x",)).read(["0,1e300", '{"time_s": 1, "values": [1e300]}'])
    assert np.isinf(samples.values).all()


def test_blocks_are_cut_at_line_ends_wherever_they_break():
    text = "1,2,3\n4,5,6\r\nsnö,wow\n7,8,9".encode()
    for size in (1, 2, 5, 100):
        blocks = [text[i : i + size] for i in range(0, len(text), size)]
        assert [line.strip() for some in split(blocks) for line in some] == ["1,2,3", "4,5,6", "snö,wow", "7,8,9"]


def test_a_line_without_end_is_cut_off():
    assert [len(line) for some in split([b"a" * LONGEST_LINE] * 3) for line in some] == [LONGEST_LINE, LONGEST_LINE]


def test_a_pipe_gives_what_is_there_without_waiting_for_more():
    ours, theirs = os.pipe()
    with open(ours, "rb") as file:
        os.write(theirs, b"1,2\n")
        blocks = from_file(file)
        assert next(blocks) == b"1,2\n"
        os.close(theirs)
        assert list(blocks) == []


# --- files of state -------------------------------------------------------------------------------------------------


def test_a_saved_session_knows_what_it_belongs_to(tmp_path):
    source = toy()
    session = Session(source, method("sight"))
    session.push(np.ones((33, 3)))
    file = state_file.save(tmp_path / "a" / "wearer.state", session)
    twin = state_file.load(file, Session(source, method("sight", tau=0.5)))
    assert twin.count == 2
    assert state_file.pack(twin) == file.read_bytes()
    other = toy()
    other.weight = other.weight * 1.5
    for wrong, why in [
        (Session(other, method("sight")), "another model"),
        (Session(source, method("keel")), "another method"),
        (Session(source, method("sight"), rate_in_hz=20), "another rate of the sensor"),
        (Session(source, method("sight"), stride_s=0.5), "another window"),
    ]:
        with pytest.raises(ValueError, match=why):
            state_file.load(file, wrong)


def test_damage_anywhere_in_a_saved_session_is_noticed():
    source = toy()
    session = Session(source, method("keel"))
    session.push(np.ones((33, 3)))
    whole, rng = state_file.pack(session), np.random.default_rng(0)
    for _ in range(200):
        broken = bytearray(whole)
        broken[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        twin = Session(source, method("keel"))
        before = state_file.pack(twin)
        try:
            state_file.unpack(bytes(broken), twin)
        except ValueError:
            assert state_file.pack(twin) == before
        else:  # a flip in a blank, or in the version that nobody compares
            assert state_file.pack(twin) == whole
    for size in range(0, len(whole), 97):
        with pytest.raises(ValueError, match="part of one"):
            state_file.unpack(whole[:size], Session(source, method("keel")))


def test_a_newer_format_is_named(monkeypatch):
    session = Session(toy(), method("none"))
    monkeypatch.setattr(state_file, "FORMAT", 2)
    newer = state_file.pack(session)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="upgrade sight"):
        state_file.unpack(newer, session)


# --- the loop -------------------------------------------------------------------------------------------------------


def test_the_loop_keeps_the_session_now_and_then_and_when_the_sensor_goes():
    source, whole, kept, events = toy(), wearer(10.0), [], []
    session = Session(source, method("none"))

    def device():
        yield from replay(dataclasses.replace(whole, values=whole.values[:150], time_s=whole.time_s[:150]), speed=0)
        raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        follow(
            session, device(), lambda event, _: events.append(event), keep=lambda: kept.append(session.count), every=4
        )
    assert kept == [4, 8, 12, session.count]
    assert [event.window for event in events] == list(range(session.count))


def test_a_signal_while_waiting_ends_at_once_and_while_working_after_the_item():
    def signals(when):
        yield "first"
        if when == "waiting":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
        yield "second"
        yield "third"

    with Stop() as stop:
        assert list(stop.until(signals("waiting"))) == ["first"]
    seen = []
    with Stop() as stop:
        for item in stop.until(signals("working")):
            if item == "second":
                os.kill(os.getpid(), signal.SIGINT)
            seen.append(item)
    assert seen == ["first", "second"]


def test_an_event_in_json_holds_plain_numbers_alone():
    event = Event(
        window=3,
        time_s=1.5,
        q=np.array([0.25, 0.75], np.float32),
        p=np.array([0.5, 0.5], np.float32),
        gap_s=9.0,
        diagnostics={"surprise": 0.125, "agreement": np.nan},  # JSON knows no NaN
    )
    tally = Tally()
    tally.add(event)
    assert json.loads(json.dumps(as_json(event, ("rest", "walk"), 2.0), allow_nan=False)) == {
        "window": 3,
        "time_s": 1.5,
        "label": "walk",
        "raw": "rest",
        "q": [0.25, 0.75],
        "p": [0.5, 0.5],
        "gap_s": 9.0,
        "surprise": 0.125,
        "diagnostics": {"surprise": 0.125, "agreement": None},
        "latency_ms": 2.0,
    }
    assert str(tally).startswith("1 windows, 1 gaps; 1 (100.0%)")


# --- replay ---------------------------------------------------------------------------------------------------------


def part(start, first_s=0.0):
    values, time_s = np.zeros((5, 3), np.float32), first_s + np.arange(5.0)
    return Recording(values=values, time_s=time_s, channels=NAMES, unit="g", rate_hz=1.0, start=start)


def test_recordings_of_a_person_follow_each_other():
    morning = datetime(2024, 5, 1, 8, tzinfo=UTC)
    moved = on_one_clock([part(morning), part(morning + timedelta(seconds=60))])
    assert [one.time_s[0] for one in moved] == [0, 60]
    assert [one.time_s[0] for one in on_one_clock([part(None), part(None, 7.0)])] == [0, 4 + 3600]
    assert [one.time_s[0] for one in on_one_clock([part(None), part(None, 7.0)], shared=True)] == [0, 7]


def test_the_pace_of_a_replay_is_that_of_the_device():
    began = time.monotonic()
    assert sum(len(samples.values) for samples in replay(part(None), speed=10)) == 5
    assert 0.5 <= time.monotonic() - began < 5
    with pytest.raises(ValueError, match="speed of 0 or more"):
        list(replay(part(None), speed=-1))


def test_a_replay_that_goes_on_neither_repeats_nor_waits_for_what_was_seen():
    began = time.monotonic()
    left = [samples.time_s.tolist() for samples in replay(part(None), speed=10, after_s=3.0)]
    assert left == [[4.0]]
    assert time.monotonic() - began < 0.4
    assert list(replay(part(None), after_s=4.0)) == []


def test_a_replayed_wearer_is_answered_as_adapt_answers(tmp_path):
    import pyarrow.parquet as pq

    from sight.datasets.synthetic import Synthetic

    path = model_for(Synthetic, tmp_path)
    words = ["-m", str(path), "--option", "hours=0.2", "--option", "gaps_per_hour=30"]
    shown = CliRunner().invoke(app, ["adapt", "synthetic:W12", "-o", str(tmp_path / "out"), *words])
    assert shown.exit_code == 0, shown.output
    table = pq.read_table(tmp_path / "out" / "windows.parquet").to_pydict()
    shown = CliRunner().invoke(app, ["stream", "--replay", "synthetic:W12", "--speed", "0", *words])
    assert shown.exit_code == 0, shown.output
    events = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [event["time_s"] for event in events] == table["time_s"]
    assert [event["gap_s"] for event in events] == table["gap_before_s"]
    assert sum(gap > 0 for gap in table["gap_before_s"]) > 0
    for k, name in enumerate(load(path).classes):
        assert [event["q"][k] for event in events] == table[f"q_{name}"]


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "file", "subject"), [("hapt", "hapt.zip", "5"), ("hugadb", "hugadb_right_thigh.zip", "1")]
)
def test_a_real_recording_in_any_chunks_is_answered_as_offline(real, tmp_path, name, file, subject):
    dataset = get("datasets", name)(real(file))
    source = load(model_for(dataset, tmp_path))
    whole = next(dataset.recordings(subject))
    windows = prepare(whole, rate_hz=dataset.rate_hz, window_s=dataset.window_s, stride_s=dataset.stride_s)
    result = run(method("keel").bind(source), windows)
    assert len(windows) > 100
    second = round(whole.rate_hz)
    for pieces in (
        chunks(len(whole.values), 5),
        [slice(i, i + second) for i in range(0, len(whole.values), second)],
    ):
        same_answers(pushed(Session(source, method("keel"), rate_in_hz=whole.rate_hz), whole, pieces), result)
