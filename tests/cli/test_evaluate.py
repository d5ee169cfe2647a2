"""What `sight evaluate` scores: truth from a column, a diary or a dataset."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from sight import registry
from sight.cli import app
from sight.sources import load
from tests.helpers.commands import COLUMNS, sight


def test_evaluate_reads_the_truth_from_a_column(onnx, table, tmp_path):
    lines = (table / "day.csv").read_text().splitlines()
    text = "\n".join(
        [lines[0] + ",what", *(f"{line},{'walking' if i < 4000 else ''}" for i, line in enumerate(lines[1:]))]
    )
    (tmp_path / "day.csv").write_text(text + "\n")
    sight(
        "evaluate",
        tmp_path / "day.csv",
        "-m",
        onnx,
        "--columns",
        COLUMNS,
        "--label-column",
        "what",
        "-o",
        tmp_path / "o",
    )
    assert json.loads((tmp_path / "o" / "scores.json").read_text())["none"]["windows"] == 80


def test_evaluate_scores_raw_against_refined_on_a_diary(onnx, table, tmp_path):
    shown = sight(
        "evaluate", table / "day.csv", "-m", onnx, "--labels", table / "diary.csv", "--columns", COLUMNS, "-o", tmp_path
    )
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert list(scores) == ["none", "ema", "sticky", registry.RECOMMENDED]
    assert all(0 <= row["accuracy"] <= 1 for row in scores.values())
    assert scores["none"]["windows"] > 150
    assert "source-only" in shown.output


def test_evaluate_names_answers_that_wait_and_counts_the_wait(onnx, table, tmp_path):
    words = ("evaluate", table / "day.csv", "-m", onnx, "--labels", table / "diary.csv", "--columns", COLUMNS)
    shown = sight(*words, "--lag", "5", "--compare", "keel", "-o", tmp_path)
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert list(scores) == ["none", "keel", "keel, lag 5"]
    assert scores["keel, lag 5"]["delay_median_s"] >= 5 * load(onnx).card.stride_s
    assert "keel, lag 5" in shown.output
    assert "later windows" in shown.output
    report = (tmp_path / "report.html").read_text("utf-8")
    assert "keel, lag 5" in report
    assert "its delay includes the wait" in report


@pytest.mark.parametrize(
    ("words", "told"), [(("--lag", "2.5"), "lag of 0, 1, 2"), (("--method", "tent"), "no network")]
)
def test_evaluate_refuses_before_other_methods_have_run(onnx, table, tmp_path, words, told):
    shown = CliRunner().invoke(
        app, ["evaluate", str(table / "day.csv"), "-m", str(onnx), "--columns", COLUMNS, "-o", str(tmp_path), *words]
    )
    assert shown.exit_code == 2
    assert told in shown.output
    assert "sticky:" not in shown.output
