"""Every committed file of results states its version and date, and reading one records them."""

from __future__ import annotations

import json

import pytest

from tools import result_files, row_versions

FILES = sorted(path for path in result_files.RESULTS.rglob("*") if path.suffix in (".json", ".csv"))
FACTS = {"sight": "0.2.0", "computed_at": "2026-11-02"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_committed_files_state_version_and_date(path):
    read = result_files.read_json if path.suffix == ".json" else result_files.read_csv
    with row_versions.recording() as used:
        assert read(path)
    assert row_versions.LINE.fullmatch(used.line())


def test_columns_of_version_and_date_are_recorded_and_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("score,sight,computed_at\n1.5,0.1.0,2026-10-01\n2.5,0.2.0,2026-11-02\n")
    with row_versions.recording() as used:
        assert result_files.read_csv(tmp_path / "a.csv") == [{"score": "1.5"}, {"score": "2.5"}]
    assert used.line() == "*Rows of sight 0.1.0 and 0.2.0, computed 2026-10-01 to 2026-11-02.*"


@pytest.mark.parametrize("missing", FACTS)
def test_a_file_without_version_or_date_is_refused(tmp_path, missing):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"score": 1.5} | {key: value for key, value in FACTS.items() if key != missing}))
    with pytest.raises(ValueError, match=r"a\.json has no sight or computed_at"):
        result_files.read_json(path)


def test_rows_of_keel_are_written_with_version_and_date(tmp_path, monkeypatch):
    pytest.importorskip("joblib")
    from benchmarks.keel import comparison

    monkeypatch.setattr(comparison, "version_and_date", lambda: FACTS)
    comparison.write([{"method": "keel", "gain": 1.234}], tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "method,gain,sight,computed_at\nkeel,1.23,0.2.0,2026-11-02\n"
