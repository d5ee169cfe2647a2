"""What is trained: the bundled models, and the variants that were compared before they were chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sight.datasets.wisdm2019 import COARSE


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A model to train."""

    name: str
    packed: str  # file of `pack`
    groups: dict[str, tuple[str, ...]] | None = None  # class to labels of the dataset; None keeps the labels
    encoder: str = "resnet"
    mounts: str = "none"  # how the sensor is turned in training; see `fit.turn`
    epochs: int = 40
    batch: int = 256
    lr: float = 2e-3
    seed: int = 0


MODELS = {
    spec.name: spec
    for spec in (
        Spec(name="wrist", packed="wisdm-10", groups=COARSE, mounts="wrist"),
        Spec(name="wrist-18", packed="wisdm-10", mounts="wrist"),
        Spec(name="waist", packed="hapt-2.5", mounts="tilt"),
    )
}

VARIANTS = {
    spec.name: spec
    for spec in (
        *(
            Spec(
                name=f"wisdm-{window}-{mounts}",
                packed=f"wisdm-{window}",
                mounts=mounts,
                batch=256 if window == 10 else 512,
            )
            for window, mounts in ((10, "none"), (10, "wrist"), (10, "any"), (5, "wrist"))
        ),
        Spec(name="wisdm-10-wrist-cnn", packed="wisdm-10", mounts="wrist", encoder="cnn"),
        *(
            Spec(name=f"hapt-{window}-{mounts}", packed=f"hapt-{window}", mounts=mounts)
            for window in ("2.5", "5")
            for mounts in ("none", "tilt")
        ),
        Spec(name="hapt-5-tilt-cnn", packed="hapt-5", mounts="tilt", encoder="cnn"),
    )
}


def regroup(
    y: np.ndarray, labels: list[str], groups: dict[str, tuple[str, ...]] | None
) -> tuple[np.ndarray, list[str]]:
    """Return class indices and names after labels (N,) are put into groups; -1 stays."""
    if groups is None:
        return y, labels
    owner = {label: k for k, members in enumerate(groups.values()) for label in members}
    table = np.array([owner[label] for label in labels] + [-1])
    return table[y], list(groups)
