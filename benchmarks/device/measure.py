"""Flash, RAM and instructions per window of exported models on an emulated Cortex-M4F, beside phone and browser.

Run as ``python -m benchmarks.device.measure`` (``make device``). It writes
``benchmarks/results/device.json``, from which docs/device.md takes its tables.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from benchmarks.device import arm_board
from benchmarks.device.host_library import csv_lines
from benchmarks.device.int8_accuracy import scores
from benchmarks.version_and_date import version_and_date

import sight
from sight._util.atomic import write_json
from sight.datasets.synthetic import Synthetic
from sight.models.bundled import names
from sight.models.export.c import export_c
from sight.models.export.c.methods import METHODS
from sight.models.train import train
from sight.recordings.recording_collection import windows_of
from sight.recordings.signal.live_windows import Windower
from sight.types import Array

RESULTS = Path("benchmarks/results/device.json")
WINDOWS = 200
STATIC = Path("src/sight/apps/serve/static")
#: Measures memory and time of a fused graph in a process that imports nothing else.
ORT_PROBE = r"""
import re, sys, time
from pathlib import Path
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
types = {"tensor(float)": np.float32, "tensor(int32)": np.int32}
inputs = {entry.name: np.zeros(entry.shape, types[entry.type]) for entry in session.get_inputs()}
outputs = [entry.name for entry in session.get_outputs()]
seconds = []
for _ in range(300):
    began = time.process_time()
    found = dict(zip(outputs, session.run(None, inputs)))
    seconds.append(time.process_time() - began)
    inputs |= {name: found[f"next_{name}"] for name in inputs if name != "x"}
peak_kb = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]
print(peak_kb, float(np.median(seconds)))
"""


def train_cnn() -> tuple[Any, Array]:
    """Return the paper's 1D-CNN, trained for a moment on a synthetic wearer, and windows to calibrate it on."""
    dataset = Synthetic(hours=0.3, gaps_per_hour=0)
    windows = windows_of(dataset, "W01")
    source = train(windows, dataset.classes, epochs=2, rate_hz=dataset.rate_hz, channels=dataset.channels)
    return source, windows.x


def folders(root: Path) -> Iterator[tuple[dict[str, str], Path, Any]]:
    """Yield name, precision and method of each exported folder, the folder and its source."""
    cnn, x = train_cnn()
    models: dict[str, Any] = {name: sight.load(name) for name in names()} | {"cnn": cnn}
    plans = [(name, precision, "keel") for name in models for precision in ("float32", "int8")]
    plans += [("wrist", "int8", method) for method in METHODS if method != "keel"]
    for number, (name, precision, method) in enumerate(plans):
        source = models[name]
        int8 = None if precision == "float32" else "stored" if name in names() else x
        card = source.card
        sizes = {"channels": len(card.channels), "window_s": card.window_s, "stride_s": card.stride_s}
        windower = Windower(rate_in_hz=card.rate_hz, rate_hz=card.rate_hz, **sizes).constants()
        folder = export_c(source, root / str(number), name=name, method=method, int8=int8, windower=windower)
        yield {"model": name, "precision": precision, "method": method}, folder, source


def host_ms(folder: Path, source: Any) -> float:
    """Return milliseconds of processor time a window of the program on this machine, reading and printing included."""
    card = source.card
    stride = round(card.stride_s * card.rate_hz)
    values = np.random.default_rng(0).normal(size=(WINDOWS * stride + card.length, len(card.channels)))
    lines = csv_lines(values, np.arange(len(values)) / card.rate_hz)
    subprocess.run(["make", "-s", "sight"], cwd=folder, check=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    printed = subprocess.run([str(folder / "sight")], input=lines, capture_output=True, text=True, check=True).stdout
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return 1e3 * used / len(printed.splitlines())


def onnx_runtime(root: Path) -> dict[str, float]:
    """Return sizes, memory and time of the bundled model wrist as a fused graph."""
    path = sight.export(sight.load("wrist"), root / "wrist.onnx", method="keel")
    probe = subprocess.run([sys.executable, "-c", ORT_PROBE, str(path)], capture_output=True, text=True, check=True)
    resident_kb, seconds = map(float, probe.stdout.split())
    library = max((Path(onnxruntime.__file__).parent / "capi").glob("*.so*"), key=lambda file: file.stat().st_size)
    return {
        "file_kb": path.stat().st_size / 1024,
        "library_mb": library.stat().st_size / 2**20,
        "resident_mb": resident_kb / 1024,
        "ms": 1e3 * seconds,
        "web_download_mb": sum(file.stat().st_size for file in (STATIC / "vendor").glob("ort*")) / 2**20,
    }


def main() -> None:
    """Measure everything and write the results."""
    if not arm_board.available():
        raise SystemExit("Expected arm-none-eabi-gcc and qemu-system-arm; run: make arm")
    accuracy, rows = [{"model": name, **scores(name)} for name in names()], []
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for facts, folder, source in folders(root):
            card = source.card
            counts = arm_board.instructions(folder, card.rate_hz)
            row = {**facts, **arm_board.footprint(folder), **counts, "host_ms": host_ms(folder, source)}
            rows.append({**row, "stride_s": card.stride_s, "rate_hz": card.rate_hz})
            print(row, flush=True)
        runtime = onnx_runtime(root)
    compiler = subprocess.run(["arm-none-eabi-gcc", "--version"], capture_output=True, text=True, check=True)
    emulator = subprocess.run(["qemu-system-arm", "--version"], capture_output=True, text=True, check=True)
    tools = [done.stdout.splitlines()[0] for done in (compiler, emulator)]
    found = {"tools": tools, "rows": rows, "accuracy": accuracy, "onnx_runtime": runtime}
    write_json(RESULTS, version_and_date() | found)


if __name__ == "__main__":
    main()
