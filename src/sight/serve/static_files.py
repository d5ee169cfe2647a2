"""The pages and their files: read from the package once, served from memory, so that no request ever names a path."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, Response

STATIC = Path(__file__).parent / "static"
PAGES = {"/": "index.html", "/device": "device.html"}
#: Types that the machine's own table may not know, or may tell otherwise.
TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".onnx": "application/octet-stream",
    ".bin": "application/octet-stream",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
#: Scripts, styles and connections of this origin alone; WebAssembly for the page that adapts in the browser.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "accelerometer=(self), gyroscope=(self), camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True)
class File:
    """A file of the package as it is sent."""

    content: bytes
    kind: str
    packed: bool
    tag: str

    @classmethod
    def read(cls, path: Path) -> File:
        """Read a file; one that ends with .gz is sent as it is, to be unpacked by the browser."""
        content, packed = path.read_bytes(), path.suffix == ".gz"
        named = Path(path.stem) if packed else path
        kind = TYPES.get(named.suffix) or mimetypes.guess_type(named.name)[0] or "application/octet-stream"
        kind += "; charset=utf-8" if kind.startswith("text/") else ""
        return cls(content, kind, packed, f'"{hashlib.sha256(content).hexdigest()[:32]}"')

    def answer(self, request: Request) -> Response:
        """Send it, or say that the browser has it already."""
        headers = {"etag": self.tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        content = self.content
        if self.packed:
            headers["vary"] = "accept-encoding"
            if "gzip" in request.headers.get("accept-encoding", ""):
                headers["content-encoding"] = "gzip"
            else:
                content = gzip.decompress(content)
        return Response(content, media_type=self.kind, headers=headers)


def manifest(folder: Path = STATIC) -> dict[str, File]:
    """Read all files of the package's folder, by their name below it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix().removesuffix(".gz"): File.read(path) for path in files}


def router(files: dict[str, File]) -> APIRouter:
    """Make the routes of the pages and of the files they load."""
    routes = APIRouter(include_in_schema=False)

    def page(name: str) -> Callable[[Request], Response]:
        def send(request: Request) -> Response:
            if name not in files:
                raise HTTPException(404)
            return files[name].answer(request)

        return send

    for path, name in PAGES.items():
        routes.add_api_route(path, page(name), methods=["GET", "HEAD"])
    for name in files:
        routes.add_api_route(f"/static/{name}", page(name), methods=["GET", "HEAD"])
    return routes
