"""Reads experiments and settings from their TOML files: those of the package, and anybody's own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from sight import registry
from sight.bench.plan import KINDS, ORDERS, Experiment, Pair, Setting, Variant
from sight.ops import choices

#: Methods as the paper spells them; any other goes by its registry name.
SPELLING = {
    "none": "Source-only",
    "tent": "TENT",
    "note": "NOTE",
    "sar": "SAR",
    "rotta": "RoTTA",
    "oatta": "OATTA",
    "tca": "TCA",
    "rem": "REM",
    "oftta": "OFTTA",
    "accup": "ACCUP",
    "coa-har": "COA-HAR",
    "sight": "SIGHT",
    "keel": "Keel",
    "ema": "EMA",
    "sticky": "Sticky",
    "sticky-learned": "Sticky, learned",
    "t3a": "T3A",
    "lame": "LAME",
    "cotta": "CoTTA",
    "eata": "EATA",
}
#: The settings that stand for all others in tables over several.
SUITE = "nine"
EXPERIMENT_KEYS = (
    "title",
    "kind",
    "paper",
    "pairs",
    "ranked",
    "preset",
    "rule",
    "methods",
    "everybody",
    "grids",
    "encoders",
    "seeds",
    "orders",
)
SETTING_KEYS = (
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


def experiments() -> tuple[str, ...]:
    """Name the experiments that come with the package."""
    folder = resources.files("sight.bench") / "experiments"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_experiment(name: str) -> Experiment:
    """Read an experiment by name, or from a TOML file of one's own.

    Examples
    --------
    >>> [variant.label for variant in load_experiment("ablation").variants][:2]
    ['Source-only', 'w/o predictive surprise']
    """
    path = Path(name)
    if path.suffix == ".toml":
        return _experiment(path.stem, tomllib.loads(path.read_text("utf-8")))
    _known(name, experiments(), "experiment")
    text = (resources.files("sight.bench") / "experiments" / f"{name}.toml").read_text("utf-8")
    return _experiment(name, tomllib.loads(text))


def narrow(
    experiment: Experiment, methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> Experiment:
    """Keep some methods and seeds of an experiment; a method it does not have is added from the registry.

    Examples
    --------
    >>> [variant.label for variant in narrow(load_experiment("ablation"), methods=["sight", "t3a"]).variants][-2:]
    ['SIGHT', 'T3A']
    """
    if methods is not None:
        kept = [variant for variant in experiment.variants if {variant.method, variant.label} & set(methods)]
        named = {name for variant in kept for name in (variant.method, variant.label)}
        like = experiment.variants[0] if experiment.variants else Variant(label="", method="")
        kept += [_variant(name, like.preset, like.rule) for name in methods if name not in named]
        experiment = replace(experiment, variants=tuple(kept))
    return experiment if seeds is None else replace(experiment, seeds=tuple(seeds))


def _experiment(name: str, table: Mapping[str, Any]) -> Experiment:
    where = f"Experiment {name}"
    _keys(table, EXPERIMENT_KEYS, where)
    if table.get("kind") not in KINDS:
        raise ValueError(f"{where}: expected kind {' or '.join(KINDS)}, got {table.get('kind')!r}.")
    for order in table.get("orders", ()):
        _known(order, ORDERS, "order")
    variants = tuple(_variants(table))
    labels = [variant.label for variant in variants]
    if len(set(labels)) != len(labels):
        raise ValueError(f"{where}: two methods share a label among {labels}; give each its own.")
    lists: dict[str, Any] = {entry: tuple(table[entry]) for entry in ("encoders", "seeds", "orders") if entry in table}
    plain = {entry: table[entry] for entry in ("paper", "pairs", "ranked") if entry in table}
    title = table.get("title", name)
    return Experiment(name=name, title=title, kind=table["kind"], variants=variants, **plain, **lists)


def _variants(table: Mapping[str, Any]) -> Iterator[Variant]:
    preset, rule = table.get("preset"), table.get("rule")
    listed = [_variant(entry, preset, rule) for entry in table.get("methods", ())]
    yield from listed
    for grid in table.get("grids", ()):
        yield from _grid(grid, preset, rule)
    if table.get("everybody"):
        known = {variant.method for variant in listed}
        yield from (_variant(name, preset, rule) for name in registry.names("methods") if name not in known)


def _variant(entry: str | Mapping[str, Any], preset: str | None, rule: str | None) -> Variant:
    if isinstance(entry, str):
        entry = {"method": entry}
    _keys(entry, ("method", "label", "preset", "rule", "lag", "set"), f"Method {entry}")
    method = entry["method"].lower()
    _known(method, registry.names("methods"), "method")
    return Variant(
        label=entry.get("label", SPELLING.get(method, method)),
        method=method,
        preset=entry.get("preset", preset),
        rule=entry.get("rule", rule),
        lag=entry.get("lag", 0),
        fields=dict(entry.get("set", {})),
    )


def _grid(grid: Mapping[str, Any], preset: str | None, rule: str | None) -> Iterator[Variant]:
    """One field at a time, the others at their defaults."""
    _keys(grid, ("method", "set", "values"), "Grid")
    for name, values in grid["values"].items():
        for value in values:
            fields = {**grid.get("set", {}), name: value}
            label = f"{name}={value:g}"
            yield Variant(label=label, method=grid["method"], preset=preset, rule=rule, fields=fields)


# --- settings ----------------------------------------------------------------------------------------------------


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
        _known(name, settings(), "setting")
        table = dict(_settings()[name])
    _keys(table, SETTING_KEYS, f"Setting {name}")
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
        _known(person, everybody, "subject")
    if not dots:
        return named
    low, high = (list(everybody).index(end) for end in named)
    return tuple(everybody[low : high + 1])


# --- help ----------------------------------------------------------------------------------------------------------


def _known(name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        raise ValueError(f"There is no {what} called {name!r}; {choices(name, known)}")


def _keys(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for entry in table:
        if entry not in known:
            raise ValueError(f"{where}: unknown {entry!r}; {choices(entry, known)}")
