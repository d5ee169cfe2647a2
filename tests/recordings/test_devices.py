"""Device files: rate, unit, start and pauses."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from sight.recordings.devices import read_device
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_files import read
from sight.recordings.signal import prepare
from sight.recordings.signal.quality import rest_g, warnings_for
from sight.recordings.signal.sampling_rate import estimate_rate

actfast = pytest.importorskip("actfast")

SAMPLES = {
    "ax3_sample.cwa": (200, 58_800, datetime(2020, 2, 12, 9, 3, 37, 481811, UTC)),
    "ax6_sample.cwa": (100, 10_360, datetime(2019, 10, 29, 9, 3, 6, 307977, UTC)),
    "tiny-sample.cwa.gz": (100, 1_021_800, datetime(2023, 6, 8, 12, 21, 4, 514282, UTC)),
    "ex.bin": (60, 27_300, datetime(2025, 3, 17, 12, 37, 33, tzinfo=timezone(timedelta(hours=-5)))),
    "ex.gt3x": (60, 4860, datetime(2024, 4, 30, 14, 53, tzinfo=timezone(timedelta(hours=-5)))),
    "ggir.gt3x": (30, 17_640, datetime(2020, 8, 26, 10, 9, tzinfo=timezone(timedelta(hours=2)))),
}


@pytest.mark.real
@pytest.mark.parametrize("name", SAMPLES)
def test_rate_unit_and_start(real, name):
    rate, samples, start = SAMPLES[name]
    recording = read(real(f"device/{name}"))
    assert recording.rate_hz == rate
    assert recording.start == start
    assert len(recording.values) == samples
    assert recording.unit[:3] == ("g", "g", "g")
    assert recording.time_s[0] == 0
    assert np.median(np.linalg.norm(recording.values[:, :3], axis=1)) == pytest.approx(1, abs=0.06)
    assert estimate_rate(recording.time_s) == pytest.approx(rate, rel=0.03)


@pytest.mark.real
@pytest.mark.parametrize("name", ["ax3_sample.cwa", "ax6_sample.cwa", "ex.bin"])
def test_small_jumps_between_blocks_are_not_gaps(real, name):
    windows = prepare(read(real(f"device/{name}")), rate_hz=50, window_s=2, stride_s=1)
    assert windows.facts.gaps == 0
    assert not windows.gap_before_s.any()
    assert np.isfinite(windows.x).all()


@pytest.mark.real
def test_actigraph_idle_sleep_mode_leaves_gaps(real):
    recording = read(real("device/ggir.gt3x"))
    windows = prepare(recording, rate_hz=30, window_s=5, stride_s=5)
    intervals = np.diff(recording.time_s)
    assert windows.facts.gaps == (intervals > 0.5).sum() > 5
    assert windows.facts.gap_longest_s == pytest.approx(261.03, abs=0.01)
    assert windows.gap_before_s.max() >= 261


@pytest.mark.real
def test_a_gyroscope_is_read_too(real):
    recording = read(real("device/ax6_sample.cwa"))
    assert recording.channels == ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
    assert recording.unit[3:] == ("deg/s",) * 3


@pytest.mark.real
def test_a_good_recording_has_no_warnings(real):
    recording = read(real("device/tiny-sample.cwa.gz"))
    assert rest_g(recording) == pytest.approx(1, abs=0.05)
    assert warnings_for(recording) == ()


@pytest.mark.real
def test_calibration_reduces_the_error_or_gives_a_reason(real):
    windows = prepare(read(real("device/tiny-sample.cwa.gz")), rate_hz=50, window_s=10, stride_s=10, calibration="auto")
    facts = windows.facts
    if facts.calibrated:
        assert facts.calibration_error_after_mg < min(10, facts.calibration_error_before_mg)
    else:
        assert facts.calibration_note


@pytest.mark.real
def test_gzipped_files_are_equal(real, tmp_path):
    plain = real("device/ex.bin")
    (tmp_path / "ex.bin.gz").write_bytes(gzip.compress(plain.read_bytes()))
    packed = read(tmp_path / "ex.bin.gz")
    np.testing.assert_array_equal(packed.values, read(plain).values)
    assert packed.subject == "ex"


@pytest.mark.real
def test_time_zone_of_the_device_clock(real):
    recording = read(real("device/ax3_sample.cwa"), ReadOptions(tz="Europe/London"))
    assert recording.start.hour == 9
    assert recording.start.utcoffset() == timedelta(0)
    summer = read(real("device/tiny-sample.cwa.gz"), ReadOptions(tz="Europe/London"))
    assert summer.start == datetime(2023, 6, 8, 11, 21, 4, 514282, UTC)


@pytest.mark.parametrize("name", ["p.cwa", "p.gt3x", "p.bin"])
def test_other_files_are_rejected(tmp_path, name):
    (tmp_path / name).write_bytes(b"not a device file" * 100)
    with pytest.raises(ValueError, match="device file"):
        read_device(tmp_path / name)
    with pytest.raises(ValueError, match="There is no file"):
        read_device(tmp_path / f"absent-{name}")


@pytest.mark.real
def test_a_truncated_gz_is_read_as_far_as_it_goes(real, tmp_path):
    whole = real("device/tiny-sample.cwa.gz").read_bytes()
    (tmp_path / "half.cwa.gz").write_bytes(whole[: len(whole) // 2])
    recording = read(tmp_path / "half.cwa.gz")
    assert 400_000 < len(recording.values) < 600_000
    assert "cut off" in recording.warnings[0].text
