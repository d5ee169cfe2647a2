"""Experiments and settings: contents of the TOML files, and errors in them."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from typer.testing import CliRunner

from sight import registry
from sight.apps.bench import experiments, paper_values, settings
from sight.apps.bench.experiments import load_experiment, narrow
from sight.apps.bench.settings import load_setting
from sight.apps.bench.source_models import batch_size
from sight.apps.bench.trials import Setting, trials
from sight.apps.cli import app
from sight.base import OutputAdapter
from sight.testing import ToySource, toy_stream


def test_every_table_and_figure_of_the_paper_has_an_experiment():
    names = set(experiments.experiments())
    assert {name for name in names if not load_experiment(name).in_paper} == {
        "coa-har",
        "days",
        "keel-parts",
        "reproduction",
        "stress",
    }
    kinds = {load_experiment(name).kind for name in names}
    assert kinds == {"compare", "classes", "geometry", "prototypes", "motivation"}


@pytest.mark.parametrize("name", ["table-main", "table-detailed", "ablation", "design", "backbones", "order"])
def test_labels_are_those_of_the_paper(name):
    experiment = load_experiment(name)
    printed = {method for table, _, _, method in paper_values.values() if table == experiment.paper}
    assert printed
    assert printed <= {variant.label for variant in experiment.variants}


def test_the_main_table_has_every_method_including_third_party_ones(monkeypatch):
    methods = {variant.method for variant in load_experiment("table-main").variants}
    assert methods == set(registry.names("methods"))
    mine = EntryPoint(name="mine", value="sight.methods.ema:EMA", group="sight.methods")
    monkeypatch.setattr(registry, "_installed", lambda kind: {mine.name: mine.value} if kind == "methods" else {})
    assert load_experiment("table-main").variants[-1].label == "mine"


def test_values_of_the_sensitivity_grid():
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
    two_lists = setting.paper in ("harth", "capture24")
    table = pairs if two_lists else "detailed"
    printed = {
        condition
        for own, dataset, condition, _ in paper_values.values()
        if (own, dataset) == (table, setting.paper) and "->" in condition
    }
    own = {"->".join(map(setting.paper_subject.format, ("+".join(source), target))) for source, target in setting.pairs}
    assert own == printed
    assert len(own) == (6 if two_lists and pairs == "main" else 16)


def test_the_main_settings():
    kinds = ("hapt-total", "hapt-body", "hugadb", "wisdm", "uschad")
    names = {f"{kind}-{how}" for kind in kinds for how in ("single", "pooled")} | {"extrasensory-pooled"}
    tables = settings._tables()
    assert names == set(settings.setting_group())
    assert len(set(settings.setting_group().values())) == 11
    epochs = {name: tables[name].get("epochs", 100) for name in names}
    assert (epochs.pop("uschad-single"), epochs.pop("uschad-pooled")) == (33, 15)
    assert {count for name, count in epochs.items() if name.endswith("single")} == {100}
    assert {count for name, count in epochs.items() if name.endswith("pooled")} == {33}
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
def test_sources_are_paired_with_all_other_subjects(real, name, zip_name, groups, targets):
    real(zip_name)
    pairs = load_setting(name).pairs
    assert len({source for source, _ in pairs}) == groups
    assert all(target not in source for source, target in pairs)
    if targets:
        assert len(pairs) == groups * targets


def test_trials_of_one_source_model_are_adjacent():
    experiment = narrow(load_experiment("backbones"), seeds=[0, 1])
    setting = Setting(
        name="s", dataset="synthetic", options={}, pairs=((("A",), "B"), (("C", "D"), "B"), (("A",), "D"))
    )
    found = list(trials(experiment, setting))
    assert len(found) == 3 * 2 * 3
    models = [(trial.encoder, trial.seed, trial.sources) for trial in found]
    changes = [model for at, model in enumerate(models) if at == 0 or models[at - 1] != model]
    assert len(changes) == len(set(changes)) == 12
    vectors = Setting(name="s", dataset="synthetic", options={}, pairs=setting.pairs, encoder="mlp")
    assert {trial.encoder for trial in trials(experiment, vectors)} == {"mlp"}  # ignores the experiment's networks


def crossed(subjects=6, sources=("1", "2")):
    """Return a setting that pairs each source with all other subjects."""
    pairs = [((source,), str(n)) for source in sources for n in range(1, subjects + 1) if str(n) != source]
    return Setting(name="mine", dataset="synthetic", options={}, pairs=tuple(pairs), crossed=True)


def models_by_target(experiment, setting):
    found: dict[str, list[tuple[int, str]]] = {}
    for trial in trials(experiment, setting):
        found.setdefault(trial.target, []).append((trial.seed, *trial.sources))
    return found


def test_each_target_of_a_crossed_setting_has_one_source_model_of_each_seed():
    found = models_by_target(load_experiment("table-main"), crossed())
    assert set(found) == set("123456")
    assert all([seed for seed, _ in models] == [0, 1, 2] for models in found.values())
    assert found["2"] == [(0, "1"), (1, "1"), (2, "1")]  # a source is no target of its own model
    assert {model for models in found.values() for model in models} == {(s, n) for s in range(3) for n in "12"}


def test_sources_per_target_can_be_any_number_or_all():
    experiment, setting = load_experiment("table-main"), crossed()
    for count in (1, 2, 9):
        found = models_by_target(replace(experiment, sources_per_target=count), setting)
        assert {len(models) for models in found.values()} == {3, 3 * min(count, 2)}
    every = models_by_target(replace(experiment, sources_per_target=0), setting)
    assert {target: len(models) for target, models in every.items()} == dict.fromkeys("3456", 6) | {"1": 3, "2": 3}
    assert models_by_target(experiment, replace(setting, crossed=False)) == every  # pairs are all run


def test_fewer_seeds_run_a_part_of_the_same_trials():
    experiment, setting = load_experiment("table-main"), crossed()
    every = set(trials(experiment, setting))
    assert set(trials(narrow(experiment, seeds=[0, 1]), setting)) == {trial for trial in every if trial.seed < 2}


def test_settings_with_sources_are_crossed_and_settings_with_pairs_are_not(tmp_path):
    keys = 'dataset = "synthetic"\noptions = { wearers = 3, hours = 0.1 }\n'
    for name, subjects in {"crossed": 'sources = ["W01"]', "pairs": 'pairs = ["W01->W02"]'}.items():
        (tmp_path / f"{name}.toml").write_text(keys + subjects)
        assert load_setting(str(tmp_path / f"{name}.toml")).crossed is (name == "crossed")


def test_orders_of_days_expand_to_the_sedentary_classes_of_a_setting():
    plan = {"name": "s", "dataset": "d", "options": {}, "pairs": ((("A",), "B"),)}
    experiment = narrow(load_experiment("days"), seeds=[0])

    def orders(**keys):
        return [trial.order for trial in trials(experiment, Setting(**plan, **keys))]

    dominated = [f"day-{share} {name}" for share in (60, 80, 94) for name in ("sit", "stand")]
    own = {"sedentary": ("sit", "stand"), "standing": "stand"}
    assert orders(**own) == [*dominated, "time-use", "partial", "week"]
    assert orders(**own, free_living=True) == ["chronological", *dominated, "time-use", "partial", "week"]
    assert "time-use" not in orders(sedentary=("sit",))


def test_sedentary_classes_of_every_setting_are_classes_of_its_dataset():
    for name, table in settings._tables().items():
        dataset = settings.make_dataset(table["dataset"], table.get("options", {}), name)
        assert table["sedentary"], name
        assert set(table["sedentary"]) | {table.get("standing", table["sedentary"][0])} <= set(dataset.classes), name
        assert bool(table.get("free_living")) == (table["dataset"] == "extrasensory"), name


def test_days_run_only_methods_without_gradients():
    methods = {variant.method for variant in load_experiment("days").variants}
    output = {name for name in registry.names("methods") if issubclass(registry.get("methods", name), OutputAdapter)}
    assert methods == output | {"keel-norm"}


def test_batches_grow_above_eight_thousand_windows():
    windows = toy_stream(ToySource(), n=4000)
    assert batch_size(None, [windows, windows]) == 64
    assert batch_size(None, [windows, windows, toy_stream(ToySource(), n=1)]) == 256
    assert batch_size(32, [windows] * 3) == 32
    windows.label[:] = -1
    assert batch_size(None, [windows] * 9) == 64  # unlabelled windows do not count


def test_files_of_users(tmp_path):
    (tmp_path / "mine.toml").write_text(
        'kind = "compare"\nmethods = ["none", {method = "ema", label = "slow", set = {a = 0.99}}]\n'
    )
    experiment = load_experiment(str(tmp_path / "mine.toml"))
    assert [(v.label, v.fields) for v in experiment.variants] == [("Source-only", {}), ("slow", {"a": 0.99})]
    (tmp_path / "setting.toml").write_text(
        'dataset = "synthetic"\noptions = {wearers = 4}\nsources = ["W01..W02", "W03"]\n'
    )
    setting = load_setting(str(tmp_path / "setting.toml"), limit=3)
    assert setting.pairs == ((("W01", "W02"), "W03"), (("W01", "W02"), "W04"), (("W03",), "W01"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kind = "compares"', "expected kind compare"),
        ('kind = "compare"\nmethod = ["none"]', "'methods'"),
        ('kind = "compare"\nmethods = ["sigth"]', "'sight'"),
        ('kind = "compare"\nmethods = ["ema", "ema"]', "share a label"),
        ('kind = "compare"\norders = ["sorted"]', "no order called 'sorted'"),
        ('kind = "compare"\norders = ["day-90"]', "no order called 'day-90'"),
        ('kind = "compare"\nmethods = "none"', r'methods = \["none"\]'),
        ('kind = "compare"\nmethods = [{label = "mine"}]', "'method' is missing"),
        ('kind = "compare"\ngrids = [{method = "sight"}]', "'values' is missing"),
        ('kind = "compare"\nmethods = [none]', r"mine.toml is not valid TOML: .*line 2"),
    ],
)
def test_errors_in_an_experiment(tmp_path, text, words):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        load_experiment(str(tmp_path / "mine.toml"))


def test_unknown_names():
    with pytest.raises(ValueError, match="'table-main'"):
        load_experiment("table-mian")
    with pytest.raises(ValueError, match="'hapt-total'"):
        load_setting("hapt-totl")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('dataset = "synthetic"', r'Setting mine: no subjects; add pairs = \["1->2"\]'),
        ('dataset = "synthetic"\npairs = []', "no subjects"),
        ('dataset = "synthetic"\npairs = "W01->W02"', "list of pairs"),
        ('dataset = "synthetic"\npairs = ["W01-W02"]', "expected a pair"),
        ('dataset = "synthetic"\nsources = ["W01..W77"]', "no subject called 'W77'"),
        ('pairs = ["W01->W02"]', "'dataset' is missing"),
        ('dataset = "synthetic"\npairs = ["W01->W01"]', "also a source"),
        ('dataset = "hapt"\noptions = {protokol = "ucihar"}\nsources = ["1"]', "'protokol'"),
        ("dataset = synthetic", "mine.toml is not valid TOML"),
    ],
)
def test_errors_in_a_setting(tmp_path, text, words):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        load_setting(str(tmp_path / "mine.toml"))


def test_the_list_of_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHT_DATA", str(tmp_path))
    body, total = (settings.describe(name) for name in ("hapt", "hapt-total"))
    assert body == ("hapt (protocol ucihar, acc body_acc, order ucihar)", "16 pairs", "ucihar", "-")
    assert total.dataset == "hapt (protocol ucihar, acc total_acc)"
    assert settings.describe("synthetic").subjects == "5"
    shown = CliRunner().invoke(app, ["bench", "list"], env={"COLUMNS": "200"}).output
    assert re.search(r"design .* table A3", shown)
    assert re.search(r"synthetic .* 3 pairs .* 5 ", shown)


def test_averages_of_the_paper_are_the_means_of_its_pairs():
    for dataset in ("harth", "capture24"):
        keys = [key for key in paper_values.values() if key[:2] == ("main", dataset)]
        methods, pairs = {key[3] for key in keys}, sorted({key[2] for key in keys if "->" in key[2]})
        assert len(methods) == 10
        for method in methods:
            mean, printed = (
                paper_values.mean_over(dataset, pairs, method),
                paper_values.values().get(("main", dataset, "average", method)),
            )
            assert np.isclose(mean, printed, atol=0.02)
    assert paper_values.mean_over("harth", ["S006->S999"], "SIGHT") is None
