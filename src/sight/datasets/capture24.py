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
from sight.datasets._store import BROKEN, read_table, short
from sight.types import UNLABELLED, Array, Recording

DICTIONARY = "annotation-label-dictionary.csv"
COLUMNS = ("time", "x", "y", "z", "annotation")
#: Bytes of text parsed at once; a day is half a gigabyte of text and never in memory whole.
BLOCK_BYTES = 1 << 22


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
            where = self.store.where(name)
            with self.store.open(name) as stream:
                nanoseconds, values, labels = self._read(stream, where)
            start = datetime.fromtimestamp(nanoseconds[0] / 1e9, UTC) if len(nanoseconds) else None
            yield Recording(
                values=values,
                time_s=(nanoseconds - nanoseconds[:1]) / 1e9,
                labels=labels,
                channels=self.channels,
                unit=self.units,
                rate_hz=self.rate_hz,
                start=start,
                subject=subject,
                facts={
                    "file": name,
                    "clock": "local time of the device, zone not recorded",
                    "unannotated_samples": int((labels == UNLABELLED).sum()),
                },
            )

    def _read(self, stream: IO[bytes], where: str) -> tuple[Array, Array, Array]:
        """Read block by block into numbers; annotations become codes at once, so their texts never pile up."""
        import pyarrow as pa
        from pyarrow import csv

        types = {"time": pa.timestamp("ns"), "annotation": pa.dictionary(pa.int32(), pa.string())}
        types |= dict.fromkeys(self.channels, pa.float32())
        try:
            reader = csv.open_csv(
                stream,
                read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
                convert_options=csv.ConvertOptions(
                    column_types=types, include_columns=COLUMNS, strings_can_be_null=True
                ),
            )
            blocks = [self._block(batch, where) for batch in reader]
        except BROKEN:
            raise
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            if "mpty CSV" in str(error):
                raise ValueError(f"{where} is empty; expected columns {', '.join(COLUMNS)}.") from None
            raise ValueError(
                f"{where}: expected columns {', '.join(COLUMNS)}, got {short(error)}; is it the official file?"
            ) from None
        empty = (np.empty(0, np.int64), np.empty((0, 3), np.float32), np.empty(0, np.int16))
        columns = zip(*(blocks or [empty]), strict=True)
        nanoseconds, values, labels = (np.concatenate(column) for column in columns)
        return nanoseconds, values, labels

    def _block(self, batch: Any, where: str) -> tuple[Array, Array, Array]:
        annotation = batch.column(4)
        codes = [self._code(text, where) for text in annotation.dictionary.to_pylist()]
        indices = annotation.indices.fill_null(len(codes)).to_numpy()
        labels = np.array([*codes, UNLABELLED], dtype=np.int16)[indices]
        values = np.column_stack([batch.column(i).to_numpy(zero_copy_only=False) for i in (1, 2, 3)])
        return batch.column(0).to_numpy(zero_copy_only=False).view(np.int64), values, labels
