"""Rows of the benchmark: what determines their name, and what they record of the method."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from sight.bench import worker
from sight.bench.plan import Trial, Variant
from sight.bench.source_models import Recipe
from sight.testing import toy_network, toy_stream


@pytest.fixture
def data(tmp_path):
    windows = toy_stream(n=40)
    recipe = Recipe(classes=tuple("abcde"), encoder="cnn", epochs=1, batch=8, seed=0, device="cpu")
    trial = Trial(sources=("A",), target="B", seed=0, encoder="cnn", order="chronological")
    plan = {"experiment": SimpleNamespace(kind="compare"), "setting": SimpleNamespace(use_gaps=False)}
    job = worker.Job(**plan, out=tmp_path)
    return worker.TrialData(dataset=None, sources=[windows], target=windows, recipe=recipe, trial=trial, job=job)


@pytest.mark.parametrize("file", ["methods/tent.py", "base.py", "train.py", "metrics.py", "bench/stream_orders.py"])
def test_the_name_of_a_row_depends_on_all_code_behind_it(data, edit, file):
    def name():
        return replace(data).row_path(Variant(label="TENT", method="tent"))

    before = name()
    edit("report/html.py")
    assert name() == before
    edit(file)
    assert name() != before


@pytest.mark.parametrize(
    ("method", "rule", "batch"),
    [
        ("note", "chunk", True),
        ("note", "stream", False),
        ("coa-har", "chunk", True),
        ("tent", "chunk", True),
        ("tent", "stream", False),
        ("none", "chunk", False),
    ],
)
def test_a_row_records_the_needs_under_its_streaming_rule(data, method, rule, batch):
    source = toy_network()
    source.card = replace(source.card, training={"windows": 0})
    variant = Variant(label=method, method=method, rule=rule)
    row = worker._result_columns(data, variant, source, data.target, source.encode(data.target.x))
    assert row["needs"]["batch"] is batch
    assert row["needs"]["gradient"] is (method != "none")
