"""Access control: without a token that permits it nothing can be read or written, on any route."""

from __future__ import annotations

import json
from itertools import product

import pytest
from starlette.websockets import WebSocketDisconnect

from sight.apps.serve.chunks import Chunk
from sight.apps.serve.errors import DENIED
from sight.apps.serve.limits import Limits
from sight.apps.serve.message_format import pack
from sight.apps.serve.tokens import SCOPES, TokenFile
from tests.helpers.services import listening, read_until, read_until_closed, running, serve_command
from tests.helpers.sessions import make_stream

#: Routes without a token; they report only that the service runs.
OPEN = {"/healthz", "/readyz"}
#: Scope of each route; a new route fails the test below until it is added here.
SCOPE = {
    ("get", "/metrics"): "read",
    ("get", "/v1/models"): None,
    ("get", "/v1/wearers"): "read",
    ("put", "/v1/wearers/{wearer}"): "ingest",
    ("get", "/v1/wearers/{wearer}"): "read",
    ("delete", "/v1/wearers/{wearer}"): "admin",
    ("post", "/v1/wearers/{wearer}/samples"): "ingest",
    ("get", "/v1/wearers/{wearer}/events"): "read",
    ("post", "/v1/wearers/{wearer}/sequence"): "ingest",
    ("post", "/v1/wearers/{wearer}/reset"): "admin",
    ("post", "/v1/wearers/{wearer}/move"): "admin",
    ("get", "/v1/wearers/{wearer}/export"): "admin",
}


@pytest.fixture
def book(tmp_path):
    return TokenFile(tmp_path / "tokens.json")


@pytest.fixture
def client(tmp_path, book):
    """A service with tokens and the wearers anna and bela."""
    owner, _ = book.add(SCOPES)
    with running(tmp_path) as client:
        for wearer in ("anna", "bela"):
            client.put(f"/v1/wearers/{wearer}", json={"model": "toy@1"}, headers=bearer(owner))
            client.post(f"/v1/wearers/{wearer}/samples", json=chunk(1), headers=bearer(owner))
        client.owner = owner
        client.service.tokens.check_every_s = 0  # changes of the file take effect at once
        yield client


def bearer(text):
    return {"authorization": f"Bearer {text}".encode()}


def chunk(seq):
    return {"seq": seq, "values": make_stream(seq, 5).tolist()}


def routes(client):
    paths = client.get("/openapi.json").json()["paths"]
    return [(method, path) for path, methods in paths.items() for method in methods]


def call(client, method, path, wearer="anna", token=None):
    body = {"json": {"model": "toy@2"}} if path.endswith("/move") else {}
    body = {"json": chunk(2)} if path.endswith("/samples") else body
    headers = bearer(token) if token else {}
    return client.request(method, path.replace("{wearer}", wearer), headers=headers, **body)


def everything(client):
    """Return all data of the service, as its owner sees them."""
    wearers = client.get("/v1/wearers", headers=bearer(client.owner)).json()["wearers"]
    for row in wearers:
        assert row.pop("idle_s") >= 0  # changes with time
    return wearers, [
        client.get(f"/v1/wearers/{row['wearer']}{part}", headers=bearer(client.owner)).json()
        for row in wearers
        for part in ("", "/events")
    ]


def test_every_route_declares_that_it_needs_a_token(client):
    described = client.get("/openapi.json").json()["paths"]
    assert {route for route in routes(client) if route[1] not in OPEN} == set(SCOPE)
    for method, path in SCOPE:
        route = described[path][method]
        assert route["security"] == [{"HTTPBearer": []}], path
        assert "401" in route["responses"]
        assert all(
            body["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/ErrorOut"}
            for status, body in route["responses"].items()
            if status >= "400"
        ), path


def test_without_a_token_or_with_a_wrong_one_nothing_is_read_or_written(client, book):
    gone, removed = book.add(SCOPES)
    book.remove(removed.id)
    before = everything(client)
    wrong = [None, "x", gone, client.owner[:-1], client.owner + "a", "ünï", "\x7f", f"{client.owner} {client.owner}"]
    for (method, path), token in product(SCOPE, wrong):
        response = call(client, method, path, token=token)
        assert (response.status_code, response.json()) == (401, {"error": DENIED}), (method, path, token)
        assert response.headers["www-authenticate"] == "Bearer"
    for scheme in (f"Basic {client.owner}", client.owner, "Bearer", "Bearer  "):
        assert client.get("/v1/wearers", headers={"authorization": scheme}).status_code == 401
    assert client.get(f"/v1/wearers?token={client.owner}").status_code == 401
    assert everything(client) == before
    for path in OPEN:
        assert client.get(path).json() == {"status": "ok"}


