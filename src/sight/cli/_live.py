"""A wearer in the terminal: raw and refined answers as coloured bands that move with the stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sight.report.palette import COLOURS, colour
from sight.types import Array

SPARKS = "▁▂▃▄▅▆▇█"


class LiveBands:
    """Draws the latest windows of a stream.

    Parameters
    ----------
    classes
        Names in the order of the probabilities.
    truth
        Class index of each window, -1 where unknown; shown for the eye, never given to the method.
    stride_s
        Seconds between windows.
    width
        Windows shown at once.
    """

    def __init__(self, classes: Sequence[str], truth: Array, stride_s: float, width: int = 72) -> None:
        self.classes, self.truth, self.stride_s, self.width = classes, truth, stride_s, width
        self.raw: list[int] = []
        self.refined: list[int] = []
        self.surprise: list[float] = []
        self.confidence = 0.0

    def add(self, p: Array, q: Array, surprise: Array) -> None:
        """Take the answers of the next windows."""
        self.raw += p.argmax(axis=1).tolist()
        self.refined += q.argmax(axis=1).tolist()
        self.surprise += np.asarray(surprise, float).tolist()
        self.confidence = float(q[-1].max())

    def __rich__(self) -> RenderableType:
        seen = len(self.refined)
        shown = slice(max(0, seen - self.width), seen)
        grid = Table.grid(padding=(0, 2))
        grid.add_row("truth", self._band(self.truth[shown].tolist()))
        grid.add_row("raw", self._band(self.raw[shown]))
        grid.add_row("[bold]refined[/]", self._band(self.refined[shown]))
        grid.add_row("surprise", Text("".join(SPARKS[min(7, int(8 * s))] for s in self.surprise[shown]), "dim"))
        legend = Text("  ").join(Text(f"■ {name}", self._colour(k)) for k, name in enumerate(self.classes))
        return Group(self._headline(seen), grid, legend)

    def _headline(self, seen: int) -> Text:
        minutes, total = seen * self.stride_s / 60, len(self.truth) * self.stride_s / 60
        now = self.classes[self.refined[-1]] if seen else "..."
        known = self.truth[:seen] >= 0
        right = [
            np.mean(np.array(a)[known] == self.truth[:seen][known]) if known.any() else 0
            for a in (self.raw, self.refined)
        ]
        return Text.from_markup(
            f"minute {minutes:5.1f} of {total:.0f}   now [bold]{now}[/] ({self.confidence:.0%})   "
            f"right so far: raw {right[0]:.1%}, refined [bold]{right[1]:.1%}[/]"
        )

    def _band(self, labels: Sequence[int]) -> Text:
        band = Text()
        for label in labels:
            band.append("█" if label >= 0 else "·", self._colour(label) if label >= 0 else "dim")
        return band

    @staticmethod
    def _colour(label: int) -> str:
        return colour(label % len(COLOURS))[1]
