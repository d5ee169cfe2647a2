"""`sight.sklearn.AdaptedClassifier`."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import sight
from sight.sklearn import EXPECTED_FAILED_CHECKS, AdaptedClassifier
from sight.testing import toy_stream


@pytest.fixture(scope="module")
def data():
    train, day = toy_stream(seed=1, noise=4.0), toy_stream(seed=2, noise=4.0)
    names = np.array(["lie", "sit", "stand", "walk", "run"])
    return train.x.reshape(200, -1), names[train.label], day.x.reshape(200, -1), names[day.label]


@pytest.fixture(scope="module")
def fitted(data):
    return AdaptedClassifier(RandomForestClassifier(20, random_state=0)).fit(data[0], data[1])


@pytest.mark.parametrize("estimator", [LogisticRegression(), RandomForestClassifier(5, random_state=0)])
def test_the_checks_of_scikit_learn(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # skipped checks
        results = check_estimator(
            AdaptedClassifier(estimator), expected_failed_checks=EXPECTED_FAILED_CHECKS, on_skip=None
        )
    assert {entry["check_name"] for entry in results if entry["status"] == "xfail"} == set(EXPECTED_FAILED_CHECKS)


def test_predictions_are_those_of_refine_and_better(fitted, data):
    _, _, day, truth = data
    raw = fitted.estimator_.predict_proba(day)
    np.testing.assert_array_equal(fitted.predict_proba(day), sight.refine(raw, sharpness=5))
    assert (fitted.predict(day) == truth).mean() > (fitted.estimator_.predict(day) == truth).mean()
    np.testing.assert_array_equal(fitted.predict_proba(day), fitted.predict_proba(day))


def test_a_stream_in_pieces_gives_the_same_as_the_whole(fitted, data):
    day = data[2]
    model = pickle.loads(pickle.dumps(fitted)).reset()
    pieces = [model.partial_predict_proba(day[:7]), model.partial_predict_proba(day[7:50])]
    model = pickle.loads(pickle.dumps(model))
    pieces += [model.partial_predict_proba(row[None]) for row in day[50:]]
    np.testing.assert_allclose(np.concatenate(pieces), fitted.predict_proba(day), atol=1e-12)
    before = fitted.predict_proba(day)
    model.gap(600.0)
    assert not np.allclose(model.partial_predict_proba(day[:1]), before[:1])
    assert set(model.reset().partial_predict(day[:3])) <= set(fitted.classes_)
    np.testing.assert_allclose(model.reset().partial_predict_proba(day[:3]), before[:3])


def test_sharpness_follows_the_estimator(data):
    X, y, day, _ = data
    scaled = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))
    for estimator, sharpness in ((scaled, 5), (LogisticRegression(), 3)):
        auto, explicit = AdaptedClassifier(estimator), AdaptedClassifier(estimator, sharpness=sharpness)
        np.testing.assert_array_equal(auto.fit(X, y).predict_proba(day), explicit.fit(X, y).predict_proba(day))
    other = clone(AdaptedClassifier(scaled, "sticky", params={"s": 0.5}, sharpness=2, lag=0)).fit(X, y)
    expected = sight.refine(other.estimator_.predict_proba(day), method="sticky", s=0.5, sharpness=2)
    np.testing.assert_array_equal(other.predict_proba(day), expected)


def test_errors_name_the_remedy(data):
    X, y, day, _ = data
    with pytest.raises(TypeError, match=r"with predict_proba, got LinearSVC.*CalibratedClassifierCV"):
        AdaptedClassifier(LinearSVC()).fit(X, y)
    with pytest.raises(TypeError, match="probabilities alone"):
        AdaptedClassifier(LogisticRegression(), "t3a").fit(X, y)
    with pytest.raises(TypeError, match="needs a torch network"):
        AdaptedClassifier(LogisticRegression(), "tent").fit(X, y)
    with pytest.raises(ValueError, match="features"):
        AdaptedClassifier(LogisticRegression()).fit(X, y).predict(day[:, :-1])


def test_one_class_is_predicted_as_it_is():
    X = np.zeros((4, 2))
    model = AdaptedClassifier(RandomForestClassifier(3)).fit(X, ["sit"] * 4)
    assert model.predict(X).tolist() == model.partial_predict(X).tolist() == ["sit"] * 4
