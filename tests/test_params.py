"""Ranges, requirements and texts of hyper-parameters."""

from typing import Literal

import pytest

from sight.methods.ema import EMA
from sight.methods.sight import SIGHT
from sight.params import GapHalfLife, Positive, Range, UnitInterval, check_names, describe, parse, requirement


def test_bounds_are_written_as_an_inequality():
    assert [Range(above=0).text("tau"), Range(at_least=0, below=1).text("a")] == ["tau > 0", "0 <= a < 1"]


def test_an_annotation_is_described_in_words():
    described = [describe(float | None), describe(Literal["a", "b"]), describe(UnitInterval)]
    assert described == ["a number or none", "'a' or 'b'", "a number, 0 <= x <= 1"]


def test_a_requirement_names_the_field():
    required = [requirement("tau", Positive), requirement("mode", Literal["a", "b"]), requirement("life", GapHalfLife)]
    assert required == ["tau > 0", "mode 'a' or 'b'", "life > 0 or None"]


def test_an_unknown_name_lists_the_fields_and_the_choices_of_the_caller():
    with pytest.raises(ValueError, match=r"^ema has no parameter 'lagg'; choose from a, gap_half_life_s, lag\. Did"):
        check_names(EMA, ["lagg"], others=["lag"])


def test_texts_become_the_types_of_the_fields():
    values = parse(SIGHT, ["tau=0.1", "routing=no", "surprise=off", "gap_half_life_s=none"])
    assert values == {"tau": 0.1, "routing": False, "surprise": "off", "gap_half_life_s": None}


@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), float("nan")])
def test_a_number_that_no_float_can_hold_is_out_of_range(value):
    assert not Range(above=None).allows(value)
    with pytest.raises(ValueError, match="expected 0 <= a < 1"):
        EMA(a=value)
