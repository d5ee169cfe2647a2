"""Several settings at once: numbers by hand, words that follow them, and committed pages that are current."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from sight.bench import leaderboard, story, story_claims, story_keel
from sight.bench.evidence import Evidence
from sight.bench.multi_setting import over
from sight.bench.report import compose
from sight.bench.result_rows import frame, write
from sight.bench.settings import suite
from sight.bench.stats import bootstrap_interval, shared_interval
from sight.bench.table_format import DASH
from sight.cli import app
from tests.helpers.bench_rows import BASE, PAIR, made, plain, rows, two
from tools import build_docs

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
    table = leaderboard.gains(found, "nine", "The nine settings")
    cells = {row[0].text: [cell.text for cell in row] for row in table.rows}
    assert cells["mine"][1:4] == [DASH, "+1.0", DASH]
    assert cells["Keel"][1:5] == ["+3.0", "+1.0", "+2.0", "0.0"]
    assert f"mine was not run on HAPT body S ({DASH}) and has no mean." in table.note
    said = list(leaderboard.absent(found, ["HAPT body S", "WISDM P", "HuGaDB S"]))
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


def test_the_suite_comes_first_and_the_leaderboard_says_what_it_counts():
    gains = {"Sticky": 1.0, "SIGHT": -1.0, "Keel": 4.0}
    inside = [row for setting in PAIR for row in made(setting, gains)]
    sections = list(compose(frame(inside + made("hapt", gains)), only_across=True))
    assert [section.title for section in sections] == [
        "The nine settings",
        "Leaderboard over all 3 settings with results",
    ]
    assert "It counts hapt beside the nine settings" in sections[1].said[1]
    (only,) = compose(frame(inside), only_across=True)  # the same settings once more would tell nothing
    assert only.name == "nine"
    stress = [row for setting in PAIR for row in made(setting, gains, experiment="stress")]
    titles = [section.title for section in compose(frame(inside + stress), only_across=True)]
    assert titles[1] == "One class at a time over 2 of the nine settings"


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
    assert "| mean gain, points | +6.0 | ≥ +4.5 | open (2 of 9 settings) |" in good
    assert "## Keel on 2 of the nine settings" in good
    assert "Rivals that these people show to be better than Keel: none." in good
    assert "Rivals that these people show to be better than Keel: Sticky on HAPT body S (-1.0" in bad
    assert "100.0 % of runs" in bad
    assert "No results yet on HAPT S, HAPT P, HAPT body P" in good


def test_what_was_to_be_reached_is_judged_on_the_whole_suite_only():
    for keel, mean, met in ((6.0, "+6.0", "met"), (-4.0, "-4.0", "**missed**")):
        every = frame([row for name in suite() for row in made(name, {"Sticky": 0.5, "Keel": keel}, seeds=(0,))])
        assert f"| mean gain, points | {mean} | ≥ +4.5 | {met} |" in plain(
            story_keel.reach(over(every, suite())).markdown()
        )
        assert story.where(Evidence(rows=every)) == "the nine settings"


def test_one_setting_is_told_in_the_singular():
    gains = {"Sticky": 0.5, "EMA": -5.0, "SIGHT": -2.0, "SIGHT, authors' code": -6.0, "Keel": 3.0}
    told = story.write(Evidence(rows=frame(made("hapt-body-single", gains))))
    text = plain(told.text)
    assert "1 corpus, 2 seeds" in text
    assert "SIGHT loses on HAPT body S: -2.0 [-2.0, -2.0]." in text
    assert "**Mean**" not in told.text + told.readme
    for plural in ("1 settings", "1 corpora", "of 1 setting", "on average", "all 1 "):
        assert plural not in text, plural


def test_parts_that_keel_is_better_without_are_a_list_of_their_own():
    gains = {"Sticky": 0.5, "EMA": -5.0, "SIGHT": 1.0, "SIGHT, authors' code": -6.0, "Keel": 3.0}
    without = {"Keel": 3.0, "w/o helper": 1.0, "w/o burden": 4.0, "w/o idler": 3.0, "filter only": 0.5}
    method = {"method": {"Source-only": "none"} | dict.fromkeys(without, "keel")}
    points = {"Source-only": BASE} | {k: tuple(v + gain for v in BASE) for k, gain in without.items()}
    more = rows(points, experiment="beyond", setting="hapt-body-single", **method)
    text = plain(story.write(Evidence(rows=frame(made("hapt-body-single", gains) + more))).text)
    assert "These earn their place: helper +2.0 [+2.0, +2.0]." in text
    assert "These do not show it: idler 0.0 [0.0, 0.0]." in text
    assert "Keel is better without: burden -1.0 [-1.0, -1.0]." in text


def test_windows_of_classes_that_are_never_recognised_are_counted_from_the_confusion():
    """Neither segments without a right window nor classes the person never does count."""
    confusions = (
        [[5, 5, 0], [6, 0, 0], [0, 0, 0]],
        [[0, 4, 0], [0, 9, 0], [0, 12, 1]],
        [[3, 0, 0], [0, 2, 0], [0, 0, 1]],
    )
    made = frame(rows(seeds=(0,))[: len(confusions)])
    made["details"] = [json.dumps({"confusion": table}) for table in confusions]
    assert story_keel._never(made) == pytest.approx((100 * 6 / 11 + 100 * 4 / 16) / 2)  # nothing wrong, nothing to say


def test_settings_where_no_class_comes_back_are_named_and_not_drawn():
    """There a first segment is also the last, and prototypes have nowhere to come from."""
    found = {
        "hapt-body-single": {"first": [0.1, None], "last": [0.3, None]},
        "wisdm-pooled": {"first": [None, None], "last": [None, None]},
    }
    every = [row for name, own in found.items() for row in made(name, {}, experiment="prototypes", scores=own)]
    table = frame(every)
    said = plain(" ".join(story_claims._prototypes(Evidence(rows=table))))
    assert "they come nearer on HAPT body S" in said
    assert "On WISDM P no class comes back, and there is nothing to compare." in said
    drawn = {section.name: bool(section.figures) for section in compose(table)}
    assert drawn["prototypes_hapt-body-single"]
    assert not drawn["prototypes_wisdm-pooled"]


def test_chapters_say_on_how_many_settings_and_seeds_they_rest():
    gains = {"Sticky": 0.5, "EMA": -5.0, "SIGHT": 1.0, "SIGHT, authors' code": -6.0, "Keel": 3.0}
    every = [row for name in suite() for row in made(name, gains, seeds=(0, 1, 2))]

    def text(settings, seeds) -> str:
        few = [row for name in settings for row in made(name, gains, experiment="stress", seeds=seeds)]
        for order in ("chronological", "blocks", "shuffled"):
            few += [r for name in settings for r in made(name, gains, experiment="order", order=order, seeds=seeds)]
        return plain(story.write(Evidence(rows=frame(every + few))).text)

    some = text(list(suite())[:5], (0,))
    assert "points to SIGHT (5 of 9 settings, 1 seed)." in some
    assert "shuffled (5 of 9 settings, 1 seed); to others, Sticky" in some
    assert "On shuffled streams (5 of 9 settings, 1 seed) Keel gains" in some
    assert "as a stream of its own (5 of 9 settings, 1 seed) Keel gains" in some
    assert "(9 of 9 settings, 2 seeds)" in text(suite(), (0, 1))
    assert "On shuffled streams Keel gains" in text(suite(), (0, 1, 2))  # nothing less than all, nothing to say
    beside = text(["hapt"], (0, 1, 2))
    assert "On shuffled streams (HAPT, paper's pairs, 3 seeds) Keel gains" in beside


def test_what_order_is_worth_is_left_open_where_an_order_is_missing():
    gains = {"Sticky": 0.5, "EMA": -5.0, "SIGHT": 1.0, "SIGHT, authors' code": -6.0, "Keel": 3.0}

    def text(*orders) -> str:
        few = [r for order in orders for r in made("wisdm-pooled", gains, experiment="order", order=order)]
        return plain(story.write(Evidence(rows=frame(made("wisdm-pooled", gains) + few))).text)

    for orders in (("chronological",), ("chronological", "shuffled"), ("chronological", "blocks")):
        assert "not run in every order on the same settings: what order is worth is left open." in text(*orders)
        assert "findings-order.svg" not in text(*orders)
    assert "Chronological order is worth" not in text("chronological", "blocks")
    whole = text("chronological", "blocks", "shuffled")
    assert "SIGHT shows no best order on WISDM P." in whole
    assert "Chronological order is worth 0.0 [0.0, 0.0] points" in whole


def test_people_met_on_several_settings_are_counted_once_too():
    gains = {"Sticky": 0.5, "EMA": -5.0, "SIGHT": 1.0, "SIGHT, authors' code": -6.0, "Keel": -1.0}

    def text(*settings) -> str:
        return plain(story.write(Evidence(rows=frame([r for name in settings for r in made(name, gains)]))).text)

    assert "12 of 12 (a person on a setting; 6 people in all) lose" in text("hapt-body-single", "hapt-total-single")
    assert "6 of 6 people lose." in text("hapt-body-single")


def test_the_fewest_seeds_of_those_spoken_of_count():
    gains = {"Sticky": 0.5, "SIGHT": 1.0, "Keel": 3.0}
    kept = [
        row
        for setting, seeds in (("wisdm-pooled", (0, 1, 2)), ("hugadb-pooled", (0,)))
        for row in made(setting, gains, experiment="stress", seeds=seeds)
        if row["label"] != "Keel" or row["seed"] < 2
    ]
    evidence = Evidence(rows=frame(kept))
    assert evidence.scope("stress", "SIGHT", "Keel") == " (2 of 9 settings, 1 to 2 seeds)"
    assert evidence.scope("stress", "SIGHT") == " (2 of 9 settings, 1 to 3 seeds)"


def test_the_page_says_that_sources_are_fixed_and_few():
    assert "Sources are fixed and few, 3 a setting: intervals tell of other people" in page(sight=2.0, keel=6.0)


def test_times_within_the_noise_of_the_encoder_are_called_so():
    def line(method, total, alone):
        own = {"method": method, "source": "onnx", "ms_per_window": total, "source_ms_per_window": alone}
        return own | {"paper_ms_per_window": None}

    methods = [line("none", 0.22, 0.20), line("sight", 0.19, 0.16)]
    speed = {"shapes": {"harth": {"methods": methods, "update_us": {"replay": 4.8}}}}
    gains = {"Sticky": 0.5, "EMA": -5.0, "SIGHT": -2.0, "SIGHT, authors' code": -6.0, "Keel": 3.0}
    told = story.write(Evidence(rows=frame(made("hapt-body-single", gains)), speed=speed))
    assert "took 0.16 to 0.20 ms: differences under 0.04 ms are noise." in plain(told.text)


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
    assert build_docs.README.read_text("utf-8") == build_docs.readme(), "run: make docs"


def test_figures_of_the_findings_are_current():
    """To a hundredth of a point of the page: other processors round the last digit otherwise."""
    for path, text in build_docs.figures().items():
        drawn, kept = (re.findall(r"-?\d+\.\d+", svg) for svg in (text, path.read_text("utf-8")))
        assert len(drawn) == len(kept), f"{path.name}: run: make docs"
        assert np.array(drawn, float) == pytest.approx(np.array(kept, float), abs=0.01), f"{path.name}: run: make docs"
        assert 'style="fill: #ffffff"' in text  # readable on a dark page too
    assert {path.name for path in (build_docs.DOCS / "figures").glob("findings-*")} == {
        path.name for path in build_docs.figures()
    }
