"""Validation of source models: finite numbers, and metadata that describe the graph."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

import sight
from sight._util import tensorfile
from sight.base import OutputAdapter
from sight.models import checkpoint
from sight.models.export.int8 import quantise
from sight.models.fused_model import FORMAT, FUSED, FusedSession
from sight.models.given_features import FeatureSource
from sight.models.model_inspection import inspect
from sight.models.onnx import MAX_BYTES, OnnxSource
from sight.models.training_domain import Domain
from sight.results.prediction_loop import run
from sight.testing import ToySource, toy_network, toy_stream
from sight.types import SourceStats
from tests.helpers.commands import run_sight
from tests.helpers.onnx_files import BIAS, WEIGHT, small_card, small_stats, write_model


def with_nan(array):
    changed = np.array(array, np.float32)
    changed.flat[1] = np.nan
    return changed


def test_a_model_made_by_hand_loads(tmp_path):
    source = sight.load(write_model(tmp_path / "m.onnx"))
    assert source.encode(np.ones((2, 3, 20)))[1].shape == (2, 2)
    assert source.stats.count == 9


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"stats.class_means": with_nan(WEIGHT)}, "class_means"),
        ({"stats.prior": with_nan([0.5, 0.5])}, "prior"),
        ({"stats.feature_mean": np.zeros(2, np.float32)}, "feature_mean"),
        ({"head.weight": with_nan(WEIGHT)}, "NaN or infinity"),
        ({"head.bias": with_nan(BIAS)}, "NaN or infinity"),
        ({"head.weight": -WEIGHT}, "test window"),
        ({"head.weight": WEIGHT[:, :2].copy()}, "test window"),
    ],
)
def test_an_exported_model_with_wrong_tensors_is_refused(tmp_path, tensors, words):
    with pytest.raises(ValueError, match=rf"m\.onnx: .*{words}"):
        sight.load(write_model(tmp_path / "m.onnx", tensors=tensors))


@pytest.mark.parametrize(
    "change",
    [
        {"card": small_card(classes=("walk", "sit"))},
        {"card": small_card(classes=("sit", "walk", "run"))},
        {"card": small_card(window_s=3.0)},
        {"metadata": {"sight.classes": '["sit", "walk", "run"]'}},
        {"metadata": {"sight.classes": "[1, 2]"}},
        {"metadata": {"sight.classes": "]"}},
        {"metadata": {"sight.card": "{}"}},
        {"metadata": {"sight.tensors": "AAAA"}},
        {"graph_weight": with_nan(WEIGHT)},
    ],
)
def test_an_exported_model_whose_metadata_differ_from_its_graph_is_refused(tmp_path, change):
    with pytest.raises(ValueError, match=r"m\.onnx: .*export the model again"):
        sight.load(write_model(tmp_path / "m.onnx", **change))


def test_a_graph_that_does_not_end_is_refused(tmp_path, monkeypatch):
    assert OnnxSource(write_model(tmp_path / "short.onnx", turns=3)).classes == ("sit", "walk")
    monkeypatch.setattr("sight.models.onnx.TEST_S", 0.3)
    with pytest.raises(ValueError, match="longer than"):
        OnnxSource(write_model(tmp_path / "endless.onnx", turns=2**40))


def test_a_graph_that_fills_the_memory_is_refused(tmp_path):
    import onnx

    model = onnx.load(write_model(tmp_path / "m.onnx"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([MAX_BYTES // 4 + 1]), "size"))
    model.graph.node[0].output[0] = "means"
    for kind, inputs, output in (
        ("ConstantOfShape", ["size"], "zeros"),
        ("ReduceSum", ["zeros"], "zero"),
        ("Add", ["means", "zero"], "features"),
    ):
        options = {"keepdims": 0} if kind == "ReduceSum" else {}
        node = onnx.helper.make_node(kind, inputs, [output], **options)
        model.graph.node.insert(len(model.graph.node) - 2, node)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=r"more than 4 GiB"):
        OnnxSource(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    "domain",
    [{"centres": 5}, {"mounts": "any", "radius": "x", "alarm_share": 0.1, "steady": 0.5, "centres": [[0.0] * 8]}],
)
def test_a_card_with_a_damaged_domain_is_refused(domain):
    with pytest.raises(ValueError, match="Model card: domain is damaged"):
        Domain.of(small_card(domain=domain))


def test_incomplete_statistics_are_refused():
    stats = {"stats.prior": np.ones(2, np.float32) / 2, "stats.count": np.array([9, 9])}
    with pytest.raises(ValueError, match="statistics"):
        checkpoint.unpack_stats(stats)
    assert checkpoint.unpack_stats({}) is None


def test_statistics_without_the_number_of_subjects_are_read():
    packed = checkpoint.pack_stats(small_stats())
    del packed["subjects"]
    assert checkpoint.unpack_stats(packed).subjects == 0


def test_inspection_of_a_checkpoint_without_a_head_is_a_value_error(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(tensorfile.pack({}, checkpoint.KEY, json.loads(small_card().to_json())))
    with pytest.raises(ValueError, match=r"m\.safetensors: its metadata are damaged"):
        inspect(path)


FUSED_FACTS = {"method": "sight", "params": {}, "state_version": 1, "format": FORMAT}


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ("[", "damaged"),
        ("{}", "damaged"),
        (json.dumps(FUSED_FACTS | {"params": 3}), "damaged"),
        (json.dumps(FUSED_FACTS | {"state_version": 99}), "99; export the model again"),
        (json.dumps(FUSED_FACTS | {"format": 99}), "got 99"),
    ],
)
def test_a_fused_graph_with_damaged_or_other_metadata_is_refused(tmp_path, facts, words):
    path = write_model(tmp_path / "m.onnx", metadata={FUSED: facts})
    with pytest.raises(ValueError, match=rf"m\.onnx: .*{words}"):
        FusedSession(path)
    with pytest.raises(ValueError, match="FusedSession"):
        sight.load(path)


def test_a_missing_model_file_is_named(tmp_path):
    for read in (sight.load, OnnxSource):
        with pytest.raises(FileNotFoundError, match=r"absent\.onnx"):
            read(tmp_path / "absent.onnx")


@pytest.mark.parametrize("windows", [np.zeros((0, 3, 20)), np.zeros((4, 20)), np.full((4, 3, 20), np.nan)])
def test_quantisation_needs_finite_windows(tmp_path, windows):
    with pytest.raises(ValueError, match="calibration windows"):
        quantise(write_model(tmp_path / "m.onnx"), tmp_path / "int8.onnx", windows)
    assert not (tmp_path / "int8.onnx").exists()


def test_a_feature_source_returns_its_input_and_checks_it():
    source = FeatureSource(WEIGHT, BIAS)
    x = np.random.default_rng(0).normal(size=(4, WEIGHT.shape[1], 1))
    z, p = source.encode(x)
    np.testing.assert_allclose(z, x[:, :, 0], rtol=1e-6)
    logits = x[:, :, 0] @ WEIGHT.T + BIAS
    np.testing.assert_allclose(p, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), rtol=1e-5)
    with pytest.raises(ValueError, match="feature vectors"):
        source.encode(x[:, :1])
    with pytest.raises(TypeError, match="no network"):
        source.module()


@pytest.mark.parametrize("part", ["network", "stats"])
def test_a_checkpoint_with_nan_is_refused(tmp_path, part):
    path = toy_network("resnet").save(tmp_path / "m.safetensors")
    content = checkpoint.read(path)
    if part == "network":
        name = next(name for name in content.network if name.endswith("weight"))
        content = replace(content, network=content.network | {name: with_nan(content.network[name])})
    else:
        stats = replace(small_stats())
        object.__setattr__(stats, "class_means", with_nan(WEIGHT))
        content = replace(content, stats=stats)
    checkpoint.save(path, content)
    with pytest.raises(ValueError, match=r"m\.safetensors: "):
        sight.load(path)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("bias", np.array([0, np.nan]), "with NaN"),
        ("classes", ("sit",), "class names"),
        ("stats", SourceStats(prior=np.ones(3) / 3, feature_mean=np.ones(3), class_means=np.eye(3)), "3 features"),
    ],
)
def test_a_method_refuses_a_source_with_wrong_numbers(field, value, words):
    source = FeatureSource(WEIGHT, BIAS, stats=small_stats())
    setattr(source, field, value)
    with pytest.raises(ValueError, match=words):
        sight.method("sticky").bind(source)


@dataclass(kw_only=True)
class Broken(OutputAdapter):
    name = "broken"

    def _reset(self):
        self.count_ = 0

    def _refine_one(self, z, p):  # noqa: ARG002
        self.count_ += 1
        return p if self.count_ < 4 else p * np.nan


def test_predictions_that_are_not_finite_end_the_run():
    with pytest.raises(ValueError, match="broken returned NaN or infinity for window 3"):
        run(Broken().bind(ToySource()), toy_stream(n=8))


def test_adapt_with_nan_in_the_statistics_fails_and_writes_nothing(tmp_path):
    model = write_model(tmp_path / "m.onnx", tensors={"stats.class_means": with_nan(WEIGHT)})
    (tmp_path / "p.csv").write_text("time,x,y,z\n" + "".join(f"{t / 10},0,0,1\n" for t in range(60)))
    printed = run_sight("adapt", tmp_path / "p.csv", "-m", model, "-o", tmp_path / "out", code=2).output
    assert "class_means" in printed
    assert not (tmp_path / "out").exists()
