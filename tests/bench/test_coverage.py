"""Methods with fewer runs than others: paired on what both have, and told under every table."""

from __future__ import annotations

import pytest

from sight.bench import leaderboard, story
from sight.bench.evidence import Evidence
from sight.bench.multi_setting import over
from sight.bench.report import compose
from sight.bench.result_rows import frame
from sight.bench.table_format import DASH
from tests.helpers.bench_rows import BASE, METHODS, PAIR, plain, rows


def short_of_seeds() -> list[dict]:
    """Two settings, seeds 0 and 2 a point apart from 1; TENT has seed 0 only, and COA-HAR that on one setting only."""
    gains = {"Sticky": 0.5, "EMA": -5.0, "SIGHT": 1.0, "SIGHT, authors' code": -6.0, "Keel": 3.0}
    rivals = METHODS | {"TENT": "tent", "COA-HAR": "coa-har"}
    points = {"Source-only": BASE} | {
        label: tuple(v + gain for v in BASE) for label, gain in (gains | {"TENT": 4.0, "COA-HAR": 2.0}).items()
    }
    found = []
    for setting, dataset in (("hapt-body-single", "hapt"), ("wisdm-pooled", "wisdm2019")):
        paper = {"paper_dataset": "", "paper_case": ""}
        every = rows(points, seeds=(0, 1, 2), setting=setting, method=rivals, dataset=dataset, **paper)
        for row in every:
            alone = row["label"] in ("TENT", "COA-HAR")
            if (alone and row["seed"]) or (row["label"] == "COA-HAR" and setting == "wisdm-pooled"):
                continue
            found.append(row)
    return found


def test_gains_are_paired_on_the_runs_that_both_have():
    found = over(frame(short_of_seeds()), PAIR)
    for summary in found.summaries.values():
        table = summary.table
        # Seed 0 lies two points under the mean of all: unpaired, TENT would be at 4 - 2 points.
        assert table.at["TENT", "mean"] - table.at["Source-only", "mean"] == pytest.approx(2.0)
        assert table.loc["TENT", ["delta", "low", "high"]].tolist() == pytest.approx([4.0, 4.0, 4.0])
        assert summary.difference("Keel", "TENT") == pytest.approx((-1.0, -1.0, -1.0))
        assert table["rank"].idxmin() == "TENT"
        assert table.at["TENT", "runs"] == len(BASE)
        assert table.at["Keel", "runs"] == 3 * len(BASE)
        assert table["gain_union"].idxmax() == "TENT"
    assert found.gain("TENT") == pytest.approx((4.0, 4.0, 4.0))
    assert found.difference("Keel", "TENT").mean == pytest.approx(-1.0)
    assert found.best_in["TENT"] == 2


def test_fewer_seeds_and_missing_methods_are_told_under_every_table():
    made_rows = frame(short_of_seeds())
    found = over(made_rows, PAIR)
    board = leaderboard.gains(found, "nine", "The nine settings")
    cells = {row[0].text: [cell.text for cell in row] for row in board.rows}
    assert cells["TENT"][1:4] == ["+4.0", "+4.0", "+4.0"]
    assert cells["COA-HAR*"][1:4] == ["+2.0", DASH, DASH]
    told = (
        "TENT has 1 of 3 seeds: comparisons with it are over those runs. COA-HAR* has 1 of 3 seeds on HAPT body S: "
        "comparisons with it are over those runs."
    )
    assert told in board.note
    assert f"COA-HAR* was not run on WISDM P ({DASH}) and has no mean." in board.note
    assert "completed by us" in board.note
    beside = leaderboard.beside(found, "beside", "Beside")
    assert "TENT has 1 of 3 seeds." in beside.note
    tent, keel = (next(row for row in beside.rows if row[0].text == label) for label in ("TENT", "Keel"))
    assert not any(cell.best for cell in tent)
    assert keel[1].best  # its level is over all runs
    page = story.write(Evidence(rows=made_rows))
    text = plain(page.text)
    assert told in text
    assert "NOTE, SAR, RoTTA, OATTA, OFTTA, ACCUP" in text  # of the plan, without a row
    assert "gains most of all methods on 0 of 2 settings, each on its own runs" in text
    assert "TENT on HAPT body S (by 1.0; on the runs both have, Keel is at -1.0 [-1.0, -1.0])" in text
    assert "| HAPT body S | 55.0 | 55.5 (+0.5) Sticky | 56.0 (+1.0) | 49.0 (-6.0) | 59.0 (+4.0) TENT |" in text
    assert "TENT has 1 of 3 seeds" in plain(page.readme)


def test_reports_of_a_setting_tell_seeds_apart_from_missing_trials():
    kept = [row for row in short_of_seeds() if not (row["label"] == "TENT" and row["target"] == "26")]
    sections = {section.name: section for section in compose(frame(kept))}
    said = " ".join(sections["table-main_hapt-body-single"].said)
    assert "TENT and COA-HAR have 1 of 3 seeds" in said
    assert "TENT has 5 of 6 trials" in said
    assert "COA-HAR has" not in said
    assert "Levels of methods with fewer seeds are never marked best." in (
        sections["table-main_hapt-body-single"].tables[0].note
    )
