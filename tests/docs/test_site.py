"""The documentation site: every page can be reached, it builds without warnings, and its search works offline."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

DOCS = ROOT / "docs"
INDEX_PAGES = ("index", "guides", "reference", "explanation")


def listed(page: str) -> list[str]:
    """Return the entries of the toctrees of a page."""
    text = (DOCS / f"{page}.md").read_text("utf-8")
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]


def test_every_page_is_in_one_toctree():
    entries = [entry for page in INDEX_PAGES for entry in listed(page)]
    pages = {path.stem for path in (*DOCS.glob("*.md"), *DOCS.glob("*.rst")) if path.name != "sg_execution_times.rst"}
    assert len(entries) == len(set(entries))
    assert {entry for entry in entries if "/" not in entry} == pages - {"index"}, "add new pages to a toctree"


@pytest.mark.parametrize("name", ["CHANGELOG", "CONTRIBUTING", "GLOSSARY", "SECURITY"])
def test_files_of_the_repository_that_the_site_includes_exist(name):
    assert f"{{include}} ../{name}.md" in (DOCS / f"{name.lower()}.md").read_text("utf-8")
    assert (ROOT / f"{name}.md").is_file()


def test_links_out_of_the_docs_become_links_of_the_site():
    sys.path.insert(0, str(DOCS))
    try:
        import conf
    finally:
        sys.path.remove(str(DOCS))
    source = ["[a](../GLOSSARY.md#windowsparquet) [b](../benchmarks/results) [c](../README.md#python) [d](keel.md)"]
    source[0] += " [e](../examples/plot_week.py)"
    conf.rewrite_links(None, "page", source)
    repository = f"{conf.REPOSITORY}/tree/main/benchmarks/results"
    assert source == [
        f"[a](glossary.md#windowsparquet) [b]({repository}) [c](index.md) [d](keel.md) [e](auto_examples/plot_week.rst)"
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site, which runs all examples; return its folder."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", out / "doctrees", DOCS, out / "html"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out / "html"


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_site_builds_with_all_examples(site):
    for example in (ROOT / "examples").glob("plot_*.py"):
        assert (site / "auto_examples" / f"{example.stem}.html").is_file()
        assert list(site.glob(f"_downloads/*/{example.stem}.ipynb")), "examples can be downloaded as notebooks"
    assert "surprise" in (site / "sight.html").read_text("utf-8")
    assert "Parameters" in (site / "generated" / "sight.load.html").read_text("utf-8")


@pytest.mark.long
def test_the_search_works_offline(site, opened):
    page = opened(site / "search.html")
    page.goto((site / "search.html").as_uri() + "?q=keel")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li").count() > 3
    # Excerpts under the results are fetched, which browsers refuse for files; the results do not need them.
    assert not [text for text in page.messages if text.startswith("request: http")]
