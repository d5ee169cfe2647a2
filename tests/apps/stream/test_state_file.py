"""State files of sessions: identity, damage and versions."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from sight.apps.stream import Session, state_file
from sight.registry import method
from tests.helpers.streams import toy_source


def test_a_state_file_fits_only_the_same_model_method_rate_and_window(tmp_path):
    source = toy_source()
    session = Session(source, method("sight"))
    session.push(np.ones((33, 3)))
    file = state_file.save(tmp_path / "a" / "wearer.state", session)
    copy = state_file.load(file, Session(source, method("sight", tau=0.5)))
    assert copy.count == 2
    assert state_file.pack(copy) == file.read_bytes()
    other = toy_source()
    other.weight = other.weight * 1.5
    for wrong, difference in [
        (Session(other, method("sight")), "with model"),
        (Session(source, method("keel")), "with method"),
        (Session(source, method("sight"), rate_in_hz=20), "at 10 Hz, this run uses 20 Hz; set --rate 10"),
        (Session(source, method("sight"), stride_s=0.5), "with window"),
    ]:
        with pytest.raises(ValueError, match=f"saved {difference}"):
            state_file.load(file, wrong)


def test_damage_anywhere_in_a_state_file_is_detected():
    source = toy_source()
    session = Session(source, method("keel"))
    session.push(np.ones((33, 3)))
    whole, rng = state_file.pack(session), np.random.default_rng(0)
    for _ in range(100):
        broken = bytearray(whole)
        broken[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        copy = Session(source, method("keel"))
        before = state_file.pack(copy)
        try:
            state_file.unpack(bytes(broken), copy)
        except ValueError:
            assert state_file.pack(copy) == before
        else:  # a bit of padding, or of the version, which is not compared
            assert state_file.pack(copy) == whole
    for size in range(0, len(whole), 97):
        with pytest.raises(ValueError, match="part of one"):
            state_file.unpack(whole[:size], Session(source, method("keel")))


def test_a_newer_format_is_refused(monkeypatch):
    session = Session(toy_source(), method("none"))
    monkeypatch.setattr(state_file, "FORMAT", 3)
    newer = state_file.pack(session)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="upgrade sight"):
        state_file.unpack(newer, session)


def test_what_is_no_file_or_huge_is_not_read(tmp_path):
    session = Session(toy_source(), method("keel"))
    pipe, huge = tmp_path / "pipe", tmp_path / "huge"
    os.mkfifo(pipe)
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    for path, reason in ((pipe, "a pipe"), (tmp_path, "a folder"), (Path("/dev/zero"), "a device"), (huge, "bytes")):
        with pytest.raises(ValueError, match=reason):
            state_file.load(path, session)
        assert state_file.sensor_rate(path) is None
    with pytest.raises(FileNotFoundError):
        state_file.load(tmp_path / "absent", session)


def test_the_clock_of_another_shape_is_refused():
    session = Session(toy_source(), method("sight"))
    state = session.state()
    with pytest.raises(ValueError, match=r"expected state 'earlier' of shape \(3,\)"):
        session.restore(state | {"windower.clock.earlier": np.zeros(0)})
