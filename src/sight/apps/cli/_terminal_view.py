"""Terminal view of one wearer: raw and refined predictions as coloured bands that move with the stream."""

from collections.abc import Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sight.results.report.palette import class_colours
from sight.types import Array

SPARKS = "▁▂▃▄▅▆▇█"


class LiveBands:
    """Rich renderable of the latest `width` windows of a stream.

    `truth` is the class index of each window, -1 if unlabelled; it is only displayed, never passed to the method.
    """

    def __init__(self, classes: Sequence[str], truth: Array, stride_s: float, width: int = 72) -> None:
        self.classes, self.truth, self.stride_s, self.width = classes, truth, stride_s, width
        self.raw: list[int] = []
        self.refined: list[int] = []
        self.surprise: list[float] = []
        self.confidence = 0.0

    def add(self, p: Array, q: Array, surprise: Array) -> None:
        self.raw += p.argmax(axis=1).tolist()
        self.refined += q.argmax(axis=1).tolist()
        self.surprise += np.asarray(surprise, float).tolist()
        self.confidence = float(q[-1].max())

    def __rich__(self) -> RenderableType:
        count = len(self.refined)
        latest = slice(max(0, count - self.width), count)
        grid = Table.grid(padding=(0, 2))
        grid.add_row("truth", self._band(self.truth[latest].tolist()))
        grid.add_row("raw", self._band(self.raw[latest]))
        grid.add_row("[bold]refined[/]", self._band(self.refined[latest]))
        grid.add_row("surprise", Text("".join(SPARKS[min(7, int(8 * s))] for s in self.surprise[latest]), "dim"))
        legend = Text("  ").join(Text(f"■ {name}", self._colour(k)) for k, name in enumerate(self.classes))
        return Group(self._headline(count), grid, legend)

    def _headline(self, count: int) -> Text:
        minutes, total = count * self.stride_s / 60, len(self.truth) * self.stride_s / 60
        current = self.classes[self.refined[-1]] if count else "..."
        labelled = self.truth[:count] >= 0
        accuracy = [
            np.mean(np.array(labels)[labelled] == self.truth[:count][labelled]) if labelled.any() else 0
            for labels in (self.raw, self.refined)
        ]
        return Text.from_markup(
            f"minute {minutes:5.1f} of {total:.0f}   now [bold]{current}[/] ({self.confidence:.0%})   "
            f"accuracy so far: raw {accuracy[0]:.1%}, refined [bold]{accuracy[1]:.1%}[/]"
        )

    def _band(self, labels: Sequence[int]) -> Text:
        band = Text()
        for label in labels:
            band.append("█" if label >= 0 else "·", self._colour(label) if label >= 0 else "dim")
        return band

    def _colour(self, label: int) -> str:
        return class_colours(self.classes)[label][1]
