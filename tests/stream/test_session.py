"""Live is offline: any chunking, any place to stop and go on, the same windows and the same answers, bit for bit."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from sight.card import ModelCard, filled
from sight.evaluate import run
from sight.registry import method
from sight.signal import Calibration, Windower, prepare
from sight.sources import load
from sight.stream import Session
from sight.testing import ToySource
from sight.types import Recording

NAMES = ("x", "y", "z")
FEW = settings(max_examples=25, deadline=None)


def card_of(source, rate_hz=10.0, window_s=2.0, stride_s=1.0, **fields):
    channels = source.shape[0]
    known = {
        "encoder": "toy",
        "encoder_args": {},
        "classes": source.classes,
        "channels": NAMES[:channels],
        "units": ("g",) * channels,
        "mean": (0.0,) * channels,
        "std": (1.0,) * channels,
    }
    return ModelCard(rate_hz=rate_hz, window_s=window_s, stride_s=stride_s, **(known | fields))


def toy(rate_hz=10.0, stride_s=1.0, **fields):
    source = ToySource()
    source.card = card_of(source, rate_hz, source.shape[1] / rate_hz, stride_s, **fields)
    return source


@cache
def exported(folder):
    """Write a network with a card as ONNX, which encodes windows one by one; once for all tests."""
    from sight.sources.onnx_export import export_onnx
    from sight.testing import toy_network

    return export_onnx(toy_network("cnn"), folder / "live.onnx")


@pytest.fixture(scope="module")
def onnx(tmp_path_factory):
    return load(exported(tmp_path_factory.getbasetemp()))


def wearer(rate_hz, seed=0, n=700):
    """Activities in turn, on a clock with jitter, a hole, gaps, bursts, repeats, late samples and NaN."""
    rng = np.random.default_rng(seed)
    time_s = 100.0 + np.arange(n) / rate_hz + rng.uniform(-0.2, 0.2, n) / rate_hz
    time_s[n // 3 :] += 7.0
    time_s[n // 2 :] += 3 / rate_hz
    time_s[2 * n // 3 :] += 900.0
    time_s[n // 5] = time_s[n // 5 - 1]
    time_s[n // 4] = time_s[n // 4 - 9]
    time_s[n // 6 : n // 6 + 4] = time_s[n // 6] + np.arange(4) / (9 * rate_hz)
    level = np.repeat(rng.normal(size=(n // 50 + 1, 3)), 50, axis=0)[:n]
    values = (level + 0.5 * rng.normal(size=(n, 3))).astype(np.float32)
    values[n // 7] = np.nan
    values[n // 8, 1] = np.inf
    return Recording(values=values, time_s=time_s, channels=NAMES, unit="g", rate_hz=rate_hz)


def offline(recording, source, **fields):
    card = source.card
    return prepare(recording, rate_hz=card.rate_hz, window_s=card.window_s, stride_s=card.stride_s, **fields)


def chunks(n, seed):
    """Cut n samples anywhere: empty chunks, single samples, long ones."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.integers(0, n + 1, rng.integers(0, 60)))
    return [slice(a, b) for a, b in zip([0, *edges], [*edges, n], strict=True)]


def pushed(session, recording, pieces):
    events = []
    for piece in pieces:
        events += session.push(recording.values[piece], recording.time_s[piece])
    return events + session.flush()


def same_answers(events, result):
    windows = result.windows
    assert [event.window for event in events] == list(range(len(windows)))
    assert [event.time_s for event in events] == windows.time_s.tolist()
    assert [event.gap_s for event in events] == windows.gap_before_s.tolist()
    np.testing.assert_array_equal(np.stack([event.p for event in events]), result.p)
    np.testing.assert_array_equal(np.stack([event.q for event in events]), result.q)
    for name, values in result.trace.items():
        assert [event.diagnostics[name] for event in events] == values.astype(float).tolist()


# --- windows --------------------------------------------------------------------------------------------------------


