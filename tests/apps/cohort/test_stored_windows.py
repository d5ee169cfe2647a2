"""Windows and epochs that a cohort stored are read back unchanged."""

from __future__ import annotations

import json
import math
from dataclasses import fields

from sight.apps.cohort.stored_windows import read_epochs, read_result, write_epochs
from sight.recordings.read import read
from tests.helpers.made_nights import made_epochs


def test_a_stored_result_is_read_back_unchanged(cohort, folder):
    from sight.models.load import load
    from sight.registry import RECOMMENDED, method
    from sight.results.prediction_loop import run

    source = load(cohort / "model.onnx")
    fresh = run(method(RECOMMENDED).bind(source), read(folder / "P5.npz", source), lag=math.inf)
    facts = json.loads((cohort / "facts/P5.json").read_text())
    stored = read_result(cohort / "windows/P5.parquet", facts, cohort / "epochs/P5.parquet")
    assert stored.windows.epochs is None  # P5 is read as windows
    for name in ("p", "q"):
        assert (getattr(stored, name) == getattr(fresh, name)).all()
    for name in ("time_s", "label", "wear"):
        assert (getattr(stored.windows, name) == getattr(fresh.windows, name)).all()
    assert stored.windows.start == fresh.windows.start
    assert stored.trace.keys() == fresh.trace.keys()


def test_stored_epochs_are_read_back_unchanged(tmp_path):
    epochs = made_epochs(30, nights=[(20, 28)], unworn=[(2, 4)])
    write_epochs(tmp_path / "P1.parquet", epochs)
    stored = read_epochs(tmp_path / "P1.parquet")
    for each in fields(epochs):
        assert (getattr(stored, each.name) == getattr(epochs, each.name)).all()
        assert getattr(stored, each.name).dtype == getattr(epochs, each.name).dtype
    assert read_epochs(tmp_path / "P2.parquet") is None
