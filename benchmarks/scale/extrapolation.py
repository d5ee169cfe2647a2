"""Extrapolation from measured costs to 100,000 recordings and ten million live wearers.

Run as ``python -m benchmarks.scale.extrapolation`` to rerun the simulations, which are written to ``docs/scale.svg``
and ``benchmarks/results/scale/simulation.json``. ``make docs`` writes the tables of ``docs/scale.md`` from all results.
Prices and limits that were not measured are the fields of `Assumed`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from benchmarks.scale.simulation import NO_FAULTS, Cell, Cohort, Faults, batch, live, most_wearers
from benchmarks.version_and_date import version_and_date
from tools.result_files import RESULTS, read_json

from sight._util.atomic import write_atomic, write_json

ROOT = Path(__file__).resolve().parents[2]
SIMULATED = RESULTS / "scale" / "simulation.json"
FIGURE = ROOT / "docs" / "scale.svg"

RECORDINGS, DAYS, WEARERS = 100_000, 7, 10_000_000
WINDOW_S = 10.0
TRIGGERS_S = (10, 60, 300)


@dataclass(frozen=True, kw_only=True)
class Assumed:
    """Assumptions; after a change, run this script and ``make docs``."""

    core_hour_usd: float = 0.04  # a core with 4 GB of memory, rented by the hour
    disk_gb_month_usd: float = 0.02  # object storage
    network_gb_usd: float = 0.0  # incoming traffic
    core_memory_gb: float = 1.0  # memory of Spark and Python per core
    state_copies: float = 3.0  # copies of the state in memory: store, caches, the shard being processed
    busy_share: float = 0.5  # share of the cores' time in use, so that restarts can catch up
    wearers_per_cell: int = 500_000  # one stream: a driver, a checkpoint, an output
    checkpoint_gb_per_s: float = 1.0  # write rate of one stream to shared storage
    shard_mb: float = 32.0  # largest value of the state store
    listed_files_per_s: float = 10_000.0  # listing rate of an input folder on shared storage
    week_file_gb: float = 0.25  # a 7-day recording of three axes at 100 Hz
    week_memory_gb: float = 2.5  # memory while one is read, measured by the reader
    week_read_s: float = 6.0  # time to read one
    storage_gb_per_s: float = 5.0  # read rate of all workers of a cohort together


ASSUMED = Assumed()


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Measured cost of one unit of work."""

    window_core_s: float  # of the stream, features in
    trigger_fixed_s: float
    restart_s: float
    state_bytes: float  # of a wearer
    input_bytes: float  # of a window
    prediction_bytes: float
    encode_s: float  # of a 10 s window on one core
    day_s: float  # of a recording, on one worker with a model at 10 Hz
    day_basis: str

    @property
    def week_s(self) -> float:
        """Time of a worker for a week with a network on 100 Hz: reading and writing as measured, plus its windows."""
        return DAYS * (self.day_s + 86400 / WINDOW_S * self.encode_s)


def measured(folder: Path = RESULTS) -> Costs:
    """Return the costs from the result files."""
    fleet, speed = read_json(folder / "scale" / "fleet.json"), read_json(folder / "speed.json")
    small, cores = fleet["small"], fleet["cores"]
    window_core_s = cores * (fleet["batch_s"] - small["batch_s"]) / (fleet["wearers"] - small["wearers"])
    if not window_core_s > 0:
        raise ValueError(
            "fleet.json: more wearers took less time, so the machine was busy while it was measured; measure again."
        )
    day_s, basis = day_of_recording(folder)
    return Costs(
        window_core_s=window_core_s,
        trigger_fixed_s=max(fleet["trigger_s"] - window_core_s * fleet["wearers"] / cores, 0.0),
        restart_s=fleet["first_trigger_s"],
        state_bytes=fleet["state_bytes"] / fleet["wearers"],
        input_bytes=fleet["input_bytes_per_window"],
        prediction_bytes=fleet["prediction_bytes_per_window"],
        encode_s=speed["shapes"]["capture24"]["steps_ms"]["SIGHT on onnx"] / 1000,
        day_s=day_s,
        day_basis=basis,
    )


