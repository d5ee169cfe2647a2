"""All signal steps in one call: from a recording to the windows that a model takes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isclose
from typing import Any, Literal

from sight.recordings.signal.calibrate import Calibration, calibrate, estimate_calibration
from sight.recordings.signal.channels import convert, select
from sight.recordings.signal.clock import MAX_GAP_S, drop_invalid
from sight.recordings.signal.epochs import find_epochs
from sight.recordings.signal.nonwear import find_nonwear, is_worn
from sight.recordings.signal.quality import saturation
from sight.recordings.signal.resample import SAME_RATE, resample
from sight.recordings.signal.sampling_rate import check_rate, interval_facts
from sight.recordings.signal.windows import cut, feature_windows, whole_samples
from sight.types import Recording, Windows

#: Steps of `prepare` that are reported: times, calibration, non-wear, epochs, resampling, windows.
STEPS = 6


def prepare(
    recording: Recording,
    *,
    window_s: float,
    stride_s: float,
    rate_hz: float | None = None,
    max_gap_s: float = MAX_GAP_S,
    label_rule: str = "majority",
    channels: Sequence[str] | None = None,
    unit: str | Sequence[str] | None = None,
    calibration: Calibration | Literal["auto"] | None = None,
    epochs: bool = False,
    overwrite: bool = False,
    on_step: Callable[[int], object] | None = None,
) -> Windows:
    """Convert a recording to a model's channels, units and rate, and cut it into windows.

    Parameters
    ----------
    recording
        Samples on any clock.
    window_s, stride_s
        Length of a window and distance between two, rounded to whole samples. Windows of one sample are feature
        vectors; they are neither resampled nor filled.
    rate_hz
        Sampling rate of the windows; None keeps the recording's.
    max_gap_s
        A longer pause is a gap, and no window spans it.
    label_rule
        "majority", "whole" or "centre", see `sight.recordings.signal.windows.label_windows`.
    channels, unit
        Channels in the model's order, and its units; None keeps the recording's.
    calibration
        Scale and offset to apply, or "auto" to estimate them from the recording. An unreliable estimate is not
        applied; the facts contain the reason.
    epochs
        Whether to compute the epochs at the rate of the recording too, see `sight.recordings.signal.epochs`.
    overwrite
        Whether the arrays of the recording may be reused, which halves the memory; it must not be used afterwards.
    on_step
        Called with the number of finished steps, up to `STEPS`.

    Examples
    --------
    >>> import numpy as np
    >>> recording = Recording(values=np.zeros((1000, 3), np.float32), time_s=np.arange(1000) / 100, unit="g",
    ...                       channels=("x", "y", "z"), rate_hz=100)
    >>> windows = prepare(recording, rate_hz=50, window_s=2, stride_s=1)
    >>> windows.x.shape, windows.facts.gaps
    ((9, 3, 100), 0)
    """
    if not len(recording.values):
        raise ValueError(f"Recording {recording.subject!r} has no samples; is the file complete?")
    rate_hz = rate_hz or recording.rate_hz
    if channels is not None:
        recording = select(recording, channels)
    if unit is not None:
        recording = convert(recording, unit)
    if whole_samples(window_s, rate_hz) == 1 and isclose(rate_hz, recording.rate_hz, rel_tol=SAME_RATE):
        return feature_windows(recording, max_gap_s=max_gap_s)
    done = on_step or (lambda step: step)
    recording, facts = drop_invalid(recording, max_gap_s=max_gap_s, overwrite=overwrite)
    facts |= interval_facts(recording.time_s, recording.rate_hz, max_gap_s=max_gap_s)
    check_rate(recording, facts, max_gap_s=max_gap_s)
    done(1)
    recording, calibration_facts = _calibrated(recording, calibration, max_gap_s, overwrite)
    done(2)
    nonwear, nonwear_facts = find_nonwear(recording)
    facts |= saturation(recording) | calibration_facts | nonwear_facts
    done(3)
    moved = find_epochs(recording, nonwear, max_gap_s=max_gap_s) if epochs else None
    done(4)
    regular, stretches, resampling_facts = resample(recording, rate_hz, max_gap_s=max_gap_s, overwrite=overwrite)
    done(5)
    windows = cut(regular, stretches, window_s=window_s, stride_s=stride_s, label_rule=label_rule)
    worn = is_worn(nonwear, windows.time_s + windows.window_s / 2)
    known = replace(windows.facts, **facts, **resampling_facts)
    done(STEPS)
    return replace(windows, start=recording.start, wear=worn, epochs=moved, warnings=recording.warnings, facts=known)


def _calibrated(
    recording: Recording, calibration: Calibration | Literal["auto"] | None, max_gap_s: float, overwrite: bool
) -> tuple[Recording, dict[str, Any]]:
    facts: dict[str, Any] = {}
    if isinstance(calibration, Calibration):
        facts = {"calibrated": True}
    elif calibration is not None:
        calibration, facts = estimate_calibration(recording, max_gap_s=max_gap_s)
    return (recording if calibration is None else calibrate(recording, calibration, overwrite=overwrite)), facts
