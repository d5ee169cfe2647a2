"""UCI-HAR: six activities of thirty people with a phone at the waist, already cut into windows, 50 Hz."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from sight.datasets._base import Dataset, Download
from sight.datasets._dataset_files import read_table
from sight.datasets._window_protocols import stretches, unroll
from sight.datasets.hapt import ACTIVITIES, BASIC
from sight.types import Array, Recording, Windows

LENGTH, STRIDE = 128, 64


@dataclass(kw_only=True)
class UCIHAR(Dataset):
    """Human Activity Recognition Using Smartphones, from its inertial signals.

    Parameters
    ----------
    acc
        "body_acc" without gravity or "total_acc" with it; the SIGHT paper does not say which, see the benchmark.

    Notes
    -----
    The files hold windows in the order they were recorded, and no times: `time_s` counts from one window to the next
    as if nothing were missing, and a gap is where two windows do not overlap. How long it was nobody knows,
    so it counts as one stride. A recording is a run of windows that do overlap, laid end to end again.

    References
    ----------
    Anguita, Ghio, Oneto, Parra, Reyes-Ortiz, ESANN 2013.
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
    files = (
        "UCI HAR Dataset/train/Inertial Signals/body_acc_x_train.txt",
        "...",
        "UCI HAR Dataset/test/subject_test.txt",
        "UCI HAR Dataset/test/y_test.txt",
    )
    places = ("ucihar", "UCI HAR Dataset")
    pattern = r"(^|/)(?P<subject>train|test)/subject_(train|test)\.txt$"
    downloads = (
        Download(
            url="https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip",
            inside="UCI HAR Dataset.zip",
        ),
    )

    @cached_property
    def _index(self) -> dict[str, list[str]]:
        """Subjects to the files of their part; a file holds many people, so the lines decide."""
        parts = [name for name in self.store.names if re.search(self.pattern, name)]
        people: dict[int, list[str]] = {}
        for name in parts:
            for person in np.unique(self._column(name)).tolist():
                people.setdefault(person, []).append(name)
        if not people:
            return super()._index
        return {str(person): people[person] for person in sorted(people)}

    def _depends(self, names: Sequence[str]) -> list[str]:
        return [file for name in names for file in (name, self._labels_name(name), *self._signals(name))]

    def _labels_name(self, name: str) -> str:
        return re.sub(r"subject_(train|test)\.txt$", r"y_\1.txt", name)

    def _signals(self, name: str) -> list[str]:
        folder, part = re.sub(r"subject_\w+\.txt$", "Inertial Signals/", name), name[:-4].rpartition("_")[2]
        return [f"{folder}{kind}_{axis}_{part}.txt" for kind in (self.acc, "body_gyro") for axis in "xyz"]

    def _column(self, name: str) -> Array:
        column: Array = read_table(self.store, name, ("value",), header=None, dtype=np.int64)["value"].to_numpy()
        return column

    def _lines(self, name: str) -> Array:
        columns = [str(i) for i in range(LENGTH)]
        lines: Array = read_table(self.store, name, columns, header=None, sep=r"\s+", dtype=np.float32).to_numpy()
        if np.isnan(lines).any():
            raise ValueError(f"{self.store.where(name)}: expected {LENGTH} values a line; is it the official file?")
        return lines

    def _read(self, subject: str, names: Sequence[str]) -> tuple[Array, Array]:
        """Return the windows (N, C, T) and labels of a person, in the order of the files."""
        x, label = [], []
        for name in names:
            mine = self._column(name) == int(subject)
            x.append(np.stack([self._lines(signal)[mine] for signal in self._signals(name)], axis=1))
            label.append(self._codes(self._column(self._labels_name(name))[mine], self._labels_name(name)))
        return np.concatenate(x), np.concatenate(label)

    def _recordings(self, subject: str, names: Sequence[str]) -> Iterator[Recording]:
        x, label = self._read(subject, names)
        for run in stretches(x, STRIDE, label):
            values = unroll(x[run], STRIDE)
            yield Recording(
                values=values,
                time_s=np.arange(len(values)) / self.rate_hz,
                labels=np.full(len(values), label[run.start]),
                channels=self.channels,
                unit=self.units,
                rate_hz=self.rate_hz,
                subject=subject,
                facts={"file": names[0], "first_window": run.start},
            )

    def _windows(self, subject: str, settings: Mapping[str, Any]) -> Windows:
        fixed = {key: self.windowing()[key] for key in ("rate_hz", "window_s", "stride_s")}
        if any(settings[key] != value for key, value in fixed.items()):
            return super()._windows(subject, settings)
        x, label = self._read(subject, self._names(subject))
        gap_before_s = np.zeros(len(x))
        gap_before_s[[run.start for run in stretches(x, STRIDE, label)][1:]] = self.stride_s
        return Windows(
            x=x,
            time_s=np.arange(len(x)) * self.stride_s + np.cumsum(gap_before_s),
            label=label.astype(np.int64),
            gap_before_s=gap_before_s,
            window_s=self.window_s,
            stride_s=self.stride_s,
            facts={"gap_seconds_known": False},
        )
