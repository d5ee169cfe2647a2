"""CAPTURE-24: a day and a night of 151 wrists in Oxfordshire, annotated from cameras and diaries, 100 Hz."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import IO, Any, ClassVar

import numpy as np

from sight.datasets._base import Dataset, Download
from sight.datasets._dataset_files import read_table, short
from sight.types import UNLABELLED, Array, Recording

DICTIONARY = "annotation-label-dictionary.csv"
COLUMNS = ("time", "x", "y", "z", "annotation")
#: Bytes of text parsed at once; a day is half a gigabyte of text and never in memory whole.
BLOCK_BYTES = 1 << 20


@dataclass(kw_only=True)
class Capture24(Dataset):
    """CAPTURE-24, with any label set of its dictionary.

    Parameters
    ----------
    labels
        Column of the dictionary without ``label:``; classes of other sets than the default are read from it.

    Notes
    -----
    Samples without annotation stay in the recording with label -1.

    References
    ----------
    doi:10.1038/s41597-024-03960-3
    """

    labels: str = "Walmsley2020"

    name = "capture24"
    title = "CAPTURE-24: free living, wrist accelerometer"
    classes = ("sleep", "sedentary", "light", "moderate-vigorous")
    label_map: ClassVar[Mapping[Any, str]] = {}
    channels = ("x", "y", "z")
    units = ("g",) * 3
    rate_hz = 100.0
    window_s = 10.0
    stride_s = 10.0
    licence = "CC BY 4.0"
    citation = (
        "Chan, Hang, Tong, Acquah, Schonfeldt, Gershuny, Doherty. CAPTURE-24: A large dataset of wrist-worn activity "
        "tracker data collected in the wild for human activity recognition. Scientific Data 11:1135, 2024."
    )
    homepage = "https://ora.ox.ac.uk/objects/uuid:99d7c092-d865-4a19-b096-cc16440cd001"
    version = "1.0"
    files = ("P001.csv.gz", "...", "P151.csv.gz", DICTIONARY)
    places = ("capture24",)
    pattern = r"(^|/)(?P<subject>P\d{3})\.csv\.gz$"
    downloads = (
        Download(url="https://ora.ox.ac.uk/objects/uuid:99d7c092-d865-4a19-b096-cc16440cd001/files/rpr76f381b"),
    )

    def __post_init__(self) -> None:
        if self.labels != type(self).labels:
            self._differ(classes=tuple(sorted(set(self._dictionary.values()))))

    def _subject(self, match: re.Match[str]) -> str:
        return match["subject"]

    def _depends(self, names: Sequence[str]) -> Sequence[str]:
        return [*names, self._dictionary_name()]

    def _dictionary_name(self) -> str:
        name = self.store.find(DICTIONARY)
        if name is None:
            raise ValueError(f"{self.name}: {DICTIONARY} is not in {self.store.root}; put it beside the recordings.")
        return name

    @cached_property
    def _dictionary(self) -> dict[str, str]:
        column = f"label:{self.labels}"
        table = read_table(self.store, self._dictionary_name(), ("annotation", column), dtype=str)
        return dict(zip(table["annotation"], table[column], strict=True))

    def _recordings(self, subject: str, names: Sequence[str]) -> Iterator[Recording]:
        self._differ(label_map=self._dictionary)
        for name in names:
            yield self._recording(subject, name)

    def _recording(self, subject: str, name: str) -> Recording:
        """Read block by block into numbers, so that neither texts nor copies of a day pile up."""
        where = self.store.where(name)
        values, time_s, labels = _Column(np.float32, 3), _Column(np.float64), _Column(np.int16)
        origin: Any = None
        with self.store.open(name) as stream:
            for batch in _batches(stream, where):
                nanoseconds = batch.column(0).to_numpy(zero_copy_only=False).view(np.int64)
                origin = nanoseconds[0] if origin is None else origin
                time_s.extend((nanoseconds - origin) / 1e9)
                values.extend(np.column_stack([batch.column(i).to_numpy(zero_copy_only=False) for i in (1, 2, 3)]))
                labels.extend(self._annotated(batch.column(4), where))
        return Recording(
            values=values.whole(),
            time_s=time_s.whole(),
            labels=labels.whole(),
            channels=self.channels,
            unit=self.units,
            rate_hz=self.rate_hz,
            start=None if origin is None else datetime.fromtimestamp(origin / 1e9, UTC),
            subject=subject,
            facts={"file": name, "clock": "local time of the device, zone not recorded"},
        )

    def _annotated(self, annotation: Any, where: str) -> Array:
        codes = [self._code(text, where) for text in annotation.dictionary.to_pylist()]
        indices = annotation.indices.fill_null(len(codes)).to_numpy()
        labels: Array = np.array([*codes, UNLABELLED], dtype=np.int16)[indices]
        return labels


def _batches(stream: IO[bytes], where: str) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    types = {"time": pa.timestamp("ns"), "annotation": pa.dictionary(pa.int32(), pa.string())}
    types |= dict.fromkeys(("x", "y", "z"), pa.float32())
    try:
        yield from csv.open_csv(
            stream,
            read_options=csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
            convert_options=csv.ConvertOptions(column_types=types, include_columns=COLUMNS, strings_can_be_null=True),
            memory_pool=pa.system_memory_pool(),  # gives back what it no longer needs
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        if "mpty CSV" in str(error):
            raise ValueError(f"{where} is empty; expected columns {', '.join(COLUMNS)}.") from None
        raise ValueError(
            f"{where}: expected columns {', '.join(COLUMNS)}, got {short(error)}; is it the official file?"
        ) from None


class _Column:
    """An array that grows in place; joining blocks at the end would hold a day twice."""

    def __init__(self, dtype: type[np.generic], *width: int) -> None:
        self._array: Array = np.empty((0, *width), dtype)
        self._rows = 0

    def extend(self, block: Array) -> None:
        first, self._rows = self._rows, self._rows + len(block)
        if self._rows > len(self._array):
            self._array.resize((self._rows * 5 // 4, *self._array.shape[1:]), refcheck=False)
        self._array[first : self._rows] = block

    def whole(self) -> Array:
        self._array.resize((self._rows, *self._array.shape[1:]), refcheck=False)
        return self._array
