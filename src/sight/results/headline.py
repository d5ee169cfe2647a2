"""One sentence about the days of a recording."""

from collections.abc import Sequence

from sight._util.durations import hours_text
from sight.results.tables import Row
from sight.results.tables.cells import mean
from sight.results.tables.daily import hour_columns


def headline(daily: Sequence[Row], classes: Sequence[str], most: int = 4) -> str:
    """Return the hours of the most frequent classes: a day's mean over valid days, else those of all worn time."""
    valid = [row for row in daily if row["valid"]]
    names, _ = hour_columns(classes)
    totals = {name: sum(row[name] for row in daily) for name in names}
    hours = {name: mean(valid, name) or 0.0 for name in names} if valid else totals
    order = sorted(range(len(names)), key=lambda k: -hours[names[k]])
    used = ", ".join(f"{hours_text(hours[names[k]])} {classes[k]}" for k in order[:most] if hours[names[k]] > 0)
    if not valid:
        worn = hours_text(sum(row["wear_h"] for row in daily))
        text = f"In {worn} of worn time: {used or 'no activity'}"
        return f"No valid day of {len(daily)}. {text}" if len(daily) > 1 else text
    return f"{len(valid)} valid day{'s' if len(valid) > 1 else ''} of {len(daily)}: on average {used} a day"
