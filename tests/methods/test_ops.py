"""Numpy functions that methods share."""

import numpy as np
import pytest

from sight.methods.ops import entropy, relax, softmax, unit
from sight.methods.tca import head_basis, recolour


def test_functions_of_probabilities_hold_at_their_edges():
    assert softmax(np.array([0.0, 0.0, 1000.0])).tolist() == [0, 0, 1]
    assert unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0.0, 0.0]]
    assert entropy(np.array([0.5, 0.5, 0.0])) == pytest.approx(np.log(2))


def test_half_of_a_belief_is_left_after_its_half_life():
    assert relax(np.array([1.0, 0.0]), seconds=30, half_life_s=30).tolist() == [0.75, 0.25]


def test_recolouring_maps_one_covariance_to_another():
    linear = recolour(np.diag([4.0, 1.0]), np.diag([1.0, 9.0]), ridge=1e-9)
    np.testing.assert_allclose(linear, [[0.5, 0], [0, 3]], atol=1e-6)
    assert head_basis(np.eye(3, 100), dims=64).shape == (100, 3)
    assert head_basis(np.eye(3, 10), dims=64).shape == (10, 10)
