"""Failures stay with the wearer concerned: bad chunks, a full disk, damaged data and foreign states."""

from __future__ import annotations

import numpy as np
import pytest

from sight._util import tensorfile
from sight.apps.serve import serialisation
from sight.apps.serve.chunks import Ack, Chunk
from sight.apps.serve.errors import Conflict, Damaged, Refused, StoreFailed, UnknownWearer, WrongSequence
from sight.apps.serve.model_catalogue import Model, ModelCatalogue
from sight.apps.serve.session_manager import SessionManager
from sight.apps.serve.sqlite_store import SqliteStore
from tests.helpers.sessions import (
    after_kill,
    create,
    make_stream,
    same_events,
    send,
    stored_events,
    toy_model,
    uninterrupted,
)

# --- chunks ----------------------------------------------------------------------------------------------------------


def test_a_bad_chunk_affects_no_other_chunk(manager, model):
    values = make_stream(1, 30)
    create(manager, ["anna", "ben"])
    send(manager, "anna", values[:100])
    outcomes = manager.ingest(
        [
            Chunk("ben", 1, values[:100]),
            Chunk("anna", 2, values[100:150, :2]),
            Chunk("absent", 1, values),
            Chunk("anna", 3, values[100:]),
            Chunk("ben", 2, values[100:]),
        ]
    )
    assert [type(outcome) for outcome in outcomes] == [Ack, Refused, UnknownWearer, WrongSequence, Ack]
    ben = outcomes[0].events + outcomes[4].events
    assert same_events(ben, uninterrupted(model, values, "sight"))
    rest = send(manager, "anna", values[100:], seq=2)
    assert same_events(rest.events, ben[-len(rest.events) :])


def test_a_window_with_non_finite_features_affects_no_other_wearer(tmp_path):
    """Values near the limit of float32 overflow inside the network, after the chunk was admitted."""
    model, values = toy_model("toy", "1"), make_stream(1, 30)
    model.source.projection = 100 * model.source.projection.astype(np.float32)  # infinity minus infinity is NaN
    manager = SessionManager(ModelCatalogue([model]), SqliteStore(tmp_path / "store.db"))
    create(manager, ["anna", "ben"])
    first = send(manager, "anna", values[:100]).events
    overflow = np.full((60, 3), 3e38, np.float32)
    wearers = ("anna", "ben", "anna", "anna")
    parts = zip(wearers, (None, 1, 3, 4), (values[100:130], values, overflow, values), strict=True)
    good, ben, refused, later = manager.ingest([Chunk(*part) for part in parts])
    assert isinstance(refused, ValueError)
    assert "NaN" in str(refused)
    assert isinstance(later, WrongSequence)
    assert later.expected == 3
    rest = send(manager, "anna", values[130:], seq=3)
    assert same_events(first + good.events + rest.events, ben.events)
    assert same_events(ben.events, uninterrupted(model, values, "sight"))
    manager.close()


def test_a_network_that_fails_acknowledges_none_of_its_chunks(manager, model, monkeypatch):
    values = make_stream(1, 30)
    create(manager, ["anna"])
    manager.create("ben", model="four@1", method="sight")

    def fail(_):
        raise RuntimeError("out of memory")

    chunks = [Chunk("anna", 1, values[:100]), Chunk("anna", 2, values[100:105]), Chunk("ben", 1, values)]
    with monkeypatch.context() as patch:
        patch.setattr(model.source, "encode", fail)
        outcomes = manager.ingest(chunks)
    assert [type(outcome) for outcome in outcomes] == [RuntimeError, WrongSequence, Ack]
    assert manager.info("anna")["seq"] == 0
    assert same_events(send(manager, "anna", values, seq=1).events, uninterrupted(model, values, "sight"))


def test_a_chunk_of_too_many_windows_is_refused(manager):
    create(manager, ["anna"])
    with pytest.raises(Refused, match="1000 windows, got 1999"):
        send(manager, "anna", np.zeros((20_000, 3)))
    assert send(manager, "anna", np.zeros((30, 3))).seq == 1


