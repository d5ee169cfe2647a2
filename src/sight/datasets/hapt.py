"""HAPT: the continuous recordings behind UCI-HAR, a phone at the waist of thirty people, 50 Hz."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from sight.datasets._base import Dataset, Download
from sight.datasets._dataset_files import read_table
from sight.datasets._window_protocols import place
from sight.types import UNLABELLED, Array, Recording, Windows

ACTIVITIES = ("walking", "walking_upstairs", "walking_downstairs", "sitting", "standing", "laying")
TRANSITIONS = ("stand_to_sit", "sit_to_stand", "sit_to_lie", "lie_to_sit", "stand_to_lie", "lie_to_stand")
BASIC = dict(enumerate(ACTIVITIES, start=1))


@dataclass(kw_only=True)
class HAPT(Dataset):
    """Smartphone-based recognition of human activities and postural transitions.

    Parameters
    ----------
    protocol
        "stream" keeps the recording as it was worn, unlabelled stretches included; "ucihar" filters and cuts as
        UCI-HAR did: windows of 128 samples, every 64, inside labelled stretches of the six activities alone.
    acc
        What the "ucihar" protocol takes: "total_acc" with gravity, or "body_acc" without what is slower than 0.3 Hz.
    transitions
        Whether the six postural transitions are classes too; otherwise they are unlabelled.

    Notes
    -----
    Windows of "ucihar" come in time order; a gap stands wherever the protocol leaves out part of the recording.

    References
    ----------
    doi:10.1016/j.neucom.2015.07.085
    """

    protocol: Literal["stream", "ucihar"] = "stream"
    acc: Literal["total_acc", "body_acc"] = "total_acc"
    transitions: bool = False

    name = "hapt"
    title = "HAPT: scripted activities and transitions, waist phone"
    classes = ACTIVITIES
    label_map: ClassVar[Mapping[Any, str]] = BASIC | dict.fromkeys(range(7, 13), "")
    channels = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
    units = ("g",) * 3 + ("rad/s",) * 3
    rate_hz = 50.0
    window_s = 2.56
    stride_s = 1.28
    licence = "CC BY 4.0"
    citation = (
        "Reyes-Ortiz, Oneto, Samà, Parra, Anguita. Transition-Aware Human Activity Recognition Using Smartphones. "
        "Neurocomputing 171:754-767, 2016."
    )
    homepage = "https://archive.ics.uci.edu/dataset/341"
    version = "2.1"
    files = ("RawData/acc_exp01_user01.txt", "RawData/gyro_exp01_user01.txt", "...", "RawData/labels.txt")
    places = ("hapt", "HAPT Data Set")
    pattern = r"(^|/)RawData/acc_exp(?P<experiment>\d+)_user(?P<subject>\d+)\.txt$"
    downloads = (
        Download(
            url="https://archive.ics.uci.edu/static/public/341/"
            "smartphone+based+recognition+of+human+activities+and+postural+transitions.zip"
        ),
    )

    def __post_init__(self) -> None:
        if self.transitions:
            names = ACTIVITIES + TRANSITIONS
            self._differ(classes=names, label_map=dict(enumerate(names, start=1)))
        if self.protocol == "ucihar":
            self._differ(label_rule="whole")

    def _recordings(self, subject: str, names: Sequence[str]) -> Iterator[Recording]:
        for name in names:
            acc, gyro = self._read(name), self._read(self._gyro(name))
            n = min(len(acc), len(gyro))
            yield Recording(
                values=np.hstack([acc[:n], gyro[:n]]),
                time_s=np.arange(n) / self.rate_hz,
                labels=self._labels(name, n),
                channels=self.channels,
                unit=self.units,
                rate_hz=self.rate_hz,
                subject=subject,
                facts={"file": name, "samples_without_partner": abs(len(acc) - len(gyro))},
            )

    def _windows(self, subject: str, settings: Mapping[str, Any]) -> Windows:
        if self.protocol == "stream":
            return super()._windows(subject, settings)
        from sight.signal import join

        filtered = (self._filter(recording) for recording in self.recordings(subject))
        return join([self._inside(recording, settings) for recording in filtered])

    def _depends(self, names: Sequence[str]) -> Sequence[str]:
        return [*names, *map(self._gyro, names), self._labels_name()]

    def _gyro(self, name: str) -> str:
        return re.sub(r"acc_(exp\d+_user\d+\.txt)$", r"gyro_\1", name)

    def _read(self, name: str) -> Array:
        table = read_table(self.store, name, ("x", "y", "z"), header=None, sep=" ", dtype=np.float32)
        values: Array = table.to_numpy()
        return values

    def _labels_name(self) -> str:
        name = self.store.find("RawData/labels.txt")
        if name is None:
            raise ValueError(f"{self.name}: RawData/labels.txt is not in {self.store.root}; fetch it again.")
        return name

    @cached_property
    def _segments(self) -> Array:
        """Rows of experiment, user, activity, first and last sample, both counted from 1 and included."""
        columns = ("experiment", "user", "activity", "first", "last")
        table = read_table(self.store, self._labels_name(), columns, header=None, sep=" ", dtype=np.int64)
        segments: Array = table.to_numpy()
        return segments

    def _labelled(self, name: str) -> Iterator[tuple[int, int, int]]:
        """Yield class, first sample and end of each labelled stretch of a recording, in time order."""
        match = re.search(self.pattern, name)
        experiment = int(match["experiment"]) if match else 0
        for _, _, activity, first, last in self._segments[self._segments[:, 0] == experiment].tolist():
            yield self._code(activity, self._labels_name()), first - 1, last

    def _labels(self, name: str, n: int) -> Array:
        labels = np.full(n, UNLABELLED, dtype=np.int16)
        for code, first, end in self._labelled(name):
            labels[first:end] = code
        return labels

    # --- the UCI-HAR way --------------------------------------------------------------------------------------

    def _filter(self, recording: Recording) -> Recording:
        """Remove noise, and gravity if asked: median of 3, Butterworth of order 3 at 20 Hz and 0.3 Hz, zero phase."""
        from scipy.ndimage import median_filter
        from scipy.signal import butter, sosfiltfilt

        low = butter(3, 20, "lowpass", fs=self.rate_hz, output="sos")
        values = sosfiltfilt(low, median_filter(recording.values.astype(np.float64), size=(3, 1)), axis=0)
        if self.acc == "body_acc":
            high = butter(3, 0.3, "highpass", fs=self.rate_hz, output="sos")
            values[:, :3] = sosfiltfilt(high, values[:, :3], axis=0)
        return replace(recording, values=values.astype(np.float32))

    def _inside(self, recording: Recording, settings: Mapping[str, Any]) -> Windows:
        """Cut inside labelled stretches of the six activities; a stretch starts a new grid of windows."""
        length, step = (round(settings[key] * self.rate_hz) for key in ("window_s", "stride_s"))
        stretches = [
            (code, np.arange(first, min(end, len(recording.values)) - length + 1, step))
            for code, first, end in self._labelled(recording.facts["file"])
            if 0 <= code < len(ACTIVITIES)
        ]
        starts = np.concatenate([np.empty(0, np.int64), *(starts for _, starts in stretches)])
        labels = np.concatenate([np.empty(0, np.int64), *(np.full(len(starts), code) for code, starts in stretches)])
        return place(recording, starts, labels, settings)
