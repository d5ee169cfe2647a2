"""Experiments, settings, and the trials they expand to.

An experiment (``configs/experiments/NAME.toml``) defines what is compared: methods with their hyper-parameters,
networks, seeds and stream orders. A setting (a table of ``configs/settings.toml``) defines the data: dataset, options,
source subjects and target subjects.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from sight import registry
from sight.apps.bench import day_streams
from sight.base import Adapter

#: Kinds of experiments: functions of `sight.apps.bench.analyses`.
KINDS = ("compare", "classes", "geometry", "prototypes", "motivation")
ORDERS = ("chronological", "blocks", "shuffled")
#: Order that stands for "chronological" on settings recorded in daily life, and for no stream on others.
NATURAL = "natural"

Pair: TypeAlias = tuple[tuple[str, ...], str]  # source subjects, target subject


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A method with its hyper-parameters, under the label of its row in a table."""

    label: str
    method: str
    preset: str | None = None
    rule: str | None = None  # streaming rule, for methods that offer a choice
    lag: float = 0  # windows that a prediction waits for; infinity for the whole recording
    fields: Mapping[str, Any] = field(default_factory=dict)

    def adapter(self) -> Adapter:
        """Return a new adapter; `fields` override the preset, the preset overrides the defaults of the class."""
        own = dict(self.fields)
        if self.rule is not None and "rule" in {f.name for f in fields(registry.get("methods", self.method))}:
            own.setdefault("rule", self.rule)
        made: Adapter = registry.method(self.method, self.preset, **own)
        return made


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is compared.

    Parameters
    ----------
    name, title
        Name of the file, and title of the section in the report.
    kind
        One of `KINDS`.
    variants
        Methods, in the order of the table.
    paper
        Table of the paper whose values are printed beside the results.
    pairs
        Which list of pairs of a setting: "main" or "detailed".
    ranked
        Whether the rows count for the leaderboard.
    encoders
        Networks; empty for the network of the setting.
    seeds, orders
        Seeds of source training, and stream orders.
    """

    name: str
    title: str
    kind: str
    variants: tuple[Variant, ...]
    paper: str = ""
    pairs: str = "main"
    ranked: bool = False
    encoders: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    orders: tuple[str, ...] = ("chronological",)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The data of a comparison: dataset, source subjects and target subjects.

    Parameters
    ----------
    name, dataset, options
        Name of the setting, and the dataset with its options.
    pairs
        Source subjects and target subject of each source model and stream.
    windowing
        Values that replace the dataset's defaults for cutting windows.
    encoder
        Network; a setting with another one than "cnn" ignores the networks of an experiment.
    epochs, batch
        Source training; batch None is 64, or 256 above 8,000 windows.
    model
        File of a trained model that replaces source training; the sources of `pairs` are then its name.
    use_gaps
        Whether methods are informed of gaps; otherwise recordings are joined, as in the paper.
    sedentary, standing
        Sedentary classes, sitting first, and the class of standing, for streams of days.
    free_living
        Whether the dataset was recorded in daily life, so that chronological order is a natural day.
    paper, paper_subject
        Name of the dataset in the paper's tables, and the format of its subject names.
    """

    name: str
    dataset: str
    options: Mapping[str, Any]
    pairs: tuple[Pair, ...]
    windowing: Mapping[str, Any] = field(default_factory=dict)
    encoder: str = "cnn"
    epochs: int = 100
    batch: int | None = None
    model: str = ""
    use_gaps: bool = False
    sedentary: tuple[str, ...] = ()
    standing: str = ""
    free_living: bool = False
    paper: str = ""
    paper_subject: str = "{}"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One source model on one target subject; all methods of an experiment process the same encoded stream."""

    sources: tuple[str, ...]
    target: str
    seed: int
    encoder: str
    order: str

    def __str__(self) -> str:
        return f"{'+'.join(self.sources)}->{self.target}, seed {self.seed}, {self.encoder}, {self.order}"


def trials(experiment: Experiment, setting: Setting) -> Iterator[Trial]:
    """Expand an experiment on a setting; trials that share a source model, and among them a target, are adjacent."""
    encoders = experiment.encoders if experiment.encoders and setting.encoder == "cnn" else (setting.encoder,)
    seeds = experiment.seeds
    if setting.model:  # nothing is trained
        encoders, seeds = ("own",), seeds[:1]
    targets: dict[tuple[str, ...], list[str]] = {}
    for source, target in setting.pairs:
        targets.setdefault(source, []).append(target)
    orders = dict.fromkeys(name for order in experiment.orders for name in expand_order(order, setting))
    for encoder, seed, source in itertools.product(encoders, seeds, targets):
        for target, order in itertools.product(targets[source], orders):
            yield Trial(sources=source, target=target, seed=seed, encoder=encoder, order=order)


def expand_order(order: str, setting: Setting) -> tuple[str, ...]:
    """Return the stream orders that an order of an experiment stands for on a setting; empty if it has none.

    Examples
    --------
    >>> setting = Setting(name="s", dataset="d", options={}, pairs=(), sedentary=("sit", "stand"))
    >>> expand_order("day-80", setting), expand_order("time-use", setting), expand_order("natural", setting)
    (('day-80 sit', 'day-80 stand'), (), ())
    """
    if order in day_streams.DOMINATED:
        return tuple(f"{order} {name}" for name in setting.sedentary)
    if order == NATURAL:
        return ("chronological",) if setting.free_living else ()
    return () if order == "time-use" and not setting.standing else (order,)
