"""Statistics against slow references by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats as reference

from sight.results.score_statistics import average_ranks, bootstrap_interval, holm, record, shared_interval, signed_rank

RNG = np.random.default_rng(3)


def test_bootstrap_agrees_with_all_possible_draws():
    differences = np.array([-1.0, 0.5, 2.0, 3.5, 4.0, 0.1])
    every = [np.mean(draw) for draw in itertools.product(differences, repeat=6)]  # 46,656 draws
    expected = np.quantile(every, [0.025, 0.975])
    assert bootstrap_interval(differences, draws=100_000) == pytest.approx(expected, abs=0.06)


def test_bootstrap_is_deterministic_and_needs_five_subjects():
    differences = RNG.normal(size=20)
    assert bootstrap_interval(differences) == bootstrap_interval(differences)
    assert bootstrap_interval(differences) != bootstrap_interval(differences, draws=9_999)
    assert np.isnan(bootstrap_interval(differences[:4])).all()


def test_bootstrap_has_its_nominal_coverage():
    hits = [
        low <= 0.3 <= high for low, high in (bootstrap_interval(RNG.normal(0.3, 1, 30), draws=500) for _ in range(300))
    ]
    assert 0.88 <= np.mean(hits) <= 0.98


def test_subjects_shared_by_settings_are_drawn_together():
    one, subjects = np.random.default_rng(0).normal(size=12), [f"p{i}" for i in range(12)]
    others = [f"q{i}" for i in range(12)]
    assert shared_interval([one, -one], [subjects, subjects]) == pytest.approx((0, 0))  # gains and losses cancel
    low, high = shared_interval([one, -one], [subjects, others])
    assert high - low > 0.2
    assert shared_interval([one], [subjects]) == pytest.approx(bootstrap_interval(one))
    # Independent settings: the deviation of a mean of two is that of one over the root of two.
    single, both = bootstrap_interval(one), shared_interval([one, one], [subjects, others])
    assert (both[1] - both[0]) / (single[1] - single[0]) == pytest.approx(1 / np.sqrt(2), abs=0.04)
    assert all(np.isnan(shared_interval([one, one[:3]], [subjects, subjects[:3]])))


@pytest.mark.parametrize("n", [5, 8, 10])
def test_signed_rank_agrees_with_every_pattern_of_signs(n):
    differences = RNG.normal(0.4, 1, n)
    ranks = np.argsort(np.argsort(np.abs(differences))) + 1
    observed = ranks[differences > 0].sum()
    sums = np.array(
        [sum(r for r, sign in zip(ranks, signs, strict=True) if sign) for signs in itertools.product((0, 1), repeat=n)]
    )
    middle = n * (n + 1) / 4
    expected = np.mean(np.abs(sums - middle) >= abs(observed - middle))
    assert signed_rank(differences) == pytest.approx(expected)


def test_signed_rank_without_differences_and_with_ties():
    assert signed_rank(np.zeros(9)) == 1.0
    assert signed_rank(np.append(np.zeros(4), [1.0, 2.0, -3.0, 4.0, 5.0])) == signed_rank(
        np.array([1.0, 2.0, -3.0, 4.0, 5.0])
    )
    tied = np.array([1.0, 1.0, -1.0, 2.0, 2.0, 3.0] * 3)
    assert signed_rank(tied) == pytest.approx(reference.wilcoxon(tied, method="approx").pvalue)


def test_ties_among_few_subjects_are_enumerated():
    # Ranks 2, 2, 2, 4.5, 4.5, 6 with signs add up to 17; with none or one 2 negative they do, or with all turned round.
    assert signed_rank(np.array([1.0, 1.0, -1.0, 2.0, 2.0, 3.0])) == 2 * (1 + 3) / 2**6


@pytest.mark.parametrize("differences", [np.ones(5), np.array([1.0, 2.0, 2.0, 3.0, 3.0]), np.full(3, -4.0)])
def test_five_equal_subjects_are_never_below_one_in_twenty(differences):
    assert signed_rank(differences) == 2 / 2 ** len(differences)


def test_holm_by_hand():
    # Sorted: 0.01 x 4, 0.02 x 3 = 0.06, 0.03 x 2 = 0.06, 0.5 x 1; none may fall below the one before.
    assert holm([0.5, 0.01, 0.03, 0.02]) == pytest.approx([0.5, 0.04, 0.06, 0.06])
    assert holm([0.4, np.nan, 0.9]) == pytest.approx([0.8, np.nan, 0.9], nan_ok=True)
    assert holm([0.04, 0.045]) == pytest.approx([0.08, 0.08])
    assert len(holm([])) == 0


def test_holm_controls_the_family_wise_error():
    """Without any effect, at most about one family in twenty has a p-value below 0.05."""
    families = RNG.uniform(size=(2000, 6))
    assert np.mean([holm(p).min() < 0.05 for p in families]) < 0.065


def test_ranks_agree_with_scipy():
    scores = RNG.integers(0, 5, size=(40, 7)).astype(float)
    expected = reference.rankdata(-scores, axis=1).mean(axis=0)
    assert average_ranks(scores) == pytest.approx(expected)
    scores[3, 2] = np.nan
    assert average_ranks(scores) == pytest.approx(
        reference.rankdata(-np.delete(scores, 3, axis=0), axis=1).mean(axis=0)
    )
    assert np.isnan(average_ranks(np.full((2, 3), np.nan))).all()


def test_wins_ties_and_losses():
    assert record(np.array([0.004, -0.004, 0.006, -0.006, np.nan, 5.0])) == (2, 2, 1)
