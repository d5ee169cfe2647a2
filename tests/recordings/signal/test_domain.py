"""The out-of-domain check: familiar windows, and the causes it names."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sight.apps.stream.session import EXAMINED, Session
from sight.models.card import ModelCard
from sight.models.training_domain import Domain, describe, window_statistics
from sight.recordings.signal.quality import check_domain
from sight.testing import toy_card
from sight.types import Warning, Windows

RATE = 20.0


def subject(seed, n=200):
    """Windows (n, 3, 100) in g of a sensor that lies, hangs or swings, with x along gravity most of the time."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(100) / RATE
    lean = rng.normal([0.9, 0.2, 0.3], 0.15, size=(n, 3))
    lean /= np.linalg.norm(lean, axis=1, keepdims=True)
    size = rng.choice([0.005, 0.2, 0.5], size=(n, 1, 1)) * [[1], [0.6], [0.3]]
    swing = np.sin(2 * np.pi * rng.uniform(1, 2, (n, 1, 1)) * time_s + rng.uniform(0, 6, (n, 3, 1)))
    return (lean[:, :, None] + size * swing + rng.normal(0, 0.005, (n, 3, 100))).astype(np.float32)


def card_of(subjects, mounts="fixed", units=("g",) * 3):
    domain = describe(subjects, units, RATE, mounts)
    return toy_card(classes=("a", "b"), units=units, rate_hz=RATE, window_s=5.0, stride_s=2.5, domain=domain)


@pytest.fixture(scope="module")
def card():
    return ModelCard.from_json(card_of([subject(seed) for seed in range(6)]).to_json())


def windows_of(x, **fields):
    n = len(x)
    zeros = np.zeros(n)
    return Windows(x=x, time_s=zeros, label=zeros.astype(int), gap_before_s=zeros, window_s=5.0, stride_s=2.5, **fields)


def window_warnings(windows, card):
    """Return the warnings that the check adds."""
    return list(check_domain(windows, card).warnings[len(windows.warnings) :])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x, None),
        (lambda x: x * 9.81, "m/s^2"),
        (lambda x: x / 9.81, "already in g"),
        (lambda x: x * 1000, "in mg"),
        (lambda x: x - x.mean(axis=2, keepdims=True), "gravity removed"),
        (lambda x: x[:, [1, 0, 2]], "axes x=y, y=x, z=z"),
        (lambda x: x * np.array([[-1], [1], [1]], np.float32), "axes x=-x, y=y, z=z"),
        (lambda x: np.repeat(x[:, :1], 3, axis=1) / np.sqrt(3, dtype=np.float32), "another place"),
    ],
)
def test_the_cause_is_named(card, change, words):
    found = window_warnings(windows_of(change(subject(99, n=500))), card)
    assert len(found) == (words is not None)
    assert words is None or words in str(found[0])
    kinds = {None: [], "axes": [("domain", "warning")], "anot": [("domain", "warning")]}
    expected = kinds.get(words and words[:4], [("unit", "error")])
    assert [(warning.kind, warning.severity) for warning in found] == expected


def test_a_unit_warning_of_the_recording_is_not_repeated(card):
    x = 9.81 * subject(99)
    wrong = Warning(kind="unit", severity="error", text="At rest acceleration is 9.81 g instead of 1 g.")
    assert window_warnings(windows_of(x, warnings=(wrong,)), card) == []
    contradiction = Warning(kind="unit", severity="warning", text="Columns state m/s^2.")
    assert window_warnings(windows_of(x, warnings=(contradiction,)), card)


def test_the_share_of_unfamiliar_windows_is_a_fact(card):
    assert check_domain(windows_of(subject(99)), card).facts.unfamiliar_share < 0.1
    assert check_domain(windows_of(9.81 * subject(99)), card).facts.unfamiliar_share > 0.9
    wrong = Warning(kind="unit", severity="error", text="At rest acceleration is 9.81 g instead of 1 g.")
    assert check_domain(windows_of(9.81 * subject(99), warnings=(wrong,)), card).facts.unfamiliar_share is None
    assert check_domain(windows_of(subject(99)), toy_card()).facts.unfamiliar_share is None


