"""Experiments and settings: what the TOML files promise, and how mistakes in them are told."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from typer.testing import CliRunner

from sight import registry
from sight.bench import experiments, paper_figures, settings
from sight.bench.experiments import load_experiment, narrow
from sight.bench.plan import Setting, trials
from sight.bench.settings import load_setting
from sight.bench.source_models import batch_for
from sight.cli import app
from sight.testing import ToySource, toy_stream


def test_there_is_an_experiment_for_every_table_and_figure():
    assert set(experiments.experiments()) == {
        *("table-main", "table-detailed", "ablation", "design", "sensitivity", "efficiency", "backbones", "order"),
        *("geometry", "prototypes", "motivation", "beyond", "stress"),
    }
    kinds = {name: load_experiment(name).kind for name in experiments.experiments()}
    assert {"compare", "classes", "geometry", "prototypes", "motivation", "speed"} == set(kinds.values())


def test_labels_are_those_of_the_paper():
    """Every method that the paper prints in a table stands under the same name in ours."""
    printed = {(table, method) for table, _, _, method in paper_figures.figures()}
    for name in ("table-main", "table-detailed", "ablation", "design", "backbones", "order"):
        experiment = load_experiment(name)
        wanted = {method for table, method in printed if table == experiment.paper}
        assert wanted
        assert wanted <= {variant.label for variant in experiment.variants}


def test_the_main_table_has_every_method_and_says_so_of_new_ones(monkeypatch):
    methods = {variant.method for variant in load_experiment("table-main").variants}
    assert methods == set(registry.names("methods"))
    mine = EntryPoint(name="mine", value="sight.methods.ema:EMA", group="sight.methods")
    monkeypatch.setattr(registry, "entry_points", lambda group: [mine] if group == "sight.methods" else [])
    assert load_experiment("table-main").variants[-1].label == "mine"


def test_grids_are_the_ones_agreed():
    found: dict[str, list[float]] = {}
    for variant in load_experiment("sensitivity").variants[2:]:
        ((field, value),) = variant.fields.items()
        found.setdefault(field, []).append(value)
    assert found == {
        "beta": [0.1, 0.3, 1, 3, 10],
        "tau": [0.02, 0.05, 0.1, 0.2, 0.5],
        "eta_mu": [0.001, 0.002, 0.005, 0.01, 0.02],
        "eta_h": [0.01, 0.02, 0.05, 0.1, 0.2],
        "omega_mu": [0, 0.003, 0.01, 0.03, 0.1],
    }


@pytest.mark.parametrize("name", ["hapt", "hapt-total", "harth", "capture24", "uschad", "ucihar"])
@pytest.mark.parametrize("pairs", ["main", "detailed"])
def test_settings_of_the_paper_have_its_pairs(name, pairs):
    setting = load_setting(name, pairs=pairs)
    tables = {"harth", "capture24"} & {setting.paper}
    table = pairs if tables else "detailed"
    printed = {
        case
        for t, dataset, case, _ in paper_figures.figures()
        if (t, dataset) == (table, setting.paper) and "->" in case
    }
    own = {"->".join(map(setting.paper_subject.format, ("+".join(source), target))) for source, target in setting.pairs}
    assert own == printed
    assert len(own) == (6 if tables and pairs == "main" else 16)


def test_the_nine_settings_exist_with_their_training():
    kinds = ("hapt-total", "hapt-body", "hugadb", "wisdm")
    names = {f"{kind}-{how}" for kind in kinds for how in ("single", "pooled")} | {"extrasensory-pooled"}
    tables = settings._settings()
    assert names == set(settings.suite())
    assert len(set(settings.suite().values())) == 9
    assert {tables[name].get("epochs", 100) for name in names if name.endswith("single")} == {100}
    assert {tables[name]["epochs"] for name in names if name.endswith("pooled")} == {33}
    first, last = (group.split("+") for group in tables["extrasensory-pooled"]["sources"])
    assert sorted(first + last) == first + last
    assert len(first) == len(last) == 7


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "zip_name", "groups", "targets"),
    [
        ("hapt-total-single", "hapt.zip", 8, 29),
        ("hapt-body-pooled", "hapt.zip", 2, 20),
        ("hugadb-pooled", "hugadb_right_thigh.zip", 2, None),
        ("wisdm-single", "wisdm2019_watch_accel.zip", 4, 23),
        ("wisdm-pooled", "wisdm2019_watch_accel.zip", 2, 14),
        ("extrasensory-pooled", "extrasensory_features.zip", 2, 7),
    ],
)
def test_sources_meet_everybody_else(real, name, zip_name, groups, targets):
    real(zip_name)
    pairs = load_setting(name).pairs
    assert len({source for source, _ in pairs}) == groups
    assert all(target not in source for source, target in pairs)
    if targets:
        assert len(pairs) == groups * targets


def test_trials_multiply_out_and_keep_models_together():
    experiment = narrow(load_experiment("backbones"), seeds=[0, 1])
    setting = Setting(
        name="s", dataset="synthetic", options={}, pairs=((("A",), "B"), (("C", "D"), "B"), (("A",), "D"))
    )
    found = list(trials(experiment, setting))
    assert len(found) == 3 * 2 * 3
    models = [(trial.encoder, trial.seed, trial.sources) for trial in found]
    runs = [model for at, model in enumerate(models) if at == 0 or models[at - 1] != model]
    assert len(runs) == len(set(runs)) == 12
    only = Setting(name="s", dataset="synthetic", options={}, pairs=setting.pairs, encoder="mlp")
    assert {trial.encoder for trial in trials(experiment, only)} == {"mlp"}  # vectors have no other network


def test_batches_grow_above_eight_thousand_windows():
    windows = toy_stream(ToySource(), n=4000)
    assert batch_for(None, [windows, windows]) == 64
    assert batch_for(None, [windows, windows, toy_stream(ToySource(), n=1)]) == 256
    assert batch_for(32, [windows] * 3) == 32
    windows.label[:] = -1
    assert batch_for(None, [windows] * 9) == 64  # unlabelled windows are not trained on


def test_one_s_own_files(tmp_path):
    (tmp_path / "mine.toml").write_text(
        'kind = "compare"\nmethods = ["none", {method = "ema", label = "slow", set = {a = 0.99}}]\n'
    )
    experiment = load_experiment(str(tmp_path / "mine.toml"))
    assert [(v.label, v.fields) for v in experiment.variants] == [("Source-only", {}), ("slow", {"a": 0.99})]
    (tmp_path / "people.toml").write_text(
        'dataset = "synthetic"\noptions = {wearers = 4}\nsources = ["W01..W02", "W03"]\n'
    )
    setting = load_setting(str(tmp_path / "people.toml"), limit=3)
    assert setting.pairs == ((("W01", "W02"), "W03"), (("W01", "W02"), "W04"), (("W03",), "W01"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kind = "compares"', "expected kind compare or"),
        ('kind = "compare"\nmethod = ["none"]', "Did you mean 'methods'"),
        ('kind = "compare"\nmethods = ["sigth"]', "Did you mean 'sight'"),
        ('kind = "compare"\nmethods = ["ema", "ema"]', "share a label"),
        ('kind = "compare"\norders = ["sorted"]', "no order called 'sorted'"),
        (
            'kind = "compare"\nmethods = "none"',
            "expected a list of methods, got 'none'; write methods = \\[\"none\"\\]",
        ),
        ('kind = "compare"\nmethods = [{label = "mine"}]', "'method' is missing"),
        ('kind = "compare"\ngrids = [{method = "sight"}]', "Grid: 'values' is missing"),
        ('kind = "compare"\nmethods = [none]', r"mine.toml is no TOML: Invalid value \(at line 2"),
    ],
)
def test_mistakes_in_an_experiment_are_told(tmp_path, text, words):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        load_experiment(str(tmp_path / "mine.toml"))


def test_mistakes_in_names_are_told(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'table-main'"):
        load_experiment("table-mian")
    with pytest.raises(ValueError, match="Did you mean 'hapt-total'"):
        load_setting("hapt-totl")
    (tmp_path / "people.toml").write_text('dataset = "synthetic"\npairs = ["W01-W02"]\n')
    with pytest.raises(ValueError, match="Expected a pair such as"):
        load_setting(str(tmp_path / "people.toml"))
    (tmp_path / "people.toml").write_text('dataset = "synthetic"\nsources = ["W01..W77"]\n')
    with pytest.raises(ValueError, match="no subject called 'W77'"):
        load_setting(str(tmp_path / "people.toml"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('dataset = "synthetic"', r'Setting people: there is nobody to run on; write pairs = \["1->2"\] or sources'),
        ('dataset = "synthetic"\npairs = []', "there is nobody to run on"),
        ('dataset = "synthetic"\npairs = "W01->W02"', "expected a list of pairs, got 'W01->W02'"),
        ('pairs = ["W01->W02"]', "Setting people: 'dataset' is missing"),
        ('dataset = "synthetic"\npairs = ["W01->W01"]', "the target is among its own sources"),
        ('dataset = "hapt"\noptions = {protokol = "ucihar"}\nsources = ["1"]', "hapt has no parameter 'protokol'"),
        ("dataset = synthetic", "people.toml is no TOML"),
    ],
)
def test_mistakes_in_a_setting_are_told(tmp_path, text, words):
    (tmp_path / "people.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        load_setting(str(tmp_path / "people.toml"))


def test_the_list_tells_settings_apart_and_which_have_their_data_here(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHT_DATA", str(tmp_path))
    body, total = (settings.describe(name) for name in ("hapt", "hapt-total"))
    assert (body.corpus, body.whom, body.paper, body.here) == (
        *("hapt (protocol ucihar, acc body_acc)", "16 pairs", "ucihar", "-"),
    )
    assert total.corpus == "hapt (protocol ucihar, acc total_acc)"
    assert settings.describe("synthetic").here == "5 people"
    told = CliRunner().invoke(app, ["bench", "list"], env={"COLUMNS": "200"}).output
    assert re.search(r"design .* table A3", told)
    assert re.search(r"synthetic .* 5 people", told)
    assert "hapt stands for the paper's ucihar" in told


def test_all_that_the_paper_prints_has_its_experiment():
    assert set(experiments.PRINTED) == set(experiments.experiments()) - {"beyond", "stress"}


def test_the_figures_of_the_paper_are_whole():
    """The average of the main tables is the mean of their pairs, to the rounding of the paper."""
    for dataset in ("harth", "capture24"):
        methods = {method for t, d, _, method in paper_figures.figures() if (t, d) == ("main", dataset)}
        cases = sorted(
            {case for t, d, case, _ in paper_figures.figures() if (t, d) == ("main", dataset) and "->" in case}
        )
        assert len(methods) == 10
        for method in methods:
            assert np.isclose(
                paper_figures.mean_over(dataset, cases, method),
                paper_figures.average("main", dataset, "average", method),
                atol=0.02,
            )
    assert paper_figures.mean_over("harth", ["S006->S999"], "SIGHT") is None
