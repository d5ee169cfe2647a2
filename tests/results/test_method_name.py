"""The name of a method names changed hyper-parameters and the lag."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from sight import registry
from sight.results.method_name import method_name
from sight.results.prediction_loop import run
from sight.testing import ToySource, toy_stream
from sight.types import Result


@pytest.mark.parametrize(
    ("method", "changes", "lag", "expected"),
    [
        ("keel", {}, 0, "keel"),
        ("keel", {"align": 0.0, "debias": 0.0}, inf, "keel(align=0, debias=0), whole recording"),
        ("keel", {}, 5, "keel, lag 5"),
        ("sticky", {"s": 0.95}, 0, "sticky(s=0.95)"),
        ("none", {}, 0, "none"),
    ],
)
def test_names(method, changes, lag, expected):
    adapter = registry.method(method).clone(**changes).bind(ToySource())
    assert method_name(run(adapter, toy_stream(n=20), lag=lag)) == expected


def test_a_method_that_is_not_installed_names_all_hyper_parameters():
    windows = toy_stream(n=2)
    p = np.full((2, 2), 0.5)
    result = Result(method="elsewhere", params={"a": 1}, classes=("a", "b"), p=p, q=p, windows=windows)
    assert method_name(result) == "elsewhere(a=1)"
