"""Recordings of devices: Axivity .cwa, ActiGraph .gt3x, GENEActiv .bin, gzipped or not.

Files are decoded by actfast in pieces of intact blocks, so that a damaged block costs its own samples only and a week
of samples is in memory once.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import numpy as np

from sight._util.folder_or_zip import first_words
from sight._util.growing_array import GrowingArray
from sight._util.progress import OnShare
from sight.recordings.device_files import DeviceFile, open_device
from sight.recordings.local_times import time_zone
from sight.recordings.reading_options import ReadOptions
from sight.recordings.timestamps import UNKNOWN_ZONE, seconds_since
from sight.types import Array, Recording, RecordingFacts, Severity, Warning

#: Section and key of facts in the metadata of each maker.
RATE = (("configuration", "sample_rate_hz"), ("Configuration Info", "Measurement Frequency"), ("info", "Sample Rate"))
ZONE = (("Configuration Info", "Time Zone"), ("info", "TimeZone"))
MODEL = (("device", "hardware_type"), ("Device Identity", "Device Model"), ("info", "Device Type"))
SERIAL = (("device", "device_id"), ("Device Identity", "Device Unique Serial Code"), ("info", "Serial Number"))
FIRMWARE = (("device", "firmware_revision"), ("Device Identity", "Device Firmware Version"), ("info", "Firmware"))
#: Maker by the format that actfast reports.
MAKERS = {"Axivity CWA": "Axivity", "GeneActiv BIN": "GENEActiv", "Actigraph GT3X": "ActiGraph"}
AXES: tuple[str, ...] = ("x", "y", "z")
#: Most intact blocks that actfast may refuse.
MOST_REFUSED = 100
#: A larger share of damaged blocks is a warning, a smaller one a note.
DAMAGED_SHARE = 0.01
#: An earlier end than planned by more than this is reported.
EARLY = timedelta(hours=1)
COPY_AGAIN = "Copy the file from the device again."


def read_device(
    path: Path | str,
    options: ReadOptions | None = None,
    *,
    subject: str | None = None,
    on_share: OnShare | None = None,
) -> Recording:
    """Read a device file: acceleration in g, rotation in deg/s if the device has a gyroscope.

    The devices write local time and do not switch to summer time during a recording, so the offset from UTC is that
    of the first sample. The option `tz` is the zone of their clock; None uses the zone in the file, or UTC. Pauses,
    such as the idle sleep mode of ActiGraph, remain gaps in the timestamps. Damaged blocks are left out, with a
    warning; `on_share` is called with the share of the file that was read.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"There is no file {path}; check the name.")
    with path.open("rb") as raw, tempfile.TemporaryDirectory() as folder:
        decoder = _Decoder(path, Path(folder))
        file = open_device(path, raw)
        if file is not None:
            for piece in file.blocks.pieces():
                decoder.decode(file, piece)
                if on_share:
                    on_share(raw.tell() / path.stat().st_size)
        if not decoder.values.rows:
            decoder.decode_whole(file.kinds if file else set())
            file = None
    return _recording(path, decoder, file, options, subject)


class _Decoder:
    """Samples of the pieces of a file, and what the pieces state about the device."""

    def __init__(self, path: Path, folder: Path) -> None:
        self._path, self._piece = path, folder / "piece"
        self.metadata: dict[str, Any] = {}
        self.maker, self.channels = "", AXES
        self.values, self.moments = GrowingArray(np.float32, len(AXES)), GrowingArray(np.int64)
        self.temperatures: list[Array] = []
        self.notes: list[str] = []
        self.refused = 0

    def decode(self, file: DeviceFile, piece: bytes) -> None:
        """Add the samples of intact blocks; leave out those that actfast refuses."""
        try:
            self._add(file.complete(piece))
        except ValueError as error:
            blocks = file.blocks.blocks(piece)
            if len(blocks) < 2:
                self.refused += 1
                if self.refused > MOST_REFUSED:
                    raise self._unreadable(error) from None
                return
            middle = len(blocks) // 2
            for half in (blocks[:middle], blocks[middle:]):
                self.decode(file, b"".join(half))

    def decode_whole(self, kinds: set[int]) -> None:
        """Add the samples of a file whose blocks have none, as actfast reads it; `kinds` are those of its records."""
        try:
            shutil.copyfile(self._path, self._piece)
            self._add(None)
        except ValueError as error:
            raise self._unreadable(error) from None
        if not self.values.rows:
            types = ", ".join(f"0x{kind:02X}" for kind in sorted(kinds))
            found = f", only records of the types {types}, which have none that can be read" if kinds else ""
            raise ValueError(f"{self._path} has no acceleration{found}; is the recording complete?")

    def _add(self, content: bytes | None) -> None:
        import actfast

        if content is not None:
            self._piece.write_bytes(content)
        try:
            decoded: dict[str, Any] = dict(actfast.read(str(self._piece)))
        except (OSError, RuntimeError) as error:
            raise ValueError(str(error)) from None
        series = decoded["timeseries"].get("high_frequency") or decoded["timeseries"].get("acceleration")
        if series is None or not len(series["datetime"]):
            return
        parts = [series["acceleration"], *([] if series.get("gyroscope") is None else [series["gyroscope"]])]
        if not self.values.rows:
            self.metadata, self.maker = decoded["metadata"], MAKERS.get(decoded["format"], decoded["format"])
            if len(parts) > 1:
                self.channels = tuple(f"{sensor}_{axis}" for sensor in ("acc", "gyro") for axis in AXES)
                self.values = GrowingArray(np.float32, len(self.channels))
        self.values.append_columns([column for part in parts for column in part.T])
        self.moments.append(series["datetime"])
        slow = decoded["timeseries"].get("low_frequency") or {}
        self.temperatures.append(np.asarray(slow.get("temperature", ()), np.float64))
        self.notes += [text for text in map(str, decoded.get("warnings", ())) if text not in self.notes]

    def _unreadable(self, error: Exception) -> ValueError:
        return ValueError(
            f"{self._path} cannot be read as a device file ({first_words(error)}); is it a complete .cwa, .gt3x or "
            f".bin?"
        )

    def stated(self, keys: tuple[tuple[str, str], ...]) -> str:
        values = (self.metadata.get(section, {}).get(key) for section, key in keys)
        return next((str(value) for value in values if value is not None), "")


