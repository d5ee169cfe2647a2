"""HuGaDB: gait and daily activities of eighteen subjects, inertial sensors on both legs, about 58.8 Hz."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from sight._util.folder_or_zip import natural, read_columns
from sight.recordings.recording_collection import Dataset, Download
from sight.types import Array, Recording

SIX = {1: "walk", 2: "run", 3: "up", 4: "down", 5: "sit", 8: "stand"}
TWELVE = dict(
    enumerate(
        ("walk", "run", "up", "down", "sit", "sit-down", "stand-up", "stand", "bike", "lift-up", "lift-down", "car"),
        start=1,
    )
)
#: Sensors in the order of the table of corrupted gyroscopes in the dataset's README.
SENSORS = ("rf", "lf", "rs", "ls", "rt", "lt")
ACC_PER_G = 16384
GYRO_PER_DEG_S = 16.4
MINUTE_S = 60.0


@dataclass(kw_only=True)
class HuGaDB(Dataset):
    """Human gait database, version 1, one of its six sensors.

    Recordings are ordered by the minute in ``#Date`` (without year), then by activity and number in the file name. A
    recording never starts before the previous one ends, so pauses are accurate to a minute. Whether the README lists
    the gyroscope as corrupted is a fact of each recording, if the README is present.

    Parameters
    ----------
    sensor
        Right or left (r, l), foot, shin or thigh (f, s, t).
    labels
        "six" uses walk, run, up, down, sit and stand, and leaves the others unlabelled; "twelve" uses all.
    """

    sensor: Literal["rf", "lf", "rs", "ls", "rt", "lt"] = "rt"
    labels: Literal["six", "twelve"] = "six"

    name = "hugadb"
    title = "HuGaDB: gait and daily activities, leg accelerometers and gyroscopes"
    classes = tuple(SIX.values())
    label_map: ClassVar[Mapping[Any, str]] = dict.fromkeys(TWELVE, "") | SIX
    channels = ("acc_rt_x", "acc_rt_y", "acc_rt_z", "gyro_rt_x", "gyro_rt_y", "gyro_rt_z")
    units = ("g",) * 3 + ("deg/s",) * 3
    rate_hz = 1000 / 17
    window_s = 112 * 0.017
    stride_s = 56 * 0.017
    licence = "not stated in the files; see the home page, and cite the paper"
    citation = (
        "Chereshnev, Kertész-Farkas. HuGaDB: Human Gait Database for Activity Recognition from Wearable Inertial "
        "Sensor Networks. AIST 2017, LNCS 10716, 2018. doi:10.1007/978-3-319-73013-4_12"
    )
    homepage = "https://github.com/romanchereshnev/HuGaDB"
    version = "1"
    one_clock = True
    official_files = ("Data/HuGaDB_v1_various_01_00.txt", "...", "README.md")
    folder_names = ("hugadb", "hugadb_right_thigh", "HuGaDB")
    subject_count = 18
    subject_pattern = r"(^|/)HuGaDB_v\d_(?P<activity>\w+)_0*(?P<subject>\d+)_(?P<number>\d+)\.txt$"
    downloads = (Download(url="https://www.dropbox.com/s/7nb9g650i5m9k6c/HuGaDB.zip?dl=1"),)

    def __post_init__(self) -> None:
        self._override(channels=tuple(f"{kind}_{self.sensor}_{axis}" for kind in ("acc", "gyro") for axis in "xyz"))
        if self.labels == "twelve":
            self._override(classes=tuple(TWELVE.values()), label_map=TWELVE)

    def _input_files(self, files: Sequence[str]) -> Sequence[str]:
        readme = self.store.find("README.md")
        return files if readme is None else [*files, readme]

    def _read_recordings(self, subject: str, files: Sequence[str]) -> Iterator[Recording]:
        dated = sorted((self._minute(file), natural(file.rpartition("/")[2]), file) for file in files)
        first, end = dated[0][0][0], 0.0
        for (minute, _), _, file in dated:
            values, labels = self._read(file)
            offset = max((minute - first) * MINUTE_S, end)
            time_s = offset + np.arange(len(values)) / self.rate_hz
            yield self._recording(
                subject, file, values, time_s=time_s, labels=labels, facts=self._gyro_facts(file, values)
            )
            end = offset + len(values) / self.rate_hz

    def _minute(self, file: str) -> tuple[int, str]:
        """Return the minute of the year in ``#Date``, and the third digit of minutes that three files have."""
        with self.store.open(file) as stream:
            head = stream.read(400).decode("utf-8", "replace")
        match = re.search(r"#Date\s+(\d+)-(\d+)-(\d+)-(\d\d)(\d*)", head)
        if match is None:
            raise ValueError(f"{self.store.where(file)}: expected a line '#Date MM-DD-HH-MM'; is it the official file?")
        month, day, hour, minute = (int(part) for part in match.groups()[:4])
        days = np.datetime64(f"2016-{month:02}-{day:02}", "D") - np.datetime64("2016-01-01", "D")
        return int(days.astype(int)) * 1440 + hour * 60 + minute, match[5]

    def _read(self, file: str) -> tuple[Array, Array]:
        table = read_columns(self.store, file, (*self.channels, "act"), sep="\t", comment="#", dtype=np.int32)
        scale = np.repeat([1 / ACC_PER_G, 1 / GYRO_PER_DEG_S], 3)
        values = (table[list(self.channels)].to_numpy() * scale).astype(np.float32)
        return values, self._class_indices(table["act"].to_numpy(), self.store.where(file))

    def _gyro_facts(self, file: str, values: Array) -> dict[str, Any]:
        clipped = np.abs(values[:, 3:]) >= 32767 / GYRO_PER_DEG_S - 0.05
        facts = {"gyro_clipped_samples": int(clipped.any(axis=1).sum())}
        if self._corrupted_files is not None:
            facts["gyro_corrupted_recordings"] = int(file.rpartition("/")[2] in self._corrupted_files)
        return facts

    @cached_property
    def _corrupted_files(self) -> frozenset[str] | None:
        """Files whose gyroscope at this sensor the README lists as corrupted; None without README."""
        readme = self.store.find("README.md")
        if readme is None:
            return None
        with self.store.open(readme) as stream:
            text = stream.read().decode("utf-8", "replace")
        rows = re.findall(r"(HuGaDB_v\d_\w+\.txt)\s*((?:\|[^|\n]*){6})", text)
        column = 1 + SENSORS.index(self.sensor)
        return frozenset(file for file, cells in rows if cells.split("|")[column].strip() != "OK")
