"""Hyper-parameters as dataclass fields: declared ranges, validation, and reading from text.

The annotation of a field is its only declaration. It says what values are allowed (``Literal["a", "b"]``, ``float |
None``), and `Range` in an ``Annotated`` type bounds numbers:

>>> @dataclasses.dataclass
... class Smoother:
...     rate: UnitInterval = 0.1
...     mode: Literal["mean", "median"] = "mean"
>>> validate(Smoother(rate=2.0, mode="max"), "smoother")
Traceback (most recent call last):
    ...
ValueError: smoother: expected 0 <= rate <= 1, got 2.0; mode 'mean' or 'median', got 'max'.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from sight.ops import choices


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """Bounds of a finite number; `above` and `below` are exclusive, `at_least` and `at_most` inclusive."""

    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    below: float | None = None

    def allows(self, value: Any) -> bool:
        """Return whether a number is finite and within the bounds."""
        return bool(
            math.isfinite(value)
            and (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def text(self, name: str) -> str:
        """Return the bounds as an inequality.

        Examples
        --------
        >>> Range(above=0).text("tau"), Range(at_least=0, below=1).text("a")
        ('tau > 0', '0 <= a < 1')
        """
        lower = {">": self.above, ">=": self.at_least}
        upper = {"<": self.below, "<=": self.at_most}
        left = [(sign, bound) for sign, bound in lower.items() if bound is not None]
        right = [(sign, bound) for sign, bound in upper.items() if bound is not None]
        if left and right:
            return f"{left[0][1]:g} {left[0][0].replace('>', '<')} {name} {right[0][0]} {right[0][1]:g}"
        return " ".join(f"{name} {sign} {bound:g}" for sign, bound in left + right)


Positive = Annotated[float, Range(above=0)]
NonNegative = Annotated[float, Range(at_least=0)]
UnitInterval = Annotated[float, Range(at_least=0, at_most=1)]
PositiveInt = Annotated[int, Range(at_least=1)]
NonNegativeInt = Annotated[int, Range(at_least=0)]
#: Half-life in seconds of a belief over a gap; None keeps the belief.
GapHalfLife = Annotated[float | None, Range(above=0)]


def validate(instance: Any, name: str) -> None:
    """Raise ValueError if a field of a dataclass instance has a value that its annotation does not allow.

    Parameters
    ----------
    instance
        The dataclass instance.
    name
        Its name in the error message, which lists every wrong field.
    """
    cls: type = type(instance)
    _raise_if_wrong(cls, {key: getattr(instance, key) for key in field_annotations(cls)}, name)


def parse(cls: type, assignments: Iterable[str]) -> dict[str, Any]:
    """Read ``key=value`` texts into keyword arguments of the dataclass `cls`.

    Examples
    --------
    >>> from sight.methods.sight import SIGHT
    >>> parse(SIGHT, ["tau=0.1", "routing=no", "surprise=off", "gap_half_life_s=none"])
    {'tau': 0.1, 'routing': False, 'surprise': 'off', 'gap_half_life_s': None}
    """
    fields, title = field_annotations(cls), str(getattr(cls, "name", cls.__name__))
    values = {}
    for text in assignments:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise ValueError(f"Expected KEY=VALUE, got {text!r}; for example {next(iter(fields), 'key')}=1.")
        if key not in fields:
            raise ValueError(f"{title} has no parameter {key!r}; {choices(key, fields)}")
        try:
            values[key] = read(value, fields[key])
        except ValueError:
            raise ValueError(f"{title}: expected {requirement(key, fields[key])}, got {value!r}.") from None
    _raise_if_wrong(cls, values, title)
    return values


def read(text: str, annotation: Any) -> Any:
    """Read one text by an annotation: bool, int, float, str, Literal, None, or a union of these."""
    for option in _options(annotation):
        try:
            return _read_one(text, option)
        except ValueError:
            continue
    raise ValueError(f"Expected {describe(annotation)}, got {text!r}.")


def describe(annotation: Any) -> str:
    """Return which values an annotation allows, in words.

    Examples
    --------
    >>> describe(float | None), describe(Literal["a", "b"]), describe(UnitInterval)
    ('a number or none', "'a' or 'b'", 'a number, 0 <= x <= 1')
    """
    words = {bool: "yes or no", int: "a whole number", float: "a number", str: "a text", types.NoneType: "none"}
    parts: list[str] = []
    for option in _options(annotation):
        parts += [repr(value) for value in get_args(option)] if get_origin(option) is Literal else [words[option]]
    bounds = _bounds(annotation)
    return " or ".join(parts) + (f", {bounds.text('x')}" if bounds else "")


def requirement(name: str, annotation: Any) -> str:
    """Return what a field must be, for an error message after "expected".

    Examples
    --------
    >>> requirement("tau", Positive), requirement("mode", Literal["a", "b"]), requirement("half_life", GapHalfLife)
    ('tau > 0', "mode 'a' or 'b'", 'half_life > 0 or None')
    """
    bounds = _bounds(annotation)
    if bounds is None:
        return f"{name} {describe(annotation)}"
    words = [repr(value) for option in _options(annotation) for value in get_args(option)]
    parts = [f"{name} {' or '.join(words)}"] if words else []
    parts += [bounds.text(name), *(["None"] if types.NoneType in _options(annotation) else [])]
    return " or ".join(parts)


@lru_cache(maxsize=256)
def field_annotations(cls: type) -> dict[str, Any]:
    """Return the annotations of the fields that the constructor of a dataclass takes, with their ranges."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _raise_if_wrong(cls: type, values: dict[str, Any], title: str) -> None:
    fields = field_annotations(cls)
    wrong = [
        f"{requirement(key, fields[key])}, got {value!r}"
        for key, value in values.items()
        if not _allows(fields[key], value)
    ]
    if wrong:
        raise ValueError(f"{title}: expected {'; '.join(wrong)}.")


def _allows(annotation: Any, value: Any) -> bool:
    bounds = _bounds(annotation)
    for option in _options(annotation):
        if get_origin(option) is Literal:
            allowed = any(value == choice and type(value) is type(choice) for choice in get_args(option))
        elif option in (int, float):
            kinds = (int, np.integer) if option is int else (int, float, np.integer, np.floating)
            allowed = (
                isinstance(value, kinds) and not isinstance(value, bool) and (bounds is None or bounds.allows(value))
            )
        else:
            allowed = not isinstance(option, type) or isinstance(value, option)
        if allowed:
            return True
    return False


def _bounds(annotation: Any) -> Range | None:
    extras = annotation.__metadata__ if get_origin(annotation) is Annotated else ()
    return next((extra for extra in extras if isinstance(extra, Range)), None)


def _options(annotation: Any) -> list[Any]:
    """Return the members of a union, str last so that it does not match before the others."""
    if get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
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
