"""Names from files in what is printed and written: no terminal commands, no markup, no spreadsheet formulas."""

from __future__ import annotations

import csv
import json

import pytest
from rich.table import Table

from tests.helpers.commands import run_sight
from tests.helpers.onnx_files import small_card, write_model

NAMES = ("=HYPERLINK(1)", "[/] \x1b]0;owned\x07\x9b31m\u202e")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A model whose class names are formulas and terminal commands, and a recording with such a name."""
    folder = tmp_path_factory.mktemp("hostile")
    card = small_card(classes=NAMES, dataset="\x1b[2J")
    model = write_model(folder / "m.onnx", card=card, metadata={"sight.classes": json.dumps(NAMES)})
    (folder / "recordings").mkdir()
    rows = "".join(f"{t / 10},{t > 60:d},{t < 60:d},0\n" for t in range(120))
    (folder / "recordings" / "+cmd[bold].csv").write_text("time,x,y,z\n" + rows)
    (folder / "recordings" / "@bad.csv").write_text("nothing\n")
    return model, folder / "recordings"


def check_printed(text):
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_files_cannot_send_commands_to_the_terminal(hostile, tmp_path):
    model, folder = hostile
    day = folder / "+cmd[bold].csv"
    printed = run_sight("inspect", model).output
    assert r"\x1b[2J" in printed
    check_printed(printed)
    check_printed(run_sight("adapt", day, "-m", model, "-o", tmp_path).output)
    check_printed(run_sight("stream", "-m", model, "--replay", day, "--speed", 0, "--method", "none").output)


def test_every_text_of_a_console_is_plain(capsys):
    from sight.apps.cli._shared import PlainConsole

    console = PlainConsole(force_terminal=False)
    table = Table(title="a\x1b[2J")
    table.add_column("b\x9b")
    table.add_row("c\x07")
    console.print(table, "d\x1b]0;x", markup=False)
    check_printed(capsys.readouterr().out)


def test_names_between_colons_are_no_emoji(capsys):
    from sight.apps.cli._shared import PlainConsole

    PlainConsole().print("wearer :x: of :warning:")
    assert capsys.readouterr().out == "wearer :x: of :warning:\n"


def test_names_are_not_formulas_in_written_tables(hostile, tmp_path):
    model, folder = hostile
    run_sight("adapt", folder / "+cmd[bold].csv", "-m", model, "-o", tmp_path / "one", "--method", "none")
    run_sight("cohort", "run", folder, "-m", model, "-o", tmp_path / "all", "--engine", "serial", code=1)
    query = ("FROM recordings", "--csv", tmp_path / "query.csv")
    run_sight("cohort", "query", tmp_path / "all", *query)
    tables = list(tmp_path.rglob("*.csv"))
    assert {"segments.csv", "daily.csv", "summary.csv", "recordings.csv", "query.csv"} <= {p.name for p in tables}
    for path in tables:
        with path.open(encoding="utf-8", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell[:1] in set("=+@\t\r")], path.name
    assert "'=HYPERLINK(1)" in (tmp_path / "one" / "segments.csv").read_text()
    assert "'@bad" in (tmp_path / "all" / "failures.csv").read_text()
