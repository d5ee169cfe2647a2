"""Generated parts of README and docs are current, and docs agree with the code."""

from __future__ import annotations

import json
import re
import tomllib

import numpy as np
import pytest

from sight import __version__
from sight.apps.cli._shared import EXTRAS
from tests.conftest import ROOT
from tools import build_docs, load_figures

PAGES = [page for page in build_docs.PAGES if build_docs.blocks_in(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_blocks_are_current(page):
    text = page.read_text("utf-8")
    assert build_docs.fill(text) == text, "run: make docs"


def test_every_generated_block_is_used():
    used = {name for page in PAGES for name in build_docs.blocks_in(page.read_text("utf-8"))}
    assert used == set(build_docs.BLOCKS)


@pytest.mark.long
def test_generated_figures_are_current():
    """Within a hundredth of a point, since processors differ in the last digit."""
    figures = build_docs.figures()
    assert {path.name for path in build_docs.FIGURES.glob("*.svg")} == {path.name for path in figures}
    for path, text in figures.items():
        drawn, kept = (re.findall(r"-?\d+\.\d+", svg) for svg in (text, path.read_text("utf-8")))
        assert len(drawn) == len(kept), f"{path.name} is not current; run: make docs"
        difference = np.abs(np.array(drawn, float) - np.array(kept, float)).max()
        assert difference < 0.01, f"{path.name} is not current; run: make docs"


def test_blocks_are_filled_by_name(monkeypatch):
    monkeypatch.setitem(build_docs.BLOCKS, "filled", lambda: "new\n")
    text = "a\n<!-- begin generated: filled -->\nold\n<!-- end generated -->\nb\n"
    assert build_docs.fill(text) == text.replace("old", "new")
    with pytest.raises(ValueError, match="'two'"):
        build_docs.fill(text.replace("filled", "two"))


def test_every_field_of_a_method_is_in_its_table():
    from dataclasses import fields

    from sight import registry

    page = (ROOT / "docs" / "methods.md").read_text("utf-8")
    sections = dict(re.findall(r"^## ([\w-]+)\n(.*?)(?=^## |^<!--)", page, re.DOTALL | re.MULTILINE))
    for name in registry.names("methods"):
        rows = re.findall(r"^\| (`.*?`) \| ", sections[name], re.MULTILINE)
        listed = [field for row in rows for field in re.findall(r"`(\w+)`", row)]
        assert sorted(listed) == sorted(field.name for field in fields(registry.get("methods", name))), name


def test_verdicts_of_the_load_table(tmp_path):
    load = {"machine": "x86_64", "cores": 2, "wearers": 1000, "seconds": 300, "p50_ms": 20.0}
    load |= {"p99_ms": 480.0, "p100_ms": 700.0, "windows_expected": 299_000, "rss_mb": {"end": 200.0, "most": 210.0}}
    load |= dict.fromkeys(("windows_lost", "windows_twice", "windows_not_kept", "chunks_unacknowledged", "errors"), 0)
    load |= {"sight": "0.2.0", "computed_at": "2030-01-01"}
    load |= {"server_cores": 0.5, "client_cores": 0.25, "rss_slope_mb_per_hour": 3.0}

    def table(name, **changes):
        (tmp_path / f"{name}.json").write_text(json.dumps(load | changes))
        return load_figures.table(tmp_path)

    assert load_figures.table(tmp_path).count(load_figures.MISSING) == 6
    assert table("load").count("| met |") == 2
    assert "| 510 ms (median 20, slowest 700) | **missed** |" in table("load", p99_ms=510.0)
    assert "| 3 of 299,000 | **missed** |" in table("load", windows_lost=1, windows_twice=2)
    assert table("load", wearers=900).count("smaller run") == 2
    assert "+3 MB per hour; 0 errors | met |" in table("load_soak", seconds=1200)
    assert "+40 MB per hour; 0 errors | **missed** |" in table("load_soak", seconds=1200, rss_slope_mb_per_hour=40)
    kills = {"kills": 20, "sound": False, "chunks_unaccounted": 1, "windows": 900, "repeated": 4}
    kills["wearers"] = [{"stored": {"lost": 2}, "acknowledged": {"lost": 0}}]
    assert "| 3 wrong of 900, 4 sent twice | **missed** |" in table("kills_redis", **kills)


def test_the_newest_changelog_entry_is_this_version():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__
    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_the_quickstart_is_short():
    quickstart = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert quickstart is not None
    assert 5 <= len(quickstart[1].strip().splitlines()) <= 12


def test_links_point_to_files_and_headings():
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md"):
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)  # code has no links
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
            path = page.parent / target if target else page
            assert path.exists(), f"{page.name} links to {target}"
            if anchor and path.suffix == ".md":
                headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)
                anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert anchor in anchors, f"{page.name} links to {target}#{anchor}"


