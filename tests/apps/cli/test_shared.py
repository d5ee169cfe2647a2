"""Text that all commands share."""

from __future__ import annotations

from sight.apps.cli._shared import error_message, parse_pairs, plural


def test_nouns_follow_their_count():
    assert (plural(1, "window"), plural(2, "window")) == ("1 window", "2 windows")


def test_pairs_are_parsed_without_spaces():
    assert parse_pairs(["x=ax", " y = ay"], "x=...") == {"x": "ax", "y": "ay"}


def test_a_missing_package_is_reported_with_its_extra():
    message = error_message(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert message == 'This needs the package torch; install it with: pip install "sight-har[train]"'
