"""The one card of toy models."""

from __future__ import annotations

from typing import Any

from sight.models.card import ModelCard
from sight.testing import ToySource


def toy_card(channels: tuple[str, ...] = ("x", "y", "z"), **changes: Any) -> ModelCard:
    """Return a card of a toy model: 10 Hz, windows of 2 s every second, channels in g, with some fields changed."""
    n = len(channels)
    fields: dict[str, Any] = {"encoder": "toy", "encoder_args": {}, "classes": ToySource().classes}
    fields |= {"channels": channels, "units": ("g",) * n, "mean": (0.0,) * n, "std": (1.0,) * n}
    fields |= {"rate_hz": 10.0, "window_s": 2.0, "stride_s": 1.0}
    return ModelCard(**fields | changes)
