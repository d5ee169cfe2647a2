"""Rows of the benchmark: what determines their name, and what they record of the method."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sight.apps.bench import source_models, trial_data, worker
from sight.apps.bench.source_models import Recipe
from sight.apps.bench.trial_data import Job, TrialData
from sight.apps.bench.trial_rows import read_row, write_row
from sight.apps.bench.trials import Setting, Trial, Variant
from sight.testing import toy_network, toy_stream


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setattr(trial_data, "_ENCODING", {})
    windows = toy_stream(n=40)
    recipe = Recipe(classes=tuple("abcde"), encoder="cnn", epochs=1, batch=8, seed=0, device="cpu")
    trial = Trial(sources=("A",), target="B", seed=0, encoder="cnn", order="chronological")
    setting = Setting(name="toy", dataset="toy", options={}, pairs=((("A",), "B"),))
    plan = {"experiment": SimpleNamespace(kind="compare"), "setting": setting}
    job = Job(**plan, out=tmp_path)
    return TrialData(dataset=None, sources=[windows], target=windows, recipe=recipe, trial=trial, job=job)


@pytest.mark.parametrize(
    "file",
    [
        "methods/tent.py",
        "base.py",
        "models/train.py",
        "results/metrics.py",
        "apps/bench/stream_orders.py",
        "apps/bench/simulated_days.py",
    ],
)
def test_the_name_of_a_row_depends_on_all_code_behind_it(data, edit, file):
    def name():
        return replace(data).row_path(Variant(label="TENT", method="tent"))

    before = name()
    edit("results/report/html.py")
    assert name() == before
    edit(file)
    assert name() != before


def test_a_model_trained_on_another_device_is_used_and_named(data):
    row = data.row_path(Variant(label="TENT", method="tent"))
    on_gpu = replace(data, recipe=replace(data.recipe, device="cuda"))
    assert on_gpu.row_path(Variant(label="TENT", method="tent")) == row
    source = toy_network()
    source.card = replace(source.card, training={"windows": 40, "device": "cuda"})
    source.save(data.job.out / "models" / f"{data.model_key}.safetensors")
    stream = data.stream(source, np.arange(40))
    columns = worker._result_columns(data, Variant(label="none", method="none"), data.source(), *stream)
    assert columns["training"]["device"] == "cuda"
    assert columns["training"]["windows"] == 40


def test_a_new_version_of_the_package_keeps_rows_and_models(data, monkeypatch, edit):
    def names():
        return replace(data).row_path(Variant(label="TENT", method="tent")), data.recipe.model_key("data")

    before = names()
    edit("__init__.py")
    for module in (worker, trial_data, source_models):
        monkeypatch.setattr(module, "__version__", "99.0", raising=False)
    assert names() == before


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


# --- streams -------------------------------------------------------------------------------------------------------


def with_target(data, n: int, *, use_gaps: bool = False):
    windows = toy_stream(n=n)
    windows.gap_before_s[5] = 30
    job = replace(data.job, setting=replace(data.job.setting, use_gaps=use_gaps))
    return replace(data, target=windows, job=job)


@pytest.mark.parametrize(("n", "exact"), [(256, True), (257, False)])
def test_indexing_the_encoding_of_a_target_is_encoding_its_stream(data, n, exact):
    """Bits are equal where all batches have one size; torch selects kernels by batch size."""
    source, data = toy_network(), with_target(data, n)
    index = np.random.default_rng(0).integers(n, size=512)
    windows, encoded = data.stream(source, index)
    assert (windows.x == data.target.x[index]).all()
    for found, expected in zip(encoded, source.encode(windows.x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=0 if exact else 1e-5)


def test_the_streams_of_a_target_are_encoded_once(data, monkeypatch):
    source, calls = toy_network(), []
    encode = source.encode
    monkeypatch.setattr(source, "encode", lambda x: calls.append(len(x)) or encode(x))
    data = with_target(data, 60)
    for order in ("chronological", "blocks", "shuffled"):
        own = replace(data, trial=replace(data.trial, order=order))
        windows, (z, _) = own.stream(source, own.index)
        np.testing.assert_allclose(z, encode(windows.x)[0], rtol=0, atol=1e-5)
    assert calls == [60]
    other = with_target(data, 61)
    assert len(other.stream(source, other.index)[1][0]) == 61
    assert calls == [60, 61]


def test_gaps_are_kept_where_methods_are_informed_of_them(data):
    source = toy_network()
    for use_gaps in (False, True):
        own = with_target(data, 60, use_gaps=use_gaps)
        assert own.stream(source, own.index)[0].gap_before_s[5] == (30 if use_gaps else 0)


def test_the_name_of_a_row_depends_on_the_order_of_windows(data):
    variant = Variant(label="EMA", method="ema")
    names = [replace(data, target=data.target) for _ in range(2)]
    names[1].__dict__["index"] = names[1].index[::-1].copy()
    assert names[0].row_path(variant) != names[1].row_path(variant)


def test_an_altered_row_is_not_read(tmp_path):
    path = tmp_path / "ab" / "abcd.json"
    assert read_row(path) is None
    row = {"scores": {"macro_f1": 0.5}, "seconds": 1.25, "notes": []}
    write_row(path, row)
    assert read_row(path) == row
    moved = tmp_path / "ab" / "other.json"
    moved.write_bytes(path.read_bytes())
    path.write_text(path.read_text().replace("0.5", "0.9"))
    assert read_row(path) is read_row(moved) is None


def test_an_altered_source_model_is_trained_again(data, tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(source_models, "_train", lambda *_: trained.append(1) or toy_network("resnet"))
    path = tmp_path / "model.safetensors"
    weight = source_models.source_model(data.recipe, data.sources, None, path).weight
    source_models.source_model(data.recipe, data.sources, None, path)
    assert len(trained) == 1
    content = bytearray(path.read_bytes())
    content[-2] ^= 64
    path.write_bytes(content)
    np.testing.assert_array_equal(source_models.source_model(data.recipe, data.sources, None, path).weight, weight)
    assert len(trained) == 2


# --- training ------------------------------------------------------------------------------------------------------


class Files:
    """Trials whose windows are loaded from nowhere; the target "bad" cannot be loaded."""

    def __init__(self, data, monkeypatch):
        self.data, self.trained = data, 0
        monkeypatch.setattr(worker, "load_trial", self.load)
        monkeypatch.setattr(TrialData, "source", lambda _: self.source())

    def load(self, trial, job):
        if trial.target == "bad":
            raise OSError("damaged recording")
        return replace(self.data, trial=trial, job=job)

    def source(self):
        self.trained += 1
        raise ValueError("no labelled windows")


def test_a_training_that_fails_is_reported_for_each_trial_and_not_repeated(data, monkeypatch):
    files = Files(data, monkeypatch)
    variants = (Variant(label="EMA", method="ema"), Variant(label="Sticky", method="sticky"))
    job = replace(data.job, experiment=SimpleNamespace(kind="compare", variants=variants))
    group = [replace(data.trial, target=target) for target in ("bad", "B", "C")]
    error = worker.train_source(group, job)
    assert error == "ValueError: no labelled windows"
    found = [worker.run_trial(trial, job, False, error) for trial in group]
    assert files.trained == 1
    assert [failure.error for failure in found[0].failures] == ["OSError: damaged recording"] * 2
    for result in found[1:]:
        assert [(failure.label, failure.error) for failure in result.failures] == [("EMA", error), ("Sticky", error)]


def test_nothing_is_trained_if_all_rows_are_finished(data, monkeypatch):
    files = Files(data, monkeypatch)
    variant = Variant(label="EMA", method="ema")
    job = replace(data.job, experiment=SimpleNamespace(kind="compare", variants=(variant,)))
    write_row(replace(data, job=job).row_path(variant), {"scores": {}})
    assert worker.train_source([data.trial], job) == ""
    assert files.trained == 0
