"""Spark stream of a fleet: rows from a folder, grouped by shard; predictions to a folder, progress to a log."""

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

from sight.apps.fleet import shard_state
from sight.apps.fleet.fleet_model import FleetOptions, load_fleet_model
from sight.apps.fleet.input_check import VALUE_COLUMNS, check_input
from sight.apps.fleet.shard import INVALID, LATE, PREDICTED, Rows, advance, output_columns
from sight.apps.stream.interrupts import StopOnSignal

OUTPUT_SCHEMA = "wearer string, window long, time_s double, class string, q array<float>, surprise float, model string"
#: File descriptor of standard error.
STDERR = 2
#: Statuses counted in every trigger.
STATUSES = (PREDICTED, LATE, INVALID, "carried", "reset")


@dataclass(frozen=True, kw_only=True)
class JobConfig:
    """Folders, triggers and Spark configuration of a fleet.

    The output folder contains ``predictions``, ``checkpoint``, ``progress.jsonl`` and ``spark.log``.
    """

    rows: str  # folder of arriving files
    out: str
    file_format: str = "parquet"  # or "json"
    partitions: int = 4  # tasks in every trigger; fixed for a checkpoint
    every_s: float | None = None  # between triggers; None processes what has arrived and stops
    files_per_trigger: int | None = None
    spark: Mapping[str, str] = field(default_factory=dict)  # overrides the default configuration

    def __post_init__(self) -> None:
        if self.file_format not in ("parquet", "json"):
            raise ValueError(f"Expected files of format parquet or json, got {self.file_format!r}.")
        if self.partitions < 1:
            raise ValueError(f"Expected at least one partition, got {self.partitions}.")


