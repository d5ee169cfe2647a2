"""``sight evaluate`` with labels from a column, a diary and a dataset."""

from __future__ import annotations

import json

import pytest

from sight import registry
from sight.sources import load
from tests.helpers.commands import COLUMNS, TINY, output_of, run_sight


def test_labels_are_read_from_a_column(onnx, table, tmp_path):
    lines = (table / "day.csv").read_text().splitlines()
    text = "\n".join(
        [lines[0] + ",what", *(f"{line},{'walking' if i < 4000 else ''}" for i, line in enumerate(lines[1:]))]
    )
    (tmp_path / "day.csv").write_text(text + "\n")
    options = ["--columns", COLUMNS, "--label-column", "what"]
    run_sight("evaluate", tmp_path / "day.csv", "-m", onnx, *options, "-o", tmp_path / "o")
    assert json.loads((tmp_path / "o" / "scores.json").read_text())["none"]["windows"] == 80


def test_labels_are_read_from_a_diary(onnx, table, tmp_path):
    options = ["--labels", table / "diary.csv", "--columns", COLUMNS]
    printed = output_of("evaluate", table / "day.csv", "-m", onnx, *options, "-o", tmp_path)
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert list(scores) == ["none", "ema", "sticky", registry.RECOMMENDED]
    assert all(0 <= row["accuracy"] <= 1 for row in scores.values())
    assert scores["none"]["windows"] > 150
    assert "source-only" in printed


def test_delayed_predictions_are_named_and_their_delay_is_counted(onnx, table, tmp_path):
    command = ("evaluate", table / "day.csv", "-m", onnx, "--labels", table / "diary.csv", "--columns", COLUMNS)
    printed = output_of(*command, "--lag", "5", "--compare", "keel", "-o", tmp_path)
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert list(scores) == ["none", "keel", "keel, lag 5"]
    assert scores["keel, lag 5"]["delay_median_s"] >= 5 * load(onnx).card.stride_s
    assert "keel, lag 5" in printed
    assert "keel, lag 5" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "keyword"), [(("--lag", "2.5"), "lag of 0, 1, 2"), (("--method", "tent"), "no network")]
)
def test_errors_are_raised_before_any_method_runs(onnx, table, tmp_path, options, keyword):
    command = ["evaluate", table / "day.csv", "-m", onnx, "--columns", COLUMNS, "-o", tmp_path]
    printed = output_of(*command, *options, code=2)
    assert keyword in printed
    assert "sticky:" not in printed


def test_labels_of_a_dataset_are_used_and_completed_methods_are_marked(model, tmp_path):
    command = ["evaluate", "synthetic:W03", "-m", model, *TINY, "-o", tmp_path]
    printed = output_of(*command, "--compare", "sticky-learned,oatta")
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert list(scores) == ["none", "sticky-learned", "oatta", registry.RECOMMENDED]
    assert "oatta *" in printed
    assert "oatta *" in (tmp_path / "report.html").read_text("utf-8")
