"""HARTH and HAR70+: free living, accelerometers on thigh and lower back, 50 Hz."""

from dataclasses import dataclass
from datetime import UTC
from typing import ClassVar, Literal

import numpy as np

from sight._util.folder_or_zip import first_words, read_columns
from sight.recordings.recording_collection import Dataset, Download
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
        Accelerometer to use; "both" gives six channels, back first.
    labels
        "five" merges labels into the classes of the SIGHT paper, by a map of ours since the paper has none;
        "twelve" keeps the labels of the files.
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
        "Sensors 21(23):7853, 2021. doi:10.3390/s21237853"
    )
    homepage = "https://github.com/ntnu-ai-lab/harth-ml-experiments/tree/main/harth"
    version = "2.0"
    official_files = ("S006.csv", "...", "S038.csv")
    folder_names: ClassVar[tuple[str, ...]] = ("harth",)
    subject_count = 31
    subject_pattern = r"(^|/)(?P<subject>S\d{3})\.csv$"
    # The UCI archive keeps version 1.2 with 22 subjects; version 2.0 with 31 is in the authors' repository.
    downloads = (Download(url="https://github.com/ntnu-ai-lab/harth-ml-experiments/archive/refs/heads/main.zip"),)

    def __post_init__(self) -> None:
        channels = AXES.get(self.sensor, AXES["back"] + AXES["thigh"])
        self._override(channels=channels, units=("g",) * len(channels))
        if self.labels == "twelve":
            self._override(classes=tuple(ACTIVITIES.values()), label_map=ACTIVITIES)

    def _read_file(self, subject: str, file: str) -> Recording:
        import pandas as pd

        # Some files have an index column in front, so columns are selected by name.
        table = read_columns(self.store, file, ("timestamp", *self.channels, "label"))
        where = self.store.where(file)
        try:
            time = pd.to_datetime(table["timestamp"], format="ISO8601")
            values = table[list(self.channels)].to_numpy(np.float32)
        except ValueError as error:
            raise ValueError(
                f"{where}: expected times and numbers, got {first_words(error)}; is it the official file?"
            ) from None
        return self._recording(
            subject,
            file,
            values,
            time_s=(time - time.iloc[:1].squeeze()).dt.total_seconds().to_numpy() if len(time) else np.empty(0),
            labels=self._class_indices(table["label"].to_numpy(), where),
            start=time.iloc[0].to_pydatetime().replace(tzinfo=UTC) if len(time) else None,
            facts={"clock": "local time of the device, zone not recorded"},
        )


@dataclass(kw_only=True)
class HAR70plus(HARTH):
    """HAR70+: the sensors and labels of HARTH on subjects of 70 to 95 years."""

    name = "har70plus"
    title = "HAR70+: adults over seventy, thigh and back accelerometers"
    citation = (
        "Ustad, Logacjov, Trollebø, Thingstad, Vereijken, Bach, Maroni. Validation of an Activity Type Recognition "
        "Model Classifying Daily Physical Behavior in Older Adults: The HAR70+ Model. Sensors 23(5):2368, 2023. "
        "doi:10.3390/s23052368"
    )
    homepage = "https://archive.ics.uci.edu/dataset/780/har70"
    version = "1.0"
    official_files = ("501.csv", "...", "518.csv")
    folder_names = ("har70plus", "har70")
    subject_count = 18
    subject_pattern = r"(^|/)(?P<subject>5\d{2})\.csv$"
    downloads = (Download(url="https://archive.ics.uci.edu/static/public/780/har70.zip"),)
