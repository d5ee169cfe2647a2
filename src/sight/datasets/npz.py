"""Windows as files: one ``SUBJECT.npz`` with ``x`` (N, C, T) and ``y`` (N,) names of classes.

This is the form in which the authors of SIGHT keep preprocessed corpora. ``y`` may be an array of Python objects,
which numpy stores as a pickle; see `sight.datasets._npz_strings` for how it is read without running it.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from sight.datasets._base import Dataset
from sight.datasets._npz_strings import read_array
from sight.datasets._window_protocols import stretches, unroll
from sight.types import UNLABELLED, Array, Recording, Windows


@dataclass(kw_only=True)
class Npz(Dataset):
    """A folder or zip of ``SUBJECT.npz`` files.

    Parameters
    ----------
    rate, window, stride
        Samples per second, seconds of a window and between two, where the files do not say; those written by
        `write_npz` do. Without a rate a sample counts as a second, without a stride windows do not overlap.

    Notes
    -----
    Files that hold only ``x`` and ``y`` tell no time: windows follow each other without gap.
    """

    rate: float | None = None
    window: float | None = None
    stride: float | None = None

    name = "npz"
    title = "Preprocessed windows, one npz for each person"
    classes: ClassVar[tuple[str, ...]] = ()
    label_map: ClassVar[Mapping[Any, str]] = {}
    channels: ClassVar[tuple[str, ...]] = ()
    units: ClassVar[tuple[str, ...]] = ()
    rate_hz = 1.0
    window_s = 0.0
    stride_s = 0.0
    licence = "that of the corpus the windows come from"
    citation = "that of the corpus the windows come from"
    homepage = "your own preprocessing"
    version = "1"
    files = ("SUBJECT.npz", "...")
    places = ("npz",)
    pattern = r"(^|/)(?P<subject>[^/]+)\.npz$"

    def __post_init__(self) -> None:
        contents = [self._content(names[0], labels_only=True) for names in self._index.values()]
        kept = [content["classes"].tolist() for content in contents if "classes" in content]
        named = kept[0] if kept else sorted({str(label) for content in contents for label in content["y"]} - {""})
        first = self._content(next(iter(self._index.values()))[0])
        channels, length = first["x"].shape[1:]
        rate = self.rate or (length / float(first["window_s"]) if "window_s" in first else 1.0)
        window_s = self.window or (float(first["window_s"]) if "window_s" in first else length / rate)
        self._differ(
            classes=tuple(named),
            label_map={name: name for name in named} | {"": ""},
            channels=tuple(f"channel {i}" for i in range(channels)),
            units=("unknown",) * channels,
            rate_hz=rate,
            window_s=window_s,
            stride_s=self.stride or (float(first["stride_s"]) if "stride_s" in first else window_s),
        )

    def _subject(self, match: re.Match[str]) -> str:
        return match["subject"]

    def _content(self, name: str, labels_only: bool = False) -> dict[str, Array]:
        with self.store.open(name) as stream:
            return _load(io.BytesIO(stream.read()), self.store.where(name), labels_only)

    def _windows(self, subject: str, settings: Mapping[str, Any]) -> Windows:
        content = self._content(self._names(subject)[0])
        return _windows(content, self._codes(content["y"].astype(str), subject), settings)

    def _recordings(self, subject: str, names: Sequence[str]) -> Iterator[Recording]:
        windows = self._windows(subject, self.windowing())
        step = max(round(self.stride_s * self.rate_hz), 1)
        for run in stretches(windows.x, step, windows.label) if len(windows) else []:
            values = unroll(windows.x[run], step)
            yield Recording(
                values=values,
                time_s=windows.time_s[run.start] + np.arange(len(values)) / self.rate_hz,
                labels=np.full(len(values), windows.label[run.start]),
                channels=self.channels,
                unit=self.units,
                rate_hz=self.rate_hz,
                start=windows.start,
                subject=subject,
                facts={"file": names[0]},
            )


def write_npz(windows: Windows, path: Path | str, classes: Sequence[str]) -> None:
    """Write windows as ``x`` and ``y``, and beside them what else they know; the file appears whole or not at all.

    Parameters
    ----------
    windows
        Of one person. Unlabelled ones get the empty text in ``y``.
    path
        ``SUBJECT.npz``.
    classes
        Names of the classes that labels point to.
    """
    path = Path(path)
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
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            np.savez_compressed(stream, allow_pickle=False, **arrays)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_npz(path: Path | str, classes: Sequence[str] | None = None) -> tuple[Windows, tuple[str, ...]]:
    """Read one file; returns the windows and the classes that their labels point to.

    Parameters
    ----------
    path
        ``SUBJECT.npz``.
    classes
        Order of the classes; None takes the file's own, or the names in ``y`` in alphabetical order.
    """
    content = _load(io.BytesIO(Path(path).read_bytes()), str(path))
    texts = content["y"].astype(str)
    if classes is None:
        classes = content["classes"].tolist() if "classes" in content else sorted(set(texts.tolist()) - {""})
    unknown = sorted(set(texts.tolist()) - {"", *classes})
    if unknown:
        raise ValueError(f"{path}: label {unknown[0]!r} is not in the map; known are {', '.join(classes)}.")
    position = {name: k for k, name in enumerate(classes)} | {"": UNLABELLED}
    label = np.array([position[text] for text in texts.tolist()], dtype=np.int64)
    settings = {"window_s": float(content["x"].shape[2]), "stride_s": float(content["x"].shape[2])}
    return _windows(content, label, settings), tuple(classes)


def _windows(content: Mapping[str, Array], label: Array, settings: Mapping[str, Any]) -> Windows:
    n = len(label)
    window_s = float(content.get("window_s", settings["window_s"]))
    stride_s = float(content.get("stride_s", settings["stride_s"]))
    start = content.get("start")
    return Windows(
        x=content["x"].astype(np.float32, copy=False),
        time_s=content.get("time_s", np.arange(n) * stride_s),
        label=label.astype(np.int64),
        gap_before_s=content.get("gap_before_s", np.zeros(n)),
        wear=content.get("wear"),
        window_s=window_s,
        stride_s=stride_s,
        start=None if start is None else datetime.fromisoformat(str(start)),
    )


def _load(stream: IO[bytes], where: str, labels_only: bool = False) -> dict[str, Array]:
    """Read the arrays of an npz; only ``y`` may hold objects, and only texts."""
    try:
        with zipfile.ZipFile(stream) as archive:
            names = [name for name in archive.namelist() if not (labels_only and name == "x.npy")]
            arrays = {name.removesuffix(".npy"): read_array(archive.read(name), f"{name} of {where}") for name in names}
    except zipfile.BadZipFile:
        raise ValueError(f"{where} is no complete npz; copy it again.") from None
    missing = {"x", "y"} - set(arrays) - ({"x"} if labels_only else set())
    if missing:
        raise ValueError(f"{where}: expected arrays x and y, got {', '.join(sorted(arrays)) or 'none'}.")
    if not labels_only and (arrays["x"].ndim != 3 or arrays["y"].shape != (len(arrays["x"]),)):
        raise ValueError(
            f"{where}: expected x (windows, channels, length) and one label each in y, "
            f"got {arrays['x'].shape} and {arrays['y'].shape}."
        )
    return arrays
