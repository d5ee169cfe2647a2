"""Downloads from a local server: complete, wrong hash, interrupted and resumed, missing, no network."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from sight import registry
from sight.datasets.fetch import fetch, retrieve
from sight.datasets.harth import HARTH
from sight.recordings.recording_collection import Download

CONTENT = np.random.default_rng(3).bytes(1_000_003)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves the files in `server.content`; a number in `server.cuts` cuts one response to so many bytes."""

    def do_GET(self):
        server = self.server
        server.requests.append(dict(self.headers))
        body = server.content.get(self.path)
        if body is None:
            self.send_error(404)
            return
        first = 0
        if "Range" in self.headers and self.headers.get("If-Range") == server.tag:
            first = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        if first >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(body) - first))
        if server.tag:
            self.send_header("ETag", server.tag)
        self.end_headers()
        cut = server.cuts.pop(0) if server.cuts else None
        self.wfile.write(body[first:] if cut is None else body[first : first + cut])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.content = {"/data.zip": CONTENT}
        running.requests, running.cuts, running.tag = [], [], '"v1"'
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def dataset(server, monkeypatch):
    """A dataset whose official address is the local server."""

    class Small(HARTH):
        name = "small"
        folder_names = ("small",)
        downloads = (Download(url=f"{server.url}/data.zip", sha256=SHA256),)

    monkeypatch.setitem(registry.TABLES["datasets"], "small", f"{__name__}:Small")
    monkeypatch.setitem(globals(), "Small", Small)
    return Small


def test_a_file_is_downloaded_after_its_licence_is_shown(dataset, server, tmp_path):
    lines = []
    (path,) = fetch("small", tmp_path / "new" / "folder", progress=False, echo=lines.append)
    assert path == tmp_path / "new" / "folder" / "small.zip"
    assert path.read_bytes() == CONTENT
    assert [item.name for item in path.parent.iterdir()] == ["small.zip"]
    assert any("CC BY 4.0" in line for line in lines)
    assert any(dataset.citation in line for line in lines)
    assert lines[-1] == "Hash verified."
    fetch("small", path.parent, progress=False, echo=lines.append)
    assert len(server.requests) == 1  # verified, not downloaded again


def test_progress_is_shown(dataset, tmp_path, capsys):
    fetch("small", tmp_path)
    assert "Licence" in capsys.readouterr().out.split("data.zip")[0]


def test_a_wrong_hash_leaves_no_file(dataset, server, tmp_path):
    server.content["/data.zip"] = CONTENT[:-1] + b"?"
    with pytest.raises(ValueError, match="sha256"):
        fetch("small", tmp_path, progress=False, echo=str)
    assert list(tmp_path.iterdir()) == []


def test_without_hash_the_file_is_not_verified(dataset, server, tmp_path):
    dataset.downloads = (Download(url=f"{server.url}/data.zip"),)
    lines = []
    fetch("small", tmp_path, progress=False, echo=lines.append)
    assert lines[-1] == "No hash available; not verified."
    fetch("small", tmp_path, progress=False, echo=lines.append)
    assert "exists" in lines[-1]
    assert len(server.requests) == 1


def test_an_interrupted_download_is_resumed(dataset, server, tmp_path):
    server.cuts = [500_000, 300_000]
    (path,) = fetch("small", tmp_path, progress=False, echo=str)
    assert path.read_bytes() == CONTENT
    assert [request.get("Range") for request in server.requests] == [None, "bytes=500000-", "bytes=800000-"]


def test_a_failed_download_is_resumed_by_the_next_call(dataset, server, tmp_path):
    server.cuts = [400_000, 0, 0]
    with pytest.raises(ValueError, match="400000 of 1000003 bytes"):
        fetch("small", tmp_path, progress=False, echo=str)
    assert not (tmp_path / "small.zip").exists()
    (path,) = fetch("small", tmp_path, progress=False, echo=str)
    assert path.read_bytes() == CONTENT
    assert server.requests[-1]["Range"] == "bytes=400000-"
    assert [item.name for item in tmp_path.iterdir()] == ["small.zip"]


def test_a_file_that_changed_is_downloaded_whole(dataset, server, tmp_path):
    server.content["/data.zip"], server.cuts, server.tag = b"an older edition" * 50_000, [400_000, 0, 0], '"v0"'
    with pytest.raises(ValueError, match="interrupted"):
        fetch("small", tmp_path, progress=False, echo=str)
    server.content["/data.zip"], server.tag = CONTENT, '"v1"'
    (path,) = fetch("small", tmp_path, progress=False, echo=str)
    assert path.read_bytes() == CONTENT


def test_a_server_without_resume(dataset, server, tmp_path):
    server.cuts, server.tag = [400_000], ""
    (path,) = fetch("small", tmp_path, progress=False, echo=str)
    assert path.read_bytes() == CONTENT


def test_failed_downloads_name_the_official_files(dataset, server, tmp_path):
    dataset.downloads = (Download(url=f"{server.url}/gone.zip"),)
    with pytest.raises(ValueError, match=r"404 .*put S006.csv, .*into the folder") as caught:
        fetch("small", tmp_path, progress=False, echo=str)
    assert str(tmp_path / "small") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 1  # not repeated
    dataset.downloads = (Download(url="http://127.0.0.1:9/closed.zip"),)
    with pytest.raises(ValueError, match=r"no connection: .*put S006.csv, .*into the folder"):
        fetch("small", tmp_path, progress=False, echo=str)
    assert list(tmp_path.iterdir()) == []


def test_an_inner_zip_is_extracted(server, tmp_path):
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("S006.csv", "text")
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("folder/inner.zip", inner.getvalue())
    server.content["/wrapped.zip"] = outer.getvalue()
    retrieve(Download(url=f"{server.url}/wrapped.zip", inner_zip="inner.zip"), tmp_path / "x.zip")
    assert (tmp_path / "x.zip").read_bytes() == inner.getvalue()
    retrieve(Download(url=f"{server.url}/wrapped.zip", inner_zip="other.zip"), tmp_path / "y.zip")
    assert (tmp_path / "y.zip").read_bytes() == outer.getvalue()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["x.zip", "y.zip"]


def test_datasets_without_download(tmp_path):
    with pytest.raises(ValueError, match="no download"):
        fetch("synthetic", tmp_path)
