"""The Spark stream: rows from a folder, keyed by shard, answers to a folder, progress to a log."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sight.fleet import shard_state as blocks
from sight.fleet.input_check import VALUES, check
from sight.fleet.plan import Plan, load
from sight.fleet.shard import ANSWERED, INVALID, LATE, Rows, advance

ANSWER = "wearer string, window long, time_s double, class string, q array<float>, surprise float, model string"
#: Number of the open file that every process writes its errors to.
STDERR = 2
#: What is counted of every trigger.
COUNTED = (ANSWERED, LATE, INVALID, "carried", "reset")


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Where a fleet reads and writes, and how it is spread.

    Parameters
    ----------
    rows, file_format
        Folder of arriving files, and "parquet" or "json".
    out
        Folder of the results: ``answers``, ``checkpoint``, ``progress.jsonl``, and what Spark says in ``spark.log``.
    partitions
        Tasks that share the shards in every trigger; fixed for the life of a checkpoint.
    every_s
        Seconds between triggers; None answers what is there and stops.
    files_per_trigger
        At most so many files at once.
    conf
        Settings of Spark that win over ours.
    """

    rows: str
    out: str
    file_format: str = "parquet"
    partitions: int = 4
    every_s: float | None = None
    files_per_trigger: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file_format not in ("parquet", "json"):
            raise ValueError(f"Expected files of format parquet or json, got {self.file_format!r}.")
        if self.partitions < 1:
            raise ValueError(f"Expected at least one partition, got {self.partitions}.")


class ShardProcessor:
    """What Spark calls for each shard of a trigger; the state is one block of bytes.

    Has the methods of ``pyspark.sql.streaming.StatefulProcessor`` without being one, so that this module loads where
    Spark is not.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def init(self, handle: Any) -> None:
        """Name the state."""
        self._state = handle.getValueState("block", "block binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timer_values: Any) -> Iterator[Any]:  # noqa: ARG002
        """Advance the wearers of one shard."""
        import pandas as pd

        model = load(self._plan)
        frame = pd.concat(rows, ignore_index=True)
        stored = self._state.get()
        block, fate = blocks.unpack(bytes(stored[0]), model) if stored else (blocks.fresh(model), "same")
        marked = _marked(block, fate, model.name)
        columns = advance(block, _rows(frame, self._plan), model)
        self._state.update((blocks.pack(block, model),))
        answers = [pd.DataFrame(part) for part in (marked, columns) if len(part["wearer"])]
        return iter(answers)

    def handleExpiredTimer(self, *_: Any, **__: Any) -> Iterator[Any]:
        """Do nothing: a fleet sets no timers."""
        return iter(())

    def close(self) -> None:
        """Hold nothing that needs closing."""


def _rows(frame: Any, plan: Plan) -> Rows:
    return Rows(
        wearer=frame["wearer"].to_numpy(object),
        number=frame["window"].fillna(-1).to_numpy(np.int64),
        time_s=frame["time_s"].to_numpy(np.float64),
        values={name: frame[name].tolist() for name in VALUES[plan.kind]},
    )


def _marked(block: blocks.Block, fate: str, model: str) -> dict[str, Any]:
    """Give one marker for each wearer that a new model carried on or restarted, to be counted and then dropped."""
    wearers = [] if fate == "same" else list(block.wearers)
    nothing = [None] * len(wearers)
    return {
        "wearer": wearers,
        "window": block.number[: len(wearers)].copy(),
        "time_s": block.time_s[: len(wearers)].copy(),
        "class": nothing,
        "q": nothing,
        "surprise": np.full(len(wearers), np.nan, np.float32),
        "model": [model] * len(wearers),
        "status": [fate] * len(wearers),
    }


def session(stream: Stream) -> Any:
    """Start or find Spark, with a state store that writes changes rather than everything."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need this environment, not the machine's
    ours = {
        "spark.master": "local[*]",
        "spark.app.name": "sight fleet",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(stream.partitions),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Every block changes in every trigger, so each kept version costs the whole state once more.
        "spark.sql.streaming.minBatchesToRetain": "3",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    wanted = ours | dict(stream.conf)
    if wanted["spark.master"].startswith("local"):
        wanted = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} | wanted
        wanted = {"spark.ui.enabled": "false"} | wanted
    builder = SparkSession.builder
    for key, value in wanted.items():
        builder = builder.config(key, value)
    with _heard_by(stream):
        return builder.getOrCreate()


@contextmanager
def _heard_by(stream: Stream) -> Iterator[None]:
    """Let Java, and the workers it starts, inherit a log for their errors instead of the terminal."""
    if "://" in stream.out:
        yield
        return
    sys.stderr.flush()
    terminal = os.dup(STDERR)
    with (Path(stream.out) / "spark.log").open("ab") as log:
        os.dup2(log.fileno(), STDERR)
    try:
        yield
    finally:
        os.dup2(terminal, STDERR)
        os.close(terminal)


