"""What the committed results of the load and of the kills say, as the table of docs/serve.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: What we set out to reach, on the machine that also sends: wearers, seconds, milliseconds, kills.
WEARERS, SECONDS, P99_MS, KILLS = 1000, 300, 500.0, 20
#: Memory is flat where the line through it rises by less than this share over the whole soak.
FLAT = 0.05
MISSING = "not measured yet"

Row = tuple[str, str, str, str]


def table(folder: Path) -> str:
    """A sentence on the machine, then goal, figure and verdict of each result; a missing one says so."""
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))}
    lines = [machine(found), "", "| what | goal | found | |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows(found)]
    return "\n".join([*lines, "", ""])


def judged(met: bool, enough: bool) -> str:
    """Give the verdict on a run, if it was as large as the goal wants it."""
    return ("met" if met else "**missed**") if enough else "a smaller run than the goal"


def machine(found: dict[str, Any]) -> str:
    """Where the load was measured."""
    told = [found[name] for name in ("load", "load_limit", "load_soak") if name in found]
    if not told:
        return f"The load is {MISSING}."
    first = told[0]
    load = first.get("load_average_at_start")
    busy = "" if load is None else f", load average {load:g} before it began"
    return f"On {first['cores']} cores ({first['machine']}) that client and service share{busy}, {first['date']}:"


def rows(found: dict[str, Any]) -> Iterator[Row]:
    """Each result as a row of the table."""
    goal = f"{WEARERS:,} wearers for {SECONDS // 60} min, a window a second each"
    if (load := found.get("load")) is None:
        yield goal, f"p99 < {P99_MS:g} ms, nothing lost", MISSING, ""
    else:
        yield from _load(load)
    yield _limit(found.get("load_limit"))
    yield _soak(found.get("load_soak"))
    for store, also in (("sqlite", ""), ("redis", ", and one of Redis itself")):
        yield _kills(store, also, found.get(f"kills_{store}"))


def _load(load: dict[str, Any]) -> Iterator[Row]:
    enough = load["wearers"] >= WEARERS and load["seconds"] >= SECONDS
    what = f"{load['wearers']:,} wearers, a window a second each, {load['seconds'] / 60:g} min"
    shown = f"{load['p99_ms']:g} ms (median {load['p50_ms']:g}, slowest {load['p100_ms']:g})"
    yield f"{what}: latency, p99", f"< {P99_MS:g} ms", shown, judged(load["p99_ms"] < P99_MS, enough)
    wrong = wrongs(load)
    yield (
        "the same: windows lost, doubled or not kept",
        "0",
        f"{wrong} of {load['windows_expected']:,}",
        judged(not wrong, enough),
    )
    cores = f"{load['server_cores']:g} and {load['client_cores']:g} cores"
    yield (
        "the same: processor of service and client, memory of the service",
        "",
        f"{cores}, {load['rss_mb']['most']:g} MB",
        "",
    )


def wrongs(load: dict[str, Any]) -> int:
    """Count everything that went wrong with the windows of a run."""
    kinds = ("windows_lost", "windows_twice", "windows_not_kept", "chunks_unacknowledged", "errors")
    return sum(load[kind] for kind in kinds)


def _limit(limit: dict[str, Any] | None) -> Row:
    what = f"most wearers with p99 below {P99_MS:g} ms and nothing lost"
    if limit is None:
        return what, "", MISSING, ""
    last = limit["steps"][-1]
    beyond = f"p99 {last['p99_ms']:g} ms" + (f", {wrongs(last)} wrong" if wrongs(last) else "")
    return what, "", f"{limit['limit_wearers']:,}; at {last['wearers']:,}: {beyond}", ""


def _soak(soak: dict[str, Any] | None) -> Row:
    if soak is None:
        return f"memory over 20 min at {WEARERS // 10} wearers", "flat", MISSING, ""
    minutes, slope, end = soak["seconds"] / 60, soak["rss_slope_mb_per_hour"], soak["rss_mb"]["end"]
    what = f"memory over {minutes:g} min at {soak['wearers']:,} wearers"
    figure = f"{end:g} MB at the end, {slope:+g} MB an hour; {wrongs(soak)} windows wrong"
    flat = slope * minutes / 60 < FLAT * end
    verdict = judged(flat and not wrongs(soak), minutes >= 20)
    return what, f"flat (below {FLAT:.0%} over the run)", figure, verdict


def _kills(store: str, also: str, kills: dict[str, Any] | None) -> Row:
    name = {"sqlite": "SQLite", "redis": "Redis"}[store]
    if kills is None:
        return f"{KILLS} SIGKILLs of the service, {name}{also}", "every window once, to the last bit", MISSING, ""
    what = f"{kills['kills']} SIGKILLs of the service, {name}{also}"
    unsound = sum(sum(one["stored"].values()) + sum(one["acknowledged"].values()) for one in kills["wearers"])
    figure = f"{unsound + kills['chunks_unaccounted']} wrong of {kills['windows']:,}, {kills['repeated']} sent twice"
    return what, "every window once, to the last bit", figure, judged(kills["sound"], kills["kills"] >= KILLS)
