"""The example of docs/training.md, run on small synthetic recordings."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pandas as pd
import pytest

from tests.conftest import ROOT
from tests.helpers.commands import output_of

PAGE = (ROOT / "docs" / "training.md").read_text("utf-8")


def example(name):
    """Return the code block of the page that follows the mark of an example."""
    return re.search(rf"<!-- example: {name} -->\n```\w*\n(.*?)```", PAGE, re.DOTALL)[1]


def recording(seed):
    """Four minutes at 20 Hz from 9:00 local time: movement from 9:01:30 to 9:03:20, rest otherwise."""
    times = pd.date_range("2025-03-03 09:00:00", periods=4800, freq="50ms")
    moving = (np.arange(4800) >= 1800) & (np.arange(4800) < 4000)
    values = np.random.default_rng(seed).normal([0, 0, 1], 0.02 + 0.5 * moving[:, None], (4800, 3))
    return pd.DataFrame({"time": times, **dict(zip("xyz", values.T, strict=True))})


@pytest.mark.long
def test_the_example_runs(tmp_path, monkeypatch):
    (tmp_path / "recordings" / "diaries").mkdir(parents=True)
    (tmp_path / "recordings" / "MAP.toml").write_text(example("map"))
    for seed, name in enumerate(("anna", "bert", "cleo")):
        recording(seed).to_csv(tmp_path / "recordings" / f"{name}.csv", index=False)
        (tmp_path / "recordings" / "diaries" / f"{name}.csv").write_text(example("diary"))
    monkeypatch.chdir(tmp_path)
    printed = [
        output_of(*shlex.split(line.replace("--epochs 30", "--epochs 2"))[1:])
        for line in example("commands").splitlines()
    ]
    assert "Windows: sitting 390, walking 270; unlabelled 57." in printed[1]
    scores = pd.read_csv("mine.scores.csv", index_col="subject")
    assert scores.index.tolist() == ["anna", "bert", "cleo", "mean"]
    assert scores["adapted_accuracy"]["mean"] > 0.8
    assert pd.read_csv("mine.confusion.csv").columns.tolist() == ["predictions", "true_class", "sitting", "walking"]
    assert "anna was in the training" in printed[2]
    assert pd.read_csv("results/scores.csv")["in_training"][:12].all()
