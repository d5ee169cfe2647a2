"""Models of other tools: `sight.wrap` with a card, `sight.source_stats`, `sight.export`, and what they are good for."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import sight
from sight.models.given_features import FeatureSource
from sight.models.model_inspection import inspect
from tests.helpers.commands import run_sight
from tests.helpers.onnx_files import keras_like, small_stats

CLASSES = ("sit", "walk", "run")
INPUT = {"rate_hz": 10, "channels": ("acc_x", "acc_y", "acc_z"), "units": "g", "window_s": 2, "stride_s": 1}


class Own(nn.Module):
    """Network of the user: takes (B, T, C), and returns what `ending` says."""

    def __init__(self, ending: str = "logits", time_first: bool = True) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.mix, self.out = nn.Linear(3 if time_first else 20, 8), nn.Linear(8, 3)
        self.ending = ending

    def embed(self, x):
        z = torch.relu(self.mix(x)).mean(dim=1)
        return (z, x) if self.ending == "tuple features" else z

    def forward(self, x):
        z = self.embed(x)
        if self.ending == "cosine":
            return 7 * nn.functional.normalize(z) @ nn.functional.normalize(self.out.weight).T
        logits = self.out(z)
        return {"tuple": (logits, z), "temperature": logits / 4}.get(self.ending, logits)


def wrap(model, **options):
    options = {"encoder": "embed", "head": "out", "time_first": True, "classes": CLASSES, **INPUT, **options}
    return sight.wrap(model, **options)


def samples(n=600):
    rng = np.random.default_rng(0)
    level = np.repeat(rng.normal(size=(n // 100, 3)), 100, axis=0)
    return np.arange(n) / 10, level + 0.3 * rng.normal(size=(n, 3))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    source = wrap(Own())
    rng = np.random.default_rng(1)
    source.stats = sight.source_stats(source, rng.normal(size=(40, 3, 20)), np.arange(40) % 4 - 1)
    return source, sight.export(source, tmp_path_factory.mktemp("own") / "own.onnx")


@pytest.fixture
def day(tmp_path):
    time_s, values = samples()
    rows = [",".join(f"{v:.6f}" for v in (t, *row)) for t, row in zip(time_s, values, strict=True)]
    path = tmp_path / "day.csv"
    path.write_text("\n".join(["time,acc_x,acc_y,acc_z", *rows]) + "\n")
    return path


def test_an_own_torch_model_works_in_adapt_stream_and_the_service(exported, day, tmp_path):
    import pandas as pd

    from sight.apps.serve.model_catalogue import ModelCatalogue
    from sight.apps.serve.session_manager import SessionManager
    from sight.apps.serve.sqlite_store import SqliteStore
    from tests.helpers.sessions import send, stored_events

    source, path = exported
    facts = json.loads(run_sight("inspect", path, "--json").output)
    assert (facts["channels"], facts["stats"], facts["encoder"]) == (list(INPUT["channels"]), True, "own")
    twin = sight.load(path)
    x = np.random.default_rng(2).normal(size=(5, 3, 20)).astype(np.float32)
    np.testing.assert_allclose(twin.encode(x)[1], source.encode(x)[1], atol=1e-5)
    assert np.array_equal(twin.stats.class_means, source.stats.class_means)

    run_sight("adapt", day, "-m", path, "-o", tmp_path / "out", "--time-unit", "s", "--lag", "0")
    table = pd.read_parquet(tmp_path / "out" / "windows.parquet")
    offline = table[[f"q_{name}" for name in CLASSES]].to_numpy()

    lines = "\n".join(day.read_text().splitlines()[1:]) + "\n"
    streamed = run_sight("stream", "-m", path, text=lines).stdout.splitlines()
    np.testing.assert_allclose([json.loads(line)["q"] for line in streamed], offline, atol=1e-6)

    manager = SessionManager(ModelCatalogue.load([path]), SqliteStore(tmp_path / "store.db"))
    manager.create("ann", method="keel")
    time_s, values = samples()
    send(manager, "ann", values.astype(np.float32), seq=1, time_s=time_s)
    served = [event.q for event in stored_events(manager, "ann")]
    np.testing.assert_allclose(served, offline, atol=1e-5)
    manager.store.close()


def test_export_takes_the_name_of_a_method(exported, tmp_path):
    for method in ("ema", sight.method("ema")):
        with pytest.raises(TypeError, match="keel or keel-norm for a fused graph, got ema"):
            sight.export(exported[0], tmp_path / "no.onnx", method=method)
    with pytest.raises(ValueError, match="Did you mean 'keel'"):
        sight.export(exported[0], tmp_path / "no.onnx", method="kel")


@pytest.mark.long
def test_the_fused_graph_of_an_own_model(exported, tmp_path):
    from sight.models.fused_model import FusedSession

    source, _ = exported
    session = FusedSession(sight.export(source, tmp_path / "fused.onnx", method="keel"))
    x = np.random.default_rng(2).normal(size=(5, 3, 20)).astype(np.float32)
    fused = [session.step(window)[0] for window in x]
    np.testing.assert_allclose(fused, sight.method("keel").bind(source).step(x), atol=1e-4)


def test_the_subjects_of_the_training_are_in_the_card(tmp_path):
    from sight.apps.bench.settings import _own_pairs
    from sight.recordings.labelled import is_in_training
    from sight.recordings.recording_references import RecordingRef

    source = sight.wrap(
        keras_like(tmp_path / "keras.onnx"), dataset="hapt", subjects=(1, "2"), classes=CLASSES, **INPUT
    )
    path = sight.export(source, tmp_path / "own.onnx")
    assert list(_own_pairs(str(path), "hapt", ("1", "2", "3"))) == [(("own",), "3")]
    card = sight.load(path).card
    refs = [RecordingRef(name=f"{data}:2", dataset=data, subject="2") for data in ("hapt", "uschad")]
    assert [is_in_training(ref, card) for ref in refs] == [True, None]
    assert wrap(Own(), dataset="hapt", subjects="12").card.training == {"subjects": ["12"]}
    with pytest.raises(ValueError, match="Expected the dataset of the training subjects"):
        wrap(Own(), subjects=("1",))
    with pytest.raises(ValueError, match="got no rate_hz"):
        sight.wrap(Own(), encoder="embed", head="out", dataset="hapt")


def test_a_recording_is_not_compared_with_the_unknown_scale_of_an_own_model(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.arange(3000) / 10, rng.normal(0, (40, 30, 30), (3000, 3))])
    np.savetxt(tmp_path / "day.csv", rows, delimiter=",", header="time,gyro_x,gyro_y,gyro_z", comments="", fmt="%.5f")
    source = wrap(Own(), channels=("gyro_x", "gyro_y", "gyro_z"), units="deg/s")
    windows = sight.read(tmp_path / "day.csv", source, time_unit="s", gyro_unit="deg/s")
    assert windows.warnings == ()
    source.card = replace(source.card, encoder="cnn")  # a model of sight, for which 0 and 1 are the scale of training
    trained = sight.read(tmp_path / "day.csv", source, time_unit="s", gyro_unit="deg/s")
    assert "as much as in training" in trained.warnings[0].text


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (Own(), {"time_first": False}, ValueError, r"\(B, C, T\) = \(1, 3, 20\): .*pass time_first=True"),
        (Own(), {"window_s": None}, ValueError, "for the card of the model, got no window_s"),
        (Own("tuple"), {}, TypeError, "got a tuple of 2; wrap a module whose forward returns the logits"),
        (Own("tuple features"), {}, TypeError, "'embed' to return one tensor"),
        (Own("temperature"), {}, ValueError, "by the factor 0.25, a temperature"),
        (Own("cosine"), {}, ValueError, "it is 7 times the cosine"),
        (Own(), {"classes": ("a", "b")}, ValueError, "Expected 3 class names"),
        (Own(), {"units": ("g", "g")}, ValueError, "expected 3 units"),
    ],
)
def test_wrap_explains_what_does_not_fit(model, options, error, message):
    if model.ending == "tuple features":
        model.forward = lambda x: model.out(model.embed(x)[0])
    with pytest.raises(error, match=message):
        wrap(model, **options)


def test_a_remedied_cosine_head_is_accepted():
    model = Own("cosine")
    unit = nn.functional.normalize(model.out.weight.data)
    model.out.weight.data, model.out.bias.data = 7 * unit, torch.zeros(3)
    Own.directions = lambda self, x: nn.functional.normalize(self.embed(x))
    try:
        assert wrap(model, encoder="directions").card.length == 20
    finally:
        del Own.directions


@pytest.mark.parametrize(("named", "given", "stored"), [((), None, 0), (("A", "B"), None, 2), (("A", "B"), 5, 5)])
def test_the_number_of_training_subjects_is_given_or_that_of_the_card(named, given, stored):
    source, x = wrap(Own(), dataset="folder", subjects=named), np.zeros((3, 3, 20))
    assert sight.source_stats(source, x, np.arange(3), subjects=given).subjects == stored


def test_source_stats_ignores_unlabelled_windows_and_checks_labels():
    source, x = wrap(Own()), np.random.default_rng(0).normal(size=(9, 3, 20))
    y = np.array([0, 1, 2, 0, 1, 2, -1, -1, 0])
    stats = sight.source_stats(source, x, y, subjects=2)
    z = source.encode(x)[0]
    assert (stats.count, stats.subjects) == (7, 2)
    np.testing.assert_allclose(stats.class_means[1], z[[1, 4]].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(stats.prior, [3 / 7, 2 / 7, 2 / 7], rtol=1e-6)
    for wrong in (y + 1, np.array(list("sitsitsit")), y[:-1], np.full(9, -1)):
        with pytest.raises(ValueError, match="class ind"):
            sight.source_stats(source, x, wrong)


# --- ONNX files of other tools --------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["dense_1", "m/dense_1/Relu:0", None])
@pytest.mark.parametrize("gemm", [False, True])
def test_a_keras_like_file_becomes_a_source_without_torch(tmp_path, features, gemm, monkeypatch):
    import onnxruntime

    path = keras_like(tmp_path / "keras.onnx", gemm=gemm)
    assert "sight.wrap" in inspect(path)["why_not"]
    monkeypatch.setitem(sys.modules, "sight.models.wrapped", None)  # importing it would fail
    source = sight.wrap(path, features=features, classes=CLASSES, **INPUT)
    x = np.random.default_rng(3).normal(size=(6, 3, 20)).astype(np.float32)
    z, p = source.encode(x)
    expected = onnxruntime.InferenceSession(path).run(["dense_1", "dense_2"], {"x": x.transpose(0, 2, 1)})
    np.testing.assert_allclose(z, expected[0], atol=1e-5)
    np.testing.assert_allclose(p, expected[1], atol=1e-5)
    source.stats = sight.source_stats(source, x, np.arange(6) % 3)
    twin = sight.load(sight.export(source, tmp_path / "with_card.onnx"))
    assert (twin.card, twin.stats.count) == (source.card, 6)
    assert np.array_equal(twin.encode(x)[1], p)
    again = sight.load(sight.export(twin, tmp_path / "again.onnx"))
    assert again.card == twin.card
    with pytest.raises(TypeError, match="Expected a torch model, or a file of a network that sight trained"):
        sight.export(source, tmp_path / "no.onnx", method=sight.method("keel"))


def test_files_that_cannot_be_wrapped(tmp_path):
    both = keras_like(tmp_path / "both.onnx", two_heads=True)
    with pytest.raises(ValueError, match=r"several linear layers .*choose 'm/dense_1/Relu:0' or|or 'm/dense_1/Relu:0'"):
        sight.wrap(both, classes=CLASSES, **INPUT)
    assert sight.wrap(both, features="dense_1", classes=CLASSES, **INPUT).weight.shape == (3, 8)
    with pytest.raises(ValueError, match="got features='dense_9'; choose"):
        sight.wrap(both, features="dense_9", classes=CLASSES, **INPUT)
    with pytest.raises(ValueError, match="C = 3 and T = 40"):
        sight.wrap(both, classes=CLASSES, features="dense_1", **INPUT | {"window_s": 4})
    with pytest.raises(ValueError, match=r"free batch size, got 1 input\(s\) of shape \[32, 20, 3\]"):
        sight.wrap(keras_like(tmp_path / "b.onnx", batch=32), classes=CLASSES, **INPUT)
    none = keras_like(tmp_path / "none.onnx", outputs=("dense_1",))
    with pytest.raises(ValueError, match=r"got none; .* sight\.refine"):
        sight.wrap(none, classes=CLASSES, **INPUT)
    with pytest.raises(ValueError, match="got no rate_hz, channels, units, window_s"):
        sight.wrap(none)
    with pytest.raises(TypeError, match="has no encoder"):
        sight.export(FeatureSource(np.eye(3), stats=None), tmp_path / "no.onnx")
    with pytest.raises(ValueError, match="statistics of"):
        sight.method("keel").bind(sight.wrap(both, features="dense_1", classes=CLASSES, stats=small_stats(), **INPUT))
