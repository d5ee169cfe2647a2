"""Fleets: a shard answers every wearer as an adapter of its own would, whatever arrives; no Spark needed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("onnx")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from sight import registry  # noqa: E402
from sight.cli import app  # noqa: E402
from sight.fleet import shard_state as blocks  # noqa: E402
from sight.fleet import spark_environment  # noqa: E402
from sight.fleet.input_check import VALUES, check  # noqa: E402
from sight.fleet.output_files import finished_files, read_answers  # noqa: E402
from sight.fleet.plan import load  # noqa: E402
from sight.fleet.shard import Rows, advance  # noqa: E402
from sight.methods.sight import SIGHT  # noqa: E402
from sight.testing import toy_stream  # noqa: E402
from tests.helpers.fleets import KINDS, exported, planned  # noqa: E402

STREAM = toy_stream(n=60)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("models"), *KINDS)


def rows(wearer, number, time_s, **values):
    return Rows(np.array(wearer, object), np.array(number), np.array(time_s, float), values)


@pytest.fixture(scope="module")
def encoded(models):
    return planned(models["first"]).source.encode(STREAM.x)


# --- one shard, without an engine --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["sight", "keel"])
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_shard_answers_each_wearer_bit_for_bit_as_its_own_adapter(models, encoded, method, data):
    """Whatever arrives together, in whatever order, twice or late, and through bytes between triggers."""
    model, (z, p) = planned(models["first"], method), encoded
    rng, triggers = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))), data.draw(st.integers(1, 5))
    block, alone, last = blocks.fresh(model), {}, {}
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
            now = slice(number % 60, number % 60 + 1)
            expected[wearer, number] = adapter.refine(z[now], p[now])[0]
            last[wearer] = number
        names, numbers = zip(*arrived, strict=True)
        at = np.array(numbers) % 60
        given_rows = rows(names, numbers, numbers, z=list(z[at]), p=list(p[at]))
        block, fate = blocks.unpack(blocks.pack(block, model), model)
        assert fate == "same"
        found = advance(block, given_rows, model)
        answered = [i for i, status in enumerate(found["status"]) if status == "answered"]
        assert {(found["wearer"][i], found["window"][i]) for i in answered} == set(expected)
        assert len(found["status"]) == len(arrived)
        for i in answered:
            np.testing.assert_array_equal(found["q"][i], expected[found["wearer"][i], found["window"][i]])
    for wearer, adapter in alone.items():
        state = block.fleet.state(int(block.rows([wearer])[0]))
        for name, value in adapter.state().items():
            np.testing.assert_array_equal(state[name], value)


def test_a_gap_relaxes_the_belief_by_the_time_away(models, encoded):
    model, (z, p) = planned(models["first"]), encoded
    block = blocks.fresh(model)
    for number, second in enumerate((0.0, 1.0, 90.0)):
        advance(block, rows(["w"], [number], [second], z=z[[number]], p=p[[number]]), model)
    adapter = SIGHT().bind(model.source)
    adapter.refine(z[:2], p[:2])
    adapter.gap(90.0 - 3.0)  # the last window ended at 3 s
    adapter.refine(z[2:3], p[2:3])
    np.testing.assert_array_equal(block.fleet.state(0)["habit"], adapter.state()["habit"])


def test_rows_that_make_no_sense_are_counted_and_hurt_nobody(models, encoded):
    model, (z, p) = planned(models["first"]), encoded
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
    names, numbers, times, features, answers = zip(*wrong, strict=True)
    block = blocks.fresh(model)
    found = advance(block, rows(names, numbers, times, z=features, p=answers), model)
    assert dict(zip(found["wearer"], found["status"], strict=True)) == dict.fromkeys(names, "invalid") | {
        "good": "answered"
    }
    assert block.wearers == ["good"], "a sender of nonsense takes no room"
    again = advance(block, rows(["nan"], [0], [0.0], z=z[:1], p=p[:1]), model)
    assert again["status"] == ["answered"], "what was refused may be sent again"


def test_windows_are_encoded_in_the_shard(models, encoded):
    model, (z, p) = planned(models["first"], kind="windows"), encoded
    x = [window.ravel() for window in STREAM.x[:20]]
    x[7] = np.full_like(x[7], np.inf)
    found = advance(blocks.fresh(model), rows(["w"] * 20, range(20), range(20), x=x), model)
    assert [status for status in found["status"] if status != "answered"] == ["invalid"]
    kept = np.delete(np.arange(20), 7)
    expected = SIGHT().bind(model.source)
    q = np.concatenate([expected.refine(z[:7], p[:7]), expected.refine(z[kept[7:]], p[kept[7:]])])
    np.testing.assert_array_equal(np.stack(found["q"][:19]), q)


def test_samples_become_the_windows_of_the_recording_whatever_the_packets(models):
    from sight.signal import prepare
    from sight.types import Recording

    model = planned(models["first"], kind="samples")
    samples = np.random.default_rng(3).normal(size=(400, 3)).astype(np.float32)
    time_s = np.arange(400) / 10.0
    time_s[250:] += 40.0  # away
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
    block, got = blocks.fresh(model), []
    for number, (start, stop) in enumerate(pairwise(edges)):
        packet = rows(["w"], [number], [time_s[start]], samples=[samples[start:stop].ravel()])
        block, _ = blocks.unpack(blocks.pack(block, model), model)
        got.append(advance(block, packet, model))
        assert advance(block, packet, model)["status"] == ["late"]
    q = np.concatenate([np.stack(part["q"]) for part in got if len(part["q"])])
    np.testing.assert_array_equal(q, np.stack(expected[: len(q)]))
    assert len(expected) - len(q) <= 1  # the last may wait for a next sample
    assert np.concatenate([part["window"] for part in got]).tolist() == list(range(1, len(q) + 1))


def test_a_new_model_carries_wearers_on_or_restarts_them(models, encoded):
    first, (z, p) = planned(models["first"]), encoded
    block = blocks.fresh(first)
    advance(block, rows(["a"] * 30 + ["b"] * 9, [*range(30), *range(9)], [*range(30), *range(9)],
                        z=[*z[:30], *z[20:29]], p=[*p[:30], *p[20:29]]), first)  # fmt: skip
    stored = blocks.pack(block, first)

    second = planned(models["retrained"])
    carried, fate = blocks.unpack(stored, second)
    assert fate == "carried"
    adapter = SIGHT().bind(second.source).restore(block.fleet.state(0))
    new_z, new_p = second.source.encode(STREAM.x[30:40])
    found = advance(carried, rows(["a"] * 10, range(30, 40), range(30, 40), z=new_z, p=new_p), second)
    np.testing.assert_array_equal(np.stack(found["q"]), adapter.refine(new_z, new_p))
    assert set(found["model"]) == {second.name} != {first.name}

    habits, fate = blocks.unpack(stored, planned(models["retrained"], carry="habits"))
    assert fate == "carried"
    fresh = SIGHT().bind(second.source).state()
    for row in range(2):
        np.testing.assert_array_equal(habits.fleet.state(row)["prototypes"], fresh["prototypes"])
        np.testing.assert_array_equal(habits.fleet.state(row)["habit"], block.fleet.state(row)["habit"])

    for name in ("classes", "features"):
        other = planned(models[name])
        restarted, fate = blocks.unpack(stored, other)
        assert fate == "reset"
        assert restarted.fleet.count.tolist() == [0, 0]
        assert restarted.number.tolist() == [29, 8], "nothing is answered twice"


def test_states_of_another_kind_or_a_newer_sight_are_refused(models):
    model = planned(models["first"])
    stored = blocks.pack(blocks.fresh(model), model)
    with pytest.raises(ValueError, match="newer than version 1"):
        blocks.unpack(stored.replace(b'"sight.block":"1"', b'"sight.block":"9"'), model)
    for foreign in (b"", b"PAR1", b"\x80\x04K\x01.", stored[:20]):
        with pytest.raises(ValueError, match="another job's"):
            blocks.unpack(foreign, model)


def test_another_number_of_shards_is_refused(models):
    model = planned(models["first"])
    with pytest.raises(ValueError, match="begun with 64 shards, got 32"):
        blocks.unpack(blocks.pack(blocks.fresh(model), model), planned(models["first"], shards=32))


def test_a_state_is_little_more_than_its_numbers(models):
    model = planned(models["first"])
    block = blocks.fresh(model)
    block.welcome([f"wearer-{n}" for n in range(500)], model)
    assert len(blocks.pack(block, model)) < 1.02 * block.fleet.block.nbytes


# --- what it needs ----------------------------------------------------------------------------------------------


def test_methods_that_cannot_advance_many_wearers_are_named(models):
    with pytest.raises(ValueError, match=r"which tent cannot; methods that can: .*sight"):
        planned(models["first"], method="tent")
    with pytest.raises(ValueError, match="not the file the job began with"):
        load(replace(planned(models["first"]).plan, digest="0" * 64))


def test_nothing_that_spark_cannot_have_is_imported():
    code = (
        "import sys\n"
        "for name in ('torch', 'pandas', 'scipy', 'pyarrow', 'pyspark', 'joblib', 'duckdb'): sys.modules[name] = None\n"
        "import sight.cli, sight.fleet.spark_job, sight.fleet.output_files"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def asked(models, tmp_path, monkeypatch):
    """Call the command in an environment of its own making."""
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def ask():
        words = ["fleet", str(tmp_path), "-m", str(models["first"]), "-o", str(tmp_path / "out")]
        return CliRunner().invoke(app, words, env={"COLUMNS": "400"})

    return ask


def test_java_missing_or_too_old_is_one_sentence(asked, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = asked()
    assert missing.exit_code == 2
    assert "there is none in PATH" in missing.output
    fake = tmp_path / "bin" / "java"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    old = asked()
    assert old.exit_code == 2
    assert "needs Java 17 or newer, got Java 11" in old.output
    fake.write_text("#!/bin/sh\nexit 1\n")
    broken = asked()
    assert broken.exit_code == 2
    assert "does not run" in broken.output
    for shown in (missing, old, broken):
        assert shown.output.count("sight:") == 1
        assert len(shown.output.strip().splitlines()) == 1
        assert "Traceback" not in shown.output


def test_spark_missing_names_its_environment(asked, monkeypatch):
    monkeypatch.setattr(spark_environment, "java_version", lambda: 17)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(spark_environment.importlib.util, "find_spec", lambda _: None)
    shown = asked()
    assert shown.exit_code == 2
    assert "make fleet-env" in shown.output


def test_only_files_of_finished_triggers_are_read(tmp_path):
    """Spark's log as it writes it: single entries, a compacted one that repeats all before it, a file nobody claims."""
    log = tmp_path / "answers" / "_spark_metadata"
    log.mkdir(parents=True)
    for name in ("a", "b c", "d", "orphan"):
        pq.write_table(pa.table({"wearer": [name]}), log.parent / f"part-{name}.parquet")
    line = {name: json.dumps({"path": f"file:///elsewhere/part-{name}.parquet"}) for name in ("a", "b%20c", "d")}
    (log / "0").write_text(f"v1\n{line['a']}")
    (log / "1.compact").write_text(f"v1\n{line['a']}\n{line['b%20c']}")
    (log / "2").write_text(f"v1\n{line['d']}")
    (log / ".2.crc").write_text("x")
    assert read_answers(tmp_path)["wearer"].to_pylist() == ["a", "b c", "d"]
    with pytest.raises(FileNotFoundError, match="no answers"):
        finished_files(tmp_path / "answers")


