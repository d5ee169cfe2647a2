"""Excel workbooks: the first sheet as a typed table."""

from __future__ import annotations

import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

from sight.recordings.file_store import BROKEN, check_unpacked, first_words


def read_sheet(path: Path) -> Any:
    """Return the active sheet of an .xlsx file as a pyarrow table; its first row are the names of the columns.

    A column holds numbers, times, or else text. Excel stores times with a resolution of a millisecond.
    """
    import pyarrow as pa

    try:
        with zipfile.ZipFile(path) as packed:
            check_unpacked(sum(part.file_size for part in packed.infolist()), path.stat().st_size, path)
        header, *rows = _rows(path) or [()]
    except (*BROKEN, KeyError, OSError, SyntaxError) as error:
        raise ValueError(f"{path} is damaged or no Excel workbook ({first_words(error)}); save it again.") from None
    names = ["" if name is None else str(name).strip() for name in header]
    used = [index for index, name in enumerate(names) if name]
    if not used or not rows:
        raise ValueError(f"{path} has no samples; expected a header such as time,x,y,z and one sample per row.")
    return pa.table(
        {names[index]: _column([row[index] if index < len(row) else None for row in rows]) for index in used}
    )


def _rows(path: Path) -> list[tuple[Any, ...]]:
    """Return the rows of the active sheet that are not empty."""
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


def _column(cells: list[Any]) -> Any:
    import pyarrow as pa

    found = [cell for cell in cells if cell is not None]
    if all(isinstance(cell, int | float) for cell in found):
        return pa.array(cells, pa.float64(), from_pandas=True)
    if all(isinstance(cell, datetime) for cell in found):
        return pa.array(cells, pa.timestamp("us"))
    return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
