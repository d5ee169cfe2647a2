"""What stands before the samples of a CSV file: a line of names, the header of a maker's export, or nothing.

ActiGraph writes ten lines with start and rate, GENEActiv a hundred lines, OMGUI (Axivity) none. A function for each
maker recognises its first lines; another export is one more function in `EXPORTS`.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from math import isnan, nan

from sight.types import Warning

#: Lines that are examined for the beginning of the samples.
HEAD_LINES = 128
#: A cell with a time or date: digits and the marks between them.
TIME_CELL = re.compile(r"\d+([-/.:]\d+)+([ T]\d+(:\d+)*([.,:]\d+)?)?( ?[AP]M)?(Z|[+-]\d\d:?\d\d)?", re.IGNORECASE)
#: Parts of the date layouts of ActiGraph, and those of `datetime.strptime`.
DATE_PARTS = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "M": "%m", "dd": "%d", "d": "%d"}
GENEACTIV_COLUMNS = ("time", "x", "y", "z", "light", "button", "temperature")
#: Layouts of a time of day behind a date.
CLOCKS = ("%H:%M:%S.%f", "%H:%M:%S,%f", "%H:%M:%S", "%I:%M:%S.%f %p", "%I:%M:%S %p")
#: A date with dots begins with the day, and its layout.
DOTTED, DAY_FIRST = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4} "), "%d.%m.%Y"


@dataclass(frozen=True, kw_only=True)
class CsvHead:
    """What stands before the samples."""

    is_export: bool = False  # whether it is the header of a maker's export
    skip: int = 0  # lines before the line of names, or before the first sample if `names` are given
    names: tuple[str, ...] = ()  # names of the columns of a file without them
    rate_hz: float | None = None
    start: datetime | None = None  # of the first sample, on the clock of the device
    zone: tzinfo | None = None  # of that clock
    date_layout: str | None = None  # layout of dates, as in `datetime.strptime`
    facts: Mapping[str, str] = field(default_factory=dict)  # device, serial, firmware
    warnings: tuple[Warning, ...] = ()

    def time_layout(self, sample: object) -> str | None:
        """Return the layout of a time with the stated layout of dates, or with dots; None if neither fits."""
        date_layout = self.date_layout or (DAY_FIRST if DOTTED.match(str(sample)) else None)
        layouts = [f"{date_layout} {clock}" for clock in CLOCKS] if date_layout else []
        return next((layout for layout in layouts if _moment(str(sample), layout)), None)


def csv_head(lines: Sequence[str], skip: int | None, where: str) -> CsvHead:
    """Return what stands before the samples of a file with these first lines; `skip` lines are passed over if given."""
    if skip is None:
        for recognise in EXPORTS:
            if (head := recognise(lines, where)) is not None:
                return replace(head, is_export=True)
    return _without_export(lines, skip or 0)


def delimiter_of(line: str) -> str:
    """Return what separates the cells of a line: a tab or a semicolon if it gives three cells or more, else a comma.

    >>> delimiter_of("0,5;1,25;0"), delimiter_of("time,x,y,z")
    (';', ',')
    """
    return next((mark for mark in "\t;," if line.count(mark) > 1), max(",;\t", key=line.count))


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter_of(line)), [])]


def is_sample(line: str) -> bool:
    """Return whether a line has values only: numbers and times, no names.

    >>> is_sample("2024-03-05 09:30:00.000,0.1,-0.2,0.9"), is_sample("time,x,y,z"), is_sample("")
    (True, False, False)
    """
    found = cells(line)
    return any(found) and all(not cell or _is_number(cell) or TIME_CELL.fullmatch(cell) for cell in found)


def _without_export(lines: Sequence[str], skip: int) -> CsvHead:
    names = _missing_names(lines[skip:])
    if not names:
        return CsvHead(skip=skip)
    text = f"The file has no names of columns; they are taken as {', '.join(names)}."
    warning = Warning(kind="columns", severity="note", text=text, remedy="Others are set with columns (--columns).")
    return CsvHead(skip=skip, names=names, warnings=(warning,))


def _missing_names(lines: Sequence[str]) -> tuple[str, ...]:
    """Return names for the columns of a file that begins with samples; nothing if it begins with names.

    The first column is the time if it has dates, or if it is the first of four or more and increases.
    """
    if not lines or not is_sample(lines[0]):
        return ()
    samples = [cells(line) for line in lines if line.strip()]
    first = samples[0]
    texts = sum(not _is_number(cell) for cell in first[:2])
    increases = all(_number(before[0]) < _number(after[0]) for before, after in pairwise(samples))
    leading = ("date", "time") if texts == 2 else ("time",) if texts or (len(first) > 3 and increases) else ()
    known = (*leading, "x", "y", "z") if len(first) >= len(leading) + 3 else leading
    return (*known, *(f"column {number}" for number in range(len(known) + 1, len(first) + 1)))


def _actigraph(lines: Sequence[str], where: str) -> CsvHead | None:
    if not lines or "created by actigraph" not in lines[0].lower():
        return None
    text = "\n".join(lines[:12])
    epoch = _found(r"Epoch Period \(hh:mm:ss\)\W*(\d+:\d+:\d+)", text)
    if epoch.strip("0:"):
        raise ValueError(f"{where} has counts of epochs of {epoch}; export raw data (ActiLife: RAW CSV, or .gt3x).")
    rule = [number for number, line in enumerate(lines[1:12], start=2) if line.strip(" ,;\t\r\n").startswith("---")]
    skip = rule[0] if rule else 10
    while skip < len(lines) and not lines[skip].strip():
        skip += 1
    layout = re.sub("|".join(DATE_PARTS), lambda part: DATE_PARTS[part[0]], _found(r"date format ([dMy/.-]+)", text))
    moment = f"{_found(r'Start Date ([0-9/.-]+)', text)} {_found(r'Start Time ([0-9:]+)', text)}"
    device = _found(r"Created By (ActiGraph \S+)", lines[0])
    known = {"device": device, "serial": _found(r"Serial Number:\W*(\w+)", text)}
    rate = _found(r" at ?(\d+(?:\.\d+)?) ?Hz", lines[0])
    return CsvHead(
        skip=skip,
        names=_missing_names(lines[skip:]),
        rate_hz=float(rate) if rate else None,
        start=_moment(moment, f"{layout} %H:%M:%S"),
        date_layout=layout or None,
        facts=_given(known | {"firmware": _found(r"Firmware v(\S+)", lines[0])}),
    )


def _geneactiv(lines: Sequence[str], where: str) -> CsvHead | None:
    if not any(cells(line)[:2] == ["Device Type", "GENEActiv"] for line in lines[:4]):
        return None
    skip = next((number for number, line in enumerate(lines) if is_sample(line)), None)
    if skip is None:
        raise ValueError(f"{where} has the header of GENEActiv and no sample in {HEAD_LINES} lines; is it complete?")
    count = len(cells(lines[skip]))
    if count > len(GENEACTIV_COLUMNS):
        raise ValueError(f"{where} has {count} columns, as an export of epochs has; export raw data.")
    has_names = len(cells(lines[skip - 1])) == count
    stated = {line[0]: line[1] for line in map(cells, lines[:skip]) if len(line) > 1}
    rate = _found(r"(\d+(?:\.\d+)?)", stated.get("Measurement Frequency", ""))
    offset = re.search(r"([+-])(\d+):(\d+)", stated.get("Time Zone", ""))
    minutes = (60 * int(offset[2]) + int(offset[3])) * (-1 if offset[1] == "-" else 1) if offset else 0
    known = {"device": f"GENEActiv {stated.get('Device Model', '')}".strip()}
    known |= {"serial": stated.get("Device Unique Serial Code", "")}
    return CsvHead(
        skip=skip - has_names,
        names=() if has_names else GENEACTIV_COLUMNS[:count],
        rate_hz=float(rate) if rate else None,
        zone=timezone(timedelta(minutes=minutes)) if offset else None,
        facts=_given(known | {"firmware": stated.get("Device Firmware Version", "")}),
    )


#: Each takes the first lines of a file and its name, and returns None if they are not of its maker.
EXPORTS = (_actigraph, _geneactiv)


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.IGNORECASE)
    return found[1].strip() if found else ""


def _given(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in facts.items() if value}


def _moment(text: str, layout: str) -> datetime | None:
    try:
        return datetime.strptime(text, layout)
    except ValueError:
        return None


def _is_number(cell: str) -> bool:
    return not isnan(_number(cell))


def _number(cell: str) -> float:
    """Return the number in a cell, with a decimal point or comma; NaN if there is none."""
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return nan
