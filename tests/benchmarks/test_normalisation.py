"""The batched evaluation of keel-norm against the method itself, and a whole run on a tiny dataset."""

from __future__ import annotations

import json
import lzma

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.keel import normalisation, recursions  # noqa: E402 - needs torch
from benchmarks.keel.train_encode import projections  # noqa: E402

from sight.apps.bench import simulated_days  # noqa: E402
from sight.methods.keel_norm import KeelNorm  # noqa: E402
from sight.testing import toy_network, toy_stream  # noqa: E402


@pytest.mark.parametrize("fields", [{}, {"anchor": 10.0, "bound": 2.0}])
def test_chunks_of_one_window_equal_the_method(fields):
    adapter = KeelNorm(**fields).bind(toy_network())
    x = toy_stream(n=60).x + 0.5
    many = normalisation.ManyKeelNorm(adapter, 3)
    windows, wearers = torch.from_numpy(x), np.array([0, 2])
    steps = [many.step(windows[[t, 59 - t]], wearers) for t in range(60)]
    q = np.concatenate(steps, axis=1)  # (2, 60, K)
    np.testing.assert_allclose(q[0], adapter.step(x), atol=2e-3)
    np.testing.assert_allclose(q[1], adapter.reset().step(x[::-1].copy()), atol=2e-3)


def test_streams_of_any_length_are_predicted_completely():
    adapter = KeelNorm(anchor=10).bind(toy_network())
    x = torch.from_numpy(toy_stream(n=40).x)
    indices = [np.arange(40), np.arange(13), np.arange(5, 29)]
    together = normalisation.run_together(adapter, x, indices)
    for index, labels in zip(indices, together, strict=True):
        assert (labels == normalisation.run_together(adapter, x, [index])[0]).mean() > 0.9
        assert len(labels) == len(index)


def test_a_model_has_a_row_for_each_stream_and_method(tmp_path, monkeypatch):
    monkeypatch.setattr(simulated_days, "LENGTH", 24)
    monkeypatch.setitem(recursions.SEDENTARY, "toy", ("0",))
    source, streams = toy_network(), [toy_stream(n=60, seed=seed) for seed in range(3)]
    x = np.concatenate([stream.x for stream in streams]).astype(np.float16)
    facts = {
        "classes": [str(k) for k in range(5)],
        "shape": list(x.shape),
        "rate_hz": 10.0,
        "subjects": ["a", "b", "c"],
        "counts": [60] * 3,
        "labels": [stream.label.tolist() for stream in streams],
    }
    (tmp_path / "toy.json").write_text(json.dumps(facts))
    (tmp_path / "toy.bin.xz").write_bytes(lzma.compress(x.tobytes(), preset=0))
    for part in ("models", "projections"):
        (tmp_path / part).mkdir()
    z, _ = source.encode(x.astype(np.float32))
    np.savez(tmp_path / "projections" / "toy_S_a_0.npz", subjects=[0], **projections(z, source))
    runs = normalisation.compare_model(source.save(tmp_path / "models" / "toy_S_a_0.safetensors"), tmp_path)
    assert set(runs.method) == {"keel", *normalisation.METHODS}
    assert set(runs.target) == {1, 2}
    assert set(runs.kind) == {*normalisation.KINDS}
    assert len(runs) == (1 + len(normalisation.METHODS)) * 2 * len(normalisation.KINDS)
