"""Writers of the CSV files that the software of device makers exports: ActiGraph, GENEActiv, OMGUI."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from sight.types import Array

START = datetime(2024, 3, 5, 9, 30)

SOFTWARE = "Data File Created By ActiGraph GT3X+ ActiLife v6.13.4 Firmware v1.9.2"
ACTIGRAPH = """------------ {software} date format {layout} at {rate_hz} Hz  Filter Normal -----------
Serial Number: MOS2D12345678
Start Time {time}
Start Date {date}
Epoch Period (hh:mm:ss) {epoch}
Download Time 12:00:00
Download Date {date}
Current Memory Address: 0
Current Battery Voltage: 4.13     Mode = 12
--------------------------------------------------
"""
#: Layouts of dates as ActiLife names them, and as Python does.
DATES = {"M/d/yyyy": "{0.month}/{0.day}/{0.year}", "dd.MM.yyyy": "{0.day:02}.{0.month:02}.{0.year}"}


def times(rate_hz: float, n: int, start: datetime = START) -> list[datetime]:
    """Return the times of n samples, in whole milliseconds."""
    return [start + timedelta(milliseconds=round(1000 * i / rate_hz)) for i in range(n)]


def _text(moment: datetime, mark: str = ".") -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}{mark}{moment.microsecond // 1000:03}"


def write_actigraph(
    path: Path,
    acc: Array,
    rate_hz: int,
    *,
    timestamps: bool = False,
    names: bool = True,
    layout: str = "M/d/yyyy",
    comma: bool = False,
    epoch: str = "00:00:00",
) -> Path:
    """Write a raw export of ActiLife: ten lines, names of columns, samples in g with or without their times.

    `comma` is the form of continental locales: decimal commas, and semicolons between columns.
    """
    date = DATES[layout].format(START)
    clock = {"time": f"{START:%H:%M:%S}", "date": date, "epoch": epoch}
    head = ACTIGRAPH.format(software=SOFTWARE, layout=layout, rate_hz=rate_hz, **clock)
    columns = [*(["Timestamp"] if timestamps else []), *(f"Accelerometer {axis}" for axis in "XYZ")]
    lines = [columns] if names else []
    for moment, row in zip(times(rate_hz, len(acc)), acc, strict=True):
        stamp = f"{DATES[layout].format(moment)} {moment:%H:%M:%S}.{moment.microsecond // 1000:03}"
        cells = [f"{value:.3f}".replace(".", "," if comma else ".") for value in row]
        lines.append([*([stamp] if timestamps else []), *cells])
    mark = ";" if comma else ","
    path.write_text(head + "".join(mark.join(cells) + "\n" for cells in lines), "utf-8", newline="\r\n")
    return path


def write_geneactiv(path: Path, acc: Array, rate_hz: int, *, zone: str = "GMT +01:00", epochs: bool = False) -> Path:
    """Write an export of the GENEActiv software: a hundred lines, then time, x, y, z, light, button, temperature."""
    lines = [""] * 100
    lines[:6] = (
        *("Device Type,GENEActiv", "Device Model,1.1", "Device Unique Serial Code,012967"),
        *("Device Firmware Version,Ver4.08a", "Calibration Date,2023-01-01 00:00:00:000", "Application name,GENEActiv"),
    )
    lines[10:15] = (
        *(f"Measurement Frequency,{rate_hz} Hz", f"Start Time,{_text(START, ':')}", "Last measurement,"),
        *("Device Location Code,left wrist", f"Time Zone,{zone}"),
    )
    lines[20:23] = "Subject Code,P01", "Date of Birth,1990-1-1", "Sex,female"
    more = ",1.0,0.1,0.1,0.1,3" if epochs else ""
    for moment, (x, y, z) in zip(times(rate_hz, len(acc)), acc, strict=True):
        lines.append(f"{_text(moment, ':')},{x:.4f},{y:.4f},{z:.4f},12,0,25.3{more}")
    path.write_text("\n".join(lines) + "\n", "utf-8", newline="\r\n")
    return path


def write_omgui(path: Path, acc: Array, rate_hz: int) -> Path:
    """Write an export of OMGUI: time, x, y, z and nothing else."""
    rows = zip(times(rate_hz, len(acc)), acc, strict=True)
    path.write_text("".join(f"{_text(moment)},{x:.5f},{y:.5f},{z:.5f}\n" for moment, (x, y, z) in rows), "utf-8")
    return path
