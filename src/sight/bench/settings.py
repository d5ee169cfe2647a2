"""Reads settings, corpora with their pairs of people, from TOML: those of the package, and anybody's own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from sight.bench.plan import Pair, Setting, check_keys, check_known

#: The settings that stand for all others in tables over several.
SUITE = "nine"
KEYS = (
    "short",
    "suite",
    "dataset",
    "options",
    "windowing",
    "pairs",
    "detailed",
    "sources",
    "encoder",
    "epochs",
    "batch",
    "use_gaps",
    "paper",
    "paper_subject",
)


@cache
def _settings() -> dict[str, Any]:
    return tomllib.loads((resources.files("sight.bench") / "settings.toml").read_text("utf-8"))


def settings() -> tuple[str, ...]:
    """Name the settings that come with the package."""
    return tuple(_settings())


def suite(name: str = SUITE) -> dict[str, str]:
    """Return the settings of a suite, and how tables over all of them call each.

    Examples
    --------
    >>> len(suite()), suite()["hapt-body-single"]
    (9, 'HAPT body S')
    """
    return {setting: table["short"] for setting, table in _settings().items() if table.get("suite") == name}


def short(name: str) -> str:
    """Return how tables over several settings call one; one's own go by their name."""
    return str(_settings().get(name, {}).get("short", name))


def load_setting(name: str, *, pairs: str = "main", limit: int | None = None) -> Setting:
    """Read a setting by name, or from a TOML file of one's own.

    Parameters
    ----------
    name
        A table of ``settings.toml``, or a file that holds one such table.
    pairs
        "detailed" takes the table's `detailed` pairs where it has them.
    limit
        Keep so many pairs.

    Notes
    -----
    A setting lists ``pairs`` such as "1+2->5", or ``sources`` that meet everybody else: "3" is one person, "1+2+5"
    these, "3..7" all from one to the other in the corpus's order.

    Examples
    --------
    >>> load_setting("harth", limit=1).pairs
    ((('S006',), 'S032'),)
    """
    path = Path(name)
    if path.suffix == ".toml":
        name, table = path.stem, tomllib.loads(path.read_text("utf-8"))
    else:
        check_known(name, settings(), "setting")
        table = dict(_settings()[name])
    check_keys(table, KEYS, f"Setting {name}")
    options, keep = table.get("options", {}), ("windowing", "encoder", "epochs", "batch", "use_gaps", "paper")
    listed = (table.get("detailed") if pairs == "detailed" else None) or table.get("pairs")
    who = [_pair(text) for text in listed] if listed else list(_against_others(table, options))
    return Setting(
        name=name,
        dataset=table["dataset"],
        options=options,
        pairs=tuple(who[:limit]),
        **{entry: table[entry] for entry in (*keep, "paper_subject") if entry in table},
    )


def describe(name: str) -> tuple[str, str]:
    """Say which corpus a setting takes, and whom, without looking at any file.

    Examples
    --------
    >>> describe("hugadb-pooled")
    ('hugadb', '2 sources of several people against everybody else')
    """
    table = _settings()[name]
    if "sources" not in table:
        more = f", {len(table['detailed'])} detailed" if "detailed" in table else ""
        return table["dataset"], f"{len(table['pairs'])} pairs{more}"
    several = any(sign in text for text in table["sources"] for sign in ("+", ".."))
    what = "sources of several people" if several else "single sources"
    return table["dataset"], f"{len(table['sources'])} {what} against everybody else"


def _pair(text: str) -> Pair:
    sources, arrow, target = text.partition("->")
    if not arrow or not sources or not target:
        raise ValueError(f"Expected a pair such as '1+2->5', got {text!r}; write sources, an arrow, the target.")
    return tuple(sources.split("+")), target


def _against_others(table: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[Pair]:
    from sight.datasets import load

    everybody = load(table["dataset"], **options).subjects()
    for text in table["sources"]:
        group = people(text, everybody)
        yield from ((group, target) for target in everybody if target not in group)


def people(text: str, everybody: Sequence[str]) -> tuple[str, ...]:
    """Read who is meant, in the corpus's order.

    Examples
    --------
    >>> people("2..4", ("1", "2", "3", "4", "10")), people("10+1", ("1", "2", "10"))
    (('2', '3', '4'), ('10', '1'))
    """
    first, dots, last = text.partition("..")
    named = (first, last) if dots else tuple(text.split("+"))
    for person in named:
        check_known(person, everybody, "subject")
    if not dots:
        return named
    low, high = (list(everybody).index(end) for end in named)
    return tuple(everybody[low : high + 1])
