"""Shards of a fleet predict for each wearer as an adapter of its own would; no Spark needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

pytest.importorskip("torch")
pytest.importorskip("onnx")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from sight import registry  # noqa: E402
from sight._util import tensorfile  # noqa: E402
from sight.apps.fleet import shard_state, spark_environment, spark_job  # noqa: E402
from sight.apps.fleet.fleet_model import load_fleet_model  # noqa: E402
from sight.apps.fleet.input_check import VALUE_COLUMNS, check_input  # noqa: E402
from sight.apps.fleet.output_files import finished_files, read_predictions  # noqa: E402
from sight.apps.fleet.shard import Rows, advance  # noqa: E402
from sight.methods.sight import SIGHT  # noqa: E402
from sight.testing import toy_stream  # noqa: E402
from tests.helpers.commands import run_sight  # noqa: E402
from tests.helpers.fleets import export_models, load_model  # noqa: E402

STREAM = toy_stream(n=60)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return export_models(tmp_path_factory.mktemp("models"), "first", "retrained")


def rows(wearer, number, time_s, **values):
    return Rows(np.array(wearer, object), np.array(number), np.array(time_s, float), values)


def update(shard, rows, model):
    """Update a shard; return the output columns, predicted windows before dropped rows."""
    predicted, dropped = advance(shard, rows, model)
    return {name: [*predicted[name], *dropped[name]] for name in predicted}


@pytest.fixture(scope="module")
def encoded(models):
    return load_model(models["first"]).source.encode(STREAM.x)


# --- one shard --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["sight", "keel"])
@given(data=st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_shard_predicts_for_each_wearer_bit_for_bit_as_its_own_adapter(models, encoded, method, data):
    """Rows arrive in any order, repeated or late; the state is packed and unpacked between triggers."""
    model, (z, p) = load_model(models["first"], method), encoded
    rng, triggers = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))), data.draw(st.integers(1, 5))
    shard, alone, last = shard_state.empty(model), {}, {}
    for _ in range(triggers):
        arrived = [
            (str(wearer), last.get(wearer, -1) + int(step))
            for wearer in rng.choice(["ann", "bö", "c", "d"], rng.integers(1, 5), replace=False)
            for step in rng.integers(-2, 6, rng.integers(1, 4))
        ]
        expected = {}
        for wearer, number in sorted(arrived):
            if number <= last.get(wearer, -1):
                continue
            adapter = alone.setdefault(wearer, registry.method(method).bind(model.source))
            if number - last.get(wearer, number) > 2:  # windows of 2 s: from the end of the last to this one
                adapter.gap(number - last[wearer] - 2.0)
            at = slice(number % 60, number % 60 + 1)
            expected[wearer, number] = adapter.refine(z[at], p[at])[0]
            last[wearer] = number
        names, numbers = zip(*arrived, strict=True)
        at = np.array(numbers) % 60
        given_rows = rows(names, numbers, numbers, z=list(z[at]), p=list(p[at]))
        shard, transition = shard_state.unpack(shard_state.pack(shard, model), model)
        assert transition == "same"
        output = update(shard, given_rows, model)
        predicted = [i for i, status in enumerate(output["status"]) if status == "predicted"]
        assert {(output["wearer"][i], output["window"][i]) for i in predicted} == set(expected)
        assert len(output["status"]) == len(arrived)
        for i in predicted:
            np.testing.assert_array_equal(output["q"][i], expected[output["wearer"][i], output["window"][i]])
    for wearer, adapter in alone.items():
        state = shard.adapters.state(int(shard.rows([wearer])[0]))
        for name, value in adapter.state().items():
            np.testing.assert_array_equal(state[name], value)


def test_a_gap_relaxes_the_belief_by_its_length(models, encoded):
    model, (z, p) = load_model(models["first"]), encoded
    shard = shard_state.empty(model)
    for number, second in enumerate((0.0, 1.0, 90.0)):
        update(shard, rows(["w"], [number], [second], z=z[[number]], p=p[[number]]), model)
    adapter = SIGHT().bind(model.source)
    adapter.refine(z[:2], p[:2])
    adapter.gap(90.0 - 3.0)  # the last window ended at 3 s
    adapter.refine(z[2:3], p[2:3])
    np.testing.assert_array_equal(shard.adapters.state(0)["habit"], adapter.state()["habit"])


def test_invalid_rows_are_counted_and_do_not_affect_others(models, encoded):
    model, (z, p) = load_model(models["first"]), encoded
    wrong = [
        ("short", 0, 0.0, z[0][:3], p[0]),
        ("nan", 0, 0.0, np.full_like(z[0], np.nan), p[0]),
        ("logits", 0, 0.0, z[0], 5 * p[0]),
        ("none", 0, 0.0, None, p[0]),
        ("", 0, 0.0, z[0], p[0]),
        ("no number", -1, 0.0, z[0], p[0]),
        ("no time", 0, np.nan, z[0], p[0]),
        ("good", 0, 0.0, z[0], p[0]),
    ]
    names, numbers, times, features, probabilities = zip(*wrong, strict=True)
    shard = shard_state.empty(model)
    output = update(shard, rows(names, numbers, times, z=features, p=probabilities), model)
    expected = dict.fromkeys(names, "invalid") | {"good": "predicted"}
    assert dict(zip(output["wearer"], output["status"], strict=True)) == expected
    assert shard.wearers == ["good"], "a wearer without valid rows is not added"
    again = update(shard, rows(["nan"], [0], [0.0], z=z[:1], p=p[:1]), model)
    assert again["status"] == ["predicted"], "an invalid row may be sent again"


def test_windows_are_encoded_in_the_shard(models, encoded):
    model, (z, p) = load_model(models["first"], kind="windows"), encoded
    x = [window.ravel() for window in STREAM.x[:20]]
    x[7] = np.full_like(x[7], np.inf)
    output = update(shard_state.empty(model), rows(["w"] * 20, range(20), range(20), x=x), model)
    assert [status for status in output["status"] if status != "predicted"] == ["invalid"]
    kept = np.delete(np.arange(20), 7)
    expected = SIGHT().bind(model.source)
    q = np.concatenate([expected.refine(z[:7], p[:7]), expected.refine(z[kept[7:]], p[kept[7:]])])
    np.testing.assert_array_equal(np.stack(output["q"][:19]), q)


def test_samples_in_any_packets_become_the_windows_of_the_recording(models):
    from sight.recordings.signal import prepare
    from sight.types import Recording

    model = load_model(models["first"], kind="samples")
    samples = np.random.default_rng(3).normal(size=(400, 3)).astype(np.float32)
    time_s = np.arange(400) / 10.0
    time_s[250:] += 40.0  # a gap
    recording = Recording(
        values=samples, time_s=time_s, channels=("x", "y", "z"), unit=("g",) * 3, rate_hz=10.0, subject="w", labels=None
    )
    windows = prepare(recording, rate_hz=10.0, window_s=2.0, stride_s=1.0)
    adapter, expected = SIGHT().bind(model.source), []
    for x, gap in zip(windows.x, windows.gap_before_s, strict=True):
        if gap:
            adapter.gap(gap)
        expected.append(adapter.step(x[None])[0])
    edges = [0, 7, 8, 120, 250, 251, 399, 400]
    shard, outputs = shard_state.empty(model), []
    for number, (start, stop) in enumerate(pairwise(edges)):
        packet = rows(["w"], [number], [time_s[start]], samples=[samples[start:stop].ravel()])
        shard, _ = shard_state.unpack(shard_state.pack(shard, model), model)
        outputs.append(update(shard, packet, model))
        assert update(shard, packet, model)["status"] == ["late"]
    q = np.concatenate([np.stack(part["q"]) for part in outputs if len(part["q"])])
    np.testing.assert_array_equal(q, np.stack(expected[: len(q)]))
    assert len(expected) - len(q) <= 1  # the last may wait for another sample
    assert np.concatenate([part["window"] for part in outputs]).tolist() == list(range(1, len(q) + 1))


def test_a_new_model_carries_states_over_or_resets_them(models, encoded):
    first, (z, p) = load_model(models["first"]), encoded
    shard, numbers = shard_state.empty(first), [*range(30), *range(9)]
    arrived = rows(["a"] * 30 + ["b"] * 9, numbers, numbers, z=[*z[:30], *z[20:29]], p=[*p[:30], *p[20:29]])
    update(shard, arrived, first)
    stored = shard_state.pack(shard, first)

    second = load_model(models["retrained"])
    carried, transition = shard_state.unpack(stored, second)
    assert transition == "carried"
    adapter = SIGHT().bind(second.source).restore(shard.adapters.state(0))
    new_z, new_p = second.source.encode(STREAM.x[30:40])
    output = update(carried, rows(["a"] * 10, range(30, 40), range(30, 40), z=new_z, p=new_p), second)
    np.testing.assert_array_equal(np.stack(output["q"]), adapter.refine(new_z, new_p))
    assert set(output["model"]) == {second.name} != {first.name}

    habits, transition = shard_state.unpack(stored, load_model(models["retrained"], carry="habits"))
    assert transition == "carried"
    fresh = SIGHT().bind(second.source).state()
    for row in range(2):
        np.testing.assert_array_equal(habits.adapters.state(row)["prototypes"], fresh["prototypes"])
        np.testing.assert_array_equal(habits.adapters.state(row)["habit"], shard.adapters.state(row)["habit"])

    for change in ({"classes": ["rest", "move"]}, {"dims": 3}, {"method": "keel"}):
        reset, transition = shard_state.unpack(with_header(stored, **change), first)
        assert transition == "reset"
        assert reset.adapters.state(slice(None))["count"].tolist() == [0, 0]
        assert reset.number.tolist() == [29, 8], "no window is predicted twice"


def with_header(stored, **changes):
    header, arrays = tensorfile.unpack(stored, shard_state.KEY)
    return tensorfile.pack(arrays, shard_state.KEY, header | changes)


def test_foreign_and_newer_states_are_refused(models):
    model = load_model(models["first"])
    stored = shard_state.pack(shard_state.empty(model), model)
    with pytest.raises(ValueError, match="newer than format 2"):
        shard_state.unpack(with_header(stored, format=9), model)
    for foreign in (b"", b"PAR1", b"\x80\x04K\x01.", stored[:20]):
        with pytest.raises(ValueError, match="another job"):
            shard_state.unpack(foreign, model)


def test_another_number_of_shards_is_refused(models):
    model = load_model(models["first"])
    with pytest.raises(ValueError, match="64 shards, got 32"):
        shard_state.unpack(shard_state.pack(shard_state.empty(model), model), load_model(models["first"], shards=32))


def test_a_packed_shard_is_little_larger_than_its_state(models):
    model = load_model(models["first"])
    shard = shard_state.empty(model)
    shard.add([f"wearer-{n}" for n in range(500)], model)
    assert len(shard_state.pack(shard, model)) < 1.02 * shard.adapters.nbytes


# --- requirements ----------------------------------------------------------------------------------------------


def test_methods_for_one_wearer_and_changed_models_are_refused(models):
    with pytest.raises(ValueError, match=r"tent cannot; use .*sight"):
        load_model(models["first"], method="tent")
    with pytest.raises(ValueError, match="has changed"):
        load_fleet_model(replace(load_model(models["first"]).options, digest="0" * 64))


def test_importing_a_fleet_needs_no_optional_package():
    code = (
        "import sys\n"
        "for name in ('torch', 'pandas', 'scipy', 'pyarrow', 'pyspark', 'joblib', 'duckdb'): sys.modules[name] = None\n"
        "import sight.apps.cli, sight.apps.fleet.spark_job, sight.apps.fleet.output_files"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def start_fleet(models, tmp_path, monkeypatch):
    """Return a function that runs the command, which fails, and returns its output."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    command = ["fleet", tmp_path, "-m", models["first"], "-o", tmp_path / "out"]

    def run():
        return run_sight(*command, code=2).output.strip()

    return run