def test_a_scope_permits_its_routes_and_no_others(client, book):
    for scope in SCOPES:
        token, _ = book.add([scope])
        before = everything(client)
        for (method, path), wanted in SCOPE.items():
            response = call(client, method, path, wearer="absent", token=token)
            if wanted in (scope, None):
                assert response.status_code not in (401, 403), (scope, method, path)
            else:
                error = f"This needs the scope {wanted}; the token has {scope}."
                assert (response.status_code, response.json()) == (403, {"error": error}), (scope, method, path)
        client.delete("/v1/wearers/absent", headers=bearer(client.owner))
        assert everything(client) == before


def test_other_methods_and_params_need_the_scope_admin(client, book):
    sender, owner = book.add(["ingest"])[0], book.add(["ingest", "admin"])[0]
    for options in ({"method": "sight"}, {"params": {"hazard": 0.2}}, {"method": "keel", "params": {"hazard": 0.2}}):
        refused = client.put("/v1/wearers/new", json=options, headers=bearer(sender))
        assert refused.status_code == 403, options
        assert "scope admin" in refused.json()["error"]
    assert client.put("/v1/wearers/one", json={"method": "Keel"}, headers=bearer(sender)).status_code == 200
    assert client.put("/v1/wearers/two", json={"method": "sight"}, headers=bearer(owner)).status_code == 200
    assert client.put("/v1/wearers/two", json={"method": "sight"}, headers=bearer(sender)).status_code == 200


def test_a_token_does_not_reveal_whether_another_wearer_exists(client, book):
    token, _ = book.add(SCOPES, ["anna", "lab-*"])
    listed = client.get("/v1/wearers", headers=bearer(token)).json()["wearers"]
    assert [row["wearer"] for row in listed] == ["anna"]
    before = everything(client)
    for (method, path), wearer in product(SCOPE, ("bela", "absent", "annab", "lab", "x.anna")):
        if "{wearer}" in path:
            response = call(client, method, path, wearer=wearer, token=token)
            error = "The token does not permit this wearer; it permits anna, lab-*."
            assert (response.status_code, response.json()) == (403, {"error": error}), (method, path, wearer)
    assert everything(client) == before
    assert call(client, "get", "/v1/wearers/{wearer}", token=token).json()["wearer"] == "anna"


def close_reason(socket):
    end = read_until_closed(socket)
    return end.code, end.reason


FIRST = ['{"type":"watch","wearer":"anna"}', '{"type":"auth","token":"x"}', '{"type":"auth"}', "rubbish", "[]", ""]


@pytest.mark.parametrize("path", ["/v1/ingest", "/v1/watch"])
def test_sockets_need_a_token_first(client, path):
    before = everything(client)
    for first in FIRST:
        with client.websocket_connect(path) as socket:
            socket.send_text(first)
            assert close_reason(socket) == (1008, DENIED)
    with client.websocket_connect(path) as socket:
        socket.send_bytes(pack([Chunk("anna", 2, make_stream(2, 5))]))
        assert close_reason(socket) == (1008, DENIED)
    with client.websocket_connect(path, headers=bearer("wrong")) as socket:
        socket.send_json({"type": "watch", "wearer": "anna"})
        assert close_reason(socket) == (1008, DENIED)
    assert everything(client) == before


def test_sockets_send_and_accept_what_the_token_permits(client, book):
    token, stored = book.add(["read", "ingest"], ["anna"])
    denial = stored.denial("read")
    with client.websocket_connect("/v1/watch") as socket:
        socket.send_json({"type": "auth", "token": token})
        for wearer in ("bela", "absent"):
            socket.send_json({"type": "watch", "wearer": wearer})
            assert socket.receive_json() == {"type": "error", "wearer": wearer, "seq": None, "error": denial}
        socket.send_json({"type": "watch", "wearer": "anna"})
        assert read_until(socket, "hello")[-1]["wearer"] == "anna"
        client.post("/v1/wearers/bela/samples", json=chunk(2), headers=bearer(client.owner))
        client.post("/v1/wearers/anna/samples", json=chunk(2), headers=bearer(client.owner))
        assert {message["wearer"] for message in read_until(socket, "adaptation")} == {"anna"}
    with client.websocket_connect("/v1/ingest", headers=bearer(token)) as socket:
        socket.send_bytes(pack([Chunk(name, 3, make_stream(3, 5)) for name in ("bela", "absent", "anna")]))
        messages = [socket.receive_json() for _ in range(3)]
        assert [message.get("error") for message in messages] == [denial, denial, None]
    reader, stored = book.add(["read"], ["*"])
    with client.websocket_connect("/v1/ingest", headers=bearer(reader)) as socket:
        socket.send_json({"type": "samples", "wearer": "anna", **chunk(4)})
        assert socket.receive_json()["error"] == stored.denial("ingest")


