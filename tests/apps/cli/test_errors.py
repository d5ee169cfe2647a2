"""Errors: one line, exit code 2, and no partial output."""

from __future__ import annotations

import gzip
import importlib
import sys

import pytest

from sight import registry
from tests.helpers.commands import output_of, run_sight


def bad_inputs(folder, model):
    (folder / "empty.csv").write_text("t,acc_x,acc_y,acc_z,gyr_x,gyr_y,gyr_z\n")
    (folder / "short.csv").write_text("t,acc_x,acc_y,acc_z,gyr_x,gyr_y,gyr_z\n0,1,2,3,4,5,6\n0.02,1,2,3,4,5,6\n")
    (folder / "cut.csv.gz").write_bytes(gzip.compress(b"t,acc_x\n" + b"1,2\n" * 9000)[:-40])
    (folder / "cut.safetensors").write_bytes(model.read_bytes()[:5000])
    (folder / "nothing").mkdir()
    (folder / "weights.pt").write_bytes(b"pickle")
    adapt = ["adapt", folder / "short.csv", "-m", model, "-o", folder / "out", "--method", "sight"]
    return {
        "no such file": (["adapt", "gone.csv", "-m", model], "no file or folder"),
        "no such model": (["adapt", folder / "short.csv", "-m", folder / "gone.onnx"], "no model file"),
        "a truncated model": (["adapt", folder / "short.csv", "-m", folder / "cut.safetensors"], "cut short"),
        "a pickled model": (["adapt", folder / "short.csv", "-m", folder / "weights.pt"], "safetensors or .onnx"),
        "an empty recording": ([*adapt[:1], folder / "empty.csv", *adapt[2:]], "no samples"),
        "a recording shorter than a window": (adapt, "no window"),
        "a truncated gz": ([*adapt[:1], folder / "cut.csv.gz", *adapt[2:]], "cut.csv.gz"),
        "a folder without recordings": ([*adapt[:1], folder / "nothing", *adapt[2:]], "no recording"),
        "an unknown method": ([*adapt, "--method", "sihgt"], "Did you mean 'sight'"),
        "an unknown hyper-parameter": ([*adapt, "--set", "taw=1"], "Did you mean 'tau'"),
        "an invalid hyper-parameter": ([*adapt, "--set", "tau=0"], "tau > 0"),
        "a valid day without a unit": ([*adapt, "--valid-day", "10"], "write 10h"),
        "a bout without a unit": ([*adapt, "--min-bout", "walking=90"], "write 90s"),
        "an unknown column": ([*adapt, "--columns", "time=when,x=acc_x"], "when"),
        "an unknown subject": (["adapt", "synthetic:W99", "-m", model], "no subject"),
        "a recording without labels": (["evaluate", folder / "short.csv", "-m", model], "no window"),
        "an unknown dataset": (["train", "--data", "hapd", "-o", folder / "m.safetensors"], "Did you mean 'hapt'"),
        "a model name without ending": (["train", "--data", "synthetic", "-o", folder / "m"], ".safetensors"),
        "a folder without a map": (["train", "--data", folder, "-o", folder / "m.safetensors"], "MAP.toml"),
        "a missing dataset": (["data", "info", "uschad"], "put "),
        "no dataset to remove": (["data", "remove"], "--all"),
    }


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("It does not run [here]."), "It does not run [here]."),
        (ZeroDivisionError("division by zero"), "division by zero; SIGHT_DEBUG=1 shows where."),
    ],
)
def test_runtime_errors_are_one_line(monkeypatch, error, expected):
    def fail(kind):
        raise error

    monkeypatch.setattr(registry, "names", fail)
    assert run_sight("methods", code=2).output.strip() == f"sight: {expected}"
    monkeypatch.setenv("SIGHT_DEBUG", "1")
    assert run_sight("methods", code=1).exception is error


def test_a_missing_compiled_kernel_names_the_extra_to_install(model, tmp_path, monkeypatch):
    backend = importlib.import_module("sight.methods.compiled.backend")
    monkeypatch.setenv("SIGHT_KERNEL", "numba")
    monkeypatch.setitem(sys.modules, "sight.methods.keel.compiled", None)
    backend._numba_or_numpy.cache_clear()
    try:
        printed = output_of("adapt", "synthetic:W01", "-m", model, "-o", tmp_path / "out", code=2)
    finally:
        backend._numba_or_numpy.cache_clear()
    assert "sight-har[fast]" in printed
    assert "Traceback" not in printed


def test_bad_input_is_one_line_with_exit_code_2_and_leaves_no_files(model, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHT_DATA", str(tmp_path / "no-data"))
    for case, (command, expected) in bad_inputs(tmp_path, model).items():
        printed = output_of(*command, code=2)
        assert expected in printed, f"{case}: {printed}"
        assert "Traceback" not in printed, case
        assert not (tmp_path / "out").exists(), case
        assert not (tmp_path / "m.safetensors").exists(), case
