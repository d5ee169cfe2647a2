"""HAPT: the continuous recordings behind UCI-HAR, waist phone, thirty subjects, 50 Hz."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from sight._util.folder_or_zip import read_columns
from sight.recordings.recording_collection import Dataset, Download
from sight.recordings.signal.windows import windows_at
from sight.types import UNLABELLED, Array, Recording, Windows

ACTIVITIES = ("walking", "walking_upstairs", "walking_downstairs", "sitting", "standing", "laying")
TRANSITIONS = ("stand_to_sit", "sit_to_stand", "sit_to_lie", "lie_to_sit", "stand_to_lie", "lie_to_stand")
BASIC = dict(enumerate(ACTIVITIES, start=1))
LABELS = "RawData/labels.txt"
#: Order of the activities of a recording in the files of UCI-HAR, by index of the class.
UCIHAR_ORDER = (4, 3, 5, 0, 2, 1)


@dataclass(kw_only=True)
class HAPT(Dataset):
    """Smartphone-based recognition of human activities and postural transitions.

    Parameters
    ----------
    protocol
        "stream" keeps the whole recording, unlabelled stretches included. "ucihar" filters and cuts as UCI-HAR does:
        windows of 128 samples, every 64, only inside labelled stretches of the six activities; the time between them
        is a gap.
    acc
        Acceleration of the "ucihar" protocol: "total_acc" with gravity, or "body_acc", high-passed at 0.3 Hz.
    filters
        Filters of the "ucihar" protocol, after a median of 3: "zero-phase" Butterworth filters of order 3, or
        "ucihar", causal ones whose output equals the files of UCI-HAR.
    order
        Order of the windows of the "ucihar" protocol: "time", or "ucihar" as in the files of UCI-HAR, where the
        windows of a recording are grouped by activity; gaps are then unknown and zero.
    transitions
        Whether the six postural transitions are classes too; otherwise they are unlabelled.
    gyro
        Whether to read the gyroscope; without it, windows have the three channels of acceleration.
    """

    protocol: Literal["stream", "ucihar"] = "stream"
    acc: Literal["total_acc", "body_acc"] = "total_acc"
    filters: Literal["zero-phase", "ucihar"] = "zero-phase"
    order: Literal["time", "ucihar"] = "time"
    transitions: bool = False
    gyro: bool = True

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
        "Neurocomputing 171:754-767, 2016. doi:10.1016/j.neucom.2015.07.085"
    )
    homepage = "https://archive.ics.uci.edu/dataset/341"
    version = "2.1"
    official_files = ("RawData/acc_exp01_user01.txt", "RawData/gyro_exp01_user01.txt", "...", LABELS)
    folder_names = ("hapt", "HAPT Data Set")
    subject_count = 30
    subject_pattern = r"(^|/)RawData/acc_exp(?P<experiment>\d+)_user0*(?P<subject>\d+)\.txt$"
    downloads = (
        Download(
            url="https://archive.ics.uci.edu/static/public/341/"
            "smartphone+based+recognition+of+human+activities+and+postural+transitions.zip"
        ),
    )

    def __post_init__(self) -> None:
        if self.transitions:
            names = ACTIVITIES + TRANSITIONS
            self._override(classes=names, label_map=dict(enumerate(names, start=1)))
        if self.protocol == "ucihar":
            self._override(label_rule="whole")
        if not self.gyro:
            self._override(channels=self.channels[:3], units=self.units[:3])

    def _read_file(self, subject: str, file: str) -> Recording:
        acc = self._read_sensor(file)
        gyro = self._read_sensor(_gyro_file(file)) if self.gyro else acc[:, :0]
        n = min(len(acc), len(gyro))
        labels = np.full(n, UNLABELLED, dtype=np.int16)
        for label, first, end in self._labelled_stretches(file):
            labels[first:end] = label
        facts = {"samples_without_partner": abs(len(acc) - len(gyro))}
        return self._recording(subject, file, np.hstack([acc[:n], gyro[:n]]), labels=labels, facts=facts)

    def _input_files(self, files: Sequence[str]) -> Sequence[str]:
        return [*files, *(map(_gyro_file, files) if self.gyro else ()), self.store.require(LABELS)]

    def _read_sensor(self, file: str) -> Array:
        return np.asarray(read_columns(self.store, file, ("x", "y", "z"), header=None, sep=" ", dtype=np.float32))

    @cached_property
    def _segments(self) -> Array:
        """Rows of experiment, user, activity, first and last sample, both counted from 1 and included."""
        columns = ("experiment", "user", "activity", "first", "last")
        table = read_columns(self.store, self.store.require(LABELS), columns, header=None, sep=" ", dtype=np.int64)
        return np.asarray(table)

    def _labelled_stretches(self, file: str) -> Iterator[tuple[int, int, int]]:
        """Yield class, first sample and end of each labelled stretch of a recording, in time order."""
        match = re.search(self.subject_pattern, file)
        experiment = int(match["experiment"]) if match else 0
        for _, _, activity, first, last in self._segments[self._segments[:, 0] == experiment].tolist():
            (label,) = self._class_indices([activity], LABELS).tolist()
            yield label, first - 1, last

    def _make_windows(self, subject: str, windowing: Mapping[str, Any]) -> Windows:
        if self.protocol == "stream":
            return super()._make_windows(subject, windowing)
        from sight.recordings.signal import join

        filtered = (self._filter(recording) for recording in self.recordings(subject))
        parts = [self._cut_labelled(recording, windowing) for recording in filtered]
        return join([_in_ucihar_order(part) for part in parts] if self.order == "ucihar" else parts)

    def _filter(self, recording: Recording) -> Recording:
        """Apply a median of 3, a low-pass at 20 Hz, and for body acceleration a high-pass at 0.3 Hz."""
        from scipy.ndimage import median_filter
        from scipy.signal import butter, sosfilt, sosfiltfilt

        def apply(values: Array, kind: str, hertz: float, order: int) -> Array:
            sections = butter(order, hertz, kind, fs=self.rate_hz, output="sos")
            return np.asarray((sosfilt if causal else sosfiltfilt)(sections, values, axis=0))

        causal = self.filters == "ucihar"
        smoothed = median_filter(recording.values.astype(np.float64), size=(3, 1))
        values = apply(smoothed, "lowpass", 20, order=10 if causal else 3)
        if self.acc == "body_acc" and causal:
            values[:, :3] -= apply(values[:, :3], "lowpass", 0.3, order=3)
        elif self.acc == "body_acc":
            values[:, :3] = apply(values[:, :3], "highpass", 0.3, order=3)
        return replace(recording, values=values.astype(np.float32))

    def _cut_labelled(self, recording: Recording, windowing: Mapping[str, Any]) -> Windows:
        """Cut windows inside each labelled stretch of the six activities, from its first sample on."""
        length, step = (round(windowing[key] * self.rate_hz) for key in ("window_s", "stride_s"))
        starts, labels = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for label, first, end in self._labelled_stretches(str(recording.facts.file)):
            if 0 <= label < len(ACTIVITIES):
                starts.append(np.arange(first, min(end, len(recording.values)) - length + 1, step))
                labels.append(np.full(len(starts[-1]), label))
        return windows_at(recording, np.concatenate(starts), np.concatenate(labels), windowing)


def _in_ucihar_order(windows: Windows) -> Windows:
    """Group the windows of a recording by activity, in time within each activity."""
    index = np.argsort(np.argsort(UCIHAR_ORDER)[windows.label], kind="stable")
    time_s, gaps = windows.time_s[:1] + np.arange(len(index)) * windows.stride_s, np.zeros(len(index))
    return replace(windows, x=windows.x[index], label=windows.label[index], time_s=time_s, gap_before_s=gaps)


def _gyro_file(acc_file: str) -> str:
    return re.sub(r"acc_(exp\d+_user\d+\.txt)$", r"gyro_\1", acc_file)
