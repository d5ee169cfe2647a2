"""Experiments from TOML files: those of the package, and users' own."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from sight import registry
from sight.apps.bench import experiment_files, simulated_days
from sight.apps.bench.experiment_files import check_keys, check_name
from sight.apps.bench.trials import KINDS, NATURAL, ORDERS, OWN_ORDERS, Experiment, Variant

CONFIGS = resources.files("sight.apps.bench") / "configs"
KEYS = (
    *("title", "kind", "in_paper", "paper", "pairs", "ranked", "preset", "rule", "methods", "all_methods", "grids"),
    *("encoders", "seeds", "orders", "sources_per_target", "protocols"),
)
#: Fields of a setting that a protocol may change.
PROTOCOL_KEYS = ("use_gaps", "epochs", "scaling", "power", "whole_batches", "oracle_epoch")


def experiments() -> tuple[str, ...]:
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in (CONFIGS / "experiments").iterdir()))


@cache
def method_label(method: str) -> str:
    """Return the label of a method in tables, spelled as in the paper; its registry name if there is no other."""
    return str(tomllib.loads((CONFIGS / "labels.toml").read_text("utf-8")).get(method, method))


def load_experiment(name: str) -> Experiment:
    path = Path(name)
    if path.suffix == ".toml":
        return _experiment(path.stem, experiment_files.read(path))
    check_name(name, experiments(), "experiment")
    return _experiment(name, tomllib.loads((CONFIGS / "experiments" / f"{name}.toml").read_text("utf-8")))


def narrow(
    experiment: Experiment, methods: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> Experiment:
    """Keep some methods and seeds of an experiment; methods that it lacks are added from the registry."""
    if methods is not None:
        kept = [variant for variant in experiment.variants if {variant.method, variant.label} & set(methods)]
        present = {name for variant in kept for name in (variant.method, variant.label)}
        like = experiment.variants[0] if experiment.variants else Variant(label="", method="")
        kept += [_variant(name, like.preset, like.rule) for name in methods if name not in present]
        experiment = replace(experiment, variants=tuple(kept))
    return experiment if seeds is None else replace(experiment, seeds=tuple(seeds))


def split_names(text: str, experiment: Experiment) -> list[str]:
    """Split names of methods and labels at commas, but not inside a label of the experiment."""
    labels = {variant.label for variant in experiment.variants}
    parts, found = [part.strip() for part in text.split(",")], []
    while parts:
        size = next((n for n in range(len(parts), 1, -1) if ", ".join(parts[:n]) in labels), 1)
        found.append(", ".join(parts[:size]))
        parts = parts[size:]
    return found


def _experiment(name: str, table: Mapping[str, Any]) -> Experiment:
    where = f"Experiment {name}"
    check_keys(table, KEYS, where)
    if table.get("kind") not in KINDS:
        raise ValueError(f"{where}: expected kind {' or '.join(KINDS)}, got {table.get('kind')!r}.")
    lists: dict[str, Any] = {
        key: tuple(experiment_files.get_list(table, key, where))
        for key in ("encoders", "seeds", "orders")
        if key in table
    }
    for order in lists.get("orders", ()):
        check_name(order, (*ORDERS, *OWN_ORDERS, *simulated_days.ORDERS, NATURAL), "order")
    for protocol, changes in table.get("protocols", {}).items():
        check_keys(changes, PROTOCOL_KEYS, f"{where}, protocol {protocol}")
    variants = tuple(_variants(table, where))
    labels = [variant.label for variant in variants]
    if len(set(labels)) != len(labels):
        raise ValueError(f"{where}: two methods share a label among {labels}; give each its own.")
    keys = ("in_paper", "paper", "pairs", "ranked", "sources_per_target", "protocols")
    single = {key: table[key] for key in keys if key in table}
    title = table.get("title", name)
    return Experiment(name=name, title=title, kind=table["kind"], variants=variants, **single, **lists)


def _variants(table: Mapping[str, Any], where: str) -> Iterator[Variant]:
    preset, rule = table.get("preset"), table.get("rule")
    listed = [_variant(entry, preset, rule) for entry in experiment_files.get_list(table, "methods", where)]
    yield from listed
    for grid in experiment_files.get_list(table, "grids", where):
        yield from _grid(grid, preset, rule)
    if table.get("all_methods"):
        present = {variant.method for variant in listed}
        yield from (_variant(name, preset, rule) for name in registry.names("methods") if name not in present)


def _variant(entry: str | Mapping[str, Any], preset: str | None, rule: str | None) -> Variant:
    if isinstance(entry, str):
        entry = {"method": entry}
    where = f"Method {dict(entry)}"
    check_keys(entry, ("method", "label", "preset", "rule", "lag", "set"), where)
    method = experiment_files.require(entry, "method", where).lower()
    check_name(method, registry.names("methods"), "method")
    return Variant(
        label=entry.get("label", method_label(method)),
        method=method,
        preset=entry.get("preset", preset),
        rule=entry.get("rule", rule),
        lag=entry.get("lag", 0),
        fields=dict(entry.get("set", {})),
    )


def _grid(grid: Mapping[str, Any], preset: str | None, rule: str | None) -> Iterator[Variant]:
    """Vary one field at a time, the others at their defaults."""
    check_keys(grid, ("method", "set", "values"), "Grid")
    method, values = (experiment_files.require(grid, key, "Grid") for key in ("method", "values"))
    for name in values:
        for value in experiment_files.get_list(values, name, "Grid"):
            fields = {**grid.get("set", {}), name: value}
            yield Variant(label=grid_label(name, value), method=method, preset=preset, rule=rule, fields=fields)


def grid_label(name: str, value: str | float) -> str:
    """Return the label of a method in a grid, such as "tau=0.05"."""
    return f"{name}={value}" if isinstance(value, str) else f"{name}={value:g}"
