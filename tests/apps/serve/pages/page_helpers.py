"""A service on a fixed port, synthetic wearers that send to it, and waiting for what a browser shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from sight.datasets.synthetic import Synthetic
from tests.helpers.sessions import free_port


class PageService:
    """A `sight serve` process that can be killed and started again on the same port and folder."""

    def __init__(self, folder: Path, *models: Path) -> None:
        self.folder, self.models, self.port = folder, models, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token: str | None = None

    def start(self, *options: str) -> PageService:
        models = [text for path in self.models for text in ("-m", str(path))]
        command = [sys.executable, "-m", "sight", "serve", "--data", str(self.folder), "--port", str(self.port)]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen([*command, *models, *options], stdout=log, stderr=log)
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

    def request(self, path: str, content=None, method: str | None = None):
        """Send a request; return the JSON of the response."""
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.loads(response.read() or b"null")


class SyntheticWearer:
    """A wearer of the service that sends the recording of a synthetic subject."""

    def __init__(self, service: PageService, wearer: str, subject: str, method: str = "sight") -> None:
        self.service, self.wearer, self.sent = service, wearer, 0
        self.values = next(Synthetic(hours=0.3, gaps_per_hour=0).recordings(subject)).values
        service.request(f"/v1/wearers/{wearer}", {"method": method}, "PUT")

    @property
    def windows(self) -> int:
        """Number of windows predicted so far."""
        return self.sent // 50 - 1

    def send(self, seconds: int) -> list[dict]:
        """Send the next seconds of the recording; return the events."""
        events = []
        for _ in range(0, seconds, 100):
            count = min(100, seconds) * 50
            rows = self.values[self.sent : self.sent + count].astype(float).round(4).tolist()
            self.sent += count
            events += self.service.request(f"/v1/wearers/{self.wearer}/samples", {"values": rows})["events"]
        return events


def expect(locator):
    from playwright.sync_api import expect as playwright_expect

    return playwright_expect(locator)


def windows_shown(page) -> int:
    count = re.search(r"(\d+) windows", page.locator("#timeline").get_attribute("aria-label"))
    return int(count.group(1)) if count else 0


def wait_for(read, wanted, seconds: float = 15):
    """Wait until `read()` returns the wanted value; return the last value."""
    end = time.monotonic() + seconds
    while (value := read()) != wanted and time.monotonic() < end:
        time.sleep(0.05)
    return value
