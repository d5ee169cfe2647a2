"""Keel against a slow transcription, the effect of each part, and streams on which it must not lose accuracy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sight.methods.keel import Keel
from sight.methods.keel.method import vetoed
from sight.methods.ops import softmax
from sight.methods.sticky import Sticky
from sight.models.given_features import FeatureSource
from sight.testing import ToySource, toy_stream
from sight.types import SourceStats

OFF = {"prototypes": 0.0, "align": 0.0, "debias": 0.0, "surprise": 0.0, "temper": 1.0, "rate": 0.0}


def toy(n=300, classes=5, seed=1, noise=1.0):
    source = ToySource(classes=classes, dtype="float64")
    return source, *source.encode(toy_stream(source, n=n, seed=seed, noise=noise).x)


def day(order, lasts, seed=0, margin=3.0, noise=2.0, bias=None, dims=6):
    """Return a source, labels, features and biased probabilities of a day; each activity lasts `lasts` windows."""
    rng = np.random.default_rng(seed)
    y = np.repeat(order, lasts)
    z = margin * np.eye(dims)[y] + noise * rng.normal(size=(len(y), dims))
    source = FeatureSource(np.eye(dims))
    return source, y, z, softmax(z + (0 if bias is None else np.asarray(bias)))


def labels(adapter, source, z, p):
    return adapter.bind(source).refine(z, p).argmax(axis=1)


# --- all parts --------------------------------------------------------------------------------------------------


def transcription(source, z, p, keel):
    """Compute the method window by window in plain Python, from its description."""
    k_all = range(len(source.weight))
    stats, mean = source.stats, source.stats.feature_mean

    def centred(values):
        return [v - sum(values) / len(values) for v in values]

    def cosines(f):
        away = [a - b for a, b in zip(f, mean, strict=True)]
        out = []
        for k in k_all:
            axis = [a - b for a, b in zip(stats.class_means[k], mean, strict=True)]
            dot = sum(a * b for a, b in zip(away, axis, strict=True))
            out.append(dot / math.hypot(*away) / math.hypot(*axis))
        return out

    def head(f):
        return [sum(w * v for w, v in zip(source.weight[k], f, strict=True)) + source.bias[k] for k in k_all]

    def margin(scores):
        return sum(scores[k][k] - max(scores[k][j] for j in k_all if j != k) for k in k_all) / len(k_all)

    at_means = [cosines(stats.class_means[k]) for k in k_all]
    scale = margin([head(stats.class_means[k]) for k in k_all]) / margin(at_means)
    a, n0, size = keel.prototypes, keel.patience, len(k_all)
    opinion = centred([sum(stats.prior[j] * at_means[j][k] for j in k_all) for k in k_all])
    expected = [(1 - a) * h + a * scale * c for h, c in zip(centred(head(mean)), opinion, strict=True)]
    seen, steps, fars, rows, hazard = [], [], [], [], keel.hazard
    for t in range(len(p)):
        heads, second = centred([math.log(v) for v in p[t]]), centred(cosines(z[t]))
        x = [(1 - a) * h + a * scale * c for h, c in zip(heads, second, strict=True)]
        predicted = [sum(q[k] for q in rows) for k in k_all]
        shares = [(predicted[k] + n0 * stats.prior[k]) / (t + n0) for k in k_all]
        spread = -sum(v / t * math.log(v / t) for v in predicted if v > 0) if t else 0.0
        strength = max((math.exp(spread) - 1) / (size - 1) - 0.1, 0) / 0.9
        drift = [sum(s[k] - expected[k] for s in seen) / (t + n0) for k in k_all]
        kept = keel.pooled + (1 - keel.pooled) / stats.subjects if stats.subjects else keel.pooled
        excess = [kept * min(keel.debias * math.log(shares[k] / stats.prior[k]), keel.penalty) for k in k_all]
        bias = [kept * keel.align * drift[k] + max(excess[k], -4) for k in k_all]
        e = [math.exp(x[k] - strength * bias[k]) for k in k_all]
        e = [v / sum(e) for v in e]
        if t == 0:
            q = e
        else:
            step = 0.5 * math.log(sum((x[k] - seen[-1][k]) ** 2 for k in k_all) + 1e-6)
            change = hazard
            if len(steps) >= 5:
                near, far = sum(steps) / len(steps), sum(fars) / len(fars)
                sd = math.sqrt((sum((s - near) ** 2 for s in steps) + 5 * 0.25) / (len(steps) + 5))
                delta = max((far - near) / sd, 0)
                factor = keel.surprise * delta * ((step - near) / sd - delta / 2)
                odds = hazard / (1 - hazard) * math.exp(min(max(factor, -2), 2))
                change = odds / (1 + odds)
            middle = [sum(s[k] for s in seen) / t for k in k_all]
            steps.append(step)
            fars.append(0.5 * math.log(2 * sum((x[k] - middle[k]) ** 2 for k in k_all) + 1e-6))
            e = [v ** (keel.temper + (1 - keel.temper) * min(1, hazard / keel.hazard)) for v in e]
            stayed = [(1 - change) * rows[-1][k] * e[k] for k in k_all]
            q = [stayed[k] + change / size * e[k] for k in k_all]
            q = [v / sum(q) for v in q]
            drawn = change * sum(s * v for s, v in zip(shares, e, strict=True))
            target = drawn / (drawn + sum(stayed))
            hazard = min(max(hazard + max(keel.rate, 1 / (20 + t)) * (target - hazard), 0.01), 0.95)
        seen.append(x)
        rows.append(q)
    return np.array(rows)


@pytest.mark.parametrize(
    "fields", [{}, {"prototypes": 0.0, "patience": 5.0}, {"surprise": 3.0, "penalty": 0.1, "temper": 0.3}]
)
def test_predictions_equal_a_slow_transcription(fields):
    source, z, p = toy(n=100)
    keel = Keel(**fields)
    np.testing.assert_allclose(keel.bind(source).refine(z, p), transcription(source, z, p, keel), atol=1e-9)


def test_without_its_parts_it_is_the_sticky_filter():
    source, z, p = toy()
    q = Keel(**OFF, hazard=0.2).bind(source).refine(z, p)
    np.testing.assert_allclose(q, Sticky(s=0.8).bind(source).refine(z, p), atol=1e-12)


def test_float32_predicts_the_same_labels():
    source, z, p = toy()
    single = ToySource(dtype="float32")
    q = Keel().bind(single).refine(z.astype("float32"), p.astype("float32"))
    assert q.dtype == np.float32
    assert (q.argmax(axis=1) == Keel().bind(source).refine(z, p).argmax(axis=1)).mean() > 0.99


# --- each part -------------------------------------------------------------------------------------------------


def test_debias_corrects_a_bias_that_the_filter_cannot():
    source, y, z, p = day(np.tile(np.arange(6), 10), 12, bias=[0, 0, 0, 0, 0, 4.0])
    off, bounded, free = (
        (labels(Keel(pooled=1.0, **fields), source, z, p) == y).mean()
        for fields in ({"debias": 0.0}, {}, {"penalty": 99.0})
    )
    assert off < (p.argmax(axis=1) == y).mean() < bounded < free - 0.1


def test_the_penalty_protects_a_class_that_fills_the_day():
    blocks = [2, 0, 2, 1, 2, 3, 2, 4, 2, 5] * 6
    source, y, z, p = day(blocks, [45, 30] * 30, margin=3.0, noise=1.5)
    accuracy = {
        penalty: (labels(Keel(penalty=penalty, debias=4.0), source, z, p) == y).mean() for penalty in (0.0, 1.0, 99.0)
    }
    assert accuracy[0.0] >= accuracy[1.0] > accuracy[99.0] + 0.01


def with_stats(source, means, subjects=0):
    prior = np.full(len(means), 1 / len(means))
    stats = SourceStats(prior=prior, feature_mean=means.mean(axis=0), class_means=means, count=100, subjects=subjects)
    return FeatureSource(source.weight, stats=stats)


@pytest.mark.parametrize(("subjects", "share"), [(1, 1.0), (2, 0.6), (8, 0.3), (0, 0.2)])
def test_a_source_of_more_subjects_is_corrected_less(subjects, share):
    source, z, p = toy(n=100)
    source.stats = replace(source.stats, subjects=subjects)
    fields = {"align": 0.5, "debias": 3.0, "penalty": 0.4}
    scaled = {name: share * value for name, value in fields.items()}
    q = Keel(**fields, pooled=0.2).bind(source).refine(z, p)
    np.testing.assert_allclose(q, Keel(**scaled, pooled=1.0).bind(source).refine(z, p), atol=1e-12)


def test_align_removes_a_shift_of_the_features():
    source, y, z, _ = day(np.tile(np.arange(6), 10), 12)
    z = z + 3 * np.array([1.0, -1, 0, 0, 1, -1])
    p = softmax(z)
    source = with_stats(source, 3 * np.eye(6))
    only = {**OFF, "hazard": 0.95, "pooled": 1.0}
    off, half, whole = ((labels(Keel(**only | {"align": a}), source, z, p) == y).mean() for a in (0.0, 0.5, 1.0))
    assert off + 0.05 < half < whole


def test_prototypes_help_with_a_damaged_head():
    source, y, z, _ = day(np.tile(np.arange(6), 5), 12)
    damaged = np.eye(6)
    damaged[0, 0] = 0.3
    source = with_stats(FeatureSource(damaged), 3 * np.eye(6))
    p = softmax(z @ damaged.T)
    only = {**OFF, "hazard": 0.95}
    accuracy = [(labels(Keel(**only | {"prototypes": share}), source, z, p) == y).mean() for share in (0.0, 0.5)]
    assert accuracy[1] > accuracy[0] + 0.02


def test_a_stream_of_one_class_is_hardly_corrected():
    source, y, z, p = day([2], 1500, margin=5.0, noise=1.5)
    keel = Keel(penalty=99.0)  # nothing but the coverage limits the correction
    assert (labels(keel, source, z, p) == y).mean() >= (p.argmax(axis=1) == y).mean()
    assert keel.strength() < 0.05
    broad, _, z, p = day(np.tile(np.arange(6), 25), 10, margin=5.0, noise=1.5)
    keel.bind(broad).refine(z, p)
    assert keel.strength() > 0.9


def test_one_distance_changes_the_odds_of_a_change_at_most_7_times():
    source, _, z, p = day(np.tile([0, 3], 20), 30, noise=0.3)
    keel = Keel(rate=0.0, hazard=0.1).bind(source)
    keel.refine(z, p)
    odds = keel.trace()["surprise"][1:] / (1 - keel.trace()["surprise"][1:])
    assert np.isclose(odds.max(), math.exp(2) / 9)
    assert np.isclose(odds.min(), math.exp(-2) / 9)


def test_a_bout_keeps_raw_classes_that_are_too_frequent_to_be_replaced():
    refined = np.array([0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0])
    raw = np.array([0, 0, 0, 2, 3, 3, 0, 1, 2, 0, 0, 0, 1])
    # First bout: four raw predictions of 0, one of 2 and two of 3; second: one of 1, one of 2; third: three to one.
    kept = np.flatnonzero(vetoed(raw, refined, 3.0, 4))
    assert kept.tolist() == [4, 5, 8]
    assert np.flatnonzero(vetoed(raw, refined, 4.0, 4)).tolist() == [4, 5, 8, 12]
    assert not vetoed(raw, refined, 0.0, 4).any()


@pytest.mark.parametrize(("subjects", "kept"), [(1, True), (10, False), (0, False)])
def test_veto_is_for_few_source_subjects_and_few_classes(subjects, kept):
    source, _, _, p = day([2, 0, 2], [60, 20, 60], margin=1.0, noise=1.0)
    source = with_stats(source, 3 * np.eye(6), subjects=subjects)
    q = np.zeros_like(p)
    q[:, 2] = 1
    q[60:80, 2], q[60:80, 0] = 0, 1
    keel = Keel().bind(source)
    settled = keel.settle(p, q)
    assert ((settled == q) | (settled == p)).all(axis=1).all()
    assert (settled != q).any() == kept
    broad = np.eye(6)[np.arange(len(p)) * 6 // len(p)]
    assert (keel.settle(p, broad) == broad).all()
    assert (Keel(veto=0.0).bind(source).settle(p, q) == q).all()


def test_surprise_finds_a_change_sooner():
    source, y, z, p = day(np.tile([0, 3, 1, 5, 2, 4], 8), 20, noise=1.0)
    after = np.flatnonzero(np.diff(y)) + 1
    late = {s: (labels(Keel(surprise=s, debias=0.0), source, z, p)[after] != y[after]).mean() for s in (0.0, 1.5)}
    assert late[1.5] < late[0.0] - 0.05


def test_surprise_has_no_effect_on_a_shuffled_stream():
    source, _, z, p = day(np.random.default_rng(5).integers(0, 6, 600), 1)
    on, off = (Keel(surprise=s).bind(source) for s in (1.5, 0.0))
    assert (on.refine(z, p).argmax(axis=1) == off.refine(z, p).argmax(axis=1)).mean() > 0.95
    state = on.state()
    assert state["far"] - state["near"] < 0.1


def test_hazard_learns_how_long_activities_last():
    found = []
    for lasts in (1, 10, 100):
        order = np.random.default_rng(1).permutation(np.resize(np.arange(6), 1200 // lasts))
        source, _, z, p = day(order, lasts, noise=1.0)
        adapter = Keel().bind(source)
        adapter.refine(z, p)
        found.append(adapter.diagnostics()["hazard"])
    assert found[0] > 0.5 > found[1] > found[2]


def test_tempering_keeps_a_long_activity_over_a_wrong_window():
    source, _, z, _ = day([0, 1], 200, noise=0.5)
    p = softmax(z)
    p[350] = softmax(np.array([6.5, 0.0, 0, 0, 0, 0]))
    plain = {"surprise": 0.0, "debias": 0.0}
    assert labels(Keel(**plain), source, z, p)[350] == 1
    assert labels(Keel(**plain, temper=1.0), source, z, p)[350] == 0


def test_without_statistics_features_are_not_used():
    source, _, z, p = day(np.tile(np.arange(6), 5), 12)
    q = Keel().bind(source).refine(z, p)
    assert np.array_equal(q, Keel(prototypes=0.0, align=0.0).bind(source).refine(np.ones_like(z), p))


def test_agreement_is_the_overlap_of_head_and_class_means():
    """Features at the means of classes 0 and 1, both of which the head predicts as 0."""
    source = with_stats(FeatureSource(np.eye(6)), 3 * np.eye(6))
    z = 3 * np.eye(6)[[0, 1]]
    p = softmax(30 * np.eye(6)[[0, 0]])
    adapter = Keel().bind(source)
    adapter.refine(z, p)
    cosines = [1.0, -0.2]  # between class directions seen from their mean: corners of a regular simplex
    scale = 3 / (cosines[0] - cosines[1])
    known = math.exp(scale * cosines[0]) / (math.exp(scale * cosines[0]) + 5 * math.exp(scale * cosines[1]))
    np.testing.assert_allclose(adapter.trace()["agreement"][0], known, atol=1e-3)
    np.testing.assert_allclose(adapter.trace()["agreement"][1], (1 - known) / 5, atol=1e-3)
    alone = Keel().bind(FeatureSource(np.eye(6)))
    alone.refine(z, p)
    assert set(alone.trace()) == {"surprise", "hazard", "strength"}


# --- no loss ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_little_is_lost_on_a_shuffled_stream(seed):
    source, y, z, p = day(np.tile(np.arange(6), 20), 12, seed=seed)
    mixed = np.random.default_rng(seed).permutation(len(y))
    raw, keel, sticky = (
        (found == y[mixed]).mean()
        for found in (p[mixed].argmax(axis=1), *(labels(a, source, z[mixed], p[mixed]) for a in (Keel(), Sticky())))
    )
    assert raw - keel < 0.03
    assert raw - keel < (raw - sticky) / 4


@pytest.mark.parametrize("k", range(5))
def test_nothing_is_lost_on_one_class(k):
    source, z, p = toy(n=1500)
    own = toy_stream(source, n=1500).label == k
    assert (labels(Keel(), source, z[own], p[own]) == k).mean() >= (p[own].argmax(axis=1) == k).mean()


def test_the_loss_is_bounded_if_its_assumptions_are_wrong():
    """An unbiased source, other class frequencies and no order: nothing to gain, and little is lost."""
    lost = []
    for seed in range(6):
        source, z, p = toy(n=400, seed=seed + 1)
        y = toy_stream(source, n=400, seed=seed + 1).label
        mixed = np.random.default_rng(seed).permutation(len(y))
        lost.append((p.argmax(axis=1) == y).mean() - (labels(Keel(), source, z[mixed], p[mixed]) == y[mixed]).mean())
    assert 0 < np.mean(lost) < 0.05


def test_a_class_without_training_data_stays_finite():
    source, z, p = toy(n=80)
    old = source.stats
    means = old.class_means.copy()
    means[2] = old.feature_mean
    prior = np.array([0.25, 0.25, 0.0, 0.25, 0.25])
    stats = SourceStats(prior=prior, feature_mean=old.feature_mean, class_means=means, count=100)
    q = Keel().bind(FeatureSource(source.weight, source.bias, stats=stats)).refine(z, p)
    assert np.isfinite(q).all()


def test_certain_predictions_stay_finite():
    p = np.eye(3)[[0, 1, 2, 0, 0, 1, 1, 2]]
    q = Keel().bind(FeatureSource(np.eye(3, 4))).refine(np.zeros((8, 4)), p)
    assert np.isfinite(q).all()
    assert q.argmax(axis=1).tolist() == [0, 1, 2, 0, 0, 1, 1, 2]


# --- state -------------------------------------------------------------------------------------------------------


def test_a_gap_relaxes_the_belief_and_removes_the_neighbour():
    source, z, p = toy(n=60)
    adapter = Keel().bind(source)
    adapter.refine(z[:50], p[:50])
    before = adapter.state()
    adapter.gap(30.0)
    after = adapter.state()
    np.testing.assert_allclose(after["belief"], 0.2 + (before["belief"] - 0.2) / 2)
    changed = {key for key in before if not np.array_equal(before[key], after[key])}
    assert changed == {"belief", "linked"}
    adapter.refine(z[50:51], p[50:51])
    assert adapter.state()["pairs"] == before["pairs"]
    adapter.refine(z[51:52], p[51:52])
    assert adapter.state()["pairs"] == before["pairs"] + 1


def test_a_gap_before_the_first_window_changes_nothing():
    source, z, p = toy(n=30)
    adapter = Keel().bind(source)
    adapter.gap(100.0)
    assert np.array_equal(adapter.refine(z, p), Keel().bind(source).refine(z, p))


def test_the_size_of_the_state_does_not_depend_on_the_features():
    sizes = [Keel().bind(FeatureSource(np.ones((5, d)))).state_bytes()["statistics"] for d in (8, 2048)]
    assert sizes[0] == sizes[1] < 400


@pytest.mark.parametrize(
    "fields", [{"prototypes": 1.5}, {"debias": -1.0}, {"hazard": 0.0}, {"patience": 0.0}, {"temper": -0.1}]
)
def test_invalid_fields_are_refused(fields):
    with pytest.raises(ValueError, match=f"keel: expected .*{next(iter(fields))}"):
        Keel(**fields)
