"""One call from a recording to the windows a model takes, with everything that was found on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isclose
from typing import Any, Literal

from sight.signal.calibrate import Calibration, calibrate, estimate
from sight.signal.clock import MAX_GAP_S, check_rate, tidy
from sight.signal.nonwear import nonwear, worn
from sight.signal.resample import SAME_RATE, resample
from sight.signal.units import convert, saturation, select
from sight.signal.windows import features, frame, whole_samples
from sight.types import Recording, Windows


def prepare(
    recording: Recording,
    *,
    rate_hz: float,
    window_s: float,
    stride_s: float,
    max_gap_s: float = MAX_GAP_S,
    label_rule: str = "majority",
    channels: Sequence[str] | None = None,
    unit: str | Sequence[str] | None = None,
    calibration: Calibration | Literal["auto"] | None = None,
    allow_empty: bool = True,
) -> Windows:
    """Bring a recording to a model's clock, channels and units, and cut it.

    Parameters
    ----------
    recording
        On any clock.
    rate_hz, window_s, stride_s, max_gap_s, label_rule
        As in `sight.signal.windows.cut`. Windows of one sample are feature vectors and are taken as they are.
    channels, unit
        Channels in the model's order, and its units; None keeps the recording's.
    calibration
        Scale and offset to apply, or "auto" to estimate them from the recording, which leaves it as it is where the
        estimate cannot be trusted.
    allow_empty
        Whether a recording shorter than a window may give none.

    Examples
    --------
    >>> import numpy as np
    >>> recording = Recording(values=np.zeros((1000, 3), np.float32), time_s=np.arange(1000) / 100, unit="g",
    ...                       channels=("x", "y", "z"), rate_hz=100)
    >>> windows = prepare(recording, rate_hz=50, window_s=2, stride_s=1)
    >>> windows.x.shape, windows.facts["gaps"]
    ((9, 3, 100), 0)
    """
    if not len(recording.values):
        raise ValueError(f"Recording {recording.subject!r} holds no samples; is the file complete?")
    if channels is not None:
        recording = select(recording, channels)
    if unit is not None:
        recording = convert(recording, unit)
    if whole_samples(window_s, rate_hz) == 1 and isclose(rate_hz, recording.rate_hz, rel_tol=SAME_RATE):
        return features(recording, max_gap_s=max_gap_s)
    facts = dict(recording.facts)
    recording, found = tidy(recording, max_gap_s=max_gap_s)
    check_rate(recording, found, max_gap_s=max_gap_s)
    recording, more = _calibrated(recording, calibration, max_gap_s)
    times, flags = nonwear(recording)
    facts |= found | saturation(recording) | more | flags
    grid, more = resample(recording, rate_hz, max_gap_s=max_gap_s)
    windows = frame(grid, window_s=window_s, stride_s=stride_s, label_rule=label_rule)
    if not len(windows) and not allow_empty:
        raise ValueError(
            f"Recording {recording.subject!r} has no stretch of {windows.window_s:g} s without a gap, so no window "
            f"fits; record longer, or ask for a shorter window_s or a larger max_gap_s."
        )
    wear = worn(times, windows.time_s + windows.window_s / 2)
    return replace(windows, start=recording.start, wear=wear, facts=facts | more | dict(windows.facts))


def _calibrated(
    recording: Recording, calibration: Calibration | Literal["auto"] | None, max_gap_s: float
) -> tuple[Recording, dict[str, Any]]:
    if calibration is None:
        return recording, {}
    facts: dict[str, Any] = {"calibrated": True}
    if not isinstance(calibration, Calibration):
        estimated, facts = estimate(recording, max_gap_s=max_gap_s)
        if estimated is None:
            return recording, facts
        calibration = estimated
    return calibrate(recording, calibration), facts
