"""Experiments on the datasets of the paper: small files in the official layout."""

from __future__ import annotations

import pytest

from sight.apps.bench import settings
from sight.apps.bench.experiment_report.write import write_report
from sight.datasets.harth import HARTH
from tests.apps.bench.paper_files import WRITERS
from tests.apps.bench.runner.runner_helpers import bench


@pytest.mark.parametrize("name", WRITERS)
def test_datasets_of_the_paper_run_on_official_files(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHT_DATA", str(tmp_path))
    WRITERS[name](tmp_path)
    # The paper's settings train for 100 epochs; two are enough to see that everything runs.
    monkeypatch.setitem(settings._tables()[name], "epochs", 2)
    out = tmp_path / "runs"
    where = ["--dataset", name, "--limit", "1", "--seeds", "0", "--engine", "serial", "-o", str(out)]
    experiments = ["table-main"]
    if name == "harth":  # the other files have each class only once
        experiments += ["order", "geometry", "prototypes", "motivation"]
    for experiment in experiments:
        narrowed = ["--methods", "none,sticky,sight,keel"] if experiment in ("table-main", "order") else []
        run = bench("run", experiment, *where, *narrowed)
        assert run.exit_code == 0, run.output
    write_report([out], tmp_path / "report")
    table = (tmp_path / "report" / "tables" / f"table-main_{name}.md").read_text()
    assert "Paper" in table  # the paper's values of this pair
    labels = [line.split(" | ")[0] for line in table.splitlines()[4:8]]
    assert labels == ["| Source-only", "| Sticky", "| SIGHT, authors' code", "| SIGHT"]
    drawn = {path.stem for path in (tmp_path / "report" / "figures").iterdir()}
    assert drawn == {f"{experiment}_{name}" for experiment in experiments}


@pytest.mark.parametrize("options", [[], ["--gather"]])
def test_missing_data_is_reported_once_with_how_to_get_it(tmp_path, monkeypatch, options):
    monkeypatch.setenv("SIGHT_DATA", str(tmp_path))
    run = bench("run", "ablation", "--dataset", "harth", "--engine", "serial", "-o", str(tmp_path / "runs"), *options)
    assert run.exit_code == 2
    (line,) = run.output.strip().splitlines()
    assert HARTH.homepage in line
    assert line.endswith("sight data fetch harth")