@FEW
@given(seed=st.integers(0, 10_000), rates=st.sampled_from([(50, 50), (100, 50), (58.8, 50), (20, 50), (50.1, 50)]))
def test_any_chunking_cuts_the_windows_of_offline(seed, rates):
    source = toy(rates[1], stride_s=0.22)
    whole = wearer(rates[0], seed=seed % 7)
    expected = offline(whole, source)
    session = Session(source, method("none"), rate_in_hz=rates[0])
    pieces = chunks(len(whole.values), seed)
    parts = [session.cut(whole.values[piece], whole.time_s[piece]) for piece in pieces] + [session.windower.flush()]
    assert len(expected) > 15
    for name in ("x", "time_s", "gap_before_s"):
        live = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(live, getattr(expected, name))
    for name, count in session.facts.items():
        assert count == expected.facts[name]


@pytest.mark.parametrize("rate", [10.0, 58.8])
def test_samples_without_times_follow_each_other_at_the_nominal_rate(rate):
    source = toy()
    whole = wearer(rate)
    even = replace(whole, time_s=np.arange(len(whole.values)) / rate)
    expected = offline(even, source)
    session = Session(source, method("none"), rate_in_hz=rate)
    parts = [session.cut(even.values[piece]) for piece in chunks(len(even.values), 3)] + [session.windower.flush()]
    np.testing.assert_array_equal(np.concatenate([part.x for part in parts]), expected.x)
    np.testing.assert_array_equal(np.concatenate([part.time_s for part in parts]), expected.time_s)


def test_samples_without_times_go_on_from_those_that_have_them():
    session = Session(toy(), method("none"))
    session.push(np.zeros((10, 3)), 50 + np.arange(10) / 10)
    session.push(np.zeros((7, 3)))
    assert session.windower.last_s == 50 + 0.9 + 7 / 10
    assert [event.time_s for event in session.push(np.zeros((3, 3)))] == [50.0]


def test_channels_units_and_calibration_are_those_of_offline():
    source = toy(units=("m/s^2",) * 3)
    whole = wearer(10.0)
    calibration = Calibration(scale=(1.02, 0.98, 1.01), offset=(0.05, -0.02, 0.01))
    expected = offline(whole, source, channels=NAMES, unit="m/s^2", calibration=calibration)
    shuffled = np.stack([whole.values[:, 2], np.zeros(len(whole.values)), whole.values[:, 0], whole.values[:, 1]], 1)
    session = Session(
        source, method("none"), channels=("z", "heat", "x", "y"), units=("g", "C", "g", "g"), calibration=calibration
    )
    parts = [session.cut(shuffled, whole.time_s), session.windower.flush()]
    np.testing.assert_array_equal(np.concatenate([part.x for part in parts]), expected.x)


def test_feature_vectors_pass_as_they_are_and_nan_is_filled():
    source = ToySource(length=1)
    source.card = card_of(source, rate_hz=1 / 60, window_s=60.0, stride_s=60.0, fill=(1.0, 2.0, 3.0))
    rng = np.random.default_rng(0)
    time_s = np.delete(np.arange(200.0) * 60, np.r_[50:90]) + rng.uniform(-9, 9, 160)
    time_s[30] = time_s[29]
    values = rng.normal(size=(160, 3)).astype(np.float32)
    values[5, 1] = np.nan
    whole = Recording(values=values, time_s=time_s, channels=NAMES, unit="g", rate_hz=1 / 60)
    windows = offline(whole, source, max_gap_s=600)
    windows = replace(windows, x=filled(windows.x, source.card.fill))
    session = Session(source, method("sight"), max_gap_s=600)
    events = pushed(session, whole, [slice(t, t + 1) for t in range(160)])
    same_answers(events, run(method("sight").bind(source), windows, at_once=1))
    assert sum(event.gap_s > 0 for event in events) == 1


