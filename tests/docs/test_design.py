"""The map of the source tree names files that exist."""

from __future__ import annotations

import re

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "design.md").read_text("utf-8")


def test_every_path_of_the_map_exists():
    table = re.search(r"^\| what \| where \|\n(.*?)\n\n", PAGE, re.DOTALL | re.MULTILINE)[1]
    paths = {text for text in re.findall(r"`([\w./-]+)`", table) if "/" in text or "." in text}
    assert len(paths) > 50
    missing = [path for path in paths if not ((ROOT / "src" / "sight" / path).exists() or (ROOT / path).exists())]
    assert not missing, f"docs/design.md names paths that do not exist: {sorted(missing)}"


def test_every_package_of_the_layout_is_described():
    packages = {path.parent.name for path in (ROOT / "src" / "sight").glob("*/__init__.py")}
    assert packages <= set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\*\*.*?\*\*", PAGE, re.MULTILINE))))
