"""Where the time goes between a stride and its acknowledged event: one wearer on a WebSocket, stage by stage.

    python -m benchmarks.live.latency                                     # this code
    python -m benchmarks.live.latency --also before=../earlier/src        # and another checkout, in alternating rounds

A client sends one stride (a second of HARTH's shape: 3 channels at 50 Hz) at a time and waits for its acknowledgement,
which has one event. The model is the paper's CNN as ONNX, with the recommended method and the default store. The
service runs in a child process whose functions are timed from outside; both processes read the same clock. Each round
starts a new service; its first strides are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parents[1] / "results" / "live"
#: Strides sent before the first that counts, and seconds from one acknowledgement to the next stride.
WARM_UP, PAUSE_S = 60, 0.025
#: Stages in their order, with what they include.
STAGES = {
    "arrival": "from the client's send until the message is parsed and queued",
    "queue": "until the thread of the sessions begins",
    "windows": "numbers, resampling, windows, digests, and what else is between the stages",
    "encode": "the network",
    "step": "the method, and the events",
    "commit": "the transaction of the store",
    "reply": "until the client has the acknowledgement",
}


# --- the service, in a child process ---------------------------------------------------------------------------------


def serve_traced(model: str, folder: str, trace: str) -> None:
    """Run ``sight serve`` with timed functions; write the times when it ends."""
    from sight.apps.cli import main
    from sight.apps.serve.ingest_queue import IngestQueue
    from sight.apps.serve.model_catalogue import Model
    from sight.apps.serve.session_manager import SessionManager
    from sight.apps.serve.sqlite_store import SqliteStore
    from sight.apps.serve.wearer_session import WearerSession

    times: dict[str, list[tuple[float, float]]] = {}
    timed = {
        "put": (IngestQueue, "put"),
        "ingest": (SessionManager, "ingest"),
        "encode": (Model, "encode"),
        "step": (WearerSession, "predict"),
        "commit": (SqliteStore, "commit"),
    }
    for name, (owner, function) in timed.items():
        setattr(owner, function, _timed(getattr(owner, function), times.setdefault(name, [])))
    atexit.register(lambda: Path(trace).write_text(json.dumps(times)))
    sys.argv = ["sight", "serve", "-m", model, "--data", folder, "--port", "0"]
    main()


def _timed(function: Callable[..., Any], times: list[tuple[float, float]]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            times.append((start, time.perf_counter()))

    return call


# --- the client -------------------------------------------------------------------------------------------------------


async def send_strides(port: int, count: int) -> list[tuple[float, float]]:
    """Send strides one by one; return when each was sent and acknowledged."""
    import websockets

    from sight.apps.serve.chunks import Chunk
    from sight.apps.serve.message_format import pack

    samples = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    times = []
    async with websockets.connect(f"ws://127.0.0.1:{port}/v1/ingest", compression=None) as socket:
        for seq in range(1, count + 1):
            message = pack([Chunk("w", seq, samples)])
            start = time.perf_counter()
            await socket.send(message)
            ack = await socket.recv()
            times.append((start, time.perf_counter()))
            if seq > 2 and len(json.loads(ack)["events"]) != 1:
                raise RuntimeError(f"Expected one event, got {ack!r}.")
            await asyncio.sleep(PAUSE_S)
    return times


def measure_round(source: Path, model: Path, count: int) -> dict[str, np.ndarray]:
    """Run one service from a source folder; return the milliseconds of each stage of each stride."""
    with tempfile.TemporaryDirectory(prefix="sight-latency-") as folder:
        trace = Path(folder) / "trace.json"
        command = [sys.executable, __file__, "--traced", str(model), str(Path(folder) / "data"), str(trace)]
        environment = os.environ | {"PYTHONPATH": str(source)}
        with (Path(folder) / "log").open("wb") as log:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
            try:
                found = re.search(r"http://\S+?:(\d+)", child.stdout.readline() if child.stdout else "")
                if found is None:
                    raise RuntimeError(f"The service of {source} did not start.")
                address = f"http://127.0.0.1:{found[1]}/v1/wearers/w"
                urllib.request.urlopen(urllib.request.Request(address, method="PUT"), timeout=120).close()
                outer = asyncio.run(send_strides(int(found[1]), WARM_UP + count))[WARM_UP:]
            finally:
                child.terminate()
                child.wait(60)
        return stages({name: rows[-count:] for name, rows in json.loads(trace.read_text()).items()}, outer)


def stages(inner: dict[str, list[tuple[float, float]]], outer: list[tuple[float, float]]) -> dict[str, np.ndarray]:
    """Return the milliseconds of each stage of each stride from the times of the functions and of the client."""
    starts, ends = ({name: np.array(rows)[:, edge] for name, rows in inner.items()} for edge in (0, 1))
    sent, received = np.array(outer).T
    lasted = {name: ends[name] - starts[name] for name in inner}
    own = lasted["ingest"] - lasted["encode"] - lasted["step"] - lasted["commit"]
    parts = {
        "arrival": ends["put"] - sent,
        "queue": starts["ingest"] - ends["put"],
        "windows": own,
        **{name: lasted[name] for name in ("encode", "step", "commit")},
        "reply": received - ends["ingest"],
        "total": received - sent,
    }
    return {name: 1e3 * parts[name] for name in (*STAGES, "total")}


def main() -> None:
    """Parse the options, run, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strides", type=int, default=300, help="strides that count, in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--also", action="append", default=[], metavar="NAME=SRC", help="another checkout's src folder")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON file")
    parser.add_argument("--traced", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if options.traced:
        serve_traced(*options.traced)
        return
    from benchmarks.live.load import make_model
    from benchmarks.version_and_date import version_and_date

    from sight._util.atomic import write_json

    sources = {name: Path(folder) for name, _, folder in (text.partition("=") for text in options.also)}
    sources["now"] = Path(__file__).resolve().parents[2] / "src"
    rows: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in sources}
    with tempfile.TemporaryDirectory(prefix="sight-latency-") as folder:
        model = make_model(Path(folder) / "cnn.onnx")
        for _ in range(options.rounds):
            for name, source in sources.items():
                rows[name].append(measure_round(source.resolve(), model, options.strides))
    result: dict[str, Any] = {
        **version_and_date(),
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load_average_at_start": round(os.getloadavg()[0], 1),
        "strides": options.rounds * options.strides,
        "stages": STAGES,
        "median_ms": {},
        "p95_ms": {},
    }
    for name, found in rows.items():
        joined = {stage: np.concatenate([part[stage] for part in found]) for stage in found[0]}
        for key, share in (("median_ms", 50), ("p95_ms", 95)):
            result[key][name] = {
                stage: round(float(np.percentile(all_ms, share)), 3) for stage, all_ms in joined.items()
            }
    for stage in (*STAGES, "total"):
        print(f"{stage:10}", *(f"{name} {result['median_ms'][name][stage]:7.3f}" for name in rows))
    print(f"Wrote {write_json(options.out / 'latency.json', result)}")


if __name__ == "__main__":
    main()
