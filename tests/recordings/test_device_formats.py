"""Device files written in the published formats: values, rate, unit, start, zone and pauses."""

from __future__ import annotations

import gzip
from datetime import datetime, timedelta

import numpy as np
import pytest

from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_files import read
from sight.recordings.signal import prepare
from sight.recordings.signal.quality import rest_g, warnings_for
from tests.helpers.device_files import FILES, START, wrist, write_cwa, write_gt3x

pytest.importorskip("actfast")

#: Offset from UTC in hours, from the file; Axivity's files have none.
ZONES = {"ax3.cwa": 0, "ax6.cwa": 0, "geneactiv.bin": -5, "actigraph.gt3x": -5, "actigraph_idle.gt3x": 2}
#: Largest rounding of a stored value, in g.
ROUNDING = dict.fromkeys(FILES, 0.5 / 256) | {"ax6.cwa": 0.5 / 2048}


@pytest.mark.parametrize("name", FILES)
def test_values_rate_unit_and_start(device_files, name):
    rate, samples = FILES[name]
    recording = read(device_files / name)
    assert recording.rate_hz == rate
    assert recording.unit[:3] == ("g", "g", "g")
    np.testing.assert_allclose(recording.values[:, :3], wrist(rate, samples), rtol=0, atol=1.01 * ROUNDING[name])
    start = START.replace(microsecond=0) if name.endswith("gt3x") else START  # whole seconds only
    assert recording.start.replace(tzinfo=None) == start
    assert recording.start.utcoffset() == timedelta(hours=ZONES[name])
    assert recording.time_s[0] == 0


@pytest.mark.parametrize("name", [name for name in FILES if "idle" not in name])
def test_a_file_without_pauses_has_no_gaps_and_no_warnings(device_files, name):
    recording = read(device_files / name)
    np.testing.assert_allclose(np.diff(recording.time_s), 1 / recording.rate_hz, rtol=0, atol=5e-5)
    windows = prepare(recording, rate_hz=50, window_s=2, stride_s=1)
    assert windows.facts.gaps == 0
    assert not windows.gap_before_s.any()
    assert np.isfinite(windows.x).all()
    assert rest_g(recording) == pytest.approx(1, abs=0.05)
    assert warnings_for(recording) == ()


def test_idle_sleep_mode_leaves_gaps(device_files):
    recording = read(device_files / "actigraph_idle.gt3x")
    windows = prepare(recording, rate_hz=30, window_s=5, stride_s=5)
    assert windows.facts.gaps == (np.diff(recording.time_s) > 0.5).sum() == 6
    assert windows.facts.gap_longest_s == pytest.approx(261.03, abs=0.01)
    assert windows.gap_before_s.max() >= 261


def test_a_gyroscope_is_read_too(device_files):
    recording = read(device_files / "ax6.cwa")
    assert recording.channels == ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
    assert recording.unit[3:] == ("deg/s",) * 3
    expected = 100 * wrist(*FILES["ax6.cwa"])[:, ::-1]
    np.testing.assert_allclose(recording.values[:, 3:], expected, rtol=0, atol=1.01 * 1000 / 32768)


@pytest.mark.parametrize("rate_hz", [30, 75])
def test_samples_of_16_bits_equal_those_of_12(tmp_path, rate_hz):
    acc = wrist(rate_hz, 20 * rate_hz)
    packed, plain = (read(write_gt3x(tmp_path / f"{kind}.gt3x", acc, rate_hz, kind=kind)) for kind in (0, 26))
    np.testing.assert_array_equal(plain.values, packed.values)
    np.testing.assert_array_equal(plain.time_s, packed.time_s)
    assert (plain.start, plain.rate_hz, plain.facts.serial) == (packed.start, rate_hz, packed.facts.serial)


def test_records_without_acceleration_are_named(tmp_path):
    path = write_gt3x(tmp_path / "p.gt3x", wrist(30, 300), 30, kind=25)
    with pytest.raises(ValueError, match=r"no acceleration, only records of the types 0x15, 0x19"):
        read(path)


@pytest.mark.parametrize("name", ["geneactiv.bin", "ax3.cwa"])
def test_gzipped_files_are_equal(device_files, tmp_path, name):
    packed = gzip.compress((device_files / name).read_bytes())
    path = tmp_path / f"anna.{name}.gz"
    path.write_bytes(packed)
    recording = read(path)
    np.testing.assert_array_equal(recording.values, read(device_files / name).values)
    assert recording.subject == "anna"


def test_time_zone_of_the_device_clock(device_files, tmp_path):
    london = ReadOptions(tz="Europe/London")
    winter = read(device_files / "ax3.cwa", london)
    assert (winter.start.hour, winter.start.utcoffset()) == (START.hour, timedelta(0))
    moment = datetime(2023, 6, 8, 12, 21, 4, 500_000)
    summer = read(
        write_cwa(tmp_path / "summer.cwa", wrist(100, 600), 100, start=moment), ReadOptions(tz="Europe/London")
    )
    assert (summer.start.hour, summer.start.utcoffset()) == (12, timedelta(hours=1))
