"""Who may do what: without a token that permits it nothing can be read or written, on any route there is or will be."""

from __future__ import annotations

import json
from itertools import product

import pytest
from starlette.websockets import WebSocketDisconnect

from sight.serve.chunk_format import Arrival, pack
from sight.serve.problems import DENIED
from sight.serve.tokens import SCOPES, TokenBook
from tests.helpers.keeping import walk
from tests.helpers.serving import closed, command, running, until

#: Routes that say no more than that the service lives.
OPEN = {"/healthz", "/readyz"}
#: What each route asks for; a new route fails the test below until it is written here.
SCOPE = {
    ("get", "/metrics"): "read",
    ("get", "/v1/models"): None,
    ("get", "/v1/wearers"): "read",
    ("put", "/v1/wearers/{wearer}"): "ingest",
    ("get", "/v1/wearers/{wearer}"): "read",
    ("delete", "/v1/wearers/{wearer}"): "admin",
    ("post", "/v1/wearers/{wearer}/samples"): "ingest",
    ("get", "/v1/wearers/{wearer}/events"): "read",
    ("post", "/v1/wearers/{wearer}/reset"): "admin",
    ("post", "/v1/wearers/{wearer}/move"): "admin",
    ("get", "/v1/wearers/{wearer}/export"): "admin",
}


@pytest.fixture
def book(tmp_path):
    return TokenBook(tmp_path / "tokens.json")


@pytest.fixture
def client(tmp_path, book):
    """A service with tokens, where anna and bela have been."""
    owner, _ = book.add(SCOPES)
    with running(tmp_path) as client:
        for wearer in ("anna", "bela"):
            client.put(f"/v1/wearers/{wearer}", json={"model": "toy@1"}, headers=bearer(owner))
            client.post(f"/v1/wearers/{wearer}/samples", json=chunk(1), headers=bearer(owner))
        client.owner = owner
        client.service.tokens.every_s = 0  # changes of the file count at once
        yield client


def bearer(text):
    return {"authorization": f"Bearer {text}".encode()}


def chunk(seq):
    return {"seq": seq, "values": walk(seq, 5).tolist()}


def routes(client):
    paths = client.get("/openapi.json").json()["paths"]
    return [(method, path) for path, methods in paths.items() for method in methods]


def call(client, method, path, wearer="anna", token=None):
    body = {"json": {"model": "toy@2"}} if path.endswith("/move") else {}
    body = {"json": chunk(2)} if path.endswith("/samples") else body
    headers = bearer(token) if token else {}
    return client.request(method, path.replace("{wearer}", wearer), headers=headers, **body)


def untouched(client):
    """Everything there is, as its owner sees it."""
    wearers = client.get("/v1/wearers", headers=bearer(client.owner)).json()["wearers"]
    for one in wearers:
        assert one.pop("idle_s") >= 0  # which goes on by itself
    return wearers, [
        client.get(f"/v1/wearers/{one['wearer']}{part}", headers=bearer(client.owner)).json()
        for one in wearers
        for part in ("", "/events")
    ]


def test_every_route_is_known_and_says_that_it_wants_a_token(client):
    described = client.get("/openapi.json").json()["paths"]
    assert {route for route in routes(client) if route[1] not in OPEN} == set(SCOPE)
    for method, path in SCOPE:
        told = described[path][method]
        assert told["security"] == [{"HTTPBearer": []}], path
        assert "401" in told["responses"]
        assert all(
            body["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Problem"}
            for status, body in told["responses"].items()
            if status >= "400"
        ), path


def test_without_a_token_or_with_a_wrong_one_nothing_is_read_or_written(client, book):
    gone, removed = book.add(SCOPES)
    book.remove(removed.id)
    before = untouched(client)
    wrong = [None, "x", gone, client.owner[:-1], client.owner + "a", "ünï", "\x7f", f"{client.owner} {client.owner}"]
    for (method, path), token in product(SCOPE, wrong):
        told = call(client, method, path, token=token)
        assert (told.status_code, told.json()) == (401, {"error": DENIED}), (method, path, token)
        assert told.headers["www-authenticate"] == "Bearer"
    for scheme in (f"Basic {client.owner}", client.owner, "Bearer", "Bearer  "):
        assert client.get("/v1/wearers", headers={"authorization": scheme}).status_code == 401
    assert client.get(f"/v1/wearers?token={client.owner}").status_code == 401
    assert untouched(client) == before
    for path in OPEN:
        assert client.get(path).json() == {"status": "ok"}


def test_a_scope_opens_its_routes_and_no_others(client, book):
    for scope in SCOPES:
        token, _ = book.add([scope])
        before = untouched(client)
        for (method, path), wanted in SCOPE.items():
            told = call(client, method, path, wearer="nobody", token=token)
            if wanted in (scope, None):
                assert told.status_code not in (401, 403), (scope, method, path)
            else:
                assert (told.status_code, told.json()) == (403, {"error": DENIED}), (scope, method, path)
        client.delete("/v1/wearers/nobody", headers=bearer(client.owner))
        assert untouched(client) == before


def test_one_wearers_token_cannot_tell_whether_another_exists(client, book):
    token, _ = book.add(SCOPES, ["anna", "lab-*"])
    listed = client.get("/v1/wearers", headers=bearer(token)).json()["wearers"]
    assert [one["wearer"] for one in listed] == ["anna"]
    before = untouched(client)
    for (method, path), wearer in product(SCOPE, ("bela", "nobody", "annab", "lab", "x.anna")):
        if "{wearer}" in path:
            told = call(client, method, path, wearer=wearer, token=token)
            assert (told.status_code, told.json()) == (403, {"error": DENIED}), (method, path, wearer)
    assert untouched(client) == before
    assert call(client, "get", "/v1/wearers/{wearer}", token=token).json()["wearer"] == "anna"


