"""Whole recordings of real wearers: the program in C predicts what Python predicts; int8 is as accurate as float32."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

pytest.importorskip("onnx")

from benchmarks.device.host_library import build, csv_lines
from benchmarks.device.int8_accuracy import scores

import sight
from sight.apps.stream.session import Session
from sight.datasets import load
from sight.recordings.signal.channels import convert, select
from sight.registry import method
from tests.helpers.commands import run_sight

DATA = {"waist": ("hapt.zip", "hapt", {"gyro": False}), "wrist": ("wisdm2019_watch_accel.zip", "wisdm2019", {})}
SUBJECTS = {"waist": ["1", "2", "3"], "wrist": ["1600", "1601", "1602"]}
RUNS = [
    pytest.param(model, subject, name, marks=[pytest.mark.long] if number or name != "keel" else [])
    for model, subjects in SUBJECTS.items()
    for number, subject in enumerate(subjects)
    for name in ("keel", "sight", "sticky-learned")
]


def recording(model, subject):
    """Return the samples of all recordings of a subject on one clock, an hour between those without a start."""
    _, name, options = DATA[model]
    card, times, values, end_s = sight.load(model).card, [], [], 0.0
    for whole in load(name, **options).recordings(subject):
        part = convert(select(whole, card.channels), card.units)
        start_s = part.start.timestamp() if part.start else end_s + 3600
        times.append(part.time_s + start_s)
        values.append(part.values)
        end_s = times[-1][-1]
    time_s = np.concatenate(times)
    return np.concatenate(values), time_s - time_s[0]


def parse(printed):
    """Return the labels and refined probabilities that the program printed."""
    rows = [line.split(",") for line in printed.splitlines()]
    return [row[1] for row in rows], np.array([row[2:] for row in rows], float)


def assert_same_as_python(printed, model, values, time_s, name):
    """Compare what the program printed with a session; return the number of windows."""
    session = Session(sight.load(model), method(name))
    events = session.push(values, time_s) + session.flush()
    labels, q = parse(printed)
    refined = np.array([event.q for event in events])
    assert labels == [session.source.classes[k] for k in refined.argmax(axis=1)]
    np.testing.assert_allclose(q, refined, rtol=0, atol=1e-5)
    return len(labels)


@pytest.mark.real
@pytest.mark.parametrize(("model", "subject", "name"), RUNS)
def test_every_label_of_a_recording_is_that_of_python(tmp_path, real, model, subject, name):
    real(DATA[model][0])
    values, time_s = recording(model, subject)
    run_sight("export", model, "--c", "--method", name, "-o", tmp_path / "c")
    program = build(tmp_path / "c", "main.c", out="sight")
    printed = subprocess.run(
        [str(program)], input=csv_lines(values, time_s), capture_output=True, text=True, check=True
    ).stdout
    assert assert_same_as_python(printed, model, values, time_s, name) > 500


@pytest.mark.real
@pytest.mark.parametrize(
    ("model", "subjects"),
    [("waist", 2), *(pytest.param(model, None, marks=pytest.mark.long) for model in ("waist", "wrist"))],
)
def test_int8_is_as_accurate_as_float32(real, model, subjects):
    real(DATA[model][0])
    found = scores(model, subjects)
    for kind in ("alone", "refined"):
        assert found[f"int8_{kind}"] >= found[f"float32_{kind}"] - 0.5
        assert found[f"same_{kind}"] >= 98.5
