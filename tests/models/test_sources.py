"""Model cards, checkpoints, torch sources and wrapped modules."""

from __future__ import annotations

import dataclasses
import json
import os
import re

import numpy as np
import pytest
import safetensors.numpy
import torch
from torch import nn

import sight
from sight.base import Source
from sight.models import checkpoint
from sight.models.card import FORMAT, ModelCard, filled
from sight.models.export.onnx import export_onnx
from sight.models.torch import TorchSource
from tests.helpers.untrained import CLASSES, NAMES, make, windows


def test_card_json_round_trip():
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
def test_invalid_cards_raise(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(make("cnn").card, **change)


def test_missing_and_unknown_fields_of_a_card_raise():
    values = json.loads(make("cnn").card.to_json())
    with pytest.raises(ValueError, match="colour"):
        ModelCard.from_json(json.dumps(values | {"colour": "red"}))
    del values["rate_hz"]
    with pytest.raises(ValueError, match="rate_hz"):
        ModelCard.from_json(json.dumps(values))
    with pytest.raises(ValueError, match="not a header"):
        ModelCard.from_json("[1]")


def test_filled_replaces_only_nan_by_channel():
    x = np.array([[[1, np.nan], [np.nan, 4]]], dtype=np.float32)
    assert filled(x, (7.0, 8.0)).tolist() == [[[1, 7], [8, 4]]]
    assert filled(x, None) is x
    assert filled(x, (7.0, 8.0)).dtype == np.float32


@pytest.mark.parametrize("name", NAMES)
def test_checkpoint_round_trip_is_bit_identical(name, tmp_path):
    source = make(name, fill=True)
    source.fisher = {"blocks.weight": np.arange(3, dtype=np.float32)}
    source.save(tmp_path / "deep" / "model.safetensors")
    twin = sight.load(tmp_path / "deep" / "model.safetensors")
    x = windows(source)
    x[2, 1] = np.nan
    for expected, actual in zip(source.encode(x), twin.encode(x), strict=True):
        assert np.array_equal(actual, expected)
        assert np.isfinite(expected).all()
    assert isinstance(twin, Source)
    assert twin.card == source.card
    assert np.array_equal(twin.weight, source.weight)
    assert np.array_equal(twin.bias, source.bias)
    assert (twin.stats.count, twin.stats.subjects) == (77, 5)
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


def test_a_checkpoint_has_the_permissions_of_the_umask(tmp_path):
    previous = os.umask(0o027)
    try:
        path = make("mlp").save(tmp_path / "m.safetensors")
    finally:
        os.umask(previous)
    assert path.stat().st_mode & 0o777 == 0o640


def test_non_contiguous_arrays_round_trip(tmp_path):
    card = make("mlp").card
    array = np.arange(12.0).reshape(3, 4).T
    checkpoint.save(tmp_path / "m.safetensors", checkpoint.Checkpoint(card=card, network={"a": array}))
    assert np.array_equal(checkpoint.read(tmp_path / "m.safetensors").network["a"], array)


def test_truncated_foreign_and_newer_files_raise(tmp_path):
    good = make("mlp").save(tmp_path / "good.safetensors").read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    bad = tmp_path / "bad.safetensors"
    for cut in (0, 5, 8, 100, header - 1, header, header + 10, len(good) - 1):
        bad.write_bytes(good[:cut])
        with pytest.raises(ValueError, match=f"is cut short at {cut} bytes"):
            sight.load(bad)
    for wrong in (b"PK\x03\x04\x14" + bytes(200), b"some text, not a model at all", bytes(200)):
        bad.write_bytes(wrong)
        with pytest.raises(ValueError, match="not a safetensors"):
            sight.load(bad)
    bad.write_bytes(safetensors.numpy.save({"w": np.zeros((2, 3))}))
    with pytest.raises(ValueError, match="no model card"):
        sight.load(bad)
    newer = json.dumps(
        json.loads(make("mlp").card.to_json()) | {"format": FORMAT + 1, "sight_version": "9.9", "extra": 1}
    )
    bad.write_bytes(safetensors.numpy.save({"w": np.zeros(2)}, metadata={"sight": newer}))
    with pytest.raises(ValueError, match=rf"format {FORMAT + 1} by sight 9\.9, .* upgrade"):
        sight.load(bad)


def test_tensors_of_another_network_raise(tmp_path):
    card, network = make("mlp").card, make("cnn").network.state_dict()
    content = checkpoint.Checkpoint(card=card, network={name: value.numpy() for name, value in network.items()})
    with pytest.raises(ValueError, match="encoder 'mlp'"):
        sight.load(checkpoint.save(tmp_path / "m.safetensors", content))


def test_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = make("mlp").save(tmp_path / "m.safetensors")
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        make("mlp", stats=False).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_load_rejects_other_files(tmp_path):
    (tmp_path / "m.pt").write_bytes(b"x")
    (tmp_path / "m.txt").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"got 'm\.pt'; load it with torch"):
        sight.load(tmp_path / "m.pt")
    with pytest.raises(ValueError, match="check the path"):
        sight.load(tmp_path / "m.txt")
    with pytest.raises(FileNotFoundError, match="no model file"):
        sight.load(tmp_path / "nothing.onnx")


def test_encode_returns_features_and_softmax_for_any_batch():
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


