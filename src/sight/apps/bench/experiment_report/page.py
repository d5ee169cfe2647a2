"""Sections of the benchmark report, and the HTML document that contains them."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources

from sight import __version__
from sight.apps.bench import paper_values
from sight.apps.bench.experiment_report.table_format import Table
from sight.results.report.document import html_document
from sight.results.report.html import Html, join, tag

LEAD = (
    "All methods run on the same source models and the same streams. Differences are paired; their intervals cover "
    "other target subjects and other source models, of which there are few. The paper's values are beside ours."
)


@dataclass(kw_only=True)
class Section:
    """Tables and figures of one experiment on one setting, or on several."""

    name: str
    title: str
    tables: list[Table] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)  # name to SVG

    def html(self) -> Html:
        parts = [_figure(text, f"{self.title}: {name}") for name, text in self.figures.items()]
        parts += [table.html() for table in self.tables[:1]]
        for table in self.tables[1:]:
            heading = table.title.removeprefix(f"{self.title}: ")
            parts.append(tag("details", tag("summary", heading), table.html()))
        return tag("section", tag("h2", self.title), *parts, id=self.name)

    def markdown(self, *, figures: bool = True) -> str:
        drawn = [f"![{self.title}](figures/{name}.svg)" for name in self.figures] if figures else []
        return "\n\n".join([f"## {self.title}", *drawn, *(table.markdown().strip() for table in self.tables)])


def _figure(text: str, label: str) -> Html:
    data = base64.b64encode(text.encode()).decode()
    return tag("figure", tag("img", src=f"data:image/svg+xml;base64,{data}", alt=label))


def page(sections: Sequence[Section], counts: Sequence[str], partial: Sequence[str] = ()) -> str:
    """Return the whole document, which needs no network, with counts and missing parts of its content in the header."""
    links = [tag("li", tag("a", section.title, href=f"#{section.name}")) for section in sections]
    header = tag(
        "header",
        tag("p", "Benchmark", class_="kicker"),
        tag("h1", "Adaptation methods and the paper's values"),
        tag("p", *(tag("span", part) for part in counts), class_="byline"),
        *(tag("p", line, class_="lead") for line in partial),
        tag("p", LEAD, class_="lead"),
        tag("p", f"The paper: {paper_values.TITLE}.", class_="note"),
    )
    body = [header, tag("nav", tag("ul", *links, class_="contents"), aria_label="Contents")]
    body += [*(section.html() for section in sections), tag("footer", f"Written by sight {__version__}.")]
    style = (resources.files("sight.apps.bench.experiment_report") / "page.css").read_text("utf-8")
    return html_document("Benchmark of sight", join(body), style=f"\n{style}")
