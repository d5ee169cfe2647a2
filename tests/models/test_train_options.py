"""Training with validation windows of their own, and without normalisation of inputs."""

from __future__ import annotations

import numpy as np

from sight.models.train import train
from sight.testing import ToySource, toy_stream

CLASSES = ToySource().classes
FEW = {"encoder": "resnet", "epochs": 3}


def test_the_epoch_is_chosen_on_windows_of_another_subject():
    windows, other = toy_stream(n=60), toy_stream(n=40, seed=5)
    source = train(windows, CLASSES, validation=other, **FEW)
    history = source.card.training
    assert history["windows"] == 60
    assert history["validation"] == "own windows"
    assert history["best_epoch"] == 1 + int(np.argmax(history["macro_f1"]))
    plain = train(windows, CLASSES, **FEW)
    assert source.card.mean == plain.card.mean  # the validation windows do not change the normalisation


def test_inputs_are_not_scaled_on_request():
    source = train(toy_stream(n=60), CLASSES, scaled=False, **FEW)
    assert set(source.card.mean) == {0.0}
    assert set(source.card.std) == {1.0}
