"""Where rows come from, and which methods were run with fewer seeds than others or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sight.bench.experiments import SPELLING, experiments, load_experiment
from sight.bench.multi_setting import Across
from sight.bench.table_format import DASH, several


def listed(words: Iterable[str]) -> str:
    """Join words as people do.

    Examples
    --------
    >>> listed("abc"), listed("ab"), listed([])
    ('a, b and c', 'a and b', 'none')
    """
    *most, last = list(words) or ["none"]
    return f"{', '.join(most)} and {last}" if most else last


def fewer(seeds: Any, starred: Mapping[str, str], *, paired: bool = True) -> Iterator[str]:
    """Say which methods have fewer seeds than others.

    Parameters
    ----------
    seeds
        How many, methods by settings; NaN where a method was not run.
    starred
        How tables call each method.
    paired
        Whether it is told of comparisons, which are over shared runs, or of levels, which are over each one's own.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"a": {"x": 3, "y": 1, "z": 1}, "b": {"x": 3, "y": 3, "z": 1}})
    >>> for line in fewer(table, {name: name.upper() for name in "xyz"}):
    ...     print(line)
    Y has 1 of 3 seeds on a: comparisons with it are over those runs.
    Z has 1 of 3 seeds: comparisons with it are over those runs.
    """
    groups: dict[tuple[tuple[int, int], tuple[str, ...]], list[str]] = {}
    most = seeds.max()
    for label, own in seeds.iterrows():
        short = {shown: (int(n), int(most[shown])) for shown, n in own.items() if n < most[shown]}
        for pair in dict.fromkeys(short.values()):
            where = tuple(shown for shown, found in short.items() if found == pair)
            groups.setdefault((pair, where), []).append(starred[str(label)])
    for ((n, of), where), labels in groups.items():
        has, it = ("has", "it") if len(labels) == 1 else ("have", "them")
        place = "" if len(where) == len(seeds.columns) else f" on {listed(where)}"
        what = f": comparisons with {it} are over those runs" if paired else ""
        yield f"{listed(labels)} {has} {n} of {of} seeds{place}{what}."


def provenance(table: Any) -> str:
    """Say which versions gave the rows, and on what their sources were trained; machines and times stay in the rows."""
    versions = ", ".join(f"{name} {listed(sorted(table[name].unique()))}" for name in ("sight", "torch", "numpy"))
    trained: dict[str, int] = {}
    for text, count in table["training"].value_counts(sort=False).items():
        device = json.loads(text).get("device", "")
        trained[device] = trained.get(device, 0) + int(count)
    trained.pop("", None)
    shown = [f"{name} ({several(n, 'row')})" if len(trained) > 1 else name for name, n in sorted(trained.items())]
    return f"{several(len(table), 'row')} of {versions}{f'; sources trained on {listed(shown)}' if shown else ''}"


def left_out(table: Any) -> Iterator[str]:
    """Say of which methods `sight.bench.result_rows.read` left rows of earlier versions out."""
    counts = table.attrs.get("left_out", {})
    if counts:
        told = listed(f"{several(count, 'row')} of {label}" for label, count in counts.items())
        yield f"Left out, of earlier code, settings or versions than those in the newest file: {told}."


def missing(across: Across) -> Iterator[str]:
    """Say which methods were not run on which settings."""
    groups: dict[tuple[str, ...], list[str]] = {}
    gaps = across.figure("mean").isna()
    for label in gaps.index[gaps.any(axis=1)]:
        where = tuple(str(shown) for shown in gaps.columns[gaps.loc[label]])
        groups.setdefault(where, []).append(across.starred[label])
    for where, labels in groups.items():
        was, has = ("was", "has") if len(labels) == 1 else ("were", "have")
        yield f"{listed(labels)} {was} not run on {', '.join(where)} ({DASH}) and {has} no mean."


def uneven(across: Across) -> list[str]:
    """Say what a reader must know where methods have unlike runs; nothing where all have the same."""
    return [*fewer(across.figure("seeds"), across.starred), *missing(across)]


def never(across: Across, experiment: str, where: str) -> Iterator[str]:
    """Name the methods of an experiment of the package that have no row here at all, and say where that is."""
    planned = load_experiment(experiment).variants if experiment in experiments() else ()
    own = [variant.label for variant in planned if variant.method in SPELLING]  # not what others have installed
    unrun = [label for label in own if label not in across.methods]
    if unrun:
        yield f"{listed(unrun)} {'was' if len(unrun) == 1 else 'were'} not run on {where}."