# --- what is refused before a file is consumed ------------------------------------------------------------------------


def arrived(folder, kind, file_format="json"):
    folder.mkdir()
    row = {"wearer": "w", "window": 0, "time_s": 0.0} | {name: [0.0] for name in VALUES[kind]}
    if file_format == "json":
        (folder / "0.json").write_text(json.dumps({"wearer": "w"}) + "\n" + json.dumps(row) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist([row]), folder / "0.parquet")
    return str(folder)


@pytest.mark.parametrize("file_format", ["json", "parquet"])
@pytest.mark.parametrize("kind", VALUES)
def test_rows_of_another_kind_name_the_right_one(tmp_path, kind, file_format):
    rows, out = arrived(tmp_path / "rows", kind, file_format), str(tmp_path / "out")
    for wrong in VALUES.keys() - {kind}:
        with pytest.raises(ValueError, match=rf"Rows of kind {wrong} .* has no .*; give --kind {kind}\."):
            check(rows, out, kind=wrong, file_format=file_format)
    assert not (tmp_path / "out").exists()
    check(rows, out, kind=kind, file_format=file_format)
    check(rows, out, kind=kind, file_format=file_format)


def test_files_of_another_format_are_named(tmp_path):
    out = str(tmp_path / "out")
    for holds, told in (("json", "parquet"), ("parquet", "json")):
        rows = arrived(tmp_path / holds, "windows", holds)
        with pytest.raises(ValueError, match=f"format {told}, got 0.{holds}.*give --format {holds}"):
            check(rows, out, kind="windows", file_format=told)
    (tmp_path / "json" / "0.json").write_text("time,x\n")
    with pytest.raises(ValueError, match="JSON object in each line, got none"):
        check(str(tmp_path / "json"), out, kind="windows", file_format="json")
    (tmp_path / "parquet" / "0.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match="no whole Parquet file"):
        check(str(tmp_path / "parquet"), out, kind="windows", file_format="parquet")


def test_an_output_folder_keeps_its_kind_and_format(tmp_path):
    rows, out = tmp_path / "rows", str(tmp_path / "out")
    rows.mkdir()
    check(str(rows), out, kind="features", file_format="json")
    with pytest.raises(ValueError, match="begun with --kind features, got samples"):
        check(str(rows), out, kind="samples", file_format="json")
    with pytest.raises(ValueError, match="begun with --format json, got parquet"):
        check(str(rows), out, kind="features", file_format="parquet")
    check("s3a://rows", "s3a://out", kind="samples", file_format="json")
