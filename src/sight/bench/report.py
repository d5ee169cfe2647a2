"""The report of a benchmark: one page, and every table and figure in a file of its own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from sight._version import __version__
from sight.bench import figures, findings, rows, tables
from sight.bench.coverage import left_out
from sight.bench.evidence import OURS
from sight.bench.section import Section
from sight.bench.suites import leaderboard, suites
from sight.bench.summary import CASES, Summary, by_pair, grids, summarise
from sight.report.html import Html, join, tag
from sight.sources.checkpoint import write_whole

#: How a reader meets the experiments; whatever is not named here comes last.
ORDER = (
    "table-main",
    "table-detailed",
    "ablation",
    "design",
    "sensitivity",
    "backbones",
    "order",
    "stress",
    "geometry",
    "prototypes",
    "motivation",
    "beyond",
)
#: Tables in which the paper claims that every variant is below the full method.
CLAIMED = ("ablation", "design")
STYLE = """
main { max-width: 1240px; }
.contents { columns: 2 300px; column-gap: 3rem; margin: 0; padding: 0; list-style: none; font-size: .93rem; }
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
.bench .ours > * { background: var(--hair); }
figure { margin: 1.4rem 0; }
figure img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
@media screen and (prefers-color-scheme: dark) { figure img { padding: 10px; } }
"""


def write_report(places: Sequence[Path], out: Path, *, only_across: bool = False) -> Path:
    """Write page, tables and figures of all results, and return the page.

    Parameters
    ----------
    places
        Result files, or folders that hold them.
    out
        Folder: ``index.html``, ``report.md``, ``tables/*.{md,tex}``, ``figures/*.svg``.
    only_across
        Only what lies over several settings.
    """
    table = rows.read([Path(place) for place in places])
    sections = list(compose(table, only_across=only_across))
    for section in sections:
        for entry in section.tables:
            _write(out / "tables" / f"{entry.name}.md", entry.markdown())
            _write(out / "tables" / f"{entry.name}.tex", entry.latex())
        for name, text in section.figures.items():
            _write(out / "figures" / f"{name}.svg", text)
    parts = ["# Benchmark", *left_out(table), *(section.markdown() for section in sections)]
    _write(out / "report.md", "\n\n".join(parts) + "\n")
    return _write(out / "index.html", page(table, sections))


def compose(table: Any, *, only_across: bool = False) -> Iterator[Section]:
    """Make the sections: tables over several settings, then each experiment on each."""
    yield from leaderboard(table)
    yield from suites(table)
    if only_across:
        return
    first = {name: at for at, name in enumerate(ORDER)}
    groups = sorted(table.groupby(["experiment", "setting"], sort=False), key=lambda g: first.get(g[0][0], len(first)))
    for (experiment, setting), own in groups:
        section = Section(name=f"{experiment}_{setting}", title=f"{own['title'].iloc[0]} on {setting}")
        KINDS[own["kind"].iloc[0]](section, own, str(setting))
        yield section


def _compare(section: Section, own: Any, setting: str) -> None:
    for column in ("order", "encoder"):
        cases = own[column].unique().tolist()
        if len(cases) > 1:
            _conditions(section, own, column)
            return
    summary = summarise(own)
    name, title = section.name, section.title
    section.tables += [
        tables.scores(summary, name, title),
        tables.segment_table(summary, f"{name}_segments", f"{title}: errors as segments, delay, calibration"),
    ]
    if own["ranked"].iloc[0]:
        section.said += findings.comparison(summary, setting)
        pairs = own.assign(pair=own["sources"] + own["target"])["pair"].nunique()
        if 1 < pairs <= tables.MOST_PAIRS:
            section.tables.append(tables.pair_table(by_pair(own), f"{name}_pairs", f"{title}: by pair"))
    elif grids(summary.table):
        section.said += findings.sensitivity(summary)
    elif own["paper_table"].iloc[0] in CLAIMED:
        section.said += findings.variants(summary)
    else:
        section.said += findings.parts(summary)
    if summary.table["delta"].notna().any():
        section.figures[name] = _drawn(summary)


def _alone(section: Section, own: Any, setting: str) -> None:  # noqa: ARG001 - all kinds are called alike
    summary = summarise(own)
    section.said += findings.alone(summary)
    section.tables.append(tables.alone(summary, section.name, section.title))
    section.figures[section.name] = figures.forest(summary, "Accuracy")


def _drawn(summary: Summary) -> str:
    if not grids(summary.table):
        return figures.forest(summary)
    usual = summary.table["settings"].get(OURS)
    return figures.sensitivity(summary, {} if usual is None else json.loads(usual))


def _conditions(section: Section, own: Any, column: str) -> None:
    found = {_called(str(case)): summarise(part) for case, part in own.groupby(column, sort=False)}
    if column == "order":
        found = {case: found[case] for case in ("chronological", "blocks of 32", "shuffled") if case in found}
    section.said += findings.conditions(found, ordered=column == "order")
    section.tables.append(tables.cross_table(found, section.name, section.title))
    section.figures[section.name] = figures.conditions(found)


def _called(case: str) -> str:
    return {"blocks": "blocks of 32"}.get(case, CASES.get(case, case))


def _analysis(
    say: Callable[[Any], Iterator[str]], draw: Callable[..., str], *, classes: bool
) -> Callable[[Section, Any, str], None]:
    def fill(section: Section, own: Any, setting: str) -> None:  # noqa: ARG001 - all kinds are called alike
        section.said += say(own)
        section.figures[section.name] = draw(own, list(own["classes"].iloc[0])) if classes else draw(own)

    return fill


KINDS: dict[str, Callable[[Section, Any, str], None]] = {
    "compare": _compare,
    "classes": _alone,
    "geometry": _analysis(findings.geometry, figures.geometry, classes=False),
    "prototypes": _analysis(findings.prototypes, figures.prototypes, classes=True),
    "motivation": _analysis(findings.motivation, figures.motivation, classes=True),
}


# --- the page --------------------------------------------------------------------------------------------------------


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


def _header(table: Any) -> Html:
    people = len(table.drop_duplicates(["dataset", "target"]))
    counts = {"settings": table["setting"].nunique(), "methods": table["method"].nunique(), "target subjects": people}
    line = [f"{count:,} {what}" for what, count in (counts | {"rows": len(table)}).items()]
    lead = (
        "Every method meets the same trained sources and the same streams. Differences are paired over target "
        "subjects; where a claim of the paper does not hold on a dataset, the section says so."
    )
    return tag(
        "header",
        tag("p", "Benchmark", class_="kicker"),
        tag("h1", "Adaptation methods beside the paper's numbers"),
        tag("p", *(tag("span", part) for part in line), class_="byline"),
        tag("p", lead, class_="lead"),
        *(tag("p", sentence, class_="lead") for sentence in left_out(table)),
    )


def _footer(table: Any) -> Html:
    versions = ", ".join(f"{name} {' and '.join(sorted(table[name].unique()))}" for name in ("sight", "torch", "numpy"))
    return tag("footer", f"Written by sight {__version__} from rows of {versions}; it loads nothing and sends nothing.")


def _write(path: Path, text: str) -> Path:
    return write_whole(path, text.encode())
