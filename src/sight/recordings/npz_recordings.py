"""Preprocessed windows in npz files: one ``SUBJECT.npz`` with ``x`` (N, C, T) and class names ``y`` (N,).

This is the format of the preprocessed datasets of SIGHT's authors. ``y`` may be an array of Python objects, which
numpy stores as a pickle; `sight._util.npz_strings` reads it without executing it.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import numpy as np

from sight._util.atomic import write_atomic
from sight._util.folder_or_zip import BROKEN, check_unpacked
from sight._util.npz_strings import read_array
from sight.recordings.labels import label_index
from sight.recordings.recording_collection import Dataset
from sight.recordings.signal.windows import continuous_runs, unroll
from sight.recordings.timestamp_units import LONGEST_DAYS
from sight.types import Array, Recording, Windows


@dataclass(kw_only=True)
class Npz(Dataset):
    """A folder or zip of ``SUBJECT.npz`` files.

    In files that contain only ``x`` and ``y``, windows follow each other without gap.

    Parameters
    ----------
    rate, window, stride
        Sampling rate in Hz, length of a window and distance between two in seconds, if the files do not contain them;
        those written by `write_npz` do. Default: one sample per second, windows that do not overlap.
    """

    rate: float | None = None
    window: float | None = None
    stride: float | None = None

    name = "npz"
    title = "Preprocessed windows, one npz for each subject"
    rate_hz = 1.0
    window_s = 0.0
    stride_s = 0.0
    licence = "that of the original dataset"
    citation = "that of the original dataset"
    homepage = "your own preprocessing"
    version = "1"
    official_files = ("SUBJECT.npz", "...")
    folder_names = ("npz",)
    subject_pattern = r"(^|/)(?P<subject>[^/]+)\.npz$"

    def __post_init__(self) -> None:
        files = [files[0] for files in self._files_by_subject.values()]
        contents = [self._content(file, labels_only=True) for file in files]
        stored = [content["classes"].tolist() for content in contents if "classes" in content]
        classes = stored[0] if stored else sorted({str(label) for content in contents for label in content["y"]} - {""})
        first = self._content(files[0])
        channels, length = first["x"].shape[1:]
        rate = self.rate or (length / float(first["window_s"]) if "window_s" in first else 1.0)
        window_s = self.window or (float(first["window_s"]) if "window_s" in first else length / rate)
        self._override(
            classes=tuple(classes),
            label_map={name: name for name in classes} | {"": ""},
            channels=tuple(f"channel {i}" for i in range(channels)),
            units=("unknown",) * channels,
            rate_hz=rate,
            window_s=window_s,
            stride_s=self.stride or (float(first["stride_s"]) if "stride_s" in first else window_s),
        )

    def _content(self, file: str, labels_only: bool = False) -> dict[str, Array]:
        with self.store.open(file) as stream:
            return _load(io.BytesIO(stream.read()), self.store.where(file), labels_only)

    def _make_windows(self, subject: str, windowing: Mapping[str, Any]) -> Windows:
        file = self._files_of(subject)[0]
        content = self._content(file)
        label = self._class_indices(content["y"].astype(str), subject)
        return _windows(content, label, windowing, self.store.where(file))

    def _read_recordings(self, subject: str, files: Sequence[str]) -> Iterator[Recording]:
        windows = self._make_windows(subject, self.windowing())
        step = max(round(self.stride_s * self.rate_hz), 1)
        for run in continuous_runs(windows.x, step, windows.label) if len(windows) else []:
            values = unroll(windows.x[run], step)
            yield self._recording(
                subject,
                files[0],
                values,
                time_s=windows.time_s[run.start] + np.arange(len(values)) / self.rate_hz,
                labels=np.full(len(values), windows.label[run.start]),
                start=windows.start,
            )


def write_npz(windows: Windows, path: Path | str, classes: Sequence[str]) -> None:
    """Write the windows of a subject as ``x`` and ``y``, with classes, times, gaps, wear and window length.

    ``y`` contains class names, empty for windows without a label. The file is written atomically.
    """
    arrays = {
        "x": windows.x,
        "y": np.array([*classes, ""], dtype=str)[windows.label],
        "classes": np.array(classes, dtype=str),
        "time_s": windows.time_s,
        "gap_before_s": windows.gap_before_s,
        "wear": np.asarray(windows.wear),
        "window_s": np.array(windows.window_s),
        "stride_s": np.array(windows.stride_s),
    }
    if windows.start is not None:
        arrays["start"] = np.array(windows.start.isoformat())
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    write_atomic(path, stream.getvalue())


def read_npz(path: Path | str, classes: Sequence[str] | None = None) -> tuple[Windows, tuple[str, ...]]:
    """Read a ``SUBJECT.npz``; return its windows and the class names of their labels.

    Without `classes`, those of the file are used, or else the names in ``y`` in alphabetical order.
    """
    content = _load(io.BytesIO(Path(path).read_bytes()), str(path))
    names = content["y"].astype(str).tolist()
    if classes is None:
        classes = content["classes"].tolist() if "classes" in content else sorted(set(names) - {""})
    index = label_index(classes, {})
    unknown = sorted({name for name in names if name.casefold() not in index})
    if unknown:
        raise ValueError(f"{path}: label {unknown[0]!r} is not in the map; expected {', '.join(classes)}.")
    label = np.array([index[name.casefold()] for name in names], dtype=np.int64)
    length = float(content["x"].shape[2])
    return _windows(content, label, {"window_s": length, "stride_s": length}, str(path)), tuple(classes)


def _windows(content: Mapping[str, Array], label: Array, windowing: Mapping[str, Any], where: str) -> Windows:
    n = len(label)
    window_s = float(content.get("window_s", windowing["window_s"]))
    stride_s = float(content.get("stride_s", windowing["stride_s"]))
    start, time_s = content.get("start"), content.get("time_s", np.arange(n) * stride_s)
    days = (float(np.ptp(time_s)) + window_s + stride_s) / 86_400 if n else 0.0
    if not days <= LONGEST_DAYS:
        raise ValueError(
            f"{where}: expected windows of at most {LONGEST_DAYS:g} days, got {days:.4g} days; write time_s, window_s "
            f"and stride_s in seconds."
        )
    return Windows(
        x=content["x"].astype(np.float32, copy=False),
        time_s=time_s,
        label=label.astype(np.int64),
        gap_before_s=content.get("gap_before_s", np.zeros(n)),
        wear=content.get("wear"),
        window_s=window_s,
        stride_s=stride_s,
        start=None if start is None else datetime.fromisoformat(str(start)),
    )


def _load(stream: IO[bytes], where: str, labels_only: bool = False) -> dict[str, Array]:
    """Read the arrays of an npz; arrays of objects may contain strings only."""
    try:
        with zipfile.ZipFile(stream) as archive:
            check_unpacked(sum(info.file_size for info in archive.infolist()), stream.seek(0, io.SEEK_END), where)
            names = [name for name in archive.namelist() if not (labels_only and name == "x.npy")]
            arrays = {name.removesuffix(".npy"): read_array(archive.read(name), f"{name} of {where}") for name in names}
    except (*BROKEN, NotImplementedError, RuntimeError, MemoryError):  # the last but one: encrypted members
        raise ValueError(f"{where} is not a complete npz; copy it again.") from None
    missing = {"x", "y"} - set(arrays) - ({"x"} if labels_only else set())
    if missing:
        raise ValueError(f"{where}: expected arrays x and y, got {', '.join(sorted(arrays)) or 'none'}.")
    if not labels_only and (arrays["x"].ndim != 3 or arrays["y"].shape != (len(arrays["x"]),)):
        raise ValueError(
            f"{where}: expected x (windows, channels, length) and one label each in y, "
            f"got {arrays['x'].shape} and {arrays['y'].shape}."
        )
    for name, array in arrays.items():
        scalar = name in ("window_s", "stride_s")
        numeric = scalar or name in ("x", "time_s", "gap_before_s", "wear")
        if numeric and (array.dtype.kind not in "fiub" or (scalar and not (array.ndim == 0 and 0 < array < np.inf))):
            raise ValueError(
                f"{where}: expected {'a number above 0' if scalar else 'numbers'} as {name}, got "
                f"{array.dtype} of shape {array.shape}; write it again."
            )
    return arrays