def day_of_recording(folder: Path) -> tuple[float, str]:
    """Return the seconds that one worker needs for 24 hours of recording, and the origin of the figure."""
    path = folder / "scale" / "cohort.json"
    if not path.is_file():
        return ASSUMED.week_read_s / DAYS, "reading alone, assumed"
    cohort = read_json(path)
    day_s = cohort["seconds_per_recording_and_core"] * 24 / cohort["recording"]["hours"]
    return day_s, "`sight cohort`, model at 10 Hz"


# --- simulation ---------------------------------------------------------------------------------------------------


def simulate(costs: Costs) -> dict[str, Any]:
    """Run both simulations over the sizes that the page shows."""
    faults = Faults(restart_s=max(costs.restart_s, 30.0))
    cell = Cell(wearers=1, core_s_per_window=costs.window_core_s, fixed_s=costs.trigger_fixed_s)
    loads = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    curves = []
    for trigger_s in TRIGGERS_S[:2]:
        for name, assumed in (("no faults", NO_FAULTS), ("faults", faults)):
            points = []
            for load in loads:
                wearers = int(load * cell.cores * cell.window_s / cell.core_s_per_window)
                loaded = replace(cell, wearers=wearers, trigger_s=trigger_s)
                points.append({"wearers": wearers, **live(loaded, assumed)})
            curves.append({"trigger_s": trigger_s, "faults": name, "points": points})
    limits = []
    for trigger_s in TRIGGERS_S[:2]:
        wearers = most_wearers(replace(cell, trigger_s=trigger_s), faults, age_s=3 * trigger_s)
        limits.append({"trigger_s": trigger_s, "cores": cell.cores, "wearers": wearers})
    cohorts = [
        {"nodes": nodes, "failures_per_core_day": failures}
        | batch(
            Cohort(seconds_each=costs.week_s, memory_gb=ASSUMED.week_memory_gb, nodes=nodes),
            Faults(failures_per_core_day=failures, restart_s=faults.restart_s),
        )
        for failures in (0.0, 1.0, 24.0)
        for nodes in (1, 2, 4, 8, 16, 32, 64, 128)
    ]
    found = {"faults": vars(faults), "costs": vars(costs), "live": curves, "limits": limits, "cohort": cohorts}
    return version_and_date() | found


def simulated() -> dict[str, Any]:
    """Return the committed results of the simulations."""
    return read_json(SIMULATED)


# --- tables --------------------------------------------------------------------------------------------------------


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; `head` contains the column names."""
    columns = head.split(" | ")
    lines = [f"| {head} |", "|" + "---|" * len(columns), *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


def big(value: float) -> str:
    """Format a number with three significant digits.

    Examples
    --------
    >>> big(1234567), big(0.01234), big(42)
    ('1,230,000', '0.0123', '42')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 or rounded == int(rounded) else f"{rounded:g}"


def measured_table(costs: Costs) -> str:
    """Return the measured costs."""
    rows = [
        ("a window through the stream, features in", f"{big(1e6 * costs.window_core_s)} µs of a core"),
        ("a trigger, fixed cost", f"{big(costs.trigger_fixed_s)} s"),
        ("the first trigger after a start", f"{big(costs.restart_s)} s"),
        ("state of a wearer (SIGHT, K = 6, D = 128)", f"{big(costs.state_bytes)} bytes"),
        ("a window of features, input", f"{big(costs.input_bytes)} bytes"),
        ("a prediction, output", f"{big(costs.prediction_bytes)} bytes"),
        ("encoding and adapting a window of 10 s at 100 Hz", f"{big(1e3 * costs.encode_s)} ms of a core"),
        (f"24 h of recording ({costs.day_basis})", f"{big(costs.day_s)} s of a worker"),
    ]
    return table("what | cost", rows)


