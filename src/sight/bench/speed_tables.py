"""The figures of `sight.bench.speed` for the eye."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from sight.bench.experiments import SPELLING

console = Console(width=None if sys.stdout.isatty() else 132)


def show(found: dict[str, Any]) -> None:
    """Print every table."""
    for name, shape in found["shapes"].items():
        console.print(_steps(name, shape))
        console.print(_methods(name, shape))
    console.print(_reach(found["reach"]))
    if found["int8"]:
        console.print(_int8(found["int8"]), highlight=False, soft_wrap=True)
    facts = found["machine"]
    console.print(
        f"{facts['processor']}, {facts['cores']} cores, 1 thread, load {facts['load_average_at_start']:.1f} at start; "
        f"kernel {found['kernel']}; Python {facts['python']}, "
        + ", ".join(f"{key} {facts[key]}" for key in ("numpy", "numba", "onnxruntime", "torch") if key in facts)
    )


def _steps(name: str, shape: dict[str, Any]) -> Table:
    size = f"{shape['channels']} x {shape['length']}, K {shape['classes']}"
    table = Table("what", "figure", title=f"{name} ({size}): one window")
    for what, value in shape["steps_ms"].items():
        table.add_row(what, f"{value:.3f} ms")
    for what, value in shape["update_us"].items():
        table.add_row(f"alone: {what}", f"{value:.1f} us")
    return table


def _methods(name: str, shape: dict[str, Any]) -> Table:
    table = Table(title=f"{name}: every method")
    for column in ("method", "source", "rule"):
        table.add_column(column)
    for column in ("ms/window", "paper", "over source", "offline win/s", "wearers/core", "state KB", "paper"):
        table.add_column(column, justify="right")
    for row in shape["methods"]:
        table.add_row(
            row["method"],
            row["source"],
            row["rule"],
            f"{row['ms_per_window']:.3f}",
            _number(row["paper_ms_per_window"]),
            f"{100 * row['overhead']:.0f} %",
            f"{row['offline_windows_per_s']:.0f}",
            str(row["wearers_per_core"]),
            f"{sum(row['state_bytes'].values()) / 1024:.1f}",
            _number(row["paper_state_kib"]),
        )
    return table


def _reach(lines: list[dict[str, Any]]) -> Table:
    table = Table("what", "figure", "reach", "", title="What we set out to reach")
    for line in lines:
        sign = "≥" if line["at_least"] else "≤"
        target = "" if line["target"] is None else f"{sign} {line['target']:g}"
        verdict = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[line["met"]]
        table.add_row(line["what"], f"{line['value']:.3g}", target, verdict)
    return table


def _int8(found: dict[str, Any]) -> str:
    scores = ", ".join(
        f"{SPELLING[method]} {100 * found[f'{method} float32 macro_f1']:.1f} to "
        f"{100 * found[f'{method} int8 macro_f1']:.1f}"
        for method in ("none", "sight")
    )
    size = " to ".join(f"{found['file_kb'][kind]:.0f}" for kind in ("float32", "int8"))
    people = f"{found['source']} to {found['target']}, {found['windows']} windows"
    return f"int8 instead of float32 on {found['corpus']} ({people}): macro-F1 of {scores}; file {size} KB"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def main() -> None:
    """Run from the command line: ``python -m sight.bench.speed [--quick] [--out FILE]``."""
    import argparse

    from sight.bench.speed import speed

    parser = argparse.ArgumentParser(description="Time every method at the shapes of HARTH and CAPTURE-24.")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--out", default="out/speed.json", help="where to write the figures")
    given = parser.parse_args()
    speed(given.out, quick=given.quick)
