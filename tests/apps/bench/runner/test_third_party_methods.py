"""Methods of other packages in a benchmark, and failures that others survive."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pandas as pd
import pytest

from sight import registry
from sight.apps.bench.experiment_report.write import write_report
from sight.apps.bench.experiments import load_experiment, narrow
from sight.apps.bench.result_rows import read
from sight.apps.bench.runner import run
from sight.apps.bench.settings import load_setting
from tests.apps.bench.runner.runner_helpers import TINY, bench, finished

METHOD = """
from dataclasses import dataclass
from sight.base import OutputAdapter

@dataclass(kw_only=True)
class Mine(OutputAdapter):
    name = "mine"

    def _reset(self):
        self.count_ = 0

    def _refine(self, z, p):
        {body}
"""


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """A registered method in another package; call the fixture with the body of its hook."""
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = EntryPoint(name="mine", value="third_party_method:Mine", group="sight.methods")
    monkeypatch.setattr(registry, "_installed", lambda kind: {entry.name: entry.value} if kind == "methods" else {})

    def write_method(body: str) -> None:
        sys.modules.pop("third_party_method", None)
        (tmp_path / "third_party_method.py").write_text(METHOD.format(body=body))

    yield write_method
    sys.modules.pop("third_party_method", None)


def test_a_third_party_method_is_on_the_leaderboard_and_follows_its_code(third_party, tiny, tmp_path):
    third_party("return p")
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(tmp_path / "runs"), "--engine", "serial", "--seeds", "0"]
    assert bench("run", "table-main", *where, "--methods", "none,sight,mine").exit_code == 0
    results = tmp_path / "runs" / "table-main_tiny.part.parquet"
    first = read([results]).set_index("label")
    assert first.loc["mine", "macro_f1_union"].tolist() == first.loc["Source-only", "macro_f1_union"].tolist()
    write_report([results], tmp_path / "report")
    assert "| mine | 0.0 | 0.0 |" in (tmp_path / "report" / "tables" / "leaderboard.md").read_text()
    before = finished(tmp_path / "runs")
    third_party("return p[:, ::-1]")
    assert bench("run", "table-main", *where, "--methods", "none,sight,mine").exit_code == 0
    second = read([results]).set_index("label")
    assert second.loc["mine", "macro_f1_union"].tolist() != first.loc["mine", "macro_f1_union"].tolist()
    assert len(finished(tmp_path / "runs")) == len(before) + 3  # only its three rows are computed again


def test_failures_are_reported_and_other_methods_continue(third_party, tiny, tmp_path):
    third_party("raise KeyError('no such luck')")
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(tmp_path), "--engine", "serial", "--seeds", "0"]
    shown = bench("run", "table-main", *where, "--methods", "none,mine", "--limit", "2")
    assert shown.exit_code == 1
    assert shown.output.count("no such luck") == 1
    assert "KeyError: 'no such luck' (2 times)" in shown.output
    lines = (tmp_path / "table-main_tiny.part.failures.txt").read_text().splitlines()
    assert lines == [
        f"mine on W01->{target}, seed 0, cnn, chronological: KeyError: 'no such luck'" for target in ("W02", "W03")
    ]
    assert set(pd.read_parquet(tmp_path / "table-main_tiny.part.parquet")["label"]) == {"Source-only"}
    third_party("return p")
    assert bench("run", "table-main", *where, "--methods", "none,mine", "--limit", "2").exit_code == 0
    assert not (tmp_path / "table-main_tiny.part.failures.txt").exists()


def test_a_missing_subject_fails_alone(tiny, tmp_path):
    (tmp_path / "setting.toml").write_text(TINY.replace("W02+W03->W04", "W01->W09"))
    experiment = narrow(load_experiment("ablation"), methods=["none", "sight"], seeds=[0])
    rows, failures = run(experiment, load_setting(str(tmp_path / "setting.toml")), tiny / "runs", engine="serial")
    assert {row["target"] for row in rows} == {"W02", "W03"}
    assert failures
    assert all("W09" in failure.error for failure in failures)