def test_a_removed_token_is_rejected_on_open_sockets_too(client, book):
    token, entry = book.add(["ingest", "read"])
    with client.websocket_connect("/v1/ingest", headers=bearer(token)) as socket:
        socket.send_json({"type": "samples", "wearer": "anna", **chunk(2)})
        assert socket.receive_json()["type"] == "ack"
        book.remove(entry.id)
        socket.send_json({"type": "samples", "wearer": "anna", **chunk(3)})
        assert close_reason(socket) == (1008, DENIED)
    assert client.get("/v1/wearers", headers=bearer(token)).status_code == 401


def test_a_subscriber_whose_token_is_removed_is_disconnected(client, book):
    token, entry = book.add(["read"])
    with client.websocket_connect("/v1/watch", headers=bearer(token)) as socket:
        socket.send_json({"type": "watch", "wearer": "anna"})
        read_until(socket, "hello")
        book.remove(entry.id)
        client.post("/v1/wearers/anna/samples", json=chunk(2), headers=bearer(client.owner))
        assert socket.receive()["code"] == 1008


@pytest.mark.parametrize("path", ["/v1/watch", "/v1/ingest"])
def test_an_idle_socket_whose_token_is_removed_is_disconnected(client, book, path):
    token, entry = book.add(["read", "ingest"])
    with (
        client.websocket_connect(path, headers=bearer(token)) as socket,
        client.websocket_connect("/v1/ingest", headers=bearer(client.owner)) as other,
    ):
        book.remove(entry.id)
        assert close_reason(socket) == (1008, DENIED)
        other.send_json({"type": "samples", "wearer": "anna", **chunk(2)})
        assert other.receive_json()["type"] == "ack"


def test_removing_the_last_token_permits_nothing(client, book):
    for token in book.tokens():
        book.remove(token.id)
    assert client.get("/v1/wearers").status_code == 401
    assert client.get("/v1/wearers", headers=bearer(client.owner)).status_code == 401


def test_requests_from_other_sites_are_rejected(tmp_path):
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


@pytest.mark.parametrize("broken", ["[::1", "[", "127.0.0.1[", "[x]:y"])
def test_a_broken_host_or_origin_is_a_bad_request(tmp_path, broken):
    with running(tmp_path) as client:
        for headers in ({"origin": f"http://{broken}"}, {"host": broken}):
            response = client.get("/v1/wearers", headers=headers)
            assert (response.status_code, list(response.json())) == (400, ["error"]), headers
            with pytest.raises(WebSocketDisconnect), client.websocket_connect("/v1/watch", headers=headers):
                pass


@pytest.mark.parametrize(
    ("trusted", "claimed", "logged"),
    [
        (None, "203.0.113.7", "127.0.0.1"),
        ("127.0.0.0/8", "203.0.113.7", "203.0.113.7"),
        ("127.0.0.0/8", "198.51.100.1, 203.0.113.7", "203.0.113.7"),  # what a client adds itself comes first
        ("10.0.0.0/8", "203.0.113.7", "127.0.0.1"),
    ],
)
def test_a_forwarded_address_counts_behind_a_trusted_proxy_only(tmp_path, book, caplog, trusted, claimed, logged):
    book.add(SCOPES)
    options = {"proxy_headers": True, "forwarded_allow_ips": [trusted]} if trusted else {}
    with listening(tmp_path, Limits(), **options) as client:
        assert client.get("/v1/wearers", headers={"x-forwarded-for": claimed}).status_code == 401
        assert [record.client for record in caplog.records if record.message == "refused"] == [logged]
        client.get("/v1/wearers", headers={"x-forwarded-for": "x" * 5000})
        assert max(len(record.client) for record in caplog.records if record.message == "refused") <= 100


def test_what_needs_no_token_is_the_same_for_every_service(client):
    """The description of the routes and the pages hold no data."""
    described = client.get("/openapi.json")
    assert described.status_code == 200
    assert "anna" not in described.text
    assert {client.get(path).status_code for path in (*OPEN, "/", "/device")} == {200}


def test_tokens_are_stored_as_hashes_and_managed_by_the_command(tmp_path):
    result = serve_command("token", "add", "--scopes", "ingest,read", "--wearers", "lab-*,anna", "--data", tmp_path)
    secret = result.output.split()[0]
    file = tmp_path / "tokens.json"
    (entry,) = json.loads(file.read_text())["tokens"]
    assert secret not in file.read_text()
    assert len(secret) > 40
    assert file.stat().st_mode & 0o077 == 0
    assert TokenFile(file).find(secret).wearers == ("lab-*", "anna")
    listed = serve_command("token", "list", "--data", tmp_path).output
    assert entry["id"] in listed
    assert secret not in listed
    assert entry["digest"] not in listed
    assert serve_command("token", "add", "--scopes", "reed", "--data", tmp_path).exit_code == 2
    assert serve_command("token", "remove", "absent", "--data", tmp_path).exit_code == 2
    assert serve_command("token", "remove", entry["id"], "--data", tmp_path).exit_code == 0
    assert TokenFile(file).find(secret) is None