def test_source_copies_its_weights():
    source = make("mlp")
    x = windows(source)
    before = source.encode(x)[1]
    source.weight[:] = 0
    source.module().train()
    source.module().eval()
    assert np.array_equal(source.encode(x)[1], before)
    assert source.module() is source.network
    assert source.to("cpu").device.type == "cpu"


def test_encode_checks_the_shape_of_windows():
    source = make("cnn")
    with pytest.raises(ValueError, match=r"\(B, 3, 40\) .* got \(2, 3, 41\)"):
        source.encode(np.zeros((2, 3, 41)))
    with pytest.raises(ValueError, match="4 class names"):
        TorchSource(source.network, classes=("a",))


class Foreign(nn.Module):
    """Network that sight did not build: an encoder as submodule and as method, and a nested head."""

    def __init__(self, ending: str = "logits") -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()
        )
        self.tail = nn.ModuleDict({"last": nn.Linear(8, 4, bias=ending != "no bias")})
        self.ending = ending
        self.size = 8

    def embed(self, x):
        z = self.body(x)
        if self.ending == "normalised":
            return z / (z.norm(dim=1, keepdim=True) + 1e-8)
        return z * (2 if self.ending == "scaled" else 1)

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


def test_wrap_errors():
    model = Foreign()
    with pytest.raises(ValueError, match=r"no head 'tail.lost'; choose from .* Did you mean 'tail.last'\?"):
        sight.wrap(model, encoder="body", head="tail.lost")
    with pytest.raises(ValueError, match=r"no encoder 'embet'.* Did you mean 'embed'\?"):
        sight.wrap(model, encoder="embet", head="tail.last")
    with pytest.raises(TypeError, match=r"'body' to be a torch\.nn.Linear, got Sequential"):
        sight.wrap(model, encoder="body", head="body")
    with pytest.raises(TypeError, match="'size' to be a submodule"):
        sight.wrap(model, encoder="size", head="tail.last")
    with pytest.raises(ValueError, match=r"'body.0' to return \(B, 8\), .* got \(1, 8, 18\)"):
        sight.wrap(model, encoder="body.0", head="tail.last").encode(np.zeros((1, 3, 20)))
    with pytest.raises(ValueError, match="wrong place"):
        sight.wrap(Foreign("scaled"), encoder="body", head="tail.last").encode(np.ones((1, 3, 20)))
    with pytest.raises(ValueError, match=r"windows \(B, C, T\), got \(3, 20\)"):
        sight.wrap(model, encoder="body", head="tail.last").encode(np.zeros((3, 20)))
    with pytest.raises(TypeError, match=r"sight\.export"):
        sight.wrap(model, encoder="body", head="tail.last").save("never.safetensors")


def flat() -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 4))


@pytest.mark.parametrize("parts", ["found", "given"])
def test_a_flat_sequential_is_wrapped(parts, tmp_path):
    net = flat()
    given = {"encoder": net[:-1], "head": net[-1]} if parts == "given" else {}
    source = sight.wrap(net, **given, classes=CLASSES)
    x = np.random.default_rng(0).normal(size=(6, 3, 20)).astype(np.float32)
    z, p = source.encode(x)
    with torch.no_grad():
        np.testing.assert_allclose(z, net[:-1](torch.from_numpy(x)), atol=1e-6)
    twin = sight.load(sight.export(source, tmp_path / "flat.onnx", shape=(3, 20)))
    np.testing.assert_allclose(twin.encode(x)[1], p, atol=1e-5)
    sight.method("tent").bind(source).step(x)  # adapts a copy
    np.testing.assert_array_equal(source.encode(x)[1], p)


def test_parts_of_a_model_are_given_as_modules_and_methods():
    model = Foreign()
    for encoder in (model.body, model.embed):
        assert sight.wrap(model, encoder=encoder, head=model.tail["last"]).weight.shape[1] == 8
    with_softmax = nn.Sequential(*flat(), nn.Softmax(dim=1))
    sight.wrap(with_softmax, encoder=with_softmax[:-2], head=with_softmax[-2]).encode(np.ones((1, 3, 20)))
    with pytest.raises(ValueError, match="Expected the encoder to be a part of the model, got a Sequential"):
        sight.wrap(model, encoder=flat()[:-1], head=model.tail["last"])
    with pytest.raises(ValueError, match="no encoder 'features'") as error:
        sight.wrap(with_softmax, head="4")
    assert not {"pop", "forward", "append"} & set(re.findall(r"\w+", str(error.value)))


def test_wrapped_network_exports_with_its_small_epsilon(tmp_path):
    """An exporter that drops ``+ 1e-8`` would return NaN for a window whose features are all zero."""
    model = Foreign("normalised").eval()
    torch.nn.init.zeros_(model.body[0].bias)
    source = sight.wrap(model, encoder="embed", head="tail.last")
    with pytest.raises(ValueError, match=r"shape=\(C, T\)"):
        export_onnx(source, tmp_path / "w.onnx")
    twin = sight.load(export_onnx(source, tmp_path / "w.onnx", shape=(3, 20)))
    x = np.random.default_rng(0).normal(size=(6, 3, 20)).astype(np.float32)
    np.testing.assert_allclose(twin.encode(x)[1], source.encode(x)[1], atol=1e-5)
    assert np.array_equal(twin.encode(0 * x[:1])[0], np.zeros((1, 8)))
    assert twin.card is None
    assert twin.classes == source.classes == ("class 0", "class 1", "class 2", "class 3")
