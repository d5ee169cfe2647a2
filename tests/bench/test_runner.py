"""Runs of experiments on synthetic wearers: all kinds, kill and resume, failures, third-party methods."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from sight import registry
from sight.bench.experiments import experiments, load_experiment, narrow
from sight.bench.plan import Variant, trials
from sight.bench.report import write_report
from sight.bench.result_rows import read, write
from sight.bench.runner import count_steps, run
from sight.bench.settings import load_setting
from sight.bench.worker import make_adapter
from sight.cli import app
from sight.methods.sight import SIGHT

TINY = """
dataset = "synthetic"
options = { wearers = 4, hours = 0.06, gaps_per_hour = 0.0 }
windowing = { stride_s = 2.0 }
epochs = 2
sedentary = ["lying", "sitting"]
standing = "standing"
pairs = ["W01->W02", "W01->W03", "W02+W03->W04"]
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A setting whose source models train in a second, in a folder where all tests share rows and models."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "tiny.toml").write_text(TINY)
    return folder


def bench(*arguments: str):
    return CliRunner().invoke(app, ["bench", *arguments])


@pytest.fixture
def default_sigint():
    """Restore the default handler of SIGINT, which a shell disables for background processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# --- every experiment ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in experiments() if name != "efficiency"])
def test_every_experiment_runs_and_is_reported(tiny, name, tmp_path):
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(tiny / "runs"), "--engine", "serial"]
    # The main table runs every method once; other experiments run a few.
    few = ["--methods", "none,sticky,sight"] if name in ("table-detailed", "backbones", "order", "days") else []
    shown = bench("run", name, *where, *few, "--seeds", "0", "--limit", "1")
    assert shown.exit_code == 0, shown.output
    experiment = narrow(load_experiment(name), methods=few[1].split(",") if few else None)
    path = tiny / "runs" / f"{name}_tiny.part.parquet"
    table = pd.read_parquet(path)
    setting = load_setting(str(tiny / "tiny.toml"), limit=1)
    planned = len(list(trials(narrow(experiment, seeds=[0]), setting)))
    assert len(table) == len(experiment.variants) * planned
    assert set(table["label"]) == {variant.label for variant in experiment.variants}
    write_report([path], tmp_path)
    assert experiment.title in (tmp_path / "index.html").read_text()
    assert (tmp_path / "figures" / f"{name}_tiny.svg").read_text().startswith("<?xml")


def test_streams_that_a_subject_lacks_windows_for_have_neither_rows_nor_failures(tiny, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'kind = "compare"\nseeds = [0]\nmethods = ["none", "ema"]\norders = ["day-60", "partial", "week"]\n'
    )
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(tiny / "runs"), "--engine", "serial"]
    path = tiny / "runs" / "mine_tiny.parquet"
    for gather in ([], ["--gather"]):
        path.unlink(missing_ok=True)
        shown = bench("run", str(tmp_path / "mine.toml"), *where, *gather)
        assert shown.exit_code == 0, shown.output
        assert "14 rows in" in shown.output
        assert "lacks windows: 5" in shown.output
        streams = pd.read_parquet(path).groupby("target")["order"].unique().map(sorted).to_dict()
        # W02 has both sedentary classes; W03 was never lying, which is the first class; W04 was neither.
        assert streams == {
            "W02": ["day-60 lying", "day-60 sitting", "partial", "week"],
            "W03": ["day-60 sitting", "partial"],
            "W04": ["partial"],
        }
    write_report([path], tmp_path)
    assert "60 % one class" in (tmp_path / "report.md").read_text()


def test_rows_contain_what_is_needed_to_repeat_them(tiny):
    experiment = narrow(load_experiment("table-main"), methods=["none", "tent"], seeds=[0])
    setting = load_setting(str(tiny / "tiny.toml"), limit=1)
    rows, failures = run(experiment, setting, tiny / "runs", engine="serial")
    assert not failures
    tent = read([write(tiny / "one" / "rows.parquet", rows)]).set_index("label").loc["TENT"]
    expected = {
        "dataset": "synthetic",
        "dataset_version": "1",
        "sources": "W01",
        "target": "W02",
        "seed": 0,
        "window_s": 2.0,
        "stride_s": 2.0,
        "gaps": False,
        "rule": "chunk",
        "preset": "sight-paper",
    }
    assert {name: tent[name] for name in expected} == expected
    assert json.loads(tent["params"])["lr"] == 1e-4
    assert json.loads(tent["label_map"])["walking"] == "walking"
    assert json.loads(tent["options"]) == {"wearers": 4, "hours": 0.06, "gaps_per_hour": 0.0}
    training = json.loads(tent["training"])
    assert (training["epochs"], training["batch"], training["device"]) == (2, 64, "cpu")
    for column in ("sight", "python", "numpy", "torch", "machine", "code", "source_data", "target_data"):
        assert tent[column]
    assert tent["computed_at"].endswith("+00:00")
    assert len(tent["confusion"]) == 7**2
    assert tent["confusion"].sum() == tent["windows"]
    scores = next(row["scores"] for row in rows if row["label"] == "TENT")
    for name in ("accuracy", "macro_f1_union", "macro_f1_truth", "kappa", "time_use_mae_min"):
        assert tent[name] == pytest.approx(scores[name], rel=1e-12)


def test_all_methods_get_the_same_source_predictions(tiny):
    """A sticky filter of strength zero predicts as source-only does."""
    experiment = narrow(load_experiment("table-main"), methods=["none"], seeds=[0])
    same = Variant(label="not sticky", method="sticky", fields={"s": 0.0})
    experiment = replace(experiment, variants=(*experiment.variants, same))
    rows, _ = run(experiment, load_setting(str(tiny / "tiny.toml")), tiny / "runs", engine="serial")
    for raw, filtered in zip(rows[::2], rows[1::2], strict=True):
        assert raw["scores"]["confusion"] == filtered["scores"]["confusion"]
        assert raw["target_data"] == filtered["target_data"]


def test_presets_and_the_streaming_rule_reach_the_adapter():
    note = make_adapter(Variant(label="NOTE", method="note", preset="sight-paper", rule="chunk"))
    assert (note.rule, note.lr, note.memory) == ("chunk", 1e-4, 64)
    variant = Variant(label="NOTE", method="note", preset="sight-paper", rule="chunk", fields={"lr": 0.5})
    assert make_adapter(variant).lr == 0.5
    assert make_adapter(Variant(label="SIGHT", method="sight", preset="sight-paper", rule="chunk")) == SIGHT()


# --- kill and resume -----------------------------------------------------------------------------------------------


def finished(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("rows/*/*.json")}


def stored_rows(path: Path) -> list[list[str]]:
    """Return the rows of a result file without times."""
    return pd.read_parquet(path).drop(columns=["seconds", "computed_at"]).astype(str).to_numpy().tolist()


@pytest.mark.long
def test_a_killed_run_resumes_to_identical_rows(tiny, tmp_path):
    arguments = ["bench", "run", "table-main", "--dataset", str(tiny / "tiny.toml"), "--seeds", "0,1"]
    arguments += ["--engine", "serial", "--methods", "none,ema,tent,sight", "-o"]
    killed, plain = tmp_path / "killed", tmp_path / "plain"
    victim = subprocess.Popen(
        [sys.executable, "-m", "sight", *arguments, str(killed)], start_new_session=True, stdout=subprocess.DEVNULL
    )
    limit = time.monotonic() + 120
    while len(finished(killed)) < 8 and time.monotonic() < limit:
        time.sleep(0.005)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    before = finished(killed)
    assert 8 <= len(before) < 30, "killed too late to prove anything"
    assert not list(killed.glob("*.parquet"))
    name = "table-main_tiny.part.parquet"
    assert CliRunner().invoke(app, [*arguments, str(killed), "--gather"]).exit_code == 0
    assert finished(killed) == before
    assert len(pd.read_parquet(killed / name)) == len(before)
    assert CliRunner().invoke(app, [*arguments, str(killed)]).exit_code == 0
    after = finished(killed)
    assert len(after) == 30
    assert {path: after[path] for path in before} == before  # finished rows are not computed again
    assert CliRunner().invoke(app, [*arguments, str(plain)]).exit_code == 0
    assert stored_rows(killed / name) == stored_rows(plain / name)


LONG_ENGINES = [pytest.param(engine, marks=pytest.mark.long) for engine in ("loky", "dask:local:2")]


@pytest.mark.parametrize("engine", ["serial", *LONG_ENGINES])
def test_an_interrupted_run_ends_with_one_line(tiny, tmp_path, default_sigint, engine):
    command = [sys.executable, "-m", "sight", "bench", "run", "ablation", "--dataset", str(tiny / "tiny.toml")]
    command += ["--seeds", ",".join(map(str, range(40))), "--engine", engine, "-o", str(tmp_path)]
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    limit = time.monotonic() + 120
    while not list(tmp_path.glob("models/*.safetensors")) and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.count("\n") == 1, errors
    assert errors.startswith("Stopped with 0 finished rows")


def test_gathered_rows_are_partial_until_complete(tmp_path):
    out = tmp_path / "runs"
    (tmp_path / "tiny.toml").write_text(TINY.replace(', "W01->W03", "W02+W03->W04"', ""))
    where = ["--dataset", str(tmp_path / "tiny.toml"), "-o", str(out), "--engine", "serial"]
    shown = bench("run", "geometry", *where, "--gather")
    assert shown.exit_code == 1
    assert "No finished rows" in shown.output
    assert not out.exists()
    assert bench("run", "geometry", *where, "--seeds", "1").exit_code == 0
    (out / "geometry_tiny.part.parquet").unlink()
    shown = bench("run", "geometry", *where, "--gather")
    assert shown.exit_code == 0
    assert "1 of 3 rows in" in shown.output
    assert [path.name for path in out.glob("*.parquet")] == ["geometry_tiny.part.parquet"]
    assert bench("run", "geometry", *where, "--seeds", "0,2").exit_code == 0
    shown = bench("run", "geometry", *where, "--gather")
    assert "3 rows in" in shown.output
    assert len(pd.read_parquet(out / "geometry_tiny.parquet")) == 3


def test_progress_counts_trainings_and_trials(tiny):
    experiment = narrow(load_experiment("ablation"), seeds=[0])
    setting = load_setting(str(tiny / "tiny.toml"))
    steps = []
    where = {"engine": "serial", "on_done": lambda *step: steps.append(step)}
    run(experiment, setting, tiny / "runs", **where)
    assert count_steps(experiment, setting) == 5 == len(steps)
    assert steps == [(1, "training"), (2, "training"), (3, "adapting"), (4, "adapting"), (5, "adapting")]
    steps.clear()
    run(experiment, setting, tiny / "runs", only_finished=True, **where)
    assert steps == [(1, "collecting"), (2, "collecting"), (3, "collecting")]
    assert count_steps(experiment, setting, only_finished=True) == 3


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--seeds", "a"), "such as 0,1"),
        (("--jobs", "0"), "greater than or equal to 1"),
        (("--engine", "spark"), "'spark'"),
    ],
)
def test_invalid_options_are_refused(tiny, option, words):
    shown = bench("run", "ablation", "--dataset", str(tiny / "tiny.toml"), "-o", str(tiny / "runs"), *option)
    assert shown.exit_code == 2
    assert words in " ".join(shown.output.replace("│", " ").split())


@pytest.mark.long
def test_slow_dask_processes_are_not_reported(tmp_path):
    pytest.importorskip("distributed")
    code = """
