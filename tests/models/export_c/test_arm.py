"""A Cortex-M4F in an emulator: predictions of Python, features of this machine, limits of flash, RAM, instructions."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

pytest.importorskip("onnx")

from benchmarks.device import arm_board
from benchmarks.device.host_library import build, csv_lines

import sight
from tests.helpers.commands import run_sight
from tests.helpers.requirements import program
from tests.models.export_c.test_real_recordings import assert_same_as_python, parse, recording

#: Added to main.c after it printed a prediction: all features of the window, with all digits of a float.
PRINT_FEATURES = """print_prediction(start_s, me->q);
        printf("features");
        for (size_t d = 0; d < SIGHT_FEATURES; d++) {
            printf(",%.9g", (double)me->z[d]);
        }
        printf("\\n");
"""

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", autouse=True)
def tools():
    program("arm-none-eabi-gcc", package="gcc-arm-none-eabi libnewlib-arm-none-eabi")
    program("qemu-system-arm", package="qemu-system-arm")


@pytest.fixture(scope="module")
def wrist(tmp_path_factory):
    """Return the C source of the bundled model wrist in int8."""
    folder = tmp_path_factory.mktemp("arm") / "wrist"
    run_sight("export", "wrist", "--c", "--int8", "stored", "-o", folder)
    return folder


def synthetic(card, n=6000):
    rng = np.random.default_rng(0)
    level = np.repeat(rng.uniform(0.1, 8, size=n // 200), 200)[:, None]
    time_s = np.arange(n) / card.rate_hz
    time_s[n // 2 :] += 900
    return (level * rng.normal(size=(n, 3)) + [0, 0, 9.8]).astype(np.float32), time_s


@pytest.mark.parametrize(("model", "name"), [("wrist", "keel"), ("wrist", "sight"), ("waist", "sticky-learned")])
def test_the_board_predicts_what_python_predicts(tmp_path, model, name):
    run_sight("export", model, "--c", "--method", name, "-o", tmp_path / "c")
    samples = synthetic(sight.load(model).card)
    board = arm_board.build(tmp_path / "c", tmp_path / "c" / "main.c")
    assert_same_as_python(arm_board.run(board, csv_lines(*samples)), model, *samples, name)


@pytest.mark.real
def test_the_board_predicts_a_whole_recording_of_a_real_wearer(tmp_path, real):
    real("wisdm2019_watch_accel.zip")
    run_sight("export", "wrist", "--c", "-o", tmp_path / "c")
    samples = recording("wrist", "1600")
    board = arm_board.build(tmp_path / "c", tmp_path / "c" / "main.c")
    assert_same_as_python(arm_board.run(board, csv_lines(*samples)), "wrist", *samples, "keel")


@pytest.mark.parametrize("int8", [(), ("--int8", "stored")], ids=str)
def test_features_are_the_same_on_the_board_and_on_this_machine_bit_by_bit(tmp_path, int8):
    """Sums are IEEE 754 on both if the compiler joins no multiplication with an addition."""
    run_sight("export", "wrist", "--c", *int8, "--method", "ema", "--set", "a=0", "-o", tmp_path / "c")
    text, main = csv_lines(*synthetic(sight.load("wrist").card)), tmp_path / "c" / "main.c"
    main.write_text(main.read_text().replace("print_prediction(start_s, me->q);", PRINT_FEATURES))
    program = str(build(tmp_path / "c", "main.c", out="sight"))
    here = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    board = arm_board.run(arm_board.build(tmp_path / "c", main, "-ffp-contract=off"), text)
    exact = [[line for line in text.splitlines() if line.startswith("features")] for text in (here.stdout, board)]
    assert exact[0] == exact[1]
    assert len(exact[0]) > 50


def test_the_makefile_builds_and_runs_the_program_for_the_board(wrist):
    subprocess.run(["make", "-s", "arm"], cwd=wrist, check=True)
    text = csv_lines(*synthetic(sight.load("wrist").card, n=1000))
    done = subprocess.run(["make", "-s", "run-arm"], cwd=wrist, input=text, capture_output=True, text=True, check=True)
    assert len(parse(done.stdout)[0]) > 3


def test_wrist_fits_a_small_microcontroller(wrist):
    sizes, counts = arm_board.footprint(wrist), arm_board.instructions(wrist, 20.0)
    assert counts["loop"] == 2  # the emulator counts a loop of two instructions right
    assert sizes["flash"] <= 300 * 1024
    assert sizes["ram"] + counts["stack"] <= 64 * 1024
    assert sizes["adapter_code"] <= 8 * 1024
    assert counts["state"] + counts["stack"] <= 2 * 1024
    assert counts["step"] <= 0.05 * counts["encode"]
