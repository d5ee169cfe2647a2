"""Score ways to group the activities of WISDM, from the raw probabilities of held-out subjects.

Run as ``python -m benchmarks.models.label_maps WINDOWS FITTED OUT.csv``, with the folders of `pack` and `fit`. The
probabilities of the 18 activities are added up in each group; no network is trained.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from benchmarks.models.specs import regroup
from benchmarks.version_and_date import version_and_date

from sight.datasets.wisdm2019 import COARSE
from sight.results import metrics

DESK = {"sitting": ("sitting",), "desk work": ("typing", "writing")}
HANDS = {"hand activity": (*COARSE["hand activity"], *COARSE["ball game"])}
ON_FOOT = {"walking": ("walking", "stairs")}
MAPS = {
    "those of `wrist`": COARSE,
    "desk work apart from sitting": COARSE | DESK,
    "ball games among hand activities": {key: value for key, value in COARSE.items() if key != "ball game"} | HANDS,
    "stairs among walking": {key: value for key, value in COARSE.items() if key != "stairs"} | ON_FOOT,
}


def main() -> None:
    """Write one row per map and subject."""
    windows, fitted, out = (Path(name) for name in sys.argv[1:4])
    data, heldout = np.load(windows / "wisdm-10.npz"), np.load(fitted / "heldout.npz")
    labels, subjects = data["classes"].tolist(), data["subjects"].tolist()
    maps = {f"{len(groups)} classes, {name}": groups for name, groups in MAPS.items()}
    maps["18 classes, model `wrist-18`"] = {name: (name,) for name in labels}
    rows, facts = [], version_and_date()
    for name, groups in maps.items():
        members = np.array([[label in group for label in labels] for group in groups.values()], np.float32)
        for k, subject in enumerate(subjects):
            own = (data["subject"] == k) & (data["y"] >= 0)
            y, _ = regroup(data["y"][own], labels, groups)
            p = heldout[f"wrist-18/{k}"][data["y"][data["subject"] == k] >= 0].astype(np.float32) @ members.T
            table = metrics.confusion(y, p.argmax(axis=1), len(groups))
            score = round(100 * metrics.macro_f1_union(table), 2)
            rows.append({"map": name, "subject": subject, "macro_f1": score, **facts})
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