def cohort_table(costs: Costs) -> str:
    """Return the cost of 100,000 week-long recordings."""
    both = (costs.day_s * DAYS, costs.week_s)
    hours = [RECORDINGS * week_s / 3600 for week_s in both]
    windows = RECORDINGS * DAYS * 86400 / WINDOW_S
    rows = [
        ("one recording, time of a worker", *(f"{big(week_s)} s" for week_s in both)),
        ("all of them", *(f"{big(hour)} core-hours" for hour in hours)),
        ("on one machine of 2 cores", *(f"{big(hour / 2 / 24)} days" for hour in hours)),
        ("on 8 machines of 16 cores", *(f"{big(hour / 128)} hours" for hour in hours)),
        ("price of the cores", *(f"{big(hour * ASSUMED.core_hour_usd)} USD" for hour in hours)),
        ("memory of a worker", *2 * (f"{ASSUMED.week_memory_gb:g} GB",)),
        ("read from storage", *2 * (f"{big(RECORDINGS * ASSUMED.week_file_gb / 1000)} TB",)),
        ("windows written", *2 * (big(windows),)),
    ]
    return table(f"100,000 recordings of a week | {costs.day_basis} | and CAPTURE-24's network on 100 Hz", rows)


def variants(costs: Costs) -> Iterator[tuple[str, float, float, float]]:
    """Yield name, core-seconds per window, state bytes per wearer and input bytes per window of each configuration."""
    keel = 8 * (4 * 6 + 8)
    yield "features in, SIGHT", costs.window_core_s, costs.state_bytes, costs.input_bytes
    yield "features in, keel", costs.window_core_s, keel, costs.input_bytes
    raw = 3 * 100 * WINDOW_S * 4
    yield "raw windows in, keel", costs.window_core_s + costs.encode_s, keel, raw


def fleet_table(costs: Costs) -> str:
    """Return the cost of ten million live wearers."""
    rows = []
    per_s, month_s, cells = WEARERS / WINDOW_S, 86400 * 30, WEARERS / ASSUMED.wearers_per_cell
    for name, core_s, state, arriving in variants(costs):
        cores = per_s * core_s / ASSUMED.busy_share
        memory_gb = cores * ASSUMED.core_memory_gb + ASSUMED.state_copies * WEARERS * state / 1e9
        output_gb = per_s * month_s * costs.prediction_bytes / 1e9
        monthly = cores * 720 * ASSUMED.core_hour_usd + output_gb * ASSUMED.disk_gb_month_usd
        monthly += per_s * month_s * arriving / 1e9 * ASSUMED.network_gb_usd
        rows.append(
            (
                name, big(cores), big(cores / cells), f"{big(WEARERS * state / 1e9)} GB", f"{big(memory_gb)} GB",
                f"{big(per_s * arriving / 1e9)} GB/s", f"{big(output_gb / 30 / 1000)} TB", f"{big(monthly)} USD",
            )
        )  # fmt: skip
    return table(
        "configuration | cores | cores per cell | state | memory | network in | predictions per day | per month", rows
    )


def checkpoint_table(costs: Costs) -> str:
    """Return the rate at which state is written, by trigger interval."""
    rows = []
    cells = WEARERS / ASSUMED.wearers_per_cell
    for name, _, state, _ in list(variants(costs))[:2]:
        for trigger_s in TRIGGERS_S:
            each = ASSUMED.wearers_per_cell * state / trigger_s / 1e6
            most = ASSUMED.checkpoint_gb_per_s * 1e9 * trigger_s / state
            rows.append((name, f"{trigger_s} s", f"{big(each)} MB/s", f"{big(cells * each)} MB/s", big(most)))
    return table("configuration | trigger | one cell writes | all cells | wearers at the limit of one stream", rows)


