"""Load test of the service: starts it, sends one window per second and wearer, and counts what is acknowledged.

    python -m benchmarks.live.load --wearers 1000 --seconds 300      # latency, losses, processor time, memory
    python -m benchmarks.live.load --find-limit --seconds 60         # more wearers until p99 exceeds 500 ms
    python -m benchmarks.live.load --soak 20                         # 20 minutes at a tenth of the load: memory

Windows have HARTH's shape: 3 channels at 50 Hz, 2 s every second; the model is the paper's CNN as ONNX, with the
recommended method. Client and service share this machine, and the wearers a few WebSockets, as behind a gateway. A
chunk is one second of samples; its latency is the time from sending to the acknowledgement, when it is durable.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import websockets
from benchmarks.version_and_date import version_and_date

from sight._util.atomic import write_json
from sight.apps.serve.chunks import Chunk
from sight.apps.serve.message_format import pack

RESULTS = Path(__file__).resolve().parents[1] / "results" / "live"
RATE_HZ, CHANNELS, CLASSES = 50, 3, 12
GOAL_MS = 500.0
TICK_S = 0.02


def make_model(path: Path) -> Path:
    """Export the paper's CNN for windows of HARTH's shape, trained briefly on noise; accuracy does not matter here."""
    from sight.models.export.onnx import export_onnx
    from sight.models.train import train

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(256, CHANNELS, 2 * RATE_HZ)).astype(np.float32), rng.integers(CLASSES, size=256)
    names = tuple(f"activity {k}" for k in range(CLASSES))
    source = train((x, y), names, epochs=1, channels=("x", "y", "z"), units="g", rate_hz=RATE_HZ, stride_s=1.0)
    return export_onnx(source, path)


def expected_windows(model: Path, chunks: int, samples: np.ndarray) -> int:
    """Return the number of windows in a stream of `chunks` chunks, counted by a session without a service."""
    from sight.apps.stream import Session
    from sight.models.load import load
    from sight.registry import method

    session = Session(load(model), method("none"))
    return sum(len(session.push(samples)) for _ in range(chunks))


class Server:
    """The service as a child process."""

    def __init__(self, model: Path, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "sight", "serve", "-m", str(model), "--data", str(folder), "--port", "0"]
        self.log = (folder.parent / "service.log").open("wb")
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=self.log, text=True)
        address = re.search(r"http://\S+?:(\d+)", self.process.stdout.readline() if self.process.stdout else "")
        if address is None:
            raise RuntimeError(f"The service did not start; see {self.log.name}.")
        self.port = int(address[1])
        self.usage = psutil.Process(self.process.pid)
        self._await_ready()

    def _await_ready(self) -> None:
        for _ in range(200):
            try:
                self.request("/readyz")
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise RuntimeError(f"The service did not get ready; see {self.log.name}.")

    def request(self, path: str, method: str = "GET") -> Any:
        """Send a request and return the JSON of its response."""
        address = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(urllib.request.Request(address, method=method), timeout=60) as response:
            return json.load(response)

    def use(self) -> tuple[float, float]:
        """Return seconds of processor time so far and resident memory in MB."""
        times = self.usage.cpu_times()
        return times.user + times.system, self.usage.memory_info().rss / 2**20

    def stop(self) -> None:
        """Stop the service and wait for its end."""
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


@dataclass(eq=False)
class AckTally:
    """Latencies, windows and errors of the acknowledgements."""

    latency_ms: list[float] = field(default_factory=list)
    windows: dict[str, list[int]] = field(default_factory=dict)
    sent: dict[tuple[str, int], float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def take(self, text: str) -> int:
        """Count the acknowledgements of one message, and return how many there are."""
        acks, now = json.loads(text)["acks"], time.perf_counter()
        for ack in acks:
            if ack["type"] != "ack":
                self.errors.append(ack["error"])
                continue
            wearer = ack["wearer"]
            self.latency_ms.append((now - self.sent.pop((wearer, ack["seq"]))) * 1e3)
            self.windows[wearer] += [event["window"] for event in ack["events"]]
        return len(acks)


class Client:
    """Several wearers on one WebSocket.

    Parameters
    ----------
    port
        Port of the service.
    wearers
        For each wearer, when within a second it sends.
    chunks
        Number of chunks of each wearer.
    samples
        Samples of every chunk.
    tally
        Counts of the acknowledgements.
    """

    def __init__(self, port: int, wearers: dict[str, float], chunks: int, samples: np.ndarray, tally: AckTally) -> None:
        self.port, self.chunks, self.samples, self.tally = port, chunks, samples, tally
        due = [(phase + number, name, number + 1) for name, phase in wearers.items() for number in range(chunks)]
        self.due = sorted(due)

    async def run(self) -> None:
        """Send every chunk when it is due, and wait for all acknowledgements, at most half a minute."""
        address = f"ws://127.0.0.1:{self.port}/v1/ingest?acks=joined"
        async with websockets.connect(address, max_size=None, compression=None) as socket:
            reader = asyncio.create_task(self._read(socket))
            await self._send(socket)
            await asyncio.wait({reader}, timeout=30)
            reader.cancel()

    async def _send(self, socket: Any) -> None:
        start, at = time.perf_counter(), 0
        while at < len(self.due):
            now, batch = time.perf_counter() - start, []
            while at < len(self.due) and self.due[at][0] <= now:
                _, name, seq = self.due[at]
                batch.append(Chunk(name, seq, self.samples))
                at += 1
            sent = time.perf_counter()
            for chunk in batch:
                self.tally.sent[chunk.wearer, chunk.seq or 0] = sent
            if batch:
                await socket.send(pack(batch))
            await asyncio.sleep(TICK_S)

    async def _read(self, socket: Any) -> None:
        missing = len(self.due)
        while missing:
            missing -= self.tally.take(await socket.recv())


async def drive(server: Server, names: list[str], chunks: int, sockets: int, watch: Any) -> AckTally:
    """Send one chunk per second and wearer, spread evenly over the second, while `watch` observes the service."""
    samples = np.random.default_rng(1).normal(size=(RATE_HZ, CHANNELS)).astype(np.float32)
    tally = AckTally(windows={name: [] for name in names})
    phases = {name: i / len(names) for i, name in enumerate(names)}
    parts = [dict(list(phases.items())[i::sockets]) for i in range(sockets)]
    watcher = asyncio.create_task(watch())
    await asyncio.gather(*(Client(server.port, part, chunks, samples, tally).run() for part in parts if part))
    watcher.cancel()
    return tally


def measure(wearers: int, seconds: int, sockets: int, every_s: float = 1.0) -> dict[str, Any]:
    """Run one load against a new service and return its figures."""
    names = [f"wearer-{i:05d}" for i in range(wearers)]
    with tempfile.TemporaryDirectory(prefix="sight-load-") as folder:
        model = make_model(Path(folder) / "cnn.onnx")
        server = Server(model, Path(folder) / "data", "--resident", str(max(2000, wearers)))
        try:
            return _run_load(server, model, names, seconds, sockets, every_s)
        finally:
            server.stop()


def stored_events(server: Server, wearer: str) -> list[dict[str, Any]]:
    """Return all stored events of a wearer, page by page."""
    events: list[dict[str, Any]] = []
    after: int | None = -1
    while after is not None:
        page = server.request(f"/v1/wearers/{wearer}/events?after={after}")
        events += page["events"]
        after = page["next"]
    return events


def _run_load(
    server: Server, model: Path, names: list[str], seconds: int, sockets: int, every_s: float
) -> dict[str, Any]:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: server.request(f"/v1/wearers/{name}", "PUT"), names))
    trace: list[tuple[float, float, float]] = []
    start, client = time.perf_counter(), psutil.Process()

    async def watch() -> None:
        while True:
            trace.append((time.perf_counter() - start, *server.use()))
            await asyncio.sleep(every_s)

    before, own = server.use(), sum(client.cpu_times()[:2])
    tally = asyncio.run(drive(server, names, seconds, sockets, watch))
    lasted, after = time.perf_counter() - start, server.use()
    samples = np.zeros((RATE_HZ, CHANNELS), np.float32)
    each = expected_windows(model, seconds, samples)
    expected = each * len(names)
    windows = sum(map(len, tally.windows.values()))
    distinct = sum(len(set(numbers)) for numbers in tally.windows.values())
    sampled = names[:: max(1, len(names) // 50)]
    kept = [stored_events(server, name) for name in sampled]
    latency = np.array(tally.latency_ms or [np.nan])
    figures = {f"p{share:g}_ms": round(float(np.percentile(latency, share)), 1) for share in (50, 95, 99, 99.9, 100)}
    memory = np.array(trace)
    return {
        "wearers": len(names),
        "seconds": seconds,
        "chunks_sent": len(names) * seconds,
        "chunks_unacknowledged": len(tally.sent),
        "errors": len(tally.errors),
        "first_error": tally.errors[0] if tally.errors else None,
        "windows_expected": expected,
        "windows_lost": expected - distinct,
        "windows_twice": windows - distinct,
        "windows_not_kept": sum(min(each, 10_000) - len(events) for events in kept),
        **figures,
        "server_ms_per_chunk": round(1e3 * (after[0] - before[0]) / (len(names) * seconds), 3),
        "server_cores": round((after[0] - before[0]) / lasted, 3),
        "client_cores": round((sum(client.cpu_times()[:2]) - own) / lasted, 3),
        "rss_mb": {
            "start": round(before[1], 1),
            "end": round(after[1], 1),
            "most": round(float(memory[:, 2].max()), 1),
        },
        "trace_s_cpu_mb": np.round(memory[:: max(1, len(memory) // 300)], 2).tolist(),
    }


def find_limit(first: int, seconds: int, sockets: int) -> dict[str, Any]:
    """Increase the number of wearers by a quarter until p99 exceeds the goal or something is lost."""
    steps: list[dict[str, Any]] = []
    wearers = first
    while True:
        step = measure(wearers, seconds, sockets)
        step.pop("trace_s_cpu_mb")
        steps.append(step)
        show(step)
        if step["p99_ms"] > GOAL_MS or step["windows_lost"] or step["errors"]:
            break
        wearers = round(wearers * 1.25)
    held = [step["wearers"] for step in steps[:-1]]
    return {"goal_ms": GOAL_MS, "limit_wearers": max(held, default=0), "steps": steps}


def soak(minutes: float, wearers: int, sockets: int) -> dict[str, Any]:
    """Run a light load for a long time, and fit a line through the memory use after the first fifth."""
    result = measure(wearers, round(minutes * 60), sockets, every_s=5.0)
    trace = np.array(result["trace_s_cpu_mb"])
    late = trace[trace[:, 0] > trace[-1, 0] / 5]
    result["rss_slope_mb_per_hour"] = round(float(np.polyfit(late[:, 0] / 3600, late[:, 2], 1)[0]), 2)
    return result


def show(figures: dict[str, Any]) -> None:
    """Print the main figures of a run."""
    keys = ("wearers", "p50_ms", "p95_ms", "p99_ms", "p100_ms", "windows_lost", "windows_twice", "errors")
    print(
        {key: figures[key] for key in (*keys, "server_ms_per_chunk", "server_cores", "client_cores", "rss_mb")},
        flush=True,
    )


def main() -> None:
    """Parse the options, run, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wearers", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=300, help="duration; one chunk per second and wearer")
    parser.add_argument("--sockets", type=int, default=8, help="number of connections")
    parser.add_argument(
        "--find-limit", action="store_true", help="increase the number of wearers until p99 exceeds 500 ms"
    )
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="run a tenth of the wearers for this long")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON files")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    machine = {
        **version_and_date(),
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load_average_at_start": round(os.getloadavg()[0], 1),
    }
    if options.soak:
        name, result = "load_soak.json", soak(options.soak, max(1, options.wearers // 10), options.sockets)
    elif options.find_limit:
        name, result = "load_limit.json", find_limit(options.wearers, options.seconds, options.sockets)
    else:
        name, result = "load.json", measure(options.wearers, options.seconds, options.sockets)
    if "wearers" in result:
        show(result)
    print(f"Wrote {write_json(options.out / name, machine | result)}")


if __name__ == "__main__":
    main()