def test_the_glossary_explains_every_output_field_and_metric():
    from sight.registry import method
    from sight.results import metrics
    from sight.results.output_tables import all_tables
    from sight.results.output_tables.windows import window_columns
    from sight.results.prediction_loop import run
    from sight.results.summary import ResultSummary
    from sight.testing import ToySource, toy_stream

    result = run(method("sight").bind(ToySource()), toy_stream(n=50))
    explained = set(re.findall(r"`([a-z0-9_]+)`", (ROOT / "GLOSSARY.md").read_text("utf-8")))
    scores = metrics.score(
        result.windows.label, result.q, classes=result.classes, time_s=result.windows.time_s, stride_s=1.0
    )
    columns = {key for key in window_columns(ResultSummary(result)) if not key.startswith(("p_", "q_"))}
    missing = {*scores, *columns, *(name for table in all_tables() for name in table.fixed)} - explained
    assert not missing, f"GLOSSARY.md does not explain {sorted(missing)}"
    assert np.isfinite(scores["accuracy"])


def test_extras():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    uses = {"train", "fast", "data", "live", "serve", "cohort", "bench", "dask", "spark"}
    assert set(extras) == uses | {"all", "docs", "dev"}
    assert set(EXTRAS.values()) <= uses


def test_the_experiment_and_the_setting_of_the_docs_load(tmp_path):
    from sight.apps.bench import experiments, settings

    page = (ROOT / "docs" / "bench.md").read_text("utf-8")
    for name, text in zip(("mine", "setting"), re.findall(r"```toml\n(.*?)```", page, re.DOTALL), strict=True):
        (tmp_path / f"{name}.toml").write_text(text)
    experiment = experiments.load_experiment(str(tmp_path / "mine.toml"))
    labels = ["Source-only", "Sticky", "w/o surprise", "SIGHT", "beta=0.3", "beta=3"]
    assert [variant.label for variant in experiment.variants] == labels
    setting = settings.load_setting(str(tmp_path / "setting.toml"))
    assert setting.pairs == ((("W01",), "W03"), (("W01", "W02"), "W04"))
    documented = set(re.findall(r"`(\w+)`", page))
    assert {*experiments.KEYS, *settings.KEYS} <= documented
    kept = experiments.narrow(experiments.load_experiment("ablation"), methods=["none", "w/o habit prior", "SIGHT"])
    assert [variant.label for variant in kept.variants] == ["Source-only", "w/o habit prior", "SIGHT"]


def test_the_docs_name_every_experiment_and_setting():
    from sight.apps.bench import experiments, settings

    page = (ROOT / "docs" / "bench.md").read_text("utf-8")
    named = set(re.findall(r"[\w-]+", page))
    own = set(experiments.experiments())
    assert own | set(settings.settings()) <= named


def test_the_title_of_the_paper():
    from sight.apps.bench.paper_values import TITLE

    for page in ("README.md", "CITATION.cff", "docs/bench.md", "docs/findings.md"):
        assert TITLE in " ".join((ROOT / page).read_text("utf-8").split()), page


def test_committed_results_are_small_and_compact():
    folder = ROOT / "benchmarks" / "results"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 16e6
    assert {path.suffix for path in files} == {".parquet", ".md", ".csv", ".json"}
