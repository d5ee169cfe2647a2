"""Makes what the pages carry: colours, and a small model with a recording for the page that runs without a server.

``python -m tools.page_assets`` writes them anew. The files are in the repository, so that nobody needs torch to serve
the pages; training is seeded, but other processors and versions of torch may give other last digits.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sight.atomic import write_atomic
from sight.report.palette import stylesheet
from sight.types import Array, Recording

STATIC = Path(__file__).resolve().parents[1] / "src/sight/serve/static"
#: Classes that get a colour of their own on the pages; past them colours repeat.
COLOURED = 64
#: One step of a stored sample by unit, powers of two, so that reading gives the same float32 in every language.
STEP = {"g": 2.0**-11, "deg/s": 2.0**-4}
#: Whom the model knows: few, so that there is something left to adapt to.
PEOPLE: dict[str, Any] = {"wearers": 9, "hours": 0.5, "seed": 0}
KNOWN = ("W01", "W02", "W03")
#: Whom the recording shows, and which part of it: one with a gap, and in which adaptation has something to do.
UNSEEN, FROM_S, LENGTH_S = "W07", 1020.0, 460.0


def colours() -> str:
    """Return the colours of reports as a stylesheet for the pages."""
    return stylesheet(COLOURED) + "\n"


def pack(recording: Recording) -> tuple[bytes, dict[str, Any]]:
    """Store samples in 16 bits each, and say how to read them.

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
    """Read what `pack` stored: samples (n, C) float32 and their times (n,)."""
    step = np.array(facts["step"], np.float32)
    values = np.frombuffer(data, "<i2").reshape(-1, len(step)).astype(np.float32) * step
    time_s = [start + np.arange(count) / facts["rate_hz"] for start, count in facts["stretches"]]
    return values, np.concatenate(time_s)


def main() -> None:
    """Train the small model on synthetic wearers, and write it with a part of the day of one it has not met."""
    from sight.datasets import windows_of
    from sight.datasets.synthetic import Synthetic
    from sight.methods.sight import SIGHT
    from sight.sources.fused_export import export_fused
    from sight.train import train

    people = Synthetic(**PEOPLE)
    source = train(
        [windows_of(people, person) for person in KNOWN],
        people.classes,
        encoder="transformer",
        encoder_args={"width": 32, "depth": 2},
        epochs=12,
        channels=people.channels,
        units=people.units,
        dataset=people.name,
    )
    export_fused(source, STATIC / "model.onnx", SIGHT())
    part = _part(next(people.recordings(UNSEEN)))
    data, facts = pack(part)
    write_atomic(STATIC / "recording.bin", data)
    write_atomic(STATIC / "recording.json", json.dumps(facts | {"truth": _runs(part, people.classes)}).encode())
    write_atomic(STATIC / "palette.css", colours().encode())


def _part(recording: Recording) -> Recording:
    time_s = recording.time_s - FROM_S
    kept = (time_s >= 0) & (time_s < LENGTH_S)
    labels = None if recording.labels is None else recording.labels[kept]
    return replace(recording, values=recording.values[kept], time_s=time_s[kept], labels=labels)


def _runs(recording: Recording, classes: tuple[str, ...]) -> list[tuple[float, str]]:
    """When each activity begins, for the eyes of readers only."""
    labels = np.asarray(recording.labels)
    first = np.flatnonzero(np.diff(labels, prepend=-1))
    return [(round(float(recording.time_s[i]), 2), classes[labels[i]]) for i in first]


if __name__ == "__main__":
    main()
