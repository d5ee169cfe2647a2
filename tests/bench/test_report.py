"""The report of the benchmark: numbers by hand, words where a claim fails, the same bytes from the same rows."""

from __future__ import annotations

import os
import re

import numpy as np
import pandas as pd
import pytest

from sight.bench import figures, findings, html_report, leaderboard, tables
from sight.bench.aggregate import by_pair, summarise
from sight.bench.multi_setting import Across
from sight.bench.report import compose, write_report
from sight.bench.result_rows import frame, read, write
from sight.bench.table_format import DASH, MINUS
from tests.helpers.bench_rows import METHOD, POINTS, few, rows


def test_the_numbers_of_a_summary_by_hand():
    found = summarise(frame(rows())).table
    assert found.loc["Source-only", "mean"] == pytest.approx(55.0)
    assert found.loc["SIGHT", "mean"] == pytest.approx(53.0)
    assert found.loc["SIGHT", "sd"] == pytest.approx(np.std([52.0, 54.0], ddof=1))
    assert found.loc["SIGHT", "delta"] == pytest.approx(-2.0)
    assert tuple(found.loc["SIGHT", ["wins", "ties", "losses"]]) == (1, 0, 5)
    assert tuple(found.loc["Sticky", ["wins", "ties", "losses"]]) == (5, 1, 0)
    assert found.loc["Sticky", "low"] <= 7.5 / 6 <= found.loc["Sticky", "high"]
    # Ranks on the six targets: Sticky 1, 1, 1.5, 1, 1, 1; SIGHT 2, 3, 3, 3, 3, 3.
    assert found["rank"].tolist() == pytest.approx([(3 + 2 + 1.5 + 2 + 2 + 2) / 6, 6.5 / 6, 17 / 6])
    assert found.loc["SIGHT", "macro_f1_truth"] == pytest.approx(54.0)
    # The paper's own figures of these six pairs, from its detailed table of UCI-HAR.
    printed = by_pair(frame(rows())).xs("paper", axis=1, level=1).loc["SIGHT"].tolist()
    assert printed[0] == 39.34
    assert found.loc["SIGHT", "paper"] == pytest.approx(np.mean(printed))


def test_people_are_the_unit_not_seeds_nor_sources():
    """Twice the seeds must not make anything surer."""
    few, many = (summarise(frame(rows(seeds=seeds))).table for seeds in ((0, 1), (0, 1, 2, 3)))
    assert few.loc["SIGHT", ["low", "high", "p"]].tolist() == pytest.approx(
        many.loc["SIGHT", ["low", "high", "p"]].tolist()
    )
    assert summarise(frame(rows())).people == 6


def test_captions_promise_only_what_the_table_has():
    few_people, enough = summarise(frame(few(rows()))), summarise(frame(rows()))
    for summary, promised in ((few_people, False), (enough, True)):
        notes = [tables.scores(summary, "t", "T").note, tables.cross_table({"a": summary}, "t", "T").note]
        notes.append(leaderboard.gains(Across(summaries={"a": summary}, corpora={"a": "a"}), "t", "T").note)
        for note in notes:
            assert ("95 % bootstrap interval" in note) == promised, note
            assert ("too few for" in note) != promised, note
        assert ("Wilcoxon" in notes[0]) == promised


def test_where_nobody_gains_nobody_gains_most():
    worse = {**POINTS, "Sticky": tuple(value - 1 for value in POINTS["Source-only"])}
    board, section = compose(frame(rows(worse)))
    assert board.said[0] == f"On hapt, no method gains; Sticky loses least: {MINUS}1.0 [{MINUS}1.0, {MINUS}1.0] points."
    assert "behind source-only itself: no method gains" in section.said[1]
    assert "with 0.0 points" not in " ".join(section.said)


def test_one_setting_alone_is_called_so():
    board, *_ = compose(frame(rows()))
    assert board.title == "Leaderboard on hapt"
    assert "There is but one setting here" in board.said[1]
    assert board.tables[0].heads == ["Method", "hapt", "Harmed (%)", "Rank"]


