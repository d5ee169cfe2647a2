"""Timing of every method at the shapes of two datasets, on one thread, with the paper's values."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.speed import timing
from benchmarks.speed.int8_accuracy import int8_scores
from benchmarks.speed.naive_sight import NaiveSight
from benchmarks.speed.setup import SHAPES, TimingSetup, counted_state, make_setup
from benchmarks.version_and_date import version_and_date
from torch.optim.optimizer import register_optimizer_step_post_hook

from sight import registry
from sight._util.atomic import write_atomic
from sight.apps.bench.experiments import method_label
from sight.apps.bench.paper_values import values
from sight.base import Adapter, OutputAdapter
from sight.methods.compiled.backend import choose
from sight.methods.sight import SIGHT
from sight.models.export.fused import export_fused
from sight.models.fused_model import FusedSession
from sight.models.given_features import FeatureSource
from sight.types import Array


class Effort(NamedTuple):
    """Number of repetitions."""

    windows: int  # of a stream
    rounds: int  # of tasks that take about a millisecond
    wearers: int  # of a fleet


QUICK, FULL = Effort(64, 60, 10_000), Effort(128, 400, 10_000)


def measure(out: str | Path = "out/speed.json", *, quick: bool = False) -> dict[str, Any]:
    """Time all methods, write the figures as JSON, and return them.

    Parameters
    ----------
    out
        The .json file.
    quick
        Use fewer repetitions; not precise enough for a table.
    """
    timing.one_thread()
    effort = QUICK if quick else FULL
    found: dict[str, Any] = {
        **version_and_date(),
        "machine": timing.machine(),
        "kernel": choose(SIGHT, np.float32).name,
        "effort": effort._asdict(),
        "shapes": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            setup = make_setup(shape, effort.windows, Path(folder))
            fused = FusedSession(export_fused(setup.torch, Path(folder) / f"{shape.name}.fused.onnx", SIGHT()))
            steps = time_steps(setup, fused, effort)
            found["shapes"][shape.name] = {
                **shape._asdict(),
                "steps_ms": steps,
                "update_us": time_updates(setup, effort),
                "methods": list(time_methods(setup, steps)),
            }
        seconds, megabytes = timing.import_and_load(Path(folder) / f"{SHAPES[0].name}.onnx")
    found["import_and_load"] = {"seconds": seconds, "resident_mb": megabytes}
    found["fleet"] = time_fleet(effort)
    found["int8"] = None if quick else int8_scores()
    found["targets"] = compare_targets(found)
    write_atomic(out, json.dumps(found, indent=1).encode())
    return found


def time_steps(setup: TimingSetup, fused: FusedSession, effort: Effort) -> dict[str, float]:
    """Time one live window in milliseconds, encoder included: source-only and SIGHT, on each runtime."""
    x = setup.x
    tensors = torch.from_numpy(x)
    network = setup.torch.network
    adapters = {name: SIGHT().bind(source) for name, source in (("onnx", setup.onnx), ("int8", setup.int8))}
    on_torch, naive = SIGHT().bind(setup.torch), NaiveSight(setup.torch)

    def forward(n: int) -> None:
        with torch.inference_mode():
            torch.softmax(network(tensors[_window(n, x)]), dim=1)

    tasks: dict[str, timing.Task] = {
        "torch forward": forward,
        "naive torch SIGHT": lambda n: naive.step(tensors[_window(n, x)]),
        "SIGHT on torch": lambda n: on_torch.step(x[_window(n, x)]),
        "onnx encode": lambda n: setup.onnx.encode(x[_window(n, x)]),
        "SIGHT on onnx": lambda n: adapters["onnx"].step(x[_window(n, x)]),
        "int8 encode": lambda n: setup.int8.encode(x[_window(n, x)]),
        "SIGHT on int8": lambda n: adapters["int8"].step(x[_window(n, x)]),
        "fused graph": lambda n: fused.step(x[n % len(x)]),
    }
    return {name: 1e3 * seconds for name, seconds in timing.medians(tasks, effort.rounds).items()}


def time_updates(setup: TimingSetup, effort: Effort) -> dict[str, float]:
    """Time SIGHT's update alone, for given features, in microseconds per window."""
    z, p = setup.onnx.encode(setup.x)
    tensors = torch.from_numpy(z), torch.from_numpy(p)
    adapter, naive = SIGHT().bind(setup.onnx), NaiveSight(setup.torch)
    piece = slice(0, min(32, len(z)))  # short, so that few runs are interrupted
    replay = timing.alone(lambda _: adapter.refine(z[piece], p[piece]), effort.rounds) / len(z[piece])
    live = timing.alone(lambda n: adapter.refine(z[_window(n, z)], p[_window(n, z)]), 5 * effort.rounds)
    loop = timing.alone(lambda n: naive.update(tensors[0][n % len(z)], tensors[1][n % len(z)]), effort.rounds)
    encoder = timing.alone(lambda n: setup.onnx.encode(setup.x[_window(n, z)]), effort.rounds)
    found = {"replay": replay, "live call": live, "naive torch loop": loop, "onnx encoder": encoder}
    return {name: 1e6 * seconds for name, seconds in found.items()}


