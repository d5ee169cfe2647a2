"""The benchmark on a user's trained model instead of a source model that it trains."""

from __future__ import annotations

from dataclasses import replace

import pytest

import sight
from sight.apps.bench.experiments import load_experiment, narrow
from sight.apps.bench.runner import run
from sight.apps.bench.settings import load_setting
from sight.apps.bench.source_models import own_model
from sight.apps.bench.trials import trials
from sight.datasets import load, windows_of
from sight.models.train import train
from sight.results import metrics

OPTIONS = {"wearers": 3, "hours": 0.05, "gaps_per_hour": 0.0}
SETTING = """
dataset = "synthetic"
model = "own.safetensors"
options = { wearers = 3, hours = 0.05, gaps_per_hour = 0.0 }
sources = ["W01", "W02"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that was trained on W01, and a setting that names it."""
    folder, data = tmp_path_factory.mktemp("own"), load("synthetic", **OPTIONS)
    facts = {"channels": data.channels, "units": data.units, "rate_hz": data.rate_hz, "dataset": "synthetic"}
    source = train([windows_of(data, "W01")], data.classes, encoder="resnet", epochs=1, **facts)
    source.card = replace(source.card, training={**source.card.training, "subjects": ["W01"]})
    source.save(folder / "own.safetensors")
    (folder / "setting.toml").write_text(SETTING)
    return folder


def test_rows_are_an_evaluation_of_the_file(folder, tmp_path):
    setting = load_setting(str(folder / "setting.toml"))
    plan = narrow(load_experiment("table-main"), ["none", "keel"], [0, 1])
    rows, failures = run(plan, setting, tmp_path, engine="serial")
    assert not failures
    assert [(row["target"], row["method"], row["seed"]) for row in rows] == [
        (target, method, 0) for target in ("W02", "W03") for method in ("none", "keel")
    ]
    adapter = sight.method("keel").bind(sight.load(folder / "own.safetensors"))
    result = sight.run(adapter, windows_of(load("synthetic", **OPTIONS), "W02"))
    table = metrics.confusion(result.windows.label, result.q.argmax(axis=1), len(result.classes))
    assert rows[1]["scores"]["confusion"] == table.tolist()
    assert not (tmp_path / "models").exists()


def test_targets_are_subjects_that_the_model_was_not_trained_on(folder):
    plan = load_experiment("table-main")
    by_option = load_setting("synthetic", model=folder / "own.safetensors")
    assert "W01" not in {trial.target for trial in trials(plan, by_option)}
    assert len(load_setting("synthetic", model=folder / "own.safetensors", limit=1).pairs) == 1
    source = sight.load(folder / "own.safetensors")
    source.card = replace(source.card, training={**source.card.training, "subjects": ["W01", "W02", "W03"]})
    source.save(folder / "everyone.safetensors")
    (folder / "everyone.toml").write_text(SETTING.replace("own.", "everyone."))
    with pytest.raises(ValueError, match="trained on every target"):
        load_setting(str(folder / "everyone.toml"))


def test_classes_must_be_those_of_the_dataset(folder):
    with pytest.raises(ValueError, match=r"classes of the dataset in their order, a, b, got"):
        own_model(str(folder / "own.safetensors"), ("a", "b"))
