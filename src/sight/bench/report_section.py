"""A section of the benchmark's report: what it says, its tables and its figures, as HTML and as Markdown."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from sight.bench.table_format import Table
from sight.report.html import Html, tag


@dataclass(kw_only=True)
class Section:
    """One experiment on one setting, or on several."""

    name: str
    title: str
    said: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)  # name to SVG

    def html(self) -> Html:
        """Write the section of the page."""
        drawn = [_figure(text, f"{self.title}: {name}") for name, text in self.figures.items()]
        said = tag("ul", *(tag("li", sentence) for sentence in self.said), class_="said") if self.said else None
        return tag("section", tag("h2", self.title), said, *drawn, *(t.html() for t in self.tables), id=self.name)

    def markdown(self) -> str:
        """Write the section of the Markdown report."""
        drawn = [f"![{self.title}](figures/{name}.svg)" for name in self.figures]
        said = "\n".join(f"- {sentence}" for sentence in self.said)
        parts = [f"## {self.title}", said, *drawn, *(table.markdown().strip() for table in self.tables)]
        return "\n\n".join(part for part in parts if part)


def _figure(text: str, label: str) -> Html:
    data = base64.b64encode(text.encode()).decode()
    return tag("figure", tag("img", src=f"data:image/svg+xml;base64,{data}", alt=label))
