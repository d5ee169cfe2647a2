"""A real service, people who live through it, and patience with what a browser shows."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from sight.datasets.synthetic import Synthetic


class Service:
    """A `sight serve` of our own, on one port and one folder through all its lives."""

    def __init__(self, folder: Path, *models: Path) -> None:
        self.folder, self.models = folder, models
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.token: str | None = None

    def start(self, *options: str) -> Service:
        named = [text for path in self.models for text in ("-m", str(path))]
        command = [sys.executable, "-m", "sight", "serve", "--data", str(self.folder), "--port", str(self.port)]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen([*command, *named, *options], stdout=log, stderr=log)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.url}/readyz", timeout=2).close()
                return self
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        raise RuntimeError(f"the service did not start: {(self.folder / 'log').read_text()}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, path: str, content=None, method: str | None = None):
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")


class Life:
    """Somebody's day, sent to the service second by second."""

    def __init__(self, service: Service, wearer: str, person: str) -> None:
        self.service, self.wearer, self.at = service, wearer, 0
        self.values = next(Synthetic(hours=0.5, gaps_per_hour=0).recordings(person)).values
        service.ask(f"/v1/wearers/{wearer}", {"method": "sight"}, "PUT")

    def live(self, seconds: int) -> list[dict]:
        """Send so many seconds; return the answers."""
        events = []
        for _ in range(0, seconds, 100):
            step = min(100, seconds) * 50
            rows = self.values[self.at : self.at + step].astype(float).round(4).tolist()
            self.at += step
            events += self.service.ask(f"/v1/wearers/{self.wearer}/samples", {"values": rows})["events"]
        return events


def expect(locator):
    from playwright.sync_api import expect as really

    return really(locator)


def windows_shown(page) -> int:
    found = re.search(r"(\d+) windows", page.locator("#timeline").get_attribute("aria-label"))
    return int(found.group(1)) if found else 0


def until(ask, wanted, seconds: float = 15):
    """Wait until `ask` answers as wanted; return what it said last."""
    end = time.monotonic() + seconds
    while (said := ask()) != wanted and time.monotonic() < end:
        time.sleep(0.05)
    return said
