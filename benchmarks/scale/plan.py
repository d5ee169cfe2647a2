"""From what was measured to sizes nobody has here: 100,000 recordings, ten million live wearers.

Run as ``python benchmarks/scale/plan.py simulate`` to rerun the simulations, which go to ``docs/scale.svg`` and
``benchmarks/results/scale/simulation.json``, and as ``python benchmarks/scale/plan.py write`` to write the tables of
``docs/scale.md`` anew from all results. Prices and limits that were not measured are the fields of `Assumed`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from simulation import NO_FAULTS, Cell, Cohort, Faults, batch, live, most_wearers

from sight.atomic import write_atomic, write_json

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
SIMULATED = RESULTS / "scale" / "simulation.json"
PAGE, FIGURE = ROOT / "docs" / "scale.md", ROOT / "docs" / "scale.svg"

RECORDINGS, DAYS, WEARERS = 100_000, 7, 10_000_000
WINDOW_S = 10.0
TRIGGERS_S = (10, 60, 300)


@dataclass(frozen=True, kw_only=True)
class Assumed:
    """What the plan takes for granted; change a line and write the page again."""

    core_hour_usd: float = 0.04  # a core with 4 GB of memory, rented by the hour
    disk_gb_month_usd: float = 0.02  # object storage
    network_gb_usd: float = 0.0  # traffic that arrives
    core_memory_gb: float = 1.0  # of Spark and Python, for each core
    state_copies: float = 3.0  # of the state in memory: store, caches, the shard at work
    busy_share: float = 0.5  # of the cores, so that restarts can catch up
    wearers_per_cell: int = 500_000  # one stream: a driver, a checkpoint, an output
    checkpoint_gb_per_s: float = 1.0  # that one stream can write to shared storage
    shard_mb: float = 32.0  # of state in one value of the store
    listed_files_per_s: float = 10_000.0  # of an input folder on shared storage
    week_file_gb: float = 0.25  # a 7-day recording of three axes at 100 Hz
    week_memory_gb: float = 2.5  # while one is read, from the reader's own measurement
    week_read_s: float = 6.0  # to read one
    storage_gb_per_s: float = 5.0  # that all workers of a cohort can read together


ASSUMED = Assumed()


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What the results say one unit of work costs."""

    window_core_s: float  # of the stream, features in
    trigger_fixed_s: float
    restart_s: float
    state_bytes: float  # of a wearer
    input_bytes: float  # of a window
    answer_bytes: float
    encode_s: float  # of a 10 s window on one core
    day_s: float  # of a recording, on one worker with a model at 10 Hz
    day_basis: str

    @property
    def week_s(self) -> float:
        """Time of a worker for a week, with a network on 100 Hz: reading and writing as measured, and its windows."""
        return DAYS * (self.day_s + 86400 / WINDOW_S * self.encode_s)


def measured(folder: Path = RESULTS) -> Costs:
    """Read the costs out of the results."""
    fleet = json.loads((folder / "scale" / "fleet.json").read_text("utf-8"))
    speed = json.loads((folder / "speed.json").read_text("utf-8"))
    small, cores = fleet["small"], fleet["cores"]
    window_core_s = cores * (fleet["batch_s"] - small["batch_s"]) / (fleet["wearers"] - small["wearers"])
    if not window_core_s > 0:
        raise ValueError(
            "fleet.json: more wearers took less time, so it was measured on a busy machine; measure again."
        )
    day_s, basis = day_of_recording(folder)
    return Costs(
        window_core_s=window_core_s,
        trigger_fixed_s=max(fleet["trigger_s"] - window_core_s * fleet["wearers"] / cores, 0.0),
        restart_s=fleet["first_trigger_s"],
        state_bytes=fleet["state_bytes"] / fleet["wearers"],
        input_bytes=fleet["input_bytes_per_window"],
        answer_bytes=fleet["answer_bytes_per_window"],
        encode_s=speed["shapes"]["capture24"]["steps_ms"]["SIGHT on onnx"] / 1000,
        day_s=day_s,
        day_basis=basis,
    )


def day_of_recording(folder: Path) -> tuple[float, str]:
    """Seconds that one worker spends on 24 hours of recording, and where the figure comes from."""
    path = folder / "scale" / "cohort.json"
    if not path.is_file():
        return ASSUMED.week_read_s / DAYS, "reading alone, assumed"
    cohort = json.loads(path.read_text("utf-8"))
    return cohort["seconds_per_recording_and_core"] * 24 / cohort["recording"][
        "hours"
    ], "`sight cohort`, model at 10 Hz"


