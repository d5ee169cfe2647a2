"""Fleets on a real Spark: a stream killed with its driver loses nothing and repeats nothing."""

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

from sight.fleet.output_files import read_answers  # noqa: E402
from sight.methods.sight import SIGHT  # noqa: E402
from sight.testing import toy_stream  # noqa: E402
from tests.conftest import ROOT  # noqa: E402
from tests.helpers.fleets import exported, planned  # noqa: E402

SPARK = ROOT / ".venv-spark" / "bin" / "python"
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("models"), "first", "retrained")


def write_rows(folder, models, wearers=30, windows=40, per_file=2):
    """Write arriving files, oldest first, and return the answers that each wearer's own adapter would give."""
    folder.mkdir()
    source = planned(models["first"]).source
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
    """Start ``sight fleet`` in Spark's environment, in a session of its own so that all of it can be killed."""
    if not SPARK.exists():
        message = "Spark's environment is not here; `make fleet-env` makes it"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
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


def begun(out):
    """Number of the latest batch that the stream planned, -1 before the first."""
    return max((int(path.name) for path in (out / "checkpoint" / "offsets").glob("[0-9]*")), default=-1)


def counted(out):
    """What each trigger counted, in order."""
    told = [json.loads(line) for line in (out / "progress.jsonl").read_text().splitlines()]
    return [{name: facts[name] for name in ("answered", "late", "invalid", "carried", "reset")} for facts in told]


def keyed(out):
    """Answers by wearer and window; fails where one is there twice."""
    found = read_answers(out).to_pylist()
    by_key = {(row["wearer"], row["window"]): row for row in found}
    assert len(by_key) == len(found), "a window was answered twice"
    return by_key


@pytest.mark.timeout(900)
def test_a_driver_killed_five_times_loses_and_repeats_nothing(fleet, models, tmp_path):
    expected = write_rows(tmp_path / "rows", models)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finish(fleet(tmp_path / "rows", models["first"], whole, "--files", "1"), whole)
    reference = keyed(whole)
    assert len(reference) == 30 * 40
    for (wearer, window), row in reference.items():
        np.testing.assert_array_equal(np.float32(row["q"]), expected[wearer][window])

    rng, killed_at = np.random.default_rng(), []
    for _ in range(5):
        wanted = begun(broken) + int(rng.integers(1, 3))
        process = fleet(tmp_path / "rows", models["first"], broken, "--files", "1")
        while process.poll() is None and begun(broken) < wanted:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5))  # somewhere inside the batch, or just after it
        assert process.poll() is None, "the stream ended before it could be killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        killed_at.append(begun(broken))
    finish(fleet(tmp_path / "rows", models["first"], broken, "--files", "1"), broken)
    assert keyed(broken) == reference, f"killed while batches {killed_at} were under way"


@pytest.mark.timeout(600)
def test_a_new_model_takes_over_without_losing_state(fleet, models, tmp_path):
    """Windows that came before are late under the new model too; new ones are answered from the states carried on."""
    out, folder = tmp_path / "out", tmp_path / "rows"
    write_rows(folder, models, wearers=10, windows=8, per_file=4)
    finish(fleet(folder, models["first"], out), out)
    first, second = (planned(models[name]) for name in ("first", "retrained"))
    more = []
    for w in range(10):
        z, p = second.source.encode(toy_stream(n=10, seed=w).x)
        more += [{"wearer": f"wearer {w}", "window": t, "time_s": t, "z": z[t], "p": p[t]} for t in range(6, 10)]
    pq.write_table(pa.Table.from_pylist(more, pq.read_schema(folder / "000.parquet")), folder / "later.parquet")
    finish(fleet(folder, models["retrained"], out), out)
    assert counted(out)[-1] == {"answered": 20, "late": 20, "invalid": 0, "carried": 10, "reset": 0}
    answers = keyed(out)
    for w in range(10):
        old = SIGHT().bind(first.source)
        old.step(toy_stream(n=8, seed=w).x)
        q = SIGHT().bind(second.source).restore(old.state()).step(toy_stream(n=10, seed=w).x[8:])
        for t in (8, 9):
            np.testing.assert_array_equal(np.float32(answers[f"wearer {w}", t]["q"]), q[t - 8])
            assert answers[f"wearer {w}", t]["model"] == second.name


@pytest.mark.timeout(600)
def test_raw_windows_in_lines_of_json_are_encoded_by_the_workers(fleet, models, tmp_path):
    folder, out, x = tmp_path / "rows", tmp_path / "out", toy_stream(n=6).x
    folder.mkdir()
    lines = [{"wearer": "w", "window": t, "time_s": float(t), "x": x[t].ravel().tolist()} for t in range(6)]
    lines += [lines[3], {"wearer": "w", "window": 9, "time_s": 9.0, "x": [1.0]}, {"window": 10, "time_s": 10.0}]
    (folder / "0.json").write_text("\n".join(map(json.dumps, lines)))
    finish(fleet(folder, models["first"], out, "--format", "json", "--kind", "windows"), out)
    assert counted(out) == [{"answered": 6, "late": 1, "invalid": 2, "carried": 0, "reset": 0}]
    q = SIGHT().bind(planned(models["first"]).source).step(x)
    answers = keyed(out)
    for t in range(6):
        # JSON carries every float32 exactly, as a decimal of double precision.
        np.testing.assert_array_equal(np.float32(answers["w", t]["q"]), q[t])