import logging
from sight.parallel import _client
if __name__ == "__main__":
    with _client("local:1"):
        logging.getLogger("distributed.nanny").warning("Worker process still alive after 4.0 seconds, killing")
        logging.getLogger("distributed.nanny").error("a real error")
"""
    (tmp_path / "slow.py").write_text(code)
    errors = subprocess.run(
        [sys.executable, str(tmp_path / "slow.py")], check=True, capture_output=True, text=True
    ).stderr
    assert "still alive" not in errors
    assert "a real error" in errors


@pytest.mark.long
def test_a_worker_killed_under_dask_changes_nothing(tiny, tmp_path):
    pytest.importorskip("distributed")
    code = """
import os, signal, sys, threading, time
from pathlib import Path
from sight import parallel
from sight.bench.experiments import load_experiment, narrow
from sight.bench.settings import load_setting
from sight.bench.result_rows import write
from sight.bench.runner import run
if __name__ == "__main__":
    setting, out = sys.argv[1:]
    killed = []
    plain = parallel._client
    def watched(place):
        inner = plain(place)
        class Watched:
            def __enter__(self):
                client = inner.__enter__()
                def kill():
                    while len(list(Path(out).glob("rows/*/*.json"))) < 4:
                        time.sleep(0.02)
                    pid = next(iter(client.run(os.getpid).values()))
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                if list(Path(out).glob("models/*")):
                    threading.Thread(target=kill, daemon=True).start()
                return client
            def __exit__(self, *error):
                return inner.__exit__(*error)
        return Watched()
    parallel._client = watched
    plan = narrow(load_experiment("table-main"), methods=["none", "ema", "tent", "sar", "sight"], seeds=[0, 1])
    rows, failures = run(plan, load_setting(setting), Path(out), engine="dask:local:2")
    assert killed and not failures, (killed, failures)
    write(Path(out) / "rows.parquet", rows)