# --- simulation ---------------------------------------------------------------------------------------------------


def simulate(costs: Costs) -> dict[str, Any]:
    """Run both simulations over the sizes that the page shows."""
    faults = Faults(restart_s=max(costs.restart_s, 30.0))
    cell = Cell(wearers=1, core_s_per_window=costs.window_core_s, fixed_s=costs.trigger_fixed_s)
    loads = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    curves = []
    for trigger_s in TRIGGERS_S[:2]:
        for name, wrong in (("no faults", NO_FAULTS), ("faults", faults)):
            points = []
            for load in loads:
                wearers = int(load * cell.cores * cell.window_s / cell.core_s_per_window)
                made = Cell(**vars(cell) | {"wearers": wearers, "trigger_s": trigger_s})
                points.append({"wearers": wearers, **live(made, wrong)})
            curves.append({"trigger_s": trigger_s, "faults": name, "points": points})
    limits = []
    for trigger_s in TRIGGERS_S[:2]:
        made = Cell(**vars(cell) | {"trigger_s": trigger_s})
        held = most_wearers(made, faults, age_s=3 * trigger_s)
        limits.append({"trigger_s": trigger_s, "cores": cell.cores, "wearers": held})
    cohorts = [
        {"nodes": nodes, "deaths_per_core_day": deaths}
        | batch(
            Cohort(seconds_each=costs.week_s, memory_gb=ASSUMED.week_memory_gb, nodes=nodes),
            Faults(deaths_per_core_day=deaths, restart_s=faults.restart_s),
        )
        for deaths in (0.0, 1.0, 24.0)
        for nodes in (1, 2, 4, 8, 16, 32, 64, 128)
    ]
    return {"faults": vars(faults), "costs": vars(costs), "live": curves, "limits": limits, "cohort": cohorts}


# --- tables --------------------------------------------------------------------------------------------------------


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Write a table of the page; the first row gives the head."""
    columns = head.split(" | ")
    lines = [f"| {head} |", "|" + "---|" * len(columns), *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


def big(value: float) -> str:
    """Write a number as people read it, to three digits.

    Examples
    --------
    >>> big(1234567), big(0.01234), big(42)
    ('1,230,000', '0.0123', '42')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 or rounded == int(rounded) else f"{rounded:g}"


def measured_table(costs: Costs) -> str:
    """Tell what one unit costs."""
    rows = [
        ("a window through the stream, features in", f"{big(1e6 * costs.window_core_s)} µs of a core"),
        ("a trigger, whatever it holds", f"{big(costs.trigger_fixed_s)} s"),
        ("the first trigger after a start", f"{big(costs.restart_s)} s"),
        ("state of a wearer (SIGHT, K = 6, D = 128)", f"{big(costs.state_bytes)} bytes"),
        ("a window of features as it arrives", f"{big(costs.input_bytes)} bytes"),
        ("an answer as it is stored", f"{big(costs.answer_bytes)} bytes"),
        ("encoding and adapting a window of 10 s at 100 Hz", f"{big(1e3 * costs.encode_s)} ms of a core"),
        (f"24 h of recording ({costs.day_basis})", f"{big(costs.day_s)} s of a worker"),
    ]
    return table("what | cost", rows)


def cohort_table(costs: Costs) -> str:
    """100,000 week-long recordings."""
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
    """Name, core-seconds of a window, state of a wearer and bytes of a window in, for each way to run a fleet."""
    keel = 8 * (4 * 6 + 8)
    yield "features in, SIGHT", costs.window_core_s, costs.state_bytes, costs.input_bytes
    yield "features in, keel", costs.window_core_s, keel, costs.input_bytes
    raw = 3 * 100 * WINDOW_S * 4
    yield "raw windows in, keel", costs.window_core_s + costs.encode_s, keel, raw


