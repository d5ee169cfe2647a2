"""The batched evaluation of keel-norm against the method itself, and a whole run on a tiny dataset."""

from __future__ import annotations

import argparse
import json
import lzma

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.keel import normalisation, source_training  # noqa: E402 - needs torch

from sight.apps.bench import day_streams  # noqa: E402
from sight.methods.keel_norm import KeelNorm  # noqa: E402
from sight.testing import ToySource, toy_network, toy_stream  # noqa: E402


@pytest.mark.parametrize("fields", [{}, {"tolerance": 0.0}, {"anchor": 10.0, "confident": 0.8}, {"layers": 1}])
def test_chunks_of_one_window_equal_the_method(fields):
    adapter = KeelNorm(**fields).bind(toy_network())
    x = toy_stream(n=60).x + 0.5
    many = normalisation.ManyKeelNorm(adapter, 3, {})
    windows, wearers = torch.from_numpy(x), np.array([0, 2])
    steps = [many.step(windows[[t, 59 - t]], wearers) for t in range(60)]
    q = np.concatenate(steps, axis=1)  # (2, 60, K)
    np.testing.assert_allclose(q[0], adapter.step(x), atol=2e-3)
    np.testing.assert_allclose(q[1], adapter.reset().step(x[::-1].copy()), atol=2e-3)


def test_streams_of_any_length_are_predicted_completely():
    adapter = KeelNorm(anchor=10).bind(toy_network())
    x = torch.from_numpy(toy_stream(n=40).x)
    indices = [np.arange(40), np.arange(13), np.arange(5, 29)]
    together = normalisation.run_variant(adapter, x, indices, chunk=8, keel={})
    for index, labels in zip(indices, together, strict=True):
        assert (labels == normalisation.run_variant(adapter, x, [index], chunk=8, keel={})[0]).mean() > 0.9
        assert len(labels) == len(index)


def test_a_tiny_run_has_a_row_for_each_stream_and_method(tmp_path, monkeypatch):
    monkeypatch.setattr(day_streams, "LENGTH", 24)
    monkeypatch.setattr(
        normalisation, "VARIANTS", {"anchor 30": ({"anchor": 30.0}, {}), "penalty 2": ({}, {"penalty": 2.0})}
    )
    monkeypatch.setitem(source_training.SETTINGS, "toy", (["a", "b"], []))
    streams = [toy_stream(n=60, seed=seed) for seed in range(3)]
    x = np.concatenate([stream.x for stream in streams]).astype(np.float16)
    facts = {
        "classes": list(ToySource().classes),
        "shape": list(x.shape),
        "rate_hz": 10.0,
        "subjects": ["a", "b", "c"],
        "counts": [60] * 3,
        "labels": [stream.label.tolist() for stream in streams],
    }
    (tmp_path / "toy.json").write_text(json.dumps(facts))
    (tmp_path / "toy.bin.xz").write_bytes(lzma.compress(x.tobytes(), preset=0))
    options = argparse.Namespace(device="cpu", epochs=1, limit=2, chunk=8)
    rows = []
    for task in [task for task in source_training.tasks(tmp_path, ["toy"]) if task[3] == 0]:
        message, found = normalisation.run_task(task, tmp_path, options)
        assert "streams" in message
        rows += found
    assert {row[5] for row in rows} == {"recorded", "day-60 activity 0", "day-80 activity 0", "day-94 activity 0"}
    methods = {"source-only", "keel", "sticky", "anchor 30", "penalty 2"}
    assert {row[6] for row in rows} == methods
    assert len(rows) == len({row[:7] for row in rows}) == 2 * 2 * 4 * len(methods)
    assert all(len(row) == len(normalisation.COLUMNS) and 0 <= row[8] <= 100 for row in rows)


def test_the_summary_holds_gains_of_macro_f1_on_recordings_and_of_accuracy_on_days():
    run = ("toy_S", "a", 0)
    rows = [
        (*run, target, "development", order, method, 24, accuracy, macro_f1)
        for target in ("b", "c")
        for order in ("recorded", "day-60 sit")
        for method, accuracy, macro_f1 in (("source-only", 50, 40), ("keel", 46 if target == "b" else 60, 50))
    ]
    assert normalisation.summary(rows) == [
        ("toy_S", "recorded", "keel", 2, 10.0, 0.0, 10.0),
        ("toy_S", "day-60", "keel", 2, 3.0, 50.0, -4.0),
    ]
