"""Small files of the paper's datasets in the official layouts: the subjects of the first pair of each setting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tests.helpers.layouts import ANNOTATIONS, capture_lines, harth_table, overlapping, ucihar

RNG = np.random.default_rng(11)


def write_harth(root: Path) -> None:
    (root / "harth").mkdir()
    for subject in ("S006", "S032"):
        table = harth_table(np.tile(np.repeat([1, 6, 7, 8, 13], 150), 2))
        table.to_csv(root / "harth" / f"{subject}.csv", index=False)


def write_capture24(root: Path) -> None:
    folder = root / "capture24"
    folder.mkdir()
    pd.DataFrame({"annotation": list(ANNOTATIONS), "label:Walmsley2020": list(ANNOTATIONS.values())}).to_csv(
        folder / "annotation-label-dictionary.csv", index=False
    )
    for subject in ("P002", "P025"):
        spans = [(annotation, 20, 0) for annotation in ANNOTATIONS]
        capture_lines([("", 15, 0), *spans, ("", 10, 60)]).to_csv(folder / f"{subject}.csv.gz", index=False)


def write_uschad(root: Path) -> None:
    from scipy.io import savemat

    for subject in (1, 3):
        folder = root / "USC-HAD" / f"Subject{subject}"
        folder.mkdir(parents=True)
        for activity in range(1, 13):
            savemat(
                folder / f"a{activity}t1.mat",
                {"sensor_readings": RNG.normal(size=(300, 6)), "activity_number": str(activity)},
            )


def write_ucihar(root: Path) -> None:
    def rows(subject: int):
        return [(subject, activity, overlapping(4, RNG.normal(size=(9, 320)).round(6))) for activity in range(1, 7)]

    ucihar(root, {"train": rows(1), "test": rows(16)})


WRITERS = {"harth": write_harth, "capture24": write_capture24, "uschad": write_uschad, "ucihar": write_ucihar}
