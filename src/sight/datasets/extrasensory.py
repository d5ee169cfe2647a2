"""ExtraSensory: phone and watch in free living, one feature vector per minute, self-reported labels."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Literal

import numpy as np

from sight._util.folder_or_zip import read_columns
from sight.recordings.recording_collection import Dataset, Download
from sight.types import UNLABELLED, Array, Recording

SIX = {
    "label:LYING_DOWN": "lying",
    "label:SITTING": "sitting",
    "label:OR_standing": "standing",
    "label:FIX_walking": "walking",
    "label:FIX_running": "running",
    "label:BICYCLING": "bicycling",
}
MOMENTS = ("mean", "std", "moment3", "moment4", "percentile25", "percentile50", "percentile75")
SHAPE = (
    *(f"magnitude_stats:{name}" for name in (*MOMENTS, "value_entropy", "time_entropy")),
    *(f"magnitude_spectrum:log_energy_band{band}" for band in range(5)),
    "magnitude_spectrum:spectral_entropy",
    "magnitude_autocorrelation:period",
    "magnitude_autocorrelation:normalized_ac",
    *(f"3d:{name}" for name in ("mean_x", "mean_y", "mean_z", "std_x", "std_y", "std_z", "ro_xy", "ro_xz", "ro_yz")),
)
WATCH_ONLY = (
    *(f"spectrum:{axis}_log_energy_band{band}" for axis in "xyz" for band in range(5)),
    *(f"relative_directions:avr_cosine_similarity_lag_range{lag}" for lag in range(5)),
)
MOTION = (
    *(f"raw_acc:{name}" for name in SHAPE),
    *(f"proc_gyro:{name}" for name in SHAPE),
    *(f"watch_acceleration:{name}" for name in (*SHAPE, *WATCH_ONLY)),
)


@dataclass(kw_only=True)
class ExtraSensory(Dataset):
    """ExtraSensory, the features of each minute; windows are single feature vectors (T = 1).

    A minute has a label if the subject reported exactly one of the six activities. Features of sensors that were off
    are NaN; the source model fills them with medians of its training data.

    Parameters
    ----------
    columns
        "motion" selects the features of the phone's accelerometer and gyroscope and the watch's accelerometer;
        "all" selects all 225, including location, sound and phone state.
    scale
        "log" transforms each feature to sign(f) log(1 + |f|), which reduces heavy tails; "raw" keeps it.
    """

    columns: Literal["motion", "all"] = "motion"
    scale: Literal["log", "raw"] = "log"

    name = "extrasensory"
    title = "ExtraSensory: free living, phone and watch, features of each minute"
    classes = tuple(SIX.values())
    label_map: ClassVar = SIX
    channels = MOTION
    units = ("1",) * len(MOTION)
    rate_hz = 1 / 60
    window_s = 60.0
    stride_s = 60.0
    max_gap_s = 600.0
    licence = "not stated in the files; see the home page, and cite the paper"
    citation = (
        "Vaizman, Ellis, Lanckriet. Recognizing Detailed Human Context in the Wild from Smartphones and Smartwatches. "
        "IEEE Pervasive Computing 16(4):62-74, 2017. doi:10.1109/MPRV.2017.3971131"
    )
    homepage = "http://extrasensory.ucsd.edu"
    version = "2017"
    official_files = ("00EABED2-271D-49D8-B599-1D4A09240601.features_labels.csv.gz", "...")
    folder_names = ("extrasensory", "extrasensory_features", "ExtraSensory.per_uuid_features_labels")
    subject_count = 60
    subject_pattern = r"(^|/)(?P<subject>[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12})\.features_labels\.csv\.gz$"
    downloads = (
        Download(url="http://extrasensory.ucsd.edu/data/primary_data_files/ExtraSensory.per_uuid_features_labels.zip"),
    )

    def __post_init__(self) -> None:
        if self.columns == "all":
            with self.store.open(next(iter(self._files_by_subject.values()))[0]) as stream:
                header = stream.readline().decode().strip().split(",")
            columns = tuple(name for name in header if name != "timestamp" and not name.startswith("label"))
            self._override(channels=columns, units=("1",) * len(columns))

    def _read_file(self, subject: str, file: str) -> Recording:
        types = dict.fromkeys((*self.channels, *SIX), np.float32) | {"timestamp": np.int64}
        table = read_columns(self.store, file, ("timestamp", *self.channels, *SIX), dtype=types)
        table = table.sort_values("timestamp", kind="stable")
        values = table[list(self.channels)].to_numpy()
        if self.scale == "log":
            values = np.sign(values) * np.log1p(np.abs(values))
        time = table["timestamp"].to_numpy()
        marks = table[list(SIX)].to_numpy() == 1
        return self._recording(
            subject,
            file,
            values,
            time_s=(time - time[:1]).astype(np.float64),
            labels=_exclusive_class(marks),
            start=datetime.fromtimestamp(int(time[0]), UTC) if len(time) else None,
            facts={
                "nan_share": float(np.isnan(values).mean()) if values.size else 0.0,
                "empty_columns": int(np.isnan(values).all(axis=0).sum()),
                "minutes_with_no_label": int((marks.sum(axis=1) == 0).sum()),
                "minutes_with_several_labels": int((marks.sum(axis=1) > 1).sum()),
            },
        )


def _exclusive_class(marks: Array) -> Array:
    """Return the only class marked in each row, -1 if none or several are.

    >>> _exclusive_class(np.array([[0, 1, 0], [1, 1, 0], [0, 0, 0]], dtype=bool)).tolist()
    [1, -1, -1]
    """
    return np.where(marks.sum(axis=1) == 1, marks.argmax(axis=1), UNLABELLED).astype(np.int16)
