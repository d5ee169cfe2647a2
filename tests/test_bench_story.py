"""Several settings at once: numbers by hand, words that follow them, and committed pages that are current."""

from __future__ import annotations

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from sight.bench import boards, story, story_keel
from sight.bench.across import Across, over
from sight.bench.evidence import Evidence
from sight.bench.forms import DASH, MINUS
from sight.bench.report import compose
from sight.bench.rows import frame, write
from sight.bench.stats import bootstrap_interval, shared_interval
from sight.cli import app
from tests import documents
from tests.test_bench_report import METHOD, POINTS, rows

BASE = POINTS["Source-only"]
METHODS = METHOD | {"SIGHT, authors' code": "sight", "EMA": "ema", "Keel": "keel", "mine": "ema"}
PAIR = {"hapt-body-single": "HAPT body S", "wisdm-pooled": "WISDM P"}


def plain(text: str) -> str:
    """Text on one line, with signs as they are typed."""
    return " ".join(text.replace(MINUS, "-").split())


def made(setting: str, gains: dict[str, float], *, dataset: str = "hapt", **changes) -> list[dict]:
    points = {"Source-only": BASE} | {k: tuple(v + gain for v in BASE) for k, gain in gains.items()}
    paper = {"paper_dataset": "", "paper_case": ""}
    return rows(points, setting=setting, method=METHODS, dataset=dataset, **paper, **changes)


def two(gains: dict[str, float], others: dict[str, float]) -> Across:
    both = made("hapt-body-single", gains) + made("wisdm-pooled", others, dataset="wisdm2019")
    return over(frame(both), PAIR)


# --- numbers -------------------------------------------------------------------------------------------------------


def test_gains_over_settings_by_hand():
    found = two({"SIGHT": -1.0, "Keel": 3.0}, {"SIGHT": 2.0, "Keel": -4.0, "mine": 1.0})
    assert found.gains.loc["SIGHT"].tolist() == pytest.approx([-1.0, 2.0])
    assert found.gain("SIGHT") == pytest.approx((0.5, 0.5, 0.5))  # nobody differs from anybody
    assert found.difference("Keel", "SIGHT").mean == pytest.approx((4 - 6) / 2)
    assert found.whole == ["Source-only", "SIGHT", "Keel"]
    assert np.isnan(found.gain("mine").mean)
    assert found.each("mine").keys() == {"WISDM P"}
    assert found.harmed("Keel") == 0.5  # all runs of one setting lose four points
    assert found.harmed("SIGHT") == 0
    assert found.best_in.to_dict() == {"Source-only": 0, "SIGHT": 1, "Keel": 1, "mine": 0}


def test_people_shared_by_settings_are_drawn_together():
    rng = np.random.default_rng(0)
    one, people = rng.normal(size=12), [f"p{i}" for i in range(12)]
    assert shared_interval([one, -one], [people, people]) == pytest.approx((0, 0))  # what one setting wins, one loses
    low, high = shared_interval([one, -one], [people, [f"q{i}" for i in range(12)]])
    assert high - low > 0.2
    assert shared_interval([one], [people]) == pytest.approx(bootstrap_interval(one))
    # Independent settings: the deviation of a mean of two is that of one over the root of two.
    alone, both = bootstrap_interval(one), shared_interval([one, one], [people, [f"q{i}" for i in range(12)]])
    assert (both[1] - both[0]) / (alone[1] - alone[0]) == pytest.approx(1 / np.sqrt(2), abs=0.04)
    assert all(np.isnan(shared_interval([one, one[:3]], [people, people[:3]])))


def test_what_was_not_run_is_a_dash_and_is_said():
    found = two({"SIGHT": -1.0, "Keel": 3.0}, {"SIGHT": 2.0, "Keel": 1.0, "mine": 1.0})
    table = boards.gains(found, "nine", "The nine settings")
    cells = {row[0].text: [cell.text for cell in row] for row in table.rows}
    assert cells["mine"][1:4] == [DASH, "+1.0", DASH]
    assert cells["Keel"][1:5] == ["+3.0", "+1.0", "+2.0", "0.0"]
    assert f"mine was not run on HAPT body S ({DASH}) and has no mean." in table.note
    said = list(boards.absent(found, ["HAPT body S", "WISDM P", "HuGaDB S"]))
    assert said[0] == "No results yet on HuGaDB S; means are over the other 2 settings."


