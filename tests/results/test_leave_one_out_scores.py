"""Leave-one-subject-out scores against scikit-learn, and means over recordings."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, f1_score

from sight.results.leave_one_out_scores import leave_one_out, subject_scores
from sight.results.output_files.csv import write_csv
from sight.results.output_files.scores import RecordingScores, mean_scores, write_confusions
from sight.testing import ToySource, toy_stream


@pytest.fixture(scope="module")
def results():
    streams = {name: toy_stream(n=80, seed=seed, noise=2.0) for seed, name in enumerate(("anna", "bert", "cleo"))}
    streams["dora"] = replace(streams["cleo"], label=np.full(80, -1))
    seen = {}

    def fit(left_out, others):
        seen[left_out] = others
        return ToySource()

    found = dict(leave_one_out(streams, fit, "keel"))
    assert list(found) == ["anna", "bert", "cleo"]  # dora has no labels to score, but is trained on
    assert [own is streams[name] for own, name in zip(seen["bert"], ("anna", "cleo", "dora"), strict=True)] == [
        True
    ] * 3
    return found


def test_scores_agree_with_scikit_learn(results):
    rows = subject_scores(results)
    for name, result in results.items():
        for kind, q in (("raw", result.p), ("adapted", result.q)):
            truth, predicted = result.windows.label, q.argmax(axis=1)
            assert rows[name][f"{kind}_accuracy"] == pytest.approx(accuracy_score(truth, predicted))
            assert rows[name][f"{kind}_macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert rows["mean"]["windows"] == 240
    assert rows["mean"]["adapted_macro_f1"] == pytest.approx(
        np.mean([rows[name]["adapted_macro_f1"] for name in results])
    )


def test_confusions_are_summed_over_subjects(results, tmp_path):
    table = pd.read_csv(write_confusions(tmp_path / "c.csv", list(results.values())))
    assert table.groupby("predictions").sum(numeric_only=True).to_numpy().sum(axis=1).tolist() == [240, 240]
    truth = np.concatenate([result.windows.label for result in results.values()])
    raw = table[table["predictions"] == "raw"].set_index("true_class").drop(columns="predictions")
    assert raw.sum(axis=1).tolist() == np.bincount(truth, minlength=5).tolist()


def test_two_subjects_with_labels_are_needed():
    stream = toy_stream(n=20)
    with pytest.raises(ValueError, match="two with labels, got 1"):
        next(leave_one_out({"a": stream, "b": replace(stream, label=np.full(20, -1))}, lambda *_: ToySource(), "none"))


def test_means_leave_out_missing_values_and_sum_counts():
    def row(**scores):
        return RecordingScores(recording="r", subject="s", scores={"none": scores})

    rows = [row(accuracy=0.5, delay_median_s=math.nan, windows=10, f1=[1.0])]
    rows += [row(accuracy=1.0, delay_median_s=3.0, windows=20, f1=[1.0])]
    assert mean_scores(rows) == {"none": {"accuracy": 0.75, "delay_median_s": 3.0, "windows": 30}}
    assert math.isnan(mean_scores(rows[:1])["none"]["delay_median_s"])


def test_cells_are_empty_without_a_value_and_never_formulas(tmp_path):
    path = write_csv(tmp_path / "a.csv", ("a", "b", "c", "d"), [{"a": math.nan, "b": "=1", "c": True, "e": 5}])
    assert path.read_text() == "a,b,c,d\n,'=1,TRUE,\n"
