"""Fleets on a real Spark: a stream whose driver is killed neither loses nor repeats a window."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from sight.apps.fleet.output_files import read_predictions  # noqa: E402
from sight.methods.sight import SIGHT  # noqa: E402
from sight.testing import toy_stream  # noqa: E402
from tests.conftest import ROOT  # noqa: E402
from tests.helpers.fleets import export_models, load_model  # noqa: E402
from tests.helpers.requirements import missing  # noqa: E402

SPARK = ROOT / ".venv-spark" / "bin" / "python"
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return export_models(tmp_path_factory.mktemp("models"), "first", "retrained")


def write_rows(folder, models, wearers=30, windows=40, per_file=2):
    """Write input files, oldest first, and return the predictions of one adapter per wearer."""
    folder.mkdir()
    source = load_model(models["first"]).source
    expected, columns = {}, {}
    for w in range(wearers):
        stream = toy_stream(n=windows, seed=w)
        columns[w] = source.encode(stream.x)
        expected[f"wearer {w}"] = SIGHT().bind(source).refine(*columns[w])
    numbers = pa.list_(pa.float32())
    for at, start in enumerate(range(0, windows, per_file)):
        cells = [(w, t) for t in range(start, start + per_file) for w in range(wearers)]
        table = pa.table(
            {
                "wearer": [f"wearer {w}" for w, _ in cells],
                "window": [t for _, t in cells],
                "time_s": [float(t) for _, t in cells],
                "z": pa.array([columns[w][0][t] for w, t in cells], numbers),
                "p": pa.array([columns[w][1][t] for w, t in cells], numbers),
            }
        )
        path = folder / f"{at:03d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1.7e9 + at, 1.7e9 + at))
    return expected


@pytest.fixture
def fleet():
    """Start ``sight fleet`` in Spark's environment, in a new session so that all its processes can be killed."""
    if not SPARK.exists():
        missing("Spark's environment is missing; run `make fleet-env`")
    started = []

    def start(folder, model, out, *more):
        words = ["fleet", str(folder), "-m", str(model), "-o", str(out), "--method", "sight"]
        words += ["--shards", "4", "--partitions", "2", "--conf", "spark.master=local[2]", *more]
        words += ["--conf", "spark.driver.memory=1g", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
        with (out.parent / f"{out.name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(SPARK), "-m", "sight", *words], stdout=log, stderr=log, start_new_session=True
            )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def finish(process, out):
    assert process.wait(timeout=400) == 0, (out.parent / f"{out.name}.log").read_text()[-3000:]


def latest_batch(out):
    """Return the number of the latest started batch, -1 before the first."""
    return max((int(path.name) for path in (out / "checkpoint" / "offsets").glob("[0-9]*")), default=-1)


def status_counts(out):
    """Return the rows of each trigger by status, in order."""
    triggers = [json.loads(line) for line in (out / "progress.jsonl").read_text().splitlines()]
    return [{name: facts[name] for name in ("predicted", "late", "invalid", "carried", "reset")} for facts in triggers]


def predictions_of(out):
    """Return predictions by wearer and window; fail if a window was predicted twice."""
    rows = read_predictions(out).to_pylist()
    by_key = {(row["wearer"], row["window"]): row for row in rows}
    assert len(by_key) == len(rows), "a window was predicted twice"
    return by_key


@pytest.mark.timeout(900)
def test_a_driver_killed_five_times_loses_and_repeats_nothing(fleet, models, tmp_path):
    expected = write_rows(tmp_path / "rows", models)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finish(fleet(tmp_path / "rows", models["first"], whole, "--files", "1"), whole)
    reference = predictions_of(whole)
    assert len(reference) == 30 * 40
    for (wearer, window), row in reference.items():
        np.testing.assert_array_equal(np.float32(row["q"]), expected[wearer][window])

    rng, killed_at = np.random.default_rng(), []
    for _ in range(5):
        wanted = latest_batch(broken) + int(rng.integers(1, 3))
        process = fleet(tmp_path / "rows", models["first"], broken, "--files", "1")
        while process.poll() is None and latest_batch(broken) < wanted:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5))  # somewhere inside the batch, or just after it
        assert process.poll() is None, "the stream ended before it could be killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        killed_at.append(latest_batch(broken))
    finish(fleet(tmp_path / "rows", models["first"], broken, "--files", "1"), broken)
    assert predictions_of(broken) == reference, f"killed while batches {killed_at} were running"


