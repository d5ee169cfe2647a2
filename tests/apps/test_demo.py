"""The demo's model and wearers: adaptation visibly helps, and the numbers of the docs are those of the model."""

from __future__ import annotations

import numpy as np
import pytest
from tools.demo_model import accuracies, measured

from sight.apps import demo
from sight.datasets.synthetic import Synthetic
from sight.models.load import load


@pytest.mark.parametrize("subject", demo.WEARERS.values())
def test_adaptation_helps_every_wearer_within_two_minutes(subject):
    """The replay is ten times as fast as the signal, so two minutes of the page are twenty of the signal."""
    found = accuracies(subject)
    raw, refined = found[-1]
    assert refined > raw + 0.04
    assert np.array(found) == pytest.approx(np.array(measured()[subject]), abs=0.02)


def test_the_model_is_small_and_was_not_trained_on_the_wearers_of_the_demo():
    source = load(demo.MODEL)
    assert demo.MODEL.stat().st_size < 100_000
    assert set(source.card.training["subjects"]).isdisjoint(demo.WEARERS.values())
    assert source.card.channels == Synthetic.channels
    assert all(len(recording.values) > 50 * 60 * 20 for recording in demo.recordings().values())
