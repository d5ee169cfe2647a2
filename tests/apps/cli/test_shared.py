"""Text that all commands share."""

from __future__ import annotations

from sight.apps.cli._shared import error_message, parse_pairs, plural, progress


def test_nouns_follow_their_count():
    assert (plural(1, "window"), plural(2, "window")) == ("1 window", "2 windows")


def test_pairs_are_parsed_without_spaces():
    assert parse_pairs(["x=ax", " y = ay"], "x=...") == {"x": "ax", "y": "ay"}


def test_a_missing_package_is_reported_with_its_extra():
    message = error_message(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert message.startswith('This needs the package torch; install it with: pip install "sight-har[train]"')
    assert "without a GPU, install torch first" in message
    message = error_message(ModuleNotFoundError("No module named 'scipy'", name="scipy"))
    assert message == 'This needs the package scipy; install it with: pip install "sight-har[data]"'


def test_progress_without_a_terminal_is_a_line_at_the_first_and_each_quarter(capsys):
    with progress("p.csv, reading", 2000, "MB") as show:
        for done in (0, 100, 600, 700, 2000):
            show(done)
    assert capsys.readouterr().out.splitlines() == [
        f"p.csv, reading: {done} of 2,000 MB" for done in ("0", "600", "2,000")
    ]
