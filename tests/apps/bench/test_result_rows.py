"""Storage of result rows: what a file contains, derived scores, and which version of a row is read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from sight.apps.bench.experiment_report.summary import summarise
from sight.apps.bench.experiment_report.write import write_report
from sight.apps.bench.result_rows import confusion_scores, frame, matrices, read, write
from sight.results import metrics
from tests.helpers.bench_rows import POINTS, rows

EARLY, LATE, LATEST = (f"2026-0{month}-01T00:00:00+00:00" for month in (1, 2, 3))


def test_derived_scores_equal_those_of_the_metrics():
    rng = np.random.default_rng(0)
    tables = rng.integers(0, 30, size=(50, 5, 5)) * rng.integers(0, 2, size=(50, 1, 5)) * rng.integers(0, 2, (50, 5, 1))
    tables[0] = 0
    found = confusion_scores(tables)
    for name in ("accuracy", "balanced_accuracy", "macro_f1_union", "macro_f1_truth", "macro_f1_all", "kappa"):
        expected = [getattr(metrics, name)(table) for table in tables]
        np.testing.assert_allclose(found[name], expected, rtol=1e-14, atol=1e-15, err_msg=name)
    minutes = [np.abs(metrics.time_use_error(table)).mean() for table in tables]
    np.testing.assert_allclose(found["time_use_mae_min"], minutes, rtol=1e-14)
    assert np.isnan(found["accuracy"][0])


def test_a_file_returns_the_same_table_in_compact_types(tmp_path):
    made = rows()
    path = write(tmp_path / "rows.parquet", made)
    stored = pq.read_schema(path)
    assert "accuracy" not in stored.names
    assert str(stored.field("ece").type) == "float"
    assert str(stored.field("confusion").type) == "list<element: int32>"
    memory, disk = frame(made), read([path])
    memory = memory.sort_values(["trial", "position"], ignore_index=True)
    assert set(memory) == set(disk)
    for name in ("macro_f1_union", "accuracy", "kappa"):
        assert disk[name].tolist() == memory[name].tolist()
    assert disk["ece"].dtype == np.float64
    assert disk["ece"].tolist() == pytest.approx(memory["ece"].tolist(), rel=1e-7)
    assert (matrices(disk, "confusion") == matrices(memory, "confusion")).all()
    assert disk["macro_f1_union"].iloc[0] == pytest.approx(0.49)


def test_single_class_streams_have_no_macro_f1():
    table = frame(rows(experiment="stress"))
    assert "macro_f1_union" not in table
    assert table["accuracy"].notna().all()


def test_the_version_computed_last_is_kept(tmp_path):
    better = {"Source-only": POINTS["Source-only"], "SIGHT": tuple(v + 7 for v in POINTS["Source-only"])}
    new = [row | {"code": "d", "computed_at": LATE} for row in rows(better) if row["label"] == "SIGHT"]
    write(tmp_path / "z.parquet", rows(computed_at=EARLY))  # names sort against the times
    write(tmp_path / "a.part.parquet", new)
    table = read([tmp_path])
    assert set(table.loc[table["label"] == "SIGHT", "code"]) == {"d"}
    assert summarise(table).table.at["SIGHT", "delta"] == pytest.approx(7.0)
    assert table.attrs["left_out"] == {"SIGHT": 12}
    write_report([tmp_path], tmp_path / "report", formats="markdown")
    assert "| SIGHT | 12 |" in (tmp_path / "report" / "report.md").read_text()


def test_versions_are_not_mixed_over_runs_nor_over_ranked_comparisons(tmp_path):
    write(tmp_path / "main.parquet", rows(computed_at=EARLY))
    write(tmp_path / "detailed.parquet", rows(experiment="table-detailed", computed_at=EARLY))
    new = [row for row in rows(code="d", computed_at=LATE) if row["label"] == "SIGHT" and row["seed"] == 0]
    write(tmp_path / "part.parquet", new)
    table = read([tmp_path])
    assert len(table[table["label"] == "SIGHT"]) == len(new) == 6
    assert table.attrs["left_out"] == {"SIGHT": 24}
    write(tmp_path / "main.parquet", rows(computed_at=LATEST))
    assert read([tmp_path]).attrs["left_out"] == {"SIGHT": 6}


def test_a_new_version_of_the_package_with_the_same_code_discards_no_rows(tmp_path):
    write(tmp_path / "old.parquet", rows(seeds=(0, 1), computed_at=EARLY))
    new = rows(seeds=(0,), computed_at=LATE, versions={"sight": "9", "torch": "2", "numpy": "3"})
    write(tmp_path / "part.parquet", new)
    table = read([tmp_path])
    assert len(table) == len(rows(seeds=(0, 1)))
    assert not table.attrs["left_out"]
    assert table.groupby("seed")["sight"].unique().map(list).to_dict() == {0: ["9"], 1: ["1"]}  # the latest is kept


def test_versions_of_the_same_time_are_never_averaged(tmp_path):
    write(tmp_path / "rows.parquet", [*rows(), *(row for row in rows(code="d") if row["label"] == "SIGHT")])
    with pytest.raises(ValueError, match="several of SIGHT"):
        write_report([tmp_path], tmp_path / "report")


def test_files_without_result_rows_are_refused(tmp_path):
    with pytest.raises(ValueError, match="sight bench run"):
        read([tmp_path])
    with pytest.raises(ValueError, match="no result file"):
        read([tmp_path / "missing"])
    (tmp_path / "README.md").write_text("# text")
    with pytest.raises(ValueError, match="not a Parquet file"):
        read([tmp_path / "README.md"])
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="found columns"):
        read([tmp_path])
