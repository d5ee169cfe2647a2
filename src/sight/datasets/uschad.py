"""USC-HAD: twelve activities of fourteen subjects, accelerometer and gyroscope at the right hip, 100 Hz."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sight.recordings.recording_collection import Dataset, Download
from sight.types import Recording

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
        Order of the files, which have no times: "trial" takes all activities of a trial before the next trial,
        "activity" all trials of an activity before the next activity.
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
        "Sensors. UbiComp Workshop on Situation, Activity and Goal Awareness, 2012. doi:10.1145/2370216.2370438"
    )
    homepage = "https://sipi.usc.edu/had/"
    version = "1.0"
    official_files = ("Subject1/a1t1.mat", "...", "Subject14/a12t5.mat")
    folder_names = ("uschad", "USC-HAD")
    subject_count = 14
    subject_pattern = r"(^|/)Subject0*(?P<subject>\d+)/a\d+t\d+\.mat$"
    downloads = (Download(url="https://sipi.usc.edu/had/USC-HAD.zip"),)

    def _read_recordings(self, subject: str, files: Sequence[str]) -> Iterator[Recording]:
        files = sorted(files, key=_activity_and_trial)
        if self.order == "trial":
            files.sort(key=lambda file: _activity_and_trial(file)[1])
        return super()._read_recordings(subject, files)

    def _read_file(self, subject: str, file: str) -> Recording:
        from scipy.io import loadmat

        where = self.store.where(file)
        with self.store.open(file) as stream:
            try:
                content = loadmat(io.BytesIO(stream.read()))
            except (ValueError, TypeError, LookupError, NotImplementedError, OSError) as error:
                raise ValueError(f"{where} is not a readable MATLAB file ({error}); download it again.") from None
        readings = np.asarray(content.get("sensor_readings", ()))
        if readings.ndim != 2 or readings.shape[1] != 6:
            raise ValueError(
                f"{where}: expected sensor_readings (n, 6), got {readings.shape}; is it the official file?"
            )
        (label,) = self._class_indices([_activity_and_trial(file)[0]], where).tolist()
        labels = np.full(len(readings), label, np.int16)
        return self._recording(subject, file, readings.astype(np.float32), labels=labels)


def _activity_and_trial(file: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", file.rpartition("/")[2]))
