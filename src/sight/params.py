"""Hyper-parameters as dataclass fields: declared ranges, validation, and reading from text.

The annotation of a field is its only declaration. It gives the allowed values (``Literal["a", "b"]``, ``float |
None``), and a `Range` in an ``Annotated`` type bounds numbers:

>>> @dataclasses.dataclass
... class Smoother:
...     rate: UnitInterval = 0.1
...     mode: Literal["mean", "median"] = "mean"
>>> validate(Smoother(rate=2.0, mode="max"), "smoother")
Traceback (most recent call last):
    ...
ValueError: smoother: expected 0 <= rate <= 1, got 2.0; mode 'mean' or 'median', got 'max'.
"""

import dataclasses
import sys
import types
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from sight._util.text import choices

NUMBERS: Mapping[Any, tuple[type, ...]] = {int: (int, np.integer), float: (int, float, np.integer, np.floating)}
WORDS = {bool: "yes or no", int: "a whole number", float: "a number", str: "a text", types.NoneType: "none"}
TEXTS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """Bounds of a finite number; `above` and `below` are exclusive, `at_least` and `at_most` inclusive."""

    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    below: float | None = None

    def allows(self, value: Any) -> bool:
        lower = self.above is None or value > self.above, self.at_least is None or value >= self.at_least
        upper = self.below is None or value < self.below, self.at_most is None or value <= self.at_most
        # Also refuses a whole number that no float can hold, for which `math.isfinite` raises OverflowError.
        return bool(abs(value) <= sys.float_info.max) and all((*lower, *upper))

    def text(self, name: str) -> str:
        """Return the bounds as an inequality."""
        lower, less = (self.above, "<") if self.at_least is None else (self.at_least, "<=")
        upper, more = (self.below, "<") if self.at_most is None else (self.at_most, "<=")
        if lower is None or upper is None:
            return f"{name} {more} {upper:g}" if lower is None else f"{name} {less.replace('<', '>')} {lower:g}"
        return f"{lower:g} {less} {name} {more} {upper:g}"


Positive = Annotated[float, Range(above=0)]
NonNegative = Annotated[float, Range(at_least=0)]
UnitInterval = Annotated[float, Range(at_least=0, at_most=1)]
PositiveInt = Annotated[int, Range(at_least=1)]
NonNegativeInt = Annotated[int, Range(at_least=0)]
#: Half-life in seconds of a belief over a gap; None keeps the belief.
GapHalfLife = Annotated[float | None, Range(above=0)]


def validate(instance: Any, name: str) -> None:
    """Raise ValueError, which starts with `name` and lists all fields with values that their annotations forbid."""
    cls: type = type(instance)
    _raise_if_wrong(cls, {key: getattr(instance, key) for key in field_annotations(cls)}, name)


def check(cls: type, values: Mapping[str, Any]) -> None:
    """Raise ValueError unless all values are fields of the dataclass `cls` and their annotations allow them."""
    check_names(cls, values)
    _raise_if_wrong(cls, values, _title(cls))


def check_names(cls: type, names: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise ValueError unless all names are fields of the dataclass `cls`; `others` are further choices."""
    fields = field_annotations(cls)
    for name in names:
        if name not in fields:
            raise ValueError(f"{_title(cls)} has no parameter {name!r}; {choices(name, [*fields, *others])}")


def parse(cls: type, assignments: Iterable[str]) -> dict[str, Any]:
    """Read ``key=value`` texts into keyword arguments of the dataclass `cls`."""
    fields, title = field_annotations(cls), _title(cls)
    values: dict[str, Any] = {}
    for text in assignments:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise ValueError(f"Expected KEY=VALUE, got {text!r}; for example {next(iter(fields), 'key')}=1.")
        try:
            values[key] = read(value, fields[key]) if key in fields else value
        except ValueError:
            raise ValueError(f"{title}: expected {requirement(key, fields[key])}, got {value!r}.") from None
    check(cls, values)
    return values


def read(text: str, annotation: Any) -> Any:
    """Read one text by an annotation: bool, int, float, str, Literal, None, or a union of these."""
    low = text.lower()
    for option in _options(annotation):
        if get_origin(option) is Literal:
            values: Mapping[str, Any] = {str(value): value for value in get_args(option)}
            if text in values:
                return values[text]
        elif option is types.NoneType and low in ("none", "null", ""):
            return None
        elif option is bool and low in TEXTS:
            return TEXTS[low]
        elif option not in (bool, types.NoneType):
            try:
                return option(text)
            except ValueError:
                continue
    raise ValueError(f"Expected {describe(annotation)}, got {text!r}.")


def describe(annotation: Any) -> str:
    """Return which values an annotation allows, in words."""
    parts = [*_literals(annotation), *(WORDS[option] for option in _options(annotation) if option in WORDS)]
    bounds = _bounds(annotation)
    return " or ".join(parts) + (f", {bounds.text('x')}" if bounds else "")


def requirement(name: str, annotation: Any) -> str:
    """Return what a field must be, for an error message after "expected"."""
    bounds, words = _bounds(annotation), _literals(annotation)
    if bounds is None:
        return f"{name} {describe(annotation)}"
    parts = [f"{name} {' or '.join(words)}"] if words else []
    return " or ".join([*parts, bounds.text(name), *["None"] * (types.NoneType in _options(annotation))])


@lru_cache(maxsize=256)
def field_annotations(cls: type) -> dict[str, Any]:
    """Return the annotations of the fields that the constructor of a dataclass takes, with their ranges."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _title(cls: type) -> str:
    return str(getattr(cls, "name", cls.__name__))


def _raise_if_wrong(cls: type, values: Mapping[str, Any], title: str) -> None:
    fields = field_annotations(cls)
    wrong = [
        f"{requirement(key, fields[key])}, got {value!r}"
        for key, value in values.items()
        if not any(_allows(option, _bounds(fields[key]), value) for option in _options(fields[key]))
    ]
    if wrong:
        raise ValueError(f"{title}: expected {'; '.join(wrong)}.")


def _allows(option: Any, bounds: Range | None, value: Any) -> bool:
    if get_origin(option) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(option))
    if option in NUMBERS:
        number = isinstance(value, NUMBERS[option]) and not isinstance(value, bool)
        return number and (bounds is None or bounds.allows(value))
    return not isinstance(option, type) or isinstance(value, option)


def _bounds(annotation: Any) -> Range | None:
    extras = annotation.__metadata__ if get_origin(annotation) is Annotated else ()
    return next((extra for extra in extras if isinstance(extra, Range)), None)


def _literals(annotation: Any) -> list[str]:
    literals = (option for option in _options(annotation) if get_origin(option) is Literal)
    return [repr(value) for option in literals for value in get_args(option)]


def _options(annotation: Any) -> list[Any]:
    """Return the members of a union, str last so that it does not match before the others."""
    if get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    return sorted(members, key=lambda member: member is str)
