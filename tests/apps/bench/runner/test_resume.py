"""Kill, interrupt and resume a run of an experiment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from typer.testing import CliRunner

from sight.apps.bench.experiments import load_experiment, narrow
from sight.apps.bench.result_rows import write
from sight.apps.bench.runner import count_steps, run
from sight.apps.bench.settings import load_setting
from sight.apps.cli import app
from tests.apps.bench.runner.runner_helpers import TINY, bench, finished, stored_rows


@pytest.fixture
def default_sigint():
    """Restore the default handler of SIGINT, which a shell disables for background processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
    assert "2 of 6 rows in" in shown.output
    assert [path.name for path in out.glob("*.parquet")] == ["geometry_tiny.part.parquet"]
    assert bench("run", "geometry", *where, "--seeds", "0,2").exit_code == 0
    shown = bench("run", "geometry", *where, "--gather")
    assert "6 rows in" in shown.output
    assert len(pd.read_parquet(out / "geometry_tiny.parquet")) == 6


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
from sight._util.parallel import _client
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
from sight._util import parallel
from sight.apps.bench.experiments import load_experiment, narrow
from sight.apps.bench.settings import load_setting
from sight.apps.bench.result_rows import write
from sight.apps.bench.runner import run
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
