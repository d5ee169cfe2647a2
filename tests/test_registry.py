"""The registry, hyper-parameters from text, and methods of other packages."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from typing import Literal

import pytest

from sight import params, registry
from sight.methods.sight import SIGHT
from sight.methods.sticky import Sticky


@pytest.mark.parametrize("kind", list(registry.TABLES))
def test_every_name_has_a_class(kind):
    for name in registry.TABLES[kind]:
        assert isinstance(registry.get(kind, name.upper()), type)


def test_classes_have_their_registered_names():
    for name in registry.names("methods"):
        assert registry.get("methods", name).name == name


def test_an_unknown_name_suggests_the_closest():
    with pytest.raises(ValueError, match="Did you mean 'sticky'"):
        registry.get("methods", "stiky")
    with pytest.raises(ValueError, match="no kind"):
        registry.names("animals")


def test_the_recommended_method_exists():
    assert registry.RECOMMENDED in registry.names("methods")


def test_entry_points_add_names_and_cannot_replace_built_in_ones(monkeypatch):
    entries = [
        EntryPoint("mine", "sight.methods.sticky:Sticky", "sight.methods"),
        EntryPoint("sight", "sight.methods.sticky:Sticky", "sight.methods"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == "sight.methods" else [])
    monkeypatch.setattr(registry, "_installed", registry._installed.__wrapped__)
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
def test_text_is_read_by_annotation(text, annotation, value):
    read = params.read(text, annotation)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("tau", "KEY=VALUE"),
        ("taw=1", "Did you mean 'tau'"),
        ("tau=big", "sight: expected tau > 0, got 'big'"),
        ("tau=-1", "sight: expected tau > 0, got -1.0"),
        ("surprise=2", "'off' or 0 <= surprise <= 1, got 2.0"),
        ("routing=maybe", "yes or no"),
        ("habit=log", "'sqrt' or 'raw' or 'off'"),
    ],
)
def test_invalid_text_is_refused(assignment, words):
    with pytest.raises(ValueError, match=words):
        params.parse(SIGHT, [assignment])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tau": -1}, "sight: expected tau > 0, got -1"),
        ({"tau": "big"}, "expected tau > 0, got 'big'"),
        ({"tau": float("nan"), "eta_h": 2}, "tau > 0, got nan; 0 <= eta_h <= 1, got 2"),
        ({"routing": 1}, "routing yes or no, got 1"),
        ({"gap_half_life_s": float("inf")}, "gap_half_life_s > 0 or None, got inf"),
    ],
)
def test_the_constructor_refuses_invalid_fields(fields, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        SIGHT(**fields)


def test_ranges_are_described():
    assert params.describe(params.field_annotations(SIGHT)["eta_mu"]) == "a number, 0 <= x <= 1"
    assert params.describe(params.field_annotations(SIGHT)["gap_half_life_s"]) == "a number or none, x > 0"
