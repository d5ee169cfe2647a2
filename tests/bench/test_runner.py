"""The runner: every kind of experiment on synthetic wearers, killed and resumed, with methods that fail or are new."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from sight import registry
from sight.bench.experiments import experiments, load_experiment, narrow
from sight.bench.plan import Variant
from sight.bench.report import write_report
from sight.bench.result_rows import read, write
from sight.bench.runner import run, steps
from sight.bench.settings import load_setting
from sight.bench.worker import make
from sight.cli import app
from sight.methods.sight import SIGHT

TINY = """
dataset = "synthetic"
options = { wearers = 4, hours = 0.06, gaps_per_hour = 0.0 }
windowing = { stride_s = 2.0 }
epochs = 2
pairs = ["W01->W02", "W01->W03", "W02+W03->W04"]
"""
RNG = np.random.default_rng(11)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """People of whom a source is trained in a second, and a folder where all tests share rows and models."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "tiny.toml").write_text(TINY)
    return folder


def bench(*arguments: str):
    return CliRunner().invoke(app, ["bench", *arguments])


@pytest.fixture
def hearing():
    """Let children hear SIGINT even where a shell started us in the background, deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# --- every experiment ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in experiments() if name != "efficiency"])
def test_every_experiment_runs_and_is_reported(tiny, name, tmp_path):
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(tiny / "runs"), "--engine", "serial"]
    told = bench("run", name, *where, "--seeds", "0", "--limit", "1")
    assert told.exit_code == 0, told.output
    experiment = load_experiment(name)
    table = pd.read_parquet(tiny / "runs" / f"{name}_tiny.part.parquet")
    encoders, orders = len(experiment.encoders) or 1, len(experiment.orders)
    assert len(table) == len(experiment.variants) * encoders * orders
    assert set(table["label"]) == {variant.label for variant in experiment.variants}
    told = bench("report", str(tiny / "runs" / f"{name}_tiny.part.parquet"), "-o", str(tmp_path))
    assert told.exit_code == 0, told.output
    assert load_experiment(name).title in (tmp_path / "index.html").read_text()
    assert (tmp_path / "figures" / f"{name}_tiny.svg").read_text().startswith("<?xml")


def test_rows_hold_what_is_needed_to_repeat_them(tiny):
    experiment = narrow(load_experiment("table-main"), methods=["none", "tent"], seeds=[0])
    setting = load_setting(str(tiny / "tiny.toml"), limit=1)
    rows, failures = run(experiment, setting, tiny / "runs", engine="serial")
    assert not failures
    tent = read([write(tiny / "one" / "rows.parquet", rows)]).set_index("label").loc["TENT"]
    assert (tent["dataset"], tent["dataset_version"], tent["sources"], tent["target"], tent["seed"]) == (
        "synthetic",
        "1",
        "W01",
        "W02",
        0,
    )
    assert (tent["window_s"], tent["stride_s"], tent["gaps"], tent["rule"], tent["preset"]) == (
        2.0,
        2.0,
        False,
        "chunk",
        "sight-paper",
    )
    assert json.loads(tent["settings"])["lr"] == 1e-4
    assert json.loads(tent["label_map"])["walking"] == "walking"
    assert json.loads(tent["options"]) == {"wearers": 4, "hours": 0.06, "gaps_per_hour": 0.0}
    training = json.loads(tent["training"])
    assert (training["epochs"], training["batch"], training["device"]) == (2, 64, "cpu")
    for column in ("sight", "python", "numpy", "torch", "machine", "code", "source_data", "target_data"):
        assert tent[column]
    assert len(json.loads(tent["details"])["confusion"]) == 7
    assert 0 <= tent["macro_f1_union"] <= tent["macro_f1_truth"] <= 1


def test_all_methods_meet_the_same_answers_of_the_source(tiny):
    """With nothing to stick to, the sticky filter answers as source-only does, on whatever model was trained."""
    experiment = load_experiment("table-main")
    same = Variant(label="not sticky", method="sticky", fields={"s": 0.0})
    experiment = narrow(experiment, methods=["none"], seeds=[0])
    experiment = type(experiment)(**{**vars(experiment), "variants": (*experiment.variants, same)})
    rows, _ = run(experiment, load_setting(str(tiny / "tiny.toml")), tiny / "runs", engine="serial")
    for plain, filtered in zip(rows[::2], rows[1::2], strict=True):
        assert plain["scores"]["confusion"] == filtered["scores"]["confusion"]
        assert plain["target_data"] == filtered["target_data"]


def test_presets_and_the_streaming_rule_reach_the_adapter():
    note = make(Variant(label="NOTE", method="note", preset="sight-paper", rule="chunk"))
    assert (note.rule, note.lr, note.memory) == ("chunk", 1e-4, 64)
    assert make(Variant(label="NOTE", method="note", preset="sight-paper", rule="chunk", fields={"lr": 0.5})).lr == 0.5
    assert make(Variant(label="SIGHT", method="sight", preset="sight-paper", rule="chunk")) == SIGHT()


# --- killed, resumed, spread ---------------------------------------------------------------------------------------


def finished(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("rows/*/*.json")}


def tables(results: Path, out: Path) -> dict[str, bytes]:
    write_report([results], out)
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_killed_in_the_middle_it_goes_on_to_the_identical_table(tiny, tmp_path):
    arguments = ["bench", "run", "table-main", "--dataset", str(tiny / "tiny.toml"), "--seeds", "0,1", "--jobs", "1"]
    arguments += ["--methods", "none,ema,sticky,t3a,tent,sight"]
    command = [sys.executable, "-m", "sight", *arguments, "-o"]
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    victim = subprocess.Popen([*command, str(broken)], start_new_session=True, stdout=subprocess.DEVNULL)
    limit = time.monotonic() + 120
    while len(finished(broken)) < 8 and time.monotonic() < limit:
        time.sleep(0.02)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    before = finished(broken)
    assert 8 <= len(before) < 42, "killed too late to prove anything"
    assert not list(broken.glob("*.parquet"))
    subprocess.run([*command, str(broken), "--gather"], check=True, stdout=subprocess.DEVNULL)
    assert finished(broken) == before
    assert len(pd.read_parquet(broken / "table-main_tiny.part.parquet")) == len(before)
    subprocess.run([*command, str(broken)], check=True, stdout=subprocess.DEVNULL)
    after = finished(broken)
    assert len(after) == 42
    assert {path: after[path] for path in before} == before  # nothing finished was done again
    assert bench(*arguments[1:], "--engine", "serial", "-o", str(whole)).exit_code == 0
    name = "table-main_tiny.part.parquet"
    assert tables(broken / name, tmp_path / "a") == tables(whole / name, tmp_path / "b")


@pytest.mark.parametrize("engine", ["loky", "serial", pytest.param("dask:local:2", marks=pytest.mark.long)])
def test_interrupted_by_hand_it_ends_with_one_sentence(tiny, tmp_path, hearing, engine):
    command = [sys.executable, "-m", "sight", "bench", "run", "ablation", "--dataset", str(tiny / "tiny.toml")]
    command += ["--seeds", ",".join(map(str, range(40))), "--engine", engine, "-o", str(tmp_path)]
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    limit = time.monotonic() + 120
    while not list(tmp_path.glob("models/*.safetensors")) and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    (line,) = said.strip().splitlines()
    assert line.startswith("Stopped; the same command goes on from the 0 rows that are finished")


def test_what_is_gathered_is_a_part_until_it_is_whole(tiny, tmp_path):
    out = tmp_path / "runs"
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(out), "--engine", "serial"]
    told = bench("run", "geometry", *where, "--gather")
    assert told.exit_code == 1
    assert f"No finished rows in {out}" in told.output
    assert not out.exists()
    assert bench("run", "geometry", *where, "--seeds", "1").exit_code == 0
    (out / "geometry_tiny.part.parquet").unlink()
    told = bench("run", "geometry", *where, "--gather")
    assert told.exit_code == 0
    assert "3 of 9 rows in" in told.output
    assert [path.name for path in out.glob("*.parquet")] == ["geometry_tiny.part.parquet"]
    assert bench("run", "geometry", *where, "--seeds", "0,2").exit_code == 0
    told = bench("run", "geometry", *where, "--gather")
    assert "9 rows in" in told.output
    assert len(pd.read_parquet(out / "geometry_tiny.parquet")) == 9


def test_steps_are_counted_before_and_told_on_the_way(tiny):
    experiment = narrow(load_experiment("ablation"), seeds=[0])
    setting = load_setting(str(tiny / "tiny.toml"))
    told = []
    run(experiment, setting, tiny / "runs", engine="serial", on_done=lambda done, what: told.append((done, what)))
    assert steps(experiment, setting) == 5 == len(told)
    assert told == [(1, "training"), (2, "training"), (3, "adapting"), (4, "adapting"), (5, "adapting")]


def test_what_is_gathered_is_counted_to_the_end(tiny):
    experiment = narrow(load_experiment("ablation"), seeds=[0])
    setting, told = load_setting(str(tiny / "tiny.toml")), []
    where = {"engine": "serial", "only_finished": True, "on_done": lambda *step: told.append(step)}
    run(experiment, setting, tiny / "runs", **where)
    assert told == [(1, "adapting"), (2, "adapting"), (3, "adapting")]
    assert steps(experiment, setting, only_finished=True) == 3


@pytest.mark.parametrize(
    ("option", "words"),
    [(("--seeds", "a"), "Expected seeds such as 0,1, got 'a'"), (("--jobs", "0"), "greater than or equal to 1")],
)
def test_options_that_are_no_numbers_are_told(tiny, option, words):
    told = bench("run", "ablation", "--dataset", str(tiny / "tiny.toml"), "-o", str(tiny / "runs"), *option)
    assert told.exit_code == 2
    assert words in " ".join(told.output.replace("│", " ").split())


@pytest.mark.long
def test_processes_of_dask_that_are_slow_to_end_are_no_news(tmp_path):
    pytest.importorskip("distributed")
    code = """
