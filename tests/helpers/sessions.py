"""Toy models, streams, session managers and a Redis server for tests of the service."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
import redis

from sight.apps.serve.chunks import Ack, Chunk
from sight.apps.serve.event_reader import decode
from sight.apps.serve.model_catalogue import Model, ModelCatalogue
from sight.apps.serve.session_manager import SessionManager
from sight.apps.serve.sqlite_store import SqliteStore
from sight.apps.stream.session import Session
from sight.registry import method
from sight.testing import ToySource, toy_card
from sight.types import Event
from tests.helpers.requirements import program

#: Rate of the toy model.
RATE_HZ = 10

METHODS = ("sight", "keel")


def toy_model(name: str, version: str, classes: int = 5, seed: int = 0) -> Model:
    """Return a model of three channels at 10 Hz; numpy only."""
    source = ToySource(classes=classes, dims=4 * classes, seed=seed)
    source.card = card = toy_card(classes=source.classes, rate_hz=float(RATE_HZ))
    return Model(name, version, sha256(source.projection.tobytes()).hexdigest(), source, card)


def toy_models() -> ModelCatalogue:
    """Return toy@1 and toy@2, which have the same shape, and four@1, which has one class less."""
    return ModelCatalogue([toy_model("four", "1", classes=4), toy_model("toy", "1"), toy_model("toy", "2", seed=1)])


def uninterrupted(model: Model, values: np.ndarray, name: str, time_s: np.ndarray | None = None) -> list[Event]:
    """Return the events of a session without a service, its windows encoded one by one."""
    session = Session(model.source, method(name))
    windows = session.cut(values, time_s)
    return session.predict(windows, None if session.adapter.encodes else model.encode(windows.x))


def make_stream(seed: int, seconds: int) -> np.ndarray:
    """Return samples (n, 3) of a wearer whose activities last about ten seconds."""
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.normal(size=(seconds // 10 + 1, 3)), 10 * RATE_HZ, axis=0)[: seconds * RATE_HZ]
    return (level + rng.normal(size=level.shape)).astype(np.float32)


def split_randomly(values: np.ndarray, rng: np.random.Generator, most: int = 35) -> list[np.ndarray]:
    """Split samples into parts of random length."""
    edges = np.cumsum(rng.integers(1, most, size=len(values)))
    return [part for part in np.split(values, edges[edges < len(values)]) if len(part)]


def same_events(events: Sequence[Event], expected: Sequence[Event]) -> bool:
    """Return whether two lists of events are equal bit for bit."""
    if [event.window for event in events] != [event.window for event in expected]:
        return False
    return all(
        (one.q == two.q).all()
        and (one.p == two.p).all()
        and (one.time_s, one.gap_s, dict(one.diagnostics)) == (two.time_s, two.gap_s, dict(two.diagnostics))
        for one, two in zip(events, expected, strict=True)
    )


def send(manager: SessionManager, wearer: str, values: np.ndarray, seq: int | None = None, time_s=None) -> Ack:
    """Ingest one chunk; raise its error."""
    (outcome,) = manager.ingest([Chunk(wearer, seq, values, time_s)])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def stored_events(manager: SessionManager, wearer: str, after: int = -1, limit: int = 1000) -> list[Event]:
    return decode(wearer, manager.event_rows(wearer, after, limit), after, limit)


def after_kill(manager: SessionManager, folder: Path) -> SessionManager:
    """Return a manager on a copy of the store's files at this moment, which is what a SIGKILL leaves."""
    folder.mkdir()
    for file in manager.store.path.parent.glob("store.db*"):
        shutil.copy(file, folder)
    manager.store.close()  # without saving the sessions
    return SessionManager(manager.models, SqliteStore(folder / "store.db"), snapshot_every=manager.snapshot_every)


def create(manager: SessionManager, names: Iterable[str], method_name: str = "sight") -> None:
    for name in names:
        manager.create(name, model="toy@1", method=method_name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """A Redis server on a free port, with its files in a temporary folder."""

    def __init__(self, appendfsync: str = "everysec") -> None:
        self.program = program("redis-server", package="redis-server")
        self.folder = Path(tempfile.mkdtemp(prefix="sight-redis-"))
        self.port, self.appendfsync = free_port(), appendfsync
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "appendonly": "yes",
            "appendfsync": self.appendfsync,
            "save": "",
        }
        flags = [text for key, value in options.items() for text in (f"--{key}", str(value))]
        self.process = subprocess.Popen([self.program, *flags], stdout=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with suppress(redis.RedisError), redis.Redis(port=self.port) as client:
                client.ping()  # fails while the server loads its file
                return
            time.sleep(0.02)
        raise RuntimeError("redis-server did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)
