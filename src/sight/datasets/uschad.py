"""USC-HAD: twelve activities of fourteen people, a motion node at the right hip, 100 Hz."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sight.datasets._base import Dataset, Download
from sight.types import Array, Recording

ACTIVITIES = (
    "walking forward",
    "walking left",
    "walking right",
    "walking upstairs",
    "walking downstairs",
    "running forward",
    "jumping up",
    "sitting",
    "standing",
    "sleeping",
    "elevator up",
    "elevator down",
)


@dataclass(kw_only=True)
class USCHAD(Dataset):
    """USC Human Activity Dataset; one MATLAB file for each activity and trial.

    Parameters
    ----------
    order
        The files tell no time, so the order is assumed. "trial" goes through all activities of a trial before the
        next trial; "activity" goes through all trials of an activity first.

    References
    ----------
    doi:10.1145/2370216.2370438
    """

    order: Literal["trial", "activity"] = "trial"

    name = "uschad"
    title = "USC-HAD: scripted activities, hip accelerometer and gyroscope"
    classes = ACTIVITIES
    label_map: ClassVar = dict(enumerate(ACTIVITIES, start=1))
    channels = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
    units = ("g",) * 3 + ("deg/s",) * 3
    rate_hz = 100.0
    window_s = 1.0
    stride_s = 0.5
    licence = "not stated in the files; see the home page, and cite the paper"
    citation = (
        "Zhang, Sawchuk. USC-HAD: A Daily Activity Dataset for Ubiquitous Activity Recognition Using Wearable "
        "Sensors. UbiComp Workshop on Situation, Activity and Goal Awareness, 2012."
    )
    homepage = "https://sipi.usc.edu/had/"
    version = "1.0"
    files = ("Subject1/a1t1.mat", "...", "Subject14/a12t5.mat")
    places = ("uschad", "USC-HAD")
    pattern = r"(^|/)Subject(?P<subject>\d+)/a(?P<activity>\d+)t(?P<trial>\d+)\.mat$"
    downloads = (Download(url="https://sipi.usc.edu/had/USC-HAD.zip"),)

    def _recordings(self, subject: str, names: Sequence[str]) -> Iterator[Recording]:
        for (activity, _), name in sorted(((self._numbers(name), name) for name in names), key=self._place):
            where = self.store.where(name)
            values = self._readings(name, where)
            yield Recording(
                values=values,
                time_s=np.arange(len(values)) / self.rate_hz,
                labels=np.full(len(values), self._code(activity, where), np.int16),
                channels=self.channels,
                unit=self.units,
                rate_hz=self.rate_hz,
                subject=subject,
                facts={"file": name},
            )

    def _numbers(self, name: str) -> tuple[int, int]:
        match = re.search(self.pattern, name)
        return (int(match["activity"]), int(match["trial"])) if match else (0, 0)

    def _place(self, item: tuple[tuple[int, int], str]) -> tuple[int, int]:
        activity, trial = item[0]
        return (trial, activity) if self.order == "trial" else (activity, trial)

    def _readings(self, name: str, where: str) -> Array:
        from scipy.io import loadmat

        with self.store.open(name) as stream:
            try:
                content = loadmat(io.BytesIO(stream.read()))
            except (ValueError, TypeError, LookupError, NotImplementedError, OSError) as error:
                raise ValueError(f"{where} is no MATLAB file that can be read ({error}); fetch it again.") from None
        readings = np.asarray(content.get("sensor_readings", ()))
        if readings.ndim != 2 or readings.shape[1] != 6:
            raise ValueError(
                f"{where}: expected sensor_readings (n, 6), got {readings.shape}; is it the official file?"
            )
        return readings.astype(np.float32)
