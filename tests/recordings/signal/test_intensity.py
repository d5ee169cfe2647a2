"""ENMO and MAD of windows against direct formulas; cut points, bouts, and the most and least active hours."""

from __future__ import annotations

import numpy as np
import pytest

from sight.recordings.signal.intensity import CUT_POINTS, FIVE_HOURS, cut_points, five_hours, in_bouts, intensity

RNG = np.random.default_rng(0)
X = RNG.normal([[0], [0], [1]], 0.2, size=(50, 3, 40)).astype(np.float32)


def test_enmo_and_mad_of_each_window():
    found = intensity(X, ("g",) * 3)
    for window, enmo, mad in zip(X.astype(float), found["enmo_mg"], found["mad_mg"], strict=True):
        r = np.linalg.norm(window, axis=0)
        assert enmo == pytest.approx(1000 * np.maximum(r - 1, 0).mean())
        assert mad == pytest.approx(1000 * np.abs(r - r.mean()).mean())


def test_units_and_further_channels_do_not_matter():
    expected = intensity(X, ("g",) * 3)["enmo_mg"]
    with_rotation = np.concatenate([500 * X[:, :1], 9.80665 * X], axis=1)
    found = intensity(with_rotation, ("deg/s", *["m/s^2"] * 3))["enmo_mg"]
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("x", "units"),
    [
        (X - [[0], [0], [1]], ("g",) * 3),  # without gravity
        (9.8 * X, ("g",) * 3),  # wrong unit
        (X, ("deg/s",) * 3),
        (X[:, :2], ("g",) * 2),
        (X[:, :, :1], ("g",) * 3),
        (X[:0], ("g",) * 3),
    ],
)
def test_unknown_intensity_is_empty(x, units):
    assert intensity(x, units) == {}


def test_a_window_with_missing_samples_has_no_value():
    x = X.copy()
    x[3, 0, 5] = np.nan
    assert np.flatnonzero(np.isnan(intensity(x, ("g",) * 3)["mad_mg"])).tolist() == [3]


@pytest.mark.parametrize(
    ("placement", "light", "moderate"),
    [("wrist", 44.8, 100.6), ("waist", 47.4, 69.1), ("hip", 47.4, 69.1), ("thigh", None, None), (None, None, None)],
)
def test_the_placement_decides_on_cut_points(placement, light, moderate):
    found = cut_points("", placement)
    assert (found and found.light_mg, found and found.moderate_mg) == (light, moderate)
    assert found is None or "doi:10.1249/MSS.0000000000000289" in found.citation


def test_cut_points_by_name_or_number():
    assert cut_points("hildebrand-children-wrist", "hip").moderate_mg == 201.4
    assert cut_points(" 30, 110.5 ", None)[1:3] == (30, 110.5)
    for each in CUT_POINTS.values():
        assert 0 < each.light_mg < each.moderate_mg
    for text, message in (
        ("hildebrand", "Did you mean 'hildebrand-"),
        ("100", "45,100"),
        ("100,45", "limits of light"),
    ):
        with pytest.raises(ValueError, match=message):
            cut_points(text, "wrist")


def slow_bouts(active):
    """Return the epochs of all ten minutes that begin and end active, are so for 80 % and never pause for a minute."""
    found = np.zeros(len(active), bool)
    for i in range(len(active) - 119):
        own = active[i : i + 120]
        pauses = "".join(map(str, own.astype(int)))
        if own[0] and own[-1] and own.sum() >= 96 and "0" * 12 not in pauses:
            found[i : i + 120] = True
    return found


@pytest.mark.parametrize("seed", range(8))
def test_bouts_against_a_slow_search(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 16, 200)
    active = np.repeat(np.arange(200) % 2 == 0, np.where(np.arange(200) % 2, lengths, 5 * lengths))
    assert in_bouts(active).tolist() == slow_bouts(active).tolist()
    assert in_bouts(active).any()


def test_an_interruption_of_a_minute_that_lasts_longer_than_the_window_ends_a_bout():
    active = np.repeat([True, False, True], [119, 60, 119])
    assert not in_bouts(active).any()
    assert in_bouts(np.ones(120, bool)).all()


def test_five_hours_need_wear():
    enmo = np.repeat([5.0, 100.0, 20.0], FIVE_HOURS)
    worn = np.ones(len(enmo), bool)
    worn[FIVE_HOURS : 2 * FIVE_HOURS] = False  # the most active ones
    found = five_hours(enmo, worn)
    assert found == {"m5": (round(1.8 * FIVE_HOURS), 20.0), "l5": (0, 5.0)}  # worn for 80 %
    assert five_hours(enmo, worn & False) == {}
    assert five_hours(enmo[:100], worn[:100]) == {}
