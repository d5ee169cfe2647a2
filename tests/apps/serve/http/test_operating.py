"""Operating the service: errors, logs, metrics, readiness, and the headers of its pages."""

from __future__ import annotations

import gzip
import json
import platform
import re
import threading

import numpy as np
import pytest

from sight import __version__
from sight.apps.serve import static_files
from sight.apps.serve.errors import INTERNAL, STORE_FAILED
from sight.apps.serve.limits import WEARER_RULE
from sight.apps.serve.metrics_and_logs import JsonLines
from sight.methods.compiled import adapter as _compiled_adapter
from sight.methods.compiled.backend import choose
from tests.helpers.services import post, put_wearers, running
from tests.helpers.sessions import make_stream


@pytest.mark.parametrize("path", ["/v1/wearers", "/v1/wearers/anna", "/v1/wearers/anna/events", "/metrics"])
def test_an_internal_error_is_logged_and_has_the_usual_headers(client, monkeypatch, caplog, path):
    put_wearers(client, "anna")
    assert client.get(path).status_code == 200

    async def failing(*_, **__):
        raise ZeroDivisionError("0.123456 is part of a sample")

    monkeypatch.setattr(client.service.queue, "call", failing)
    response = client.get(path)
    assert (response.status_code, response.json()) == (500, {"error": INTERNAL})
    assert static_files.HEADERS.items() <= dict(response.headers).items()
    assert response.headers["cache-control"] == "no-store"
    (record,) = (record for record in caplog.records if record.message == "request failed")
    assert (record.request, record.path) == (response.headers["x-request-id"], path)
    line = JsonLines().format(record)
    assert json.loads(line)["exception"] == "builtins.ZeroDivisionError"
    assert "failing" in json.loads(line)["at"][-1]
    assert "0.123456" not in line
    monkeypatch.undo()
    assert client.get(path).status_code == 200


def test_a_store_that_fails_is_logged_once_and_reported(client, caplog):
    put_wearers(client, "anna")
    client.service.manager.store._db.execute("PRAGMA max_page_count = 1")  # like a full disk
    values = make_stream(6, 3).repeat(200, axis=0).tolist()
    response = client.post("/v1/wearers/anna/samples", json={"values": values})
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert response.json()["error"] == STORE_FAILED
    with client.websocket_connect("/v1/ingest") as socket:
        socket.send_json({"type": "samples", "wearer": "anna", "seq": 1, "values": values})
        assert socket.receive_json()["error"] == STORE_FAILED
    posted, sent = (record for record in caplog.records if record.message == "store failed")
    assert (posted.path, sent.wearer) == ("/v1/wearers/anna/samples", "anna")
    line = json.loads(JsonLines().format(posted))
    assert (line["level"], line["exception"]) == ("error", "sqlite3.OperationalError")
    assert "sqlite_store.py" in line["at"][-1]
    assert "database or disk is full" in line["reason"]


def test_a_batch_that_fails_refuses_its_chunks_and_the_next_one_is_applied(client, caplog, monkeypatch):
    put_wearers(client, "anna")

    def failing(_):
        raise ZeroDivisionError

    body = {"seq": 1, "values": make_stream(6, 3).tolist()}
    with monkeypatch.context() as patch:
        patch.setattr(client.service.manager, "ingest", failing)
        response = client.post("/v1/wearers/anna/samples", json=body)
    assert (response.status_code, response.json()["error"]) == (500, INTERNAL)
    assert "batch failed" in [record.message for record in caplog.records]
    assert client.post("/v1/wearers/anna/samples", json=body).status_code == 200


def test_bodies_of_another_type_are_refused(client):
    put_wearers(client, "anna")
    header = {"content-type": "text/csv"}
    assert client.put("/v1/wearers/ben", content=b"1,2", headers=header).status_code == 415
    assert client.post("/v1/wearers/anna/samples?seq=1", content=b"1,2", headers=header).status_code == 415
    assert client.get("/v1/wearers/ben").status_code == 404


def test_compressed_bodies_are_refused(client):
    put_wearers(client, "anna")
    body = gzip.compress(json.dumps({"seq": 1, "values": [[0, 0, 0]]}).encode())
    for url, method in (("/v1/wearers/anna/samples", "POST"), ("/v1/wearers/ben", "PUT")):
        response = client.request(method, url, content=body, headers={"content-encoding": "gzip"})
        assert (response.status_code, "'gzip'; leave it out" in response.json()["error"]) == (415, True)
    plain = client.post(
        "/v1/wearers/anna/samples", json={"values": [[0, 0, 0]]}, headers={"content-encoding": "identity"}
    )
    assert plain.status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/v1/models", "/v1/wearers/anna", "/", "/absent"])
def test_head_is_get_without_a_body(client, path):
    put_wearers(client, "anna")
    whole, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert client.head("/v1/wearers/anna/samples").status_code == 405


def test_a_service_that_stops_refuses_chunks(client):
    put_wearers(client, "anna")
    body = {"seq": 1, "values": make_stream(6, 3).tolist()}
    client.service.ready = False
    response = client.post("/v1/wearers/anna/samples", json=body)
    assert (response.status_code, client.get("/readyz").status_code) == (503, 503)
    client.service.ready = True
    assert client.post("/v1/wearers/anna/samples", json=body).json()["seq"] == 1


