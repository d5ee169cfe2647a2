"""Tables of users in blocks, whether CSV or Parquet: which columns there are, what they mean, and their content."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from sight.datasets._dataset_files import BROKEN
from sight.types import Array

#: Bytes of text, or rows of Parquet, in memory at once.
BLOCK_BYTES, BLOCK_ROWS = 1 << 22, 1 << 17
EXPECTED = "a header such as time,x,y,z and one sample per line"
#: How sensors call their axes once everything but letters is gone.
ACCELEROMETER = r"(?:acc|accel|acceleration|accelerometer|accelero|a)?"
GYROSCOPE = r"(?:gyr|gyro|gyroscope|rotation|rot|g|w)"


class Table:
    """A CSV, CSV.gz or Parquet file whose columns are read block by block.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parquet = path.name.lower().endswith(".parquet")
        if not path.is_file():
            raise ValueError(f"There is no file {path}; check the name.")
        self.columns, self.first = self._parquet_opening() if self._parquet else self._csv_opening()

    def blocks(self, columns: Sequence[str], numbers: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the named columns as pyarrow arrays; `numbers` of them have to be numbers."""
        import pyarrow as pa

        try:
            for batch in self._batches(list(dict.fromkeys(columns)), numbers):
                yield {name: batch.column(name) for name in batch.schema.names}
        except (*BROKEN, OSError) as error:
            raise self._broken(error) from None
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise ValueError(f"{self.path}: {self._culprit(numbers) or _short(error)}") from None

    def _batches(self, columns: list[str], numbers: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        if self._parquet:
            import pyarrow.parquet as pq

            for batch in pq.ParquetFile(self.path).iter_batches(BLOCK_ROWS, columns=columns):
                arrays = [_number(batch.column(name)) if name in numbers else batch.column(name) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=columns)
            return
        from pyarrow import csv as arrow_csv

        types = {name: pa.float64() if name in numbers else pa.string() for name in columns}
        yield from arrow_csv.open_csv(
            self.path,
            read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(delimiter=self._delimiter),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types, include_columns=columns, strings_can_be_null=True, decimal_point=self._decimal
            ),
        )

    def _csv_opening(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Read header and first row, and how the file separates columns and decimals."""
        try:
            with self._text() as stream:
                opening = [stream.readline(), stream.readline()]
        except (*BROKEN, UnicodeDecodeError) as error:
            raise self._broken(error) from None
        if not opening[0].strip():
            raise ValueError(f"{self.path} is empty; expected {EXPECTED}.")
        self._delimiter = max(",;\t", key=opening[0].count)
        header, row = (next(csv.reader([line], delimiter=self._delimiter), []) for line in opening)
        if not row:
            raise ValueError(f"{self.path} holds no samples, only a header; is the file complete?")
        if all(_is_number(cell) for cell in header):
            raise ValueError(f"{self.path} begins with numbers; expected {EXPECTED}.")
        comma = self._delimiter != "," and any(re.fullmatch(r"\s*-?\d+,\d+\s*", cell) for cell in row)
        self._decimal = "," if comma else "."
        return tuple(header), dict(zip(header, row, strict=False))

    def _parquet_opening(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            file = pq.ParquetFile(self.path)
            head = next(file.iter_batches(1), None)
        except (pa.ArrowInvalid, OSError) as error:
            raise self._broken(error) from None
        if head is None or not head.num_rows:
            raise ValueError(f"{self.path} holds no samples; is the file complete?")
        first = {name: _plain(head.column(name)) for name in head.schema.names}
        return tuple(head.schema.names), first

    def _text(self) -> IO[str]:
        if self.path.name.lower().endswith(".gz"):
            return gzip.open(self.path, "rt", encoding="utf-8-sig", newline="")
        return self.path.open("rt", encoding="utf-8-sig", newline="")

    def _broken(self, error: Exception) -> ValueError:
        if isinstance(error, UnicodeDecodeError):
            return ValueError(f"{self.path} is not a text in UTF-8; save it anew as CSV in UTF-8.")
        return ValueError(f"{self.path} breaks off or is damaged ({_short(error)}); copy or download it again.")

    def _culprit(self, numbers: Sequence[str]) -> str:
        """Find the first row that is to blame, slowly; only a file that cannot be read comes here."""
        if self._parquet:
            return ""
        with self._text() as stream:
            reader = csv.reader(stream, delimiter=self._delimiter)
            header = next(reader)
            at = {name: header.index(name) for name in numbers}
            for row in reader:
                if len(row) != len(header):
                    return (
                        f"line {reader.line_num} has {len(row)} columns, the header {len(header)}; "
                        f"repair or remove that line."
                    )
                for name, column in at.items():
                    if not _is_number(row[column].replace(self._decimal, ".")):
                        return (
                            f"line {reader.line_num}, column {name!r}: expected a number, got {row[column]!r}; "
                            f"repair it, leave it empty where the value is missing, or choose other columns."
                        )
        return ""


class Growing:
    """Rows appended in place, so that a day of samples is never in memory twice.

    Examples
    --------
    >>> rows = Growing(np.float32, 2)
    >>> rows.append(np.ones((3, 2)))
    >>> rows.array().shape
    (3, 2)
    """

    def __init__(self, kind: Any, *columns: int) -> None:
        self._store = np.empty((1 << 16, *columns), kind)
        self.rows = 0

    def append(self, block: Array) -> None:
        """Add the rows of a block."""
        stop = self.rows + len(block)
        if stop > len(self._store):
            self._resize(max(stop, len(self._store) * 5 // 4))
        self._store[self.rows : stop] = block
        self.rows = stop

    def array(self) -> Array:
        """Return all rows; nothing may be added after."""
        self._resize(self.rows)
        return self._store

    def _resize(self, rows: int) -> None:
        self._store.resize((rows, *self._store.shape[1:]), refcheck=False)


def guess(columns: Sequence[str]) -> dict[str, str]:
    """Map our names to a file's columns by how sensors usually call them.

    Examples
    --------
    >>> guess(["Timestamp", "Accelerometer X", "Accelerometer Y", "Accelerometer Z"])
    {'time': 'Timestamp', 'x': 'Accelerometer X', 'y': 'Accelerometer Y', 'z': 'Accelerometer Z'}
    >>> list(guess(["ax", "ay", "az", "gx", "gy", "gz"]))
    ['acc_x', 'acc_y', 'acc_z', 'gyro_x', 'gyro_y', 'gyro_z']
    """
    plain = {name: re.sub(r"[^a-z]", "", re.sub(r"[(\[].*", "", name.lower())) for name in columns}
    times = [name for name, text in plain.items() if re.match(r"(time|date|epoch|unix|ts?$)", text)]
    found = {"time": times[0]} if times else {}
    axes = {kind: _triple(plain, kind) for kind in (ACCELEROMETER, GYROSCOPE)}
    both = all(axes.values())
    for kind, prefix in ((ACCELEROMETER, "acc_" if both else ""), (GYROSCOPE, "gyro_")):
        found |= {prefix + axis: name for axis, name in zip("xyz", axes[kind], strict=False)}
    return found


def check_columns(path: Path, columns: Mapping[str, str], found: Sequence[str]) -> None:
    """Refuse a mapping that names columns the file does not have, or that names no channel."""
    missing = [name for name in columns.values() if name not in found]
    if missing:
        raise ValueError(
            f"{path}: there is no column {', '.join(map(repr, missing))}; it has {', '.join(found)}. "
            f"Map its columns, as in time={found[0]},x=...,y=...,z=...."
        )
    if not set(columns) - {"time"}:
        raise ValueError(
            f"{path}: no column looks like an acceleration axis among {', '.join(found)}; "
            f"map its columns, as in time={found[0]},x=...,y=...,z=...."
        )


def _triple(plain: Mapping[str, str], kind: str) -> list[str]:
    hits = [[name for name, text in plain.items() if re.fullmatch(kind + axis, text)] for axis in "xyz"]
    return [names[0] for names in hits] if all(hits) else []


def _number(column: Any) -> Any:
    import pyarrow as pa

    return column.cast(pa.float64(), safe=False)


def _plain(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)[0].as_py()
    return column[0].as_py()


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return cell.strip().lower() in {"null", "na", "n/a", "#n/a"}
    return True


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
