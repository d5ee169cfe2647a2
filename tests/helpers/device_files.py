"""Writers of device files in the published formats of their makers: Axivity .cwa, GENEActiv .bin, ActiGraph .gt3x.

They stand for the sample files of other projects, whose licences are unclear. Formats: "AX3 technical details" of
Open Movement (.cwa), "Device file format" of Activinsights (.bin), "GT3X file format" of ActiGraph (.gt3x).
"""

from __future__ import annotations

import struct
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from sight.types import Array

#: Start of every file, as the clock of the device shows it.
START = datetime(2024, 3, 5, 9, 30, 0, 250_000)
SECTOR = 512
#: Rate and samples of each file of `write_all`.
FILES = {
    "ax3.cwa": (100, 12_000),
    "ax6.cwa": (50, 6_000),
    "geneactiv.bin": (60, 6_000),
    "actigraph.gt3x": (60, 4_800),
    "actigraph_idle.gt3x": (30, 9_000),
}


def wrist(rate_hz: float, n: int, seed: int = 0) -> Array:
    """Return acceleration (n, 3) in g: minutes at rest in changing positions, then minutes of walking."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(n) / rate_hz
    position = rng.normal(size=(int(time_s[-1] // 20) + 1, 3))
    position /= np.linalg.norm(position, axis=1, keepdims=True)
    values = position[(time_s // 20).astype(int)]
    walking = (time_s // 60 % 2 == 1)[:, None]
    swing = 0.4 * np.sin(2 * np.pi * 1.8 * time_s[:, None] + np.array([0, 1, 2]))
    return (values + walking * swing + 0.01 * rng.normal(size=(n, 3))).clip(-7.9, 7.9)


def write_cwa(path: Path, acc: Array, rate_hz: int, gyro: Array | None = None, start: datetime = START) -> Path:
    """Write an AX3 file of 10-bit samples, or with `gyro` (n, 3) in deg/s an AX6 file of 16-bit samples."""
    rate = int(15 - np.log2(3200 / rate_hz)) | 1 << 6  # in the upper bits: +-8 g
    head = bytearray(b"\xff" * 1024)
    head[:13] = b"MD" + struct.pack("<HBHIH", 0x03FC, 0x64 if gyro is not None else 0x17, 4321, 7, 0)
    head[36], head[41] = rate, 50
    head[64:512] = b" " * 448
    if gyro is None:
        samples, scale, layout, most = _packed(acc), 0, 0x30, 120
    else:
        raw = np.concatenate((gyro * 32768 / 2000, acc * 2048), axis=1)
        samples, scale, layout, most = raw.round().astype("<i2"), 3 << 13 | 2 << 10, 0x62, 40
    sectors = [bytes(head)]
    for number, first in enumerate(range(0, len(samples), most)):
        block, moment = samples[first : first + most], start + timedelta(seconds=first / rate_hz)
        fraction = moment.microsecond * 0x8000 // 1_000_000
        shift = -((fraction << 1) * rate_hz >> 16)  # the time stamp is that of the first sample
        sector = b"AX" + struct.pack("<HHIII", 0x01FC, 0x8000 | fraction, 7, number, _cwa_time(moment))
        sector += struct.pack("<HHBBBBhH", scale | 100, 263, 0, 200, rate, layout, shift, len(block))
        sector += block.tobytes().ljust(480, b"\0")
        total = int(np.frombuffer(sector, "<u2").sum(dtype=np.uint64))
        sectors.append(sector + struct.pack("<H", -total & 0xFFFF))
    path.write_bytes(b"".join(sectors))
    return path


def _packed(acc: Array) -> Array:
    """Return samples of 32 bits: three values of 10 bits and a common exponent."""
    raw = (acc * 256).round().astype(np.int64)
    exponent = np.array([next(e for e in range(4) if (abs(row >> e) < 512).all()) for row in raw])
    x, y, z = (raw >> exponent[:, None]).T & 0x3FF
    return (x | y << 10 | z << 20 | exponent << 30).astype("<u4")


def _cwa_time(moment: datetime) -> int:
    date = (moment.year - 2000) << 26 | moment.month << 22 | moment.day << 17
    return date | moment.hour << 12 | moment.minute << 6 | moment.second


BIN_HEADER = """Device Identity
Device Unique Serial Code:012345
Device Type:GENEActiv
Device Model:1.1
Device Firmware Version:Ver06.17
Calibration Date:2023-01-01 00:00:00:000

Device Capabilities
Accelerometer Range:-8 to 8
Accelerometer Resolution:0.0039
Accelerometer Units:g
Light Meter Range:0 to 20000
Light Meter Resolution:3 to 48
Light Meter Units:lux
Temperature Sensor Range:0 to 70
Temperature Sensor Resolution:0.1
Temperature Sensor Units:deg. C

Configuration Info
Measurement Frequency:{rate_hz} Hz
Measurement Period:24 Hours
Start Time:{start}
Time Zone:GMT -05:00

