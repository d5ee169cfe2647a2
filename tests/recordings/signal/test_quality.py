"""Units, channels and warnings."""

from __future__ import annotations

import numpy as np
import pytest

from sight._util.unit_conversion import factor
from sight.recordings.signal.channels import convert, select
from sight.recordings.signal.quality import _magnitude_warnings, rest_g, saturation, warnings_for
from tests.helpers.signals import recording


def test_units_are_converted():
    whole = recording(np.ones((4, 4)), np.arange(4), 1, unit=("g", "mg", "m/s^2", "rad/s"))
    moved = convert(whole, ("m/s^2", "g", "g", "deg/s"))
    np.testing.assert_allclose(moved.values[0], [9.80665, 1e-3, 1 / 9.80665, 57.29578], rtol=1e-6)
    assert moved.unit == ("m/s^2", "g", "g", "deg/s")
    with pytest.raises(ValueError, match="Cannot convert"):
        factor("g", "deg/s")
    with pytest.raises(ValueError, match="4 units"):
        convert(whole, ("g", "g"))


def test_channels_are_selected_in_order():
    whole = recording(np.arange(6.0).reshape(2, 3), [0, 1], 1, unit=("g", "g", "mg"))
    assert select(whole, ("z", "x")).values.tolist() == [[2, 0], [5, 3]]
    assert select(whole, ("z", "x")).unit == ("mg", "g")
    with pytest.raises(ValueError, match="map its columns"):
        select(whole, ("x", "w"))


def test_saturation_share():
    wave = 3 * np.sin(np.linspace(0, 60, 3000))
    free = np.stack((wave, np.cos(wave)), axis=1)
    assert saturation(recording(free, np.arange(3000) / 50, 50))["saturated_share"] == 0
    share = saturation(recording(np.clip(free, -2, 2), np.arange(3000) / 50, 50))["saturated_share"]
    assert share == pytest.approx(np.mean(np.abs(wave) >= 2), abs=0.01)


@pytest.mark.parametrize(
    ("scale", "word"), [(9.80665, "m/s^2"), (1000, "mg"), (1 / 9.80665, "already in g"), (0.01, "gravity removed")]
)
def test_gravity_reveals_a_wrong_unit(scale, word):
    rng = np.random.default_rng(0)
    values = (np.array([0.6, 0.0, 0.8]) + rng.normal(0, 0.004, (1000, 3))) * scale
    card = {"channels": ("x", "y", "z"), "unit": "g", "mean": [0.6, 0, 0.8], "std": [0.1, 0.1, 0.1]}
    (warning,) = map(str, warnings_for(recording(values, np.arange(1000) / 50, 50), card))
    assert word in warning


@pytest.mark.parametrize(("gravity", "severities"), [(True, ["error"]), (None, ["warning"]), (False, [])])
def test_gravity_that_was_removed_is_an_error_if_training_had_it(gravity, severities):
    rng = np.random.default_rng(0)
    free = recording(0.02 + rng.normal(0, 0.004, (1000, 3)), np.arange(1000) / 50, 50)
    found = warnings_for(free, {} if gravity is None else {"gravity": gravity})
    assert [warning.severity for warning in found] == severities
    in_other_unit = recording(np.tile([0, 0, 9.81], (1000, 1)), np.arange(1000) / 50, 50)
    assert [warning.severity for warning in warnings_for(in_other_unit, {"gravity": gravity})] == ["error"]


def test_a_wrong_unit_of_acceleration_does_not_hide_one_of_rotation():
    rng = np.random.default_rng(0)
    turning = rng.normal(size=(500, 3))
    values = np.column_stack([np.tile([600.0, 0, 800], (500, 1)), 57.3 * (turning - turning.mean(axis=0))])
    both = recording(values, np.arange(500) / 50, 50, unit=("g",) * 3 + ("rad/s",) * 3)
    card = {"channels": both.channels, "unit": both.unit, "mean": [0.6, 0, 0.8, 0, 0, 0], "std": [0.1] * 3 + [1] * 3}
    acceleration, rotation = map(str, warnings_for(both, card))
    assert "in mg?" in acceleration
    assert "in deg/s?" in rotation


@pytest.mark.parametrize(
    ("scale", "words"), [(1, []), (9.80665, ["in m/s^2?"]), (1000, ["in mg?"]), (0.01, ["in another unit?"])]
)
def test_the_median_magnitude_reveals_a_wrong_unit_of_a_wearer_who_never_rests(scale, words):
    rng = np.random.default_rng(0)
    moving = recording((np.array([0.6, 0.0, 0.8]) + rng.normal(0, 0.3, (1000, 3))) * scale, np.arange(1000) / 50, 50)
    if scale >= 1:
        assert rest_g(moving) is None
        warnings = warnings_for(moving)
    else:  # so small that every second counts as rest
        warnings = _magnitude_warnings(moving)
    assert len(warnings) == len(words)
    assert all(word in str(warning) for word, warning in zip(words, warnings, strict=True))


@pytest.mark.parametrize(("factor", "words"), [(1, []), (57.3, ["in deg/s?"]), (1 / 57.3, ["in rad/s?"])])
def test_the_spread_of_rotation_reveals_a_wrong_unit(factor, words):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(500, 3))
    turning = recording(factor * (values - values.mean(axis=0)), np.arange(500) / 50, 50, unit="rad/s")
    card = {"channels": ("x", "y", "z"), "unit": "rad/s", "mean": [0, 0, 0], "std": [1.0, 1.0, 1.0]}
    warnings = warnings_for(turning, card)
    assert rest_g(turning) is None
    assert len(warnings) == len(words)
    assert all(word in str(warning) for word, warning in zip(words, warnings, strict=True))


def test_a_channel_that_varies_too_much_is_named_and_an_empty_one_is_not():
    rng = np.random.default_rng(0)
    values = np.array([0.6, 0.0, 0.8]) + rng.normal(0, 0.004, (1000, 3))
    values[:, 1] *= 50
    values[:, 2] = np.nan
    card = {"channels": ("x", "y", "z"), "unit": "g", "mean": [0.6, 0, 0], "std": [0.01, 0.01, 0.01]}
    (warning,) = map(str, warnings_for(recording(values, np.arange(1000) / 50, 50), card))
    assert "Channel y varies" in warning


def test_a_good_recording_gets_no_warning():
    rng = np.random.default_rng(0)
    values = np.array([0.6, 0.0, 0.8]) + rng.normal(0, 0.004, (1000, 3))
    whole = recording(values, np.arange(1000) / 50, 50)
    card = {"rate_hz": 50, "channels": ("x", "y", "z"), "unit": "g", "mean": [0.5, 0, 0.7], "std": [0.5, 0.5, 0.5]}
    assert warnings_for(whole, card) == ()
    assert rest_g(whole) == pytest.approx(1.0, abs=1e-3)


def test_differences_from_training_are_warned_about():
    whole = recording(np.tile([0.0, 0.0, -1.0], (500, 1)), np.arange(500) / 25, 25)
    card = {"rate_hz": 50, "channels": ("x", "y", "z"), "unit": "m/s^2", "mean": [0, 0, 1], "std": [0.2, 0.2, 0.2]}
    text = " ".join(map(str, warnings_for(whole, card)))
    for word in ("25 Hz", "trained in m/s^2", "Channel z averages -1"):
        assert word in text
    assert "channels x, y" in warnings_for(whole, {"channels": ("x", "y")})[0].text
