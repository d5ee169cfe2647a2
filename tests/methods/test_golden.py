"""Every method answers as it did when its golden stream was written."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sight import registry
from tests import golden

METHODS = tuple(registry.TABLES["methods"])


@pytest.mark.parametrize("name", METHODS)
def test_method_answers_as_stored(name):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        q = golden.answers(name)
    finally:
        torch.set_num_threads(threads)
    # Kernels differ between processors in the last bits, and Adam's first steps are signs of gradients.
    np.testing.assert_allclose(q, golden.stored(name), atol=2e-3)


def test_there_is_a_golden_stream_for_every_method_and_for_nothing_else():
    assert {path.stem for path in golden.FOLDER.glob("*.npz")} == set(METHODS)


def test_golden_streams_tell_methods_apart():
    plain = golden.stored("none")
    on_network = [name for name in METHODS if registry.get("methods", name).needs.gradient]
    assert all(np.abs(golden.stored(name) - plain).max() > 0.01 for name in METHODS if name not in ("none",))
    for i, name in enumerate(on_network):
        for other in on_network[:i]:
            assert np.abs(golden.stored(name) - golden.stored(other)).max() > 2e-3, (name, other)
