"""HTTP client of the service that repeats requests while the service is busy or restarts; base install only."""

import json
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import numpy as np

from sight.models.card import ModelCard
from sight.types import Array

#: Statuses of a service, or of a proxy before it, that is busy, restarting or overloaded.
BUSY = (408, 429, 502, 503, 504)
TIMEOUT_S = 60.0
#: Seconds before a request is sent again: the first, doubled each time up to the longest.
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 10.0
#: Relative difference up to which a recording may be sent to a wearer that was created with another rate.
RATE_TOLERANCE = 0.02


class RequestRefusedError(ValueError):
    """A request that the service refused; the text is the service's."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Client:
    """HTTP client of a service.

    The token needs the scope ingest. A request is repeated for `retry_s` seconds while the service is busy or cannot be
    reached; `on_wait` is called with the reason before each pause.
    """

    def __init__(
        self, url: str, token: str = "", *, retry_s: float = 300.0, on_wait: Callable[[str], object] = lambda _: None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"Expected the address of a service such as http://127.0.0.1:8000, got {url!r}.")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self.url, self.retry_s, self.on_wait = url.rstrip("/"), retry_s, on_wait
        self._path, self._connection = parts.path.rstrip("/"), kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def card(self, model: str | None = None) -> ModelCard:
        """Return the card of a model, by default the first, without normalisation."""
        try:
            return self._card(self._request("GET", "/v1/models"), model)
        except (KeyError, TypeError):  # JSON of another program
            raise ValueError(f"{self.url} does not respond as a service of sight does; check the address.") from None

    def _card(self, content: dict[str, Any], model: str | None) -> ModelCard:
        names = {entry[key]: entry for entry in content["models"] for key in ("name", "id")}
        wanted = model or content["default"]
        if wanted not in names:
            raise ValueError(f"{self.url} has no model {wanted!r}; its models: {', '.join(sorted(names))}.")
        entry = names[wanted]
        values: dict[str, Any] = {key: tuple(entry[key]) for key in ("classes", "channels", "units")}
        values |= {key: entry[key] for key in ("encoder", "dataset", "rate_hz", "window_s", "stride_s")}
        channels = len(entry["channels"])
        return ModelCard(encoder_args={}, mean=(0.0,) * channels, std=(1.0,) * channels, **values)

    def create(self, wearer: str, *, rate_hz: float, model: str | None = None) -> dict[str, Any]:
        """Create a wearer, or find it if it exists with nearly this rate; return its description."""
        path, options = f"/v1/wearers/{wearer}", {} if model is None else {"model": model}
        try:
            return self._request("PUT", path, json.dumps(options | {"rate_hz": rate_hz}).encode())
        except RequestRefusedError as refused:
            if refused.status != 409:
                raise
            info = self._request("PUT", path, json.dumps(options).encode())
            if abs(info["rate_hz"] / rate_hz - 1) > RATE_TOLERANCE:
                raise
            return info

    def send(self, wearer: str, seq: int, values: Array, time_s: Array) -> dict[str, Any]:
        body = np.ascontiguousarray(time_s, "<f8").tobytes() + np.ascontiguousarray(values, "<f4").tobytes()
        query = urlencode({"seq": seq, "times": "true"})
        return self._request("POST", f"/v1/wearers/{wearer}/samples?{query}", body, "application/octet-stream")

    def _request(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        end = time.monotonic() + self.retry_s
        wait_s = 0.0  # an idle connection may have been closed in the meantime: connect again at once
        while True:
            try:
                status, content = self._exchange(method, path, body, content_type)
                reason = content.get("error") or f"The service responded with status {status}."
                if status < 300 and "error" not in content:
                    return content
                if status not in BUSY:
                    raise RequestRefusedError(status, reason)
                wait_s = max(wait_s, FIRST_WAIT_S)
            except (OSError, HTTPException) as error:
                self._connection.close()
                reason = f"{self.url} cannot be reached ({error})."
            if time.monotonic() + wait_s > end:
                raise ConnectionError(f"{reason.rstrip('.')}; run the same command again when the service runs.")
            if wait_s:
                self.on_wait(reason)
                time.sleep(wait_s)
            wait_s = min(max(2 * wait_s, FIRST_WAIT_S), LONGEST_WAIT_S)

    def _exchange(self, method: str, path: str, body: bytes | None, content_type: str) -> tuple[int, dict[str, Any]]:
        headers = self._headers | ({} if body is None else {"content-type": content_type})
        self._connection.request(method, self._path + path, body, headers)
        response = self._connection.getresponse()
        data = response.read()
        try:
            content = json.loads(data)
        except ValueError:  # of a proxy, or of another program
            content = None
        if not isinstance(content, dict):
            content = {"error": f"{self.url} responded with status {response.status} and no JSON; is it a service?"}
        return response.status, content
