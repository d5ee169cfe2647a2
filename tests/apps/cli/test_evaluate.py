"""``sight evaluate`` with labels from a column, a diary and a dataset."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from sight import registry
from sight.models.load import load
from tests.helpers.commands import COLUMNS, TINY, output_of, run_sight

#: The recommended method on stored recordings.
STORED = f"{registry.RECOMMENDED}, whole recording"


def scores_in(folder):
    """Return the scores of the only recording in a folder of results."""
    (recording,) = json.loads((folder / "scores.json").read_text())["recordings"].values()
    return recording["scores"]


def test_labels_are_read_from_a_column(onnx, table, tmp_path):
    lines = (table / "day.csv").read_text().splitlines()
    text = "\n".join(
        [lines[0] + ",what", *(f"{line},{'walking' if i < 4000 else ''}" for i, line in enumerate(lines[1:]))]
    )
    (tmp_path / "day.csv").write_text(text + "\n")
    options = ["--columns", COLUMNS, "--label-column", "what"]
    run_sight("evaluate", tmp_path / "day.csv", "-m", onnx, *options, "-o", tmp_path / "o")
    assert scores_in(tmp_path / "o")["none"]["windows"] == 80


def test_labels_are_read_from_a_diary(onnx, table, tmp_path):
    options = ["--labels", table / "diary.csv", "--columns", COLUMNS]
    printed = output_of("evaluate", table / "day.csv", "-m", onnx, *options, "-o", tmp_path)
    scores = scores_in(tmp_path)
    assert list(scores) == ["none", "ema", "sticky", STORED]
    assert all(0 <= row["accuracy"] <= 1 for row in scores.values())
    assert scores["none"]["windows"] > 150
    assert "│ raw │" in printed  # a row of the table; the caption names it too


def test_delayed_predictions_are_named_and_their_delay_is_counted(onnx, table, tmp_path):
    command = ("evaluate", table / "day.csv", "-m", onnx, "--labels", table / "diary.csv", "--columns", COLUMNS)
    printed = output_of(*command, "--lag", "5", "--compare", "keel", "-o", tmp_path)
    scores = scores_in(tmp_path)
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
    scores = scores_in(tmp_path)
    assert list(scores) == ["none", "sticky-learned", "oatta", STORED]
    assert "oatta *" in printed
    assert "oatta *" in (tmp_path / "report.html").read_text("utf-8")


def test_several_subjects_give_rows_and_their_mean(model, tmp_path):
    printed = output_of("evaluate", "synthetic:W03,W04", "-m", model, *TINY, "-o", tmp_path, "--compare", "ema")
    table = pd.read_csv(tmp_path / "scores.csv")
    assert table["recording"].tolist() == ["synthetic-W03"] * 3 + ["synthetic-W04"] * 3 + ["mean"] * 3
    assert table["method"].tolist() == ["none", "ema", STORED] * 3
    accuracy = table["accuracy"].to_numpy().reshape(3, 3)
    assert accuracy[2] == pytest.approx(accuracy[:2].mean(axis=0), abs=1e-5)
    assert table["windows"][6] == table["windows"][0] + table["windows"][3]
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["mean"]["none"]["accuracy"] == pytest.approx(accuracy[2, 0], abs=1e-5)
    assert not any(row["in_training"] or row["warnings"] for row in scores["recordings"].values())
    assert all((tmp_path / f"synthetic-{name}" / "report.html").is_file() for name in ("W03", "W04"))
    assert "Mean of 2 recordings" in printed


def test_a_subject_of_the_training_is_reported(model, tmp_path):
    printed = output_of("evaluate", "synthetic:W0", "-m", model, *TINY, "-o", tmp_path, code=2)
    assert "could be W01" in printed
    printed = output_of("evaluate", "synthetic:W02", "-m", model, *TINY, "-o", tmp_path, "--compare", "")
    assert "W02 was in the training" in printed
    (recording,) = json.loads((tmp_path / "scores.json").read_text())["recordings"].values()
    assert recording["in_training"]
    assert "W02 was in the training" in recording["warnings"][0]["text"]
    assert "W02 was in the training" in (tmp_path / "report.html").read_text("utf-8")


@pytest.fixture
def recordings(table, tmp_path):
    """A folder of two recordings; returns the folder and the text of their diary."""
    folder = tmp_path / "recordings"
    folder.mkdir()
    for name in ("anna", "bert"):
        shutil.copyfile(table / "day.csv", folder / f"{name}.csv")
    return folder, (table / "diary.csv").read_text()


def with_subjects(diary, names):
    header, *rows = diary.splitlines()
    return "\n".join([f"subject,{header}", *(f"{name},{row}" for name in names for row in rows)]) + "\n"


@pytest.mark.parametrize("place", ["diaries", "diaries/{recording}.csv", "all.csv"])
def test_each_recording_of_a_folder_has_its_diary(onnx, recordings, tmp_path, place):
    folder, diary = recordings
    if place == "all.csv":
        (folder / place).write_text(with_subjects(diary, ["Anna", "bert"]))
    else:
        (folder / "diaries").mkdir()
        for name in ("anna", "bert"):
            (folder / "diaries" / f"{name}.csv").write_text(diary)
    options = ["--labels", folder / place, "--columns", COLUMNS, "--compare", "", "-o", tmp_path / "o"]
    run_sight("evaluate", folder, "-m", onnx, *options)
    table = pd.read_csv(tmp_path / "o" / "scores.csv")
    assert table["recording"].unique().tolist() == ["anna", "bert", "mean"]
    assert (table["windows"][:4] > 150).all()


def test_a_missing_diary_is_reported_before_any_recording_is_read(onnx, recordings, tmp_path):
    folder, diary = recordings
    (tmp_path / "diaries").mkdir()
    (tmp_path / "diaries" / "anna.csv").write_text(diary)
    options = ["--labels", tmp_path / "diaries", "--columns", COLUMNS, "-o", tmp_path / "o"]
    printed = output_of("evaluate", folder, "-m", onnx, *options, code=2)
    assert "bert.csv for the recording bert" in printed
    assert not (tmp_path / "o").exists()


def test_a_recording_that_cannot_be_scored_is_skipped(onnx, recordings, tmp_path):
    folder, diary = recordings
    (tmp_path / "all.csv").write_text(with_subjects(diary, ["anna"]))
    options = ["--labels", tmp_path / "all.csv", "--columns", COLUMNS, "--compare", "", "-o", tmp_path / "o"]
    printed = output_of("evaluate", folder, "-m", onnx, *options, code=2)
    assert "bert was skipped: all.csv has no rows for bert" in printed
    assert pd.read_csv(tmp_path / "o" / "scores.csv")["recording"].unique().tolist() == ["anna", "mean"]


def test_a_folder_with_a_map_is_evaluated_by_subject(recordings, tmp_path):
    """The labels come from the diaries that the map names; subjects in training are marked."""
    folder, diary = recordings
    for name in ("anna", "bert"):
        (folder / f"{name}-diary.csv").write_text(diary)
    (folder / "MAP.toml").write_text('diary = "{subject}-diary.csv"\n')
    mine = tmp_path / "mine.safetensors"
    training = ["--subjects", "anna", "--epochs", 1, "--encoder", "resnet", "-o", mine]
    run_sight("train", "--data", folder, *training)
    printed = output_of("evaluate", folder, "-m", mine, "--compare", "", "-o", tmp_path / "o")
    scores = json.loads((tmp_path / "o" / "scores.json").read_text())["recordings"]
    assert {name: row["in_training"] for name, row in scores.items()} == {"anna": True, "bert": False}
    assert "anna was in the training" in printed
    printed = output_of(
        "evaluate", folder / "anna.csv", "-m", mine, "--labels", folder / "anna-diary.csv", "-o", tmp_path / "one"
    )
    assert "anna was in the training" in printed
