"""Conversion of the channels a sensor sends to those a model takes."""

from collections.abc import Sequence

import numpy as np

from sight._util.unit_conversion import accelerometer_axes, factor
from sight.models.card import ModelCard
from sight.recordings.signal.calibrate import Calibration
from sight.types import Array


class ChannelMapping:
    """Selects, converts and calibrates channels sample by sample, as `prepare` does for a recording.

    `channels` and `units` are those of the sensor's columns, in their order; None takes the model's.
    """

    def __init__(
        self,
        card: ModelCard,
        channels: Sequence[str] | None = None,
        units: str | Sequence[str] | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        names = tuple(channels or card.channels)
        if missing := [name for name in card.channels if name not in names]:
            raise ValueError(
                f"Expected channel {', '.join(missing)} too, got {', '.join(names)}; name all channels of the model."
            )
        own = (units,) * len(names) if isinstance(units, str) else tuple(units or ())
        if own and len(own) != len(names):
            raise ValueError(f"Expected {len(names)} units for {', '.join(names)}, got {len(own)}; give one for each.")
        self.width = len(names)
        index = [names.index(name) for name in card.channels]
        self.index = None if index == list(range(self.width)) else index
        pairs = zip((own[column] for column in index), card.units, strict=True) if own else ()
        factors = np.array([factor(unit, to) for unit, to in pairs], np.float32)
        self.factors = None if (factors == 1).all() else factors
        self.calibration = calibration
        axes = accelerometer_axes(card.units)
        if calibration is not None and axes is None:
            raise ValueError(
                f"Expected three channels of acceleration to calibrate, got units {', '.join(card.units)}; "
                f"leave calibration out."
            )
        self.accelerometer, self.unit_g = axes or ([], 1.0)

    def apply(self, values: Array) -> Array:
        """Return samples (n, C) with the channels and units of the model."""
        values = np.asarray(values, np.float32)
        if values.ndim != 2 or values.shape[1] != self.width:
            raise ValueError(f"Expected samples (n, {self.width}), got {values.shape}; one row per sample.")
        if self.index is not None:
            values = values[:, self.index]
        if self.factors is not None:
            values = values * self.factors
        if self.calibration is not None:
            values = values.copy()
            values[:, self.accelerometer] = self.calibration.apply(values[:, self.accelerometer], self.unit_g)
        return values