# --- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["keel", "sight", "ema"])
@pytest.mark.parametrize("rate", [10.0, 20.0, 11.76])
def test_an_exported_model_answers_as_offline_in_any_chunks(onnx, name, rate):
    whole = wearer(rate)
    result = run(method(name).bind(onnx), offline(whole, onnx))
    for seed in range(3):
        same_answers(
            pushed(Session(onnx, method(name), rate_in_hz=rate), whole, chunks(len(whole.values), seed)), result
        )
    one_by_one = [slice(i, i + 1) for i in range(len(whole.values))]
    same_answers(pushed(Session(onnx, method(name), rate_in_hz=rate), whole, one_by_one), result)


def test_windows_of_many_sessions_may_be_encoded_together(onnx):
    wearers = [wearer(10.0, seed=seed) for seed in range(3)]
    sessions = [Session(onnx, method("keel")) for _ in wearers]
    answers = [[] for _ in wearers]
    for start in range(0, 700, 35):
        part = slice(start, start + 35)
        cuts = [
            session.cut(whole.values[part], whole.time_s[part])
            for session, whole in zip(sessions, wearers, strict=True)
        ]
        z, p = onnx.encode(np.concatenate([windows.x for windows in cuts]))
        edges = np.cumsum([0, *(len(windows) for windows in cuts)])
        for i, windows in enumerate(cuts):
            some = slice(edges[i], edges[i + 1])
            answers[i] += sessions[i].predict(windows, z[some], p[some])
    for session, whole, events in zip(sessions, wearers, answers, strict=True):
        same_answers(events + session.flush(), run(method("keel").bind(onnx), offline(whole, onnx)))


def test_a_method_that_trains_the_network_is_answered_step_by_step():
    from sight.testing import toy_network

    source = toy_network("cnn")
    whole = wearer(10.0, n=300)
    windows = offline(whole, source)
    one = run(method("tent", rule="stream").bind(source), windows, at_once=1)
    events = pushed(
        Session(source, method("tent", rule="stream")), whole, [slice(i, i + 10) for i in range(0, 300, 10)]
    )
    np.testing.assert_array_equal(np.stack([event.q for event in events]), one.q)
    with pytest.raises(ValueError, match="rule=stream"):
        Session(source, method("tent"))


# --- save and go on -------------------------------------------------------------------------------------------------


def through_a_file(session):
    return safetensors.numpy.load(safetensors.numpy.save(session.state()))


@FEW
@given(
    stops=st.lists(st.integers(0, 700), max_size=6),
    rate=st.sampled_from([10.0, 20.0, 11.76]),
    name=st.sampled_from(["keel", "sight"]),
)
def test_stopping_anywhere_and_going_on_elsewhere_changes_nothing(stops, rate, name):
    source, whole = toy(), wearer(rate)
    expected = pushed(Session(source, method(name), rate_in_hz=rate), whole, [slice(0, 700)])
    session, events, start = Session(source, method(name), rate_in_hz=rate), [], 0
    for stop in [*sorted(stops), 700]:
        events += session.push(whole.values[start:stop], whole.time_s[start:stop])
        session, start = Session(source, method(name), rate_in_hz=rate).restore(through_a_file(session)), stop
    events += session.flush()
    assert len(events) == len(expected) == session.count
    for one, other in zip(events, expected, strict=True):
        assert (one.window, one.time_s, one.gap_s) == (other.window, other.time_s, other.gap_s)
        np.testing.assert_allclose(one.q, other.q, rtol=1e-5)  # the toy source encodes batches; see below for the bits


def test_every_place_of_a_window_can_be_saved_bit_for_bit(onnx):
    whole = wearer(20.0, n=300)
    expected = pushed(Session(onnx, method("keel"), rate_in_hz=20.0), whole, [slice(0, 300)])
    session, events = Session(onnx, method("keel"), rate_in_hz=20.0), []
    for i in range(300):
        session = Session(onnx, method("keel"), rate_in_hz=20.0).restore(through_a_file(session))
        events += session.push(whole.values[i : i + 1], whole.time_s[i : i + 1])
    events += session.flush()
    assert len(events) == len(expected) > 8
    for one, other in zip(events, expected, strict=True):
        assert one.q.tobytes() == other.q.tobytes()