def test_the_overview_names_who_was_best_and_adds_up():
    gains = {"Sticky": 1.0, "EMA": -2.0, "SIGHT": -1.0, "SIGHT, authors' code": -3.0, "Keel": 4.0}
    table = story_keel.overview(two(gains, gains | {"EMA": 5.0}))
    (first, second, last) = ([plain(f"{cell.text} {cell.below}") for cell in row] for row in table.rows)
    assert first == [
        *("HAPT body S", "55.0", "56.0 (+1.0) Sticky", "54.0 (-1.0)", "52.0 (-3.0)", "56.0 (+1.0) Sticky"),
        "59.0 (+4.0)",
    ]
    assert second[2] == second[5] == "60.0 (+5.0) EMA"
    assert last == ["**Mean**", "55.0", "58.0 (+3.0)", "54.0 (-1.0)", "52.0 (-3.0)", "58.0 (+3.0)", "59.0 (+4.0)"]


def test_reports_hold_the_suite_in_three_forms(tmp_path):
    gains = {"Sticky": 1.0, "SIGHT": -1.0, "Keel": 4.0}
    for setting in PAIR:
        write(tmp_path / f"{setting}.parquet", made(setting, gains))
        write(tmp_path / f"{setting}_stress.parquet", made(setting, gains, experiment="stress"))
    told = CliRunner().invoke(app, ["bench", "report", str(tmp_path), "-o", str(tmp_path / "out"), "--across"])
    assert told.exit_code == 0, told.output
    page = (tmp_path / "out" / "index.html").read_text()
    for text in ("nine.md", "nine.tex", "nine_accuracy.md", "nine_beside.tex", "nine_stress.md"):
        assert (tmp_path / "out" / "tables" / text).is_file()
    board = (tmp_path / "out" / "tables" / "nine.md").read_text()
    assert "| Keel | **+4.0** [+4.0, +4.0] | **+4.0** [+4.0, +4.0] | **+4.0** [+4.0, +4.0] | 0.0 | 2 |" in board
    assert 'id="nine_stress"' in page
    assert "No results yet on HAPT S, HAPT P" in page
    assert "Main comparison on" not in page  # what lies over several settings only
    assert "Difference of accuracy to source-only" in (tmp_path / "out" / "tables" / "nine_stress.md").read_text()


def test_one_class_at_a_time_is_reported_by_accuracy():
    (section,) = (s for s in compose(frame(made("hapt", {"Keel": -4.0}, experiment="stress"))) if "stress_" in s.name)
    assert plain(section.said[1]) == "Keel: -4.0 points [-4.0, -4.0]; 12 of 12 runs lose more than 3 points."
    assert section.tables[0].heads[1] == "Accuracy"


# --- words ---------------------------------------------------------------------------------------------------------


def page(sight: float, keel: float, sticky: float = 0.5) -> str:
    gains = {"Sticky": sticky, "EMA": -5.0, "SIGHT": sight, "SIGHT, authors' code": -6.0, "Keel": keel}
    both = made("hapt-body-single", gains) + made("wisdm-pooled", gains | {"SIGHT": -sight}, dataset="wisdm2019")
    return plain(story.write(Evidence(rows=frame(both))).text)


def test_words_follow_the_numbers():
    good, bad = page(sight=2.0, keel=6.0), page(sight=-2.0, keel=-4.0, sticky=-3.0)
    assert "SIGHT gains on HAPT body S and loses on WISDM P" in good
    assert "SIGHT gains on WISDM P and loses on HAPT body S" in bad
    assert "A two-line sticky filter does better: +0.5" in good
    assert "A two-line sticky filter does worse: -3.0" in bad
    assert "| mean gain, points | +6.0 | ≥ +4.5 | met |" in good
    assert "| mean gain, points | -4.0 | ≥ +4.5 | **missed** |" in bad
    assert "Rivals that these people show to be better than Keel: none." in good
    assert "Rivals that these people show to be better than Keel: Sticky on HAPT body S (-1.0" in bad
    assert "100.0 % of runs" in bad
    assert "No results yet on HAPT S, HAPT P, HAPT body P" in good


def test_chapters_without_results_are_left_out():
    text = page(sight=2.0, keel=6.0)
    assert "## Segments and delay" in text
    for title in (
        "What chronological order is worth",
        "What features show at a change",
        "What each part of Keel earns",
    ):
        assert title not in text


# --- committed pages ------------------------------------------------------------------------------------------------


def test_the_table_of_the_readme_is_current():
    assert documents.README.read_text("utf-8") == documents.readme(), "run: make docs"


def test_figures_of_the_findings_are_current():
    """To a hundredth of a point of the page: other processors round the last digit otherwise."""
    for path, text in documents.figures().items():
        drawn, kept = (re.findall(r"-?\d+\.\d+", svg) for svg in (text, path.read_text("utf-8")))
        assert len(drawn) == len(kept), f"{path.name}: run: make docs"
        assert np.array(drawn, float) == pytest.approx(np.array(kept, float), abs=0.01), f"{path.name}: run: make docs"
        assert 'style="fill: #ffffff"' in text  # readable on a dark page too
    assert {path.name for path in (documents.DOCS / "figures").glob("findings-*")} == {
        path.name for path in documents.figures()
    }
