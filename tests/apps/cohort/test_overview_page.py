"""The overview page in a browser without network: filtering, sorting and thousands of lines."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest

from sight.apps.cohort.overview_list import Scale, common_scale
from sight.apps.cohort.overview_page import write_overview, write_recording_pages
from sight.apps.cohort.results_folder import ResultsFolder
from sight.apps.cohort.thumbnail import thumbnail
from sight.registry import method
from sight.results.output_tables import table
from sight.results.prediction_loop import run
from sight.results.summary import ResultSummary
from sight.testing import ToySource, toy_stream
from tests.helpers.cohorts import READABLE

VISIBLE = "[...document.querySelectorAll('#list li:not([hidden]) b')].map((node) => node.textContent)"


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_the_overview_opens_without_requests_or_messages_at_any_width(opened, cohort, width, scheme):
    page = opened(cohort / "overview.html", width, scheme)
    assert page.messages == [f"request: {(cohort / 'overview.html').as_uri()}"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(VISIBLE) == READABLE
    drawn = page.evaluate("document.querySelector('#list svg path').getBoundingClientRect().width")
    assert 0 < drawn < width
    assert "torn.npz" in page.inner_text("main")


def test_the_overview_is_filtered_and_sorted(opened, cohort):
    page = opened(cohort / "overview.html")
    assert page.inner_text("#folder") == str(cohort)
    page.fill("#name", "SITE")
    assert page.evaluate(VISIBLE) == ["site-P3", "site-P4"]
    page.fill("#name", "")
    page.select_option("#order", "changed")
    changed = pd.read_csv(cohort / "summary/recordings.csv").sort_values(
        "changed_share", ascending=False, kind="stable"
    )
    assert page.evaluate(VISIBLE) == changed["recording"].tolist()
    page.select_option("#flag", "gaps")
    flagged = changed[changed["flags"].str.contains("gaps")]["recording"].tolist()
    assert page.evaluate(VISIBLE) == flagged != []
    page.fill("#name", "unknown")
    assert page.is_visible("#none")
    assert page.inner_text("#count") == "0 shown"


def test_headings_sort_in_both_directions(opened, cohort):
    page = opened(cohort / "overview.html")
    hours = pd.read_csv(cohort / "summary/recordings.csv").set_index("recording")["recorded_hours"]
    head = page.get_by_role("button", name="Recorded")
    for descending in (True, False):
        head.click()
        found = [hours[name] for name in page.evaluate(VISIBLE)]
        assert found == sorted(found, reverse=descending)
        assert page.input_value("#order") == "recorded"


def test_lanes_have_one_time_scale(opened, cohort):
    page = opened(cohort / "overview.html")
    facts = [ResultsFolder(cohort).read_facts(name)["thumbnail"] for name in READABLE]
    longest = max(each["span_s"] for each in facts)
    widths = page.evaluate(
        "[...document.querySelectorAll('#list .field')].map((field) => "
        "field.firstChild.getBoundingClientRect().width / field.getBoundingClientRect().width)"
    )
    assert widths == pytest.approx([each["span_s"] / longest for each in facts], abs=0.01)
    assert page.locator(".scale span").first.inner_text() == "0"


def test_long_recordings_are_aligned_at_midnight_and_an_extreme_one_is_cut():
    week = {"span_s": 7 * 86400.0, "offset_s": 9 * 3600}
    assert common_scale([week] * 9) == Scale(8 * 86400, True)
    assert common_scale([week] * 9 + [week | {"span_s": 50 * 86400.0}]).length_s < 20 * 86400
    assert common_scale([week | {"offset_s": None}] * 3) == Scale(7 * 86400, False)
    assert common_scale([week | {"span_s": 600.0}] * 3) == Scale(600, False)


def test_ticks_are_days_or_round_times():
    days, minutes = Scale(3 * 86400, True).ticks(), Scale(1800, False).ticks(4)
    assert days == [(0.0, "day 1"), (1 / 3, "2"), (2 / 3, "3")]
    assert minutes == [(0.0, "0"), (1 / 3, "10 min"), (2 / 3, "20 min"), (1.0, "30 min")]


def test_a_thumbnail_has_a_path_for_each_class_and_its_length():
    drawing = thumbnail(ResultSummary(run(method("none").bind(ToySource()), toy_stream(n=300))))
    assert sorted(drawing["paths"]) == ["k0", "k1", "k2", "k3", "k4"]
    assert (drawing["span_s"], drawing["offset_s"]) == (301.0, None)


def test_a_flag_of_all_recordings_is_stated_once(opened, cohort, tmp_path):
    shutil.copytree(cohort, tmp_path / "out")
    table = pd.read_parquet(tmp_path / "out/summary/recordings.parquet")
    table["flags"] = ["no_clock gaps", *["no_clock"] * (len(table) - 1)]
    table.to_parquet(tmp_path / "out/summary/recordings.parquet", index=False)
    write_overview(ResultsFolder(tmp_path / "out"), READABLE, [])
    page = opened(tmp_path / "out/overview.html")
    assert page.inner_text("#shared") == "All recordings: no time of day."
    assert page.locator(".list .flag").all_inner_texts() == ["gaps"]


def test_participants_are_shown_searched_and_sorted(opened, cohort, tmp_path):
    shutil.copytree(cohort, tmp_path / "out")
    folder = ResultsFolder(tmp_path / "out")
    people = pd.DataFrame(
        {"recording": READABLE, "age": [70, 9, None, 50, 8], "site": ["Bonn", "Oslo", "Oslo", None, "Bonn"]}
    )
    people.assign(valid_days=[1, 5, 2, 3, 0]).to_parquet(folder.summary / "summary.parquet", index=False)
    people.assign(**dict.fromkeys(table("nonwear").fixed, 0)).to_parquet(
        folder.summary / "nonwear.parquet", index=False
    )
    write_overview(folder, READABLE, [])
    page = opened(tmp_path / "out/overview.html")
    page.select_option("#order", label="age")
    assert page.evaluate(VISIBLE) == ["P1", "site-P3", "P2", "site-P4", "P5"]  # a missing age comes last
    page.select_option("#order", label="valid days")
    assert page.evaluate(VISIBLE) == ["P2", "site-P3", "P5", "P1", "site-P4"]
    page.fill("#name", "oslo")
    assert sorted(page.evaluate(VISIBLE)) == ["P2", "P5"]


def test_names_open_the_reports_of_all_recordings(opened, cohort, tmp_path):
    shutil.copytree(cohort, tmp_path / "out")
    written = write_recording_pages(tmp_path / "out", READABLE)
    assert all(path.is_file() for path in written)
    page = opened(tmp_path / "out/overview.html")
    page.get_by_role("link", name="site-P4").click()
    assert page.locator("h1").inner_text() == "Activities of site-P4"


def many(cohort, out, count):
    """Write summary and facts of many recordings, copied from one."""
    shutil.copytree(cohort, out)
    one = pd.read_parquet(out / "summary/recordings.parquet").iloc[:1]
    names = [f"R{number:05d}" for number in range(count)]
    table = pd.concat([one] * count, ignore_index=True).assign(recording=names, wear_hours=np.arange(count) % 170.0)
    table.to_parquet(out / "summary/recordings.parquet", index=False)
    for name in names:
        shutil.copyfile(out / "facts/P1.json", out / f"facts/{name}.json")
    return names


def test_thousands_of_recordings_are_filtered_and_sorted_quickly(opened, cohort, tmp_path):
    names = many(cohort, tmp_path / "out", 2000)
    write_overview(ResultsFolder(tmp_path / "out"), names, [])
    page = opened(tmp_path / "out/overview.html")
    assert (tmp_path / "out/overview.html").stat().st_size < 2000 * 3000
    took = page.evaluate(
        """() => {
            const begun = performance.now();
            const name = document.getElementById("name"), order = document.getElementById("order");
            name.value = "7"; name.dispatchEvent(new Event("input"));
            order.value = "wear"; order.dispatchEvent(new Event("change"));
            document.body.getBoundingClientRect();
            return performance.now() - begun;
        }"""
    )
    assert took < 3000
    assert page.evaluate(VISIBLE)[0] == next(n for n in names if "7" in n and int(n[1:]) % 170 == 169)


def test_a_large_cohort_has_several_pages(cohort, tmp_path, monkeypatch):
    names = many(cohort, tmp_path / "out", 25)
    monkeypatch.setattr("sight.apps.cohort.overview_page.PAGE_SIZE", 10)
    write_overview(ResultsFolder(tmp_path / "out"), names, [])
    pages = sorted(path.name for path in (tmp_path / "out").glob("overview*.html"))
    assert pages == ["overview-2.html", "overview-3.html", "overview.html"]
    assert (tmp_path / "out/overview-3.html").read_text("utf-8").count("<li data-flags") == 5
    monkeypatch.setattr("sight.apps.cohort.overview_page.PAGE_SIZE", 100)
    write_overview(ResultsFolder(tmp_path / "out"), names, [])
    assert [path.name for path in (tmp_path / "out").glob("overview*.html")] == ["overview.html"]
