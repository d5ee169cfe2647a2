"""WISDM 2019: eighteen activities of three minutes each, watch accelerometer, 20 Hz."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sight._util.folder_or_zip import read_columns
from sight.recordings.recording_collection import Dataset, Download
from sight.types import Recording

ACTIVITIES = {
    "A": "walking",
    "B": "jogging",
    "C": "stairs",
    "D": "sitting",
    "E": "standing",
    "F": "typing",
    "G": "teeth",
    "H": "soup",
    "I": "chips",
    "J": "pasta",
    "K": "drinking",
    "L": "sandwich",
    "M": "kicking",
    "O": "catch",
    "P": "dribbling",
    "Q": "writing",
    "R": "clapping",
    "S": "folding",
}

#: Classes of the option labels="coarse", with the activities of each.
COARSE = {
    "sitting": ("sitting", "typing", "writing"),
    "standing": ("standing",),
    "eating": ("soup", "chips", "pasta", "drinking", "sandwich"),
    "hand activity": ("teeth", "clapping", "folding"),
    "ball game": ("kicking", "catch", "dribbling"),
    "walking": ("walking",),
    "stairs": ("stairs",),
    "running": ("jogging",),
}


@dataclass(kw_only=True)
class WISDM2019(Dataset):
    """WISDM smartphone and smartwatch activity and biometrics: accelerometer of the watch.

    Files are sorted by activity letter; a recording puts the blocks in the order of their timestamps, so the breaks
    between them (seconds to days) are gaps. Timestamps count from the start of the watch; there is no wall clock.
    Where one activity follows another within half a second, a window across both has no label. Some watches sampled
    at 100 Hz for a while.

    Parameters
    ----------
    labels
        "all" uses the eighteen activities, "coarse" groups of them, such as eating.
    """

    labels: Literal["all", "coarse"] = "all"

    name = "wisdm2019"
    title = "WISDM 2019: scripted activities, watch accelerometer"
    classes = tuple(ACTIVITIES.values())
    label_map: ClassVar = ACTIVITIES
    channels = ("x", "y", "z")
    units = ("m/s^2",) * 3
    rate_hz = 20.0
    window_s = 5.0
    stride_s = 2.5
    label_rule = "whole"
    licence = "CC BY 4.0"
    citation = (
        "Weiss, Yoneda, Hayajneh. Smartphone and Smartwatch-Based Biometrics Using Activities of Daily Living. "
        "IEEE Access 7:133190-133202, 2019. doi:10.1109/ACCESS.2019.2940729"
    )
    homepage = "https://archive.ics.uci.edu/dataset/507"
    version = "2019"
    official_files = ("raw/watch/accel/data_1600_accel_watch.txt", "...", "raw/watch/accel/data_1650_accel_watch.txt")
    folder_names = ("wisdm2019", "wisdm2019_watch_accel", "wisdm-dataset")
    subject_count = 51
    subject_pattern = r"(^|/)data_(?P<subject>\d+)_accel_watch\.txt$"
    downloads = (
        Download(
            url="https://archive.ics.uci.edu/static/public/507/"
            "wisdm+smartphone+and+smartwatch+activity+and+biometrics+dataset.zip",
            inner_zip="wisdm-dataset.zip",
        ),
    )

    def __post_init__(self) -> None:
        if self.labels == "coarse":
            groups = {activity: group for group, members in COARSE.items() for activity in members}
            label_map = {letter: groups[activity] for letter, activity in ACTIVITIES.items()}
            self._override(classes=tuple(COARSE), label_map=label_map)

    def _read_file(self, subject: str, file: str) -> Recording:
        columns = ("subject", "activity", "time", "x", "y", "z")
        types = {"subject": np.int64, "activity": str, "time": np.int64, "x": np.float32, "y": np.float32}
        table = read_columns(self.store, file, columns, header=None, dtype=types, converters={"z": _number})
        letters, time = table["activity"].to_numpy(str), table["time"].to_numpy()
        labels = self._class_indices(letters, self.store.where(file))
        blocks = np.split(np.arange(len(time)), np.flatnonzero(letters[1:] != letters[:-1]) + 1)
        order = np.concatenate(sorted(blocks, key=lambda block: time[block[:1]].sum()))
        return self._recording(
            subject,
            file,
            table[["x", "y", "z"]].to_numpy(np.float32)[order],
            time_s=(time[order] - time[order[:1]]) / 1e9,
            labels=labels[order],
            facts={"blocks": len(blocks)},
        )


def _number(text: str) -> float:
    return float(text.rstrip(";"))  # lines end with a semicolon
