"""Facts about a recording: what reading, the signal steps and windowing found out about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self


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
    serial: str | None = None
    firmware: str | None = None
    placement: str | None = None
    read_errors: int | None = _total()
    temperature_c: float | None = None
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
    unfamiliar_share: float | None = None
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
