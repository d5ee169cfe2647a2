"""An exported model, rows of samples, and the offline result of both."""

from __future__ import annotations

import pytest

from sight.models.load import load
from sight.registry import method
from sight.results.prediction_loop import run
from tests.helpers.streams import exported_model, make_recording, offline_windows


@pytest.fixture(scope="package")
def path(tmp_path_factory):
    return exported_model(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="package")
def expected(path):
    """Offline result of 700 samples with gaps, repeated, late and non-finite samples."""
    source = load(path)
    return run(method("keel").bind(source), offline_windows(make_recording(10.0), source))


@pytest.fixture(scope="package")
def rows():
    whole = make_recording(10.0)
    return [[t, *values] for t, values in zip(whole.time_s.tolist(), whole.values.tolist(), strict=True)]
