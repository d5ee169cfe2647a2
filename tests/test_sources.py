"""Checkpoints, ONNX files and wrapped modules: the same answers whatever a model is kept in."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import textwrap
from collections import OrderedDict

import numpy as np
import pytest
import safetensors.numpy
import torch
from torch import nn

import sight
from sight import registry, sources
from sight.base import Source
from sight.sources import checkpoint
from sight.sources.card import ModelCard, filled
from sight.sources.export import export_onnx
from sight.sources.onnx import OnnxSource
from sight.sources.torch import TorchSource
from sight.types import SourceStats

NAMES = ["cnn", "resnet", "transformer", "mlp"]
CLASSES = ("lie", "sit", "walk", "run")


def make(name: str, *, stats: bool = True, fill: bool = False) -> TorchSource:
    """An untrained network with a header, statistics and norm layers away from 0 and 1."""
    torch.manual_seed(3)
    network = registry.get("encoders", name)(channels=3, classes=4)
    network(torch.randn(16, 3, 1 if name == "mlp" else 40))  # moves running statistics
    mean, std = np.float32([0.1, -0.2, 9.81]), np.float32([0.5, 1.5, 3.0])
    card = ModelCard(
        encoder=name,
        encoder_args=network.encoder_args,
        classes=CLASSES,
        channels=("x", "y", "z"),
        units=("g",) * 3,
        rate_hz=20.0,
        window_s=0.05 if name == "mlp" else 2.0,
        stride_s=1.0,
        mean=tuple(mean.tolist()),
        std=tuple(std.tolist()),
        fill=(0.5, 0.25, 9.0) if fill else None,
        dataset="made up",
        training={"epochs": 0},
    )
    network.normalise(mean, std, card.fill)
    dims, rng = network.head.in_features, np.random.default_rng(0)
    left = SourceStats(
        prior=np.float32([0.1, 0.2, 0.3, 0.4]),
        feature_mean=rng.normal(size=dims).astype(np.float32),
        class_means=rng.normal(size=(4, dims)).astype(np.float32),
        count=77,
    )
    return TorchSource(network, classes=CLASSES, card=card, stats=left if stats else None)


def windows(source: TorchSource, n: int = 9) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(n, 3, source.card.length)).astype(np.float32)


@pytest.fixture(scope="module", params=NAMES)
def exported(request, tmp_path_factory):
    source = make(request.param, fill=True)
    path = export_onnx(source, tmp_path_factory.mktemp("onnx") / f"{request.param}.onnx")
    return source, path


# --- card ---------------------------------------------------------------------------------------------------------


def test_card_travels_through_json_unchanged():
    card = make("cnn", fill=True).card
    assert ModelCard.from_json(card.to_json()) == card
    assert json.loads(card.to_json())["classes"] == list(CLASSES)
    assert card.length == 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ("a", "a")}, "two or more different classes"),
        ({"std": (1.0, 0.0, 1.0)}, "std above 0, got 0.0"),
        ({"mean": (1.0,)}, "expected 3 mean .* got 1"),
        ({"mean": (1.0, float("nan"), 0.0)}, "finite mean"),
        ({"rate_hz": -1.0}, "rate_hz above 0"),
    ],
)
def test_card_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(make("cnn").card, **change)


def test_card_names_missing_and_unknown_fields():
    values = json.loads(make("cnn").card.to_json())
    with pytest.raises(ValueError, match="unknown colour"):
        ModelCard.from_json(json.dumps(values | {"colour": "red"}))
    del values["rate_hz"]
    with pytest.raises(ValueError, match="rate_hz missing"):
        ModelCard.from_json(json.dumps(values))
    with pytest.raises(ValueError, match="no header of sight"):
        ModelCard.from_json("[1]")


def test_filled_replaces_nan_by_channel_and_only_nan():
    x = np.array([[[1, np.nan], [np.nan, 4]]], dtype=np.float32)
    assert filled(x, (7.0, 8.0)).tolist() == [[[1, 7], [8, 4]]]
    assert filled(x, None) is x
    assert filled(x, (7.0, 8.0)).dtype == np.float32


# --- checkpoint ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_checkpoint_round_trip_is_bit_identical(name, tmp_path):
    source = make(name, fill=True)
    source.fisher = {"blocks.weight": np.arange(3, dtype=np.float32)}
    source.save(tmp_path / "deep" / "model.safetensors")
    twin = sight.load(tmp_path / "deep" / "model.safetensors")
    x = windows(source)
    x[2, 1] = np.nan
    for ours, theirs in zip(source.encode(x), twin.encode(x), strict=True):
        assert np.array_equal(ours, theirs)
        assert np.isfinite(ours).all()
    assert isinstance(twin, Source)
    assert twin.card == source.card
    assert np.array_equal(twin.weight, source.weight)
    assert np.array_equal(twin.bias, source.bias)
    assert twin.stats.count == 77
    assert np.array_equal(twin.stats.class_means, source.stats.class_means)
    assert np.array_equal(twin.fisher["blocks.weight"], [0, 1, 2])
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model.safetensors"]


def test_checkpoint_without_statistics(tmp_path):
    twin = TorchSource.load(make("mlp", stats=False).save(tmp_path / "m.safetensors"))
    assert twin.stats is None
    assert twin.fisher is None


def test_saving_twice_writes_the_same_bytes(tmp_path):
    a, b = make("mlp").save(tmp_path / "a.safetensors"), make("mlp").save(tmp_path / "b.safetensors")
    assert a.read_bytes() == b.read_bytes()


def test_arrays_that_are_not_contiguous_survive(tmp_path):
    card = make("mlp").card
    array = np.arange(12.0).reshape(3, 4).T
    checkpoint.save(tmp_path / "m.safetensors", checkpoint.Checkpoint(card=card, network={"a": array}))
    assert np.array_equal(checkpoint.read(tmp_path / "m.safetensors").network["a"], array)


def test_wrong_truncated_and_newer_files_say_which(tmp_path):
    good = make("mlp").save(tmp_path / "good.safetensors").read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    bad = tmp_path / "bad.safetensors"
    for cut in (0, 5, 8, 100, header - 1, header, header + 10, len(good) - 1):
        bad.write_bytes(good[:cut])
        with pytest.raises(ValueError, match=f"is cut short at {cut} bytes"):
            sight.load(bad)
    for wrong in (b"PK\x03\x04\x14" + bytes(200), b"some text, not a model at all", bytes(200)):
        bad.write_bytes(wrong)
        with pytest.raises(ValueError, match="is not a safetensors file"):
            sight.load(bad)
    bad.write_bytes(safetensors.numpy.save({"w": np.zeros((2, 3))}))
    with pytest.raises(ValueError, match="holds tensors but no model card"):
        sight.load(bad)
    newer = json.dumps(json.loads(make("mlp").card.to_json()) | {"format": 2, "sight_version": "9.9", "extra": 1})
    bad.write_bytes(safetensors.numpy.save({"w": np.zeros(2)}, metadata={"sight": newer}))
    with pytest.raises(ValueError, match=r"written in format 2 by sight 9\.9, newer than format 1 .* upgrade sight"):
        sight.load(bad)


def test_tensors_of_another_network_are_refused(tmp_path):
    card, network = make("mlp").card, make("cnn").network.state_dict()
    found = checkpoint.Checkpoint(card=card, network={name: value.numpy() for name, value in network.items()})
    with pytest.raises(ValueError, match="do not fit the encoder 'mlp'"):
        sight.load(checkpoint.save(tmp_path / "m.safetensors", found))


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = make("mlp").save(tmp_path / "m.safetensors")
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        make("mlp", stats=False).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_load_refuses_other_files(tmp_path):
    (tmp_path / "m.pt").write_bytes(b"x")
    (tmp_path / "m.txt").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"ends with \.safetensors or \.onnx, got 'm\.pt'; load it with torch"):
        sight.load(tmp_path / "m.pt")
    with pytest.raises(ValueError, match="check the path"):
        sight.load(tmp_path / "m.txt")
    with pytest.raises(FileNotFoundError, match="no model file"):
        sight.load(tmp_path / "nothing.onnx")


# --- torch --------------------------------------------------------------------------------------------------------


def test_encode_is_features_and_softmax_and_batches_do_not_matter():
    source = make("cnn")
    x = windows(source, n=300)
    z, p = source.encode(x)
    with torch.no_grad():
        z_whole = source.network.features(torch.from_numpy(x)).numpy()
    logits = z_whole.astype(np.float64) @ source.weight.T.astype(np.float64) + source.bias
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(z, z_whole, atol=1e-5)
    np.testing.assert_allclose(p, expected, atol=1e-5)
    np.testing.assert_allclose(z, np.concatenate([source.encode(x[i : i + 7])[0] for i in range(0, 300, 7)]), atol=1e-5)
    assert z.dtype == p.dtype == np.float32
    assert [part.shape for part in source.encode(x[:0])] == [(0, 2048), (0, 4)]


def test_source_does_not_share_or_change_what_it_gives_away():
    source = make("mlp")
    x = windows(source)
    before = source.encode(x)[1]
    source.weight[:] = 0
    source.module().train()
    source.module().eval()
    assert np.array_equal(source.encode(x)[1], before)
    assert source.module() is source.network
    assert source.to("cpu").device.type == "cpu"


def test_encode_wants_windows_as_in_training():
    source = make("cnn")
    with pytest.raises(ValueError, match=r"windows \(B, 3, 40\) as in training \(2 s at 20 Hz\), got \(2, 3, 41\)"):
        source.encode(np.zeros((2, 3, 41)))
    with pytest.raises(ValueError, match="4 class names"):
        TorchSource(source.network, classes=("a",))


class Foreign(nn.Module):
    """Somebody's network: an encoder as submodule, a method, and a head deeper inside."""

    def __init__(self, ending: str = "logits") -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()
        )
        self.tail = nn.ModuleDict({"last": nn.Linear(8, 4, bias=ending != "no bias")})
        self.ending = ending
        self.size = 8

    def embed(self, x):
        return self.body(x) * (2 if self.ending == "scaled" else 1)

    def forward(self, x):
        logits = self.tail["last"](self.embed(x))
        return {"softmax": logits.softmax(dim=1), "log": logits.log_softmax(dim=1)}.get(self.ending, logits)


