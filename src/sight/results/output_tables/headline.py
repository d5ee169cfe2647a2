"""One sentence about the days of a recording."""

from collections.abc import Sequence

from sight._util.durations import hours_text
from sight.results.output_tables import Row
from sight.results.output_tables.cells import mean
from sight.results.output_tables.daily import IN_BED, hour_columns
from sight.results.summary import ResultSummary


def headline(summary: ResultSummary) -> str:
    """Return the sentence of `time_use`; without numbers if a warning is an error."""
    if not summary.usable:
        return "The numbers cannot be used, see the error"
    return time_use(summary.rows("daily"), summary.classes)


def time_use(daily: Sequence[Row], classes: Sequence[str], most: int = 4) -> str:
    """Return time in bed and the hours of the most frequent classes: means over valid days, else those of all time."""
    valid = [row for row in daily if row["valid"]]
    names, _ = hour_columns(classes)

    def hours(name: str) -> float:
        return (mean(valid, name) or 0.0) if valid else sum(row[name] for row in daily)

    order = sorted(range(len(names)), key=lambda k: -hours(names[k]))
    used = ", ".join(f"{hours_text(hours(names[k]))} {classes[k]}" for k in order[:most] if hours(names[k]) > 0)
    if daily and IN_BED in daily[0] and hours(IN_BED):
        used = f"{hours_text(hours(IN_BED))} in bed; awake {used}" if used else f"{hours_text(hours(IN_BED))} in bed"
    if not valid:
        worn = hours_text(sum(row["wear_h"] for row in daily))
        text = f"In {worn} of worn time: {used or 'no activity'}"
        return f"No valid day of {len(daily)}. {text}" if len(daily) > 1 else text
    return f"{len(valid)} valid day{'s' if len(valid) > 1 else ''} of {len(daily)}: on average {used} a day"
