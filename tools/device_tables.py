"""Tables of docs/device.md, from the measurements of ``make device``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tools.findings_tables import markdown
from tools.result_files import RESULTS, read_json

PATH = RESULTS / "device.json"
#: Model and precision of the tables that compare methods, and ways to run a model.
MODEL, PRECISION = "wrist", "int8"
TITLES = {"cnn": "1D-CNN"}


def read() -> dict[str, Any]:
    """Return the measurements."""
    return read_json(PATH)


def _kb(count: float) -> str:
    return f"{count / 1024:.1f}"


def _ram_kb(row: dict[str, Any]) -> str:
    return _kb(row["ram"] + row["stack"])


def _millions(count: float) -> str:
    return f"{count / 1e6:.1f}"


def _per_second(row: dict[str, Any]) -> float:
    """Return instructions per second of a sensor that never pauses."""
    samples = row["push"] * row["rate_hz"]
    return float(samples + (row["encode"] + row["step"]) / row["stride_s"])


def tools() -> str:
    """Return the compiler and the emulator that measured; this is no table, so that nothing is recorded."""
    compiler, emulator = json.loads(PATH.read_text("utf-8"))["tools"]
    return f"Measured with {compiler} and {emulator}:"


def models() -> str:
    """Return flash, RAM and instructions of each model with Keel."""
    rows = []
    for row in read()["rows"]:
        if row["method"] == "keel":
            title = TITLES.get(row["model"], f"`{row['model']}`")
            share = f"{100 * row['step'] / row['encode']:.2f}"
            sizes = [_kb(row["flash"]), _ram_kb(row)]
            cells = [*sizes, _millions(row["encode"]), f"{row['step']:,}", share]
            rows.append([f"{title}, {row['precision']}", *cells, _millions(_per_second(row))])
    heads = ["model", "flash, KB", "RAM, KB", "encoder, million", "Keel", "Keel, %", "million a second"]
    return markdown(heads, rows)


def methods() -> str:
    """Return what each method takes, behind the same encoder."""
    rows = []
    for row in read()["rows"]:
        if (row["model"], row["precision"]) == (MODEL, PRECISION):
            sizes = [row[key] for key in ("adapter_code", "adapter_constants", "state", "step")]
            share = f"{100 * row['step'] / row['encode']:.3f}"
            rows.append([f"`{row['method']}`", *(f"{size:,}" for size in sizes), share])
    heads = ["method", "code, bytes", "constants, bytes", "state, bytes", "instructions", "% of the encoder"]
    return markdown(heads, rows)


def accuracy() -> str:
    """Return accuracy in float32 and int8, and how often both predict the same class."""
    keys = ("float32_alone", "int8_alone", "same_alone", "float32_refined", "int8_refined", "same_refined")
    rows = [
        [f"`{row['model']}`", f"{row['subjects']:.0f}", *(f"{row[key]:.1f}" for key in keys)]
        for row in read()["accuracy"]
    ]
    heads = ["model", "subjects", "alone, float32", "int8", "same, %", "Keel, float32", "int8", "same, %"]
    return markdown(heads, rows)


def ways() -> str:
    """Return sizes and times of one model on a microcontroller, a phone or computer, and in the browser."""
    found = read()
    small, plain = (
        next(row for row in found["rows"] if (row["model"], row["precision"], row["method"]) == (MODEL, kind, "keel"))
        for kind in (PRECISION, "float32")
    )
    runtime = found["onnx_runtime"]
    library = f"{runtime['library_mb']:.0f} MB library, {runtime['file_kb']:.0f} KB model"
    web = f"{runtime['web_download_mb']:.1f} MB library, {runtime['file_kb']:.0f} KB model"
    rows = [
        *(
            [f"C, {row['precision']}", f"{_kb(row['flash'])} KB", f"{_ram_kb(row)} KB", f"{row['host_ms']:.2f}"]
            for row in (small, plain)
        ),
        ["fused graph, ONNX Runtime", library, f"{runtime['resident_mb']:.0f} MB", f"{runtime['ms']:.2f}"],
        ["fused graph, browser", web, "", ""],
    ]
    return markdown(["way", "program", "memory", "ms a window on a server"], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "device-tools": tools,
    "device-models": models,
    "device-methods": methods,
    "device-accuracy": accuracy,
    "device-ways": ways,
}