class ShardProcessor:
    """Stateful processor that Spark calls for each shard of a trigger; the state is one value of bytes.

    It has the methods of ``pyspark.sql.streaming.StatefulProcessor`` but does not inherit from it, so that this module
    can be imported without Spark.
    """

    def __init__(self, options: FleetOptions) -> None:
        self._options = options

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("shard", "shard binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timer_values: Any) -> Iterator[Any]:  # noqa: ARG002
        import pandas as pd

        model = load_fleet_model(self._options)
        frame = pd.concat(rows, ignore_index=True)
        stored = self._state.get()
        shard, transition = (
            shard_state.unpack(bytes(stored[0]), model) if stored else (shard_state.empty(model), "same")
        )
        # A new model gives one row for each wearer of the shard, to be counted and then dropped.
        wearers = [] if transition == "same" else list(shard.wearers)
        number, time_s = (array[: len(wearers)].copy() for array in (shard.number, shard.time_s))
        markers = output_columns(wearers, number, time_s, [transition] * len(wearers), model)
        tables = [markers, *advance(shard, _rows(frame, self._options), model)]
        self._state.update((shard_state.pack(shard, model),))
        return iter([pd.DataFrame(columns) for columns in tables if len(columns["wearer"])])

    def handleExpiredTimer(self, *_: Any, **__: Any) -> Iterator[Any]:
        return iter(())

    def close(self) -> None:
        pass


def _rows(frame: Any, options: FleetOptions) -> Rows:
    return Rows(
        wearer=frame["wearer"].to_numpy(object),
        number=frame["window"].fillna(-1).to_numpy(np.int64),
        time_s=frame["time_s"].to_numpy(np.float64),
        values={name: frame[name].tolist() for name in VALUE_COLUMNS[options.kind]},
    )


def spark_session(config: JobConfig) -> Any:
    """Return a Spark session whose state store writes changes instead of whole states."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need this environment, not the system's
    defaults = {
        "spark.master": "local[*]",
        "spark.app.name": "sight fleet",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(config.partitions),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Every shard changes in every trigger, so each retained version costs another copy of the whole state.
        "spark.sql.streaming.minBatchesToRetain": "3",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    options = defaults | dict(config.spark)
    if options["spark.master"].startswith("local"):
        local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
        options = local | options
    builder = SparkSession.builder
    for key, value in options.items():
        builder = builder.config(key, value)
    with _stderr_to_log(config):
        return builder.getOrCreate()


@contextmanager
def _stderr_to_log(config: JobConfig) -> Iterator[None]:
    """Let Java and its workers, which inherit standard error, write to ``spark.log`` instead of the terminal."""
    if "://" in config.out:
        yield
        return
    sys.stderr.flush()
    terminal = os.dup(STDERR)
    with (Path(config.out) / "spark.log").open("ab") as log:
        os.dup2(log.fileno(), STDERR)
    try:
        yield
    finally:
        os.dup2(terminal, STDERR)
        os.close(terminal)


def start(spark: Any, options: FleetOptions, config: JobConfig) -> Any:
    """Start the streaming query; it resumes from the checkpoint in the output folder if there is one."""
    from pyspark.sql import functions as f

    values = ", ".join(f"{name} array<float>" for name in VALUE_COLUMNS[options.kind])
    reader = spark.readStream.format(config.file_format)
    reader = reader.schema(f"wearer string, window long, time_s double, {values}")
    if config.files_per_trigger:
        reader = reader.option("maxFilesPerTrigger", config.files_per_trigger)
    # crc32 is the same in every language and version, so senders can compute the shard too.
    shard = f.crc32(f.coalesce("wearer", f.lit("")).cast("binary")) % f.lit(options.shards)
    predictions = (
        reader.load(config.rows)
        .withColumn("shard", shard.cast("int"))
        .groupBy("shard")
        .transformWithStateInPandas(ShardProcessor(options), f"{OUTPUT_SCHEMA}, status string", "Append", "None")
        .observe("fleet", *(f.count_if(f.col("status") == name).alias(name) for name in STATUSES))
        .where(f.col("status") == PREDICTED)
        .drop("status")
    )
    writer = predictions.writeStream.format("parquet").outputMode("append")
    writer = writer.option("path", f"{config.out}/predictions").option("checkpointLocation", f"{config.out}/checkpoint")
    trigger = {"availableNow": True} if config.every_s is None else {"processingTime": f"{config.every_s} seconds"}
    return writer.trigger(**trigger).start()


def run(
    options: FleetOptions, config: JobConfig, on_trigger: Callable[[dict[str, Any]], None] | None = None
) -> dict[str, int]:
    """Run a fleet until all rows are processed or it is stopped; return the number of rows by status.

    `on_trigger` is called with the facts of each finished trigger, which are also written to ``progress.jsonl`` in a
    local output folder. Raises KeyboardInterrupt after Ctrl-C or SIGTERM, once Spark has stopped; a later run with the
    same output folder resumes.
    """
    load_fleet_model(options)  # raises errors in model, hyper-parameters and files before Spark starts
    check_input(config.rows, config.out, kind=options.kind, file_format=config.file_format)
    from pyspark.errors import PySparkException

    total = dict.fromkeys(STATUSES, 0)
    try:
        # An exception inside a call of Java breaks its connection, so a signal only ends the loop. The handler is set
        # after that of the session.
        with spark_session(config) as spark, StopOnSignal() as stop:
            for facts in finished_triggers(start(spark, options, config), stop):
                total = {name: total[name] + facts[name] for name in STATUSES}
                _append_progress(config, facts)
                if on_trigger is not None:
                    on_trigger(facts)
    except PySparkException as error:
        details = "" if "://" in config.out else f" (details: {config.out}/spark.log)"
        raise ChildProcessError(f"The stream stopped: {error_reason(str(error))}{details}") from error
    if stop.requested:
        raise KeyboardInterrupt
    return total


def finished_triggers(query: Any, stop: StopOnSignal) -> Iterator[dict[str, Any]]:
    """Yield the facts of each finished trigger that had rows, until the query ends or a signal arrives."""
    latest, running = -1, True
    while running and not stop.requested:
        running = not query.awaitTermination(1)
        for progress in [p for p in query.recentProgress if p["batchId"] > latest and p["numInputRows"]]:
            latest = progress["batchId"]
            yield trigger_facts(progress)


def error_reason(text: str) -> str:
    r"""Return the message of the last Python error in a Spark error, or its first line.

    >>> error_reason("[STREAM_FAILED] Query ...\n  File x, line 3\nValueError: The file is damaged.\n=== Plan ===")
    'The file is damaged.'
    >>> error_reason("[PATH_NOT_FOUND] There is no such path.\nmore")
    '[PATH_NOT_FOUND] There is no such path.'
    """
    messages = re.findall(r"^(?:\w+\.)*\w*Error: (.+)$", text, re.MULTILINE)
    return str(messages[-1]) if messages else text.partition("\n")[0]


def trigger_facts(progress: Any) -> dict[str, Any]:
    counts = progress["observedMetrics"].get("fleet")
    states = progress["stateOperators"]
    return {
        "batch": progress["batchId"],
        "rows": progress["numInputRows"],
        **{name: 0 if counts is None else int(counts[name]) for name in STATUSES},
        "trigger_ms": progress["durationMs"]["triggerExecution"],
        "batch_ms": progress["durationMs"].get("addBatch", 0),
        "update_task_ms": sum(state["allUpdatesTimeMs"] for state in states),
        "commit_task_ms": sum(state["commitTimeMs"] for state in states),
        "shards": sum(state["numRowsTotal"] for state in states),
        "state_memory_bytes": sum(state["memoryUsedBytes"] for state in states),
    }


def _append_progress(config: JobConfig, facts: Mapping[str, Any]) -> None:
    if "://" not in config.out:
        with (Path(config.out) / "progress.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(facts) + "\n")
