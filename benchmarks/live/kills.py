"""Kills the service with SIGKILL at random moments, and checks that every acknowledged chunk is durable.

    python -m benchmarks.live.kills                     # 20 kills, SQLite
    python -m benchmarks.live.kills --store redis       # 20 kills, and one of Redis itself; needs redis-server

Wearers send all the time, half of them over WebSocket with several chunks pending, half over HTTP, and repeat chunks
that were not acknowledged. At the end each acknowledged chunk must be stored exactly once, and every event, as
acknowledged and as stored, must equal that of an uninterrupted session bit for bit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import websockets
from benchmarks.version_and_date import version_and_date

from sight._util.atomic import write_json
from sight.apps.serve.chunks import Chunk
from sight.apps.serve.message_format import pack
from sight.apps.serve.model_catalogue import Model, ModelCatalogue
from sight.apps.stream.event_json import as_json
from sight.apps.stream.session import Session
from sight.registry import method

RESULTS = Path(__file__).resolve().parents[1] / "results" / "live"
#: Chunks of one WebSocket without an acknowledgement.
MAX_PENDING = 6
#: Pause after each acknowledgement, pause before connecting again, and longest wait for a reply.
PACE_S, RETRY_S, TIMEOUT_S = 0.015, 0.05, 60.0
CONNECTION_ERRORS = (OSError, websockets.WebSocketException, httpx.HTTPError)


# --- processes --------------------------------------------------------------------------------------------------------


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """A server process that can be killed and started again on the same port."""

    def __init__(self, command: list[str], port: int, log: Path, ready: str = "") -> None:
        self.command, self.port, self.log, self.ready = command, port, log, ready
        self.start()

    def start(self) -> None:
        """Start the process and wait until its port accepts connections, and its readiness path responds if given."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(OSError, httpx.HTTPError):
                if self.ready:
                    httpx.get(f"http://127.0.0.1:{self.port}{self.ready}", timeout=1).raise_for_status()
                else:
                    socket.create_connection(("127.0.0.1", self.port)).close()
                return
            time.sleep(0.02)
        raise RuntimeError(f"{self.command[0]} did not start:\n{self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.process.kill()
        self.process.wait()


def start_service(folder: Path, model: Path, store: str, *options: str) -> Process:
    """Start ``sight serve`` so that it stores all events."""
    port = free_port()
    command = [sys.executable, "-m", "sight", "serve", "--model", str(model), "--data", str(folder / "data")]
    command += ["--store", store, "--port", str(port), "--keep", "10000000", *options]
    return Process(command, port, folder / "service.log", "/readyz")


def start_redis(folder: Path) -> Process:
    """Start a Redis server that writes to disk before it replies."""
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("redis-server is not installed; Debian: apt-get install redis-server.")
    data, port = folder / "redis", free_port()
    data.mkdir()
    options = {
        "port": port,
        "bind": "127.0.0.1",
        "dir": data,
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
    }
    flags = [text for key, value in options.items() for text in (f"--{key}", str(value))]
    return Process([program, *flags], port, folder / "redis.log")


# --- wearers ----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Wearer:
    """Sends chunks 1, 2, 3 and so on, and repeats each until it is acknowledged.

    Attributes
    ----------
    acked
        Events by number of the chunk.
    done, last
        Number up to which all chunks are acknowledged, and the highest number sent.
    repeats, differing
        Acknowledgements of chunks that had been applied before, and those whose events had changed.
    refused
        Errors of the service, with their counts.
    """

    name: str
    method: str
    seed: int
    transport: str
    port: int
    acked: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    done: int = 0
    last: int = 0
    repeats: int = 0
    differing: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def chunk(self, seq: int) -> np.ndarray:
        """Return the samples of a chunk, the same for each call."""
        self.last = max(self.last, seq)
        rng = np.random.default_rng((self.seed, seq))
        level = np.random.default_rng((self.seed, seq // 12)).normal(size=3)
        return (level + rng.normal(size=(int(rng.integers(3, 30)), 3))).astype(np.float32)

    def take(self, message: dict[str, Any]) -> None:
        """Record an acknowledgement; the events of a chunk must be the same every time."""
        events = [without_latency(event) for event in message["events"]]
        self.repeats += message["duplicate"]
        self.differing += self.acked.setdefault(message["seq"], events) != events
        while self.done + 1 in self.acked:
            self.done += 1

    async def run(self, stop: asyncio.Event) -> None:
        """Send until `stop` is set and every chunk is acknowledged."""
        send = self._over_socket if self.transport == "websocket" else self._over_http
        while not stop.is_set() or self.done < self.last:
            with suppress(*CONNECTION_ERRORS):
                await send(stop)
            await asyncio.sleep(RETRY_S)

    async def _over_socket(self, stop: asyncio.Event) -> None:
        """Send over one WebSocket, with several chunks pending, until something is refused."""
        address = f"ws://127.0.0.1:{self.port}/v1/ingest"
        async with websockets.connect(address, compression=None, open_timeout=5) as connection:
            sent = self.done
            while not stop.is_set() or self.done < self.last:
                while sent < self.done + MAX_PENDING and (sent < self.last or not stop.is_set()):
                    sent += 1
                    await connection.send(pack([Chunk(self.name, sent, self.chunk(sent))]))
                message = json.loads(await asyncio.wait_for(connection.recv(), TIMEOUT_S))
                if message["type"] != "ack":
                    self.refused[message["error"]] += 1
                    return
                self.take(message)
                await asyncio.sleep(PACE_S)

    async def _over_http(self, stop: asyncio.Event) -> None:
        """Send one chunk per HTTP request until one is refused."""
        address = f"http://127.0.0.1:{self.port}/v1/wearers/{self.name}/samples"
        headers = {"content-type": "application/octet-stream"}
        async with httpx.AsyncClient(timeout=TIMEOUT_S, headers=headers, verify=False) as client:
            while not stop.is_set() or self.done < self.last:
                seq = self.done + 1
                response = await client.post(address, params={"seq": seq}, content=self.chunk(seq).tobytes())
                if response.status_code != 200:
                    self.refused[response.json()["error"]] += 1
                    return
                self.take(response.json())
                await asyncio.sleep(PACE_S)


def without_latency(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without its latency, which differs between runs."""
    return {key: value for key, value in event.items() if key != "latency_ms"}


# --- checks -----------------------------------------------------------------------------------------------------------


def compare(events: list[dict[str, Any]], expected: list[dict[str, Any]]) -> dict[str, int]:
    """Count windows that are missing, duplicated, or different from an uninterrupted run.

    Examples
    --------
    >>> compare([{"window": 0, "q": 1}, {"window": 0, "q": 1}, {"window": 1, "q": 2}], [{"window": 0, "q": 1},
    ...     {"window": 1, "q": 3}, {"window": 2, "q": 4}])
    {'lost': 1, 'twice': 1, 'differing': 1}
    """
    by_window = {event["window"]: event for event in expected}
    counts = Counter(event["window"] for event in events)
    return {
        "lost": len(by_window.keys() - counts.keys()),
        "twice": sum(counts.values()) - len(counts),
        "differing": sum(by_window.get(event["window"]) != event for event in events),
    }


def check(wearer: Wearer, model: Model, base: str) -> dict[str, Any]:
    """Compare what the service acknowledged and stored for a wearer with an uninterrupted session."""
    session, expected = Session(model.source, method(wearer.method)), []
    for seq in range(1, wearer.last + 1):
        expected += [without_latency(as_json(event, model.card.classes)) for event in session.push(wearer.chunk(seq))]
    info = httpx.get(f"{base}/v1/wearers/{wearer.name}", timeout=TIMEOUT_S).json()
    stored: list[dict[str, Any]] = []
    while True:
        query = {"after": stored[-1]["window"] if stored else -1, "limit": 1000}
        more = httpx.get(f"{base}/v1/wearers/{wearer.name}/events", params=query, timeout=TIMEOUT_S).json()["events"]
        if not more:
            break
        stored += [without_latency(event) for event in more]
    acked = [event for seq in sorted(wearer.acked) for event in wearer.acked[seq]]
    return {
        "wearer": wearer.name,
        "method": wearer.method,
        "transport": wearer.transport,
        "chunks": wearer.last,
        "chunks_unaccounted": abs(info["seq"] - wearer.last) + wearer.last - len(wearer.acked),
        "windows": len(expected),
        "acknowledged": compare(acked, expected),
        "stored": compare(stored, expected),
        "changed_when_repeated": wearer.differing,
        "repeated": wearer.repeats,
        "refused": dict(wearer.refused),
    }


def sound(report: dict[str, Any]) -> bool:
    """Return whether nothing was lost, duplicated or changed."""
    parts = (*report["acknowledged"].values(), *report["stored"].values())
    return not (any(parts) or report["chunks_unaccounted"] or report["changed_when_repeated"])


# --- the run ----------------------------------------------------------------------------------------------------------


async def kill_repeatedly(
    service: Process, redis: Process | None, wearers: list[Wearer], kills: int, seed: int
) -> None:
    """Kill the service many times while the wearers send, and Redis once, halfway."""
    rng, stop = np.random.default_rng(seed), asyncio.Event()
    senders = [asyncio.create_task(wearer.run(stop)) for wearer in wearers]
    for number in range(kills):
        if rng.random() < 0.8:  # otherwise it may be killed while it replays its log
            await wait_for_progress(wearers)
        await asyncio.sleep(float(rng.uniform(0.05, 1.5)))
        if redis is not None and number == kills // 2:
            redis.kill()
            await asyncio.sleep(float(rng.uniform(0.05, 0.5)))
            await asyncio.to_thread(redis.start)
            await asyncio.sleep(float(rng.uniform(0.05, 0.5)))
        service.kill()
        await asyncio.to_thread(service.start)
        print(f"kill {number + 1} of {kills}: {sum(wearer.done for wearer in wearers)} chunks acknowledged", flush=True)
    await asyncio.sleep(0.5)
    stop.set()
    await asyncio.wait_for(asyncio.gather(*senders), TIMEOUT_S)


async def wait_for_progress(wearers: list[Wearer]) -> None:
    """Wait until half of the wearers got another acknowledgement."""
    before = [wearer.done for wearer in wearers]
    while sum(wearer.done > then for wearer, then in zip(wearers, before, strict=True)) < len(wearers) / 2:
        await asyncio.sleep(0.01)


def run(kills: int, store: str, wearers: int, seed: int, model: Path | None) -> dict[str, Any]:
    """Start everything in a temporary folder, kill it repeatedly, and check what is stored."""
    with tempfile.TemporaryDirectory(prefix="sight-kills-") as name:
        folder = Path(name)
        model = model or make_model(folder / "toy@1.onnx")
        redis = start_redis(folder) if store == "redis" else None
        address = f"redis://127.0.0.1:{redis.port}/0" if redis else str(folder / "store.db")
        service = start_service(folder, model, address, *(["--fsync"] if redis else []))
        base = f"http://127.0.0.1:{service.port}"
        try:
            senders = [
                Wearer(
                    f"w{i}", ("sight", "keel")[i % 2], 1000 * seed + i, ("websocket", "http")[i // 2 % 2], service.port
                )
                for i in range(wearers)
            ]
            for wearer in senders:
                options = {"method": wearer.method}
                httpx.put(f"{base}/v1/wearers/{wearer.name}", json=options, timeout=TIMEOUT_S).raise_for_status()
            asyncio.run(kill_repeatedly(service, redis, senders, kills, seed))
            loaded = ModelCatalogue.load([model]).get()
            reports = [check(wearer, loaded, base) for wearer in senders]
        finally:
            service.kill()
            if redis:
                redis.kill()
    return {"store": store, "kills": kills, "sound": all(map(sound, reports)), "wearers": reports}


def make_model(path: Path) -> Path:
    """Export a small network with random weights; accuracy does not matter here."""
    from sight.models.export.onnx import export_onnx
    from sight.testing import toy_network

    return export_onnx(toy_network("cnn"), path)


def main() -> None:
    """Parse the options, run, and write the report; exit with 1 if anything was lost or changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--store", choices=("sqlite", "redis"), default="sqlite")
    parser.add_argument("--wearers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0, help="seed of samples and times of kills")
    parser.add_argument("--model", type=Path, help="model of three channels; a small one is made if absent")
    parser.add_argument("--out", type=Path, help="where to write the report; benchmarks/results/live by default")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    report = run(options.kills, options.store, options.wearers, options.seed, options.model)
    totals = {
        key: sum(row[key] for row in report["wearers"])
        for key in ("chunks", "windows", "repeated", "chunks_unaccounted")
    }
    path = write_json(options.out or RESULTS / f"kills_{options.store}.json", version_and_date() | report | totals)
    print(f"{totals}; {'nothing lost, duplicated or changed' if report['sound'] else 'NOT SOUND'}; wrote {path}")
    sys.exit(0 if report["sound"] else 1)


if __name__ == "__main__":
    main()