def test_a_missing_or_old_java_is_reported_in_one_line(start_fleet, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = start_fleet()
    assert "none in PATH" in missing
    fake = tmp_path / "bin" / "java"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    old = start_fleet()
    assert "got Java 11" in old
    fake.write_text("#!/bin/sh\nexit 1\n")
    broken = start_fleet()
    assert "does not run" in broken
    for output in (missing, old, broken):
        assert output.startswith("sight:")
        assert len(output.splitlines()) == 1


@pytest.mark.parametrize(("printed", "version"), [('openjdk version "21"', 21), ('java version "1.8.0_392"', 8)])
def test_the_version_of_java_is_parsed(tmp_path, monkeypatch, printed, version):
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    java.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert spark_environment._find_java() == (str(java), version)


def test_a_missing_spark_names_the_remedy(start_fleet, monkeypatch):
    monkeypatch.setattr(spark_environment, "_find_java", lambda: ("java", 17))
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(spark_environment.importlib.util, "find_spec", lambda _: None)
    assert "make fleet-env" in start_fleet()


def test_ctrl_c_stops_the_stream_and_then_ends_the_command(models, tmp_path, monkeypatch):
    """Spark is replaced: an interrupt inside one of its calls prints tracebacks, so none may be raised there."""
    calls = []

    def wait(_seconds):
        os.kill(os.getpid(), signal.SIGINT)
        calls.append("wait")  # reached because the signal raises nothing
        return False

    class Session:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            calls.append("stop")

    monkeypatch.setitem(sys.modules, "pyspark.errors", SimpleNamespace(PySparkException=OSError))
    monkeypatch.setattr(spark_environment, "require_spark", lambda: None)
    monkeypatch.setattr(spark_job, "spark_session", lambda _: Session())
    monkeypatch.setattr(spark_job, "start", lambda *_: SimpleNamespace(awaitTermination=wait, recentProgress=[]))
    command = ["fleet", tmp_path, "-m", models["first"], "-o", tmp_path / "out", "--every", "1"]
    shown = run_sight(*command, code=130).output
    assert shown == "Stopped; finished triggers are kept, and the same command resumes.\n"
    assert calls == ["wait", "stop"]


def test_only_files_of_finished_triggers_are_read(tmp_path):
    """Spark's log has single entries and compacted ones that repeat all earlier entries; some files are in no entry."""
    log = tmp_path / "predictions" / "_spark_metadata"
    log.mkdir(parents=True)
    for name in ("a", "b c", "d", "orphan"):
        pq.write_table(pa.table({"wearer": [name]}), log.parent / f"part-{name}.parquet")
    line = {name: json.dumps({"path": f"file:///elsewhere/part-{name}.parquet"}) for name in ("a", "b%20c", "d")}
    (log / "0").write_text(f"v1\n{line['a']}")
    (log / "1.compact").write_text(f"v1\n{line['a']}\n{line['b%20c']}")
    (log / "2").write_text(f"v1\n{line['d']}")
    (log / ".2.crc").write_text("x")
    assert read_predictions(tmp_path)["wearer"].to_pylist() == ["a", "b c", "d"]
    with pytest.raises(FileNotFoundError, match="no predictions"):
        finished_files(tmp_path / "predictions")


# --- checks before a file is consumed ------------------------------------------------------------------------


def write_row(folder, kind, file_format="json"):
    folder.mkdir()
    row = {"wearer": "w", "window": 0, "time_s": 0.0} | {name: [0.0] for name in VALUE_COLUMNS[kind]}
    if file_format == "json":
        (folder / "0.json").write_text(json.dumps({"wearer": "w"}) + "\n" + json.dumps(row) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist([row]), folder / "0.parquet")
    return str(folder)


@pytest.mark.parametrize("file_format", ["json", "parquet"])
@pytest.mark.parametrize("kind", VALUE_COLUMNS)
def test_rows_of_another_kind_are_refused(tmp_path, kind, file_format):
    rows, out = write_row(tmp_path / "rows", kind, file_format), str(tmp_path / "out")
    for wrong in VALUE_COLUMNS.keys() - {kind}:
        with pytest.raises(ValueError, match=rf"kind {wrong} .* has no .*--kind {kind}\."):
            check_input(rows, out, kind=wrong, file_format=file_format)
    assert not (tmp_path / "out").exists()
    check_input(rows, out, kind=kind, file_format=file_format)
    check_input(rows, out, kind=kind, file_format=file_format)


def test_files_of_another_format_are_refused(tmp_path):
    out = str(tmp_path / "out")
    for actual, wrong in (("json", "parquet"), ("parquet", "json")):
        rows = write_row(tmp_path / actual, "windows", actual)
        with pytest.raises(ValueError, match=f"format {wrong}, got 0.{actual}.*--format {actual}"):
            check_input(rows, out, kind="windows", file_format=wrong)
    (tmp_path / "json" / "0.json").write_text("time,x\n")
    with pytest.raises(ValueError, match="JSON object"):
        check_input(str(tmp_path / "json"), out, kind="windows", file_format="json")
    (tmp_path / "parquet" / "0.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match="complete Parquet"):
        check_input(str(tmp_path / "parquet"), out, kind="windows", file_format="parquet")


def test_an_output_folder_keeps_its_kind_and_format(tmp_path):
    rows, out = tmp_path / "rows", str(tmp_path / "out")
    rows.mkdir()
    check_input(str(rows), out, kind="features", file_format="json")
    with pytest.raises(ValueError, match="--kind features, got samples"):
        check_input(str(rows), out, kind="samples", file_format="json")
    with pytest.raises(ValueError, match="--format json, got parquet"):
        check_input(str(rows), out, kind="features", file_format="parquet")
    check_input("s3a://rows", "s3a://out", kind="samples", file_format="json")