def fleet_table(costs: Costs) -> str:
    """Ten million live wearers."""
    rows = []
    per_s, month_s, cells = WEARERS / WINDOW_S, 86400 * 30, WEARERS / ASSUMED.wearers_per_cell
    for name, core_s, state, arriving in variants(costs):
        cores = per_s * core_s / ASSUMED.busy_share
        memory_gb = cores * ASSUMED.core_memory_gb + ASSUMED.state_copies * WEARERS * state / 1e9
        answers_gb = per_s * month_s * costs.answer_bytes / 1e9
        monthly = cores * 720 * ASSUMED.core_hour_usd + answers_gb * ASSUMED.disk_gb_month_usd
        monthly += per_s * month_s * arriving / 1e9 * ASSUMED.network_gb_usd
        rows.append(
            (
                name, big(cores), big(cores / cells), f"{big(WEARERS * state / 1e9)} GB", f"{big(memory_gb)} GB",
                f"{big(per_s * arriving / 1e9)} GB/s", f"{big(answers_gb / 30 / 1000)} TB", f"{big(monthly)} USD",
            )
        )  # fmt: skip
    return table("way | cores | cores a cell | state | memory | network in | answers a day | a month", rows)


def checkpoint_table(costs: Costs) -> str:
    """State written in every trigger, by how often triggers are."""
    rows = []
    cells = WEARERS / ASSUMED.wearers_per_cell
    for name, _, state, _ in list(variants(costs))[:2]:
        for trigger_s in TRIGGERS_S:
            each = ASSUMED.wearers_per_cell * state / trigger_s / 1e6
            most = ASSUMED.checkpoint_gb_per_s * 1e9 * trigger_s / state
            rows.append((name, f"{trigger_s} s", f"{big(each)} MB/s", f"{big(cells * each)} MB/s", big(most)))
    return table("way | trigger | a cell writes | all cells | wearers until one stream is full", rows)


def breaks_table(costs: Costs, found: dict[str, Any]) -> str:
    """Tell what gives way, and at which size."""
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
    return table("what | breaks at | then", rows)


def live_table(found: dict[str, Any]) -> str:
    """Age of answers by load."""
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
    return table("trigger | | load | wearers | median age | 99 % under | longest trigger", rows)


def batch_table(found: dict[str, Any]) -> str:
    """Hours of a cohort by machines and deaths."""
    rows = [
        (
            str(row["nodes"]), big(row["workers"]), f"{row['deaths_per_core_day']:g}", big(row["hours"]),
            big(row["deaths"]), f"{row['lost_share']:.2%}", f"{row['efficiency']:.1%}",
        )
        for row in found["cohort"]
        if row["nodes"] in (1, 8, 64, 128)
    ]  # fmt: skip
    return table("machines | workers | deaths a core and day | hours | deaths | work lost | efficiency", rows)


def assumed_table() -> str:
    """Every figure that was not measured here."""
    comments = re.findall(r"^    (\w+): \w+ = \S+  # (.*)$", Path(__file__).read_text("utf-8"), re.MULTILINE)
    told = dict(comments)
    return table(
        "assumed | value | meaning",
        ((f"`{one.name}`", f"{getattr(ASSUMED, one.name):,g}", told[one.name]) for one in fields(ASSUMED)),
    )


def page(text: str, costs: Costs, found: dict[str, Any]) -> str:
    """Put current tables between the markers of the page."""
    tables = {
        "measured": measured_table(costs),
        "cohort": cohort_table(costs),
        "fleet": fleet_table(costs),
        "checkpoint": checkpoint_table(costs),
        "breaks": breaks_table(costs, found),
        "live": live_table(found),
        "batch": batch_table(found),
        "assumed": assumed_table(),
    }
    for name, content in tables.items():
        pattern = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"{PAGE.name} has no place for the table {name}; add <!-- table {name} --><!-- end -->.")
        text = pattern.sub(lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text)
    return text


def main(words: list[str]) -> None:
    """Simulate, or write the page."""
    if words == ["simulate"]:
        from figure import draw

        found = simulate(measured())
        write_json(SIMULATED, found)
        write_atomic(FIGURE, draw(found).encode())
        print(f"wrote {SIMULATED.relative_to(ROOT)} and {FIGURE.relative_to(ROOT)}")
    elif words == ["write"]:
        found = json.loads(SIMULATED.read_text("utf-8"))
        write_atomic(PAGE, page(PAGE.read_text("utf-8"), measured(), found).encode())
        print(f"wrote {PAGE.relative_to(ROOT)}")
    else:
        raise SystemExit("Expected one word, simulate or write.")


if __name__ == "__main__":
    main(sys.argv[1:])
