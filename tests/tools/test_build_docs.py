"""What README, docs and changelog say is what the code does."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tomllib

import pytest

from sight._version import __version__
from tests.conftest import ROOT
from tools import build_docs, load_figures


@pytest.mark.parametrize("name", build_docs.PAGES)
def test_generated_pages_are_up_to_date(name):
    assert (build_docs.DOCS / name).read_text("utf-8") == build_docs.PAGES[name](), "run: make docs"


def test_the_load_is_judged_by_its_goals(tmp_path):
    load = {"machine": "x86_64", "cores": 2, "date": "2030-01-01", "wearers": 1000, "seconds": 300, "p50_ms": 20.0}
    load |= {"p99_ms": 480.0, "p100_ms": 700.0, "windows_expected": 299_000, "rss_mb": {"end": 200.0, "most": 210.0}}
    load |= dict.fromkeys(("windows_lost", "windows_twice", "windows_not_kept", "chunks_unacknowledged", "errors"), 0)
    load |= {"server_cores": 0.5, "client_cores": 0.25, "rss_slope_mb_per_hour": 3.0}

    def told(name, **changes):
        (tmp_path / f"{name}.json").write_text(json.dumps(load | changes))
        return load_figures.table(tmp_path)

    assert load_figures.table(tmp_path).count("not measured yet") == 6
    assert "On 2 cores" in told("load")
    assert told("load").count("| met |") == 2
    assert "| 510 ms (median 20, slowest 700) | **missed** |" in told("load", p99_ms=510.0)
    assert "| 3 of 299,000 | **missed** |" in told("load", windows_lost=1, windows_twice=2)
    assert told("load", wearers=900).count("a smaller run") == 2
    assert "+3 MB an hour; 0 windows wrong | met |" in told("load_soak", seconds=1200)
    assert "+40 MB an hour; 0 windows wrong | **missed** |" in told("load_soak", seconds=1200, rss_slope_mb_per_hour=40)
    kills = {"kills": 20, "sound": False, "chunks_unaccounted": 1, "windows": 900, "repeated": 4}
    kills["wearers"] = [{"stored": {"lost": 2}, "acknowledged": {"lost": 0}}]
    assert "| 3 wrong of 900, 4 sent twice | **missed** |" in told("kills_redis", **kills)


def test_the_newest_changelog_entry_is_this_version():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__
    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_the_quickstart_is_short():
    quickstart = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert quickstart is not None
    assert 5 <= len(quickstart[1].strip().splitlines()) <= 12


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_glossary_knows_every_output_field_and_metric():
    import numpy as np

    from sight import metrics
    from sight.evaluate import run
    from sight.outputs import DAILY_COLUMNS, SEGMENT_COLUMNS, window_columns
    from sight.registry import method
    from sight.report import ResultSummary
    from sight.testing import ToySource, toy_stream

    result = run(method("sight").bind(ToySource()), toy_stream(n=50))
    told = (ROOT / "GLOSSARY.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z0-9_]+)`", told))
    scores = metrics.score(
        result.windows.label, result.q, classes=result.classes, time_s=result.windows.time_s, stride_s=1.0
    )
    columns = {key for key in window_columns(ResultSummary(result, 0.5)) if not key.startswith(("p_", "q_"))}
    missing = {*scores, *columns, *SEGMENT_COLUMNS, *DAILY_COLUMNS} - named
    assert not missing, f"GLOSSARY.md does not explain {sorted(missing)}"
    assert np.isfinite(scores["accuracy"])


def test_extras_are_the_promised_ones():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(extras) == {"train", "fast", "data", "bench", "stream", "serve", "dask", "spark", "all", "dev"}


def test_the_example_of_a_method_keeps_the_contract():
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    subprocess.run([sys.executable, "-c", page.split("```python")[1].split("```")[0]], check=True)


def test_the_experiment_and_the_setting_of_the_docs_load(tmp_path):
    from sight.bench import experiments, settings

    page = (ROOT / "docs" / "bench.md").read_text("utf-8")
    for name, text in zip(("mine", "setting"), re.findall(r"```toml\n(.*?)```", page, re.DOTALL), strict=True):
        (tmp_path / f"{name}.toml").write_text(text)
    experiment = experiments.load_experiment(str(tmp_path / "mine.toml"))
    labels = ["Source-only", "Sticky", "w/o surprise", "SIGHT", "beta=0.3", "beta=3"]
    assert [variant.label for variant in experiment.variants] == labels
    setting = settings.load_setting(str(tmp_path / "setting.toml"))
    assert setting.pairs == ((("W01",), "W03"), (("W01", "W02"), "W04"))
    told = set(re.findall(r"`(\w+)`", page))
    assert {*experiments.KEYS, *settings.KEYS} <= told
    kept = experiments.narrow(experiments.load_experiment("ablation"), methods=["none", "w/o habit prior", "SIGHT"])
    assert [variant.label for variant in kept.variants] == ["Source-only", "w/o habit prior", "SIGHT"]


def test_the_paper_has_one_title():
    from sight.bench.evidence import PAPER

    for page in ("README.md", "CITATION.cff", "docs/bench.md"):
        assert PAPER in " ".join((ROOT / page).read_text("utf-8").split()), page


def test_the_figures_of_keel_are_those_of_its_results():
    """Gains and shares of harmed runs on the page are the rounded ones of ``summary.csv``."""
    with (ROOT / "benchmarks" / "results" / "beyond" / "summary.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["half"] == "all"]
    page = (ROOT / "docs" / "beyond.md").read_text("utf-8")
    settings = re.findall(r"^\| \| (ExtraSensory.*) \| mean", page, re.MULTILINE)[0].split(" | ")
    names = [text.replace(" body", "-body").replace(" ", "_").lower() for text in settings]
    for shown, method in (("sticky", "sticky"), ("sight", "sight"), ("lame", "lame"), (r"\*\*keel\*\*", "keel")):
        cells = re.search(rf"^\| {shown} \| (.*) \|$", page, re.MULTILINE)[1].split(" | ")
        own = {row["setting"].lower().replace("-total", ""): row for row in rows if row["method"] == method}
        gains = [float(own[name]["gain"]) for name in names]
        assert [float(cell) for cell in cells[:9]] == pytest.approx(gains, abs=0.0501), method
        assert float(cells[9]) == pytest.approx(sum(gains) / 9, abs=0.0501), method
        harmed = sum(int(row["harmed"]) for row in own.values()) / sum(int(row["runs"]) for row in own.values())
        assert float(cells[10].rstrip(" %")) == pytest.approx(100 * harmed, abs=0.0501), method
