"""The web pages and their files, read from the package at start and served from memory."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response

STATIC = Path(__file__).parent / "static"
PAGES = {"/": "index.html", "/device": "device.html"}
#: Content types that the table of the operating system may lack or define differently.
TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".onnx": "application/octet-stream",
    ".bin": "application/octet-stream",
}
#: Scripts, styles and connections of this origin only; WebAssembly for the page that adapts in the browser.
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
class StaticFile:
    """A file of the package as it is sent."""

    content: bytes
    content_type: str
    gzipped: bool
    etag: str

    @classmethod
    def read(cls, path: Path) -> StaticFile:
        """Read a file; one that ends with .gz is sent compressed."""
        content, gzipped = path.read_bytes(), path.suffix == ".gz"
        name = Path(path.stem) if gzipped else path
        content_type = TYPES.get(name.suffix) or mimetypes.guess_type(name.name)[0] or "application/octet-stream"
        content_type += "; charset=utf-8" if content_type.startswith("text/") else ""
        return cls(content, content_type, gzipped, f'"{hashlib.sha256(content).hexdigest()[:32]}"')

    def response(self, request: Request) -> Response:
        """Return the file, or 304 if the browser has it already."""
        headers = {"etag": self.etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == self.etag:
            return Response(status_code=304, headers=headers)
        content = self.content
        if self.gzipped:
            headers["vary"] = "accept-encoding"
            if "gzip" in request.headers.get("accept-encoding", ""):
                headers["content-encoding"] = "gzip"
            else:
                content = gzip.decompress(content)
        return Response(content, media_type=self.content_type, headers=headers)


def read_files(folder: Path = STATIC) -> dict[str, StaticFile]:
    """Return all files below a folder by their relative path, without the ending .gz."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix().removesuffix(".gz"): StaticFile.read(path) for path in files}


def make_router(files: dict[str, StaticFile]) -> APIRouter:
    """Return the routes of the pages and of the files they load."""
    router = APIRouter(include_in_schema=False)

    def add(path: str, file: StaticFile) -> None:
        def send(request: Request) -> Response:
            return file.response(request)

        router.add_api_route(path, send, methods=["GET", "HEAD"])

    for path, name in PAGES.items():
        add(path, files[name])
    for name, file in files.items():
        add(f"/static/{name}", file)
    return router
