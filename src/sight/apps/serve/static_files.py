"""The web pages, the files they load, and the headers of every response."""

import gzip
import mimetypes
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

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


class PackageFiles(StaticFiles):
    """Files of this package, revalidated at each use; NAME is served from NAME.gz if only that exists."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)
        self._packed = {file.relative_to(STATIC).with_suffix("") for file in STATIC.rglob("*.gz")}

    async def get_response(self, path: str, scope: Scope) -> Response:
        packed = Path(path) in self._packed
        response = await super().get_response(f"{path}.gz" if packed else path, scope)
        response.headers["cache-control"] = "no-cache"
        if packed:
            if "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
                content = gzip.decompress((STATIC / f"{path}.gz").read_bytes())
                return Response(content, media_type=response.media_type, headers={"cache-control": "no-cache"})
            response.headers.update({"content-encoding": "gzip", "vary": "accept-encoding"})
        return response


def add_pages(app: FastAPI) -> None:
    for suffix, content_type in TYPES.items():
        mimetypes.add_type(content_type, suffix)
    files = PackageFiles()

    def add_page(path: str, name: str) -> None:
        async def send(request: Request) -> Response:
            return await files.get_response(name, request.scope)

        app.add_api_route(path, send, methods=["GET"], include_in_schema=False)

    for path, name in PAGES.items():
        add_page(path, name)
    app.mount("/static", files)
