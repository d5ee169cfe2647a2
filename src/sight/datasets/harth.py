"""HARTH and HAR70+: free living in Trondheim, one accelerometer on the thigh and one on the back, 50 Hz."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import ClassVar, Literal

import numpy as np

from sight.datasets._base import Dataset, Download
from sight.datasets._dataset_files import read_table, short
from sight.types import Recording

ACTIVITIES = {
    1: "walking",
    2: "running",
    3: "shuffling",
    4: "stairs up",
    5: "stairs down",
    6: "standing",
    7: "sitting",
    8: "lying",
    13: "cycling sit",
    14: "cycling stand",
    130: "cycling sit inactive",
    140: "cycling stand inactive",
}
FIVE = (
    dict.fromkeys((1, 2, 3, 4, 5), "walking_like")
    | {6: "standing", 7: "sitting", 8: "lying"}
    | dict.fromkeys((13, 14, 130, 140), "cycling_like")
)
AXES = {"thigh": ("thigh_x", "thigh_y", "thigh_z"), "back": ("back_x", "back_y", "back_z")}


@dataclass(kw_only=True)
class HARTH(Dataset):
    """Human Activity Recognition Trondheim, version 2.0.

    Parameters
    ----------
    sensor
        Which accelerometer; "both" gives six channels, back first.
    labels
        "five" merges into the classes of the SIGHT paper, by our own map since none is published;
        "twelve" keeps what the annotators wrote.

    References
    ----------
    doi:10.3390/s21237853
    """

    sensor: Literal["thigh", "back", "both"] = "thigh"
    labels: Literal["five", "twelve"] = "five"

    name = "harth"
    title = "HARTH: free living, thigh and back accelerometers"
    classes = ("cycling_like", "lying", "sitting", "standing", "walking_like")
    label_map: ClassVar = FIVE
    channels = AXES["thigh"]
    units = ("g",) * 3
    rate_hz = 50.0
    window_s = 2.0
    stride_s = 1.0
    licence = "CC BY 4.0"
    citation = (
        "Logacjov, Bach, Kongsvold, Bårdstu, Mork. HARTH: A Human Activity Recognition Dataset for Machine Learning. "
        "Sensors 21(23):7853, 2021."
    )
    homepage = "https://github.com/ntnu-ai-lab/harth-ml-experiments/tree/main/harth"
    version = "2.0"
    files = ("S006.csv", "...", "S038.csv")
    places: ClassVar[tuple[str, ...]] = ("harth",)
    pattern = r"(^|/)(?P<subject>S\d{3})\.csv$"
    # The UCI archive keeps version 1.2 with 22 people; version 2.0 with 31 is in the authors' repository.
    downloads = (Download(url="https://github.com/ntnu-ai-lab/harth-ml-experiments/archive/refs/heads/main.zip"),)

    def __post_init__(self) -> None:
        channels = AXES.get(self.sensor, AXES["back"] + AXES["thigh"])
        self._differ(channels=channels, units=("g",) * len(channels))
        if self.labels == "twelve":
            self._differ(classes=tuple(ACTIVITIES.values()), label_map=ACTIVITIES)

    def _subject(self, match: re.Match[str]) -> str:
        return match["subject"]

    def _recordings(self, subject: str, names: Sequence[str]) -> Iterator[Recording]:
        import pandas as pd

        for name in names:
            # Some files carry an index column in front, so columns are taken by name.
            table = read_table(self.store, name, ("timestamp", *self.channels, "label"))
            where = self.store.where(name)
            try:
                time = pd.to_datetime(table["timestamp"], format="ISO8601")
                values = table[list(self.channels)].to_numpy(np.float32)
            except ValueError as error:
                raise ValueError(
                    f"{where}: expected times and numbers, got {short(error)}; is it the official file?"
                ) from None
            yield Recording(
                values=values,
                time_s=(time - time.iloc[:1].squeeze()).dt.total_seconds().to_numpy() if len(time) else np.empty(0),
                labels=self._codes(table["label"].to_numpy(), where),
                channels=self.channels,
                unit=self.units,
                rate_hz=self.rate_hz,
                start=time.iloc[0].to_pydatetime().replace(tzinfo=UTC) if len(time) else None,
                subject=subject,
                facts={"file": name, "clock": "local time of the device, zone not recorded"},
            )


@dataclass(kw_only=True)
class HAR70plus(HARTH):
    """HAR70+: the sensors and labels of HARTH on people of 70 to 95 years.

    References
    ----------
    doi:10.3390/s23052368
    """

    name = "har70plus"
    title = "HAR70+: adults over seventy, thigh and back accelerometers"
    citation = (
        "Ustad, Logacjov, Trollebø, Thingstad, Vereijken, Bach, Maroni. Validation of an Activity Type Recognition "
        "Model Classifying Daily Physical Behavior in Older Adults: The HAR70+ Model. Sensors 23(5):2368, 2023."
    )
    homepage = "https://archive.ics.uci.edu/dataset/780/har70"
    version = "1.0"
    files = ("501.csv", "...", "518.csv")
    places = ("har70plus", "har70")
    pattern = r"(^|/)(?P<subject>5\d{2})\.csv$"
    downloads = (Download(url="https://archive.ics.uci.edu/static/public/780/har70.zip"),)
