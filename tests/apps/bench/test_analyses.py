"""Stream orders and feature-space analyses against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from sight import registry
from sight.apps.bench import analyses
from sight.apps.bench.stream_orders import reorder, stream_index
from sight.apps.bench.trials import Setting, Trial
from sight.methods.sight import SIGHT
from sight.testing import ToySource, toy_stream


def trial(order: str, seed: int = 0) -> Trial:
    return Trial(sources=("A",), target="B", seed=seed, encoder="cnn", order=order)


SETTING = Setting(name="s", dataset="d", options={}, pairs=())


def in_order(windows, *order):
    return reorder(windows, stream_index(windows.label, trial(*order), SETTING, ()))


def test_stream_orders():
    windows = toy_stream(ToySource(), n=100)
    windows.gap_before_s[50] = 30
    first = windows.x[:, 0, 0]
    joined = in_order(windows, "chronological")
    assert (joined.x == windows.x).all()
    assert not joined.gap_before_s.any()
    assert np.diff(joined.time_s) == pytest.approx(windows.stride_s)
    blocks = in_order(windows, "blocks")
    place = np.array([int(np.flatnonzero(first == value)[0]) for value in blocks.x[:, 0, 0]])
    assert sorted(place.tolist()) == list(range(100))
    jumps = np.flatnonzero(np.diff(place) != 1) + 1
    assert set(place[[0, *jumps]] % 32) == {0}  # only whole blocks of 32 move
    assert (blocks.label == windows.label[place]).all()
    shuffled = in_order(windows, "shuffled")
    assert sorted(shuffled.x[:, 0, 0].tolist()) == sorted(first.tolist())
    assert np.mean(np.diff(shuffled.label) != 0) > np.mean(np.diff(windows.label) != 0)
    assert (in_order(windows, "shuffled").x == shuffled.x).all()
    assert (in_order(windows, "shuffled", 1).x != shuffled.x).any()


def bound_stream(n: int = 120, noise: float = 0.3):
    source = ToySource()
    windows = toy_stream(source, n=n, noise=noise)
    return SIGHT().bind(source), windows, source.encode(windows.x)


def test_geometry_against_a_plain_loop():
    adapter, windows, (z, p) = bound_stream()
    found = analyses.geometry(adapter, windows, (z, p))
    again = SIGHT().bind(adapter.source)
    inside, change, routed = [], [], []
    belief = again.refine(z[:1], p[:1])[0]
    for t in range(1, len(z)):
        bank = again.class_prototypes() / np.linalg.norm(again.class_prototypes(), axis=1, keepdims=True)
        expected = bank.T @ belief
        expected = expected / np.linalg.norm(expected)
        feature = z[t] / np.linalg.norm(z[t])
        same = windows.label[t] == windows.label[t - 1]
        (inside if same else change).append(float(feature @ expected))
        if not same:
            towards = [(feature - expected) @ (mu - expected) / np.linalg.norm(mu - expected) for mu in bank]
            routed.append(int(np.argmax(towards)) == windows.label[t])
        belief = again.refine(z[t : t + 1], p[t : t + 1])[0]
    assert found["changes"] == len(change) > 3
    assert found["similarity_inside"] == pytest.approx(np.mean(inside), abs=1e-5)
    wins = np.mean([(a > b) + 0.5 * (a == b) for a in inside for b in change])
    assert found["auc"] == pytest.approx(wins, abs=1e-3)
    assert found["routing_top1"] == pytest.approx(np.mean(routed))
    assert sum(found["histogram_inside"]) == len(inside)


def test_prototypes_approach_the_centroids_of_a_shifted_subject():
    adapter, windows, (z, p) = bound_stream(n=600)
    shifted = z + 2 * np.abs(z).mean()
    found = analyses.prototypes(adapter.clone(eta_mu=0.2, omega_mu=0.0), windows, (shifted, p))
    first, last = np.array(found["prototype_first"]), np.array(found["prototype_last"])
    repeated = np.array(found["prototype_segments"]) >= 2
    assert (np.isfinite(first) == repeated).all()
    assert (last[repeated] > first[repeated]).all()
    frozen = analyses.prototypes(adapter.clone(prototypes="off"), windows, (shifted, p))
    start, source = (np.array(frozen[f"prototype_{name}"])[repeated] for name in ("first", "source"))
    assert start == pytest.approx(source, abs=1e-5)


def test_motivation_counts_transitions_and_peaks_at_changes():
    adapter, windows, encoded = bound_stream()
    found = analyses.motivation(adapter, windows, encoded)
    expected = np.zeros((5, 5), int)
    for before, after in zip(windows.label[:-1], windows.label[1:], strict=True):
        expected[before, after] += 1
    assert found["transitions_true"] == expected.tolist()
    mean = np.array(found["deviation_sum"]) / np.maximum(found["deviation_count"], 1)
    assert mean.argmax() == analyses.AROUND
    assert found["deviation_count"][analyses.AROUND] == found["changes"]
    assert found["towards_new"] > found["towards_old"]


def test_each_class_is_a_separate_stream():
    adapter, windows, (z, p) = bound_stream(noise=2.0)
    windows.label[:7] = -1
    found = analyses.classes(adapter, windows, (z, p))
    right = []
    for k in np.unique(windows.label[7:]):
        own = windows.label == k
        right.append(SIGHT().bind(adapter.source).refine(z[own], p[own]).argmax(axis=1) == k)
    assert found["accuracy"] == pytest.approx(np.concatenate(right).mean())
    assert found["balanced_accuracy"] == pytest.approx(np.mean([own.mean() for own in right]))
    assert found["streams"] == len(right) > 3
    assert found["accuracy"] < 1  # otherwise the comparison proves little


def test_analyses_refuse_methods_without_prototypes():
    adapter, windows, encoded = bound_stream(n=20)
    with pytest.raises(TypeError, match="with prototypes"):
        analyses.geometry(registry.method("ema").bind(adapter.source), windows, encoded)