def refused(socket):
    end = closed(socket)
    return end.code, end.reason


FIRST = ['{"type":"watch","wearer":"anna"}', '{"type":"auth","token":"x"}', '{"type":"auth"}', "rubbish", "[]", ""]


@pytest.mark.parametrize("path", ["/v1/ingest", "/v1/watch"])
def test_sockets_want_a_token_before_anything_else(client, path):
    before = untouched(client)
    for first in FIRST:
        with client.websocket_connect(path) as socket:
            socket.send_text(first)
            assert refused(socket) == (1008, DENIED)
    with client.websocket_connect(path) as socket:
        socket.send_bytes(pack([Arrival("anna", 2, walk(2, 5))]))
        assert refused(socket) == (1008, DENIED)
    with client.websocket_connect(path, headers=bearer("wrong")) as socket:
        socket.send_json({"type": "watch", "wearer": "anna"})
        assert refused(socket) == (1008, DENIED)
    assert untouched(client) == before


def test_sockets_show_and_take_what_the_token_permits(client, book):
    token, _ = book.add(["read", "ingest"], ["anna"])
    with client.websocket_connect("/v1/watch") as socket:
        socket.send_json({"type": "auth", "token": token})
        for wearer in ("bela", "nobody"):
            socket.send_json({"type": "watch", "wearer": wearer})
            assert socket.receive_json() == {"type": "error", "wearer": wearer, "seq": None, "error": DENIED}
        socket.send_json({"type": "watch", "wearer": "anna"})
        assert until(socket, "hello")[-1]["wearer"] == "anna"
        client.post("/v1/wearers/bela/samples", json=chunk(2), headers=bearer(client.owner))
        client.post("/v1/wearers/anna/samples", json=chunk(2), headers=bearer(client.owner))
        assert {one["wearer"] for one in until(socket, "picture")} == {"anna"}
    with client.websocket_connect("/v1/ingest", headers=bearer(token)) as socket:
        socket.send_bytes(pack([Arrival(name, 3, walk(3, 5)) for name in ("bela", "nobody", "anna")]))
        told = [socket.receive_json() for _ in range(3)]
        assert [one.get("error") for one in told] == [DENIED, DENIED, None]
    reader, _ = book.add(["read"], ["*"])
    with client.websocket_connect("/v1/ingest", headers=bearer(reader)) as socket:
        socket.send_json({"type": "samples", "wearer": "anna", **chunk(4)})
        assert socket.receive_json()["error"] == DENIED


def test_a_token_that_is_removed_stops_working_on_open_sockets_too(client, book):
    token, entry = book.add(["ingest", "read"])
    with client.websocket_connect("/v1/ingest", headers=bearer(token)) as socket:
        socket.send_json({"type": "samples", "wearer": "anna", **chunk(2)})
        assert socket.receive_json()["type"] == "ack"
        book.remove(entry.id)
        socket.send_json({"type": "samples", "wearer": "anna", **chunk(3)})
        assert refused(socket) == (1008, DENIED)
    assert client.get("/v1/wearers", headers=bearer(token)).status_code == 401


def test_a_watcher_whose_token_is_removed_sees_nothing_more(client, book):
    token, entry = book.add(["read"])
    with client.websocket_connect("/v1/watch", headers=bearer(token)) as socket:
        socket.send_json({"type": "watch", "wearer": "anna"})
        until(socket, "hello")
        book.remove(entry.id)
        client.post("/v1/wearers/anna/samples", json=chunk(2), headers=bearer(client.owner))
        assert socket.receive()["code"] == 1008


def test_removing_the_last_token_opens_nothing(client, book):
    for token in book.tokens():
        book.remove(token.id)
    assert client.get("/v1/wearers").status_code == 401
    assert client.get("/v1/wearers", headers=bearer(client.owner)).status_code == 401


def test_a_foreign_page_cannot_use_a_visitors_browser(tmp_path):
    with running(tmp_path) as client:
        client.put("/v1/wearers/anna", json={"model": "toy@1"})
        foreign = {"origin": "https://evil.example"}
        assert client.post("/v1/wearers/anna/reset", headers=foreign).status_code == 403
        assert client.get("/v1/wearers", headers={"host": "evil.example"}).status_code == 403
        assert client.get("/v1/wearers", headers={"origin": "http://127.0.0.1"}).status_code == 200
        for path, headers in product(("/v1/ingest", "/v1/watch"), (foreign, {"host": "evil.example"})):
            with pytest.raises(WebSocketDisconnect) as ended, client.websocket_connect(path, headers=headers):
                pass
            assert ended.value.code == 1008


def test_tokens_are_kept_as_hashes_and_managed_by_the_command(tmp_path):
    shown = command("token", "add", "--scopes", "ingest,read", "--wearers", "lab-*,anna", "--data", tmp_path)
    secret = shown.output.split()[0]
    file = tmp_path / "tokens.json"
    (entry,) = json.loads(file.read_text())["tokens"]
    assert secret not in file.read_text()
    assert len(secret) > 40
    assert file.stat().st_mode & 0o077 == 0
    assert TokenBook(file).find(secret).wearers == ("lab-*", "anna")
    listed = command("token", "list", "--data", tmp_path).output
    assert entry["id"] in listed
    assert secret not in listed
    assert entry["digest"] not in listed
    assert command("token", "add", "--scopes", "reed", "--data", tmp_path).exit_code == 2
    assert command("token", "remove", "nobody", "--data", tmp_path).exit_code == 2
    assert command("token", "remove", entry["id"], "--data", tmp_path).exit_code == 0
    assert TokenBook(file).find(secret) is None
