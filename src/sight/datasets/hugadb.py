"""HuGaDB: gait and daily activities of eighteen people, inertial sensors on both legs, about 58.8 Hz."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from sight.datasets._base import Dataset, Download
from sight.datasets._dataset_files import natural, read_table
from sight.types import Array, Recording

SIX = {1: "walk", 2: "run", 3: "up", 4: "down", 5: "sit", 8: "stand"}
TWELVE = dict(
    enumerate(
        ("walk", "run", "up", "down", "sit", "sit-down", "stand-up", "stand", "bike", "lift-up", "lift-down", "car"),
        start=1,
    )
)
#: Sensors in the order of the table of corrupted gyroscopes in the corpus's README.
SENSORS = ("rf", "lf", "rs", "ls", "rt", "lt")
ACC_PER_G = 16384
GYRO_PER_DEG_S = 16.4
MINUTE_S = 60.0


@dataclass(kw_only=True)
class HuGaDB(Dataset):
    """Human gait database, version 1, one of its six places on the legs.

    Parameters
    ----------
    sensor
        Right or left (r, l), foot, shin or thigh (f, s, t).
    labels
        "six" keeps walk, run, up, down, sit and stand, and leaves all else unlabelled; "twelve" keeps all.

    Notes
    -----
    Recordings follow each other by the minute written in ``#Date`` (no year), then by activity and number in the
    file name; a recording never starts before the one before it ended, so pauses are right within a minute.
    Whether the README lists the gyroscope as corrupted is a fact of each recording, if that README is there.

    References
    ----------
    doi:10.1007/978-3-319-73013-4_12
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
        "Sensor Networks. AIST 2017, LNCS 10716, 2018."
    )
    homepage = "https://github.com/romanchereshnev/HuGaDB"
    version = "1"
    one_clock = True
    files = ("Data/HuGaDB_v1_various_01_00.txt", "...", "README.md")
    places = ("hugadb", "hugadb_right_thigh", "HuGaDB")
    pattern = r"(^|/)HuGaDB_v\d_(?P<activity>\w+)_(?P<subject>\d+)_(?P<number>\d+)\.txt$"
    downloads = (Download(url="https://www.dropbox.com/s/7nb9g650i5m9k6c/HuGaDB.zip?dl=1"),)

    def __post_init__(self) -> None:
        self._differ(channels=tuple(f"{kind}_{self.sensor}_{axis}" for kind in ("acc", "gyro") for axis in "xyz"))
        if self.labels == "twelve":
            self._differ(classes=tuple(TWELVE.values()), label_map=TWELVE)

    def _depends(self, names: Sequence[str]) -> Sequence[str]:
        readme = self.store.find("README.md")
        return names if readme is None else [*names, readme]

    def _recordings(self, subject: str, names: Sequence[str]) -> Iterator[Recording]:
        dated = sorted((self._date(name), natural(name.rpartition("/")[2]), name) for name in names)
        first, end = dated[0][0][0], 0.0
        for (minute, _), _, name in dated:
            values, labels = self._read(name)
            offset = max((minute - first) * MINUTE_S, end)
            yield Recording(
                values=values,
                time_s=offset + np.arange(len(values)) / self.rate_hz,
                labels=labels,
                channels=self.channels,
                unit=self.units,
                rate_hz=self.rate_hz,
                subject=subject,
                facts=self._facts(name, values),
            )
            end = offset + len(values) / self.rate_hz

    def _date(self, name: str) -> tuple[int, str]:
        """Return minutes since new year, and what else stands there: three files have a third digit of minutes."""
        with self.store.open(name) as stream:
            head = stream.read(400).decode("utf-8", "replace")
        match = re.search(r"#Date\s+(\d+)-(\d+)-(\d+)-(\d\d)(\d*)", head)
        if match is None:
            raise ValueError(f"{self.store.where(name)}: expected a line '#Date MM-DD-HH-MM'; is it the official file?")
        month, day, hour, minute = (int(part) for part in match.groups()[:4])
        days = np.datetime64(f"2016-{month:02}-{day:02}", "D") - np.datetime64("2016-01-01", "D")
        return int(days.astype(int)) * 1440 + hour * 60 + minute, match[5]

    def _read(self, name: str) -> tuple[Array, Array]:
        table = read_table(self.store, name, (*self.channels, "act"), sep="\t", comment="#", dtype=np.int32)
        scale = np.repeat([1 / ACC_PER_G, 1 / GYRO_PER_DEG_S], 3)
        values = (table[list(self.channels)].to_numpy() * scale).astype(np.float32)
        return values, self._codes(table["act"].to_numpy(), self.store.where(name))

    def _facts(self, name: str, values: Array) -> dict[str, Any]:
        clipped = np.abs(values[:, 3:]) >= 32767 / GYRO_PER_DEG_S - 0.05
        facts = {"file": name, "gyro_clipped_samples": int(clipped.any(axis=1).sum())}
        if self._corrupted is not None:
            facts["gyro_corrupted_recordings"] = int(name.rpartition("/")[2] in self._corrupted)
        return facts

    @cached_property
    def _corrupted(self) -> frozenset[str] | None:
        """Names of the files whose gyroscope at this place the README calls corrupted."""
        name = self.store.find("README.md")
        if name is None:
            return None
        with self.store.open(name) as stream:
            text = stream.read().decode("utf-8", "replace")
        rows = re.findall(r"(HuGaDB_v\d_\w+\.txt)\s*((?:\|[^|\n]*){6})", text)
        place = SENSORS.index(self.sensor)
        return frozenset(file for file, cells in rows if cells.split("|")[1 + place].strip() != "OK")