@pytest.mark.parametrize("ending", ["logits", "softmax", "log", "no bias"])
@pytest.mark.parametrize("encoder", ["body", "embed"])
def test_wrap_any_module(ending, encoder):
    model = Foreign(ending)
    source = sight.wrap(model, encoder=encoder, head="tail.last", classes=CLASSES)
    x = np.random.default_rng(0).normal(size=(6, 3, 20)).astype(np.float32)
    z, p = source.encode(x)
    with torch.no_grad():
        np.testing.assert_allclose(z, model.body(torch.from_numpy(x)), atol=1e-6)
        logits = model.tail["last"](model.body(torch.from_numpy(x)))
        np.testing.assert_allclose(p, logits.softmax(dim=1), atol=1e-6)
    assert source.classes == CLASSES
    assert isinstance(source, Source)
    module = source.module()
    module(torch.from_numpy(x)).sum().backward()
    assert model.body[0].weight.grad is not None
    assert len(module.state_dict()) == len(model.state_dict())


def test_wrap_says_what_is_wrong():
    model = Foreign()
    with pytest.raises(ValueError, match=r"no head 'tail.lost'; known are .* Did you mean 'tail.last'\?"):
        sight.wrap(model, encoder="body", head="tail.lost")
    with pytest.raises(ValueError, match=r"no encoder 'embet'.* Did you mean 'embed'\?"):
        sight.wrap(model, encoder="embet", head="tail.last")
    with pytest.raises(TypeError, match=r"'body' to be a torch\.nn.Linear, got Sequential"):
        sight.wrap(model, encoder="body", head="body")
    with pytest.raises(TypeError, match="'size' to be a submodule or a method"):
        sight.wrap(model, encoder="size", head="tail.last")
    with pytest.raises(ValueError, match=r"'body.0' to give \(B, 8\) as the head wants, got \(1, 8, 18\)"):
        sight.wrap(model, encoder="body.0", head="tail.last").encode(np.zeros((1, 3, 20)))
    with pytest.raises(ValueError, match="does not give what the model itself answers, so the cut is wrong"):
        sight.wrap(Foreign("scaled"), encoder="body", head="tail.last").encode(np.ones((1, 3, 20)))
    with pytest.raises(ValueError, match=r"windows \(B, C, T\), got \(3, 20\)"):
        sight.wrap(model, encoder="body", head="tail.last").encode(np.zeros((3, 20)))
    with pytest.raises(TypeError, match="export it to ONNX"):
        sight.wrap(model, encoder="body", head="tail.last").save("never.safetensors")