"""
    (tmp_path / "dask_run.py").write_text(code)
    subprocess.run(
        [sys.executable, str(tmp_path / "dask_run.py"), str(tiny / "tiny.toml"), str(tmp_path / "dask")], check=True
    )
    plan = narrow(load_experiment("table-main"), methods=["none", "ema", "tent", "sar", "sight"], seeds=[0, 1])
    rows, _ = run(plan, load_setting(str(tiny / "tiny.toml")), tmp_path / "plain", engine="serial")
    write(tmp_path / "plain" / "rows.parquet", rows)
    assert stored_rows(tmp_path / "dask" / "rows.parquet") == stored_rows(tmp_path / "plain" / "rows.parquet")


# --- third-party methods -------------------------------------------------------------------------------------------

METHOD = """
from dataclasses import dataclass
from sight.base import OutputAdapter

@dataclass(kw_only=True)
class Mine(OutputAdapter):
    name = "mine"

    def _reset(self):
        self.count_ = 0

    def _refine(self, z, p):
        {body}
"""


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """A registered method in another package; call the fixture with the body of its hook."""
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = EntryPoint(name="mine", value="third_party_method:Mine", group="sight.methods")
    monkeypatch.setattr(registry, "_installed", lambda kind: {entry.name: entry.value} if kind == "methods" else {})

    def write_method(body: str) -> None:
        sys.modules.pop("third_party_method", None)
        (tmp_path / "third_party_method.py").write_text(METHOD.format(body=body))

    yield write_method
    sys.modules.pop("third_party_method", None)


def test_a_third_party_method_is_on_the_leaderboard_and_follows_its_code(third_party, tiny, tmp_path):
    third_party("return p")
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(tmp_path / "runs"), "--engine", "serial", "--seeds", "0"]
    assert bench("run", "table-main", *where, "--methods", "none,sight,mine").exit_code == 0
    results = tmp_path / "runs" / "table-main_tiny.part.parquet"
    first = read([results]).set_index("label")
    assert first.loc["mine", "macro_f1_union"].tolist() == first.loc["Source-only", "macro_f1_union"].tolist()
    write_report([results], tmp_path / "report")
    assert "| mine | 0.0 | 0.0 |" in (tmp_path / "report" / "tables" / "leaderboard.md").read_text()
    before = finished(tmp_path / "runs")
    third_party("return p[:, ::-1]")
    assert bench("run", "table-main", *where, "--methods", "none,sight,mine").exit_code == 0
    second = read([results]).set_index("label")
    assert second.loc["mine", "macro_f1_union"].tolist() != first.loc["mine", "macro_f1_union"].tolist()
    assert len(finished(tmp_path / "runs")) == len(before) + 3  # only its three rows are computed again


def test_failures_are_reported_and_other_methods_continue(third_party, tiny, tmp_path):
    third_party("raise KeyError('no such luck')")
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(tmp_path), "--engine", "serial", "--seeds", "0"]
    shown = bench("run", "table-main", *where, "--methods", "none,mine", "--limit", "2")
    assert shown.exit_code == 1
    assert shown.output.count("no such luck") == 1
    assert "KeyError: 'no such luck' (2 times)" in shown.output
    lines = (tmp_path / "table-main_tiny.part.failures.txt").read_text().splitlines()
    assert lines == [
        f"mine on W01->{target}, seed 0, cnn, chronological: KeyError: 'no such luck'" for target in ("W02", "W03")
    ]
    assert set(pd.read_parquet(tmp_path / "table-main_tiny.part.parquet")["label"]) == {"Source-only"}
    third_party("return p")
    assert bench("run", "table-main", *where, "--methods", "none,mine", "--limit", "2").exit_code == 0
    assert not (tmp_path / "table-main_tiny.part.failures.txt").exists()


def test_a_missing_subject_fails_alone(tiny, tmp_path):
    (tmp_path / "setting.toml").write_text(TINY.replace("W02+W03->W04", "W01->W09"))
    experiment = narrow(load_experiment("ablation"), methods=["none", "sight"], seeds=[0])
    rows, failures = run(experiment, load_setting(str(tmp_path / "setting.toml")), tiny / "runs", engine="serial")
    assert {row["target"] for row in rows} == {"W02", "W03"}
    assert failures
    assert all("W09" in failure.error for failure in failures)
