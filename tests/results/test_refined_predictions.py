"""`sight.refine`: probabilities alone, and features with probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sight
from sight.models.given_features import FLOOR, ProbabilitySource
from sight.results.refined_predictions import methods_without_features
from sight.testing import ToySource, toy_stream


@pytest.fixture(scope="module")
def stream():
    source, windows = ToySource(), toy_stream()
    z, p = source.encode(windows.x)
    return source, z, p, windows.label


def test_probabilities_alone_give_what_features_without_statistics_give(stream):
    source, z, p, _ = stream
    floored = (p + FLOOR / 5) / (1 + FLOOR)
    for method in ("keel", "sticky", "oatta"):
        expected = sight.refine(z, floored, source.weight.astype(np.float64), method=method)
        np.testing.assert_allclose(sight.refine(p, method=method), expected, atol=1e-6)


@pytest.mark.parametrize("method", methods_without_features())
def test_every_method_without_features_refines_votes_with_zeros(stream, method):
    votes = np.eye(5)[stream[2].argmax(axis=1)]
    q = sight.refine(votes, method=method, gap_before_s=np.r_[0, 90.0, np.zeros(len(votes) - 2)])
    assert q.shape == votes.shape
    np.testing.assert_allclose(q.sum(axis=1), 1)


def test_the_default_method_improves_a_correlated_stream(stream):
    _, _, p, label = stream
    raw, live, smooth = (
        (q.argmax(axis=1) == label).mean() for q in (p, sight.refine(p), sight.refine(p, lag=math.inf))
    )
    assert raw < live <= smooth


def test_sharpness_makes_evidence_stronger():
    even = np.array([[0.5, 0.3, 0.2]])
    assert ProbabilitySource("abc", 3).encode(even[:, :, None])[1][0, 0] > 0.7
    p = np.array([[0.6, 0.4]] * 5 + [[0.4, 0.6]] * 2)
    assert sight.refine(p, method="sticky")[-1].argmax() == 0
    assert sight.refine(p, method="sticky", sharpness=4)[-1].argmax() == 1


def test_errors_name_the_remedy(stream):
    source, z, p, _ = stream
    with pytest.raises(TypeError, match=r"probabilities alone \(none, .*keel.*\), got t3a.*refine\(z, p, weight\)"):
        sight.refine(p, method="t3a")
    with pytest.raises(TypeError, match="tent, which needs the network"):
        sight.refine(p, method="tent")
    with pytest.raises(TypeError, match=r"sight\.refine\(p\) or"):
        sight.refine(z, p)
    with pytest.raises(TypeError, match="no stats with probabilities alone"):
        sight.refine(p, stats=source.stats)
    with pytest.raises(ValueError, match=r"sum to 1, got .* for window 2"):
        sight.refine(np.where(np.arange(len(p))[:, None] == 2, np.nan, p))
    with pytest.raises(ValueError, match="not scores"):
        sight.refine(3 * p)
    with pytest.raises(ValueError, match=r"\(N, K\) with K >= 2, got shape \(200,\)"):
        sight.refine(p[:, 0])
    with pytest.raises(ValueError, match=r"keel has no parameter 'sharpnes'; .*hazard.* Did you mean 'sharpness'\?"):
        sight.refine(p, sharpnes=3)
    with pytest.raises(ValueError, match=r"ema has no parameter 'gap_half_life'; .* Did you mean 'gap_half_life_s'\?"):
        sight.method("ema", gap_half_life=3)
    with pytest.raises(ValueError, match="sharpness above 0, got 0"):
        sight.refine(p, sharpness=0)