def test_a_failing_publication_delays_no_acknowledgement(client, caplog):
    put_wearers(client, "anna")

    def failing(*_):
        raise ZeroDivisionError

    client.service.queue.on_ack = failing
    for seq in (1, 2):
        assert post(client, "anna", make_stream(6, 3), seq=seq)["seq"] == seq
    assert [record.message for record in caplog.records].count("publication failed") == 2


def test_the_service_is_ready_once_its_kernels_are_compiled(tmp_path, monkeypatch):
    monkeypatch.delenv("SIGHT_KERNEL", raising=False)
    compiled = []
    monkeypatch.setattr(_compiled_adapter, "choose", lambda *given: compiled.append(given) or choose(*given))
    with running(tmp_path) as client:
        assert client.get("/readyz").status_code == 200
        at_start = len(compiled)
        assert at_start == len(list(client.service.manager.models))
        assert client.put("/v1/wearers/anna", json={"method": "sight"}).status_code == 200
        assert len(compiled) == at_start + 1  # before the session manager needs it


def test_creation_is_logged_once(client, caplog):
    with caplog.at_level("INFO", logger="sight.apps.serve"):
        for _ in range(3):
            assert client.put("/v1/wearers/anna").status_code == 200
    assert [record.message for record in caplog.records].count("created") == 1


def test_an_invalid_name_of_a_wearer_is_explained(client):
    response = client.put(f"/v1/wearers/{'x' * 65}")
    assert (response.status_code, response.json()) == (422, {"error": WEARER_RULE})


def test_metrics_and_health(client, caplog):
    put_wearers(client, "anna")
    with caplog.at_level("INFO", logger="sight.apps.serve"):
        post(client, "anna", np.full((40, 3), 0.123456), seq=1)
        post(client, "anna", np.full((40, 3), 0.123456), seq=1)
        client.delete("/v1/wearers/anna")
    text = client.get("/metrics").text
    for line in (
        'sight_chunks_total{duplicate="false"} 1.0',
        'sight_chunks_total{duplicate="true"} 1.0',
        "sight_windows_total 3.0",
        "sight_latency_seconds_count 2.0",
        "sight_queue_chunks 0.0",
        "sight_resident_sessions 0.0",
        "sight_wearers 0.0",
        "sight_ready 1.0",
        f'sight_build_info{{python="{platform.python_version()}",version="{__version__}"}} 1.0',
    ):
        assert line in text, line
    for name in (
        "sight_store_seconds",
        r'sight_store_bytes\{kind="used"\}',
        r'sight_store_bytes\{kind="free"\}',
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    ):
        assert float(re.search(rf"^{name} (\S+)", text, re.M)[1]) > 0, name
    assert client.get("/healthz").json() == client.get("/readyz").json() == {"status": "ok"}
    assert any(record.message == "deleted" and record.wearer == "anna" for record in caplog.records)
    assert "0.1234" not in caplog.text
    client.service.ready = False
    assert client.get("/readyz").status_code == 503
    assert "sight_ready 0.0" in client.get("/metrics").text
    client.service.ready = True


def test_pages_are_served_from_a_fixed_list_with_strict_headers(client):
    for path in ("/", "/device"):
        page = client.get(path)
        assert page.status_code == 200
        assert "text/html" in page.headers["content-type"]
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert client.get(path, headers={"if-none-match": page.headers["etag"]}).status_code == 304
    files = [path for path in static_files.STATIC.rglob("*") if path.is_file()]
    assert {"index.html", "device.html"} < {path.name for path in files}
    for path in files:
        name, packed = path.relative_to(static_files.STATIC).as_posix().removesuffix(".gz"), path.suffix == ".gz"
        content = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
        response = client.get(f"/static/{name}", headers={"accept-encoding": "identity"})
        assert (response.status_code, "content-encoding" in response.headers) == (200, False), name
        assert response.content == content, name
        suffix = name[name.rindex(".") :]
        if suffix in static_files.TYPES:
            assert response.headers["content-type"].partition(";")[0] == static_files.TYPES[suffix]
        assert response.headers["cache-control"] == "no-cache"
        response = client.get(f"/static/{name}", headers={"accept-encoding": "gzip"})
        assert ("content-encoding" in response.headers, response.content) == (packed, content), name
        again = {"accept-encoding": "gzip", "if-none-match": response.headers["etag"]}
        assert client.get(f"/static/{name}", headers=again).status_code == 304
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/", "/docs"):
        missing = client.get(path)
        assert (missing.status_code, list(missing.json())) == (404, ["error"])


def test_sessions_and_store_are_used_by_one_thread(client, monkeypatch):
    service, threads = client.service, set()

    def recording(method):
        def call(*args, **options):
            threads.add(threading.current_thread().name)
            return method(*args, **options)

        return call

    for holder in (service.manager, service.manager.store):
        for name in [name for name in dir(type(holder)) if not name.startswith("_")]:
            if callable(getattr(holder, name)):
                monkeypatch.setattr(holder, name, recording(getattr(holder, name)))
    put_wearers(client, "anna")
    post(client, "anna", make_stream(6, 3))
    for path in ("/v1/wearers", "/v1/wearers/anna", "/v1/wearers/anna/events", "/v1/wearers/anna/export", "/metrics"):
        assert client.get(path).status_code == 200, path
    for action in ("sequence", "reset"):
        assert client.post(f"/v1/wearers/anna/{action}").status_code == 200, action
    assert client.delete("/v1/wearers/anna").status_code == 204
    assert threads == {"sessions_0"}
