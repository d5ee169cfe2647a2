"""Generated parts of README and docs, between ``<!-- begin generated: NAME -->`` and ``<!-- end generated -->``.

``python -m tools.build_docs write`` (``make docs``) writes those that changed; the tests check that they are current.
``python -m tools.build_docs versions`` lists pages whose tables have results of several versions; if there are any, the
exit code is 1.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.scale import extrapolation

from tools import (
    demo_model,
    device_tables,
    findings_feature_tables,
    findings_figures,
    findings_keel_tables,
    findings_tables,
    keel_tables,
    load_figures,
    model_tables,
    probability_tables,
    reference_blocks,
    reproduction_tables,
    row_versions,
)
from tools.result_files import RESULTS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FIGURES = ROOT / "docs" / "figures"
BLOCK = re.compile(r"(<!-- begin generated: ([\w-]+) -->\n)(.*?)(<!-- end generated -->)", re.DOTALL)

BLOCKS: dict[str, Callable[[], str]] = {
    **reference_blocks.BLOCKS,
    **findings_tables.BLOCKS,
    **findings_feature_tables.BLOCKS,
    **findings_keel_tables.BLOCKS,
    **keel_tables.BLOCKS,
    **probability_tables.BLOCKS,
    **model_tables.BLOCKS,
    **device_tables.BLOCKS,
    **reproduction_tables.BLOCKS,
    "demo": demo_model.table,
    "load": lambda: load_figures.table(RESULTS / "live"),
    "latency": lambda: load_figures.latency_table(RESULTS / "live"),
    **{f"scale-{name}": table for name, table in extrapolation.TABLES.items()},
}


@functools.cache
def block(name: str) -> str:
    """Return the content of a generated block; a line under it names the versions of its results."""
    if name not in BLOCKS:
        raise ValueError(f"There is no generated block {name!r}; known are {', '.join(BLOCKS)}.")
    with row_versions.recording() as used:
        text = BLOCKS[name]().strip()
    return f"{text}\n\n{used.line()}".strip()


def fill(text: str) -> str:
    """Return the text of a page with all generated blocks replaced by current ones."""
    return BLOCK.sub(lambda match: f"{match[1]}{block(match[2])}\n{match[4]}", text)


def blocks_in(text: str) -> list[str]:
    """Return the names of the generated blocks in a page."""
    return [name for _, name, _, _ in BLOCK.findall(text)]


def mixed_versions(pages: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
    """Return the pages, by name, whose tables have results of several versions: the blocks of each version."""
    found = {}
    for page, text in pages.items():
        blocks: dict[str, list[str]] = {}
        for _, name, content, _ in BLOCK.findall(text):
            for version in row_versions.versions_in(content):
                blocks.setdefault(version, []).append(name)
        if len(blocks) > 1:
            found[page] = dict(sorted(blocks.items()))
    return found


def print_versions() -> int:
    """Print the pages that mix versions, and return the exit code."""
    mixed = mixed_versions({str(page.relative_to(ROOT)): page.read_text("utf-8") for page in PAGES})
    for page, versions in mixed.items():
        print(page)
        for version, blocks in versions.items():
            print(f"  sight {version}: {', '.join(blocks)}")
    return 1 if mixed else 0


def figures() -> dict[Path, str]:
    """Return the generated figures by path."""
    drawn = findings_figures.figures() | reproduction_tables.figures()
    return {FIGURES / name: text for name, text in drawn.items()}


def write() -> None:
    """Write the pages and figures that changed."""
    pages = {page: fill(page.read_text("utf-8")) for page in PAGES if blocks_in(page.read_text("utf-8"))}
    for path, text in (pages | figures()).items():
        if path.exists() and path.read_text("utf-8") == text:
            continue
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        write()
    elif sys.argv[1:] == ["versions"]:
        raise SystemExit(print_versions())
    else:
        raise SystemExit("Expected: python -m tools.build_docs write, or versions")