import logging
from sight.parallel import _client
if __name__ == "__main__":
    with _client("local:1"):
        logging.getLogger("distributed.nanny").warning("Worker process still alive after 4.0 seconds, killing")
        logging.getLogger("distributed.nanny").error("this is news")
"""
    (tmp_path / "slow.py").write_text(code)
    said = subprocess.run(
        [sys.executable, str(tmp_path / "slow.py")], check=True, capture_output=True, text=True
    ).stderr
    assert "still alive" not in said
    assert "this is news" in said


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
    plain = engines._client
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
    engines._client = watched
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
    assert tables(tmp_path / "dask" / "rows.parquet", tmp_path / "a") == tables(
        tmp_path / "plain" / "rows.parquet", tmp_path / "b"
    )


def test_engines_that_do_not_exist_are_told(tiny):
    told = bench("run", "ablation", "--dataset", str(tiny / "tiny.toml"), "--engine", "spark", "-o", str(tiny / "runs"))
    assert told.exit_code == 2
    assert "Expected engine loky, serial, dask:local:N or dask:ADDRESS, got 'spark'" in " ".join(told.output.split())


# --- methods of anybody --------------------------------------------------------------------------------------------

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
    """A method in a package of its own; call to write its body anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = EntryPoint(name="mine", value="third_party_method:Mine", group="sight.methods")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == "sight.methods" else [])

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
    first = pd.read_parquet(results).set_index("label")
    assert first.loc["mine", "macro_f1_union"].tolist() == first.loc["Source-only", "macro_f1_union"].tolist()
    write_report([results], tmp_path / "report")
    board = (tmp_path / "report" / "tables" / "leaderboard.md").read_text()
    assert "| mine | 0.0 | **0.0** |" in board
    before = finished(tmp_path / "runs")
    third_party("return p[:, ::-1]")
    assert bench("run", "table-main", *where, "--methods", "none,sight,mine").exit_code == 0
    second = pd.read_parquet(results).set_index("label")
    assert second.loc["mine", "macro_f1_union"].tolist() != first.loc["mine", "macro_f1_union"].tolist()
    assert len(finished(tmp_path / "runs")) == len(before) + 3  # its three rows, and nobody else's


