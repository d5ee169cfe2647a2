"""Golden values: every method predicts as it did when its stream was stored, with the same defaults."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sight import registry
from tests import golden
from tests.golden.__main__ import main

METHODS = tuple(registry.TABLES["methods"])


@pytest.mark.parametrize("name", METHODS)
def test_predictions_equal_the_stored_ones(name):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        q = golden.predictions(name)
    finally:
        torch.set_num_threads(threads)
    # Kernels differ between processors in the last bits, and Adam's first steps are signs of gradients.
    np.testing.assert_allclose(q, golden.stored(name), atol=2e-3)


@pytest.mark.parametrize("name", METHODS)
def test_defaults_equal_the_stored_ones(name):
    assert golden.defaults(name) == golden.stored_defaults()[name]


def test_there_is_one_golden_stream_per_method():
    assert {path.stem for path in golden.FOLDER.glob("*.npz")} == set(METHODS)
    assert list(golden.stored_defaults()) == list(METHODS)


def test_golden_streams_distinguish_methods():
    plain = golden.stored("none")
    on_network = [name for name in METHODS if registry.get("methods", name).needs.gradient]
    assert all(np.abs(golden.stored(name) - plain).max() > 0.01 for name in METHODS if name != "none")
    for i, name in enumerate(on_network):
        for other in on_network[:i]:
            assert np.abs(golden.stored(name) - golden.stored(other)).max() > 2e-3, (name, other)


def test_only_named_methods_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    assert main(["write"]) == 2
    assert main(["write", "ema", "none"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"ema.npz", "none.npz", "defaults.json"}
    assert list(golden.stored_defaults()) == ["none", "ema"]
    assert main(["check", "ema"]) == 0
    assert "ema: largest difference 0, defaults equal" in capsys.readouterr().out
