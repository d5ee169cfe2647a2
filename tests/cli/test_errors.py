"""One sentence, exit code two and nothing half written when something is wrong."""

from __future__ import annotations

import gzip
import importlib
import sys

import pytest

from sight import registry
from tests.helpers.commands import sight


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
        "an unknown setting": ([*adapt, "--set", "taw=1"], "Did you mean 'tau'"),
        "an impossible setting": ([*adapt, "--set", "tau=0"], "tau > 0"),
        "an unknown column": ([*adapt, "--columns", "time=when,x=acc_x"], "when"),
        "no such person": (["adapt", "synthetic:W99", "-m", model], "no subject"),
        "labels nobody gave": (["evaluate", folder / "short.csv", "-m", model], "no window"),
        "an unknown dataset": (["train", "--data", "hapd", "-o", folder / "m.safetensors"], "Did you mean 'hapt'"),
        "a model name without ending": (["train", "--data", "synthetic", "-o", folder / "m"], ".safetensors"),
        "a folder without a map": (["train", "--data", folder, "-o", folder / "m.safetensors"], "MAP.toml"),
        "a dataset that is not here": (["data", "info", "uschad"], "put "),
        "cache of nobody": (["data", "remove"], "--all"),
    }


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("The step does not run here; unset it."), "The step does not run here; unset it."),
        (ZeroDivisionError("division by zero"), "division by zero; SIGHT_DEBUG=1 shows where."),
        (OverflowError("too large"), "too large; SIGHT_DEBUG=1 shows where."),
    ],
)
def test_errors_of_run_time_are_one_sentence_too(monkeypatch, error, told):
    def fail(kind):
        raise error

    monkeypatch.setattr(registry, "names", fail)
    shown = sight("methods", ok=False)
    assert (shown.exit_code, shown.output.strip()) == (2, f"sight: {told}")
    monkeypatch.setenv("SIGHT_DEBUG", "1")
    assert sight("methods", ok=False).exception is error


def test_a_kernel_that_is_not_here_names_its_remedy(model, tmp_path, monkeypatch):
    backend = importlib.import_module("sight.methods._backend")
    monkeypatch.setenv("SIGHT_KERNEL", "numba")
    monkeypatch.setitem(sys.modules, "sight.methods.keel.compiled", None)
    backend._numba_or_numpy.cache_clear()
    try:
        shown = sight("adapt", "synthetic:W01", "-m", model, "-o", tmp_path / "out", ok=False)
    finally:
        backend._numba_or_numpy.cache_clear()
    assert shown.exit_code == 2
    assert "install sight-har[fast] or unset the variable" in " ".join(shown.output.split())
    assert "Traceback" not in shown.output


def test_bad_input_is_one_sentence_exit_two_and_nothing_half_written(model, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHT_DATA", str(tmp_path / "no-data"))
    for case, (words, expected) in bad_inputs(tmp_path, model).items():
        shown = sight(*words, ok=False)
        assert shown.exit_code == 2, f"{case}: {shown.output}"
        assert expected in shown.output, f"{case}: {shown.output}"
        assert "Traceback" not in shown.output, case
        assert not (tmp_path / "out").exists(), case
        assert not (tmp_path / "m.safetensors").exists(), case
