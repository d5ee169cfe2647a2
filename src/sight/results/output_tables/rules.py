"""Rules of the tables: where days begin, which are valid, how long a bout lasts, and limits of intensity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from sight._util.durations import parse_seconds
from sight._util.text import choices
from sight.recordings.signal.intensity import cut_points

#: Wear that makes a day valid, the shortest bout, and where days begin, as commands and functions take them by default.
VALID_DAY, MIN_BOUT, DAYS_FROM = "16h", "60s", "midnight"
#: Where days can begin: at local midnight, every 24 hours from the start of the recording, from waking to waking.
BEGINNINGS = (DAYS_FROM, "start", "waking")
#: Longest interruption inside a bout, in seconds.
MAX_PAUSE_S = 10.0


@dataclass(frozen=True, kw_only=True)
class TableRules:
    """Rules of the tables."""

    valid_day_h: float = (
        parse_seconds(VALID_DAY) / 3600
    )  # hours for which the sensor must be worn; means over days use valid days only
    min_bout_s: float = parse_seconds(MIN_BOUT)  # shortest bout
    min_bout_of_class_s: Mapping[str, float] = field(default_factory=dict)  # shortest bout of single classes, by name
    days_from: str = DAYS_FROM  # where days begin, one of `BEGINNINGS`
    cut_points: str = ""  # name or limits as in `intensity.cut_points`; those of the placement if empty

    def __post_init__(self) -> None:
        if self.days_from not in BEGINNINGS:
            raise ValueError(
                f"Expected the beginning of days, got {self.days_from!r}; {choices(self.days_from, BEGINNINGS)}"
            )
        cut_points(self.cut_points, None)
        if not 0 < self.valid_day_h <= 25:
            raise ValueError(f"Expected a valid day of more than 0 and up to 25 hours, got {self.valid_day_h:g}.")
        for seconds in (self.min_bout_s, *self.min_bout_of_class_s.values()):
            if not seconds > MAX_PAUSE_S:
                raise ValueError(
                    f"Expected bouts of more than {MAX_PAUSE_S:g} s, the longest interruption, got {seconds:g} s."
                )

    @classmethod
    def parse(
        cls,
        valid_day: str | float = VALID_DAY,
        min_bout: str | float | Iterable[str] | None = None,
        days_from: str = DAYS_FROM,
        cut_points: str = "",
    ) -> Self:
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
        return cls(
            valid_day_h=float(hours),
            min_bout_s=shortest,
            min_bout_of_class_s=of_class,
            days_from=days_from,
            cut_points=cut_points,
        )

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
