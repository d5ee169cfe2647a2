"""Data types that the parts of the package exchange: recordings, windows, events and results.

All are frozen dataclasses that check their shapes once. Letters in shapes mean the same everywhere: ``n`` samples,
``B`` windows of a call, ``N`` windows of a stream, ``C`` channels, ``T`` samples of a window, ``K`` classes, ``D``
features.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from sight._util.arrays import Array as Array  # noqa: PLC0414 - exported
from sight._util.recording_facts import RecordingFacts as RecordingFacts  # noqa: PLC0414 - exported

UNLABELLED = -1
#: Length of an epoch in seconds.
EPOCH_S = 5.0
Severity: TypeAlias = Literal["error", "warning", "note"]
#: The worst first.
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, kw_only=True)
class Warning:
    """What looks wrong with a recording or a result, and what to do about it.

    Parameters
    ----------
    kind
        Short name of the cause, the same for every warning of that cause: "unit", "rate", "time-zone".
    severity
        "error" if the numbers cannot be used, "warning" to look before using them, "note" otherwise.
    text, remedy
        What was found, and what to do, if anything; a remedy in lower case continues the sentence of `text`.

    Examples
    --------
    >>> str(Warning(kind="rate", severity="warning", text="The rate is 10 Hz.", remedy="set rate (--rate)."))
    'The rate is 10 Hz; set rate (--rate).'
    """

    kind: str
    severity: Severity
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        if self.remedy[:1].islower():
            return f"{self.text.removesuffix('.')}; {self.remedy}"
        return f"{self.text} {self.remedy}".rstrip()


def worst_first(warnings: Iterable[Warning]) -> list[Warning]:
    """Return warnings by severity, errors first."""
    return sorted(warnings, key=lambda warning: SEVERITIES.index(warning.severity))


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """Samples of one person's sensor, as read from one file.

    Parameters
    ----------
    values
        Samples, (n, C) float32.
    time_s
        Seconds since `start`, (n,) float64. May jump; `sight.recordings.signal` finds gaps and
        repairs small irregularities.
    labels
        Class index of each sample, -1 for unlabelled samples; None without labels.
    channels, unit
        A name and a unit for each channel; a single unit applies to all.
    rate_hz
        Nominal sampling rate.
    start
        Wall clock at ``time_s == 0`` (with a time zone); None if unknown.
    subject
        Name of the person who wore the sensor.
    warnings, facts
        What looks wrong with it, and figures that the reader reports.
    """

    values: Array
    time_s: Array
    labels: Array | None = None
    channels: tuple[str, ...]
    unit: tuple[str, ...] | str
    rate_hz: float
    start: datetime | None = None
    subject: str = ""
    warnings: tuple[Warning, ...] = ()
    facts: RecordingFacts = field(default_factory=RecordingFacts)

    def __post_init__(self) -> None:
        units = (self.unit,) * len(self.channels) if isinstance(self.unit, str) else tuple(self.unit)
        object.__setattr__(self, "unit", units)
        n = len(self.values)
        if self.values.ndim != 2 or self.values.shape[1] != len(self.channels) or len(units) != len(self.channels):
            raise ValueError(
                f"Recording: expected values (n, {len(self.channels)}) for channels {self.channels}, "
                f"got {self.values.shape} and {len(units)} units; give one channel name and one unit per column."
            )
        for name, array in (("time_s", self.time_s), ("labels", self.labels)):
            if array is not None and array.shape != (n,):
                raise ValueError(
                    f"Recording: expected {name} of shape ({n},), got {array.shape}; one entry per sample."
                )


@dataclass(frozen=True, kw_only=True, eq=False)
class Epochs:
    """Movement of the sensor in epochs of `EPOCH_S`, five seconds, at the rate of the device.

    Parameters
    ----------
    time_s
        Start of each epoch, in seconds as in `Windows.time_s`, (M,), increasing; epochs without data are left out.
    enmo_mg, mad_mg
        Intensity of movement, (M,) float32: Euclidean norm minus one, and mean amplitude deviation.
    angle_deg
        Angle of the z axis to the horizontal plane, (M,) float32.
    wear
        Whether the sensor was worn, (M,) bool.
    """

    time_s: Array
    enmo_mg: Array
    mad_mg: Array
    angle_deg: Array
    wear: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """Windows of one person in time order; feature vectors are windows with T = 1.

    Parameters
    ----------
    x
        Windows, (N, C, T) float32.
    time_s
        Start of each window, seconds since `start`, (N,) float64.
    label
        Class index of each window, (N,), -1 for unlabelled windows. Adapters never see it.
    gap_before_s
        Seconds missing before each window, (N,); 0 where the recording is continuous.
    wear
        Whether the sensor was worn, (N,) bool; all True if not determined.
    window_s, stride_s
        Length of a window and distance between two.
    start
        Wall clock at ``time_s == 0``, or None.
    intensity
        Intensity of movement in each window, name to (N,); empty if the unit is unknown. See
        `sight.recordings.signal.intensity`.
    epochs
        Movement at the rate of the device; None if only windows were read, or the unit is unknown.
    warnings, facts
        What looks wrong with the recording, and figures that reading and windowing report.
    """

    x: Array
    time_s: Array
    label: Array
    gap_before_s: Array
    window_s: float
    stride_s: float
    wear: Array | None = None
    start: datetime | None = None
    intensity: Mapping[str, Array] = field(default_factory=dict)
    epochs: Epochs | None = None
    warnings: tuple[Warning, ...] = ()
    facts: RecordingFacts = field(default_factory=RecordingFacts)

    def __post_init__(self) -> None:
        n = len(self.x)
        if self.wear is None:
            object.__setattr__(self, "wear", np.ones(n, dtype=bool))
        if self.x.ndim != 3:
            raise ValueError(f"Windows: expected x of shape (N, C, T), got {self.x.shape}; add the missing axis.")
        for name in ("time_s", "label", "gap_before_s", "wear"):
            if getattr(self, name).shape != (n,):
                raise ValueError(f"Windows: expected {name} of shape ({n},), got {getattr(self, name).shape}.")

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceStats:
    """Statistics of the training data that methods may use; never the data themselves.

    Parameters
    ----------
    prior
        Share of each class in the training data, (K,).
    feature_mean
        Mean feature, (D,).
    class_means
        Mean feature of each class, (K, D); the overall mean for a class without windows.
    count, subjects
        Number of windows, and of the subjects they are from; 0 if unknown.
    """

    prior: Array
    feature_mean: Array
    class_means: Array
    count: int = 0
    subjects: int = 0

    def __post_init__(self) -> None:
        shape = np.shape(self.class_means)
        if len(shape) != 2 or np.shape(self.prior) != shape[:1] or np.shape(self.feature_mean) != shape[1:]:
            raise ValueError(
                f"SourceStats: expected prior (K,), feature_mean (D,) and class_means (K, D), got "
                f"{np.shape(self.prior)}, {np.shape(self.feature_mean)} and {shape}; compute them again."
            )
        for name in ("prior", "feature_mean", "class_means"):
            values = np.asarray(getattr(self, name))
            if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
                raise ValueError(f"SourceStats: expected finite numbers as {name}, got others; train the model again.")
        if (np.asarray(self.prior) < 0).any():
            raise ValueError("SourceStats: expected shares of classes as prior, got negative ones.")
        if self.count < 0 or self.subjects < 0:
            raise ValueError(
                f"SourceStats: expected numbers of windows and subjects, got {self.count} and {self.subjects}."
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class NormLayers:
    """Batch normalisations of an encoder whose statistics can be given with each window."""

    widths: Mapping[str, int]  # number of channels of each layer by name, in the order of the network; C in total
    trained: Array  # trained mean and variance of these channels, (2, C)


@dataclass(frozen=True, kw_only=True, eq=False)
class Event:
    """Prediction of a live session for one window.

    Parameters
    ----------
    window, time_s
        Index of the window in its stream, from 0, and its start in seconds.
    q, p
        Refined and raw probabilities, (K,). The raw ones of a method that encodes windows itself (`Adapter.encodes`)
        are those of the model as the method uses it.
    gap_s
        Seconds missing before the window.
    diagnostics
        Diagnostics of the method, such as the surprise.
    """

    window: int
    time_s: float
    q: Array
    p: Array
    gap_s: float = 0.0
    diagnostics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """Predictions of a method on a stream of windows.

    Parameters
    ----------
    method, params
        Registry name of the method, and its hyper-parameters.
    classes
        Names of the K classes.
    p, q
        Raw and refined probabilities, (N, K).
    windows
        The windows: times, gaps, wear and, for evaluation only, labels.
    trace
        Diagnostics for each window, name to (N,).
    lag
        Number of later windows that a prediction uses: 0 for live predictions, infinity for the whole recording.
    rule, notes, state_bytes
        Streaming rule, remarks and size of the state of the method.
    parts_are_ours, sight_version
        Whether we completed parts that the method's paper leaves open; version that made the predictions.
    """

    method: str
    params: Mapping[str, Any]
    classes: tuple[str, ...]
    p: Array
    q: Array
    windows: Windows
    trace: Mapping[str, Array] = field(default_factory=dict)
    lag: float = 0.0
    rule: str = ""
    notes: Sequence[str] = ()
    state_bytes: Mapping[str, int] = field(default_factory=dict)
    parts_are_ours: bool = False
    sight_version: str = ""

    @property
    def name(self) -> str:
        """Name of the method, with the lag of its predictions if there is one."""
        return f"{self.method}, {self.rule}" if self.lag else self.method

    @property
    def label(self) -> str:
        """Name for tables; a star marks a method whose authors did not publish their code."""
        return f"{self.name} *" if self.parts_are_ours else self.name
