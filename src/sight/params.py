"""Text to dataclass fields and back, so that no setting is declared twice.

``--set tau=0.1`` is read by the field's own annotation: wrong names and wrong values are refused with what
would have been right.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sight.ops import choices


def parse(cls: type, assignments: Iterable[str]) -> dict[str, Any]:
    """Read ``key=value`` texts into keyword arguments of the dataclass `cls`.

    Examples
    --------
    >>> from sight.methods.sight import SIGHT
    >>> parse(SIGHT, ["tau=0.1", "routing=no", "surprise=off", "gap_half_life_s=none"])
    {'tau': 0.1, 'routing': False, 'surprise': 'off', 'gap_half_life_s': None}
    """
    hints = get_type_hints(cls)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}
    found = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals:
            raise ValueError(f"Expected KEY=VALUE, got {text!r}; for example --set {next(iter(fields), 'key')}=1.")
        if key not in fields:
            raise ValueError(f"{cls.__name__} has no setting {key!r}; {choices(key, fields)}")
        found[key] = read(value.strip(), fields[key], key)
    return found


def read(text: str, annotation: Any, key: str = "value") -> Any:
    """Read one text by an annotation: bool, int, float, str, Literal, None, or a union of these."""
    for option in _options(annotation):
        try:
            return _read_one(text, option)
        except ValueError:
            continue
    raise ValueError(f"{key}={text!r} is not {describe(annotation)}.")


def describe(annotation: Any) -> str:
    """Say in words what an annotation admits.

    Examples
    --------
    >>> describe(float | None), describe(Literal["a", "b"])
    ('a number or none', "'a' or 'b'")
    """
    words = {bool: "yes or no", int: "a whole number", float: "a number", str: "a text", types.NoneType: "none"}
    parts: list[str] = []
    for option in _options(annotation):
        parts += [repr(value) for value in get_args(option)] if get_origin(option) is Literal else [words[option]]
    return " or ".join(parts)


def _options(annotation: Any) -> list[Any]:
    """Members of a union, text last so that it does not swallow the others."""
    members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    return sorted(members, key=lambda member: member is str)


def _read_one(text: str, option: Any) -> Any:
    low = text.lower()
    if get_origin(option) is Literal:
        for value in get_args(option):
            if str(value) == text:
                return value
        raise ValueError
    if option is types.NoneType:
        if low in ("none", "null", ""):
            return None
        raise ValueError
    if option is bool:
        if low in ("true", "yes", "on", "1"):
            return True
        if low in ("false", "no", "off", "0"):
            return False
        raise ValueError
    return option(text)
