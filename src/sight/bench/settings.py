"""Reads settings, corpora with their pairs of people, from TOML: those of the package, and anybody's own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from sight import registry
from sight.bench import toml_files
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
    return tomllib.loads((resources.files("sight.bench") / "configs" / "settings.toml").read_text("utf-8"))


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
        name, table = path.stem, toml_files.read(path)
    else:
        check_known(name, settings(), "setting")
        table = dict(_settings()[name])
    where = f"Setting {name}"
    check_keys(table, KEYS, where)
    dataset, options = toml_files.need(table, "dataset", where), table.get("options", {})
    made = corpus(dataset, options, where)
    keep = ("windowing", "encoder", "epochs", "batch", "use_gaps", "paper", "paper_subject")
    main, detailed, sources = (toml_files.listed(table, entry, where) for entry in ("pairs", "detailed", "sources"))
    chosen = detailed if detailed and pairs == "detailed" else main
    if not chosen and not sources:
        raise ValueError(f'{where}: there is nobody to run on; write pairs = ["1->2"] or sources = ["1"].')
    who = [_pair(text, where) for text in chosen] or list(_against_others(sources, everybody(made)))
    return Setting(
        name=name,
        dataset=dataset,
        options=options,
        pairs=tuple(who[:limit]),
        **{entry: table[entry] for entry in keep if entry in table},
    )


def corpus(name: str, options: Mapping[str, Any], where: str) -> Any:
    """Make a corpus, its files not looked for yet; unknown options are told with those it has."""
    cls: Any = registry.get("datasets", name)
    try:
        if hasattr(cls, "__dataclass_fields__"):
            toml_files.check_fields(cls, options)
        return cls(**options)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


def everybody(dataset: Any) -> tuple[str, ...]:
    """Name the people of a corpus; where its files are missing, say how to get them."""
    try:
        return tuple(dataset.subjects())
    except ValueError as error:
        fetch = f" Or let it be fetched: sight data fetch {dataset.name}" if getattr(dataset, "downloads", ()) else ""
        raise ValueError(f"{error}{fetch}") from None


class About(NamedTuple):
    """A setting in words: the corpus and its options, whom it takes, what of the paper it stands for, who is here."""

    corpus: str
    whom: str
    paper: str
    here: str


def describe(name: str) -> About:
    """Say which corpus a setting takes, whom, for which of the paper's, and whether its files are on this machine.

    Examples
    --------
    >>> describe("synthetic").here, describe("hugadb-pooled").whom
    ('5 people', '2 sources of several people against everybody else')
    """
    table = _settings()[name]
    options = table.get("options", {})
    told = f" ({', '.join(f'{entry} {value}' for entry, value in options.items())})" if options else ""
    try:
        here = f"{len(everybody(corpus(table['dataset'], options, name)))} people"
    except ValueError:
        here = "-"
    return About(f"{table['dataset']}{told}", _whom(table), table.get("paper", ""), here)


def _whom(table: Mapping[str, Any]) -> str:
    if "sources" not in table:
        more = f", {len(table['detailed'])} detailed" if "detailed" in table else ""
        return f"{len(table['pairs'])} pairs{more}"
    several = any(sign in text for text in table["sources"] for sign in ("+", ".."))
    what = "sources of several people" if several else "single sources"
    return f"{len(table['sources'])} {what} against everybody else"


def _pair(text: str, where: str) -> Pair:
    sources, arrow, target = text.partition("->")
    if not arrow or not sources or not target:
        raise ValueError(f"Expected a pair such as '1+2->5', got {text!r}; write sources, an arrow, the target.")
    if target in sources.split("+"):
        raise ValueError(f"{where}: in {text!r} the target is among its own sources; take somebody else.")
    return tuple(sources.split("+")), target


def _against_others(sources: Sequence[str], everybody: Sequence[str]) -> Iterator[Pair]:
    for text in sources:
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
