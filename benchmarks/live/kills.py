"""Acknowledged means durable: kills the service with SIGKILL at random moments, and looks for every window afterwards.

    python benchmarks/live/kills.py                     # 20 kills, SQLite
    python benchmarks/live/kills.py --store redis       # 20 kills, and one of Redis itself; needs redis-server

Wearers send without pause, half of them over WebSocket with several chunks under way, half over HTTP, and send again
what was not acknowledged. At the end each acknowledged chunk must be there exactly once, and every answer, as it was
acknowledged and as it is stored, must equal to the last bit that of a session which nothing ever interrupted.
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

from sight.atomic import write_json
from sight.registry import method
from sight.serve.chunk_format import Arrival, pack
from sight.serve.model_catalog import Models
from sight.stream.event_json import as_json
from sight.stream.session import Session

RESULTS = Path(__file__).resolve().parents[1] / "results" / "live"
UNDER_WAY = 6
PACE_S = 0.015
PATIENCE_S = 60.0
AGAIN_S = 0.05
GONE = (OSError, websockets.WebSocketException, httpx.HTTPError)


# --- processes --------------------------------------------------------------------------------------------------------


def free_port() -> int:
    """Find a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """A server that is killed and started again, always at the same port."""

    def __init__(self, command: list[str], port: int, log: Path, ready: str = "") -> None:
        self.command, self.port, self.log, self.ready = command, port, log, ready
        self.start()

    def start(self) -> None:
        """Start it, and wait until it is ready: its port answers, and its page says so where it has one."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE_S
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
        """Kill it with SIGKILL."""
        self.process.kill()
        self.process.wait()


def start_service(folder: Path, model: Path, store: str, *options: str) -> Process:
    """Start ``sight serve``; it keeps all answers, to be looked at in the end."""
    port = free_port()
    command = [sys.executable, "-m", "sight", "serve", "--model", str(model), "--data", str(folder / "data")]
    command += ["--store", store, "--port", str(port), "--keep", "10000000", *options]
    return Process(command, port, folder / "service.log", "/readyz")


def start_redis(folder: Path) -> Process:
    """Start a Redis of our own that writes before it replies."""
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("redis-server is not installed; Debian: apt-get install redis-server.")
    place, port = folder / "redis", free_port()
    place.mkdir()
    options = {
        "port": port,
        "bind": "127.0.0.1",
        "dir": place,
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
    }
    flags = [text for key, value in options.items() for text in (f"--{key}", str(value))]
    return Process([program, *flags], port, folder / "redis.log")


# --- wearers ----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Wearer:
    """Sends chunks 1, 2, 3 and so on, each again until it is acknowledged.

    Attributes
    ----------
    acked
        Answers by number of the chunk.
    done, last
        Number up to which all are acknowledged, and the highest that was ever sent.
    repeats, differing
        Acknowledgements of chunks that had been applied before, and those whose answers had changed since.
    refused
        What the service said where it did not acknowledge, and how often.
    """

    name: str
    kind: str
    seed: int
    door: str
    port: int
    acked: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    done: int = 0
    last: int = 0
    repeats: int = 0
    differing: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def chunk(self, seq: int) -> np.ndarray:
        """Make the samples of a chunk, the same whenever it is asked for."""
        self.last = max(self.last, seq)
        rng = np.random.default_rng((self.seed, seq))
        level = np.random.default_rng((self.seed, seq // 12)).normal(size=3)
        return (level + rng.normal(size=(int(rng.integers(3, 30)), 3))).astype(np.float32)

    def take(self, message: dict[str, Any]) -> None:
        """Note an acknowledgement; the same chunk must be answered alike every time."""
        events = [bare(event) for event in message["events"]]
        self.repeats += message["duplicate"]
        self.differing += self.acked.setdefault(message["seq"], events) != events
        while self.done + 1 in self.acked:
            self.done += 1

    async def run(self, stop: asyncio.Event) -> None:
        """Send until told to stop and nothing is left without an acknowledgement."""
        send = self._over_socket if self.door == "websocket" else self._over_http
        while not stop.is_set() or self.done < self.last:
            with suppress(*GONE):
                await send(stop)
            await asyncio.sleep(AGAIN_S)

    async def _over_socket(self, stop: asyncio.Event) -> None:
        """Hold one connection, with several chunks under way, until something is refused."""
        address = f"ws://127.0.0.1:{self.port}/v1/ingest"
        async with websockets.connect(address, compression=None, open_timeout=5) as connection:
            sent = self.done
            while not stop.is_set() or self.done < self.last:
                while sent < self.done + UNDER_WAY and (sent < self.last or not stop.is_set()):
                    sent += 1
                    await connection.send(pack([Arrival(self.name, sent, self.chunk(sent))]))
                message = json.loads(await asyncio.wait_for(connection.recv(), PATIENCE_S))
                if message["type"] != "ack":
                    self.refused[message["error"]] += 1
                    return
                self.take(message)
                await asyncio.sleep(PACE_S)

    async def _over_http(self, stop: asyncio.Event) -> None:
        """Send chunk after chunk by plain requests, until one is refused."""
        address = f"http://127.0.0.1:{self.port}/v1/wearers/{self.name}/samples"
        headers = {"content-type": "application/octet-stream"}
        async with httpx.AsyncClient(timeout=PATIENCE_S, headers=headers, verify=False) as client:
            while not stop.is_set() or self.done < self.last:
                seq = self.done + 1
                answer = await client.post(address, params={"seq": seq}, content=self.chunk(seq).tobytes())
                if answer.status_code != 200:
                    self.refused[answer.json()["error"]] += 1
                    return
                self.take(answer.json())
                await asyncio.sleep(PACE_S)


def bare(event: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without what depends on the moment."""
    return {key: value for key, value in event.items() if key != "latency_ms"}


