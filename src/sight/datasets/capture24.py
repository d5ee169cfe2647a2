"""CAPTURE-24: wrist accelerometer of 151 subjects over about 24 hours, annotated from cameras and diaries, 100 Hz."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import IO, Any, ClassVar

import numpy as np

from sight._util.folder_or_zip import first_words, read_columns
from sight._util.growing_array import GrowingArray
from sight.recordings.recording_collection import Dataset, Download
from sight.types import UNLABELLED, Array, Recording

DICTIONARY = "annotation-label-dictionary.csv"
COLUMNS = ("time", "x", "y", "z", "annotation")
#: Bytes of text parsed at once; a day is half a gigabyte of text.
BLOCK_BYTES = 1 << 20


@dataclass(kw_only=True)
class Capture24(Dataset):
    """CAPTURE-24, with any label set of its dictionary.

    Samples without annotation stay in the recording with label -1.

    Parameters
    ----------
    labels
        Column of the dictionary without ``label:``; classes of sets other than the default are read from it.
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
        "tracker data collected in the wild for human activity recognition. Scientific Data 11:1135, 2024. "
        "doi:10.1038/s41597-024-03960-3"
    )
    homepage = "https://ora.ox.ac.uk/objects/uuid:99d7c092-d865-4a19-b096-cc16440cd001"
    version = "1.0"
    official_files = ("P001.csv.gz", "...", "P151.csv.gz", DICTIONARY)
    folder_names = ("capture24",)
    subject_count = 151
    subject_pattern = r"(^|/)(?P<subject>P\d{3})\.csv\.gz$"
    downloads = (
        Download(url="https://ora.ox.ac.uk/objects/uuid:99d7c092-d865-4a19-b096-cc16440cd001/files/rpr76f381b"),
    )

    def __post_init__(self) -> None:
        if self.labels != type(self).labels:
            self._override(classes=tuple(sorted(set(self._dictionary.values()))))

    def _input_files(self, files: Sequence[str]) -> Sequence[str]:
        return [*files, self.store.require(DICTIONARY)]

    @cached_property
    def _dictionary(self) -> dict[str, str]:
        column = f"label:{self.labels}"
        table = read_columns(self.store, self.store.require(DICTIONARY), ("annotation", column), dtype=str)
        return dict(zip(table["annotation"], table[column], strict=True))

    def _read_file(self, subject: str, file: str) -> Recording:
        self._override(label_map=self._dictionary)
        where = self.store.where(file)
        values, time_s, labels = GrowingArray(np.float32, 3), GrowingArray(np.float64), GrowingArray(np.int16)
        origin: Any = None
        with self.store.open(file) as stream:
            for batch in _batches(stream, where):
                nanoseconds = batch.column(0).to_numpy(zero_copy_only=False).view(np.int64)
                origin = nanoseconds[0] if origin is None else origin
                time_s.append((nanoseconds - origin) / 1e9)
                values.append(np.column_stack([batch.column(i).to_numpy(zero_copy_only=False) for i in (1, 2, 3)]))
                labels.append(self._annotation_labels(batch.column(4), where))
        return self._recording(
            subject,
            file,
            values.array(),
            time_s=time_s.array(),
            labels=labels.array(),
            start=None if origin is None else datetime.fromtimestamp(origin / 1e9, UTC),
            facts={"clock": "local time of the device, zone not recorded"},
        )

    def _annotation_labels(self, annotation: Any, where: str) -> Array:
        codes = self._class_indices(annotation.dictionary.to_pylist(), where)
        indices = annotation.indices.fill_null(len(codes)).to_numpy()
        return np.asarray(np.array([*codes, UNLABELLED], dtype=np.int16)[indices])


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
            memory_pool=pa.system_memory_pool(),  # returns freed memory to the system
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        if "mpty CSV" in str(error):
            raise ValueError(f"{where} is empty; expected columns {', '.join(COLUMNS)}.") from None
        raise ValueError(
            f"{where}: expected columns {', '.join(COLUMNS)}, got {first_words(error)}; is it the official file?"
        ) from None
