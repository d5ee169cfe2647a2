"""Rules of the tables: which days are valid, and how long a bout lasts at least."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from sight._util.durations import parse_seconds
from sight._util.text import choices

#: Longest interruption inside a bout, in seconds.
MAX_PAUSE_S = 10.0


@dataclass(frozen=True, kw_only=True)
class TableRules:
    """Rules of the tables."""

    valid_day_h: float = 16.0  # hours for which the sensor must be worn; means over days use valid days only
    min_bout_s: float = 60.0  # shortest bout
    min_bout_of_class_s: Mapping[str, float] = field(default_factory=dict)  # shortest bout of single classes, by name

    def __post_init__(self) -> None:
        if not 0 < self.valid_day_h <= 25:
            raise ValueError(f"Expected a valid day of more than 0 and up to 25 hours, got {self.valid_day_h:g}.")
        for seconds in (self.min_bout_s, *self.min_bout_of_class_s.values()):
            if not seconds > MAX_PAUSE_S:
                raise ValueError(
                    f"Expected bouts of more than {MAX_PAUSE_S:g} s, the longest interruption, got {seconds:g} s."
                )

    @classmethod
    def parse(cls, valid_day: str | float = "16h", min_bout: str | float | Iterable[str] | None = None) -> Self:
        """Return the rules of texts such as "16h" and ["60s", "walking=120s"].

        Numbers are hours of a valid day and seconds of a bout; text without a unit raises ValueError.
        """
        listed = [min_bout] if isinstance(min_bout, str | float | int) else list(min_bout or ())
        shortest, of_class = cls.min_bout_s, {}
        for text in listed:
            name, equals, duration = str(text).rpartition("=")
            if equals:
                of_class[name.strip()] = parse_seconds(duration)
            else:
                shortest = parse_seconds(text)
        hours = valid_day if isinstance(valid_day, float | int) else parse_seconds(valid_day, "h") / 3600
        return cls(valid_day_h=float(hours), min_bout_s=shortest, min_bout_of_class_s=of_class)

    def is_valid_day(self, wear_h: float) -> bool:
        """Return whether a day with this wear time, not rounded, is valid."""
        return bool(wear_h >= self.valid_day_h - 1e-9)

    def is_bout(self, name: str, seconds: float) -> bool:
        return seconds >= self.min_bout_of_class_s.get(name, self.min_bout_s) - 1e-6

    def require_classes(self, classes: tuple[str, ...]) -> None:
        """Raise ValueError if a rule names a class that the model does not have."""
        for name in self.min_bout_of_class_s:
            if name not in classes:
                raise ValueError(f"The model has no class {name!r} for a shortest bout; {choices(name, classes)}")