@pytest.mark.timeout(600)
def test_a_new_model_takes_over_without_losing_state(fleet, models, tmp_path):
    """Windows received before are late under the new model too; new ones use the states that were carried over."""
    out, folder = tmp_path / "out", tmp_path / "rows"
    write_rows(folder, models, wearers=10, windows=8, per_file=4)
    finish(fleet(folder, models["first"], out), out)
    first, second = (load_model(models[name]) for name in ("first", "retrained"))
    more = []
    for w in range(10):
        z, p = second.source.encode(toy_stream(n=10, seed=w).x)
        more += [{"wearer": f"wearer {w}", "window": t, "time_s": t, "z": z[t], "p": p[t]} for t in range(6, 10)]
    pq.write_table(pa.Table.from_pylist(more, pq.read_schema(folder / "000.parquet")), folder / "later.parquet")
    finish(fleet(folder, models["retrained"], out), out)
    assert status_counts(out)[-1] == {"predicted": 20, "late": 20, "invalid": 0, "carried": 10, "reset": 0}
    predictions = predictions_of(out)
    for w in range(10):
        old = SIGHT().bind(first.source)
        old.step(toy_stream(n=8, seed=w).x)
        q = SIGHT().bind(second.source).restore(old.state()).step(toy_stream(n=10, seed=w).x[8:])
        for t in (8, 9):
            np.testing.assert_array_equal(np.float32(predictions[f"wearer {w}", t]["q"]), q[t - 8])
            assert predictions[f"wearer {w}", t]["model"] == second.name


@pytest.mark.timeout(600)
def test_raw_windows_in_lines_of_json_are_encoded_by_the_workers(fleet, models, tmp_path):
    folder, out, x = tmp_path / "rows", tmp_path / "out", toy_stream(n=6).x
    folder.mkdir()
    lines = [{"wearer": "w", "window": t, "time_s": float(t), "x": x[t].ravel().tolist()} for t in range(6)]
    lines += [lines[3], {"wearer": "w", "window": 9, "time_s": 9.0, "x": [1.0]}, {"window": 10, "time_s": 10.0}]
    (folder / "0.json").write_text("\n".join(map(json.dumps, lines)))
    finish(fleet(folder, models["first"], out, "--format", "json", "--kind", "windows"), out)
    assert status_counts(out) == [{"predicted": 6, "late": 1, "invalid": 2, "carried": 0, "reset": 0}]
    q = SIGHT().bind(load_model(models["first"]).source).step(x)
    predictions = predictions_of(out)
    for t in range(6):
        # JSON decimals keep every float32 exactly.
        np.testing.assert_array_equal(np.float32(predictions["w", t]["q"]), q[t])


@pytest.mark.timeout(600)
def test_ctrl_c_ends_a_stream_with_one_sentence_and_it_resumes(fleet, models, tmp_path):
    folder, out, log = tmp_path / "rows", tmp_path / "out", tmp_path / "out.log"
    write_rows(folder, models, wearers=4, windows=4)
    process = fleet(folder, models["first"], out, "--every", "1", "--files", "1")
    while process.poll() is None and "trigger 0" not in log.read_text():
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=120) == 130
    *triggers, last = log.read_text().splitlines()
    assert all(line.startswith("trigger ") for line in triggers)
    assert last == "Stopped; finished triggers are kept, and the same command resumes."
    finish(fleet(folder, models["first"], out), out)
    assert len(predictions_of(out)) == 16