def test_wrapped_network_exports(tmp_path):
    source = sight.wrap(Foreign(), encoder="embed", head="tail.last")
    with pytest.raises(ValueError, match=r"shape=\(C, T\)"):
        export_onnx(source, tmp_path / "w.onnx")
    twin = sight.load(export_onnx(source, tmp_path / "w.onnx", shape=(3, 20)))
    x = np.random.default_rng(0).normal(size=(6, 3, 20)).astype(np.float32)
    np.testing.assert_allclose(twin.encode(x)[1], source.encode(x)[1], atol=1e-5)
    assert twin.card is None
    assert twin.classes == source.classes == ("class 0", "class 1", "class 2", "class 3")


# --- onnx ---------------------------------------------------------------------------------------------------------


def test_onnx_agrees_with_torch(exported):
    source, path = exported
    twin = sight.load(path)
    x = windows(source, n=40)
    x[1, 2] = np.nan  # filled inside the graph too
    for ours, theirs in zip(source.encode(x), twin.encode(x), strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-5, rtol=0)
        assert theirs.dtype == np.float32
    assert isinstance(twin, Source)
    assert twin.card == source.card
    assert twin.classes == source.classes
    assert np.array_equal(twin.weight, source.weight)
    assert np.array_equal(twin.bias, source.bias)
    assert np.array_equal(twin.stats.class_means, source.stats.class_means)
    assert (twin.stats.count, twin.shape) == (77, (3, source.card.length))


