"""The report of a week: nights, intensity, rows by where days begin, the glossary, and pages on paper."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sight.results.notebook import to_html
from sight.results.output_tables.rules import TableRules
from sight.results.report import write_report
from sight.results.report.day_grid import day_grid
from sight.results.report.document import render
from sight.results.report.glossary import TERMS
from sight.results.summary import ResultSummary
from sight.types import RecordingFacts, Warning
from tests.helpers.made_nights import MONDAY, made_summary

CLASSES = ("sitting", "walking", "standing", "eating", "hand activity", "ball game", "stairs", "running")


@pytest.fixture(scope="module")
def week():
    """Return a week from Monday noon with six nights, of which the fourth was spent without the sensor."""
    nights = [(24 * day + 11, 24 * day + 18) for day in range(6) if day != 3]
    return made_summary(24 * 6.5, start=MONDAY.replace(hour=12), nights=nights, unworn=[(82, 91)], classes=CLASSES)


def visible(page):
    return re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL).replace("\xa0", " ")


def test_nights_and_intensity_are_tables(opened, week, tmp_path):
    page = opened(write_report(tmp_path / "r.html", week))
    rows = page.locator(".nights tbody tr")
    assert rows.count() == 7
    assert rows.nth(0).inner_text().split() == [
        *("Mon", "3", "Mar", "23:00", "06:00"),
        *("7", "h", "00", "min") * 2,
        *("100", "%") * 2,
    ]
    assert "not valid" in rows.nth(3).inner_text()
    assert page.locator(".nights tfoot").inner_text().startswith("Mean of 5 valid nights")
    assert "in bed" in page.locator(".lead").inner_text()
    intensity = page.locator(".intensity")
    assert "Moderate or vigorous (MVPA)" in intensity.inner_text()
    section = page.locator("section", has=intensity)
    assert "hildebrand-adults-wrist: light from 44.8 mg, MVPA from 100.6 mg" in section.inner_text().replace(
        "\xa0", " "
    )
    assert page.locator(".days .legend").first.inner_text().startswith("in bed")
    page.locator(".day[data-name] svg").nth(1).hover(position={"x": 5, "y": 10})
    assert "in bed" in page.locator("#tip").inner_text()
    assert page.messages == [f"request: {(tmp_path / 'r.html').as_uri()}"]


@pytest.mark.parametrize("warnings", [0, 4])
def test_a_week_prints_on_three_pages_the_last_with_parameters_and_glossary(opened, week, tmp_path, warnings):
    text = "Timestamps have no time zone and are taken as UTC; days are those of UTC and may be wrong by some hours"
    given = tuple(Warning(kind=f"kind-{i}", severity="warning", text=f"{text}.") for i in range(warnings))
    facts = {"input": {f"fact_{i}": i for i in range(35)}, "model": {"file": "wrist.onnx", "rate_hz": 20.0}}
    result = replace(week.result, windows=replace(week.result.windows, warnings=given))
    summary = ResultSummary(result, week.rules, facts)
    page = opened(write_report(tmp_path / "r.html", summary))
    pdf = page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 3
    page.emulate_media(media="print")
    assert page.locator(".more").evaluate("node => getComputedStyle(node).breakBefore") == "page"
    assert not page.locator(".timeline").is_visible()
    hours = page.locator("section", has=page.locator(".perday"))
    assert hours.evaluate("node => getComputedStyle(node).breakInside") == "avoid"


def test_the_glossary_has_the_terms_of_the_page_only(week):
    page, _, rest = render(week, []).partition("<summary>Glossary")
    terms = re.findall(r"<dt>(.*?)</dt>", rest)
    assert {"in bed", "sleep period", "MVPA", "M5", "valid day", "valid night"} <= set(terms)
    assert {"macro-F1", "accuracy", "truth"}.isdisjoint(terms)
    for name in TERMS:
        assert (name in terms) == bool(re.search(rf"\b{name}", visible(page), re.IGNORECASE)), name


def test_hours_and_minutes_are_not_torn(week):
    lead = re.search(r'class="lead">(.*?)</p>', render(week, []))[1]
    assert "5\xa0h\xa040\xa0min in bed" in lead
    assert not re.search(r"\d (h|min)\b", lead)


@pytest.mark.parametrize(
    ("days_from", "labels", "first"),
    [
        ("midnight", ("00", "24"), "Mon 3 Mar"),
        ("start", ("12", "12"), "Mon 3 Mar"),
        ("waking", ("0 h", "24 h"), "Mon 3 Mar"),
    ],
)
def test_rows_begin_where_days_do(opened, week, tmp_path, days_from, labels, first):
    summary = ResultSummary(week.result, TableRules(days_from=days_from))
    grid = day_grid(summary)
    assert (grid.hour_label(0), grid.hour_label(grid.hours)) == labels
    for d, row in enumerate(summary.rows("daily")):
        hours = grid.seconds[d].sum(axis=1) / 3600
        assert hours[:2].tolist() == pytest.approx([row["sitting_h"], row["walking_h"]], abs=1e-3)
        assert hours[-2:].tolist() == pytest.approx([row["in_bed_h"], row["non_wear_h"]], abs=1e-3)
    page = opened(write_report(tmp_path / "r.html", summary))
    assert page.locator(".day[data-name] .name").first.inner_text() == first
    assert page.locator(".hours").first.locator("span").first.inner_text().replace("\xa0", " ") == labels[0]
    assert to_html(summary)


def test_a_recording_without_nights_says_so():
    summary = made_summary(48, placement="waist", start=MONDAY)
    page = visible(render(summary, []))
    assert "Nights are not computed: the method is for the wrist, and the sensor was worn at the waist" in page
    assert "in bed" not in page
    thigh = ResultSummary(made_summary(48, placement="thigh", start=MONDAY).result)
    assert thigh.result.windows.facts == RecordingFacts(placement="thigh")
    assert "cut points" not in visible(render(thigh, []))
