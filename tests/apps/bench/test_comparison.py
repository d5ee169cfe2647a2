"""`sight.compare`: paired differences over subjects."""

from __future__ import annotations

import numpy as np
import pytest

import sight
from sight.results import metrics
from sight.results.score_statistics import bootstrap_interval
from sight.testing import ToySource, toy_stream


@pytest.fixture(scope="module")
def results():
    source = ToySource()
    streams = {name: toy_stream(seed=seed, noise=3.0) for seed, name in enumerate("abcdef")}
    return {
        method: {name: sight.run(sight.method(method).bind(source), w) for name, w in streams.items()}
        for method in ("keel", "ema")
    }


def test_results_are_scored_and_paired_by_subject(results):
    keel, ema = results["keel"], results["ema"]
    found = sight.compare(keel, dict(reversed(ema.items())), metric="accuracy")
    expected = np.array([_accuracy(keel[name], "q") - _accuracy(ema[name], "q") for name in keel])
    np.testing.assert_allclose(found.differences, expected)
    assert (found.low, found.high) == bootstrap_interval(expected)
    assert found.record.wins == (expected > 0).sum()
    assert sight.compare(list(ema.values()), list(keel.values()), metric="accuracy").mean == pytest.approx(-found.mean)


def test_without_a_second_method_the_source_model_is_compared(results):
    found = sight.compare(results["keel"], metric="accuracy")
    expected = [_accuracy(result, "q") - _accuracy(result, "p") for result in results["keel"].values()]
    np.testing.assert_allclose(found.differences, expected)
    assert found.verdict == "better"


def test_the_number_of_subjects_needed():
    open_ = sight.compare([1.0, 2.0, -2.0, 3.0, -1.0], np.zeros(5))
    assert (open_.verdict, open_.subjects_needed) == ("open", 46)
    assert "about 46 subjects needed" in str(open_)
    few = sight.compare([1.0, 2.0], [0.0, 0.0])
    assert (few.verdict, few.subjects_needed) == ("unknown", 5)
    assert "needs 5" in str(few)


def test_errors(results):
    keel = results["keel"]
    with pytest.raises(ValueError, match="got f in one only"):
        sight.compare(keel, {name: result for name, result in keel.items() if name != "f"})
    with pytest.raises(ValueError, match="got 2 and 1"):
        sight.compare([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match=r"'accuraty'; choose from .*accuracy"):
        sight.compare(keel, metric="accuraty")
    with pytest.raises(ValueError, match="nan for subject 1"):
        sight.compare([1.0, np.nan], [1.0, 1.0])
    with pytest.raises(ValueError, match="pass b too"):
        sight.compare([1.0, 2.0])


def _accuracy(result, which):
    return metrics.score_predictions(result, getattr(result, which))["accuracy"]
