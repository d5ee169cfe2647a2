"""Tables name the versions and dates of their rows, and pages that mix versions are found."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyarrow")

from sight.apps.bench.result_rows import frame
from tests.conftest import ROOT
from tests.helpers.bench_rows import rows
from tools import build_docs, row_versions


def made(version: str, date: str):
    """Return rows of a version, computed on a date."""
    return frame(rows(versions={"sight": version, "numpy": "3"}, computed_at=f"{date}T10:00:00+00:00", seeds=(0,)))


def page(monkeypatch, **blocks) -> str:
    """Return a page with one block for each list of rows."""
    for name, tables in blocks.items():
        monkeypatch.setitem(
            build_docs.BLOCKS, name, lambda own=tables: f"{len([*map(row_versions.record, own)])} tables"
        )
    build_docs.block.cache_clear()
    text = "\n".join(f"<!-- begin generated: {name} -->\n<!-- end generated -->" for name in blocks)
    return build_docs.fill(text)


def test_the_line_under_a_table(monkeypatch):
    text = page(monkeypatch, one=[made("0.2.0", "2026-11-02")])
    line = "*Rows of sight 0.2.0, computed 2026-11-02.*"
    assert text == f"<!-- begin generated: one -->\n1 tables\n\n{line}\n<!-- end generated -->"
    text = page(monkeypatch, one=[made("0.2.0", "2026-11-02"), made("0.1.0", "2026-10-01")])
    assert "*Rows of sight 0.1.0 and 0.2.0, computed 2026-10-01 to 2026-11-02.*" in text
    assert row_versions.versions_in(text) == {"0.1.0", "0.2.0"}
    assert page(monkeypatch, one=[]) == "<!-- begin generated: one -->\n0 tables\n<!-- end generated -->"


def test_pages_that_mix_versions_are_found(monkeypatch):
    old, new = made("0.1.0", "2026-10-01"), made("0.2.0", "2026-11-02")
    pages = {
        "one version": page(monkeypatch, a=[new], b=[new]),
        "in one table": page(monkeypatch, c=[old, new]),
        "in two tables": page(monkeypatch, d=[old], e=[new]),
        "no rows": "*Rows of sight 0.1.0 and 0.2.0, computed 2026-10-01.*",  # written by hand, in no block
    }
    assert build_docs.mixed_versions(pages) == {
        "in one table": {"0.1.0": ["c"], "0.2.0": ["c"]},
        "in two tables": {"0.1.0": ["d"], "0.2.0": ["e"]},
    }


def test_the_command_fails_if_a_page_mixes_versions(monkeypatch, tmp_path, capsys):
    path = tmp_path / "page.md"
    monkeypatch.setattr(build_docs, "ROOT", tmp_path)
    monkeypatch.setattr(build_docs, "PAGES", [path])
    path.write_text(page(monkeypatch, a=[made("0.2.0", "2026-11-02")]), "utf-8")
    assert build_docs.print_versions() == 0
    path.write_text(page(monkeypatch, a=[made("0.1.0", "2026-11-02")], b=[made("0.2.0", "2026-11-02")]), "utf-8")
    assert build_docs.print_versions() == 1
    assert capsys.readouterr().out == "page.md\n  sight 0.1.0: a\n  sight 0.2.0: b\n"


def test_a_page_of_results_has_one_version():
    names = ("README", "findings", "keel", "models", "reproduction", "speed")
    pages = {page.name: page.read_text("utf-8") for page in build_docs.PAGES if page.stem in names}
    assert len(pages) == len(names)
    assert build_docs.mixed_versions(pages) == {}


def test_an_unknown_command_is_refused():
    command = [sys.executable, "-m", "tools.build_docs", "x"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "write, or versions" in run.stderr


def test_recordings_may_be_nested():
    with row_versions.recording() as outer:
        row_versions.record(made("0.1.0", "2026-10-01"))
        with row_versions.recording() as inner:
            row_versions.record(made("0.2.0", "2026-11-02"))
    assert (inner.versions, outer.versions) == ({"0.2.0"}, {"0.1.0", "0.2.0"})
    row_versions.record(made("0.3.0", "2026-12-01"))  # nothing is recorded outside
    assert "0.3.0" not in outer.versions
