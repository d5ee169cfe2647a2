"""Device files: Axivity .cwa, ActiGraph .gt3x, GENEActiv .bin, gzipped or not."""

import gzip
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import numpy as np

from sight.recordings.file_store import BROKEN, check_unpacked, first_words
from sight.recordings.local_times import time_zone
from sight.recordings.read_options import ReadOptions
from sight.recordings.timestamps import UNKNOWN_ZONE
from sight.types import Recording, RecordingFacts

#: Section and key of the sampling rate and of the time zone in the metadata of each maker.
RATE = (("configuration", "sample_rate_hz"), ("Configuration Info", "Measurement Frequency"), ("info", "Sample Rate"))
ZONE = (("Configuration Info", "Time Zone"), ("info", "TimeZone"))
AXES: tuple[str, ...] = ("x", "y", "z")


def read_device(path: Path | str, options: ReadOptions | None = None, *, subject: str | None = None) -> Recording:
    """Read a device file: acceleration in g, rotation in deg/s if the device has a gyroscope.

    The devices write local time and do not switch to summer time during a recording, so the offset from UTC is that
    of the first sample. The option `tz` is the zone of their clock; None uses the zone in the file, or UTC. Pauses,
    such as the idle sleep mode of ActiGraph, remain gaps in the timestamps.
    """
    path = Path(path)
    content = _content(path)
    series = content["timeseries"].get("high_frequency") or content["timeseries"].get("acceleration")
    if series is None or not len(series["datetime"]):
        raise ValueError(f"{path} has no acceleration; is the recording complete?")
    moments, metadata = series["datetime"], content["metadata"]
    zone, zone_fact = _zone(metadata, options.tz if options else None)
    values = np.asarray(series["acceleration"], np.float32)
    channels, unit = AXES, ("g",) * len(AXES)
    if series.get("gyroscope") is not None:
        values = np.concatenate((values, series["gyroscope"]), axis=1, dtype=np.float32)
        channels = tuple(f"{sensor}_{axis}" for sensor in ("acc", "gyro") for axis in AXES)
        unit += ("deg/s",) * len(AXES)
    return Recording(
        values=values,
        time_s=(moments - moments[0]) / 1e9,
        channels=channels,
        unit=unit,
        rate_hz=_rate(path, metadata),
        # Nanoseconds of the local clock since 1970
        start=datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=int(moments[0]) // 1000),
        subject=subject or path.name.split(".")[0],
        facts=RecordingFacts(
            file=path.name,
            device=content["format"],
            time_zone=zone_fact,
            reader_warnings=[str(warning) for warning in content.get("warnings", ())],
        ),
    )


def _content(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"There is no file {path}; check the name.")
    try:
        with _unzipped(path) as plain:
            return _parsed(path, plain)
    except BROKEN as error:
        raise ValueError(f"{path} is truncated or damaged ({error}); copy it from the device again.") from None


def _parsed(path: Path, plain: Path) -> dict[str, Any]:
    import actfast

    try:
        return dict(actfast.read(str(plain)))
    except (ValueError, OSError, RuntimeError) as error:
        raise ValueError(
            f"{path} cannot be read as a device file ({first_words(error)}); is it a complete .cwa, .gt3x or .bin?"
        ) from None


@contextmanager
def _unzipped(path: Path) -> Iterator[Path]:
    if not path.name.lower().endswith(".gz"):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.stem
        with gzip.open(path) as packed, plain.open("wb") as unpacked:
            while block := packed.read(1 << 20):
                unpacked.write(block)
                check_unpacked(unpacked.tell(), path.stat().st_size, path)
        yield plain


def _rate(path: Path, metadata: dict[str, Any]) -> float:
    number = re.search(r"\d+(\.\d+)?", _metadata_value(metadata, RATE))
    if number is None:
        raise ValueError(f"{path} has no sampling rate; is its header complete?")
    return float(number[0])


def _zone(metadata: dict[str, Any], tz: str | None) -> tuple[tzinfo, str]:
    if tz is not None:
        return time_zone(tz), tz
    offset = re.search(r"(-?)\+?(\d{1,2}):(\d{2})", _metadata_value(metadata, ZONE))
    if offset is None:
        return UTC, UNKNOWN_ZONE
    minutes = (60 * int(offset[2]) + int(offset[3])) * (-1 if offset[1] else 1)
    return timezone(timedelta(minutes=minutes)), f"{minutes / 60:+g} h from UTC, from the file"


def _metadata_value(metadata: dict[str, Any], keys: tuple[tuple[str, str], ...]) -> str:
    values = (metadata.get(section, {}).get(key) for section, key in keys)
    return next((str(value) for value in values if value is not None), "")
