"""Statistics against slow references by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats as reference

from sight.results.paired_tests import holm, signed_rank, verdicts
from sight.results.score_statistics import (
    SettingRuns,
    average_ranks,
    bootstrap_interval,
    mean_difference,
    record,
    two_way_interval,
)

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


def drawn_mean(differences, subjects, models):
    """Return the mean of one draw, by loops."""
    means = []
    for subject in subjects:
        own = [differences[subject][model] for model in models if not np.isnan(differences[subject][model])]
        if own:
            means.append(sum(own) / len(own))
    return sum(means) / len(means) if means else np.nan


def test_two_way_bootstrap_agrees_with_slow_loops():
    differences = RNG.normal(1, 1, size=(7, 1)) + RNG.normal(0, 1, size=(1, 4)) + RNG.normal(0, 0.3, size=(7, 4))
    differences[0, :2] = differences[3, 1:] = np.nan  # a target is not paired with every source
    draw = np.random.default_rng(11)
    slow = [drawn_mean(differences, draw.integers(7, size=7), draw.integers(4, size=4)) for _ in range(40_000)]
    expected = np.nanquantile(slow, [0.025, 0.975])
    assert bootstrap_interval(differences, draws=40_000) == pytest.approx(expected, abs=0.05)
    assert mean_difference(differences).mean == pytest.approx(drawn_mean(differences, range(7), range(4)))


def test_two_way_bootstrap_over_settings_agrees_with_slow_loops():
    """Two settings of one dataset with other models, and one of another dataset with half of the weight."""
    first, second, third = RNG.normal(1, 2, (6, 3)), RNG.normal(0, 2, (5, 2)), RNG.normal(-1, 2, (5, 2))
    names = [[*"abcdef"], [*"abcde"], [*"pqrst"]]
    draw, slow = np.random.default_rng(12), []
    for _ in range(20_000):
        people, others = draw.integers(6, size=6), draw.integers(5, size=5)
        parts = [
            drawn_mean(first, people, draw.integers(3, size=3)),
            drawn_mean(second, [one for one in people if one < 5], draw.integers(2, size=2)),
            drawn_mean(third, others, draw.integers(2, size=2)),
        ]
        slow.append(np.average(parts, weights=[1, 1, 0.5]))
    settings = [
        SettingRuns(first, names[0], ["A", "B", "C"], "one", 1.0),
        SettingRuns(second, names[1], ["AB", "CD"], "one", 1.0),
        SettingRuns(third, names[2], ["AB", "CD"], "two", 0.5),
    ]
    assert two_way_interval(settings, 20_000) == pytest.approx(np.nanquantile(slow, [0.025, 0.975]), abs=0.06)


def test_subjects_and_models_shared_by_settings_are_drawn_together():
    one, subjects, others = RNG.normal(size=(12, 3)), [*"abcdefghijkl"], [*"mnopqrstuvwx"]
    models = ["A", "B", "C"]

    def interval(second, names, columns, dataset="d"):
        return two_way_interval([SettingRuns(one, subjects, models, "d"), SettingRuns(second, names, columns, dataset)])

    assert interval(-one, subjects, models) == (0, 0)  # gains and losses cancel
    assert interval(-one[:, ::-1], subjects, models[::-1]) == (0, 0)  # by name, not by place
    for names, columns, dataset in ((others, models, "d"), (subjects, [*"DEF"], "d"), (subjects, models, "e")):
        low, high = interval(-one, names, columns, dataset)
        assert high - low > 0.2
    alone = bootstrap_interval(one)
    assert two_way_interval([SettingRuns(one, subjects, models)]) == alone
    both = interval(one, subjects, models, "e")
    assert (both[1] - both[0]) / (alone[1] - alone[0]) == pytest.approx(1 / np.sqrt(2), abs=0.05)


def test_one_source_model_leaves_subjects_alone_and_few_subjects_have_no_interval():
    one = RNG.normal(size=12)
    assert bootstrap_interval(one[:, None]) == bootstrap_interval(one)
    assert bootstrap_interval(np.column_stack([one, one])) == pytest.approx(bootstrap_interval(one))  # equal models
    few = SettingRuns(one[:3, None], [*"abc"], ["A"])
    assert np.isnan(two_way_interval([SettingRuns(one[:, None], range(12), ["A"]), few])).all()
    assert np.isnan(two_way_interval([])).all()


def test_two_way_bootstrap_has_its_nominal_coverage():
    """Over subjects alone, the interval misses the spread of models."""
    both, alone = [], []
    for _ in range(200):
        made = 0.3 + RNG.normal(size=(20, 1)) + RNG.normal(size=(1, 12)) + RNG.normal(size=(20, 12))
        for hits, values in ((both, made), (alone, made.mean(axis=1))):
            low, high = bootstrap_interval(values, draws=500)
            hits.append(low <= 0.3 <= high)
    assert 0.86 <= np.mean(both) <= 0.98
    assert np.mean(alone) < 0.85


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


def test_verdicts_are_corrected_over_settings_by_hand():
    up, small = np.arange(1.0, 7.0), np.array([0.1, 0.2, 0.3, 0.4, 0.5, -0.05])
    # p-values 2 / 64 and 4 / 64.
    assert verdicts([up]) == ["better"]
    assert verdicts([-up]) == ["worse"]
    assert verdicts([up, up]) == ["open", "open"]  # 2 x 2 / 64 is above 5 %
    seven = np.arange(1.0, 8.0)  # 2 / 128
    assert verdicts([seven, -seven, small]) == ["better", "worse", "open"]
    assert verdicts([seven] * 4) == ["open"] * 4
    assert verdicts([seven, up[:4]]) == ["better", "unknown"]  # a setting without a test is not in the family
    assert verdicts([]) == []


def test_a_mean_against_the_ranks_shows_nothing():
    assert verdicts([np.array([*np.arange(1.0, 12.0), -200.0])]) == ["open"]


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
