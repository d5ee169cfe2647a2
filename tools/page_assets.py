"""Writes the generated files of the web pages: the colours, and the model and recording of the page ``/device``.

``python -m tools.page_assets`` rewrites them, ``python -m tools.page_assets colours`` only the colours. The files are
in the repository, so that serving needs no torch. Training is seeded, but other processors and versions of torch may
give other last digits.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sight._util.atomic import write_atomic
from sight.results.report import palette
from sight.types import Array, Recording

STATIC = Path(__file__).resolve().parents[1] / "src/sight/apps/serve/static"
#: Step size of a stored sample by unit; powers of two, so that every language reads the same float32.
STEP = {"g": 2.0**-11, "deg/s": 2.0**-4}
DATASET: dict[str, Any] = {"wearers": 9, "hours": 0.5, "seed": 0}
#: Few subjects to train on, so that adaptation has something to correct.
TRAINING_SUBJECTS = ("W01", "W02", "W03")
#: Subject of the recording, and a part of it with a gap and with errors that adaptation corrects.
SUBJECT, START_S, LENGTH_S = "W07", 1020.0, 460.0


def colours() -> dict[str, str]:
    """Return the colours of reports for the pages, by file name: a stylesheet, and the words of class names."""
    tables = {"KINDS": list(palette.KINDS), "SPARE": len(palette.SPARE)}
    tables |= {"WORDS": palette.WORDS, "WHOLE_WORDS": palette.WHOLE_WORDS}
    words = "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in tables.items())
    return {
        "palette.css": palette.stylesheet(palette.COLOURS) + "\n",
        "js/palette_words.js": "// Generated from src/sight/results/report/palette.py by tools/page_assets.py.\n"
        + words,
    }


def write_colours() -> None:
    """Write the files of `colours`."""
    for name, text in colours().items():
        write_atomic(STATIC / name, text.encode())


def pack(recording: Recording) -> tuple[bytes, dict[str, Any]]:
    """Return the samples as 16-bit integers, and the facts needed to read them.

    Examples
    --------
    >>> recording = Recording(values=np.array([[1.0], [0.5]], np.float32), time_s=np.array([0, 0.02]), channels=("x",),
    ...                       unit="g", rate_hz=50)
    >>> data, facts = pack(recording)
    >>> len(data), facts["step"], facts["stretches"]
    (4, [0.00048828125], [[0.0, 2]])
    """
    step = np.array([STEP[unit] for unit in recording.unit])
    values = np.clip(np.rint(recording.values / step), -(2**15), 2**15 - 1).astype("<i2")
    first = np.flatnonzero(np.diff(recording.time_s, prepend=-np.inf) > 1.5 / recording.rate_hz)
    facts = {
        "channels": list(recording.channels),
        "units": list(recording.unit),
        "rate_hz": recording.rate_hz,
        "step": step.tolist(),
        "stretches": [
            [round(float(recording.time_s[start]), 6), int(count)]
            for start, count in zip(first, np.diff(first, append=len(values)), strict=True)
        ],
    }
    return values.tobytes(), facts


def unpack(data: bytes, facts: dict[str, Any]) -> tuple[Array, Array]:
    """Return the samples (n, C) float32 and times (n,) of `pack`."""
    step = np.array(facts["step"], np.float32)
    values = np.frombuffer(data, "<i2").reshape(-1, len(step)).astype(np.float32) * step
    time_s = [start + np.arange(count) / facts["rate_hz"] for start, count in facts["stretches"]]
    return values, np.concatenate(time_s)


def main() -> None:
    """Train a small model on synthetic wearers, and write it with part of the recording of another wearer."""
    from sight.datasets import windows_of
    from sight.datasets.synthetic import Synthetic
    from sight.methods.sight import SIGHT
    from sight.models.export.fused import export_fused
    from sight.models.train import train

    dataset = Synthetic(**DATASET)
    source = train(
        [windows_of(dataset, subject) for subject in TRAINING_SUBJECTS],
        dataset.classes,
        encoder="transformer",
        encoder_args={"width": 32, "depth": 2},
        epochs=12,
        channels=dataset.channels,
        units=dataset.units,
        dataset=dataset.name,
    )
    export_fused(source, STATIC / "model.onnx", SIGHT())
    part = _part(next(dataset.recordings(SUBJECT)))
    data, facts = pack(part)
    truth = _activity_starts(part, dataset.classes)
    write_atomic(STATIC / "recording.bin", data)
    write_atomic(STATIC / "recording.json", json.dumps(facts | {"truth": truth}).encode())
    write_colours()


def _part(recording: Recording) -> Recording:
    time_s = recording.time_s - START_S
    kept = (time_s >= 0) & (time_s < LENGTH_S)
    labels = None if recording.labels is None else recording.labels[kept]
    return replace(recording, values=recording.values[kept], time_s=time_s[kept], labels=labels)


def _activity_starts(recording: Recording, classes: tuple[str, ...]) -> list[tuple[float, str]]:
    """Return time and class of the start of each activity; shown on the page, and not used by the model."""
    labels = np.asarray(recording.labels)
    first = np.flatnonzero(np.diff(labels, prepend=-1))
    return [(round(float(recording.time_s[i]), 2), classes[labels[i]]) for i in first]


if __name__ == "__main__":
    write_colours() if sys.argv[1:] == ["colours"] else main()
