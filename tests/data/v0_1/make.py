"""Files that sight 0.1 wrote, for tests of migration; run with that version: ``python make.py FOLDER``.

The folder gets a trained model (checkpoint and ONNX), a state file of Keel and of SIGHT and the database of a service
with two wearers, all after the first half of a synthetic stream, and in ``expected.npz`` the stream and what 0.1
predicted for both halves.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

SENSOR_HZ, RATE_HZ, SECONDS, CLASSES = 40.0, 25.0, 60, ("rest", "walk", "run")
METHODS = {"anna": "keel", "ben": "sight"}
#: Hyper-parameters with which later versions of Keel are the same; its corrections of class frequencies have changed.
PARAMS = {"keel": {"align": 0.6, "debias": 0.0, "guard": False}, "sight": {}}


def make_signal(rng: np.random.Generator, rate_hz: float, labels: np.ndarray) -> np.ndarray:
    """Return samples (n, 3) with one class per second."""
    second = np.repeat(labels, round(rate_hz))
    time_s = np.arange(len(second)) / rate_hz
    wave = np.sin(2 * np.pi * second[:, None] * time_s[:, None] + np.arange(3))
    noise = rng.normal(scale=0.4, size=wave.shape)
    return (wave * second[:, None] * 0.5 + [0.0, 0.3, 0.9] + noise).astype(np.float32)


def main(folder: Path) -> None:
    from sight.apps.serve.keeper import Chunk, Keeper
    from sight.apps.serve.models import Models
    from sight.apps.serve.sqlite import SqliteStore
    from sight.models.load.export import export_onnx

    from sight.apps.stream import Session, saved
    from sight.models.load import load
    from sight.models.train import train
    from sight.registry import method

    rng = np.random.default_rng(7)
    labels = rng.integers(0, 3, 300)
    x = make_signal(rng, RATE_HZ, np.repeat(labels, 2)).reshape(300, 50, 3).transpose(0, 2, 1).copy()
    source = train(
        (x, labels),
        CLASSES,
        encoder="transformer",
        encoder_args={"width": 8, "depth": 1, "heads": 2},
        epochs=20,
        channels=("x", "y", "z"),
        units=("g",) * 3,
        rate_hz=RATE_HZ,
        stride_s=1.0,
        dataset="synthetic",
    )
    source.save(folder / "model.safetensors")
    export_onnx(source, folder / "model@1.onnx")
    model = load(folder / "model@1.onnx")
    values = make_signal(rng, SENSOR_HZ, np.repeat(rng.integers(0, 3, SECONDS // 5), 5))
    parts = np.split(values, SECONDS)
    expected: dict[str, np.ndarray] = {"values": values}

    def record(name: str, events: list) -> None:
        expected[f"{name}.q"], expected[f"{name}.p"] = (np.stack([getattr(e, key) for e in events]) for key in "qp")
        expected[f"{name}.time_s"] = np.array([e.time_s for e in events])

    for name in METHODS.values():
        session = Session(model, method(name, **PARAMS[name]), rate_in_hz=SENSOR_HZ)
        record(f"{name}.before", session.push(np.concatenate(parts[: SECONDS // 2])))
        saved.save(folder / f"{name}.state", session)
        record(f"{name}.after", session.push(np.concatenate(parts[SECONDS // 2 :])))
    keeper = Keeper(Models.load([folder / "model@1.onnx"]), SqliteStore(folder / "sight.sqlite"), snapshot_every=7)
    for wearer, name in METHODS.items():
        keeper.create(wearer, method=name, settings=PARAMS[name], rate_hz=SENSOR_HZ)
    for seq in range(1, SECONDS // 2 + 1):
        keeper.ingest([Chunk(wearer, seq, parts[seq - 1]) for wearer in METHODS])
    keeper.store.close()  # without saving the sessions, so that the log has chunks to replay
    shutil.copy(folder / "sight.sqlite", folder / "copy.sqlite")
    keeper = Keeper(Models.load([folder / "model@1.onnx"]), SqliteStore(folder / "copy.sqlite"))
    for wearer in METHODS:
        acks = [keeper.ingest([Chunk(wearer, s, parts[s - 1])])[0] for s in range(SECONDS // 2 + 1, SECONDS + 1)]
        record(f"{wearer}.after", [event for ack in acks for event in ack.events])
    keeper.store.close()
    (folder / "copy.sqlite").unlink()
    np.savez_compressed(folder / "expected.npz", **expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
