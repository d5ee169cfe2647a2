"""Tables of the figures of `sight.bench.speed`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sight.bench.experiments import SPELLING
from sight.bench.table_format import Cell, Table


def speed_tables(found: dict[str, Any]) -> Iterator[Table]:
    """Yield the tables: targets, then for each shape one window, the update alone and every method."""
    targets = []
    for line in found["targets"]:
        bound = "" if line["target"] is None else f"{'≥' if line['at_least'] else '≤'} {line['target']:g}"
        verdict = {True: "met", False: "**missed**", None: ""}[line["met"]]
        targets.append([line["what"], f"{line['value']:.3g}", bound, verdict])
    yield _table("targets", "Targets", ("figure", "value", "target", ""), targets)
    for name, shape in found["shapes"].items():
        size = f"{name} ({shape['channels']} x {shape['length']}, K = {shape['classes']})"
        steps = [[what, f"{value:.3f}"] for what, value in shape["steps_ms"].items()]
        yield _table(f"{name}-steps", f"{size}: one window", ("one window", "ms"), steps)
        updates = [[what, f"{value:.1f}"] for what, value in shape["update_us"].items()]
        yield _table(f"{name}-updates", f"{size}: update alone", ("update alone", "µs"), updates)
        yield _table(f"{name}-methods", f"{size}: every method", METHOD_HEADS, map(_method, shape["methods"]))
    if found["int8"]:
        int8 = found["int8"]
        rows = [
            [SPELLING[method], *(f"{100 * int8[f'{method} {kind} macro_f1']:.1f}" for kind in ("float32", "int8"))]
            for method in ("none", "sight")
        ]
        rows.append(["file, KB", *(f"{int8['file_kb'][kind]:.0f}" for kind in ("float32", "int8"))])
        subjects = f"{int8['dataset']}, subject {int8['source']} to {int8['target']}, {int8['windows']} windows"
        yield _table("int8", f"int8 on {subjects}: macro-F1", ("", "float32", "int8"), rows)


METHOD_HEADS = (
    *("method", "source", "rule", "ms a window", "paper", "over source", "offline windows/s"),
    *("wearers a core", "state KB", "paper"),
)


def _method(row: dict[str, Any]) -> list[str]:
    return [
        row["method"],
        row["source"],
        row["rule"],
        f"{row['ms_per_window']:.3f}",
        _optional(row["paper_ms_per_window"]),
        f"{100 * row['overhead']:.0f} %",
        f"{row['offline_windows_per_s']:.0f}",
        str(row["wearers_per_core"]),
        f"{sum(row['state_bytes'].values()) / 1024:.1f}",
        _optional(row["paper_state_kib"]),
    ]


def _optional(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _table(name: str, title: str, heads: Any, rows: Any) -> Table:
    return Table(name=name, title=title, heads=heads, rows=[[Cell(text) for text in row] for row in rows])
