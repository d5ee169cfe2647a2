"""A model trained by the command, its export, and a CSV file with a diary."""

from __future__ import annotations

import csv
from itertools import pairwise

import numpy as np
import pytest

from tests.helpers.commands import TINY, run_sight


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A model trained by the command on two synthetic subjects."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    subjects = ["--data", "synthetic", "--subjects", "W01,W02", *TINY]
    run_sight("train", *subjects, "--epochs", 2, "--encoder", "resnet", "-o", path)
    return path


@pytest.fixture(scope="session")
def onnx(model):
    path = model.with_suffix(".onnx")
    run_sight("export", model, "-o", path)
    return path


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """Three minutes of a subject as CSV, and its labels as a diary."""
    from sight.datasets.synthetic import Synthetic

    recording = next(Synthetic(hours=0.05, gaps_per_hour=0).recordings("W05"))
    folder = tmp_path_factory.mktemp("table")
    with (folder / "day.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["t", *recording.channels])
        writer.writerows(
            [f"{t:.3f}", *(f"{v:.6f}" for v in row)] for t, row in zip(recording.time_s, recording.values, strict=True)
        )
    edges = [0, *(np.flatnonzero(np.diff(recording.labels)) + 1), len(recording.labels)]
    with (folder / "diary.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["start", "end", "label"])
        for first, last in pairwise(edges):
            writer.writerow(
                [recording.time_s[first], recording.time_s[last - 1] + 0.02, Synthetic.classes[recording.labels[first]]]
            )
    return folder