def test_whether_training_had_gravity_is_known(card):
    assert Domain.of(card).has_gravity
    free = [x - x.mean(axis=2, keepdims=True) for x in map(subject, range(6))]
    assert not Domain.of(card_of(free)).has_gravity


def test_few_windows_need_a_larger_share(card):
    x = subject(99, n=500)
    x[::3] *= 9.81
    assert window_warnings(windows_of(x), card)
    assert not window_warnings(windows_of(x[:100]), card)
    assert not window_warnings(windows_of(9.81 * x[:20]), card)


def test_windows_without_wear_are_left_out(card):
    x = np.concatenate([subject(99, n=500), np.zeros((500, 3, 100), np.float32)])
    both = windows_of(x)
    both.wear[500:] = False
    assert not window_warnings(both, card)
    assert window_warnings(windows_of(x), card)


@pytest.mark.parametrize("mounts", ["wrist", "any"])
def test_orientations_of_training_are_familiar(mounts):
    check = Domain.of(card_of([subject(seed) for seed in range(6)], mounts))
    statistics = check.statistics(subject(99))
    share = check.unfamiliar(statistics)
    flipped = check.statistics(subject(99)[:, [1, 0, 2]] * np.array([[-1], [1], [-1]], np.float32))
    assert check.unfamiliar(flipped) == share
    assert (check.unfamiliar(check.statistics(subject(99)[:, [2, 1, 0]])) == share) == (mounts == "any")


def test_a_steady_sensor_is_noticed():
    mixed = [
        np.concatenate([subject(seed), subject(seed)[:, [1, 2, 0]], subject(seed)[:, [2, 0, 1]]]) for seed in range(3)
    ]
    check = Domain.of(card_of(mixed))
    assert check.warnings(check.statistics(mixed[0])) == []
    assert "direction" in check.warnings(check.statistics(subject(99, n=1000)))[0].text


def test_models_without_accelerometer_or_with_few_windows_have_no_domain():
    assert describe([subject(0)], ("g", "g", "rad/s"), RATE) == {}
    assert describe([subject(0)[:20]], ("g",) * 3, RATE) == {}
    assert describe([subject(0)[:, :, :1]], ("g",) * 3, RATE) == {}
    assert json.dumps(describe([subject(0)], ("g",) * 3, RATE))


def test_units_of_the_model_do_not_matter():
    in_g = Domain.of(card_of([subject(seed) for seed in range(3)]))
    x = subject(99)
    in_si = Domain.of(card_of([9.80665 * subject(seed) for seed in range(3)], units=("m/s^2",) * 3))
    assert in_si.unfamiliar(in_si.statistics(9.80665 * x)) == pytest.approx(
        in_g.unfamiliar(in_g.statistics(x)), abs=0.01
    )


def test_statistics_of_a_sine():
    time_s = np.arange(400) / RATE
    x = np.stack([1 + 0.5 * np.sin(2 * np.pi * time_s), 0 * time_s, 0 * time_s])[None]
    expected = [1, 0, 0, 0.5 / np.sqrt(2), 0, 0, 0.5 / np.sqrt(2), 1]
    np.testing.assert_allclose(window_statistics(x, RATE)[0], expected, atol=0.02)


def test_a_session_warns_once_its_first_windows_are_there(card):
    from sight.registry import method
    from sight.testing import ToySource

    source = ToySource(classes=2, channels=3, length=100)
    source.card = card
    samples = 9.81 * subject(99).transpose(0, 2, 1).reshape(-1, 3)
    session = Session(source, method("none"))
    until = int(RATE * 2.5 * (EXAMINED + 1))
    session.push(samples[: until - 50])
    assert session.warnings == []
    resumed = Session(source, method("none")).restore(session.state())
    for one in (session, resumed):
        one.push(samples[until - 50 : until + 200])
        assert "m/s^2" in one.warnings[0].text
