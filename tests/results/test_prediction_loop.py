"""The evaluation loop: independent of the cut of a stream and of labels, with gaps reported."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import sight
from sight.models.given_features import FeatureSource
from sight.results import prediction_loop as evaluate
from sight.testing import ToySource, toy_stream


def with_gaps(windows, at):
    gaps = np.zeros(len(windows))
    gaps[list(at)] = 120.0
    return dataclasses.replace(windows, gap_before_s=gaps)


def test_the_size_of_pieces_makes_no_difference():
    source, windows = ToySource(), toy_stream(n=130)
    whole = evaluate.run(sight.method("sight").bind(source), windows)
    pieces = evaluate.run(sight.method("sight").bind(source), windows, at_once=7)
    np.testing.assert_allclose(whole.q, pieces.q, atol=1e-6)
    assert whole.trace["surprise"].shape == pieces.trace["surprise"].shape == (130,)


def test_gaps_are_reported_where_they_are():
    source, windows = ToySource(), with_gaps(toy_stream(n=60, noise=3), [0, 20, 40])
    result = evaluate.run(sight.method("sticky").bind(source), windows)
    adapter, rows = sight.method("sticky").bind(source), []
    for t in range(60):
        if windows.gap_before_s[t]:
            adapter.gap(120.0)
        rows.append(adapter.step(windows.x[t : t + 1]))
    np.testing.assert_allclose(result.q, np.concatenate(rows), atol=1e-6)


def test_labels_do_not_change_predictions():
    source, windows = ToySource(), toy_stream(n=80)
    blind = dataclasses.replace(windows, label=np.full(80, -1))
    labelled, unlabelled = (evaluate.run(sight.method("sight").bind(source), stream) for stream in (windows, blind))
    np.testing.assert_array_equal(labelled.q, unlabelled.q)


def test_progress_is_reported_to_the_end():
    calls = []
    evaluate.run(
        sight.method("none").bind(ToySource()),
        toy_stream(n=600),
        on_predictions=lambda n, p, q: calls.append((n, len(p), len(q))),
        at_once=256,
    )
    assert calls == [(256, 256, 256), (512, 256, 256), (600, 88, 88)]


def test_an_empty_stream_gives_an_empty_result():
    windows = toy_stream(n=0)
    result = evaluate.run(sight.method("sight").bind(ToySource()), windows)
    assert result.q.shape == result.p.shape == (0, 5)


def test_refine_needs_one_gap_per_window():
    with pytest.raises(ValueError, match="gap_before_s"):
        sight.refine(np.ones((3, 4)), np.full((3, 2), 0.5), np.eye(2, 4), method="none", gap_before_s=np.zeros(2))


def test_refine_uses_the_recommended_method_by_default():
    arrays = np.ones((3, 4)), np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]]), np.eye(2, 4)
    assert np.array_equal(sight.refine(*arrays), sight.refine(*arrays, method=sight.RECOMMENDED))


def test_trivial_baselines_by_hand():
    z, weight = np.ones((3, 4)), np.eye(2, 4)
    p = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    ema = sight.refine(z, p, weight, method="ema", a=0.5)
    np.testing.assert_allclose(ema[:, 0], [0.9, 0.7, 0.45])
    sticky = sight.refine(z, p, weight, method="sticky", s=0.8)
    first = 0.8 * 0.9 + 0.1
    second = 0.8 * first + 0.1
    np.testing.assert_allclose(sticky[:, 0], [0.9, first, 0.2 * second / (0.2 * second + 0.8 * (1 - second))])
    learned = sight.method("sticky-learned", s=0.8, rate=0.5).bind(FeatureSource(weight))
    np.testing.assert_allclose(learned.refine(z[:2], p[:2])[:, 0], [0.9, first])
    stayed = 0.8 * (0.5 * 0.9 + 0.5 * 0.1)
    target = stayed / (stayed + 0.2 * 0.5)
    np.testing.assert_allclose(learned.diagnostics()["stay"], 0.8 + 0.5 * (target - 0.8))
