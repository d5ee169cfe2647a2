"""The exported program: strict compilers, sanitizers, random input, samples as lines, states as files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from benchmarks.device.host_library import build, csv_lines

import sight
from sight.apps.stream.session import Session
from sight.models.export.c import export_c
from sight.models.export.c.state_bytes import pack_state, unpack_state
from sight.models.given_features import ProbabilitySource
from sight.registry import method
from tests.helpers.commands import run_sight
from tests.helpers.requirements import missing, program

HERE = Path(__file__).parent
#: Uses all parts of the interface; prints the class of the first of equal probabilities.
CPP = """
#include "sight.h"
#include <cstdio>

static sight_state_t state;
static sight_windower_t windower;
static sight_workspace_t workspace;
static float z[SIGHT_FEATURES], p[SIGHT_CLASSES], q[SIGHT_CLASSES];

static void on_window(void *, const float *window, double, double)
{
    if (sight_encode(&workspace, window, z, p)) {
        (void)sight_step(&state, z, p, q);
    }
}

int main()
{
    const float sample[SIGHT_CHANNELS] = {};
    sight_reset(&state);
    sight_windower_reset(&windower);
    sight_push(&windower, 0.0, sample, on_window, nullptr);
    sight_finish(&windower, on_window, nullptr);
    std::printf("%s\\n", SIGHT_CLASS_NAMES[sight_predicted_class(q)]);
}
"""
SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the C source of the bundled model waist in int8, for a sensor of 100 Hz, as the command writes it."""
    out = tmp_path_factory.mktemp("program") / "c"
    run_sight("export", "waist", "--c", "--int8", "stored", "--rate", 100, "-o", out)
    return out


@pytest.fixture(scope="module")
def float32(tmp_path_factory):
    """Return the program of the bundled model waist in float32."""
    out = tmp_path_factory.mktemp("float32") / "c"
    run_sight("export", "waist", "--c", "-o", out)
    return build(out, "main.c", out="sight")


@pytest.fixture(scope="module")
def adapter_only(tmp_path_factory):
    """Return the C source of a method behind an encoder of another tool, compiled by its Makefile."""
    out = tmp_path_factory.mktemp("adapter") / "c"
    export_c(ProbabilitySource(["walking", "sitting", "lying"]), out, encoder=False)
    subprocess.run(["make", "-s", "CFLAGS=-O2 -Werror"], cwd=out, check=True)
    return out


@pytest.fixture(scope="module")
def recording():
    """Samples of a wearer who moves now and then, with a pause of ten minutes, on the clock of waist."""
    rng = np.random.default_rng(0)
    level = np.repeat(rng.uniform(0.02, 0.8, size=60), 128)[:, None]
    values = (np.array([1.0, 0.1, 0.2]) + level * rng.normal(size=(len(level), 3))).astype(np.float32)
    time_s = np.arange(len(values)) / 50
    time_s[4000:] += 600
    return values, time_s


def lines(values, time_s):
    return "seconds,x,y,z\n" + csv_lines(values, time_s)


def run(path, text, *arguments):
    done = subprocess.run([str(path), *map(str, arguments)], input=text, capture_output=True, text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines()]
    return [row[1] for row in rows], np.array([row[2:] for row in rows], np.float64), done.stderr


def expected(session, values, time_s):
    """Return the labels, refined probabilities and gaps of a session."""
    events = session.push(values, time_s) + session.flush()
    q = np.array([event.q for event in events])
    return [session.source.classes[k] for k in q.argmax(axis=1)], q, [event.gap_s for event in events]