def test_a_store_that_fails_acknowledges_nothing(manager, model):
    values = make_stream(1, 40)
    create(manager, ["anna"])
    first = send(manager, "anna", values[:100])
    manager.store._db.execute("PRAGMA max_page_count = 1")  # like a full disk
    failed = manager.ingest([Chunk("anna", number, values[100:].repeat(20, axis=0)) for number in (2, 3)])
    assert [type(outcome) for outcome in failed] == [StoreFailed, StoreFailed]
    manager.store._db.execute("PRAGMA max_page_count = 100000")
    rest = send(manager, "anna", values[100:], seq=2)
    assert same_events(first.events + rest.events, uninterrupted(model, values, "sight"))


def test_a_reset_that_fails_after_the_write_is_resumed_from_the_store(manager, monkeypatch):
    """Nobody knows whether a failed write is in the store, so the session in memory must not be used again."""
    values = make_stream(1, 20)
    create(manager, ["anna"])
    send(manager, "anna", values)
    put = manager.store.put

    def fail_late(*arguments, **options):
        put(*arguments, **options)
        raise StoreFailed("the store failed")

    with monkeypatch.context() as patch:
        patch.setattr(manager.store, "put", fail_late)
        with pytest.raises(StoreFailed):
            manager.reset("anna")
    assert manager.in_memory == 0
    assert send(manager, "anna", values).events[0].window == 0


def test_after_a_loss_of_the_store_wearers_continue_from_what_is_stored(manager, model):
    """A store that has lost its last writes counts a loss; the sessions of all wearers in memory are ahead of it."""
    values = make_stream(1, 60)
    create(manager, ["anna", "ben"])
    first = send(manager, "anna", values[:200], seq=1)
    for wearer in ("anna", "ben"):
        send(manager, wearer, values[200:300] if wearer == "anna" else values[:100], seq=2 if wearer == "anna" else 1)
    key = manager.store._ids["anna"]
    for table in ("inputs", "events"):
        manager.store._db.execute(f"DELETE FROM {table}_{key} WHERE seq = 2")
    manager.store.losses = 1
    (refused,) = manager.ingest([Chunk("anna", 3, values[300:])])
    assert (type(refused), refused.expected) == (WrongSequence, 2)
    rest = send(manager, "anna", values[200:], seq=2)
    assert same_events(first.events + rest.events, uninterrupted(model, values, "sight"))
    assert send(manager, "ben", values[100:], seq=2).seq == 2


# --- damaged data ----------------------------------------------------------------------------------------------------


def flip(content: bytes) -> bytes:
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


