"""UCI-HAR: six activities of thirty subjects, waist phone, distributed as windows, 50 Hz."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from sight._util.folder_or_zip import read_columns
from sight.datasets.hapt import ACTIVITIES, BASIC
from sight.recordings.recording_collection import Dataset, Download
from sight.recordings.signal.windows import continuous_runs, unroll
from sight.types import Array, Recording, RecordingFacts, Windows

LENGTH, STRIDE = 128, 64


@dataclass(kw_only=True)
class UCIHAR(Dataset):
    """Human Activity Recognition Using Smartphones, from its inertial signals.

    The files contain windows without times, those of a recording grouped by activity: standing, sitting, laying,
    walking, downstairs, upstairs. They are kept in this order, which is not that of recording; HAPT has the times.
    `time_s` advances by one stride per window. Where two windows do not overlap there is a gap of unknown length,
    counted as one stride. A recording is a run of overlapping windows, joined to one signal.

    Parameters
    ----------
    acc
        "body_acc" without gravity or "total_acc" with it; the SIGHT paper does not state which, see the benchmark.
    """

    acc: Literal["body_acc", "total_acc"] = "body_acc"

    name = "ucihar"
    title = "UCI-HAR: scripted activities, waist phone"
    classes = ACTIVITIES
    label_map: ClassVar = BASIC
    channels = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
    units = ("g",) * 3 + ("rad/s",) * 3
    rate_hz = 50.0
    window_s = LENGTH / 50
    stride_s = STRIDE / 50
    label_rule = "whole"
    licence = "CC BY 4.0"
    citation = (
        "Anguita, Ghio, Oneto, Parra, Reyes-Ortiz. A Public Domain Dataset for Human Activity Recognition Using "
        "Smartphones. ESANN, 2013."
    )
    homepage = "https://archive.ics.uci.edu/dataset/240"
    version = "1.0"
    official_files = (
        "UCI HAR Dataset/train/Inertial Signals/body_acc_x_train.txt",
        "...",
        "UCI HAR Dataset/test/subject_test.txt",
        "UCI HAR Dataset/test/y_test.txt",
    )
    folder_names = ("ucihar", "UCI HAR Dataset")
    subject_count = 30
    subject_pattern = r"(^|/)(?P<subject>train|test)/subject_(train|test)\.txt$"
    downloads = (
        Download(
            url="https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip",
            inner_zip="UCI HAR Dataset.zip",
        ),
    )

    @cached_property
    def _files_by_subject(self) -> dict[str, list[str]]:
        """Lists of subjects, one line per window, in which each subject occurs."""
        index: dict[int, list[str]] = {}
        for file in self.store.names:
            if re.search(self.subject_pattern, file):
                for subject in np.unique(self._read_column(file)).tolist():
                    index.setdefault(subject, []).append(file)
        return {str(subject): index[subject] for subject in sorted(index)} or super()._files_by_subject

    def _input_files(self, files: Sequence[str]) -> list[str]:
        return [name for file in files for name in (file, _label_file(file), *self._signal_files(file))]

    def _signal_files(self, file: str) -> list[str]:
        folder, part = re.sub(r"subject_\w+\.txt$", "Inertial Signals/", file), file[:-4].rpartition("_")[2]
        return [f"{folder}{kind}_{axis}_{part}.txt" for kind in (self.acc, "body_gyro") for axis in "xyz"]

    def _read_column(self, file: str) -> Array:
        return np.asarray(read_columns(self.store, file, ("value",), header=None, dtype=np.int64)["value"])

    def _read_signal(self, file: str) -> Array:
        columns = [str(i) for i in range(LENGTH)]
        lines: Array = read_columns(self.store, file, columns, header=None, sep=r"\s+", dtype=np.float32).to_numpy()
        if np.isnan(lines).any():
            raise ValueError(f"{self.store.where(file)}: expected {LENGTH} values a line; is it the official file?")
        return lines

    def _read(self, subject: str, files: Sequence[str]) -> tuple[Array, Array]:
        x, label = [], []
        for file in files:
            rows = self._read_column(file) == int(subject)
            x.append(np.stack([self._read_signal(signal)[rows] for signal in self._signal_files(file)], axis=1))
            label.append(self._class_indices(self._read_column(_label_file(file))[rows], _label_file(file)))
        return np.concatenate(x), np.concatenate(label)

    def _read_recordings(self, subject: str, files: Sequence[str]) -> Iterator[Recording]:
        x, label = self._read(subject, files)
        for run in continuous_runs(x, STRIDE, label):
            values = unroll(x[run], STRIDE)
            labels = np.full(len(values), label[run.start])
            yield self._recording(subject, files[0], values, labels=labels, facts={"first_window": run.start})

    def _make_windows(self, subject: str, windowing: Mapping[str, Any]) -> Windows:
        if any(windowing[key] != getattr(self, key) for key in ("rate_hz", "window_s", "stride_s")):
            return super()._make_windows(subject, windowing)
        x, label = self._read(subject, self._files_of(subject))
        gap_before_s = np.zeros(len(x))
        gap_before_s[[run.start for run in continuous_runs(x, STRIDE, label)][1:]] = self.stride_s
        return Windows(
            x=x,
            time_s=np.arange(len(x)) * self.stride_s + np.cumsum(gap_before_s),
            label=label.astype(np.int64),
            gap_before_s=gap_before_s,
            window_s=self.window_s,
            stride_s=self.stride_s,
            facts=RecordingFacts(details={"gap_seconds_known": False}),
        )


def _label_file(subject_file: str) -> str:
    return re.sub(r"subject_(train|test)\.txt$", r"y_\1.txt", subject_file)
