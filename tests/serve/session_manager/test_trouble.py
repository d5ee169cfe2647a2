"""One wearer's trouble is nobody else's: bad chunks, a full disk, damaged and foreign states."""

from __future__ import annotations

import numpy as np
import pytest

from sight.serve import serialization
from sight.serve.model_catalog import Models
from sight.serve.session_manager import (
    Ack,
    BadChunk,
    Chunk,
    Conflict,
    Damaged,
    Keeper,
    StoreFailed,
    UnknownWearer,
    WrongSequence,
)
from sight.serve.sqlite_store import SqliteStore
from tests.helpers.keeping import alone, create, killed, same, send, toy_model, walk

# --- chunks ----------------------------------------------------------------------------------------------------------

BAD = {
    "channels": np.zeros((4, 2), np.float32),
    "flat": np.zeros(4, np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "long": np.zeros((20_001, 3), np.float32),
    "wide": np.zeros((2, 3, 3), np.float32),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_chunk_touches_nobody(keeper, model, name):
    values = walk(1, 30)
    create(keeper, ["anna", "ben"])
    send(keeper, "anna", values[:100])
    outcomes = keeper.ingest(
        [
            Chunk("ben", 1, values[:100]),
            Chunk("anna", 2, BAD[name]),
            Chunk("nobody", 1, values),
            Chunk("anna", 3, values[100:]),
            Chunk("ben", 2, values[100:]),
        ]
    )
    assert [type(outcome) for outcome in outcomes[::2]] == [Ack, UnknownWearer, Ack]
    assert isinstance(outcomes[1], BadChunk)
    assert isinstance(outcomes[3], WrongSequence)
    ben = outcomes[0].events + outcomes[4].events
    assert same(ben, alone(model, values, "sight"))
    rest = send(keeper, "anna", values[100:], seq=2)
    assert same(rest.events, ben[-len(rest.events) :])


def test_a_window_that_the_network_cannot_answer_touches_nobody(tmp_path):
    """Values near the end of float32 overflow inside the network, long after the chunk was admitted."""
    model, values = toy_model("toy", "1"), walk(1, 30)
    model.source.projection = 100 * model.source.projection.astype(np.float32)  # infinity less infinity is no number
    keeper = Keeper(Models([model]), SqliteStore(tmp_path / "store.db"))
    create(keeper, ["anna", "ben"])
    first = send(keeper, "anna", values[:100]).events
    bad = np.full((60, 3), 3e38, np.float32)
    names = ("anna", "ben", "anna", "anna")
    sent = zip(names, (None, 1, 3, 4), (values[100:130], values, bad, values), strict=True)
    good, ben, refused, later = keeper.ingest([Chunk(*one) for one in sent])
    assert isinstance(refused, ValueError)
    assert "NaN" in str(refused)
    assert isinstance(later, WrongSequence)
    assert later.expected == 3
    rest = send(keeper, "anna", values[130:], seq=3)
    assert same(first + good.events + rest.events, ben.events)
    assert same(ben.events, alone(model, values, "sight"))
    keeper.close()


def test_times_must_be_as_many_as_samples(keeper):
    create(keeper, ["anna"])
    with pytest.raises(BadChunk, match="expected 4 times"):
        send(keeper, "anna", np.zeros((4, 3)), time_s=np.arange(3.0))


def test_a_chunk_that_spans_hours_is_refused(keeper):
    create(keeper, ["anna"])
    with pytest.raises(BadChunk, match="at most 1000 windows, got 1999"):
        send(keeper, "anna", np.zeros((20_000, 3)))
    assert send(keeper, "anna", np.zeros((30, 3))).seq == 1


def test_a_store_that_fails_acknowledges_nothing(keeper, model):
    values = walk(1, 40)
    create(keeper, ["anna"])
    first = send(keeper, "anna", values[:100])
    keeper.store._base.execute("PRAGMA max_page_count = 1")  # as small as it is: the disk is full
    failed = keeper.ingest([Chunk("anna", number, values[100:].repeat(20, axis=0)) for number in (2, 3)])
    assert [type(outcome) for outcome in failed] == [StoreFailed, StoreFailed]
    keeper.store._base.execute("PRAGMA max_page_count = 100000")
    rest = send(keeper, "anna", values[100:], seq=2)
    assert same(first.events + rest.events, alone(model, values, "sight"))


def flip(content: bytes) -> bytes:
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


DAMAGE = {
    "cut": (lambda content: content[: len(content) // 2], "damaged"),
    "empty": (lambda content: content[:0], "damaged"),
    "flipped": (flip, "damaged"),
    "newer": (lambda content: b"\x09" + content[1:], "format 9, this sight reads format 1"),
}


@pytest.mark.parametrize("table", ["wearers.facts", "state_1.state", "inputs_1.samples"])
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found_and_stays_with_its_wearer(keeper, model, tmp_path, table, kind):
    values = walk(1, 20)
    create(keeper, ["anna", "ben"])
    for name in ("anna", "ben"):
        keeper.ingest([Chunk(name, None, values[at : at + 5]) for at in range(0, 100, 5)])
    again = killed(keeper, tmp_path / "killed")
    base, (name, column) = again.store._base, table.split(".")
    spoil, told = DAMAGE[kind]
    where = {
        "wearers": "id = 1",
        "state_1": "TRUE",
        "inputs_1": "seq = (SELECT max(seq) FROM inputs_1)",
    }
    (content,) = base.execute(f"SELECT {column} FROM {name} WHERE {where[name]}").fetchone()
    base.execute(f"UPDATE {name} SET {column} = ? WHERE {where[name]}", (spoil(content),))
    one, two = again.ingest([Chunk("anna", 21, values[100:]), Chunk("ben", 21, values[100:])])
    assert isinstance(one, Damaged)
    assert told in str(one)
    assert "anna" in str(one)
    assert same(two.events, alone(model, values, "sight")[-len(two.events) :])
    assert {row["wearer"] for row in again.wearers()} == {"anna", "ben"}
    if name != "wearers":
        assert again.reset("anna")["seq"] == 20
        assert send(again, "anna", values, seq=21).events[0].window == 0
    again.delete("anna")
    create(again, ["anna"])
    assert same(send(again, "anna", values).events, alone(model, values, "sight"))
    again.close()


def test_damaged_answers_are_told(keeper):
    create(keeper, ["anna"])
    send(keeper, "anna", walk(1, 5))
    keeper.store._base.execute("UPDATE answers_1 SET events = substr(events, 1, 30)")
    with pytest.raises(Damaged, match="answers 1 are damaged"):
        keeper.events("anna")
    (row,) = keeper.wearers()
    assert (row["model"], row["count"], row["label"]) == ("toy@1", None, None)
    assert "answers 1 are damaged" in row["refused"]
    with pytest.raises(Damaged, match="answers 1 are damaged"):
        send(keeper, "anna", walk(1, 5), seq=1)
    assert send(keeper, "anna", walk(1, 5), seq=2).events


def test_a_state_in_anothers_place_is_noticed(keeper, tmp_path):
    create(keeper, ["anna", "ben"])
    base = keeper.store._base
    base.execute("UPDATE state_1 SET state = (SELECT state FROM state_2)")
    again = killed(keeper, tmp_path / "killed")
    with pytest.raises(Damaged, match="anna"):
        again.facts("anna")
    assert again.facts("ben")["seq"] == 0
    again.close()


def test_a_hole_in_the_log_is_noticed(keeper, tmp_path):
    create(keeper, ["anna"])
    for at in range(4):
        send(keeper, "anna", walk(at, 1))
    keeper.store._base.execute("DELETE FROM inputs_1 WHERE seq = 2")
    again = killed(keeper, tmp_path / "killed")
    with pytest.raises(Damaged, match="chunk 2 is missing"):
        again.facts("anna")
    again.close()


def test_a_model_that_is_gone_or_exchanged_is_told(keeper, models, tmp_path):
    create(keeper, ["anna"])
    again = killed(keeper, tmp_path / "one")
    again.models = Models([models.get("four")])
    with pytest.raises(Conflict, match="There is no model 'toy@1'"):
        again.facts("anna")
    other = models.get("toy@2")
    again.models = Models([renamed("toy", "1", other)])
    with pytest.raises(Conflict, match=r"saved with model toy@1 .* loaded is toy@1"):
        again.facts("anna")
    again.close()


def renamed(name, version, model):
    return type(model)(name, version, model.digest, model.source, model.card)


# --- codec -----------------------------------------------------------------------------------------------------------


def test_every_flipped_bit_of_a_seal_is_found():
    sealed = serialization.seal(b"content", "anna", "inputs", 3)
    for bit in range(8 * len(sealed)):
        spoiled = bytearray(sealed)
        spoiled[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damaged):
            serialization.unseal(bytes(spoiled), "anna", "inputs", 3)
    for length in range(len(sealed)):
        with pytest.raises(Damaged):
            serialization.unseal(sealed[:length], "anna", "inputs", 3)
    with pytest.raises(Damaged):
        serialization.unseal(sealed, "anna", "inputs", 4)


def test_a_sound_seal_around_nonsense_is_refused(keeper, tmp_path):
    create(keeper, ["anna", "ben"])
    for content in (
        b"",
        b"nonsense" * 4,
        serialization.pack_state({}, {}),
        serialization.pack_state({}, {"wearer": "anna"}),
    ):
        sealed = serialization.seal(content, "anna", "state", 0)
        keeper.store._base.execute("UPDATE state_1 SET state = ?", (sealed,))
        keeper._residents.clear()
        with pytest.raises(Conflict, match="anna"):
            keeper.facts("anna")
    assert keeper.facts("ben")["seq"] == 0
