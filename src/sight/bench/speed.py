"""What adaptation costs: every method, two shapes, one thread, beside the paper's figures and our own targets."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from sight import registry
from sight._version import __version__
from sight.atomic import write_atomic
from sight.base import Adapter, OutputAdapter
from sight.bench import timing
from sight.bench.experiments import SPELLING
from sight.bench.int8_accuracy import int8_cost
from sight.bench.naive_sight import PlainSight
from sight.bench.paper_figures import figures
from sight.bench.timing_models import SHAPES, Bed, make
from sight.methods._backend import choose
from sight.methods.sight import SIGHT
from sight.sources.features import FeatureSource
from sight.sources.fused import FusedSession
from sight.sources.fused_export import export_fused
from sight.types import Array


class Effort(NamedTuple):
    """How often things run."""

    windows: int  # of a stream
    rounds: int  # of what takes a millisecond
    wearers: int  # of a fleet


QUICK, FULL = Effort(64, 60, 10_000), Effort(128, 400, 10_000)


def speed(out: str | Path = "out/speed.json", *, quick: bool = False) -> dict[str, Any]:
    """Measure, print the tables, write the figures as JSON, and return them.

    Parameters
    ----------
    out
        The .json file.
    quick
        Fewer repetitions: a look, not a table.
    """
    timing.one_thread()
    effort = QUICK if quick else FULL
    found: dict[str, Any] = {
        "sight_version": __version__,
        "machine": timing.machine(),
        "kernel": choose(SIGHT, np.float32).name,
        "effort": effort._asdict(),
        "shapes": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            bed = make(shape, effort.windows, Path(folder))
            fused = FusedSession(export_fused(bed.torch, Path(folder) / f"{shape.name}.fused.onnx", SIGHT()))
            found["shapes"][shape.name] = {
                **shape._asdict(),
                "steps_ms": steps(bed, fused, effort),
                "update_us": updates(bed, effort),
                "methods": list(methods(bed)),
            }
        seconds, megabytes = timing.import_and_load(Path(folder) / f"{SHAPES[0].name}.onnx")
    found["import_and_load"] = {"seconds": seconds, "resident_mb": megabytes}
    found["fleet"] = fleet(effort)
    found["int8"] = None if quick else int8_cost()
    found["reach"] = reach(found)
    write_atomic(out, json.dumps(found, indent=1).encode())
    from sight.bench.speed_tables import show

    show(found)
    return found


def steps(bed: Bed, fused: FusedSession, effort: Effort) -> dict[str, float]:
    """Time one live window, whole, in milliseconds: without adaptation and with it, by each way of running."""
    x = bed.x
    tensors = torch.from_numpy(x)
    network = bed.torch.network
    adapters = {name: SIGHT().bind(source) for name, source in (("onnx", bed.onnx), ("int8", bed.int8))}
    on_torch, plain = SIGHT().bind(bed.torch), PlainSight(bed.torch)

    def forward(n: int) -> None:
        with torch.inference_mode():
            torch.softmax(network(tensors[_at(n, x)]), dim=1)

    tasks: dict[str, timing.Task] = {
        "torch forward": forward,
        "plain torch SIGHT": lambda n: plain.step(tensors[_at(n, x)]),
        "SIGHT on torch": lambda n: on_torch.step(x[_at(n, x)]),
        "onnx encode": lambda n: bed.onnx.encode(x[_at(n, x)]),
        "SIGHT on onnx": lambda n: adapters["onnx"].step(x[_at(n, x)]),
        "int8 encode": lambda n: bed.int8.encode(x[_at(n, x)]),
        "SIGHT on int8": lambda n: adapters["int8"].step(x[_at(n, x)]),
        "fused graph": lambda n: fused.step(x[n % len(x)]),
    }
    return {name: 1e3 * seconds for name, seconds in timing.medians(tasks, effort.rounds).items()}


def updates(bed: Bed, effort: Effort) -> dict[str, float]:
    """Time the update alone, features given, in microseconds a window."""
    z, p = bed.onnx.encode(bed.x)
    tensors = torch.from_numpy(z), torch.from_numpy(p)
    adapter, plain = SIGHT().bind(bed.onnx), PlainSight(bed.torch)
    piece = slice(0, min(32, len(z)))  # short, so that few runs are interrupted
    replayed = timing.alone(lambda _: adapter.refine(z[piece], p[piece]), effort.rounds) / len(z[piece])
    live = timing.alone(lambda n: adapter.refine(z[_at(n, z)], p[_at(n, z)]), 5 * effort.rounds)
    torch_loop = timing.alone(lambda n: plain.update(tensors[0][n % len(z)], tensors[1][n % len(z)]), effort.rounds)
    encoder = timing.alone(lambda n: bed.onnx.encode(bed.x[_at(n, z)]), effort.rounds)
    found = {"replay": replayed, "live call": live, "plain torch loop": torch_loop, "onnx encoder": encoder}
    return {name: 1e6 * seconds for name, seconds in found.items()}


def methods(bed: Bed) -> Iterator[dict[str, Any]]:
    """Time every registered method over a stream, cut as it wants to be, beside its source alone."""
    for name in registry.names("methods"):
        adapter: Adapter = registry.method(name)
        light = isinstance(adapter, OutputAdapter)
        source: Any = bed.onnx if light else bed.torch
        adapter.bind(source)
        x = bed.x if light else bed.x[: QUICK.windows]
        size = adapter.chunk or 1
        pieces = [x[first : first + size] for first in range(0, len(x), size)]
        times = timing.streams({"step": adapter.step, "source": source.encode}, pieces, rounds=9 if light else 3)
        times |= timing.streams({"offline": adapter.step}, [x], rounds=3 if light else 1)
        yield _row(bed, adapter, "onnx" if light else "torch", {key: value / len(x) for key, value in times.items()})


def _row(bed: Bed, adapter: Adapter, source: str, times: dict[str, float]) -> dict[str, Any]:
    milliseconds = 1e3 * times["step"]
    key = ("efficiency", bed.shape.name, "average", SPELLING.get(adapter.name, adapter.name))
    paper_ms, paper_state = figures("ms_per_window").get(key), figures("state_kib").get(key)
    return {
        "method": adapter.name,
        "source": source,
        "rule": adapter.rule,
        "ms_per_window": milliseconds,
        "source_ms_per_window": 1e3 * times["source"],
        "overhead": times["step"] / times["source"] - 1,
        "offline_windows_per_s": 1 / times["offline"],
        "wearers_per_core": int(1e3 * bed.shape.stride_s / milliseconds),
        "state_bytes": adapter.state_bytes(),
        "paper_ms_per_window": paper_ms.value if paper_ms else None,
        "paper_state_kib": paper_state.value if paper_state else None,
    }


def fleet(effort: Effort) -> dict[str, Any]:
    """Advance many wearers by one window each, K 5 and D 2048, features given."""
    rng = np.random.default_rng(0)
    adapter = SIGHT().bind(FeatureSource(rng.normal(size=(5, 2048)).astype(np.float32)))
    wearers = adapter.many(effort.wearers)
    z = np.maximum(rng.normal(size=(effort.wearers, 2048)), 0).astype(np.float32)
    p = rng.dirichlet(np.full(5, 0.3), size=effort.wearers).astype(np.float32)
    seconds = timing.alone(lambda _: wearers.refine(z, p), rounds=7, warm_up=2)
    state = adapter.state()
    return {
        "wearers": effort.wearers,
        "milliseconds": 1e3 * seconds,
        "live_bytes_per_wearer": sum(array.nbytes for array in state.values()),
    }


def reach(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Hold the figures against what we set out to reach."""
    lines = []
    for name, whole, share in (("harth", 0.5, 0.05), ("capture24", 0.7, 0.01)):
        step, update = found["shapes"][name]["steps_ms"], found["shapes"][name]["update_us"]
        forward = step["torch forward"]
        lines += [
            _line(f"{name}: SIGHT whole step (onnx) / torch forward", step["SIGHT on onnx"] / forward, whole),
            _line(f"{name}: the same in int8", step["SIGHT on int8"] / forward, None),
            _line(f"{name}: adaptation (replay) / encoder (onnx)", update["replay"] / update["onnx encoder"], share),
            _line(
                f"{name}: adaptation (one call) / encoder (onnx)", update["live call"] / update["onnx encoder"], share
            ),
            _line(f"{name}: live step / encoder (onnx) - 1", step["SIGHT on onnx"] / step["onnx encode"] - 1, share),
        ]
    step, update = found["shapes"]["harth"]["steps_ms"], found["shapes"]["harth"]["update_us"]
    return [
        *lines,
        _line("harth: whole step / plain torch whole step", step["SIGHT on onnx"] / step["plain torch SIGHT"], 0.25),
        _line("harth: plain torch update / replay", update["plain torch loop"] / update["replay"], 50, at_least=True),
        _line(f"fleet of {found['fleet']['wearers']}: one window each, ms", found["fleet"]["milliseconds"], 200),
        _line("live state per wearer, KB", found["fleet"]["live_bytes_per_wearer"] / 1024, 41),
        _line("import + load of an onnx model, s", found["import_and_load"]["seconds"], 0.5),
        _line("import + load, MB resident", found["import_and_load"]["resident_mb"], 100),
    ]


def _line(what: str, value: float, target: float | None, at_least: bool = False) -> dict[str, Any]:
    met = None if target is None else (value >= target if at_least else value <= target)
    return {"what": what, "value": value, "target": target, "at_least": at_least, "met": met}


def _at(n: int, windows: Array) -> slice:
    """One window, another in each round."""
    return slice(n % len(windows), n % len(windows) + 1)


if __name__ == "__main__":
    from sight.bench.speed_tables import main

    main()
