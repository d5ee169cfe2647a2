"""The token file: concurrent edits, damage, expiry, rotation and quotas; and the log of what tokens did."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from base64 import urlsafe_b64decode
from datetime import datetime, timedelta
from io import StringIO

import pytest

from sight.apps.serve.errors import DENIED
from sight.apps.serve.metrics_and_logs import JsonLines, RepetitionFilter
from sight.apps.serve.tokens import PREFIX, SCOPES, TokenFile
from tests.helpers.services import read_until_closed, running, serve_command
from tests.helpers.sessions import make_stream

EDIT = """
import sys
from sight.apps.serve.tokens import TokenFile
book = TokenFile(sys.argv[1])
for _ in range(10):
    book.add(["read"], [sys.argv[2]])
    _, token = book.add(["ingest"], [sys.argv[2]])
    assert book.remove(token.id)
"""


@pytest.fixture
def book(tmp_path):
    return TokenFile(tmp_path / "tokens.json", check_every_s=0)


@pytest.fixture
def client(tmp_path, book):
    """A service with one token that permits everything."""
    owner, token = book.add(SCOPES)
    with running(tmp_path) as client:
        client.owner, client.token = bearer(owner), token
        client.service.tokens.check_every_s = 0
        yield client


def bearer(text):
    return {"authorization": f"Bearer {text}"}


def create(client, wearer, headers, **options):
    return client.put(f"/v1/wearers/{wearer}", json={"model": "toy@1", **options}, headers=headers)


def test_a_token_is_found_by_its_text_and_permits_its_scopes_and_wearers(book):
    text, token = book.add(["read"], ["lab-*"])
    assert (book.find(text), book.find(text + "x")) == (token, None)
    assert token.permits("read", "lab-1")
    assert not token.permits("read", "home")
    assert not token.permits("ingest", "lab-1")
    assert book.remove(token.id)
    assert book.find(text) is None


def test_concurrent_edits_lose_and_revive_no_token(book):
    names = [f"process-{number}" for number in range(3)]
    processes = [subprocess.Popen([sys.executable, "-c", EDIT, str(book.path), name]) for name in names]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    tokens = book.tokens()
    assert {token.scopes for token in tokens} == {("read",)}
    assert sorted(token.wearers[0] for token in tokens) == sorted(names * 10)


DAMAGED = [b"", b"{", b"[]", b'{"format": 2, "tokens": [{"id": 1}]}', b'{"format": 99}', b"[" * 100_000]
DAMAGED += [b'{"format": 1e999, "tokens": []}']
WRONG_TYPES = {"id": [1], "digest": 5, "scopes": [["read"]], "wearers": [5], "created": 1, "max_wearers": "x"}
VALID = {"id": "1", "digest": "0" * 64, "scopes": ["read"], "wearers": ["*"]}
DAMAGED += [
    json.dumps({"format": 2, "tokens": [VALID | {name: value}]}).encode()
    for name, value in [*WRONG_TYPES.items(), ("digest", "\u00e9"), ("expires", "2020-01-01")]
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_permits_nothing_and_does_not_reveal_its_path(client, book, content):
    intact = book.path.read_bytes()
    book.path.write_bytes(content)
    for _ in range(2):
        for headers in ({}, client.owner):
            response = client.get("/v1/wearers", headers=headers)
            assert response.status_code == (503 if headers else 401), response.text
            assert "tokens.json" not in response.text
    for headers in ({}, client.owner):
        with client.websocket_connect("/v1/watch", headers=headers) as socket:
            socket.send_json({"type": "auth", "token": "x"})
            end = read_until_closed(socket)
            assert end.code == 1013
            assert "tokens.json" not in end.reason
    result = serve_command("token", "list", "--data", book.path.parent)
    assert result.exit_code == 2
    assert "tokens.json" in result.output
    book.path.write_bytes(intact)
    assert client.get("/v1/wearers", headers=client.owner).status_code == 200


def test_a_service_without_tokens_is_closed_by_a_damaged_file(tmp_path):
    with running(tmp_path) as client:
        client.service.tokens.check_every_s = 0
        assert client.get("/v1/wearers").status_code == 200
        (tmp_path / "tokens.json").write_bytes(b"{")
        assert client.get("/v1/wearers", headers=bearer("x")).status_code == 503
        assert client.get("/healthz").status_code == 200


def test_the_secret_text_has_256_random_bits(book):
    texts = [book.add(["read"])[0] for _ in range(3)]
    assert len(set(texts)) == 3
    for text in texts:
        prefix, secret = text[: len(PREFIX)], text[len(PREFIX) :]
        assert prefix == PREFIX
        assert len(urlsafe_b64decode(secret + "=")) == 32


@pytest.mark.parametrize(("scopes", "wearers"), [([], ["*"]), (["read"], []), (["read"], [""]), (["write"], ["*"])])
def test_a_token_needs_known_scopes_and_a_pattern(book, scopes, wearers):
    with pytest.raises(ValueError, match="scope"):
        book.add(scopes, wearers)
    assert not book.path.exists()


def test_an_expired_token_permits_nothing(client, book):
    gone, _ = book.add(["read"], lifetime=timedelta(seconds=-1))
    assert client.get("/v1/wearers", headers=bearer(gone)).json() == {"error": DENIED}
    valid, _ = book.add(["read"], lifetime=timedelta(days=90))
    assert client.get("/v1/wearers", headers=bearer(valid)).status_code == 200


def test_rotation_keeps_the_old_token_for_the_overlap_only(client, book):
    first, old = book.add(["read"], ["lab-*"], max_wearers=3)
    second, new = book.rotate(old.id, lifetime=timedelta(days=1), overlap=timedelta(hours=1))
    assert (new.scopes, new.wearers, new.max_wearers) == (old.scopes, old.wearers, old.max_wearers)
    assert all(client.get("/v1/wearers", headers=bearer(text)).status_code == 200 for text in (first, second))
    with client.websocket_connect("/v1/watch", headers=bearer(second)) as socket:
        third, _ = book.rotate(new.id, overlap=timedelta(0))
        socket.send_json({"type": "watch", "wearer": "lab-1"})
        assert read_until_closed(socket).code == 1008
    assert client.get("/v1/wearers", headers=bearer(second)).status_code == 401
    assert client.get("/v1/wearers", headers=bearer(third)).status_code == 200
    with pytest.raises(ValueError, match="no token"):
        book.rotate("absent", overlap=timedelta(0))


def test_rotation_ends_the_old_token_after_the_overlap_and_never_later_than_before(book):
    hour, week = timedelta(hours=1), timedelta(days=7)
    _, unlimited = book.add(["read"])
    _, short = book.add(["read"], lifetime=hour)
    for token in (unlimited, short):
        book.rotate(token.id, overlap=week)
    ends = {token.id: token.expires for token in book.tokens()}
    assert datetime.fromisoformat(ends[unlimited.id]) - datetime.fromisoformat(unlimited.created) >= week
    assert ends[short.id] == short.expires


def test_the_commands_for_lifetimes(book):
    data = ["--data", book.path.parent]
    assert serve_command("token", "add", "--expires", "90d", "--max-wearers", "2", *data).exit_code == 0
    (token,) = book.tokens()
    assert token.max_wearers == 2
    result = serve_command("token", "rotate", token.id, "--overlap", "0min", *data)
    assert book.find(result.stdout.strip()) is not None
    listed = serve_command("token", "list", *data).output
    assert listed.count("(expired)") == 1
    result = serve_command("token", "add", "--expires", "soon", *data)
    assert result.exit_code == 2
    assert "30min, 16h or 90d" in result.output


def test_a_token_creates_no_more_wearers_than_its_quota(client, book):
    text, _ = book.add(["ingest"], ["lab-*"], max_wearers=2)
    assert create(client, "other", client.owner).status_code == 200  # does not count
    statuses = [create(client, f"lab-{number}", bearer(text)).status_code for number in (1, 2, 2, 3)]
    assert statuses == [200, 200, 200, 409]
    assert create(client, "lab-3", client.owner).status_code == 200


def test_the_log_names_the_token_of_actions_and_refusals(client, book, caplog):
    reader, token = book.add(["read"])
    ingester, other = book.add(["ingest"])
    with caplog.at_level(logging.INFO, "sight.apps.serve"):
        handler = logging.StreamHandler(stream := StringIO())
        handler.setFormatter(JsonLines())
        handler.addFilter(RepetitionFilter())
        logging.getLogger("sight.apps.serve").addHandler(handler)
        try:
            create(client, "anna", client.owner)
            client.delete("/v1/wearers/anna", headers=bearer(reader))
            client.get("/v1/wearers", headers=bearer("sight_wrong"))
            client.delete("/v1/wearers/anna", headers=client.owner)
            for _ in range(100):
                client.get("/v1/wearers")
            create(client, "bela", bearer(ingester), method="none")
        finally:
            logging.getLogger("sight.apps.serve").removeHandler(handler)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    seen = [(line["event"], line.get("token")) for line in lines]
    assert seen[:4] == [
        ("created", client.token.id),
        ("refused", token.id),
        ("refused", None),
        ("deleted", client.token.id),
    ]
    assert lines[1]["action"] == "DELETE /v1/wearers/anna"
    assert len(lines) < 30  # refusals of strangers neither fill the log nor hide those of others
    assert (lines[-1]["token"], lines[-1]["action"]) == (other.id, "create bela")
    assert "sight_wrong" not in stream.getvalue()


def test_a_file_of_a_newer_version_is_refused(book):
    book.path.write_text(json.dumps({"format": 3, "tokens": []}))
    with pytest.raises(ValueError, match="upgrade sight"):
        book.tokens()


def test_a_chunk_of_another_wearer_is_refused_and_logged(client, book, caplog):
    text, token = book.add(["ingest"], ["lab-*"])
    with (
        caplog.at_level(logging.WARNING, "sight.apps.serve"),
        client.websocket_connect("/v1/ingest", headers=bearer(text)) as socket,
    ):
        socket.send_json({"type": "samples", "wearer": "anna", "seq": 1, "values": make_stream(0, 1).tolist()})
        assert socket.receive_json()["error"] == token.denial("ingest")
    assert [record.action for record in caplog.records if record.message == "refused"] == ["samples anna"]