def start(spark: Any, plan: Plan, stream: Stream) -> Any:
    """Start the query; it goes on from the checkpoint in the output folder where there is one."""
    from pyspark.sql import functions as f

    values = ", ".join(f"{name} array<float>" for name in VALUES[plan.kind])
    reader = spark.readStream.format(stream.file_format)
    reader = reader.schema(f"wearer string, window long, time_s double, {values}")
    if stream.files_per_trigger:
        reader = reader.option("maxFilesPerTrigger", stream.files_per_trigger)
    # crc32 is the same in every language and version, so a sender can know the shard too.
    shard = f.crc32(f.coalesce("wearer", f.lit("")).cast("binary")) % f.lit(plan.shards)
    answers = (
        reader.load(stream.rows)
        .withColumn("shard", shard.cast("int"))
        .groupBy("shard")
        .transformWithStateInPandas(ShardProcessor(plan), f"{ANSWER}, status string", "Append", "None")
        .observe("fleet", *(f.count_if(f.col("status") == name).alias(name) for name in COUNTED))
        .where(f.col("status") == ANSWERED)
        .drop("status")
    )
    writer = answers.writeStream.format("parquet").outputMode("append")
    writer = writer.option("path", f"{stream.out}/answers").option("checkpointLocation", f"{stream.out}/checkpoint")
    trigger = {"availableNow": True} if stream.every_s is None else {"processingTime": f"{stream.every_s} seconds"}
    return writer.trigger(**trigger).start()


def run(plan: Plan, stream: Stream, on_trigger: Callable[[dict[str, Any]], None] | None = None) -> dict[str, int]:
    """Run a fleet until it has answered everything, or until it is stopped; return what was counted.

    Parameters
    ----------
    plan, stream
        What runs, and where.
    on_trigger
        Called with the facts of each finished trigger, which also go to ``progress.jsonl`` in a local output folder.
    """
    load(plan)  # a mistake in the model, the settings or the files shows before Spark starts
    check(stream.rows, stream.out, kind=plan.kind, file_format=stream.file_format)
    from pyspark.errors import PySparkException

    total = dict.fromkeys(COUNTED, 0)
    try:
        with session(stream) as spark:
            for facts in triggers(start(spark, plan, stream)):
                total = {name: total[name] + facts[name] for name in COUNTED}
                _log(stream, facts)
                if on_trigger is not None:
                    on_trigger(facts)
    except PySparkException as error:
        more = "" if "://" in stream.out else f" (all that Spark says of it: {stream.out}/spark.log)"
        raise ChildProcessError(f"The stream stopped: {reason(str(error))}{more}") from error
    return total


def triggers(query: Any) -> Iterator[dict[str, Any]]:
    """Yield the facts of each finished trigger that had rows, until the query ends."""
    told, going = -1, True
    while going:
        going = not query.awaitTermination(1)
        for progress in [p for p in query.recentProgress if p["batchId"] > told and p["numInputRows"]]:
            told = progress["batchId"]
            yield trigger_facts(progress)


def reason(text: str) -> str:
    r"""Pick the sentence that matters from Spark's pages of an error.

    Examples
    --------
    >>> reason("[STREAM_FAILED] Query ...\n  File x, line 3\nValueError: The checkpoint is another's.\n=== Plan ===")
    "The checkpoint is another's."
    >>> reason("[PATH_NOT_FOUND] There is no such path.\nmore")
    '[PATH_NOT_FOUND] There is no such path.'
    """
    ours = re.findall(r"^(?:\w+\.)*\w*Error: (.+)$", text, re.MULTILINE)
    return str(ours[-1]) if ours else text.partition("\n")[0]


def trigger_facts(progress: Any) -> dict[str, Any]:
    """Pick what people ask of a trigger from what Spark tells of it."""
    counted = progress["observedMetrics"].get("fleet")
    states = progress["stateOperators"]
    return {
        "batch": progress["batchId"],
        "rows": progress["numInputRows"],
        **{name: 0 if counted is None else int(counted[name]) for name in COUNTED},
        "trigger_ms": progress["durationMs"]["triggerExecution"],
        "batch_ms": progress["durationMs"].get("addBatch", 0),
        "update_task_ms": sum(state["allUpdatesTimeMs"] for state in states),
        "commit_task_ms": sum(state["commitTimeMs"] for state in states),
        "shards": sum(state["numRowsTotal"] for state in states),
        "state_memory_bytes": sum(state["memoryUsedBytes"] for state in states),
    }


def _log(stream: Stream, facts: Mapping[str, Any]) -> None:
    if "://" not in stream.out:
        with (Path(stream.out) / "progress.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(facts) + "\n")
