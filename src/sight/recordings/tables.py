"""Users' CSV, Parquet and Excel files, read in blocks."""

import csv
import gzip
import re
import zipfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import numpy as np

from sight._util.folder_or_zip import BROKEN, check_unpacked, first_words
from sight.recordings.csv_heads import HEAD_LINES, CsvHead, csv_head, delimiter_of
from sight.types import Array

#: Bytes of text, or rows of Parquet, in memory at once.
BLOCK_BYTES, BLOCK_ROWS = 1 << 22, 1 << 17
#: Most rows that are allocated because a file states them; a damaged file can state any number.
MOST_EXPECTED = 1 << 27
#: Longest line of the header and of the first row.
LINE_BYTES = 1 << 20
EXPECTED = "a header such as time,x,y,z and one sample per line"
DECIMAL_COMMA = re.compile(r"\s*-?\d+,\d+\s*")


class Table:
    """A CSV, Parquet or Excel file.

    `columns` are its column names, `first` is its first row by column, `head` what stands before the rows of a CSV,
    `share` how much of the file was read.

    Parameters
    ----------
    path
        Place of the file.
    content
        Table of pyarrow that is read instead of the file, that of a DataFrame.
    skip
        Lines of a CSV before the names of columns, or before the first row if it has no names; None finds them.
    """

    def __init__(self, path: Path, content: Any = None, *, skip: int | None = None) -> None:
        self.path, self._content, self._skip = path, content, skip
        self.head, self.share = CsvHead(), 0.0
        self.where = str(path) if content is None else "The DataFrame"
        suffix = path.suffix.lower()
        if content is None and not path.is_file():
            raise ValueError(f"There is no file {path}; check the name.")
        if content is None and suffix == ".xlsx":
            self._content = _read_sheet(path)
        self._is_typed = self._content is not None or suffix == ".parquet"
        self.columns, self.first = self._open_typed() if self._is_typed else self._open_csv()

    def blocks(self, columns: Sequence[str], numeric: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield columns as pyarrow arrays, block by block; raise ValueError if a `numeric` column has other values."""
        import pyarrow as pa

        unpacked, packed = 0, self.path.stat().st_size if self.path.name.lower().endswith(".gz") else None
        try:
            for block in self._batches(list(dict.fromkeys(columns)), numeric):
                unpacked += sum(array.nbytes for array in block.values())
                if packed is not None:
                    check_unpacked(unpacked, packed, self.where)
                yield block
            pa.default_memory_pool().release_unused()
        except (*BROKEN, OSError, MemoryError) as error:
            raise self._broken(error) from None
        except pa.ArrowException as error:
            raise ValueError(f"{self.where}: {self._first_bad_line(numeric) or first_words(error)}") from None

    def head_of(self, column: str) -> Array:
        """Return the first values of a column of numbers."""
        block = next(self.blocks([column], [column]), None)
        return np.empty(0) if block is None else np.asarray(block[column].to_numpy(zero_copy_only=False), np.float64)

    @property
    def expected_rows(self) -> int:
        """Number of rows if the file states it, else a number to start with."""
        return min(self._rows, MOST_EXPECTED) if self._is_typed else BLOCK_ROWS

    @property
    def _rows(self) -> int:
        if self._content is not None:
            return int(self._content.num_rows)
        import pyarrow.parquet as pq

        return int(pq.read_metadata(self.path).num_rows)

    def _batches(self, columns: list[str], numeric: Sequence[str]) -> Iterator[dict[str, Any]]:
        import pyarrow as pa

        if self._is_typed:
            done, total = 0, self._rows
            for batch in self._typed_batches(BLOCK_ROWS, columns):
                done += batch.num_rows
                self.share = done / max(total, 1)
                block = {name: batch.column(name) for name in columns}
                others = [name for name in numeric if block[name].type not in (pa.float32(), pa.float64())]
                yield block | {name: block[name].cast(pa.float64(), safe=False) for name in others}
            return
        from pyarrow import csv as arrow_csv

        types = {name: pa.float64() if name in numeric else pa.string() for name in columns}
        with pa.OSFile(str(self.path)) as raw:
            packed = self.path.name.lower().endswith(".gz")
            reader = arrow_csv.open_csv(
                pa.CompressedInputStream(raw, "gzip") if packed else raw,
                read_options=arrow_csv.ReadOptions(
                    block_size=BLOCK_BYTES, skip_rows=self.head.skip, column_names=list(self.head.names) or None
                ),
                parse_options=arrow_csv.ParseOptions(delimiter=self._delimiter),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types, include_columns=columns, strings_can_be_null=True, decimal_point=self._decimal
                ),
            )
            size = max(raw.size(), 1)
            for batch in reader:
                self.share = raw.tell() / size
                yield {name: batch.column(name) for name in columns}

    def _open_csv(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Read names and first row; detect the separators of columns and decimals."""
        lines = self._first_lines()
        try:
            return self._first_row(lines)
        except csv.Error as error:
            raise ValueError(f"{self.where}: its first lines cannot be read ({error}); expected {EXPECTED}.") from None

    def _first_row(self, lines: list[str]) -> tuple[tuple[str, ...], dict[str, Any]]:
        self.head = csv_head(lines, self._skip, self.where)
        rows = [line for line in lines[self.head.skip :] if line.strip()]
        wanted = 1 if self.head.names else 2
        if len(rows) < wanted:
            found = "no samples, only a header" if rows or self.head.skip else "no samples"
            raise ValueError(f"{self.where} has {found}; is the file complete?")
        self._delimiter = delimiter_of(rows[0])
        header, row = (next(csv.reader([line], delimiter=self._delimiter), []) for line in (rows[0], rows[wanted - 1]))
        names = self.head.names or tuple(header)
        comma = self._delimiter != "," and any(map(DECIMAL_COMMA.fullmatch, row))
        self._decimal = "," if comma else "."
        row = [cell.replace(",", ".") if comma and DECIMAL_COMMA.fullmatch(cell) else cell for cell in row]
        return names, dict(zip(names, row, strict=False))

    def _first_lines(self) -> list[str]:
        try:
            with self._text() as stream:
                lines = [stream.readline(LINE_BYTES) for _ in range(HEAD_LINES + (self._skip or 0))]
        except (*BROKEN, UnicodeDecodeError) as error:
            raise self._broken(error) from None
        if max(map(len, lines)) >= LINE_BYTES:
            raise ValueError(f"{self.where} has a line of {LINE_BYTES} characters or more; expected {EXPECTED}.")
        if not any(line.strip() for line in lines):
            raise ValueError(f"{self.where} is empty; expected {EXPECTED}.")
        return lines

    def _typed_batches(self, rows: int, columns: list[str] | None = None) -> Iterator[Any]:
        if self._content is not None:
            table = self._content if columns is None else self._content.select(columns)
            yield from table.to_batches(max_chunksize=rows)
            return
        import pyarrow.parquet as pq

        # With pre_buffer, the whole file would be in memory.
        yield from pq.ParquetFile(self.path, pre_buffer=False).iter_batches(rows, columns=columns)

    def _open_typed(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        import pyarrow as pa

        try:
            head = next(self._typed_batches(1), None)
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise self._broken(error) from None
        if head is None or not head.num_rows:
            raise ValueError(f"{self.where} has no samples; is the file complete?")
        if twice := sorted({name for name in head.schema.names if head.schema.names.count(name) > 1}):
            raise ValueError(f"{self.where} has several columns called {', '.join(twice)[:200]}; rename them.")
        columns = {name: head.column(name) for name in head.schema.names}
        for name, column in columns.items():
            if pa.types.is_timestamp(column.type):  # Python has no nanoseconds
                columns[name] = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
        return tuple(columns), {name: column[0].as_py() for name, column in columns.items()}

    def _text(self) -> IO[str]:
        if self.path.name.lower().endswith(".gz"):
            return gzip.open(self.path, "rt", encoding="utf-8-sig", newline="")
        return self.path.open("rt", encoding="utf-8-sig", newline="")

    def _broken(self, error: Exception) -> ValueError:
        if isinstance(error, UnicodeDecodeError):
            return ValueError(f"{self.where} is not text in UTF-8; save it as CSV in UTF-8.")
        return ValueError(f"{self.where} is truncated or damaged ({first_words(error)}); copy or download it again.")

    def _first_bad_line(self, numeric: Sequence[str]) -> str:
        """Describe the first line of a CSV that cannot be read; slow, for error messages only."""
        if self._is_typed:
            return ""
        try:
            return self._search_bad_line(numeric)
        except (csv.Error, UnicodeDecodeError, *BROKEN) as error:
            return f"a line cannot be read ({first_words(error)}); repair or remove it."

    def _search_bad_line(self, numeric: Sequence[str]) -> str:
        for line, row in self._lines():
            if len(row) != len(self.columns):
                return (
                    f"line {line} has {len(row)} columns, the header {len(self.columns)}; repair or remove that line."
                )
            for name, cell in zip(self.columns, row, strict=True):
                if name in numeric and not _is_number(cell.replace(self._decimal, ".")):
                    return (
                        f"line {line}, column {name!r}: expected a number, got {cell!r}; "
                        f"repair it, leave it empty where the value is missing, or choose other columns."
                    )
        return ""

    def place(self, row: int) -> str:
        """Return where a row of the table, from 0, stands in the file; slow, for error messages only."""
        if self._is_typed:
            return f"row {row + 1}"
        return next(
            (f"line {line}" for number, (line, _) in enumerate(self._lines()) if number == row), f"row {row + 1}"
        )

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the number and the cells of each line with samples."""
        with self._text() as stream:
            for _ in range(self.head.skip):
                stream.readline()
            reader = csv.reader(stream, delimiter=self._delimiter)
            if not self.head.names:
                next(reader)
            for row in reader:
                if row:
                    yield self.head.skip + reader.line_num, row


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return cell.strip().lower() in {"null", "na", "n/a", "#n/a"}
    return True


def _read_sheet(path: Path) -> Any:
    """Return the active sheet of an .xlsx file as a pyarrow table; its first row are the names of the columns.

    A column holds numbers, times, or else text. Excel stores times with a resolution of a millisecond.
    """
    import pyarrow as pa

    try:
        with zipfile.ZipFile(path) as packed:
            check_unpacked(sum(part.file_size for part in packed.infolist()), path.stat().st_size, path)
        header, *rows = _sheet_rows(path) or [()]
    except (*BROKEN, KeyError, OSError, SyntaxError) as error:
        raise ValueError(f"{path} is damaged or no Excel workbook ({first_words(error)}); save it again.") from None
    names = ["" if name is None else str(name).strip() for name in header]
    used = [index for index, name in enumerate(names) if name]
    if not used or not rows:
        raise ValueError(f"{path} has no samples; expected a header such as time,x,y,z and one sample per row.")
    return pa.table(
        {names[index]: _sheet_column([row[index] if index < len(row) else None for row in rows]) for index in used}
    )


def _sheet_rows(path: Path) -> list[tuple[Any, ...]]:
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError as error:
        message = f'{path} is an Excel file, which needs openpyxl: pip install "sight-har[data]", or save it as CSV.'
        raise ModuleNotFoundError(message) from error
    book = load_workbook(path, read_only=True, data_only=True)
    try:
        return [row for row in book.active.iter_rows(values_only=True) if any(cell is not None for cell in row)]
    finally:
        book.close()


def _sheet_column(cells: list[Any]) -> Any:
    import pyarrow as pa

    found = [cell for cell in cells if cell is not None]
    if all(isinstance(cell, int | float) for cell in found):
        return pa.array(cells, pa.float64(), from_pandas=True)
    if all(isinstance(cell, datetime) for cell in found):
        return pa.array(cells, pa.timestamp("us"))
    return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