def require_sanitizers(compiler, folder):
    path = program(compiler, package=compiler)
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    command = [path, *SANITIZERS, "empty.c", "-o", "empty"]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode:
        missing(f"{compiler} has no sanitizers; Debian: apt-get install libclang-rt-14-dev")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_sanitizers_find_nothing_in_random_input(folder, tmp_path, compiler):
    require_sanitizers(compiler, tmp_path)
    shutil.copytree(folder, tmp_path / "c")
    fuzz = build(tmp_path / "c", str(HERE / "fuzz.c"), out="fuzz", cc=compiler, flags=SANITIZERS)
    for seed in (1, 2):
        done = subprocess.run([str(fuzz), str(seed)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) > 1000


def test_the_makefile_builds_the_programs(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "c")
    command = ["make", "CFLAGS=-O2 -Werror"]
    done = subprocess.run(command, cwd=tmp_path / "c", capture_output=True, text=True, check=True)
    assert "warning" not in done.stderr
    assert {"sight", "example_adapter"} <= {path.name for path in (tmp_path / "c").iterdir()}


def test_the_program_predicts_what_a_session_predicts(float32, recording):
    labels, q, notes = run(float32, lines(*recording))
    names, refined, _ = expected(Session(sight.load("waist"), method("keel")), *recording)
    assert labels == names
    np.testing.assert_allclose(q, refined, rtol=0, atol=1e-5)
    assert notes == f"{len(recording[0])} samples: {len(names)} windows, 0 samples dropped, 1 gaps.\n"


def test_times_in_milliseconds_are_named(float32, recording):
    labels, _, notes = run(float32, lines(recording[0][:500], 1000 * recording[1][:500]))
    assert labels == []
    assert "500 samples: 0 windows, 0 samples dropped, 499 gaps." in notes
    assert "check that times are in seconds, at about 50 samples a second" in notes


def test_wrong_lines_are_left_out_and_named(float32, recording):
    text = lines(*recording)
    given = text.replace("\n", "\nnot a sample\n", 3).replace("seconds,x,y,z\n", "")
    labels, _, notes = run(float32, given)
    assert labels == run(float32, text)[0]
    assert notes.count("expected seconds and 3 numbers") == 2


def test_a_wearer_moves_from_python_to_the_program_and_back(float32, recording, tmp_path):
    source, (values, time_s) = sight.load("waist"), recording
    whole, refined, gaps_s = expected(Session(source, method("keel")), values, time_s)
    file = tmp_path / "wearer.state"
    first = Session(source, method("keel"))
    before = expected(first, values[:4000], time_s[:4000])[0]
    file.write_bytes(pack_state(first.adapter))
    after, q, _ = run(float32, lines(values[4000:], time_s[4000:]), file, gaps_s[len(before)])
    assert before + after == whole
    np.testing.assert_allclose(q, refined[len(before) :], rtol=0, atol=1e-5)
    back = unpack_state(method("keel").bind(source), file.read_bytes())
    assert int(back.state()["count"]) == len(whole)


@pytest.mark.parametrize(("model", "more"), [("wrist", b""), ("waist", b"more")])
def test_a_foreign_or_longer_state_ends_the_program_and_is_kept(float32, tmp_path, model, more):
    file = tmp_path / "wearer.state"
    file.write_bytes(pack_state(method("keel").bind(sight.load(model))) + more)
    content = file.read_bytes()
    done = subprocess.run([str(float32), str(file)], input="", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "expected the state of model waist and method keel" in done.stderr
    assert file.read_bytes() == content


@pytest.mark.parametrize("seconds", ["abc", "", "5 s", "-1", "nan"])
def test_a_pause_that_is_no_number_ends_the_program(float32, tmp_path, seconds):
    command = [str(float32), str(tmp_path / "wearer.state"), seconds]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"Expected seconds without data, 0 or more, got {seconds}." in done.stderr


@pytest.mark.parametrize(("options", "features"), [(("--method", "sticky"), False), ((), True)], ids=str)
def test_the_example_with_an_encoder_of_ones_own(tmp_path, options, features):
    out = tmp_path / "c"
    run_sight("export", "waist", "--c", "--adapter-only", *options, "-o", out)
    example = build(out, "example_adapter.c", out="example")
    assert not (out / "encoder.c").exists()
    source, rng = sight.load("waist"), np.random.default_rng(0)
    z, p = source.encode(rng.normal(size=(60, *source.shape)).astype(np.float32))
    gap = np.where(np.arange(60) == 30, 20.0, 0.0)
    rows = [(gap[t], *p[t], *(z[t] if features else ())) for t in range(60)]
    text = "\n".join(",".join(f"{value:.9g}" for value in row) for row in rows)
    printed = subprocess.run([str(example)], input=text, capture_output=True, text=True, check=True).stdout
    adapter = method(options[1] if options else "keel").bind(source)
    refined = []
    for t in range(60):
        adapter.gap(gap[t])
        refined.append(adapter.refine(z[t : t + 1], p[t : t + 1])[0])
    np.testing.assert_allclose(np.array([line.split(",") for line in printed.split()], float), refined, atol=1e-5)


@pytest.mark.parametrize("bad", ["gap,a,b,c", "0,0.5", "0,0.2,0.3,0.5,0.1", "0,0.2,,0.8", ""], ids=str)
def test_the_example_ends_at_a_line_that_is_no_window(adapter_only, bad):
    text = f"0,0.2,0.3,0.5\n{bad}\n0,0.2,0.3,0.5\n"
    done = subprocess.run(
        [str(adapter_only / "example_adapter")], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "Line 2: expected 4 numbers: seconds, probabilities.\n"
    assert len(done.stdout.splitlines()) == 1


def test_a_folder_without_a_program_offers_none(adapter_only):
    text = "".join((adapter_only / name).read_text() for name in ("README.md", "Makefile"))
    assert not re.search(r"make (run-)?arm|main\.c|\bsight_push|\bsight_encode", text)
    done = subprocess.run(["make", "arm"], cwd=adapter_only, capture_output=True, text=True, check=False)
    assert "No rule to make target 'arm'" in done.stderr


def test_the_readme_states_rate_needs_and_files(folder):
    text = (folder / "README.md").read_text()
    assert "expects 100 samples a second; for a sensor of another rate, export again with `--rate`" in text
    constants, _, products = re.search(r"^\| windower \| (\S+) \| (\S+) \| (\S+) \|$", text, re.MULTILINE).groups()
    assert int(constants) == 8 * (4 * 6 + 4 * 2)  # four sections and their start
    card = sight.load("waist").card
    filtered, regular = round(card.stride_s * 100), round(card.stride_s * card.rate_hz)
    assert int(products.replace(",", "")) == 3 * (4 * 5 * filtered + 2 * regular)
    listed = re.findall(r"`([^`]+)`", text.partition("## Files")[2].partition("\n## ")[0])
    assert sorted(listed) == sorted(path.name for path in folder.iterdir() if path.name != "README.md")
    members = re.findall(r"^\| \d+ \| \d+ \| `(\w+)` \|", text, re.MULTILINE)
    assert all(re.search(rf"\b{name}[;\[]", (folder / "method_keel.h").read_text()) for name in members)


def test_files_name_their_licence_and_the_version(folder):
    for path in folder.iterdir():
        if path.name != "README.md":
            first, second = path.read_text().splitlines()[:2]
            own = (
                path.name in ("encoder.c", "class_names.c", "sight_config.h", "sources.mk") or "_constants" in path.name
            )
            assert f"Generated by sight {sight.__version__}" in (first if own else second)
            assert ("SPDX-License-Identifier: Apache-2.0" in first) == (not own)  # weights have the model's licence


def test_a_program_in_cpp_uses_the_folder(folder, tmp_path):
    program("g++", package="g++")
    shutil.copytree(folder, tmp_path / "c")
    (tmp_path / "c" / "main.cpp").write_text(CPP)
    build(tmp_path / "c", out="library.so", flags=("-O1", "-shared", "-fPIC"))
    strict = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    command = ["g++", *strict, "main.cpp", "./library.so", "-o", "cpp"]
    subprocess.run(command, cwd=tmp_path / "c", check=True)
    done = subprocess.run(["./cpp"], cwd=tmp_path / "c", capture_output=True, text=True, check=True)
    assert done.stdout == f"{sight.load('waist').classes[0]}\n"


def test_the_interface_is_short_and_nothing_is_allocated(folder):
    assert len((folder / "sight.h").read_text().splitlines()) <= 75
    code = "".join(path.read_text() for path in folder.glob("*.c") if path.name not in ("main.c", "example_adapter.c"))
    assert not re.search(r"\b(malloc|calloc|realloc|free|alloca|printf)\s*\(", code)
    headers = set(re.findall(r"#include <(\w+\.h)>", code))
    assert headers <= {"math.h", "string.h", "stdint.h", "stdbool.h", "stddef.h", "arm_acle.h"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--c", "--fused"), "Expected --fused or --c, got both"),
        (("--c", "--norms"), "Expected --norms alone"),
        (("--rate", 50), "Expected --rate and --adapter-only with --c"),
        (("--adapter-only",), "Expected --rate and --adapter-only with --c"),
        (("--c", "--method", "t3a"), "Expected keel, sight, sticky, sticky-learned, ema for C, got t3a"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(tmp_path, options, words):
    shown = run_sight("export", "waist", *options, "-o", tmp_path / "out.onnx", code=2).output
    assert words in " ".join(shown.split())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_not_touched(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    shown = run_sight("export", "waist", "--c", "--adapter-only", "-o", tmp_path, code=2).output
    assert "new or empty folder" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
