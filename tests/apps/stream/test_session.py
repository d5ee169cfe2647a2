"""Live sessions: any chunking and any interruption give the windows and predictions of offline, bit for bit."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings, strategies as st

from sight.apps.stream import Session
from sight.models.card import filled
from sight.models.load import load
from sight.recordings.signal import Calibration, Windower
from sight.registry import method
from sight.results.prediction_loop import run
from sight.testing import ToySource, toy_card
from sight.types import Recording
from tests.helpers.streams import (
    CHANNELS,
    assert_same_predictions,
    exported_model,
    make_recording,
    offline_windows,
    push_all,
    random_chunks,
    toy_source,
)

FEW = settings(max_examples=15, deadline=None)


@pytest.fixture(scope="module")
def onnx(tmp_path_factory):
    return load(exported_model(tmp_path_factory.getbasetemp()))


# --- windows --------------------------------------------------------------------------------------------------------


@FEW
@given(seed=st.integers(0, 10_000), rates=st.sampled_from([(50, 50), (100, 50), (58.8, 50), (20, 50), (50.1, 50)]))
def test_any_chunking_cuts_the_windows_of_offline(seed, rates):
    source = toy_source(rates[1], stride_s=0.22)
    whole = make_recording(rates[0], seed=seed % 7)
    expected = offline_windows(whole, source)
    session = Session(source, method("none"), rate_in_hz=rates[0])
    pieces = random_chunks(len(whole.values), seed)
    parts = [session.cut(whole.values[piece], whole.time_s[piece]) for piece in pieces] + [session.windower.flush()]
    assert len(expected) > 15
    for name in ("x", "time_s", "gap_before_s"):
        live = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(live, getattr(expected, name))
    for name, count in session.facts.items():
        assert count == getattr(expected.facts, name)


@pytest.mark.parametrize("rate", [10.0, 58.8])
def test_samples_without_times_follow_each_other_at_the_nominal_rate(rate):
    source = toy_source()
    whole = make_recording(rate)
    even = replace(whole, time_s=np.arange(len(whole.values)) / rate)
    expected = offline_windows(even, source)
    session = Session(source, method("none"), rate_in_hz=rate)
    parts = [session.cut(even.values[piece]) for piece in random_chunks(len(even.values), 3)]
    parts.append(session.windower.flush())
    np.testing.assert_array_equal(np.concatenate([part.x for part in parts]), expected.x)
    np.testing.assert_array_equal(np.concatenate([part.time_s for part in parts]), expected.time_s)


def test_samples_without_times_continue_after_samples_with_times():
    session = Session(toy_source(), method("none"))
    session.push(np.zeros((10, 3)), 50 + np.arange(10) / 10)
    session.push(np.zeros((7, 3)))
    assert session.windower.last_s == 50 + 0.9 + 7 / 10
    assert [event.time_s for event in session.push(np.zeros((3, 3)))] == [50.0]


def test_channels_units_and_calibration_match_offline():
    source = toy_source(units=("m/s^2",) * 3)
    whole = make_recording(10.0)
    calibration = Calibration(scale=(1.02, 0.98, 1.01), offset=(0.05, -0.02, 0.01))
    expected = offline_windows(whole, source, channels=CHANNELS, unit="m/s^2", calibration=calibration)
    shuffled = np.stack([whole.values[:, 2], np.zeros(len(whole.values)), whole.values[:, 0], whole.values[:, 1]], 1)
    session = Session(
        source, method("none"), channels=("z", "heat", "x", "y"), units=("g", "C", "g", "g"), calibration=calibration
    )
    parts = [session.cut(shuffled, whole.time_s), session.windower.flush()]
    np.testing.assert_array_equal(np.concatenate([part.x for part in parts]), expected.x)


def test_feature_vectors_are_passed_unchanged_and_nan_is_filled():
    source = ToySource(length=1)
    source.card = toy_card(rate_hz=1 / 60, window_s=60.0, stride_s=60.0, fill=(1.0, 2.0, 3.0))
    rng = np.random.default_rng(0)
    time_s = np.delete(np.arange(200.0) * 60, np.r_[50:90]) + rng.uniform(-9, 9, 160)
    time_s[30] = time_s[29]
    values = rng.normal(size=(160, 3)).astype(np.float32)
    values[5, 1] = np.nan
    whole = Recording(values=values, time_s=time_s, channels=CHANNELS, unit="g", rate_hz=1 / 60)
    windows = offline_windows(whole, source, max_gap_s=600)
    windows = replace(windows, x=filled(windows.x, source.card.fill))
    session = Session(source, method("sight"), max_gap_s=600)
    events = push_all(session, whole, [slice(t, t + 1) for t in range(200)])
    assert_same_predictions(events, run(method("sight").bind(source), windows, at_once=1))
    assert sum(event.gap_s > 0 for event in events) == 1


# --- predictions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["keel", "sight", "ema"])
@pytest.mark.parametrize("rate", [20.0, 11.76])
def test_an_exported_model_predicts_as_offline_in_any_chunks(onnx, name, rate):
    whole = make_recording(rate)
    result = run(method(name).bind(onnx), offline_windows(whole, onnx))
    for seed in range(2):
        session = Session(onnx, method(name), rate_in_hz=rate)
        assert_same_predictions(push_all(session, whole, random_chunks(len(whole.values), seed)), result)
    one_by_one = [slice(i, i + 1) for i in range(len(whole.values))]
    assert_same_predictions(push_all(Session(onnx, method(name), rate_in_hz=rate), whole, one_by_one), result)


def test_windows_of_many_sessions_may_be_encoded_together(onnx):
    wearers = [make_recording(10.0, seed=seed) for seed in range(3)]
    sessions = [Session(onnx, method("keel")) for _ in wearers]
    events = [[] for _ in wearers]
    for start in range(0, 700, 35):
        part = slice(start, start + 35)
        cuts = [
            session.cut(whole.values[part], whole.time_s[part])
            for session, whole in zip(sessions, wearers, strict=True)
        ]
        z, p = onnx.encode(np.concatenate([windows.x for windows in cuts]))
        edges = np.cumsum([0, *(len(windows) for windows in cuts)])
        for i, windows in enumerate(cuts):
            own = slice(edges[i], edges[i + 1])
            events[i] += sessions[i].predict(windows, (z[own], p[own]))
    for session, whole, own in zip(sessions, wearers, events, strict=True):
        assert_same_predictions(own + session.flush(), run(method("keel").bind(onnx), offline_windows(whole, onnx)))


def test_a_gradient_method_predicts_step_by_step():
    from sight.testing import toy_network

    source = toy_network("cnn")
    whole = make_recording(10.0, n=300)
    windows = offline_windows(whole, source)
    result = run(method("tent", rule="stream").bind(source), windows, at_once=1)
    events = push_all(
        Session(source, method("tent", rule="stream")), whole, [slice(i, i + 10) for i in range(0, 300, 10)]
    )
    np.testing.assert_array_equal(np.stack([event.q for event in events]), result.q)
    with pytest.raises(ValueError, match="rule=stream"):
        Session(source, method("tent"))


# --- save and resume -------------------------------------------------------------------------------------------------


def saved_and_loaded(session):
    return safetensors.numpy.load(safetensors.numpy.save(session.state()))


@FEW
@given(
    stops=st.lists(st.integers(0, 700), max_size=6),
    rate=st.sampled_from([10.0, 20.0, 11.76]),
    name=st.sampled_from(["keel", "sight"]),
)
def test_saving_and_restoring_anywhere_changes_nothing(stops, rate, name):
    source, whole = toy_source(), make_recording(rate)
    expected = push_all(Session(source, method(name), rate_in_hz=rate), whole, [slice(0, 700)])
    session, events, start = Session(source, method(name), rate_in_hz=rate), [], 0
    for stop in [*sorted(stops), 700]:
        events += session.push(whole.values[start:stop], whole.time_s[start:stop])
        session, start = Session(source, method(name), rate_in_hz=rate).restore(saved_and_loaded(session)), stop
    events += session.flush()
    assert len(events) == len(expected) == session.count
    for event, same in zip(events, expected, strict=True):
        assert (event.window, event.time_s, event.gap_s) == (same.window, same.time_s, same.gap_s)
        np.testing.assert_allclose(event.q, same.q, rtol=1e-5)  # the toy source encodes batches; see below for the bits


def test_a_session_can_be_saved_after_every_sample(onnx):
    whole = make_recording(20.0, n=200)
    expected = push_all(Session(onnx, method("keel"), rate_in_hz=20.0), whole, [slice(0, 200)])
    session, events = Session(onnx, method("keel"), rate_in_hz=20.0), []
    for i in range(200):
        session = Session(onnx, method("keel"), rate_in_hz=20.0).restore(saved_and_loaded(session))
        events += session.push(whole.values[i : i + 1], whole.time_s[i : i + 1])
    events += session.flush()
    assert len(events) == len(expected) > 3
    for event, same in zip(events, expected, strict=True):
        assert event.q.tobytes() == same.q.tobytes()


def test_samples_without_times_continue_after_a_restore():
    source = toy_source()
    session = Session(source, method("none"))
    session.push(np.zeros((15, 3)))
    session = Session(source, method("none")).restore(saved_and_loaded(session))
    assert [event.time_s for event in session.push(np.zeros((15, 3)))] == [0.0, 1.0]


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing():
    source = toy_source()
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


def test_a_windower_can_be_saved_and_restored():
    whole = make_recording(100.0)
    arguments = {"rate_in_hz": 100, "rate_hz": 50, "channels": 3, "window_s": 1, "stride_s": 0.5}
    first = Windower(**arguments)
    first.push(whole.values[:333], whole.time_s[:333])
    second = Windower(**arguments).restore(first.state())
    for live in (first, second):
        live.last = live.push(whole.values[333:], whole.time_s[333:])
    np.testing.assert_array_equal(first.last.x, second.last.x)
    assert first.facts == second.facts


# --- many wearers -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", ["keel", "sight"])
def test_a_thousand_sessions_in_one_process_run_in_real_time(name):
    source = ToySource(classes=8, channels=6, length=100, dims=2048)
    channels = tuple("abcdef")
    source.card = toy_card(channels=channels, classes=source.classes, rate_hz=50.0)
    sessions = [Session(source, method(name)) for _ in range(1000)]
    for session in sessions:
        session.push(np.zeros((50, 6)))
    rng = np.random.default_rng(0)
    spent_s, encoded = [], source.encode(np.zeros((1, 6, 100), np.float32))  # encoding is not measured
    for second in range(12):
        values, time_s = rng.normal(size=(50, 6)).astype(np.float32), 1 + second + np.arange(50) / 50
        began = time.process_time()
        cuts = [session.cut(values, time_s) for session in sessions]
        cut_s = time.process_time() - began
        began = time.process_time()
        for session, windows in zip(sessions, cuts, strict=True):
            session.predict(windows, encoded)
        spent_s.append(cut_s + time.process_time() - began)
    print(f"{name}: {1e3 * np.median(spent_s[2:]):.0f} ms for 1,000 pushes of one second, without encoding")
    assert np.median(spent_s[2:]) < 0.6


# --- invalid input ------------------------------------------------------------------------------------------------


def test_invalid_input_of_a_session_is_refused():
    source = toy_source()
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
