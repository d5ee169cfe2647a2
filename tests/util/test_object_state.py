"""Saving and restoring of attributes: what belongs to a state, and which states are refused."""

from __future__ import annotations

import numpy as np
import pytest

from sight._util.object_state import Stateful, check_state


class Inner(Stateful):
    def __init__(self):
        self.total_ = 0.0


class Outer(Stateful):
    def __init__(self):
        self.option = 7
        self._private_ = 1
        self.values_ = np.zeros(2)
        self.on_ = True
        self.late_ = 5
        self._part = Inner()


class Fixed(Stateful):
    _fixed = True

    def __init__(self):
        self.values_ = np.zeros(2)


def used():
    outer = Outer()
    outer.values_ = np.array([1.0, np.nan, 3.0])
    outer.on_, outer.late_, outer._part.total_ = False, 9, 2.5
    return outer


def test_public_attributes_with_an_underscore_and_parts_are_the_state():
    assert sorted(Outer().state()) == ["late", "on", "part.total", "values"]


def test_types_are_kept_and_arrays_are_copied():
    outer, twin = used(), Outer()
    state = outer.state()
    twin.restore(state)
    assert (type(twin.on_), type(twin.late_), type(twin._part.total_)) == (bool, int, float)
    assert (twin.on_, twin.late_, twin._part.total_) == (False, 9, 2.5)
    state["values"][0] = 100
    np.testing.assert_array_equal(twin.values_, [1, np.nan, 3])
    np.testing.assert_array_equal(outer.values_, [1, np.nan, 3])


@pytest.mark.parametrize(
    "change",
    [
        {"values": np.zeros((2, 2))},
        {"values": np.zeros(2, np.float32)},
        {"late": np.array(1.0)},
        {"part.total": np.zeros(2)},
        {"unknown": np.zeros(2)},
        {"part.unknown": np.zeros(2)},
    ],
    ids=str,
)
def test_a_state_that_does_not_fit_changes_nothing(change):
    outer = Outer()
    with pytest.raises(ValueError, match="expected state"):
        outer.restore(used().state() | change)
    assert outer.values_.tolist() == [0, 0]
    assert (outer.on_, outer.late_, outer._part.total_) == (True, 5, 0)


@pytest.mark.parametrize("missing", ["values", "part.total"])
def test_an_incomplete_state_is_refused(missing):
    state = used().state()
    del state[missing]
    with pytest.raises(ValueError, match="expected state"):
        Outer().restore(state)


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [1.0, np.nan], [1.0, -np.inf]])
def test_fixed_arrays_keep_their_shape_and_are_finite(values):
    fixed = Fixed()
    with pytest.raises(ValueError, match="values"):
        fixed.restore({"values": np.array(values)})
    assert fixed.restore({"values": np.array([1.0, 2.0])}).values_.tolist() == [1, 2]


def test_types_are_compared_only_if_asked():
    expected, half = {"a": np.zeros(2)}, {"a": np.zeros(2, np.float16)}
    check_state(half, expected, "toy", same_type=False)
    with pytest.raises(ValueError, match="float16"):
        check_state(half, expected, "toy")
    with pytest.raises(ValueError, match="shape"):
        check_state({"a": np.zeros(3)}, expected, "toy", same_type=False)
    with pytest.raises(ValueError, match="NaN"):
        check_state({"a": np.full(2, np.nan)}, expected, "toy")
    check_state({"a": np.full(2, np.nan)}, expected, "toy", finite=False)
