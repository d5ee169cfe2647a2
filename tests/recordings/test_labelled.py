"""Recordings to evaluate: which subjects were in the training of a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sight.recordings.labelled import is_in_training
from sight.recordings.recording_references import RecordingRef
from sight.testing import toy_network


@pytest.mark.parametrize(
    ("dataset", "ref", "expected"),
    [
        ("hapt", {"name": "hapt-1", "dataset": "hapt", "subject": "1"}, True),
        ("hapt", {"name": "hapt-3", "dataset": "hapt", "subject": "3"}, False),
        ("hapt", {"name": "wisdm2019-1", "dataset": "wisdm2019", "subject": "1"}, None),
        ("hapt", {"name": "1", "path": Path("1.csv")}, None),
        ("folder", {"name": "1", "path": Path("own/1.csv")}, True),
        ("folder", {"name": "monday", "path": Path("own/1/monday.csv")}, True),
        ("folder", {"name": "3", "path": Path("own/3.csv")}, False),
    ],
)
def test_subjects_of_the_training_are_found(dataset, ref, expected):
    card = replace(toy_network().card, dataset=dataset, training={"subjects": ["1", "2"]})
    assert is_in_training(RecordingRef(**ref), card) is expected
    assert is_in_training(RecordingRef(**ref), replace(card, training={})) is None
