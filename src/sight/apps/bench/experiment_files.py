"""Reading and checking TOML files of experiments and settings."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sight import params
from sight._util.text import choices


def read(path: Path) -> dict[str, Any]:
    """Read a user's TOML file; raise ValueError with its name where it is malformed."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None


def require(table: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in table:
        raise ValueError(f"{where}: {key!r} is missing; add {key} = ...")
    return table[key]


def get_list(table: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = table.get(key, [])
    if isinstance(value, list):
        return value
    item = f'"{value}"' if isinstance(value, str) else value
    raise ValueError(f"{where}: expected a list of {key}, got {value!r}; write {key} = [{item}].")


def check_fields(cls: type, values: Mapping[str, Any]) -> None:
    """Raise ValueError unless values are fields of a class and fit their annotations, as for ``--set``."""
    scalars = {name: value for name, value in values.items() if isinstance(value, (str, int, float))}
    params.parse(cls, [f"{name}={value}" for name, value in scalars.items()])


def check_name(name: str, available: Sequence[str], what: str) -> None:
    """Raise ValueError, with the nearest name, unless a name is available."""
    if name not in available:
        raise ValueError(f"There is no {what} called {name!r}; {choices(name, available)}")


def check_keys(table: Mapping[str, Any], available: Sequence[str], where: str) -> None:
    """Raise ValueError, with the nearest key, unless all keys of a table are available."""
    for key in table:
        if key not in available:
            raise ValueError(f"{where}: unknown {key!r}; {choices(key, available)}")
