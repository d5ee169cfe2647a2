"""Reads the TOML files of experiments and settings, and tells mistakes in their shape."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sight import params


def read(path: Path) -> dict[str, Any]:
    """Read a file of one's own; what is wrong in it is told with its name."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no TOML: {error}") from None


def need(table: Mapping[str, Any], entry: str, where: str) -> Any:
    """Return an entry that has to be there.

    Examples
    --------
    >>> need({}, "dataset", "Setting mine")
    Traceback (most recent call last):
    ValueError: Setting mine: 'dataset' is missing; write dataset = ... there.
    """
    if entry not in table:
        raise ValueError(f"{where}: {entry!r} is missing; write {entry} = ... there.")
    return table[entry]


def listed(table: Mapping[str, Any], entry: str, where: str) -> list[Any]:
    """Return a list of the table, empty where it has none.

    Examples
    --------
    >>> listed({"methods": "none"}, "methods", "Experiment mine")
    Traceback (most recent call last):
    ValueError: Experiment mine: expected a list of methods, got 'none'; write methods = ["none"].
    """
    found = table.get(entry, [])
    if isinstance(found, list):
        return found
    one = f'"{found}"' if isinstance(found, str) else found
    raise ValueError(f"{where}: expected a list of {entry}, got {found!r}; write {entry} = [{one}].")


def check_fields(cls: type, given: Mapping[str, Any]) -> None:
    """Raise unless entries are fields of a class and fit their annotations, as texts of ``--set`` have to.

    Examples
    --------
    >>> from sight.methods.sight import SIGHT
    >>> check_fields(SIGHT, {"tau": "warm"})
    Traceback (most recent call last):
    ValueError: sight: expected tau > 0, got 'warm'.
    """
    plain = {name: value for name, value in given.items() if isinstance(value, (str, int, float))}
    params.parse(cls, [f"{name}={value}" for name, value in plain.items()])
