"""The page about microcontrollers: its commands are run from top to bottom, and its C code is compiled."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from benchmarks.device.host_library import build

from sight.models.given_features import ProbabilitySource
from sight.registry import method
from tests.conftest import ROOT
from tests.helpers.commands import run_sight
from tests.helpers.requirements import program

PAGE = (ROOT / "docs" / "device.md").read_text("utf-8")
FIRMWARE = re.search(r"^```c\n(#include \"sight.h\".*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[1]
#: What the reader has: a function that shows the activity, and the headers of functions that a driver calls.
BEFORE = """#include "sight.h"
static void show_activity(const char *name) { (void)name; }
void sensor_started(void);
void sensor_has_sample(double time_s, const float sample[SIGHT_CHANNELS]);
"""
AFTER = "int main(void) { sensor_started(); return 0; }\n"


def blocks(section: str, *languages: str) -> list[tuple[str, str]]:
    """Return language and text of the code blocks of a section."""
    text = PAGE.partition(f"\n## {section}")[2].partition("\n## ")[0]
    return re.findall(rf"^```({'|'.join(languages)})\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def shell(*, arm: bool) -> str:
    """Return the commands of the first section, with or without those for the emulated board."""
    found = [block for _, block in blocks("From a bundled model", "sh")]
    lines = "".join(block for block in found if arm or "make arm" not in block).splitlines()
    return "\n".join(line for line in lines if not re.match(r"pip |apt-get ", line))


def follow(folder: Path, commands: str) -> str:
    script = f'set -e\nexport PATH="{Path(sys.executable).parent}:$PATH"\ncd "{folder}"\n{commands}\n'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def labels(printed: str) -> list[str]:
    return re.findall(r"^\d+\.\d{3},([^,]+),", printed, re.MULTILINE)


def test_the_commands_work_in_an_empty_folder(tmp_path):
    program("gcc", package="gcc")
    printed = labels(follow(tmp_path, shell(arm=False)))
    assert len(printed) == 2 * 23
    assert printed[:23] == printed[23:]
    assert len(set(printed)) > 1
    assert (tmp_path / "firmware" / "wearer.state").exists()


@pytest.mark.long
def test_the_emulated_board_prints_the_same(tmp_path):
    program("arm-none-eabi-gcc", package="gcc-arm-none-eabi libnewlib-arm-none-eabi")
    program("qemu-system-arm", package="qemu-system-arm")
    printed = follow(tmp_path, shell(arm=True))
    assert labels(printed)[46:] == labels(printed)[:23]
    rows = re.findall(r"^\d+\.\d{3},[^,]+,(.*)$", printed, re.MULTILINE)
    here, board = (np.array([row.split(",") for row in part], float) for part in (rows[:23], rows[46:]))
    assert np.abs(here - board).max() < 1e-6


def test_the_examples_with_another_encoder_work_in_an_empty_folder(tmp_path):
    program("gcc", package="gcc")
    (python, first), *shells, (_, second) = blocks("Another encoder", "sh", "python")
    assert python == "python"
    (tmp_path / "first.py").write_text(first)
    imported = first.partition("\n\n")[0]
    (tmp_path / "second.py").write_text(f"{imported}\n{second}")
    printed = follow(tmp_path, "\n".join(["python first.py", *(text for _, text in shells), "python second.py"]))
    rows = np.array([line.split(",") for line in printed.splitlines() if re.fullmatch(r"[\d.e,-]+", line)], float)
    source = ProbabilitySource(["walking", "sitting", "lying"])
    adapter, given = method("keel").bind(source), [[0, 0.7, 0.2, 0.1], [0, 0.4, 0.5, 0.1], [60, 0.1, 0.8, 0.1]]
    refined = []
    for gap_s, *p in given:
        adapter.gap(gap_s)
        refined.append(adapter.step(np.array(p, np.float32)[None, :, None])[0])
    np.testing.assert_allclose(rows, refined, rtol=0, atol=1e-5)
    assert (tmp_path / "adapter" / "README.md").exists()
    assert (tmp_path / "adapter_with_features" / "README.md").exists()


def test_the_example_that_moves_a_wearer_works(tmp_path):
    [(_, text)] = blocks("Move a wearer", "python")
    follow(tmp_path, f"python - <<'END'\n{text}assert adapter.state()['count'] == 0\nEND")


def test_the_code_for_a_board_compiles(tmp_path):
    program("gcc", package="gcc")
    run_sight("export", "waist", "--c", "-o", tmp_path / "c")
    (tmp_path / "c" / "board.c").write_text(BEFORE + FIRMWARE + AFTER)
    assert build(tmp_path / "c", "board.c", out="board").exists()
