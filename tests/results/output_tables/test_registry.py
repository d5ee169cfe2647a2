"""The registry of tables: one line adds a table everywhere, and every table of a result is computed once."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import sight
from sight.results.adapted_recording import Adaptation
from sight.results.output_files.outputs import write_outputs
from sight.results.output_tables import TABLES, daily, table
from sight.testing import toy_network
from tests.helpers.cohorts import READABLE
from tests.helpers.commands import run_sight
from tests.helpers.made_nights import made_summary
from tests.results.output_tables.test_tables import summary_of


@pytest.fixture
def counts(monkeypatch):
    """Register a table with one line."""
    monkeypatch.setitem(TABLES, "counts", "tests.results.output_tables.toy_table")


@pytest.mark.usefixtures("counts")
def test_a_registered_table_is_a_file_an_attribute_and_a_section_of_the_report(tmp_path):
    summary = summary_of([0, 0, 1])
    paths = write_outputs(summary, tmp_path)
    assert paths["counts.csv"].read_text() == "class,windows\nsit,2\nwalk,1\nrun,0\n"
    assert json.loads(paths["info.json"].read_text())["files"]["counts.csv"] == "one row per class: number of windows"
    assert "Windows of each class" in paths["report.html"].read_text("utf-8")
    found = Adaptation(summary)
    assert found.counts["windows"].tolist() == [2, 1, 0]
    assert "counts" in dir(found)


@pytest.mark.usefixtures("counts")
def test_a_registered_table_is_concatenated_over_a_cohort(tmp_path):
    from tests.helpers.cohorts import write_cohort, write_folder, write_model

    folder = write_folder(tmp_path / "in")
    out = write_cohort(tmp_path / "out", folder, write_model(tmp_path / "model.safetensors"))
    found = pd.read_csv(out / "summary" / "counts.csv")
    assert found.columns.tolist() == ["recording", "class", "windows"]
    windows = pd.concat([pd.read_parquet(out / "windows" / f"{name}.parquet") for name in READABLE])
    expected = windows.groupby(["recording", "class"]).size()
    for row in found.itertuples():
        assert row.windows == expected.get((row.recording, row[2]), 0)
    run_sight("cohort", "query", out, "SELECT sum(windows) AS n FROM counts", "--csv", tmp_path / "n.csv")
    assert pd.read_csv(tmp_path / "n.csv")["n"].tolist() == [len(windows)]


def test_an_unknown_table_is_no_attribute():
    with pytest.raises(AttributeError, match="counts"):
        Adaptation(summary_of([0])).counts  # noqa: B018


@pytest.mark.parametrize("name", TABLES)
def test_rows_have_the_columns_of_their_table(name):
    summary = made_summary(48, nights=[(23, 31)], unworn=[(40, 42)])
    assert summary.rows(name)
    for row in summary.rows(name):
        assert list(row) == list(table(name).columns_of(summary))
    assert set(table(name).kinds) <= set(table(name).fixed)


def test_days_of_a_result_are_computed_once(tmp_path, monkeypatch):
    calls = []

    def counted(summary):
        calls.append(summary)
        return daily.daily_rows(summary)

    monkeypatch.setattr(
        "sight.results.output_tables.daily.TABLE", daily.Table(**{**vars(daily.TABLE), "rows": counted})
    )
    time = pd.Timestamp("2025-03-03", tz="UTC") + pd.to_timedelta(np.arange(1200) / 10, unit="s")
    values = np.random.default_rng(0).normal([0, 0, 1], 0.3, size=(1200, 3))
    found = sight.adapt(pd.DataFrame(values, columns=["x", "y", "z"]).assign(time=time), toy_network(), progress=False)
    found.save(tmp_path)
    found.report(tmp_path / "again.html")
    assert len(found.daily) == 1
    assert found.headline
    assert found._repr_html_()
    assert len(calls) == 1
