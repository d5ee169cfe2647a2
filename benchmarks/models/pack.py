"""Pack the windows of the datasets behind the bundled models, one .npz per dataset and window length.

Run as ``python -m benchmarks.models.pack FOLDER``. The packed files are small enough to be copied to a machine with a
GPU, which needs no datasets then. Values are 16-bit integers times `scale`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sight.datasets import load
from sight.recordings.recording_collection import windows_of

#: Name of the packed file to dataset, its options, window and stride in seconds.
PACKED = {
    "wisdm-10": ("wisdm2019", {}, 10.0, 5.0),
    "wisdm-5": ("wisdm2019", {}, 5.0, 2.5),
    "hapt-5": ("hapt", {"gyro": False}, 5.12, 2.56),
    "hapt-2.5": ("hapt", {"gyro": False}, 2.56, 1.28),
}


def pack(name: str, folder: Path) -> None:
    """Write the windows of all subjects of a dataset."""
    dataset_name, options, window_s, stride_s = PACKED[name]
    dataset = load(dataset_name, **options)
    subjects = dataset.subjects()
    parts = [windows_of(dataset, who, window_s=window_s, stride_s=stride_s) for who in subjects]
    x = np.concatenate([part.x for part in parts])
    scale = float(np.abs(x).max()) / 32767
    np.savez_compressed(
        folder / f"{name}.npz",
        x=np.round(x / scale).astype(np.int16),
        scale=np.float32(scale),
        y=np.concatenate([part.label for part in parts]).astype(np.int16),
        gap_s=np.concatenate([part.gap_before_s for part in parts]),
        subject=np.repeat(np.arange(len(subjects)), [len(part) for part in parts]).astype(np.int16),
        subjects=np.array(subjects),
        classes=np.array(dataset.classes),
        channels=np.array(dataset.channels),
        units=np.array(dataset.units),
        rate_hz=dataset.rate_hz,
        window_s=window_s,
        stride_s=stride_s,
    )
    print(f"{name}: {len(x)} windows of {len(subjects)} subjects", flush=True)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for packed in PACKED:
        pack(packed, target)
