"""Names, settings from text, and methods of third parties."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Literal

import pytest

from sight import params, registry
from sight.methods.sight import SIGHT
from sight.methods.sticky import Sticky


@pytest.mark.parametrize("kind", list(registry.TABLES))
def test_every_name_leads_to_a_class(kind):
    for name in registry.TABLES[kind]:
        assert isinstance(registry.get(kind, name.upper()), type)


def test_method_names_are_their_own():
    for name in registry.names("methods"):
        assert registry.get("methods", name).name == name


def test_a_wrong_name_gets_the_near_one():
    with pytest.raises(ValueError, match="Did you mean 'sticky'"):
        registry.get("methods", "stiky")
    with pytest.raises(ValueError, match="no kind"):
        registry.names("animals")


def test_the_recommended_method_exists():
    assert registry.RECOMMENDED in registry.names("methods")


def test_third_parties_appear_and_cannot_displace_ours(monkeypatch):
    theirs = [
        EntryPoint("mine", "sight.methods.sticky:Sticky", "sight.methods"),
        EntryPoint("sight", "sight.methods.sticky:Sticky", "sight.methods"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: theirs if group == "sight.methods" else [])
    assert "mine" in registry.names("methods")
    assert registry.get("methods", "Mine") is Sticky
    assert registry.get("methods", "sight") is SIGHT


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("0.5", float, 0.5),
        ("3", int, 3),
        ("3", float | None, 3.0),
        ("none", float | None, None),
        ("off", Literal["off", "on"] | float, "off"),
        ("0.2", Literal["off", "on"] | float, 0.2),
        ("off", bool, False),
        ("True", bool, True),
        ("7", str | int, 7),
        ("seven", str | int, "seven"),
    ],
)
def test_texts_are_read_by_annotation(text, annotation, value):
    read = params.read(text, annotation)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("tau", "KEY=VALUE"),
        ("taw=1", "Did you mean 'tau'"),
        ("tau=big", "a number"),
        ("routing=maybe", "yes or no"),
        ("habit=log", "'sqrt' or 'raw' or 'off'"),
    ],
)
def test_wrong_settings_say_what_would_be_right(assignment, words):
    with pytest.raises(ValueError, match=words):
        params.parse(SIGHT, [assignment])