def test_failures_are_named_and_the_others_go_on(third_party, tiny, tmp_path):
    third_party("raise KeyError('no such luck')")
    where = ["--dataset", str(tiny / "tiny.toml"), "-o", str(tmp_path), "--engine", "serial", "--seeds", "0"]
    told = bench("run", "table-main", *where, "--methods", "none,mine", "--limit", "2")
    assert told.exit_code == 1
    assert told.output.count("no such luck") == 1
    assert "KeyError: 'no such luck' (2 times)" in told.output
    named = (tmp_path / "table-main_tiny.part.failures.txt").read_text().splitlines()
    assert named == [
        f"mine on W01->{who}, seed 0, cnn, chronological: KeyError: 'no such luck'" for who in ("W02", "W03")
    ]
    assert set(pd.read_parquet(tmp_path / "table-main_tiny.part.parquet")["label"]) == {"Source-only"}
    third_party("return p")
    assert bench("run", "table-main", *where, "--methods", "none,mine", "--limit", "2").exit_code == 0
    assert not (tmp_path / "table-main_tiny.part.failures.txt").exists()


def test_a_subject_who_is_not_there_fails_alone(tiny, tmp_path):
    (tmp_path / "people.toml").write_text(TINY.replace("W02+W03->W04", "W01->W09"))
    experiment = narrow(load_experiment("ablation"), methods=["none", "sight"], seeds=[0])
    rows, failures = run(experiment, load_setting(str(tmp_path / "people.toml")), tiny / "runs", engine="serial")
    assert {row["target"] for row in rows} == {"W02", "W03"}
    assert all("has no subject 'W09'" in failure.error for failure in failures)
