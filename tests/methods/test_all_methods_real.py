"""Every method on windows of a subject of HAPT, or of a synthetic one in its layout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sight import registry
from sight.datasets import load, windows_of
from sight.models.train import train
from sight.results.prediction_loop import run


def test_every_method_runs_on_a_recorded_stream(hapt_files, monkeypatch):
    monkeypatch.setenv("SIGHT_DATA", str(hapt_files.parent))
    dataset = load("hapt", protocol="ucihar")
    source = train(windows_of(dataset, "1"), dataset.classes, epochs=2, fisher=True, dataset="hapt")
    windows, n = windows_of(dataset, "2"), 96
    windows = replace(
        windows,
        x=windows.x[:n],
        label=windows.label[:n],
        time_s=windows.time_s[:n],
        gap_before_s=windows.gap_before_s[:n],
        wear=None,
    )
    encoded = source.encode(windows.x)
    for name in registry.names("methods"):
        q = run(registry.method(name).bind(source), windows, encoded=encoded).q
        assert q.shape == (n, len(dataset.classes)), name
        np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-4, err_msg=name)
