"""Adaptation of scikit-learn classifiers; needs scikit-learn."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from sight.base import OutputAdapter
from sight.registry import RECOMMENDED, method as make_method
from sight.results.refined_predictions import probability_source, refine
from sight.types import Array

#: Classifiers whose probabilities are shares of votes.
VOTING = (RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier)
#: Sharpness "auto" of these and of other classifiers, measured in docs/python.md.
VOTING_SHARPNESS, SHARPNESS = 5.0, 3.0
#: Argument of `sklearn.utils.estimator_checks.check_estimator`: checks that do not apply, and why.
EXPECTED_FAILED_CHECKS = {
    "check_methods_sample_order_invariance": "a prediction depends on the windows before it",
    "check_methods_subset_invariance": "a prediction depends on the windows before it",
}


class AdaptedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier whose predictions are adapted to the wearer, online and without labels.

    Parameters
    ----------
    estimator
        Classifier with `predict_proba`; a clone of it is fitted.
    method
        Name of a method that works on probabilities alone, such as "keel" or "sticky".
    params
        Hyper-parameters of the method.
    sharpness
        Power to which probabilities are raised before the method; "auto" is 5 for forests and bagging, whose
        probabilities are shares of votes, and 3 for others. A higher one changes fewer predictions.
    lag
        Number of later windows that `predict` and `predict_proba` may use, infinity for all; Keel only.

    Attributes
    ----------
    estimator_, classes_
        The fitted classifier and its classes.

    Notes
    -----
    Rows of X are windows of one wearer in time order. `predict` and `predict_proba` start a new wearer in each call and
    change nothing; they must not be called with shuffled rows, or with rows of several wearers. `partial_predict`
    continues where it stopped. `EXPECTED_FAILED_CHECKS` are the checks of scikit-learn that this rules out.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = np.array([[0.0], [1.0], [0.2], [0.9]]), np.array(["sit", "walk", "sit", "walk"])
    >>> model = AdaptedClassifier(LogisticRegression()).fit(X, y)
    >>> day = np.array([[0.1], [0.1], [0.6], [0.1]])
    >>> model.estimator_.predict(day).tolist()
    ['sit', 'sit', 'walk', 'sit']
    >>> model.predict(day).tolist(), [str(model.partial_predict(row[None])[0]) for row in day]
    (['sit', 'sit', 'sit', 'sit'], ['sit', 'sit', 'sit', 'sit'])
    """

    def __init__(
        self,
        estimator: Any,
        method: str = RECOMMENDED,
        *,
        params: Mapping[str, Any] | None = None,
        sharpness: float | str = "auto",
        lag: float = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.params = params
        self.sharpness = sharpness
        self.lag = lag

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit a clone of the estimator, and start a new wearer; order and wearers do not matter here."""
        if not hasattr(self.estimator, "predict_proba"):
            raise TypeError(
                f"Expected an estimator with predict_proba, got {type(self.estimator).__name__}; wrap it in "
                f"sklearn.calibration.CalibratedClassifierCV, or choose another one."
            )
        self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
        self.classes_ = self.estimator_.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self.reset()

    def predict_proba(self, X: Any) -> Array:
        """Return refined probabilities (N, K) of a new wearer's windows in time order; changes nothing."""
        p = self._raw(X)
        if p.shape[1] < 2:
            return p
        return refine(p, method=self.method, sharpness=self._sharpness(), lag=self.lag, **(self.params or {}))

    def predict(self, X: Any) -> Array:
        """Return the classes (N,) of a new wearer's windows in time order; changes nothing."""
        return self._classes(self.predict_proba(X))

    def partial_predict_proba(self, X: Any) -> Array:
        """Return refined probabilities (N, K) of the next windows of the present wearer, and adapt to them."""
        p = self._raw(X)
        if p.shape[1] < 2:
            return p
        return self.adapter_.step(p[:, :, None])

    def partial_predict(self, X: Any) -> Array:
        """Return the classes (N,) of the next windows of the present wearer, and adapt to them."""
        return self._classes(self.partial_predict_proba(X))

    def gap(self, seconds: float) -> None:
        """Report missing data before the next window of `partial_predict`."""
        check_is_fitted(self, "adapter_")
        self.adapter_.gap(seconds)

    def reset(self) -> Self:
        """Start a new wearer for `partial_predict`; what `fit` learned stays."""
        check_is_fitted(self, "estimator_")
        adapter = make_method(self.method, **(self.params or {}))
        if not isinstance(adapter, OutputAdapter):
            raise TypeError(f"Expected a method on probabilities, got {self.method}, which needs a torch network.")
        if len(self.classes_) > 1:
            self.adapter_ = adapter.bind(probability_source(adapter, list(map(str, self.classes_)), self._sharpness()))
        return self

    def _raw(self, X: Any) -> Array:
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.predict_proba(X))

    def _classes(self, q: Array) -> Array:
        classes: Array = self.classes_[q.argmax(axis=1)]
        return classes

    def _sharpness(self) -> float:
        if self.sharpness != "auto":
            return float(self.sharpness)
        last = self.estimator_.steps[-1][1] if isinstance(self.estimator_, Pipeline) else self.estimator_
        return VOTING_SHARPNESS if isinstance(last, VOTING) else SHARPNESS

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = get_tags(self.estimator)
        tags.input_tags, tags.classifier_tags.multi_class = own.input_tags, own.classifier_tags.multi_class
        return tags
