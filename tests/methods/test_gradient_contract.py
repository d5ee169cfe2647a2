"""Gradient methods on every network and under every rule: valid predictions, resuming, an unchanged source."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sight import registry, wrap
from sight.models.torch import TorchSource
from tests.helpers.networks import source, windows

NAMES = [name for name in registry.TABLES["methods"] if registry.get("methods", name).needs.gradient]
SHAPES = {"cnn": (3, 24), "resnet": (6, 24), "transformer": (3, 24), "mlp": (12, 1)}
SMALL = {"note": {"memory": 8}, "rotta": {"memory": 8}, "coa-har": {"memory": 40}, "cotta": {"views": 2}}
EACH = {"update_every": 8}


def small(name: str, **fields):
    return registry.method(name, **{**SMALL.get(name, {}), **EACH, **fields})


def predict(adapter, x, cut=None) -> np.ndarray:
    size = cut or adapter.chunk or len(x)
    return np.concatenate([adapter.step(x[t : t + size]) for t in range(0, len(x), size)])


def valid(q, classes) -> bool:
    return q.shape[1] == classes and bool(np.isfinite(q).all()) and bool(np.allclose(q.sum(axis=1), 1, atol=1e-4))


@pytest.mark.parametrize(("encoder", "classes"), list(zip(SHAPES, (2, 18, 18, 2), strict=True)))
@pytest.mark.parametrize("name", NAMES)
def test_every_network_with_few_and_many_classes(name, encoder, classes):
    channels, length = SHAPES[encoder]
    model = source(encoder, classes, channels, length)
    before = {key: tensor.clone() for key, tensor in model.module().state_dict().items()}
    x, _ = windows(classes, channels, length, n=35)
    for batch in (1, 32):
        adapter = small(name, rule="chunk", batch=batch).bind(model)
        q = predict(adapter, x[: 9 if batch == 1 else None])
        assert valid(q, classes)
        assert all(np.isfinite(a).all() for a in adapter.state().values() if a.dtype.kind == "f")
    after = model.module().state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert not any(p.grad is not None for p in model.module().parameters())


@pytest.mark.parametrize("name", NAMES)
def test_streams_of_one_class_or_one_window(name):
    x, label = windows(n=400)
    for stream in (x[label == label[0]][:24], np.repeat(x[:1], 20, axis=0), np.zeros_like(x[:16])):
        assert valid(predict(small(name, rule="stream").bind(source()), stream), 5)


@pytest.mark.parametrize("stats", ["source", "batch", "ema", "mix"])
@pytest.mark.parametrize("name", NAMES)
def test_every_choice_of_statistics(name, stats):
    x, _ = windows(n=40)
    assert valid(predict(small(name, bn_stats=stats).bind(source()), x), 5)


@pytest.mark.parametrize("update_every", [1, 5])
@pytest.mark.parametrize("name", NAMES)
def test_the_stream_rule_does_not_depend_on_the_cut(name, update_every):
    model = source("mlp", channels=12, length=1)
    x, _ = windows(channels=12, length=1, n=31)
    fields = {"rule": "stream", "update_every": update_every}
    whole, cut = small(name, **fields).bind(model), small(name, **fields).bind(model)
    assert whole.chunk is None
    assert (predict(whole, x) == predict(cut, x, cut=4)).all()
    assert all((whole.state()[key] == value).all() for key, value in cut.state().items())


@pytest.mark.parametrize("rule", ["chunk", "stream"])
@pytest.mark.parametrize("name", NAMES)
def test_resume_on_a_fresh_adapter_is_bit_for_bit(name, rule):
    model, (x, _) = source("resnet"), windows(n=54)
    adapter = small(name, rule=rule, batch=9).bind(model)
    predict(adapter, x[:27])
    state = {key: value.copy() for key, value in adapter.state().items()}
    twin = adapter.clone().restore(state)
    assert (predict(adapter, x[27:]) == predict(twin, x[27:])).all()
    assert all((adapter.state()[key] == value).all() for key, value in twin.state().items())


@pytest.mark.parametrize("name", NAMES)
def test_peek_changes_nothing_and_reset_discards_everything(name):
    model, (x, _) = source("mlp", channels=12, length=1), windows(channels=12, length=1, n=40)
    adapter = small(name, batch=10).bind(model)
    start = adapter.state()
    predict(adapter, x[:20])
    before = adapter.state()
    seen = adapter.peek(x[20:30])
    assert all((before[key] == value).all() for key, value in adapter.state().items())
    assert (adapter.step(x[20:30]) == seen).all()
    adapter.reset()
    assert all((start[key] == value).all() for key, value in adapter.state().items())


@pytest.mark.parametrize("name", NAMES)
def test_the_last_partial_chunk_is_predicted_and_used(name):
    model, (x, _) = source("mlp", channels=12, length=1), windows(channels=12, length=1, n=11)
    adapter = small(name, rule="chunk", batch=4, update_every=1).bind(model)
    assert len(predict(adapter, x)) == 11
    assert adapter.rule == "chunk"
    before = adapter.state()
    adapter.step(x[:2])
    assert any((before[key] != value).any() for key, value in adapter.state().items())


@pytest.mark.parametrize("name", ["note", "rotta", "cotta", "accup", "coa-har"])
def test_the_seed_matters_for_random_methods(name):
    model, (x, _) = source(), windows(n=60)
    fields = {"confidence": 1.0} if name == "cotta" else {}
    runs = [small(name, seed=seed, batch=10, **fields).bind(model) for seed in (0, 0, 1)]
    first, same, other = (predict(adapter, x) for adapter in runs)
    assert (first == same).all()
    assert (first != other).any()


@pytest.mark.parametrize("name", NAMES)
def test_a_wrapped_model_without_card_works(name):
    network = source().module()
    foreign = nn.Module()
    foreign.features, foreign.classifier = nn.Sequential(network.blocks, network.pool, nn.Flatten()), network.head
    foreign.forward = lambda x: foreign.classifier(foreign.features(x))
    x, _ = windows(n=24)
    adapter = small(name, rule="stream").bind(wrap(foreign))
    seen = adapter.peek(x[:12])
    assert (adapter.step(x[:12]) == seen).all()
    assert valid(adapter.step(x[12:]), 5)


def with_closure(kind):
    """Return a wrapped model whose encoder is a function that refers to the model."""
    network = source().module()
    model = nn.Module()
    model.classifier, dims = network.head, network.head.in_features
    model.first, model.rest = network.blocks[0], nn.Sequential(*network.blocks[1:], network.pool, nn.Flatten())
    model.linear, model.norm = nn.Linear(72, dims), nn.LayerNorm(dims)
    weights = (model.linear.weight, model.norm.weight)
    model.encode = {
        "modules": lambda x: model.rest(model.first(x)),
        "parameters": lambda x: (x.flatten(1) @ weights[0].T) * weights[1],
    }[kind]
    model.forward = lambda x: model.classifier(model.encode(x))
    return wrap(model, encoder="encode")


@pytest.mark.parametrize("kind", ["modules", "parameters"])
@pytest.mark.parametrize("name", [*NAMES, "oftta"])
def test_an_encoder_that_refers_to_the_original_model_is_refused(name, kind):
    x, _ = windows(n=8)
    adapter = registry.method(name).bind(with_closure(kind))
    before = adapter.state()
    with pytest.raises(ValueError, match=r"refers to the original.*submodule or a method"):
        adapter.step(x)
    assert all((adapter.state()[key] == value).all() for key, value in before.items())


@pytest.mark.parametrize("name", ["tent", "note", "sar", "rotta", "eata", "rem"])
def test_a_network_without_norm_layers_is_refused(name):
    with pytest.raises(ValueError, match="expected a norm layer"):
        registry.method(name).bind(plain())


@pytest.mark.parametrize("name", ["cotta", "accup", "coa-har"])
def test_methods_that_train_weights_need_no_norm_layer(name):
    x, _ = windows(n=20)
    assert valid(predict(small(name, batch=10).bind(plain()), x), 5)


def plain() -> TorchSource:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential()
        model.features = nn.Sequential(nn.Flatten(), nn.Linear(72, 16), nn.Tanh())
        model.classifier = nn.Linear(16, 5)
        model.forward = lambda x: model.classifier(model.features(x))
    return wrap(model)


def test_invalid_fields_are_reported_together():
    with pytest.raises(ValueError, match=r"lr >= 0, got -1; rule 'chunk' or 'stream', got 'x'; batch >= 1, got 0"):
        registry.method("tent", batch=0, lr=-1, rule="x")
    with pytest.raises(ValueError, match="temperature > 0"):
        registry.method("accup", temperature=0)
    with pytest.raises(ValueError, match="update 'all' or 'norm'"):
        registry.method("coa-har", update="bn")


def test_explicit_values_override_presets():
    adapter = registry.method("TENT", "sight-paper", lr=0.5)
    assert adapter == registry.method("tent", lr=0.5, batch=32, bn_stats="source")
    with pytest.raises(ValueError, match="Did you mean 'sight-paper'"):
        registry.method("tent", "sight-papers")
    for name in registry.names("methods"):
        for preset, changed in registry.get("methods", name).presets.items():
            assert preset in registry.PRESETS
            assert registry.method(name, preset).params().items() >= changed.items()


def column(name: str, channels: int, length: int, classes: int) -> float:
    """Return the paper's memory figure of a method in KB, the documented sum of kinds."""
    model = source("cnn", classes, channels, length)
    adapter = registry.method(name, "sight-paper").bind(model)
    sizes = adapter.state_bytes()
    return sum(sizes[kind] for kind in adapter.MEMORY_SUM) / 1024


HARTH, CAPTURE = (3, 100, 5), (3, 1000, 4)


@pytest.mark.parametrize(
    ("name", "shape", "printed"),
    [
        ("tent", HARTH, 821.8),
        ("tent", CAPTURE, 813.8),
        ("note", HARTH, 896.8),
        ("note", CAPTURE, 1563.8),
        ("sar", HARTH, 816.8),
        ("sar", CAPTURE, 808.8),
        ("rotta", CAPTURE, 5431.4),
        ("accup", CAPTURE, 1645.0),
        ("coa-har", HARTH, 3986.6),
        ("coa-har", CAPTURE, 6670.6),
    ],
)
def test_state_bytes_equal_the_memory_column_of_the_paper(name, shape, printed):
    assert column(name, *shape) == pytest.approx(printed, rel=0.01)
