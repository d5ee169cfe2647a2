"""The windower in C cuts the windows of the live windower, bit for bit, whatever the times of the samples are."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.device.host_library import Library

from sight.models.export.c import export_c
from sight.recordings.signal.live_windows import Windower
from sight.testing import ToySource

#: Rate of sensor and model, window and stride in seconds.
SENSORS = {
    "same rate": (20.0, 20.0, 2.0, 1.0),
    "nearly the same rate": (50.2, 50.0, 2.56, 1.28),
    "faster sensor": (100.0, 20.0, 2.0, 0.5),
    "slightly faster sensor": (58.8, 50.0, 1.0, 0.5),
    "slower sensor": (12.5, 50.0, 2.0, 1.0),
    "very slow sensor": (0.5, 2.0, 10.0, 1.0),
    "stride beyond the window": (20.0, 20.0, 1.0, 2.5),
    "stride of one sample": (20.0, 20.0, 1.0, 0.05),
}


@pytest.fixture(scope="module", params=SENSORS)
def both(request, tmp_path_factory):
    """Return a function that makes a live windower, the windower in C, and the rate of the sensor."""
    rate_in_hz, rate_hz, window_s, stride_s = SENSORS[request.param]

    def live():
        return Windower(rate_in_hz=rate_in_hz, rate_hz=rate_hz, channels=3, window_s=window_s, stride_s=stride_s)

    folder = tmp_path_factory.mktemp("windower") / "c"
    export_c(ToySource(), folder, method="ema", windower=live().constants(), encoder=False)
    return live, Library(folder), rate_in_hz


def compare(both, values, time_s):
    live, c, _ = both
    windower = live()
    parts = [windower.push(values[:500], time_s[:500]), windower.push(values[500:], time_s[500:]), windower.flush()]
    x, start_s, gap_s = c.windows(values, time_s)
    np.testing.assert_array_equal(x, np.concatenate([part.x for part in parts]))
    np.testing.assert_array_equal(start_s, np.concatenate([part.time_s for part in parts]))
    np.testing.assert_array_equal(gap_s, np.concatenate([part.gap_before_s for part in parts]))
    return len(x)


def regular(rate_hz, n=3000, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32), 1e5 + np.arange(n) / rate_hz


def test_regular_samples(both):
    assert compare(both, *regular(both[2])) > 10


@pytest.mark.parametrize("seed", range(3))
def test_jitter_holes_gaps_and_bursts(both, seed):
    rng, rate = np.random.default_rng(seed), both[2]
    values, time_s = regular(rate, seed=seed)
    steps = rng.choice([0.2, 0.9, 1.0, 1.1, 2.3, 4.0], size=len(time_s), p=[0.1, 0.2, 0.4, 0.2, 0.07, 0.03]) / rate
    steps[rng.random(len(steps)) < 0.002] += rng.uniform(0.5, 5000)
    assert compare(both, values, 1.7e9 + np.cumsum(steps)) > 10


def test_late_repeated_and_unusable_samples(both):
    rng = np.random.default_rng(3)
    values, time_s = regular(both[2])
    time_s += rng.normal(size=len(time_s)) * 0.6 / both[2]
    values[rng.random(len(values)) < 0.01] = np.nan
    values[7], time_s[9], time_s[11], time_s[500] = np.inf, np.nan, np.inf, time_s[499]
    assert compare(both, values, time_s) > 10


def test_clocks_that_are_set_back_or_jump_into_the_future(both):
    values, time_s = regular(both[2])
    time_s[1000:] -= 5e4
    time_s[2000] += 1e6  # one timestamp far in the future; samples in the gap that it opens go on
    assert compare(both, values, time_s) > 10


@pytest.mark.parametrize("start", [0.0, -1e6, 1e15, 1e140])
def test_times_of_any_size(both, start):
    values, time_s = regular(both[2], n=1000)
    compare(both, values, start + time_s)
    compare(both, values, start * (1 + np.arange(1000.0)))


@pytest.mark.parametrize("pause_s", [0.0, 900.0])
def test_a_stream_that_goes_on_after_its_end_starts_anew(both, pause_s):
    live, c, rate = both
    values, time_s = regular(rate)
    time_s[1500:] += pause_s
    windower = live()
    parts = [windower.push(values[:1500], time_s[:1500]), windower.flush()]
    parts += [windower.push(values[1500:], time_s[1500:]), windower.flush()]
    x, start_s, gap_s = c.windows(values, time_s, finish_at=(1500,))
    np.testing.assert_array_equal(x, np.concatenate([part.x for part in parts]))
    np.testing.assert_array_equal(start_s, np.concatenate([part.time_s for part in parts]))
    np.testing.assert_array_equal(gap_s, np.concatenate([part.gap_before_s for part in parts]))
    assert (start_s == time_s[1500]).any()


def test_a_windower_of_other_windows_is_refused(tmp_path):
    import sight

    other = Windower(rate_in_hz=20, rate_hz=20, channels=3, window_s=2, stride_s=1)
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match="Expected a windower for windows"):
        export_c(sight.load("wrist"), tmp_path / "c", windower=other.constants())
    assert not (tmp_path / "c").exists()
