"""Stages from a file to its report."""

from __future__ import annotations

import json

import numpy as np
from benchmarks.speed.pipeline import measure, pipeline_table

from sight import __version__


def test_stages_are_measured_and_stored(tmp_path):
    n = 100 * 120
    values = np.random.default_rng(0).normal((0, 0, 1), 0.1, (n, 3))
    table = np.column_stack((np.arange(n) / 100, values))
    file = tmp_path / "walk.csv"
    np.savetxt(file, table, delimiter=",", header="time,x,y,z", comments="", fmt="%.4f")
    found = measure(file, "wrist", tmp_path / "pipeline.json", tz="UTC")
    assert json.loads((tmp_path / "pipeline.json").read_text("utf-8")) == found
    assert found["sight"] == __version__
    assert list(found["stages"]) == ["model", "reading", "resampling", "encoding", "adapting", "writing"]
    assert found["file"]["samples"] == n
    assert all(stage["peak_mb"] > 10 for stage in (*found["stages"].values(), found["pyarrow"]))
    names = [row[0].text for row in pipeline_table(found).rows]
    assert names[-1] == "plain read by pyarrow"
