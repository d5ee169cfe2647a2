"""The recursions that choose Keel's hyper-parameters give the predictions of the package's methods."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("torch")

from benchmarks.keel import projections
from benchmarks.keel.recursions import DEFAULTS, Model, read, run_keel, smooth, sticky_learned, streams

from sight.apps.bench.trial_data import load_trial
from sight.datasets import windows_of
from sight.methods.keel import Keel
from sight.methods.ops import softmax
from sight.methods.sticky import StickyLearned
from sight.models.given_features import FeatureSource
from sight.results.prediction_loop import run
from sight.results.smoothing import backward
from sight.testing import toy_stream
from sight.types import SourceStats


@pytest.fixture
def evidence():
    rng = np.random.default_rng(3)
    classes = np.repeat(rng.choice(5, 40, p=[0.8, 0.1, 0.05, 0.05, 0.0]), 10)
    x = 2 * np.eye(5)[classes] + 1.5 * rng.normal(size=(400, 5))
    return x - x.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("lag", [0, 5, math.inf])
@pytest.mark.parametrize("fields", [{}, {"veto": 0.0}, {"surprise": 0.0, "rate": 0.0}], ids=str)
def test_keel_equals_the_method(evidence, lag, fields):
    """Without class means the evidence is that of the head, which is 0 on average in the training data."""
    fields = {"prototypes": 0.0, **fields}
    prior = np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    nothing = np.zeros(5)
    model = Model(
        setting="toy",
        seed=0,
        sedentary=[],
        head=evidence,
        cosine=0 * evidence,
        head_mean=nothing,
        cosine_mean=nothing,
        prior=prior,
        labels=[],
        edges=np.array([0, 400]),
        subjects={0},
    )
    stats = SourceStats(prior=prior, feature_mean=nothing, class_means=np.eye(5), count=100, subjects=1)
    source = FeatureSource(np.eye(5), stats=stats)
    windows = toy_stream(n=400)
    encoded = (np.zeros((400, 5)), softmax(evidence))
    result = run(Keel(**fields).bind(source), windows, encoded=encoded, lag=lag)
    labels = run_keel(model, np.arange(400), DEFAULTS | fields, lag)
    assert (labels == result.q.argmax(axis=1)).all()
    assert (labels != evidence.argmax(axis=1)).sum() > 5


def test_projections_lead_to_the_labels_of_the_method(tmp_path):
    """Half precision changes only labels of windows with two nearly equal probabilities."""
    trial, job = projections.source_models(tmp_path, "synthetic")[0]
    job = replace(job, setting=replace(job.setting, epochs=1))
    projections.store(trial, job, tmp_path / "model.npz")
    model, data = read(tmp_path / "model.npz"), load_trial(trial, job)
    subjects = data.dataset.subjects()
    assert model.subjects == {subjects.index(name) for name in trial.sources}
    target = subjects.index(trial.target)
    own = [stream for stream in streams(model, target % 2) if stream.target == target]
    assert {stream.kind for stream in own} >= {"recording", "day-80"}
    z, p = data.source().encode(windows_of(data.dataset, trial.target, **job.setting.windowing).x)
    expected = Keel().bind(data.source()).refine(z, p).argmax(axis=1)
    assert (run_keel(model, own[0].rows, DEFAULTS) == expected).mean() > 0.98
    assert (p.argmax(axis=1) != expected).mean() > 0.05


def test_sticky_learned_equals_the_method(evidence):
    q, _ = sticky_learned(evidence, 0.9, 0.02)
    adapter = StickyLearned().bind(FeatureSource(np.eye(5)))
    np.testing.assert_allclose(adapter.refine(np.zeros((400, 5)), softmax(evidence)), q, atol=1e-9)


@pytest.mark.parametrize("lag", [1, 5, math.inf])
def test_smoothing_equals_that_of_results(evidence, lag):
    q, change = sticky_learned(evidence, 0.9, 0.02)
    np.testing.assert_allclose(smooth(q, change, int(min(lag, len(q)))), backward(q, change, lag), atol=1e-9)
