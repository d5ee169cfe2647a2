"""Sections of the benchmark report, and the HTML document that contains them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

from sight import __version__
from sight.apps.bench import paper_values
from sight.apps.bench.report.table_format import Table
from sight.results.report.document import html_document
from sight.results.report.html import Html, join, tag

STYLE = """
main { max-width: 1240px; }
.contents { columns: 2 300px; column-gap: 3rem; margin: 1.6rem 0 0; padding: 0; list-style: none; font-size: .93rem; }
.contents li { padding: .15rem 0; break-inside: avoid; }
a { color: var(--accent); text-underline-offset: .2em; }
.block { margin-top: 1.8rem; }
.block .note { margin-top: .6rem; }
.bench { width: auto; min-width: 60%; }
.bench thead th { vertical-align: bottom; max-width: 7.5rem; }
section > details:first-of-type { margin-top: 1.4rem; border-top: 1px solid var(--rule); }
.bench tbody th, .bench td { vertical-align: top; }
.bench td, .bench thead .number { padding-left: 1.3rem; }
.bench small { display: block; color: var(--soft); font-size: .76rem; font-weight: 400; }
.bench th:first-child { position: sticky; left: 0; background: var(--paper) padding-box; }
.bench .ours > *, .bench .ours > th:first-child { background: var(--hair) padding-box; }
/* A shadow at an edge shows that the table continues there. */
.block .scroll {
  background: linear-gradient(90deg, var(--paper), transparent) 0 0 / 3rem 100% no-repeat local,
    linear-gradient(270deg, var(--paper), transparent) 100% 0 / 3rem 100% no-repeat local,
    linear-gradient(270deg, rgb(0 0 0 / .16), transparent) 100% 0 / .9rem 100% no-repeat scroll;
}
@media (max-width: 640px) {
  .bench tbody th { max-width: 7rem; white-space: normal; }
  .bench td, .bench thead .number { padding-left: .8rem; }
}
figure { margin: 1.4rem 0; }
figure img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
@media screen and (prefers-color-scheme: dark) { figure img { padding: 10px; } }
"""
LEAD = (
    "All methods run on the same source models and the same streams. Differences are paired over target subjects; "
    "their intervals do not cover other source subjects, which are few and fixed. The paper's values are beside ours."
)


@dataclass(kw_only=True)
class Section:
    """Tables and figures of one experiment on one setting, or on several."""

    name: str
    title: str
    tables: list[Table] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)  # name to SVG

    def html(self) -> Html:
        """Return the section as HTML: figures embedded, the first table open, others folded."""
        parts = [_figure(text, f"{self.title}: {name}") for name, text in self.figures.items()]
        parts += [table.html() for table in self.tables[:1]]
        for table in self.tables[1:]:
            heading = table.title.removeprefix(f"{self.title}: ")
            parts.append(tag("details", tag("summary", heading), table.html()))
        return tag("section", tag("h2", self.title), *parts, id=self.name)

    def markdown(self, *, figures: bool = True) -> str:
        """Return the section as Markdown, with links to figures in files if wanted."""
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
    return html_document("Benchmark of sight", join(body), style=STYLE)