def time_methods(setup: TimingSetup, steps_ms: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    """Time every registered method over a stream, in chunks of its own size, and its source model alone.

    Methods have the preset of the paper and start anew at each pass. SIGHT's times are those of `time_steps`, so that
    there is one figure for it.
    """
    for name in registry.names("methods"):
        adapter: Adapter = registry.method(name, preset="sight-paper")
        output_only = isinstance(adapter, OutputAdapter)
        source: Any = setup.onnx if output_only else setup.torch
        adapter.bind(source)
        x = setup.x if output_only else setup.x[: QUICK.windows]
        size = adapter.chunk or 1
        pieces = [x[first : first + size] for first in range(0, len(x), size)]
        rounds = 9 if output_only else 3
        with counted_updates() as updates:
            times = timing.streams(
                {"step": adapter.step, "source": source.encode}, pieces, rounds=rounds, before=adapter.reset
            )
        times |= timing.streams({"offline": adapter.step}, [x], rounds=3 if output_only else 1, before=adapter.reset)
        per_window = {task: seconds / len(x) for task, seconds in times.items()}
        if name == SIGHT.name:
            per_window |= {"step": steps_ms["SIGHT on onnx"] / 1e3, "source": steps_ms["onnx encode"] / 1e3}
        per_pass = len(updates) / (rounds + 1) if adapter.needs.gradient else None
        yield _method_figures(setup, adapter, "onnx" if output_only else "torch", per_window, per_pass)


@contextmanager
def counted_updates() -> Iterator[list[None]]:
    """Collect one entry for each step of any torch optimiser within the context."""
    updates: list[None] = []
    handle = register_optimizer_step_post_hook(lambda *_: updates.append(None))
    try:
        yield updates
    finally:
        handle.remove()


def _method_figures(
    setup: TimingSetup, adapter: Adapter, source: str, times: dict[str, float], updates: float | None
) -> dict[str, Any]:
    """Return the figures of a method; times are None if it should update and did not."""
    key = ("efficiency", setup.shape.name, "average", method_label(adapter.name))
    paper_ms, paper_state = values("ms_per_window").get(key), values("state_kib").get(key)
    milliseconds = 1e3 * times["step"]
    figures = {
        "ms_per_window": milliseconds,
        "source_ms_per_window": 1e3 * times["source"],
        "overhead": times["step"] / times["source"] - 1,
        "offline_windows_per_s": 1 / times["offline"],
        "wearers_per_core": int(1e3 * setup.shape.stride_s / milliseconds),
    }
    return {
        "method": adapter.name,
        "source": source,
        "rule": adapter.rule,
        "updates_per_pass": updates,
        **(dict.fromkeys(figures) if updates == 0 else figures),
        "state_bytes": adapter.state_bytes(),
        "counted_state_bytes": sum(counted_state(adapter).values()),
        "paper_ms_per_window": paper_ms,
        "paper_state_kib": paper_state,
    }


def time_fleet(effort: Effort) -> dict[str, Any]:
    """Time one window of each of many wearers, for given features with K = 5 and D = 2048."""
    rng = np.random.default_rng(0)
    adapter = SIGHT().bind(FeatureSource(rng.normal(size=(5, 2048)).astype(np.float32)))
    wearers = adapter.many(effort.wearers)
    z = np.maximum(rng.normal(size=(effort.wearers, 2048)), 0).astype(np.float32)
    p = rng.dirichlet(np.full(5, 0.3), size=effort.wearers).astype(np.float32)
    seconds = timing.alone(lambda _: wearers.refine(z, p), rounds=7, warm_up=2)
    return {
        "wearers": effort.wearers,
        "milliseconds": 1e3 * seconds,
        "live_bytes_per_wearer": sum(array.nbytes for array in adapter.state().values()),
    }


def compare_targets(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return ratios and totals with the project's targets (None: no target)."""
    lines = []
    for name, total, share in (("harth", 0.5, 0.05), ("capture24", 0.7, 0.01)):
        step, update = found["shapes"][name]["steps_ms"], found["shapes"][name]["update_us"]
        forward, encoder = step["torch forward"], update["onnx encoder"]
        lines += [
            _line(f"{name}: SIGHT whole step (onnx) / torch forward", step["SIGHT on onnx"] / forward, total),
            _line(f"{name}: the same in int8", step["SIGHT on int8"] / forward, None),
            _line(f"{name}: adaptation (replay) / encoder (onnx)", update["replay"] / encoder, share),
            _line(f"{name}: adaptation (one call) / encoder (onnx)", update["live call"] / encoder, share),
            _line(f"{name}: live step / encoder (onnx) - 1", step["SIGHT on onnx"] / step["onnx encode"] - 1, share),
        ]
    step, update = found["shapes"]["harth"]["steps_ms"], found["shapes"]["harth"]["update_us"]
    fleet, loading = found["fleet"], found["import_and_load"]
    return [
        *lines,
        _line("harth: whole step / naive torch whole step", step["SIGHT on onnx"] / step["naive torch SIGHT"], 0.25),
        _line("harth: naive torch update / replay", update["naive torch loop"] / update["replay"], 50, at_least=True),
        _line(f"fleet of {fleet['wearers']}: one window each, ms", fleet["milliseconds"], 200),
        _line("live state per wearer, KB", fleet["live_bytes_per_wearer"] / 1024, 41),
        _line("import + load of an onnx model, s", loading["seconds"], 0.5),
        _line("import + load, MB resident", loading["resident_mb"], 100),
    ]


def _line(what: str, value: float, target: float | None, at_least: bool = False) -> dict[str, Any]:
    met = None if target is None else (value >= target if at_least else value <= target)
    return {"what": what, "value": value, "target": target, "at_least": at_least, "met": met}


def _window(n: int, windows: Array) -> slice:
    """Return one window, another one in each round."""
    return slice(n % len(windows), n % len(windows) + 1)