DAMAGE = {
    "truncated": (lambda content: content[: len(content) // 2], "damaged"),
    "empty": (lambda content: content[:0], "damaged"),
    "flipped": (flip, "damaged"),
    "newer": (lambda content: b"\x09" + content[1:], "format 9"),
}


@pytest.mark.parametrize("table", ["wearers.config", "state_1.state", "inputs_1.samples"])
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_detected_and_affects_its_wearer_only(manager, model, tmp_path, table, kind):
    values = make_stream(1, 20)
    create(manager, ["anna", "ben"])
    for wearer in ("anna", "ben"):
        manager.ingest([Chunk(wearer, None, values[at : at + 5]) for at in range(0, 100, 5)])
    again = after_kill(manager, tmp_path / "killed")
    db, (name, column) = again.store._db, table.split(".")
    change, keyword = DAMAGE[kind]
    where = {
        "wearers": "id = 1",
        "state_1": "TRUE",
        "inputs_1": "seq = (SELECT max(seq) FROM inputs_1)",
    }
    (content,) = db.execute(f"SELECT {column} FROM {name} WHERE {where[name]}").fetchone()
    db.execute(f"UPDATE {name} SET {column} = ? WHERE {where[name]}", (change(content),))
    one, two = again.ingest([Chunk("anna", 21, values[100:]), Chunk("ben", 21, values[100:])])
    assert isinstance(one, Damaged)
    assert keyword in str(one)
    assert "anna" in str(one)
    assert same_events(two.events, uninterrupted(model, values, "sight")[-len(two.events) :])
    assert {row["wearer"] for row in again.wearers()} == {"anna", "ben"}
    if name != "wearers":
        assert again.reset("anna")["seq"] == 20
        assert send(again, "anna", values, seq=21).events[0].window == 0
    again.delete("anna")
    create(again, ["anna"])
    assert same_events(send(again, "anna", values).events, uninterrupted(model, values, "sight"))
    again.close()


def test_damaged_events_are_reported(manager):
    create(manager, ["anna"])
    send(manager, "anna", make_stream(1, 5))
    manager.store._db.execute("UPDATE events_1 SET events = substr(events, 1, 30)")
    with pytest.raises(Damaged, match="damaged events 1"):
        stored_events(manager, "anna")
    (row,) = manager.wearers()
    assert (row["model"], row["count"], row["label"]) == ("toy@1", None, None)
    assert "damaged events 1" in row["error"]
    with pytest.raises(Damaged, match="damaged events 1"):
        send(manager, "anna", make_stream(1, 5), seq=1)
    assert send(manager, "anna", make_stream(1, 5), seq=2).events


def test_a_state_of_another_wearer_is_detected(manager, tmp_path):
    create(manager, ["anna", "ben"])
    manager.store._db.execute("UPDATE state_1 SET state = (SELECT state FROM state_2)")
    again = after_kill(manager, tmp_path / "killed")
    with pytest.raises(Damaged, match="anna"):
        again.info("anna")
    assert again.info("ben")["seq"] == 0
    again.close()


def test_a_missing_chunk_in_the_log_is_detected(manager, tmp_path):
    create(manager, ["anna"])
    for at in range(4):
        send(manager, "anna", make_stream(at, 1))
    manager.store._db.execute("DELETE FROM inputs_1 WHERE seq = 2")
    again = after_kill(manager, tmp_path / "killed")
    with pytest.raises(Damaged, match="chunk 2 is missing"):
        again.info("anna")
    again.close()


def test_a_missing_or_replaced_model_is_a_conflict(manager, models, tmp_path):
    create(manager, ["anna"])
    again = after_kill(manager, tmp_path / "one")
    again.models = ModelCatalogue([models.get("four")])
    with pytest.raises(Conflict, match="no model 'toy@1'"):
        again.info("anna")
    other = models.get("toy@2")
    again.models = ModelCatalogue([Model("toy", "1", other.digest, other.source, other.card)])
    with pytest.raises(Conflict, match=r"saved with model toy@1"):
        again.info("anna")
    again.close()


def test_every_flipped_bit_of_a_record_is_detected():
    sealed = serialisation.seal(b"content", "anna", "inputs", 3)
    for bit in range(8 * len(sealed)):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damaged):
            serialisation.unseal(bytes(changed), "anna", "inputs", 3)
    for length in range(len(sealed)):
        with pytest.raises(Damaged):
            serialisation.unseal(sealed[:length], "anna", "inputs", 3)
    for place in (("anna", "inputs", 4), ("ben", "inputs", 3), ("anna", "events", 3)):
        with pytest.raises(Damaged):
            serialisation.unseal(sealed, *place)
    assert serialisation.unseal(sealed, "anna", "inputs", 3) == b"content"


def test_an_intact_record_with_invalid_content_is_refused(manager):
    create(manager, ["anna", "ben"])
    for content in (
        b"",
        b"nonsense" * 4,
        tensorfile.pack({}, serialisation.STATE_KEY, {}),
        tensorfile.pack({}, serialisation.STATE_KEY, {"wearer": "anna"}),
    ):
        sealed = serialisation.seal(content, "anna", "state", 0)
        manager.store._db.execute("UPDATE state_1 SET state = ?", (sealed,))
        manager._sessions.clear()
        with pytest.raises(Conflict, match="anna"):
            manager.info("anna")
    assert manager.info("ben")["seq"] == 0
