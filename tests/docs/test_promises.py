"""The promises of the docs name tests that exist."""

from __future__ import annotations

import ast
import re

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "promises.md").read_text("utf-8")


def defined(path: str) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_named_test_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 30
    missing = [f"{path}::{name}" for path, name in named if name not in defined(path)]
    assert not missing, f"docs/promises.md names tests that do not exist: {missing}"


def test_every_promise_names_a_test():
    rows = re.findall(r"^\| (?!event|what|---)([^|]+) \| ([^|]+) \|([^|]*)\|$", PAGE, re.MULTILINE)
    assert len(rows) > 30
    without = [event for event, promise, test in rows if "::" not in test and not promise.startswith("no promise")]
    assert without == []
