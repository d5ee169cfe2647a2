"""Metrics against scikit-learn or a loop, on streams with absent classes, one class, one window, no label."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn import metrics as reference

from sight.results import metrics
from sight.types import Result, Windows

K = 4


@st.composite
def streams(draw, smallest=1):
    n = draw(st.integers(smallest, 40))
    used = draw(st.integers(1, K))
    truth = np.array(draw(st.lists(st.integers(-1, used - 1), min_size=n, max_size=n)))
    predicted = np.array(draw(st.lists(st.integers(0, K - 1), min_size=n, max_size=n)))
    gap = np.array(draw(st.lists(st.sampled_from([0.0, 0.0, 0.0, 30.0]), min_size=n, max_size=n)))
    return truth, predicted, gap


def table_of(truth, predicted):
    table = metrics.confusion(truth, predicted, K)
    kept = truth >= 0
    return table, truth[kept], predicted[kept]


@given(streams())
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning", "ignore:A single label")
def test_confusion_metrics_agree_with_scikit_learn(stream):
    table, truth, predicted = table_of(*stream[:2])
    if len(truth) == 0:
        return
    all_classes = {"labels": range(K), "zero_division": 0}
    np.testing.assert_array_equal(table, reference.confusion_matrix(truth, predicted, labels=range(K)))
    assert metrics.accuracy(table) == pytest.approx(reference.accuracy_score(truth, predicted))
    recall = reference.recall_score(truth, predicted, labels=np.unique(truth), average="macro", zero_division=0)
    assert metrics.balanced_accuracy(table) == pytest.approx(recall)
    np.testing.assert_allclose(metrics.f1(table), reference.f1_score(truth, predicted, average=None, **all_classes))
    np.testing.assert_allclose(
        metrics.precision(table), reference.precision_score(truth, predicted, average=None, **all_classes)
    )
    np.testing.assert_allclose(
        metrics.recall(table), reference.recall_score(truth, predicted, average=None, **all_classes)
    )
    macro = {"average": "macro", "zero_division": 0}
    assert metrics.macro_f1_union(table) == pytest.approx(reference.f1_score(truth, predicted, **macro))
    assert metrics.macro_f1_truth(table) == pytest.approx(
        reference.f1_score(truth, predicted, labels=np.unique(truth), **macro)
    )
    assert metrics.macro_f1_all(table) == pytest.approx(reference.f1_score(truth, predicted, labels=range(K), **macro))


@given(streams())
@settings(max_examples=60, deadline=None)
def test_kappa_agrees_with_scikit_learn(stream):
    table, truth, predicted = table_of(*stream[:2])
    if len(np.union1d(truth, predicted)) < 2:
        assert math.isnan(metrics.kappa(table))
    else:
        assert metrics.kappa(table) == pytest.approx(reference.cohen_kappa_score(truth, predicted))


def test_three_variants_of_macro_f1_by_hand():
    """Class 2 never occurs and is predicted once, class 3 occurs nowhere."""
    table = metrics.confusion(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2]), 4)
    assert metrics.macro_f1_truth(table) == pytest.approx((1 + 2 / 3) / 2)
    assert metrics.macro_f1_union(table) == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert metrics.macro_f1_all(table) == pytest.approx((1 + 2 / 3 + 0 + 0) / 4)


def probabilities(n, seed, dtype=np.float64):
    return np.random.default_rng(seed).dirichlet(np.full(K, 0.4), size=n).astype(dtype)


@given(streams(), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_probability_metrics_agree_with_references(stream, seed):
    truth, _, _ = stream
    q = probabilities(len(truth), seed)
    kept = truth >= 0
    if not kept.any():
        assert all(math.isnan(f(truth, q)) for f in (metrics.nll, metrics.brier, metrics.ece))
        return
    log_loss = reference.log_loss(truth[kept], np.maximum(q[kept], 1e-12), labels=range(K))
    assert metrics.nll(truth, q) == pytest.approx(log_loss, rel=1e-6)
    one_hot = np.eye(K)[truth[kept]]
    assert metrics.brier(truth, q) == pytest.approx(
        np.mean([sum((a - b) ** 2) for a, b in zip(q[kept], one_hot, strict=True)])
    )
    assert metrics.ece(truth, q) == pytest.approx(reference_ece(truth[kept], q[kept], 15))


def reference_ece(truth, q, bins):
    total = 0.0
    for b in range(bins):
        low, high = b / bins, (b + 1) / bins
        inside = [i for i in range(len(truth)) if low < max(q[i]) <= high]
        if inside:
            confidence = sum(max(q[i]) for i in inside) / len(inside)
            accuracy = sum(int(np.argmax(q[i]) == truth[i]) for i in inside) / len(inside)
            total += len(inside) / len(truth) * abs(confidence - accuracy)
    return total


def test_log_likelihood_is_clipped():
    assert metrics.nll(np.array([0]), np.array([[0.0, 1.0]])) == pytest.approx(-math.log(1e-12))
    assert metrics.nll(np.array([1]), np.array([[0.0, 1.0]], np.float32)) == 0.0


def test_calibration_error_of_certain_predictions_is_their_error_rate():
    q = np.eye(2)[[0, 0, 0, 1]]
    assert metrics.ece(np.array([0, 0, 1, 1]), q) == pytest.approx(0.25)


def test_calibration_bins_are_closed_on_the_right():
    """A wrong prediction at 0.5 and a correct one at 0.9 lie in different bins of width 0.5, so their errors add up."""
    q = np.array([[0.5, 0.3, 0.2], [0.9, 0.1, 0.0]])
    assert metrics.ece(np.array([1, 0]), q, bins=2) == pytest.approx((0.5 + 0.1) / 2)


def test_time_use_by_hand():
    """Truth has 3 hours of class 0 and 1 of class 1, predictions 2 and 2: an error of six hours per day."""
    table = metrics.confusion(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), 3)
    np.testing.assert_allclose(metrics.time_use_error(table), [-360, 360, 0])
    scores = metrics.score(
        np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), classes="abc", time_s=np.arange(4.0), stride_s=3600
    )
    assert scores["time_use_mae_min"] == pytest.approx(240)
    assert scores["hours"] == 4


def reference_delays(truth, predicted, time_s, gap):
    """Compute delays window by window."""
    delays = []
    for i in range(1, len(truth)):
        if truth[i] < 0 or truth[i - 1] < 0 or truth[i] == truth[i - 1] or gap[i] > 0:
            continue
        delay, j = math.nan, i
        while j < len(truth) and truth[j] == truth[i] and (j == i or gap[j] == 0):
            if predicted[j] == truth[i]:
                delay = time_s[j] - time_s[i]
                break
            j += 1
        delays.append(delay)
    return delays


def test_a_change_through_unlabelled_windows_has_no_delay():
    truth, predicted = np.array([0, 0, -1, 1, 1]), np.array([0, 0, 0, 0, 1])
    summary = metrics.delay_summary(metrics.transition_delays(truth, predicted, np.arange(5.0)))
    assert summary["changes"] == 0
    assert np.isnan(summary["delay_median_s"])


@given(streams(smallest=0))
@settings(max_examples=100, deadline=None)
def test_transition_delays_agree_with_a_loop(stream):
    truth, predicted, gap = stream
    truth, predicted = truth.astype(int), predicted.astype(int)
    time_s = np.cumsum(1 + gap)
    np.testing.assert_allclose(
        metrics.transition_delays(truth, predicted, time_s, gap), reference_delays(truth, predicted, time_s, gap)
    )


def test_delay_summary_counts_missed_changes():
    scores = metrics.delay_summary(np.array([0.0, np.nan, 2.0, 10.0]))
    assert scores["changes"] == 4
    assert scores["changes_missed"] == 1
    assert scores["delay_mean_s"] == pytest.approx(4)
    assert scores["delay_median_s"] == 2
    assert scores["delay_p90_s"] == pytest.approx(8.4)


@given(streams(smallest=0), st.booleans())
@settings(max_examples=60, deadline=None)
def test_score_has_the_same_metrics_for_any_stream(stream, as_labels):
    truth, predicted, gap = stream
    truth, predicted = truth.astype(int), predicted.astype(int)
    q = predicted if as_labels else probabilities(len(truth), 0)
    scores = metrics.score(truth, q, classes="abcd", time_s=np.arange(float(len(truth))), stride_s=1, gap_before_s=gap)
    table = metrics.confusion(truth, q if as_labels else q.argmax(axis=1), K)
    assert scores["windows"] == (truth >= 0).sum()
    assert scores["confusion"] == table.tolist()
    assert scores["macro_f1_union"] == pytest.approx(metrics.macro_f1_union(table), nan_ok=True)
    assert math.isnan(scores["ece"]) == (as_labels or not (truth >= 0).any())
    assert scores["frames_correct"] == pytest.approx(metrics.accuracy(table) if table.any() else 0)
    for name, value in scores.items():
        assert isinstance(value, (int, float, list)), name


def test_score_result_scores_raw_and_refined():
    label = np.array([0, 0, 1, -1])
    windows = Windows(
        x=np.zeros((4, 1, 1), np.float32),
        time_s=np.arange(4.0),
        label=label,
        gap_before_s=np.zeros(4),
        window_s=1,
        stride_s=1,
    )
    correct, wrong = np.eye(2)[[0, 0, 1, 0]], np.eye(2)[[1, 0, 1, 0]]
    result = Result(method="none", params={}, classes=("a", "b"), p=wrong, q=correct, windows=windows)
    scores = metrics.score_result(result)
    assert scores["refined"]["accuracy"] == 1
    assert scores["raw"]["accuracy"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("truth", "q", "message"),
    [
        ([0, 1], np.ones((3, 2)), "one row for each window"),
        ([0, 2], np.ones((2, 2)), "from -1 to 1"),
        ([0.0, 1.0], np.ones((2, 2)), "whole numbers"),
        ([0, 1], np.array([0, -1]), "from 0 to 1"),
        ([0, 1], np.array([[np.nan, 1], [0, 1]]), "finite"),
    ],
)
def test_invalid_inputs_raise(truth, q, message):
    with pytest.raises(ValueError, match=message):
        metrics.score(np.array(truth), q, classes="ab", time_s=np.arange(2.0), stride_s=1)
