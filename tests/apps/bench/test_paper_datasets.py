"""Experiments on the datasets of the paper: small files in the official layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from sight.apps.bench import settings
from sight.apps.bench.experiment_report.write import write_report
from sight.apps.cli import app
from sight.datasets.harth import HARTH
from tests.helpers.layouts import ANNOTATIONS, capture_lines, harth_table, overlapping, ucihar

RNG = np.random.default_rng(11)


def bench(*arguments: str):
    return CliRunner().invoke(app, ["bench", *arguments])


def write_harth(root: Path) -> None:
    (root / "harth").mkdir()
    for subject in ("S006", "S032"):
        table = harth_table(np.tile(np.repeat([1, 6, 7, 8, 13], 150), 2))
        table.to_csv(root / "harth" / f"{subject}.csv", index=False)


def write_capture24(root: Path) -> None:
    folder = root / "capture24"
    folder.mkdir()
    pd.DataFrame({"annotation": list(ANNOTATIONS), "label:Walmsley2020": list(ANNOTATIONS.values())}).to_csv(
        folder / "annotation-label-dictionary.csv", index=False
    )
    for subject in ("P002", "P025"):
        spans = [(annotation, 20, 0) for annotation in ANNOTATIONS]
        capture_lines([("", 15, 0), *spans, ("", 10, 60)]).to_csv(folder / f"{subject}.csv.gz", index=False)


def write_uschad(root: Path) -> None:
    from scipy.io import savemat

    for subject in (1, 3):
        folder = root / "USC-HAD" / f"Subject{subject}"
        folder.mkdir(parents=True)
        for activity in range(1, 13):
            savemat(
                folder / f"a{activity}t1.mat",
                {"sensor_readings": RNG.normal(size=(300, 6)), "activity_number": str(activity)},
            )


def write_ucihar(root: Path) -> None:
    def rows(subject: int):
        return [(subject, activity, overlapping(4, RNG.normal(size=(9, 320)).round(6))) for activity in range(1, 7)]

    ucihar(root, {"train": rows(1), "test": rows(16)})


@pytest.mark.parametrize("name", ["harth", "capture24", "uschad", "ucihar"])
def test_datasets_of_the_paper_run_on_official_files(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHT_DATA", str(tmp_path))
    globals()[f"write_{name}"](tmp_path)
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