def _recording(
    path: Path, decoder: _Decoder, file: DeviceFile | None, options: ReadOptions | None, subject: str | None
) -> Recording:
    zone, zone_fact = _zone(decoder.stated(ZONE), options.tz if options else None)
    moments = decoder.moments.array()
    first, last = int(moments[0]), int(moments[-1])
    temperature = np.concatenate([np.empty(0), *decoder.temperatures])
    losses = [] if file is None else list(_losses(file, decoder.refused, _moment(last)))
    return Recording(
        values=decoder.values.array(),
        time_s=seconds_since(moments, first),
        channels=decoder.channels,
        unit=("g",) * len(AXES) + ("deg/s",) * (len(decoder.channels) - len(AXES)),
        rate_hz=_rate(path, decoder.stated(RATE)),
        start=_moment(first).replace(tzinfo=zone),
        subject=subject or path.name.split(".")[0],
        warnings=tuple(losses),
        facts=RecordingFacts(
            file=path.name,
            device=f"{decoder.maker} {decoder.stated(MODEL)}".strip(),
            serial=decoder.stated(SERIAL) or None,
            firmware=decoder.stated(FIRMWARE) or None,
            time_zone=zone_fact,
            read_errors=None if file is None else file.blocks.damaged + decoder.refused,
            temperature_c=round(float(temperature.mean()), 2) if len(temperature) else None,
            reader_warnings=decoder.notes,
        ),
    )


def _losses(file: DeviceFile, refused: int, last: datetime) -> Iterator[Warning]:
    """Yield warnings about damaged blocks and about a file that ends too early."""
    damaged, intact = file.blocks.damaged + refused, file.blocks.count - refused
    if damaged:
        share = damaged / (damaged + intact)
        found = f"{damaged:,} damaged block{'s were' if damaged > 1 else ' was'} left out"
        text = f"{found}, {100 * share:.2g} % of the file; the time of their samples is a gap."
        severity: Severity = "warning" if share > DAMAGED_SHARE else "note"
        yield Warning(kind="damaged", severity=severity, text=text, remedy=COPY_AGAIN)
    missing = max((file.stated_blocks or 0) - damaged - intact, 0)
    if file.blocks.cut_off or missing:
        found = f"; {missing:,} of {file.stated_blocks:,} blocks are missing" if missing else ""
        text = f"The file is cut off or damaged at its end{found}: samples after {last:%Y-%m-%d %H:%M:%S} are lost."
        yield Warning(kind="cut-off", severity="warning", text=text, remedy=COPY_AGAIN)
    elif file.planned_end and file.planned_end - last > EARLY:
        text = (
            f"The device was set to record until {file.planned_end:%Y-%m-%d %H:%M}, but the file ends at "
            f"{last:%Y-%m-%d %H:%M}: it is cut off, or the device stopped early."
        )
        yield Warning(kind="cut-off", severity="warning", text=text)
    if file.lacks_info:
        text = "The description of the device is lost (info.txt): the rate is that of the samples, the zone is unknown."
        yield Warning(kind="damaged", severity="warning", text=text)


def _moment(nanoseconds: int) -> datetime:
    """Return nanoseconds of the local clock since 1970 as a time without a zone."""
    return datetime(1970, 1, 1) + timedelta(microseconds=nanoseconds // 1000)


def _rate(path: Path, text: str) -> float:
    number = re.search(r"\d+(\.\d+)?", text)
    if number is None:
        raise ValueError(f"{path} has no sampling rate; is its header complete?")
    return float(number[0])


def _zone(text: str, tz: str | None) -> tuple[tzinfo, str]:
    if tz is not None:
        return time_zone(tz), tz
    offset = re.search(r"(-?)\+?(\d{1,2}):(\d{2})", text)
    if offset is None:
        return UTC, UNKNOWN_ZONE
    minutes = (60 * int(offset[2]) + int(offset[3])) * (-1 if offset[1] else 1)
    return timezone(timedelta(minutes=minutes)), f"{minutes / 60:+g} h from UTC, from the file"
