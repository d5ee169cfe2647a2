"""Data types that the parts of the package exchange: recordings, windows, events and results.

All are frozen dataclasses that check their shapes once. Letters in shapes mean the same everywhere: ``n`` samples,
``B`` windows of a call, ``N`` windows of a stream, ``C`` channels, ``T`` samples of a window, ``K`` classes, ``D``
features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from sight._util.arrays import Array as Array  # noqa: PLC0414 - exported

UNLABELLED = -1
Severity: TypeAlias = Literal["error", "warning", "note"]


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


def _total() -> Any:  # a field that is added up where recordings are joined
    return field(default=None, metadata={"merge": "sum"})


@dataclass(frozen=True, kw_only=True)
class RecordingFacts:
    """Figures about a recording and its windows; None was not determined. Names carry units.

    Counts and totals are added up where recordings are joined; other facts are kept if all recordings agree.
    `details` are figures of one dataset, by name; whole numbers among them are counts.

    Examples
    --------
    >>> parts = [RecordingFacts(gaps=1, rate_hz=50.0), RecordingFacts(gaps=2, rate_hz=50.0, details={"blocks": 3})]
    >>> RecordingFacts.merged(parts).as_dict()
    {'recordings': 2, 'blocks': 3, 'gaps': 3, 'rate_hz': 50.0}
    """

    recordings: int | None = _total()
    file: str | None = None
    files: Sequence[str] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None
    time_zone: str | None = None
    reader_warnings: Sequence[str] | None = None
    time_unit: str | None = None
    classes: Sequence[str] | None = None
    samples: int | None = _total()
    duplicate_samples: int | None = _total()
    backward_samples: int | None = _total()
    nan_samples: int | None = _total()
    nan_share: float | None = None
    gaps: int | None = _total()
    gap_total_s: float | None = _total()
    gap_longest_s: float | None = None
    burst_samples: int | None = _total()
    bridged_holes: int | None = _total()
    jitter_ms: float | None = None
    rate_nominal_hz: float | None = None
    rate_measured_hz: float | None = None
    saturated_share: float | None = None
    calibrated: bool | None = None
    calibration_epochs: int | None = _total()
    calibration_note: str | None = None
    calibration_error_before_mg: float | None = None
    calibration_error_after_mg: float | None = None
    calibration_scale: Sequence[float] | None = None
    calibration_offset_g: Sequence[float] | None = None
    nonwear_total_s: float | None = _total()
    nonwear_periods: int | None = _total()
    stretches: int | None = _total()
    rate_hz: float | None = None
    resample_delay_s: float | None = None
    windows: int | None = _total()
    windows_unlabelled: int | None = _total()
    label_rule: str | None = None
    unlabelled_windows_left_out: int | None = _total()

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Return the facts of a mapping as `as_dict` returns it; names that are no fields are details."""
        names = {each.name for each in fields(cls)}
        details = {name: value for name, value in facts.items() if name not in names}
        return cls(details=details, **{name: value for name, value in facts.items() if name in names})

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        is_total = {each.name: bool(each.metadata) for each in fields(cls)}
        known = [part.as_dict() for part in parts]
        merged: dict[str, Any] = {"recordings": len(parts)}
        for name in dict.fromkeys(name for facts in known for name in facts):
            values = [facts[name] for facts in known if name in facts]
            if is_total.get(name, all(type(value) is int for value in values)):
                merged[name] = sum(values)
            elif all(value == values[0] for value in values):
                merged[name] = values[0]
        return cls.from_dict(merged)

    def as_dict(self) -> dict[str, Any]:
        """Return the facts that were determined by name, details among them."""
        facts: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            facts |= value if each.name == "details" else {each.name: value}
        return {name: value for name, value in facts.items() if value is not None}


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
    facts: RecordingFacts = RecordingFacts()

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
    warnings: tuple[Warning, ...] = ()
    facts: RecordingFacts = RecordingFacts()

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
    norms
        Mean and mean square over windows and time of the input of each batch normalisation, by the layer's name and for
        each class, (2, K, C); the overall moments for a class without windows. None if they were not computed or the
        network has no such layer.
    """

    prior: Array
    feature_mean: Array
    class_means: Array
    count: int = 0
    subjects: int = 0
    norms: Mapping[str, Array] | None = None

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
        for name, moments in (self.norms or {}).items():
            if np.ndim(moments) != 3 or np.shape(moments)[:2] != (2, shape[0]) or not np.isfinite(moments).all():
                raise ValueError(
                    f"SourceStats: expected finite moments (2, {shape[0]}, C) of layer {name!r}, got others of shape "
                    f"{np.shape(moments)}; compute them again."
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
        Refined and raw probabilities, (K,).
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