def test_onnx_answers_are_bit_identical_however_a_stream_is_cut(exported):
    source, path = exported
    twin, x = OnnxSource(path), windows(source, n=40)
    z, p = twin.encode(x)
    for size in (1, 2, 3, 7, 16, 33):
        parts = [twin.encode(x[i : i + size]) for i in range(0, 40, size)]
        assert np.array_equal(np.concatenate([part[0] for part in parts]), z)
        assert np.array_equal(np.concatenate([part[1] for part in parts]), p)
    assert [part.shape for part in twin.encode(x[:0])] == [(0, z.shape[1]), (0, 4)]


def test_onnx_file_names_its_inputs_and_outputs_and_takes_batches(exported):
    import onnxruntime

    source, path = exported
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == ["x"]
    assert [value.name for value in session.get_outputs()] == ["features", "logits", "probabilities"]
    x = windows(source, n=5)
    z, logits, p = session.run(None, {"x": x})
    np.testing.assert_allclose(logits, z @ source.weight.T + source.bias, atol=1e-4)
    np.testing.assert_allclose(p, source.encode(x)[1], atol=1e-5)


def test_onnx_refuses(exported, tmp_path):
    source, path = exported
    twin = OnnxSource(path, threads=2)
    with pytest.raises(TypeError, match=r"sight\.load of the \.safetensors file"):
        twin.module()
    with pytest.raises(ValueError, match=r"Expected windows \(B, 3, "):
        twin.encode(np.zeros((1, 4, source.card.length)))
    (tmp_path / "cut.onnx").write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="not an ONNX model that onnxruntime can read, or is cut short"):
        sight.load(tmp_path / "cut.onnx")


def test_the_exporter_keeps_a_small_epsilon(tmp_path):
    class Guarded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.classifier = nn.Linear(3, 2)

        def features(self, x):
            total = x.mean(dim=2)
            return total / (total.norm(dim=1, keepdim=True) + 1e-8)

        def forward(self, x):
            return self.classifier(self.features(x))

    twin = sight.load(export_onnx(sight.wrap(Guarded()), tmp_path / "g.onnx", shape=(3, 4)))
    assert np.array_equal(twin.encode(np.zeros((1, 3, 4)))[0], np.zeros((1, 3)))


