"""Code blocks of README and docs: Python is run, commands are parsed, the tutorial is run from top to bottom.

A Python block that cannot be run is preceded by ``<!-- not run: REASON -->``; one that needs a real dataset by
``<!-- needs FILE -->``, the name of a file in the folder of SIGHT_DATA.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import typer.main

import sight
from sight.apps.cli import app
from sight.apps.serve.limits import Limits
from tests.conftest import ROOT
from tests.helpers.commands import run_sight
from tests.helpers.requirements import data_folder, require
from tests.helpers.services import listening, write_onnx

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIAL = ROOT / "docs" / "tutorial.md"
#: Pages whose blocks start worker processes.
LONG = ("cohort",)
#: Pages with a test of their own.
OTHERS = ("python",)
#: Address of the service on the pages; the tests run one on another port.
SERVICE = "127.0.0.1:8000"
COMMAND = typer.main.get_command(app)
BLOCK = re.compile(r"(?:^<!-- (not run: |needs )(.+?) -->\n+)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path, languages: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Return the remark, its text and the code of the blocks of a page in these languages."""
    return [
        (kind, text, code) for kind, text, lang, code in BLOCK.findall(page.read_text("utf-8")) if lang in languages
    ]


def python_blocks(page: Path) -> list[tuple[str, str, str]]:
    return [
        block for block in blocks(page, ("python",)) if not block[2].startswith(">>>")
    ]  # doctests are run elsewhere


def commands(page: Path) -> list[list[str]]:
    """Return the commands of sight in the shell blocks of a page, as words after ``sight``."""
    text = "\n".join(code for _, _, code in blocks(page, ("", "sh", "bash"))).replace("\\\n", " ")
    names, found = COMMAND.commands, []
    for line in text.splitlines():
        try:
            words = shlex.split(re.sub(r"\$\(|\)$", " ", line), comments=True)
        except ValueError:  # a line of a picture
            continue
        starts = [i for i, word in enumerate(words[:-1]) if word.split("/")[-1] == "sight" and words[i + 1] in names]
        found += [words[i + 1 :] for i in starts[-1:]]
    return found


def parse(command, words: list[str]) -> None:
    """Parse the words of a command without running it; raise an exception of click if they are wrong."""
    if words and words[0] in getattr(command, "commands", {}):
        parse(command.commands[words[0]], words[1:])
    else:
        command.make_context("sight", words)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_commands_can_be_parsed(page):
    for words in commands(page):
        try:
            parse(COMMAND, list(words))
        except Exception as error:
            pytest.fail(f"{page.name}: sight {shlex.join(words)}: {getattr(error, 'message', error)}")


def test_a_wrong_command_is_noticed():
    with pytest.raises(Exception, match="--wrong"):
        parse(COMMAND, ["adapt", "day.csv", "-m", "model.onnx", "--wrong"])


@pytest.fixture
def module(monkeypatch):
    """Return an empty module, in which the blocks of a page are run one after another."""
    made = ModuleType("page")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def run_in(module: ModuleType, code: str) -> None:
    exec(compile(code, module.__name__, "exec", dont_inherit=True), vars(module))


@pytest.fixture
def example_files(device_files, tmp_path, monkeypatch):
    """Make the files that pages use in the current folder: models, a day, labelled recordings."""
    import pyarrow as pa
    import pyarrow.csv

    from sight.datasets.synthetic import Synthetic

    monkeypatch.chdir(tmp_path)
    dataset = Synthetic(hours=0.03, gaps_per_hour=0)
    write_onnx(tmp_path / "model.onnx", channels=dataset.channels, units=dataset.units, rate_hz=50.0, classes=7)
    shutil.copyfile(ROOT / "src/sight/apps/serve/static/model.onnx", "watch.onnx")
    recording = next(dataset.recordings("W02"))
    time = np.datetime64("2024-05-01T12:00", "ms") + np.round(1000 * recording.time_s).astype("timedelta64[ms]")
    columns = {"t": time} | dict(zip(("ax", "ay", "az", "gx", "gy", "gz"), recording.values.T, strict=True))
    for name in ("day.csv", "walk.csv"):
        pyarrow.csv.write_csv(pa.table(columns), name)
    Path("diary.csv").write_text("start,end,label\n0,60,strolling\n60,90,sitting\n")
    shutil.copyfile(device_files / "ax3.cwa", "week.cwa")
    Path("recordings").mkdir()
    for name in ("anna", "bert"):
        pyarrow.csv.write_csv(pa.table(columns | {"activity": recording.labels}), f"recordings/{name}.csv")
    lines = ["[columns]", 'time = "t"', 'label = "activity"', 'x = "ax"', 'y = "ay"', 'z = "az"', "[labels]"]
    lines += [f'{code} = "{name}"' for code, name in enumerate(dataset.classes)]
    for folder in (Path(), Path("recordings")):
        (folder / "MAP.toml").write_text("\n".join(lines))


@pytest.mark.usefixtures("example_files")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.long] if page.stem in LONG else [])
        for page in PAGES
        if python_blocks(page) and page.stem not in OTHERS
    ],
)
def test_python_blocks_run(page, module, tmp_path):
    rng = np.random.default_rng(0)
    module.sight = sight
    module.windows, module.gaps_s = rng.normal(size=(3, 6, 100)).astype(np.float32), [0.0, 0.0, 20.0]
    module.sensor = [(rng.normal(size=(300, 6)), None)] * 2
    for kind, text, code in python_blocks(page):
        if kind == "needs ":
            require(data_folder() / text)
        if kind == "not run: ":
            continue
        if SERVICE in code:
            with listening(tmp_path, Limits()) as client:
                run_in(module, code.replace(SERVICE, client.base_url.netloc.decode()))
        else:
            run_in(module, code)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_tutorial_runs_from_top_to_bottom(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _, _, lang, code in BLOCK.findall(TUTORIAL.read_text("utf-8")):
        if lang == "python":
            run_in(module, code)
        for line in code.splitlines() if lang == "sh" else ():
            if line.startswith("sight "):
                run_sight(*shlex.split(line)[1:])
    assert {"results/day/report.html", "results/new/report.html", "wearer.state", "watch.onnx"} <= {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")
    }