def test_the_page_counts_in_the_singular_and_methods_as_its_tables_do():
    authors = {**POINTS, "SIGHT, authors' code": POINTS["SIGHT"]}
    made = rows(authors, method=METHOD | {"SIGHT, authors' code": "sight"}) + rows(experiment="ablation")
    counts = list(html_report._counts(frame(made)))
    assert counts == ["1 setting", "4 methods with source-only", "6 target subjects", "84 rows"]


def test_reports_say_which_versions_and_devices_gave_the_rows(tmp_path):
    first, *others = rows(training={"device": "cpu"})
    write(tmp_path / "rows.parquet", [first | {"training": {"device": "cuda"}}, *others])
    write_report([tmp_path], tmp_path / "report")
    told = "36 rows of sight 1, torch 2, numpy 3; sources trained on cpu (35 rows) and cuda (1 row)."
    for name in ("report.md", "index.html"):
        assert told in (tmp_path / "report" / name).read_text(), name


def test_markdown_latex_and_page_say_the_same():
    table = tables.scores(summarise(frame(rows())), "t", "Main comparison on hapt")
    numbers = re.findall(r"\d+\.\d", " ".join(cell.text + cell.below for row in table.rows for cell in row))
    for text in (table.markdown(), table.latex(), table.html()):
        assert re.findall(r"\d+\.\d", re.sub(r"95|width:[^;]*", "", text))[: len(numbers)] == numbers
    assert table.markdown().splitlines()[2].count("|") == len(table.heads) + 1
    assert r"\textbf{56.2~$\pm$~1.4}" in table.latex()
    assert "**56.2\xa0±\xa01.4**" in table.markdown()


def test_names_are_escaped_everywhere():
    points = {"Source-only": POINTS["Source-only"], "<b>x</b> & 5 % | a_b": POINTS["Sticky"]}
    table = tables.scores(
        summarise(frame(rows(points, method={"Source-only": "none", "<b>x</b> & 5 % | a_b": "sticky"}))), "t", "T"
    )
    assert r"$<$b>x$<$/b> \& 5 \% | a\_b" in table.latex()
    assert r"<b>x</b> & 5 % \| a_b" in table.markdown()
    assert "&lt;b&gt;x&lt;/b&gt; &amp; 5 %" in table.html()


def test_completed_methods_carry_their_mark():
    points = {"Source-only": POINTS["Source-only"], "OATTA": POINTS["Sticky"]}
    summary = summarise(frame(rows(points, method={"Source-only": "none", "OATTA": "oatta"})))
    assert tables.labelled(summary) == ["Source-only", "OATTA*"]
    assert tables.COMPLETED in tables.scores(summary, "t", "T").note


def test_the_leaderboard_over_several_settings(tmp_path):
    write(tmp_path / "a.parquet", rows(setting="hapt"))
    more = {**POINTS, "mine": tuple(value + 9 for value in POINTS["Source-only"])}
    write(tmp_path / "deep" / "b.parquet", rows(more, setting="hapt-total", method=METHOD | {"mine": "ema"}))
    write(tmp_path / "copy.parquet", rows(setting="hapt"))  # the same rows once more count once
    write(tmp_path / "c.parquet", rows(experiment="ablation"))  # not a comparison of methods
    assert len(read([tmp_path])) == 36 + 48 + 36
    write_report([tmp_path], tmp_path / "report")
    board = (tmp_path / "report" / "tables" / "leaderboard.md").read_text().splitlines()[2:]
    assert board[0] == "| Method | hapt | hapt-total | Mean | Harmed (%) | Best in | Rank | Settings |"
    assert [line.split(" | ")[0].strip("| ") for line in board[2:5]] == ["Sticky", "SIGHT", "mine"]
    assert board[2].startswith(
        "| Sticky | **+1.2** [+0.5, +2.1] | +1.2 [+0.5, +2.1] | **+1.2** [+0.5, +2.1] | **0.0** | 1 |"
    )
    assert board[4] == f"| mine | {DASH} | **+9.0** [+9.0, +9.0] | {DASH} | 0.0 | 1 | 1.0 | 1 |"
    assert f"mine was not run on hapt ({DASH}) and has no mean." in board[-1]