Trial Info
Study Centre:
Study Code:
Investigator ID:
Exercise Type:
Config Operator ID:
Config Time:{start}
Config Notes:
Extract Operator ID:
Extract Time:{start}
Extract Notes:

Subject Info
Device Location Code:
Subject Code:
Date of Birth:1900-01-01
Sex:
Height:
Weight:
Handedness Code:
Subject Notes:

Calibration Data
x gain:25600
x offset:0
y gain:25600
y offset:0
z gain:25600
z offset:0
Volts:300
Lux:800

Memory Status
Number of Pages:{pages}

"""
BIN_PAGE = """Recorded Data
Device Unique Serial Code:012345
Sequence Number:{number}
Page Time:{start}
Unassigned:
Temperature:30.0
Battery voltage:4.1000
Device Status:Recording
Measurement Frequency:{rate_hz}.0
{samples}
"""


def write_bin(path: Path, acc: Array, rate_hz: int, start: datetime = START) -> Path:
    """Write a GENEActiv file: pages of 300 samples of 12 bits, as hexadecimal text."""
    raw = (acc * 256).round().astype(np.int64) & 0xFFF
    words = ["".join(f"{value:03X}" for value in row) + "000" for row in raw]
    pages = [words[first : first + 300] for first in range(0, len(words), 300)]
    text = BIN_HEADER.format(rate_hz=rate_hz, start=_bin_time(start), pages=len(pages))
    for number, page in enumerate(pages):
        moment = _bin_time(start + timedelta(seconds=number * 300 / rate_hz))
        text += BIN_PAGE.format(number=number, start=moment, rate_hz=rate_hz, samples="".join(page))
    path.write_bytes(text.replace("\n", "\r\n").encode("ascii"))
    return path


def _bin_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}:{moment.microsecond // 1000:03}"


def write_gt3x(
    path: Path,
    acc: Array,
    rate_hz: int,
    zone: str = "-05:00:00",
    idle: tuple[int, ...] = (),
    start: datetime = START,
    kind: int = 0,
) -> Path:
    """Write an ActiGraph file: one record of samples per second; `idle` seconds pass before each tenth record.

    Samples have 12 bits in records of `kind` 0 (ACTIVITY), else 16, as in those of kind 26 (ACTIVITY2). The format
    has whole seconds only.
    """
    moment = int(start.replace(microsecond=0, tzinfo=UTC).timestamp())
    scale = 9 << 24 | 0x400000  # 256, in ActiGraph's notation: exponent and fraction
    log = _gt3x_record(21, moment, struct.pack("<HHIHHI", 0, 55, scale, 1, 10, rate_hz))
    pauses = list(idle)
    for second, first in enumerate(range(0, len(acc), rate_hz)):
        if pauses and second and second % 10 == 0:
            moment += pauses.pop(0)
        raw = (acc[first : first + rate_hz] * 256).round().astype("<i2")
        digits = "".join(f"{value & 0xFFF:03x}" for value in raw[:, [1, 0, 2]].ravel().tolist())
        packed = bytes.fromhex(digits + "0" * (len(digits) % 2))
        log += _gt3x_record(kind, moment, raw.tobytes() if kind else packed)
        moment += 1
    ticks = 10_000_000 * (int(start.replace(tzinfo=UTC).timestamp()) + 62_135_596_800)
    info = {"Serial Number": "MOS2E00000000", "Device Type": "wGT3XBT", "Firmware": "1.9.2", "Sample Rate": rate_hz}
    info |= {"Start Date": ticks, "TimeZone": zone, "Acceleration Scale": "256.0", "Subject Name": "nobody"}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("info.txt", "".join(f"{key}: {value}\n" for key, value in info.items()))
        archive.writestr("log.bin", log)
    return path


def _gt3x_record(kind: int, moment: int, payload: bytes) -> bytes:
    record = struct.pack("<BBIH", 0x1E, kind, moment, len(payload)) + payload
    return record + bytes([~int(np.bitwise_xor.reduce(np.frombuffer(record, np.uint8))) & 0xFF])


def write_all(folder: Path) -> Path:
    """Write `FILES` into a folder and return it."""
    acc = {name: wrist(rate_hz, n) for name, (rate_hz, n) in FILES.items()}
    write_cwa(folder / "ax3.cwa", acc["ax3.cwa"], 100)
    write_cwa(folder / "ax6.cwa", acc["ax6.cwa"], 50, gyro=100 * acc["ax6.cwa"][:, ::-1])
    write_bin(folder / "geneactiv.bin", acc["geneactiv.bin"], 60)
    write_gt3x(folder / "actigraph.gt3x", acc["actigraph.gt3x"], 60)
    write_gt3x(folder / "actigraph_idle.gt3x", acc["actigraph_idle.gt3x"], 30, "02:00:00", idle=(5, 261, 30, 12, 7, 9))
    return folder