def test_onnx_needs_neither_torch_nor_onnx(exported):
    source, path = exported
    x = windows(source, n=3)
    program = f"""
        import sys
        for name in ("torch", "onnx", "onnxscript", "numba", "pandas", "scipy"):
            sys.modules[name] = None
        import numpy as np
        import sight, sight.sources
        assert "onnxruntime" not in sys.modules
        source = sight.load({str(path)!r})
        x = np.array({x.tolist()!r}, dtype=np.float32)
        adapter = sight.method("sight").bind(source)
        print(source.encode(x)[1].tobytes().hex(), adapter.step(x).shape, source.stats.count)
        print(sight.sources.inspect({str(path)!r})["encoder"])
        open("m.safetensors", "wb").close()
        try:
            sight.load("m.safetensors")
        except ModuleNotFoundError as error:
            print(error)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, cwd=path.parent, check=False
    )
    assert ran.returncode == 0, ran.stderr
    answer, encoder, refusal = ran.stdout.splitlines()
    assert answer == f"{OnnxSource(path).encode(x)[1].tobytes().hex()} (3, 4) 77"
    assert encoder == source.card.encoder
    assert "needs torch, which is not installed" in refusal


# --- inspect ------------------------------------------------------------------------------------------------------


def test_inspect_checkpoint_and_export(exported, tmp_path):
    source, path = exported
    facts = sources.inspect(source.save(tmp_path / "m.safetensors"))
    assert facts["kind"] == "checkpoint of sight"
    assert facts["parameters"] == sum(p.numel() for p in source.network.parameters())
    assert facts["size_bytes"] == (tmp_path / "m.safetensors").stat().st_size
    assert (facts["stats"], facts["fisher"], facts["fills_nan"]) == (True, False, True)
    dims = source.weight.shape[1]
    assert facts["cut"] == f"features ({dims}) | head (Linear {dims} to 4)"
    other = sources.inspect(path)
    assert other["kind"] == "ONNX model of sight"
    shared = ("encoder", "classes", "channels", "rate_hz", "window_s", "stats", "cut")
    assert {key: other[key] for key in shared} == {key: facts[key] for key in shared}
    json.dumps([facts, other])


def foreign_onnx(path, model):
    program = torch.onnx.export(model.eval(), (torch.zeros(2, 3, 20),), dynamo=True, verbose=False)
    path.write_bytes(program.model_proto.SerializeToString())
    return path


@pytest.mark.filterwarnings("ignore")
def test_inspect_foreign_files(tmp_path):
    linear = nn.Sequential(OrderedDict(flat=nn.Flatten(), head=nn.Linear(60, 4), out=nn.Softmax(dim=1)))
    facts = sources.inspect(foreign_onnx(tmp_path / "a.onnx", linear))
    assert facts["kind"] == "ONNX model of somebody else"
    assert list(facts["outputs"].values()) == [[2, 4]]
    assert facts["cut"].startswith("before Gemm")
    assert "head.weight" in facts["cut"]
    with pytest.raises(ValueError, match="without the metadata of sight"):
        sight.load(tmp_path / "a.onnx")
    facts = sources.inspect(foreign_onnx(tmp_path / "b.onnx", nn.Sequential(nn.Conv1d(3, 4, 20), nn.Flatten())))
    assert facts["cut"] is None
    assert "no output is a linear layer" in facts["why_not"]
    (tmp_path / "c.safetensors").write_bytes(safetensors.numpy.save({"fc.weight": np.zeros((2, 3))}))
    facts = sources.inspect(tmp_path / "c.safetensors")
    assert (facts["cut"], facts["tensors"], facts["values"]) == (None, {"fc.weight": [2, 3]}, 6)
    assert "sight.wrap" in facts["why_not"]
    with pytest.raises(ValueError, match=r"Expected a \.safetensors or \.onnx file"):
        sources.inspect(tmp_path / "d.pt")


def test_inspect_without_onnx_package(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    from sight.sources.facts import _foreign_cut

    assert "pip install onnx" in _foreign_cut(tmp_path / "any.onnx")["why_not"]