def written(path, made, at):
    """Write a result file that is so many seconds old."""
    write(path, made)
    os.utime(path, (at, at))


def test_earlier_code_of_a_method_is_left_out_and_told(tmp_path):
    better = {"Source-only": POINTS["Source-only"], "SIGHT": tuple(v + 7 for v in POINTS["Source-only"])}
    # The files' names are in the other order than their times.
    written(tmp_path / "z.parquet", rows(), 1000)
    written(tmp_path / "a.part.parquet", [r | {"code": "d"} for r in rows(better) if r["label"] == "SIGHT"], 2000)
    table = read([tmp_path])
    assert set(table.loc[table["label"] == "SIGHT", "code"]) == {"d"}
    assert summarise(table).table.at["SIGHT", "delta"] == pytest.approx(7.0)
    page = write_report([tmp_path], tmp_path / "report")
    told = "Left out, of earlier code, settings or versions than those in the newest file: 12 rows of SIGHT."
    assert told in page.read_text()
    assert told in (tmp_path / "report" / "report.md").read_text()


def test_code_is_not_mixed_over_runs_nor_over_ranked_comparisons(tmp_path):
    written(tmp_path / "whole.parquet", rows(), 1000)
    written(tmp_path / "detailed.parquet", rows(experiment="table-detailed"), 1000)
    new = [row | {"code": "d"} for row in rows() if row["label"] == "SIGHT" and row["seed"] == 0]
    written(tmp_path / "part.parquet", new, 2000)
    table = read([tmp_path])
    assert len(table[table["label"] == "SIGHT"]) == len(new) == 6
    assert table.attrs["left_out"] == {"SIGHT": 24}
    written(tmp_path / "whole.parquet", rows(), 3000)  # what is written last counts again, in both comparisons
    assert read([tmp_path]).attrs["left_out"] == {"SIGHT": 6}
    said = " ".join(findings.comparison(summarise(table[table["experiment"] == "table-main"]), "hapt"))
    assert "SIGHT has 1 of 2 seeds" in said


def test_rows_that_no_time_tells_apart_are_never_averaged(tmp_path):
    again = [row | {"code": "d"} for row in rows() if row["label"] == "SIGHT"]
    written(tmp_path / "rows.parquet", [*rows(), *again], 1000)
    with pytest.raises(ValueError, match="one row for each method and run, got several of SIGHT"):
        write_report([tmp_path], tmp_path / "report")


def test_times_and_machines_change_no_byte(tmp_path):
    for name, seconds in (("a", 1.0), ("b", 77.7)):
        made = rows(seconds=seconds, machine=f"host {name}")
        write(tmp_path / name / "rows.parquet", made if name == "a" else made[::-1])
        write_report([tmp_path / name], tmp_path / name / "report")
    first, second = (
        {p.relative_to(r): p.read_bytes() for p in r.rglob("*") if p.is_file()}
        for r in (tmp_path / "a" / "report", tmp_path / "b" / "report")
    )
    assert first == second
    assert b"host" not in b"".join(first.values())


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="make some with: sight bench run"):
        read([tmp_path])
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="expected rows of sight bench run"):
        read([tmp_path])


def test_figures_draw_what_the_numbers_say():
    drawn = figures.forest(summarise(frame(rows())))
    assert drawn == figures.forest(summarise(frame(rows())))
    assert drawn != figures.forest(summarise(frame(rows({**POINTS, "SIGHT": POINTS["Sticky"]}))))
    assert "<dc:date>" not in drawn


def test_the_page_opens_without_network_on_desk_and_phone(opened, tmp_path):
    write(tmp_path / "rows.parquet", rows())
    path = write_report([tmp_path], tmp_path / "report")
    for width in (1280, 390):
        page = opened(path, width)
        assert page.messages == [f"request: {path.as_uri()}"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("[...document.images].every((image) => image.naturalWidth > 100)")
    assert page.locator("#table-main_hapt .said li").first.inner_text().startswith("On hapt, source-only reaches 55.0")
