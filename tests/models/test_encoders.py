"""Contract of every encoder; the CNN against the sizes of the paper and a computation layer by layer."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sight import registry
from sight.models.encoders.base import Encoder
from sight.models.encoders.cnn import CNN
from sight.models.encoders.mlp import MLP
from sight.models.encoders.transformer import Transformer

NAMES = list(registry.TABLES["encoders"])


def make(name: str, channels: int = 3, classes: int = 5, seed: int = 0, **args) -> Encoder:
    torch.manual_seed(seed)
    return registry.get("encoders", name)(channels=channels, classes=classes, **args).eval()


def windows(name: str, n: int = 4, channels: int = 3, length: int = 50) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(n, channels, 1 if name == "mlp" else length)


def parameters(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def test_every_encoder_is_tested():
    assert set(NAMES) <= set(registry.names("encoders"))
    assert all(registry.get("encoders", name).name == name for name in NAMES)


@pytest.mark.parametrize(("classes", "count", "kib"), [(5, 208_453, 816.79), (4, 206_404, 808.79)])
def test_cnn_has_the_sizes_of_the_paper(classes, count, kib):
    network = make("cnn", classes=classes)
    assert parameters(network) == count
    size = sum(value.numel() * value.element_size() for value in network.state_dict().values())
    assert round(size / 1024, 2) == kib
    assert network.head.in_features == 2048


@pytest.mark.parametrize("length", [16, 100, 128, 1000])
def test_cnn_agrees_with_the_paper_layer_by_layer(length):
    network = make("cnn")
    for layer in network.modules():  # statistics and affines that are not 0 and 1
        if isinstance(layer, nn.BatchNorm1d):
            nn.init.uniform_(layer.weight, 0.5, 2)
            nn.init.normal_(layer.bias)
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    x = windows("cnn", length=length)
    values = list(network.state_dict().values())
    with torch.no_grad():
        maps = x
        for block, padding in enumerate((2, 4, 4)):
            kernel, weight, bias, mean, var, _ = values[2 + 6 * block : 8 + 6 * block]
            maps = F.conv1d(maps, kernel, padding=padding)
            maps = (maps - mean[:, None]) / torch.sqrt(var[:, None] + 1e-5) * weight[:, None] + bias[:, None]
            maps = F.max_pool1d(torch.relu(maps), 2, 2, padding=1)
        n = maps.shape[2]  # bin b averages the samples from floor(bn/16) to ceil((b+1)n/16)
        bins = [maps[:, :, b * n // 16 : -(-(b + 1) * n // 16)].mean(dim=2) for b in range(16)]
        expected = torch.stack(bins, dim=2).reshape(len(x), 2048)
        torch.testing.assert_close(network.features(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("channels", "length"), [(1, 16), (6, 33), (3, 250)])
def test_any_channels_and_length(name, channels, length):
    network = make(name, channels=channels, classes=4)
    x = windows(name, n=2, channels=channels, length=length)
    z = network.features(x)
    assert z.shape == (2, network.head.in_features)
    assert network(x).shape == (2, 4)
    assert torch.isfinite(z).all()


@pytest.mark.parametrize("name", NAMES)
def test_forward_is_head_of_features_with_dropout_in_training_only(name):
    network, x = make(name), windows(name)
    torch.testing.assert_close(network(x), network.features(x) @ network.head.weight.T + network.head.bias)
    assert torch.equal(network(x), network(x))
    network.train()
    assert not torch.equal(network(x), network(x))


@pytest.mark.parametrize("name", NAMES)
def test_normalisation_is_applied_and_not_in_the_state_dict(name):
    network, x = make(name), windows(name)
    plain = network(x)
    network.normalise(np.array([1.0, 2, 3]), np.array([2.0, 4, 8]), fill=np.array([7.0, 8, 9]))
    raw = x * torch.tensor([2.0, 4, 8])[:, None] + torch.tensor([1.0, 2, 3])[:, None]
    torch.testing.assert_close(network(raw), plain, rtol=1e-4, atol=1e-5)
    assert not {"mean", "std", "fill"} & set(network.state_dict())
    with_nan, filled = raw.clone(), raw.clone()
    with_nan[0, 1], filled[0, 1] = float("nan"), 8.0
    assert torch.equal(network(with_nan), network(filled))


@pytest.mark.parametrize("name", NAMES)
def test_encoder_args_rebuild_the_network(name):
    network = make(name, dropout=0.3)
    twin = type(network)(**network.encoder_args).eval()
    twin.load_state_dict(network.state_dict())
    x = windows(name)
    assert twin.encoder_args == network.encoder_args
    assert twin.encoder_args["dropout"] == 0.3
    assert torch.equal(twin(x), network(x))
    assert torch.equal(copy.deepcopy(network)(x), network(x))


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_gets_a_gradient_and_there_are_norm_layers(name):
    network = make(name)
    network(windows(name)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())
    assert any(isinstance(layer, nn.BatchNorm1d | nn.LayerNorm) for layer in network.modules())


def test_invalid_windows_raise():
    with pytest.raises(ValueError, match=r"cnn: expected windows \(B, 3, T\), got \(2, 4, 50\)"):
        make("cnn").features(torch.zeros(2, 4, 50))
    with pytest.raises(ValueError, match=r"mlp: expected feature vectors \(B, 3, 1\), got \(2, 3, 5\)"):
        make("mlp").features(torch.zeros(2, 3, 5))
    with pytest.raises(ValueError, match="divisible by 5"):
        Transformer(channels=3, classes=5, heads=5)


def test_encoders_have_about_the_size_of_the_cnn():
    assert abs(parameters(make("resnet")) / parameters(make("cnn")) - 1) < 0.05
    assert abs(parameters(make("transformer")) / parameters(make("cnn")) - 1) < 0.05
    assert MLP(channels=225, classes=6, hidden=(10,)).head.in_features == 10
    assert CNN(channels=9, classes=3).head.out_features == 3


def test_transformer_attention_agrees_with_torchs_own():
    network, x = make("transformer"), windows("transformer", length=100)
    first, last = network.blocks[0], network.blocks[-1]
    own = nn.MultiheadAttention(64, 4, batch_first=True).eval()
    with torch.no_grad():
        own.in_proj_weight.copy_(torch.cat([first.attend.look.weight, first.attend.value.weight]))
        own.in_proj_bias.copy_(torch.cat([first.attend.look.bias, first.attend.value.bias]))
        own.out_proj.weight.copy_(first.attend.out.weight)
        own.out_proj.bias.copy_(first.attend.out.bias)
        tokens = torch.randn(2, 26, 64)
        out, weights = own(tokens, tokens, tokens, average_attn_weights=False)
        torch.testing.assert_close(first.attend(tokens), out, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(first.attend.weights(tokens), weights, rtol=1e-4, atol=1e-6)

        seen = {}
        last.attend.register_forward_hook(lambda layer, args, _: seen.update(weights=layer.weights(args[0])))
        network(x)
        received = network.attention(x)
    assert received.shape == (4, 26)
    torch.testing.assert_close(received, seen["weights"].mean(dim=(1, 2)))
    torch.testing.assert_close(received.sum(dim=1), torch.ones(4))


def test_transformer_depends_on_the_order_of_samples():
    network, x = make("transformer"), windows("transformer", length=96)
    assert not torch.allclose(network.features(x), network.features(x.flip(2)), atol=1e-3)
