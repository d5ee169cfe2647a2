"""Smoothing against the enumeration of all paths."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from sight.methods.keel import Keel
from sight.methods.sticky import Sticky
from sight.results.metrics import score_result
from sight.results.prediction_loop import run
from sight.results.smoothing import backward, smoothed
from sight.testing import ToySource, toy_stream

PLAIN = {"prototypes": 0.0, "align": 0.0, "debias": 0.0, "surprise": 0.0, "temper": 1.0, "rate": 0.0}


def enumerated(likelihood, change, seen):
    """Return marginals (N, K) from the weights of all K^N paths, given the windows up to `seen`."""
    n, classes = likelihood.shape
    marginals = np.zeros((n, classes))
    for path in itertools.product(range(classes), repeat=n):
        weight = 1 / classes
        for t, k in enumerate(path):
            if t:
                weight *= (1 - change[t]) * (path[t - 1] == k) + change[t] / classes
            if t <= seen:
                weight *= likelihood[t, k]
        for t, k in enumerate(path):
            marginals[t, k] += weight
    return marginals / marginals.sum(axis=1, keepdims=True)


def example(seed, n=6, classes=3):
    rng = np.random.default_rng(seed)
    likelihood, change = rng.dirichlet(np.full(classes, 0.4), size=n), rng.uniform(0.02, 0.9, size=n)
    return likelihood, change, np.array([enumerated(likelihood, change, t)[t] for t in range(n)])


@pytest.mark.parametrize("seed", range(3))
def test_forward_backward_is_the_sum_over_all_paths(seed):
    likelihood, change, filtered = example(seed)
    np.testing.assert_allclose(backward(filtered, change), enumerated(likelihood, change, 5), atol=1e-12)


@pytest.mark.parametrize("lag", range(7))
def test_a_lag_is_the_sum_over_all_paths_up_to_it(lag):
    likelihood, change, filtered = example(7)
    expected = [enumerated(likelihood, change, min(t + lag, 5))[t] for t in range(6)]
    np.testing.assert_allclose(backward(filtered, change, lag), expected, atol=1e-12)


def test_an_infinite_lag_is_forward_backward_and_lag_zero_the_filter():
    _, change, filtered = example(3)
    np.testing.assert_array_equal(backward(filtered, change, 5), backward(filtered, change))
    np.testing.assert_array_equal(backward(filtered, change, 0), filtered)
    assert backward(filtered[:0], change[:0]).shape == backward(filtered[:0], change[:0], 2).shape == (0, 3)
    assert backward(filtered.astype(np.float32), change, 2).dtype == np.float32


@pytest.mark.parametrize("lag", [-1, 1.5, math.nan])
def test_invalid_lags_are_refused(lag):
    with pytest.raises(ValueError, match="lag"):
        backward(np.full((3, 2), 0.5), np.full(3, 0.1), lag)


def test_certain_beliefs_stay_finite():
    q, change = np.eye(3)[[0, 0, 1, 2]], np.array([0.1, 0.0, 1.0, 0.0])
    assert np.isfinite(backward(q, change)).all()


def test_keel_smoothed_is_the_sum_over_all_paths_through_a_gap():
    """Without its parts, the likelihood is the source's probability, the change the hazard, and a gap a change."""
    source = ToySource(classes=3, dtype="float64")
    windows = toy_stream(source, n=6, noise=3.0)
    windows = replace(windows, gap_before_s=np.array([0, 0, 0, 45.0, 0, 0]))
    result = run(Keel(**PLAIN, hazard=0.2).bind(source), windows, lag=math.inf)
    change = np.full(6, 0.2)
    change[3] = 1 - 0.8 * 0.5**1.5
    expected = enumerated(source.encode(windows.x)[1], change, 5)
    np.testing.assert_allclose(result.q, expected, atol=1e-12)


def test_smoothing_improves_keel_and_is_reported():
    source = ToySource()
    windows = toy_stream(source, n=1500, noise=3.0)
    now = run(Keel().bind(source), windows)
    results = (now, smoothed(now, 5), smoothed(now))
    accuracy = [(result.q.argmax(axis=1) == windows.label).mean() for result in results]
    assert accuracy[0] + 0.01 < accuracy[1] <= accuracy[2] + 0.005
    later = run(Keel().bind(source), windows, lag=5)
    np.testing.assert_array_equal(later.q, smoothed(now, 5).q)
    assert (now.rule, later.rule) == ("window", "lag 5")
    assert later.notes == ["sees the future (lag 5)"]
    np.testing.assert_allclose(later.q.sum(axis=1), 1, atol=1e-5)


def test_a_whole_recording_is_processed_twice_before_it_is_smoothed():
    source = ToySource()
    windows = toy_stream(source, n=400, noise=3.0)
    windows = replace(windows, gap_before_s=np.where(np.arange(400) == 150, 45.0, 0.0))
    adapter = Keel().bind(source)
    first = run(adapter, windows)
    adapter.gap(1e9)  # no belief is left, all that was learned stays
    second = run(adapter, windows)
    seen = []
    whole = run(Keel().bind(source), windows, lag=math.inf, on_predictions=lambda done, _, q: seen.append((done, q)))
    np.testing.assert_array_equal(whole.q, smoothed(second).q)
    np.testing.assert_array_equal(np.concatenate([q for _, q in seen]), first.q)
    assert seen[-1][0] == 400
    given = run(Keel().bind(source), windows, lag=math.inf, encoded=source.encode(windows.x))
    np.testing.assert_array_equal(given.q, whole.q)


def test_other_methods_are_refused():
    source = ToySource()
    with pytest.raises(ValueError, match=r"Expected keel .* for lag=2, got sticky"):
        run(Sticky().bind(source), toy_stream(source, n=5), lag=2)


def test_a_lag_appears_in_name_and_delay():
    windows = toy_stream(n=200)
    now = run(Keel().bind(ToySource()), windows)
    later, whole = smoothed(now, 5), smoothed(now)
    assert [(result.lag, result.label) for result in (now, later, whole)] == [
        (0, "keel"),
        (5, "keel, lag 5"),
        (math.inf, "keel, whole recording"),
    ]
    plain = replace(later, lag=0.0)  # the same predictions without lag
    before, after = (score_result(result)["refined"] for result in (plain, later))
    for name in ("delay_mean_s", "delay_median_s", "delay_p90_s"):
        assert after[name] == pytest.approx(before[name] + 5 * windows.stride_s)
        assert math.isnan(score_result(whole)["refined"][name])
    assert after["changes_missed"] == before["changes_missed"]
    assert score_result(later)["raw"]["delay_median_s"] == score_result(now)["raw"]["delay_median_s"]


@pytest.mark.parametrize(("method", "lag", "words"), [(Keel(), 2.5, "lag of 0, 1, 2"), (Sticky(), 5, "got sticky")])
def test_an_invalid_lag_is_refused_before_anything_runs(method, lag, words):
    calls = []
    with pytest.raises(ValueError, match=words):
        run(method.bind(ToySource()), toy_stream(n=20), lag=lag, on_predictions=lambda *facts: calls.append(facts))
    assert calls == []
