"""Recordings as devices write them: Axivity .cwa, ActiGraph .gt3x, GENEActiv .bin, gzipped or not."""

from __future__ import annotations

import gzip
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import numpy as np

from sight.datasets._dataset_files import BROKEN
from sight.datasets._timestamps import zone_of
from sight.types import Array, Recording

#: Where each maker keeps the sampling rate and, if at all, the zone of its clock: section, key.
RATE = (("configuration", "sample_rate_hz"), ("Configuration Info", "Measurement Frequency"), ("info", "Sample Rate"))
ZONE = (("Configuration Info", "Time Zone"), ("info", "TimeZone"))
AXES = ("x", "y", "z")


def read_device(path: Path | str, *, tz: str | None = None, subject: str | None = None) -> Recording:
    """Read a device file: acceleration in g, rotation in deg/s where the device has it.

    Parameters
    ----------
    path
        A .cwa, .gt3x or .bin file, or one of them gzipped.
    tz
        Zone the device's clock was set in; None takes what the file tells, or UTC.
    subject
        Who wore it; None takes the name of the file.

    Notes
    -----
    These devices write local time and do not change to summer time during a recording, so the zone is that of the
    first sample. Pauses, as ActiGraph makes when it lies still, stay as jumps of the clock.
    """
    path = Path(path)
    content = _content(path)
    series = content["timeseries"].get("high_frequency") or content["timeseries"].get("acceleration")
    if series is None or not len(series["datetime"]):
        raise ValueError(f"{path} holds no acceleration; is the recording complete?")
    moments, metadata = series["datetime"], content["metadata"]
    zone, told = _zone(metadata, tz)
    rotation = series.get("gyroscope")
    sensors = [("acc_", "g", series["acceleration"]), ("gyro_", "deg/s", rotation)]
    present = [sensor for sensor in sensors if sensor[2] is not None]
    prefix = len(present) > 1
    return Recording(
        values=_values([values for _, _, values in present]),
        time_s=(moments - moments[0]) / 1e9,
        channels=tuple(name * prefix + axis for name, _, _ in present for axis in AXES),
        unit=tuple(unit for _, unit, _ in present for _ in AXES),
        rate_hz=_rate(path, metadata),
        start=_start(int(moments[0]), zone),
        subject=subject or path.name.split(".")[0],
        facts={
            "file": path.name,
            "device": content["format"],
            "time_zone": told,
            "reader_warnings": [str(warning) for warning in content.get("warnings", ())],
        },
    )


def _content(path: Path) -> dict[str, Any]:
    import actfast

    if not path.is_file():
        raise ValueError(f"There is no file {path}; check the name.")
    try:
        with _unzipped(path) as plain:
            content = dict(actfast.read(str(plain)))
    except BROKEN as error:
        raise ValueError(f"{path} breaks off or is damaged ({error}); copy it from the device again.") from None
    except (ValueError, OSError, RuntimeError) as error:
        raise ValueError(
            f"{path} cannot be read as a device file ({' '.join(str(error).split())[:160]}); "
            f"is it a complete .cwa, .gt3x or .bin?"
        ) from None
    return content


@contextmanager
def _unzipped(path: Path) -> Iterator[Path]:
    if not path.name.lower().endswith(".gz"):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.stem
        with gzip.open(path) as packed, plain.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)
        yield plain


def _values(sensors: list[Array]) -> Array:
    if len(sensors) == 1:
        return np.asarray(sensors[0], np.float32)
    return np.concatenate(sensors, axis=1, dtype=np.float32)


def _rate(path: Path, metadata: dict[str, Any]) -> float:
    text = _told(metadata, RATE)
    number = re.search(r"\d+(\.\d+)?", text)
    if number is None:
        raise ValueError(f"{path} does not tell its sampling rate; is its header complete?")
    return float(number[0])


def _zone(metadata: dict[str, Any], tz: str | None) -> tuple[tzinfo, str]:
    """Return the zone of the device's clock, and how we know."""
    if tz is not None:
        return zone_of(tz), tz
    offset = re.search(r"(-?)\+?(\d{1,2}):(\d{2})", _told(metadata, ZONE))
    if offset is None:
        return UTC, "not told, taken as UTC"
    minutes = (60 * int(offset[2]) + int(offset[3])) * (-1 if offset[1] else 1)
    return timezone(timedelta(minutes=minutes)), f"{minutes / 60:+g} h from UTC, as the file tells"


def _told(metadata: dict[str, Any], places: tuple[tuple[str, str], ...]) -> str:
    found = (metadata.get(section, {}).get(key) for section, key in places)
    return next((str(value) for value in found if value is not None), "")


def _start(moment_ns: int, zone: tzinfo) -> datetime:
    """Read nanoseconds of a local clock as a moment of its zone."""
    local = datetime(1970, 1, 1) + timedelta(microseconds=moment_ns // 1000)
    return local.replace(tzinfo=zone)