def limits_table(costs: Costs, found: dict[str, Any]) -> str:
    """Return the limits of each resource."""
    limit = {entry["trigger_s"]: entry["wearers"] for entry in found["limits"]}
    shard = 1e6 * ASSUMED.shard_mb / costs.state_bytes
    files = ASSUMED.listed_files_per_s * TRIGGERS_S[0]
    readers = ASSUMED.storage_gb_per_s / (ASSUMED.week_file_gb / costs.week_s)
    remedy = f"more cores, or {'triggers of 60 s' if limit[60] > limit[10] else 'another cell'}"
    rows = [
        ("cores of a 16-core stream, triggers of 10 s", f"{big(limit[10])} wearers", remedy),
        ("the same, triggers of 60 s", f"{big(limit[60])} wearers", "another cell"),
        ("one value of the state store", f"{big(shard)} wearers in a shard", "more shards, decided before the start"),
        ("listing the input folder inside a trigger", f"{big(files)} files kept", "a message log instead of a folder"),
        (
            "checkpoint of one stream, SIGHT, triggers of 10 s",
            f"{big(ASSUMED.checkpoint_gb_per_s * 1e10 / costs.state_bytes)} wearers",
            "triggers of 60 s, keel, or another cell",
        ),
        ("storage that a cohort reads from", f"{big(readers)} workers", "copy to the machines' own disks first"),
    ]
    return table("resource | limit | remedy", rows)


def live_table(found: dict[str, Any]) -> str:
    """Return the age of predictions by load."""
    rows = []
    for curve in found["live"]:
        for point in curve["points"]:
            if round(point["load"], 1) in (0.2, 0.5, 0.8, 0.9):
                rows.append(
                    (
                        f"{curve['trigger_s']} s", curve["faults"], f"{point['load']:.0%}", big(point["wearers"]),
                        f"{big(point['age_median_s'])} s", f"{big(point['age_99_s'])} s",
                        f"{big(point['trigger_worst_s'])} s",
                    )
                )  # fmt: skip
    return table("trigger | faults | load | wearers | median age | 99 % under | longest trigger", rows)


def batch_table(found: dict[str, Any]) -> str:
    """Return the hours of a cohort by machines and failures."""
    rows = [
        (
            str(row["nodes"]), big(row["workers"]), f"{row['failures_per_core_day']:g}", big(row["hours"]),
            big(row["failures"]), f"{row['lost_share']:.2%}", f"{row['efficiency']:.1%}",
        )
        for row in found["cohort"]
        if row["nodes"] in (1, 8, 64, 128)
    ]  # fmt: skip
    return table("machines | workers | failures per core and day | hours | failures | work lost | efficiency", rows)


def assumed_table() -> str:
    """Return the assumptions; their meaning is the comment beside each field."""
    comments = re.findall(r"^    (\w+): \w+ = \S+  # (.*)$", Path(__file__).read_text("utf-8"), re.MULTILINE)
    meaning = dict(comments)
    return table(
        "assumed | value | meaning",
        ((f"`{own.name}`", f"{getattr(ASSUMED, own.name):,g}", meaning[own.name]) for own in fields(ASSUMED)),
    )


#: Tables of docs/scale.md; each reads only the results that it shows.
TABLES: dict[str, Callable[[], str]] = {
    "measured": lambda: measured_table(measured()),
    "cohort": lambda: cohort_table(measured()),
    "fleet": lambda: fleet_table(measured()),
    "checkpoint": lambda: checkpoint_table(measured()),
    "limits": lambda: limits_table(measured(), simulated()),
    "live": lambda: live_table(simulated()),
    "batch": lambda: batch_table(simulated()),
    "assumed": assumed_table,
}


def main() -> None:
    """Run the simulations, and write results and figure."""
    from benchmarks.scale.figure import draw

    found = simulate(measured())
    write_json(SIMULATED, found)
    write_atomic(FIGURE, draw(found).encode())
    print(f"wrote {SIMULATED.relative_to(ROOT)} and {FIGURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
