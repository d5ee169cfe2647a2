"""Cohorts on every engine: the same bytes, also after kills and interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.helpers.cohorts import contents, write_folder, write_recording

pytestmark = pytest.mark.long

RUN = [sys.executable, "-m", "sight", "cohort", "run"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sixteen readable recordings and two unreadable ones, enough to be killed in the middle."""
    folder = write_folder(tmp_path_factory.mktemp("folder") / "recordings")
    for number in range(11):
        write_recording(folder / f"Q{number:02d}.parquet", f"W{1 + number % 12:02d}")
    return folder


@pytest.fixture(scope="module")
def expected(folder, model, tmp_path_factory):
    """Results of the serial engine."""
    out = tmp_path_factory.mktemp("serial") / "out"
    assert subprocess.run([*RUN, folder, "-m", model, "-o", out, "--engine", "serial"], check=False).returncode == 1
    return contents(out)


@pytest.mark.parametrize("engine", [["loky", "--jobs", "1"], ["loky", "--jobs", "3"], ["dask:local:2"]])
def test_every_engine_writes_the_same_bytes(folder, model, expected, tmp_path, engine):
    done = subprocess.run([*RUN, folder, "-m", model, "-o", tmp_path / "out", "--engine", *engine], check=False)
    assert done.returncode == 1
    assert contents(tmp_path / "out") == expected


def test_a_running_cluster_schedules_by_the_memory_of_its_workers(folder, model, expected, tmp_path):
    import distributed

    kinds = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": None}
    with distributed.LocalCluster(**kinds) as cluster:
        address = cluster.scheduler_address
        options = ["--engine", f"dask:{address}", "--memory", "300MB"]
        command = [*RUN, folder, "-m", model, "-o", tmp_path / "out", *options]
        assert subprocess.run(command, check=False).returncode == 1
        with distributed.Client(address) as client:
            declared = client.run(lambda dask_worker: dask_worker.state.total_resources["memory"])
    assert set(declared.values()) == {300e6}
    assert contents(tmp_path / "out") == expected


def finished(out: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in out.glob("facts/*.json")}


def until(condition, process) -> None:
    limit = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < limit, "nothing happened"
        time.sleep(0.005)


def workers_of(pid: int) -> list[int]:
    """Return the worker processes of a command: its children that have loaded onnxruntime."""
    import psutil

    children = psutil.Process(pid).children(recursive=True)
    return [child.pid for child in children if any("onnxruntime" in region.path for region in child.memory_maps())]


def test_a_worker_killed_under_dask_changes_nothing(folder, model, expected, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen([*RUN, folder, "-m", model, "-o", out, "--engine", "dask:local:2"])
    until(lambda: len(finished(out)) >= 3, process)
    victims = [pid for pid in workers_of(process.pid) if pid != process.pid]
    os.kill(victims[0], signal.SIGKILL)
    assert len(finished(out)) < 16, "killed too late to prove anything"
    assert process.wait(240) == 1
    assert contents(out) == expected


@pytest.mark.parametrize("engine", ["loky", "dask:local:2"])
@pytest.mark.parametrize("after", [1, 9])
def test_a_killed_run_resumes_to_the_same_results(folder, model, expected, tmp_path, engine, after):
    out = tmp_path / "out"
    command = [*RUN, folder, "-m", model, "-o", out, "--engine", engine]
    process = subprocess.Popen(command, start_new_session=True)
    until(lambda: len(finished(out)) >= after, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = finished(out)
    assert after <= len(before) < 16, "killed too late to prove anything"
    assert not (out / "summary").exists()
    assert subprocess.run(command, check=False).returncode == 1
    assert {name: state for name, state in finished(out).items() if name in before} == before
    assert contents(out) == expected


def test_workers_of_a_killed_run_end(folder, model, tmp_path):
    import psutil

    out = tmp_path / "out"
    process = subprocess.Popen([*RUN, folder, "-m", model, "-o", out, "--jobs", "2"])
    until(lambda: len(finished(out)) >= 1, process)
    workers = [psutil.Process(pid) for pid in workers_of(process.pid) if pid != process.pid]
    assert workers
    process.kill()
    process.wait()
    assert not psutil.wait_procs(workers, timeout=30)[1]


@pytest.fixture
def sigint():
    """Let children receive SIGINT even if this process was started in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("sigint")
@pytest.mark.parametrize("engine", ["loky", "dask:local:2", "serial"])
def test_an_interrupted_run_ends_and_resumes(folder, model, expected, tmp_path, engine):
    out = tmp_path / "out"
    command = [*RUN, folder, "-m", model, "-o", out, "--engine", engine]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    until(lambda: len(finished(out)) >= 2, process)
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted" in messages
    if not engine.startswith("dask"):  # Dask sometimes logs a traceback of its own while it shuts down
        assert "Traceback" not in messages, messages
    assert not (out / ".drafts").exists()
    assert subprocess.run(command, check=False).returncode == 1
    assert contents(out) == expected


# --- benchmark -----------------------------------------------------------------------------------------


def test_the_benchmark_of_cohorts_reports_all_figures(tmp_path):
    import json

    out = tmp_path / "cohort.json"
    command = [sys.executable, "-m", "benchmarks.scale.cohort", "--hours", "0.2", "--counts", "4,8", "-o", out]
    subprocess.run([*command, "--repeats", "1"], check=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    figures = json.loads(out.read_text())
    assert figures["recordings_per_hour"] > 0
    assert 0 < figures["efficiency_two_workers"] < 2
    assert figures["peak_bytes"]["worker"] > 50 << 20
    assert [run["recordings"] for run in figures["linearity"]] == [4, 8]
