"""Tables of the figures of `benchmarks.speed.methods`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sight.apps.bench.experiment_report.table_format import DASH, Cell, Table


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
        yield _int8(found["int8"])


def _int8(int8: dict[str, Any]) -> Table:
    """Return the scores of both encoders for each pair of subjects, then size and time."""
    rows = []
    for pair in int8["pairs"]:
        scores = [
            f"{100 * pair[f'{score} {kind}']:.1f}"
            for score in ("accuracy", "macro_f1", "sight macro_f1")
            for kind in ("float32", "int8")
        ]
        rows.append([f"subject {pair['source']} to {pair['target']}", *scores, f"{100 * pair['agreement']:.1f}"])
    sizes, times = ([int8[key][kind] for kind in ("float32", "int8")] for key in ("file_kb", "ms_per_window"))
    heads = ("", "accuracy", "int8", "macro-F1", "int8", "with SIGHT", "int8", "same class, %")
    rows.append(["file, KB", f"{sizes[0]:.0f}", f"{sizes[1]:.0f}", *[""] * 5])
    rows.append(["ms a window", f"{times[0]:.3f}", f"{times[1]:.3f}", *[""] * 5])
    return _table("int8", f"int8 on {int8['dataset']}", heads, rows)


METHOD_HEADS = (
    *("method", "source", "rule", "updates", "ms a window", "paper", "over source", "offline windows/s"),
    *("wearers a core", "state KB", "paper"),
)


def _method(row: dict[str, Any]) -> list[str]:
    """Return the cells of a method; a dash stands for times of a method that did not update."""
    overhead = row["overhead"]
    return [
        row["method"],
        row["source"],
        row["rule"],
        "" if row["updates_per_pass"] is None else f"{row['updates_per_pass']:g}",
        _figure(row["ms_per_window"], ".3f"),
        _optional(row["paper_ms_per_window"]),
        _figure(None if overhead is None else 100 * overhead, ".0f", " %"),
        _figure(row["offline_windows_per_s"], ".0f"),
        _figure(row["wearers_per_core"], "d"),
        f"{row['counted_state_bytes'] / 1024:.1f}",
        _optional(row["paper_state_kib"]),
    ]


def _figure(value: float | None, form: str, unit: str = "") -> str:
    return DASH if value is None else f"{value:{form}}{unit}"


def _optional(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _table(name: str, title: str, heads: Any, rows: Any) -> Table:
    return Table(name=name, title=title, heads=heads, rows=[[Cell(text) for text in row] for row in rows])
