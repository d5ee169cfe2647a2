"""Tables of docs/serve.md: results of the load test and of the kill test, and where the time of a stride goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.result_files import read_json

#: Targets, on a machine that also runs the client: wearers, seconds, milliseconds, kills, milliseconds of one stride.
WEARERS, SECONDS, P99_MS, KILLS, STRIDE_MS = 1000, 300, 500.0, 20, 3.0
#: Memory is flat if the line fitted to it rises by less than this share over the whole soak test.
FLAT = 0.05
MISSING = "not measured yet"

#: Files behind the table of loads and kills; the latency has a table of its own.
FILES = ("load", "load_limit", "load_soak", "kills_sqlite", "kills_redis")

Row = tuple[str, str, str, str]


def table(folder: Path) -> str:
    """Return the machine, then target, figure and verdict of each result."""
    paths = {name: folder / f"{name}.json" for name in FILES}
    found = {name: read_json(path) for name, path in paths.items() if path.is_file()}
    lines = [machine(found), "", "| test | target | measured | |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows(found)]
    return "\n".join([*lines, "", ""])


def latency_table(folder: Path) -> str:
    """Return the machine, then the median of each stage for each version that was measured."""
    path = folder / "latency.json"
    if not path.is_file():
        return f"The latency is {MISSING}."
    found = read_json(path)
    names, medians = list(found["median_ms"]), found["median_ms"]
    now = medians["now"]["total"]
    heads = ["stage, median in ms", *names, "includes"]
    lines = [machine({"load": found}), "", f"| {' | '.join(heads)} |", "|---|" + "---|" * (len(names) + 1)]
    for stage, text in [
        *found["stages"].items(),
        ("total", f"target: at most {STRIDE_MS:g} ms, {verdict(now <= STRIDE_MS, True)}"),
    ]:
        lines.append(f"| {stage} | {' | '.join(f'{medians[name][stage]:.2f}' for name in names)} | {text} |")
    tails = " | ".join(f"{found['p95_ms'][name]['total']:.1f}" for name in names)
    return "\n".join([*lines, f"| total, 95 % of strides | {tails} | |", "", ""])


def verdict(met: bool, enough: bool) -> str:
    """Return whether the target is met, if the run was large enough."""
    return ("met" if met else "**missed**") if enough else "smaller run than the target"


def machine(found: dict[str, Any]) -> str:
    """Return where the load was measured."""
    runs = [found[name] for name in ("load", "load_limit", "load_soak") if name in found]
    if not runs:
        return f"The load is {MISSING}."
    first = runs[0]
    load = first.get("load_average_at_start")
    busy = "" if load is None else f", load average {load:g} at the start"
    return f"On {first['cores']} cores ({first['machine']}) shared by client and service{busy}:"


def rows(found: dict[str, Any]) -> Iterator[Row]:
    """Yield each result as a row of the table."""
    goal = f"{WEARERS:,} wearers for {SECONDS // 60} min, one window per second each"
    if (load := found.get("load")) is None:
        yield goal, f"p99 < {P99_MS:g} ms, nothing lost", MISSING, ""
    else:
        yield from _load(load)
    yield _limit(found.get("load_limit"))
    yield _soak(found.get("load_soak"))
    for store, also in (("sqlite", ""), ("redis", ", and one of Redis")):
        yield _kills(store, also, found.get(f"kills_{store}"))


def _load(load: dict[str, Any]) -> Iterator[Row]:
    enough = load["wearers"] >= WEARERS and load["seconds"] >= SECONDS
    what = f"{load['wearers']:,} wearers, one window per second each, {load['seconds'] / 60:g} min"
    shown = f"{load['p99_ms']:g} ms (median {load['p50_ms']:g}, slowest {load['p100_ms']:g})"
    yield f"{what}: latency, p99", f"< {P99_MS:g} ms", shown, verdict(load["p99_ms"] < P99_MS, enough)
    wrong = count_errors(load)
    yield (
        "the same: windows lost, duplicated or not stored",
        "0",
        f"{wrong} of {load['windows_expected']:,}",
        verdict(not wrong, enough),
    )
    cores = f"{load['server_cores']:g} and {load['client_cores']:g} cores"
    yield (
        "the same: processor use of service and client, memory of the service",
        "",
        f"{cores}, {load['rss_mb']['most']:g} MB",
        "",
    )


def count_errors(load: dict[str, Any]) -> int:
    """Count all errors in the windows of a run."""
    kinds = ("windows_lost", "windows_twice", "windows_not_kept", "chunks_unacknowledged", "errors")
    return sum(load[kind] for kind in kinds)


def _limit(limit: dict[str, Any] | None) -> Row:
    what = f"most wearers with p99 below {P99_MS:g} ms and nothing lost, in short steps of rising load"
    if limit is None:
        return what, "", MISSING, ""
    last = limit["steps"][-1]
    held = next((step for step in limit["steps"] if step["wearers"] == limit["limit_wearers"]), last)
    beyond = f"p99 {last['p99_ms']:g} ms" + (f", {count_errors(last)} errors" if count_errors(last) else "")
    return (
        what,
        "",
        f"{limit['limit_wearers']:,} for {held['seconds']:g} s (p99 {held['p99_ms']:g} ms); at {last['wearers']:,}: "
        f"{beyond}. Not a sustained load; the rows above are",
        "",
    )


def _soak(soak: dict[str, Any] | None) -> Row:
    if soak is None:
        return f"memory over 20 min at {WEARERS // 10} wearers", "flat", MISSING, ""
    minutes, slope, end = soak["seconds"] / 60, soak["rss_slope_mb_per_hour"], soak["rss_mb"]["end"]
    what = f"memory over {minutes:g} min at {soak['wearers']:,} wearers"
    figure = f"{end:g} MB at the end, {slope:+g} MB per hour; {count_errors(soak)} errors"
    flat = slope * minutes / 60 < FLAT * end
    outcome = verdict(flat and not count_errors(soak), minutes >= 20)
    return what, f"flat (below {FLAT:.0%} over the run)", figure, outcome


def _kills(store: str, also: str, kills: dict[str, Any] | None) -> Row:
    name = {"sqlite": "SQLite", "redis": "Redis"}[store]
    if kills is None:
        return f"{KILLS} SIGKILLs of the service, {name}{also}", "every window once, bit for bit", MISSING, ""
    what = f"{kills['kills']} SIGKILLs of the service, {name}{also}"
    wrong = sum(sum(own["stored"].values()) + sum(own["acknowledged"].values()) for own in kills["wearers"])
    figure = f"{wrong + kills['chunks_unaccounted']} wrong of {kills['windows']:,}, {kills['repeated']} sent twice"
    return what, "every window once, bit for bit", figure, verdict(kills["sound"], kills["kills"] >= KILLS)
