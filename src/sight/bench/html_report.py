"""The benchmark's report as one HTML document: header, contents, sections, footer."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from string import Template
from typing import Any

from sight._version import __version__
from sight.bench.aggregate import BASELINE
from sight.bench.coverage import left_out, provenance
from sight.bench.evidence import PAPER
from sight.bench.report_section import Section
from sight.bench.table_format import several
from sight.report.html import Html, join, tag

STYLE = """
main { max-width: 1240px; }
.contents { columns: 2 300px; column-gap: 3rem; margin: 1.6rem 0 0; padding: 0; list-style: none; font-size: .93rem; }
.contents li { padding: .15rem 0; break-inside: avoid; }
a { color: var(--accent); text-underline-offset: .2em; }
.said { max-width: 52em; margin: 0 0 1.4rem; padding-left: 1.1rem; }
.said li { margin: .3rem 0; }
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
/* A shadow at an edge says that the table goes on there. */
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


def page(table: Any, sections: Sequence[Section]) -> str:
    """Compose the whole document as text; it needs neither network nor server."""
    assets = files("sight.report") / "assets"
    script = (assets / "page.js").read_text("utf-8")
    links = [tag("li", tag("a", section.title, href=f"#{section.name}")) for section in sections]
    body = [_header(table), tag("nav", tag("ul", *links, class_="contents"), aria_label="Contents")]
    body += [*(section.html() for section in sections), _footer(table)]
    return Template((assets / "page.html").read_text("utf-8")).substitute(
        title="Benchmark of sight",
        style=(assets / "page.css").read_text("utf-8") + STYLE,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        body=join(body),
        script=script,
    )


def written_by(table: Any) -> str:
    """Say what wrote a report, and from what."""
    return f"Written by sight {__version__} from {provenance(table)}."


def _header(table: Any) -> Html:
    lead = (
        "Every method meets the same trained sources and the same streams. Differences are paired over target "
        "subjects; where a claim of the paper does not hold on a dataset, the section says so."
    )
    return tag(
        "header",
        tag("p", "Benchmark", class_="kicker"),
        tag("h1", "Adaptation methods beside the paper's numbers"),
        tag("p", *(tag("span", part) for part in _counts(table)), class_="byline"),
        tag("p", lead, class_="lead"),
        *(tag("p", sentence, class_="lead") for sentence in left_out(table)),
        tag("p", f"The paper: {PAPER}.", class_="note"),
    )


def _counts(table: Any) -> Iterator[str]:
    """Count settings, methods as the ranked comparisons call them, people and rows."""
    compared = table[table["ranked"]] if table["ranked"].any() else table
    yield several(table["setting"].nunique(), "setting")
    yield several(compared["label"].nunique(), "method") + (" with source-only" if _has_base(compared) else "")
    yield several(len(table.drop_duplicates(["dataset", "target"])), "target subject")
    yield several(len(table), "row")


def _has_base(table: Any) -> bool:
    return bool((table["method"] == BASELINE).any())


def _footer(table: Any) -> Html:
    return tag("footer", f"{written_by(table)} It loads nothing and sends nothing.")
