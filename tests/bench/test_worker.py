"""A row of the benchmark: what its name stands for, and what it tells of the method that ran."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from sight.bench import worker
from sight.bench.plan import Trial, Variant
from sight.bench.source_models import Recipe
from sight.testing import toy_network, toy_stream


@pytest.fixture
def stage(tmp_path):
    windows = toy_stream(n=40)
    recipe = Recipe(classes=tuple("abcde"), encoder="cnn", epochs=1, batch=8, seed=0, device="cpu")
    trial = Trial(sources=("A",), target="B", seed=0, encoder="cnn", order="chronological")
    plan = {"experiment": SimpleNamespace(kind="compare"), "setting": SimpleNamespace(use_gaps=False)}
    job = worker.Job(**plan, out=tmp_path)
    return worker._Stage(dataset=None, sources=[windows], target=windows, recipe=recipe, trial=trial, job=job)


FILES = ["methods/_gradient.py", "base.py", "train.py", "metrics.py", "bench/stream_orders.py"]


@pytest.mark.parametrize("file", FILES)
def test_a_row_is_named_after_all_code_that_decides_it(stage, edit, file):
    def name():
        return replace(stage).path(Variant(label="TENT", method="tent"))

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
def test_a_row_tells_what_was_needed_under_the_rule_that_ran(stage, method, rule, batch):
    source = toy_network()
    source.card = replace(source.card, training={"windows": 0})
    variant = Variant(label=method, method=method, rule=rule)
    row = worker._row(stage, variant, source, stage.target, source.encode(stage.target.x))
    assert row["needs"]["batch"] is batch
    assert row["needs"]["gradient"] is (method != "none")
