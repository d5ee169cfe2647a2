"""Small networks, windows for them, and fused graphs; torch is imported when a fixture is used."""

from __future__ import annotations

import numpy as np
import pytest

from sight.methods.keel import Keel
from sight.methods.sight import SIGHT
from sight.testing import ToySource, toy_stream
from tests.models.fused.fused_helpers import SHAPE


@pytest.fixture(scope="package")
def source():
    import torch

    from sight.models.encoders.cnn import CNN
    from sight.models.torch import TorchSource

    torch.manual_seed(0)
    return TorchSource(CNN(channels=2, classes=4), classes=("a", "b", "c", "d"))


@pytest.fixture(scope="package")
def windows():
    rng = np.random.default_rng(0)
    level = np.repeat(rng.uniform(0.1, 4, size=(6, 2, 1)), 10, axis=0)
    return (level * rng.normal(size=(60, *SHAPE))).astype(np.float32)


@pytest.fixture(scope="package")
def fused(source, tmp_path_factory):
    from sight.models.export.fused import export_fused

    return export_fused(source, tmp_path_factory.mktemp("fused") / "fused.onnx", SIGHT(tau=0.2), shape=SHAPE)


@pytest.fixture(scope="package")
def toy():
    """Return a perceptron with source statistics, and a function that makes a stream for it."""
    from sight.models.train import train

    world, rng = ToySource(), np.random.default_rng(0)
    label = np.tile(np.arange(5), 200)
    x = (world.centres[label] + 2.5 * rng.normal(size=(1000, *world.shape))).astype(np.float32)
    trained = train((x.reshape(-1, 60, 1), label), world.classes, encoder="mlp", epochs=4, rate_hz=1.0)
    return trained, lambda n: toy_stream(world, n=n, noise=2.5, seed=3).x.reshape(-1, 60, 1)


@pytest.fixture(scope="package")
def fused_keel(toy, tmp_path_factory):
    from sight.models.export.fused import export_fused

    return export_fused(toy[0], tmp_path_factory.mktemp("keel") / "fused.onnx", Keel())