# --- what must be there -----------------------------------------------------------------------------------------------


def compare(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> dict[str, int]:
    """Count windows that are missing, there twice, or answered otherwise than in an uninterrupted run.

    Examples
    --------
    >>> compare([{"window": 0, "q": 1}, {"window": 0, "q": 1}, {"window": 1, "q": 2}], [{"window": 0, "q": 1},
    ...     {"window": 1, "q": 3}, {"window": 2, "q": 4}])
    {'lost': 1, 'twice': 1, 'differing': 1}
    """
    wanted = {event["window"]: event for event in expected}
    counts = Counter(event["window"] for event in found)
    return {
        "lost": len(wanted.keys() - counts.keys()),
        "twice": sum(counts.values()) - len(counts),
        "differing": sum(wanted.get(event["window"]) != event for event in found),
    }


def examine(wearer: Wearer, model: Any, base: str) -> dict[str, Any]:
    """Look at what the service holds of a wearer, beside a session that nothing interrupted."""
    session, expected = Session(model.source, method(wearer.kind)), []
    for seq in range(1, wearer.last + 1):
        expected += [bare(as_json(event, model.card.classes)) for event in session.push(wearer.chunk(seq))]
    facts = httpx.get(f"{base}/v1/wearers/{wearer.name}", timeout=PATIENCE_S).json()
    stored: list[dict[str, Any]] = []
    while True:
        asked = {"after": stored[-1]["window"] if stored else -1, "limit": 2000}
        more = httpx.get(f"{base}/v1/wearers/{wearer.name}/events", params=asked, timeout=PATIENCE_S).json()["events"]
        if not more:
            break
        stored += [bare(event) for event in more]
    acked = [event for seq in sorted(wearer.acked) for event in wearer.acked[seq]]
    return {
        "wearer": wearer.name,
        "method": wearer.kind,
        "door": wearer.door,
        "chunks": wearer.last,
        "chunks_unaccounted": abs(facts["seq"] - wearer.last) + wearer.last - len(wearer.acked),
        "windows": len(expected),
        "acknowledged": compare(acked, expected),
        "stored": compare(stored, expected),
        "answered_otherwise_when_repeated": wearer.differing,
        "repeated": wearer.repeats,
        "refused": dict(wearer.refused),
    }


def sound(report: dict[str, Any]) -> bool:
    """Tell whether nothing was lost, doubled or changed."""
    parts = (*report["acknowledged"].values(), *report["stored"].values())
    return not (any(parts) or report["chunks_unaccounted"] or report["answered_otherwise_when_repeated"])


# --- the run ----------------------------------------------------------------------------------------------------------


async def torment(service: Process, redis: Process | None, wearers: list[Wearer], kills: int, seed: int) -> None:
    """Kill the service again and again while the wearers send; Redis once, halfway."""
    rng, stop = np.random.default_rng(seed), asyncio.Event()
    senders = [asyncio.create_task(wearer.run(stop)) for wearer in wearers]
    for number in range(kills):
        if rng.random() < 0.8:  # else it may be killed while it still replays
            await progress(wearers)
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
    await asyncio.wait_for(asyncio.gather(*senders), PATIENCE_S)


async def progress(wearers: list[Wearer]) -> None:
    """Wait until half of the wearers have come further."""
    before = [wearer.done for wearer in wearers]
    while sum(wearer.done > then for wearer, then in zip(wearers, before, strict=True)) < len(wearers) / 2:
        await asyncio.sleep(0.01)


def run(kills: int, store: str, wearers: int, seed: int, model: Path | None) -> dict[str, Any]:
    """Start everything in a folder of its own, torment it, and examine what is left."""
    with tempfile.TemporaryDirectory(prefix="sight-kills-") as name:
        folder = Path(name)
        model = model or make_model(folder / "toy@1.onnx")
        redis = start_redis(folder) if store == "redis" else None
        address = f"redis://127.0.0.1:{redis.port}/0" if redis else str(folder / "store.db")
        service = start_service(folder, model, address, *(["--fsync"] if redis else []))
        base = f"http://127.0.0.1:{service.port}"
        try:
            people = [
                Wearer(
                    f"w{i}", ("sight", "keel")[i % 2], 1000 * seed + i, ("websocket", "http")[i // 2 % 2], service.port
                )
                for i in range(wearers)
            ]
            for one in people:
                made = httpx.put(f"{base}/v1/wearers/{one.name}", json={"method": one.kind}, timeout=PATIENCE_S)
                made.raise_for_status()
            asyncio.run(torment(service, redis, people, kills, seed))
            loaded = Models.load([model]).get()
            reports = [examine(one, loaded, base) for one in people]
        finally:
            service.kill()
            if redis:
                redis.kill()
    return {"store": store, "kills": kills, "sound": all(map(sound, reports)), "wearers": reports}


def make_model(path: Path) -> Path:
    """Write a small network with random features; what it answers does not matter, only that it stays."""
    from sight.sources.onnx_export import export_onnx
    from sight.testing import toy_network

    return export_onnx(toy_network("cnn"), path)


def main() -> None:
    """Read the options, run, and say what was found; exit code 1 where anything was lost or changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--store", choices=("sqlite", "redis"), default="sqlite")
    parser.add_argument("--wearers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0, help="decides the samples and the moments")
    parser.add_argument("--model", type=Path, help="a model of three channels; a small one is made if absent")
    parser.add_argument("--out", type=Path, help="where to write the report; benchmarks/results/live by default")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    report = run(asked.kills, asked.store, asked.wearers, asked.seed, asked.model)
    people = report["wearers"]
    totals = {key: sum(one[key] for one in people) for key in ("chunks", "windows", "repeated", "chunks_unaccounted")}
    path = write_json(asked.out or RESULTS / f"kills_{asked.store}.json", report | totals)
    print(f"{totals}; {'everything is there, once, to the last bit' if report['sound'] else 'NOT SOUND'}; wrote {path}")
    sys.exit(0 if report["sound"] else 1)


if __name__ == "__main__":
    main()