def test_samples_without_times_go_on_after_a_restart():
    source = toy()
    session = Session(source, method("none"))
    session.push(np.zeros((15, 3)))
    session = Session(source, method("none")).restore(through_a_file(session))
    assert [event.time_s for event in session.push(np.zeros((15, 3)))] == [0.0, 1.0]


def test_a_state_of_something_else_is_refused_and_changes_nothing():
    source = toy()
    session = Session(source, method("sight"))
    session.push(np.ones((33, 3)))
    before = session.state()
    wrong = [
        {},
        {key: value for key, value in before.items() if key != "windower.ring.skip"},
        before | {"windower.ring.values": before["windower.ring.values"][:, :2]},
        before | {"windower.ring.time": before["windower.ring.time"].astype(np.float32)},
        before | {"adapter.habit": before["adapter.habit"][:2]},
        before | {"adapter.habit": np.full_like(before["adapter.habit"], np.nan)},
        Session(source, method("keel")).state(),
        Session(source, method("sight"), rate_in_hz=20).state(),
    ]
    for state in wrong:
        with pytest.raises(ValueError, match=r"saved|state"):
            session.restore(state)
        for key, value in session.state().items():
            np.testing.assert_array_equal(value, before[key])


def test_the_live_classes_of_the_signal_room_save_by_themselves():
    whole = wearer(100.0)
    settings = {"rate_in_hz": 100, "rate_hz": 50, "channels": 3, "window_s": 1, "stride_s": 0.5}
    first = Windower(**settings)
    first.push(whole.values[:333], whole.time_s[:333])
    second = Windower(**settings).restore(first.state())
    for live in (first, second):
        live.rest = live.push(whole.values[333:], whole.time_s[333:])
    np.testing.assert_array_equal(first.rest.x, second.rest.x)
    assert first.facts == second.facts


# --- many wearers -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", ["keel", "sight"])
def test_a_thousand_wearers_in_one_process_need_a_fraction_of_each_second(name):
    source = ToySource(classes=8, channels=6, length=100, dims=2048)
    channels = tuple("abcdef")
    source.card = card_of(source, 50.0, 2.0, 1.0, channels=channels)
    sessions = [Session(source, method(name)) for _ in range(1000)]
    for session in sessions:
        session.push(np.zeros((50, 6)))
    rng = np.random.default_rng(0)
    spent_s, encoded = [], source.encode(np.zeros((1, 6, 100), np.float32))  # a model would do this for all of them
    for second in range(12):
        values, time_s = rng.normal(size=(50, 6)).astype(np.float32), 1 + second + np.arange(50) / 50
        began = time.process_time()
        cuts = [session.cut(values, time_s) for session in sessions]
        cut_s = time.process_time() - began
        began = time.process_time()
        for session, windows in zip(sessions, cuts, strict=True):
            session.predict(windows, *encoded)
        spent_s.append(cut_s + time.process_time() - began)
    print(f"{name}: {1e3 * np.median(spent_s[2:]):.0f} ms for 1,000 pushes of one second, without encoding")
    assert np.median(spent_s[2:]) < 0.6


# --- what is refused ------------------------------------------------------------------------------------------------


def test_what_a_session_cannot_take_is_said():
    source = toy()
    with pytest.raises(ValueError, match="no card"):
        Session(ToySource(), method("none"))
    with pytest.raises(ValueError, match="Expected channel y"):
        Session(source, method("none"), channels=("x", "z"))
    with pytest.raises(ValueError, match="3 units"):
        Session(source, method("none"), units=("g", "g"))
    with pytest.raises(ValueError, match="Cannot convert"):
        Session(source, method("none"), units="deg/s")
    session = Session(source, method("none"))
    for values, time_s in [(np.zeros((5, 2)), None), (np.zeros(5), None), (np.zeros((5, 3)), np.arange(4.0))]:
        with pytest.raises(ValueError, match=r"samples \(n, 3\)"):
            session.push(values, time_s)
    assert session.state()["since"] == 0
