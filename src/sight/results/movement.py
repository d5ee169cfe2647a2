"""Levels of intensity in epochs: sedentary, light, and moderate or vigorous; the most and the least active hours."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from sight.recordings.signal.intensity import CutPoints, five_hours, in_bouts
from sight.recordings.signal.nights import Night, in_bed
from sight.types import EPOCH_S, Array, Epochs

#: Columns of the minutes of each level, in the order of `Movement.level`.
LEVELS = ("sedentary_min", "light_min", "mvpa_min")
#: Columns of a day that an hour lacks.
OF_A_DAY = ("mvpa_bout_min", "m5_mg", "m5_start_h", "l5_mg", "l5_start_h")


class Movement(NamedTuple):
    """Epochs of a recording with their levels."""

    epochs: Epochs
    cut_points: CutPoints | None
    level: Array  # place in `LEVELS`, (M,); -1 if not worn or in bed, or without cut points
    bout: Array  # whether the epoch belongs to a bout of moderate or vigorous activity, (M,) bool

    @classmethod
    def of(cls, epochs: Epochs, nights: Sequence[Night], limits: CutPoints | None) -> Self:
        level = np.full(len(epochs.time_s), -1)
        if limits is not None:
            counted = epochs.wear & ~in_bed(nights, epochs.time_s + EPOCH_S / 2)
            of_epoch = np.searchsorted((limits.light_mg, limits.moderate_mg), epochs.enmo_mg, side="right")
            level = np.where(counted, of_epoch, -1)
        stretches = np.flatnonzero(np.diff(epochs.time_s) > 1.5 * EPOCH_S) + 1
        bouts = [in_bouts(active) for active in np.split(level == LEVELS.index("mvpa_min"), stretches)]
        return cls(epochs, limits, level, np.concatenate(bouts))

    def figures(self, *spans: tuple[float, float]) -> dict[str, Any]:
        """Return mean ENMO and MAD of worn time and the minutes of each level, in the times from start to end."""
        own = np.concatenate([np.arange(*self._between(*span).indices(len(self.level))) for span in spans])
        worn = self.epochs.wear[own]
        means = {name: getattr(self.epochs, name)[own][worn] for name in ("enmo_mg", "mad_mg")}
        found: dict[str, Any] = {name: float(values.mean()) if len(values) else None for name, values in means.items()}
        if self.cut_points is not None:
            counts = np.bincount(self.level[own] + 1, minlength=len(LEVELS) + 1)[1:] * EPOCH_S / 60
            found |= dict(zip(LEVELS, counts.tolist(), strict=True))
        return found

    def day_figures(self, start_s: float, end_s: float) -> dict[str, Any]:
        """Return what a day has beside `figures`: minutes in bouts, M5 and L5, as mean and hours after its start."""
        own = self._between(start_s, end_s)
        found: dict[str, Any] = dict.fromkeys(OF_A_DAY)
        if self.cut_points is None:
            del found["mvpa_bout_min"]
        else:
            found["mvpa_bout_min"] = float(self.bout[own].sum() * EPOCH_S / 60)
        place = ((self.epochs.time_s[own] - start_s) / EPOCH_S + 1e-6).astype(np.int64)
        enmo = np.zeros(int((end_s - start_s) // EPOCH_S) + 1)
        worn = np.zeros(len(enmo), bool)
        enmo[place], worn[place] = self.epochs.enmo_mg[own], self.epochs.wear[own]
        for name, (epoch, mean) in five_hours(enmo, worn).items():
            found |= {f"{name}_mg": mean, f"{name}_start_h": EPOCH_S * epoch / 3600}
        return found

    def _between(self, start_s: float, end_s: float) -> slice:
        low, high = np.searchsorted(self.epochs.time_s, (start_s - 1e-6, end_s - 1e-6))
        return slice(int(low), int(high))
