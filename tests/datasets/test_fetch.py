"""Downloads against a local server: good, wrong hash, broken off and resumed, missing, closed network."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from sight import registry
from sight.datasets._base import Download
from sight.datasets.fetch import fetch, retrieve
from sight.datasets.harth import HARTH

CONTENT = np.random.default_rng(3).bytes(1_000_003)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves files of its server's `content`; breaks off after `cut` bytes once for each number in it."""

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
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def corpus(server, monkeypatch):
    """A corpus whose official place is the local server."""

    class Small(HARTH):
        name = "small"
        places = ("small",)
        downloads = (Download(url=f"{server.url}/data.zip", sha256=SHA256),)

    monkeypatch.setitem(registry.TABLES["datasets"], "small", f"{__name__}:Small")
    monkeypatch.setitem(globals(), "Small", Small)
    return Small


def test_a_good_file_arrives_after_its_licence_was_shown(corpus, server, tmp_path):
    lines = []
    (path,) = fetch("small", tmp_path / "new" / "folder", progress=False, say=lines.append)
    assert path == tmp_path / "new" / "folder" / "small.zip"
    assert path.read_bytes() == CONTENT
    assert [item.name for item in path.parent.iterdir()] == ["small.zip"]
    assert any("CC BY 4.0" in line for line in lines)
    assert any(corpus.citation in line for line in lines)
    assert lines[-1] == "Hash verified."
    fetch("small", path.parent, progress=False, say=lines.append)
    assert len(server.requests) == 1  # verified again, not downloaded again


def test_progress_is_shown(corpus, tmp_path, capsys):
    fetch("small", tmp_path)
    assert "Licence" in capsys.readouterr().out.split("data.zip")[0]


def test_a_wrong_hash_leaves_nothing_behind(corpus, server, tmp_path):
    server.content["/data.zip"] = CONTENT[:-1] + b"?"
    with pytest.raises(ValueError, match="another hash than sha256"):
        fetch("small", tmp_path, progress=False, say=str)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_hash_is_said(corpus, server, tmp_path):
    corpus.downloads = (Download(url=f"{server.url}/data.zip"),)
    lines = []
    fetch("small", tmp_path, progress=False, say=lines.append)
    assert lines[-1] == "Hash not known; not verified."
    fetch("small", tmp_path, progress=False, say=lines.append)
    assert "is there already" in lines[-1]
    assert len(server.requests) == 1


def test_broken_off_goes_on_by_itself(corpus, server, tmp_path):
    server.cuts = [500_000, 300_000]
    (path,) = fetch("small", tmp_path, progress=False, say=str)
    assert path.read_bytes() == CONTENT
    assert [request.get("Range") for request in server.requests] == [None, "bytes=500000-", "bytes=800000-"]


def test_broken_off_for_good_is_resumed_by_the_next_call(corpus, server, tmp_path):
    server.cuts = [400_000, 0, 0]
    with pytest.raises(ValueError, match="broke off after 400000 of 1000003 bytes"):
        fetch("small", tmp_path, progress=False, say=str)
    assert not (tmp_path / "small.zip").exists()
    (path,) = fetch("small", tmp_path, progress=False, say=str)
    assert path.read_bytes() == CONTENT
    assert server.requests[-1]["Range"] == "bytes=400000-"
    assert [item.name for item in tmp_path.iterdir()] == ["small.zip"]


def test_a_file_that_changed_meanwhile_is_taken_whole(corpus, server, tmp_path):
    server.content["/data.zip"], server.cuts, server.tag = b"an older edition" * 50_000, [400_000, 0, 0], '"v0"'
    with pytest.raises(ValueError, match="broke off"):
        fetch("small", tmp_path, progress=False, say=str)
    server.content["/data.zip"], server.tag = CONTENT, '"v1"'
    (path,) = fetch("small", tmp_path, progress=False, say=str)
    assert path.read_bytes() == CONTENT


def test_a_server_that_cannot_resume_starts_over(corpus, server, tmp_path):
    server.cuts, server.tag = [400_000], ""
    (path,) = fetch("small", tmp_path, progress=False, say=str)
    assert path.read_bytes() == CONTENT


def test_missing_and_closed_say_which_files_go_where(corpus, server, tmp_path):
    corpus.downloads = (Download(url=f"{server.url}/gone.zip"),)
    with pytest.raises(ValueError, match=r"answers 404 .*put S006.csv, .*into the folder") as caught:
        fetch("small", tmp_path, progress=False, say=str)
    assert str(tmp_path / "small") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 1  # a clear answer is not asked for again
    corpus.downloads = (Download(url="http://127.0.0.1:9/closed.zip"),)
    with pytest.raises(ValueError, match=r"no connection: .*put S006.csv, .*into the folder"):
        fetch("small", tmp_path, progress=False, say=str)
    assert list(tmp_path.iterdir()) == []


def test_an_inner_zip_is_taken_out(server, tmp_path):
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("S006.csv", "text")
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("folder/inner.zip", inner.getvalue())
    server.content["/wrapped.zip"] = outer.getvalue()
    retrieve(Download(url=f"{server.url}/wrapped.zip", inside="inner.zip"), tmp_path / "x.zip")
    assert (tmp_path / "x.zip").read_bytes() == inner.getvalue()
    retrieve(Download(url=f"{server.url}/wrapped.zip", inside="other.zip"), tmp_path / "y.zip")
    assert (tmp_path / "y.zip").read_bytes() == outer.getvalue()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["x.zip", "y.zip"]


def test_what_is_made_here_is_not_fetched(tmp_path):
    with pytest.raises(ValueError, match="not downloaded from anywhere"):
        fetch("synthetic", tmp_path)
