"""Experiments, settings, and the trials they expand to.

An experiment (``configs/experiments/NAME.toml``) defines what is compared: methods with their hyper-parameters,
networks, seeds and stream orders. A setting (a table of ``configs/settings.toml``) defines the data: dataset, options,
source subjects and target subjects.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from sight import registry
from sight.apps.bench import simulated_days
from sight.base import Adapter

#: Kinds of experiments: functions of `sight.apps.bench.analyses`.
KINDS = ("compare", "classes", "geometry", "prototypes", "motivation")
ORDERS = ("chronological", "activity", "blocks", "shuffled")
#: Orders that a setting may define, by options of its dataset for the target subject.
OWN_ORDERS = ("time", "files")
#: How the channels of a window are scaled before the network.
SCALINGS = ("source", "none", "subject", "window")
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
    """What is compared."""

    name: str
    title: str  # of the section in the report
    kind: str  # one of `KINDS`
    variants: tuple[Variant, ...]  # in the order of the table
    in_paper: str = ""  # tables and figures of the paper that it repeats
    paper: str = ""  # table of the paper whose values are printed beside the results
    pairs: str = "main"  # list of pairs of a setting: "main" or "detailed"
    ranked: bool = False  # whether the rows count for the leaderboard
    encoders: tuple[str, ...] = ()  # networks; empty for the network of the setting
    seeds: tuple[int, ...] = (0, 1, 2)  # of source training
    orders: tuple[str, ...] = ("chronological",)
    sources_per_target: int = 1  # sources of each target on settings that list `sources`, in turn; 0: all
    protocols: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})  # name to changes of a setting


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The data of a comparison: dataset, source subjects and target subjects."""

    name: str
    dataset: str
    options: Mapping[str, Any]  # of the dataset
    pairs: tuple[Pair, ...]
    crossed: bool = False  # whether each source is paired with all other subjects
    windowing: Mapping[str, Any] = field(default_factory=dict)  # replaces the dataset's defaults
    encoder: str = "cnn"  # with another network, the networks of an experiment are ignored
    epochs: int = 100
    batch: int | None = None  # None: 64, or 256 above 8,000 windows
    model: str = ""  # file of a trained model that replaces training; `pairs` then has its name as source
    use_gaps: bool = False  # whether methods are informed of gaps; otherwise recordings are joined, as in the paper
    orders: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # one of `OWN_ORDERS` to dataset options
    scaling: str = "source"  # one of `SCALINGS`: by the source's mean and deviation, not at all, by the own ones
    power: float = 1  # exponent of the source model's probabilities, which are normalised again
    whole_batches: int = 0  # number of windows of which a stream is a multiple; the rest is dropped. 0: keep all
    oracle_epoch: bool = False  # whether the epoch with the best macro-F1 on the target is kept; uses its labels
    sedentary: tuple[str, ...] = ()  # sedentary classes, sitting first, for streams of days
    standing: str = ""  # class of standing, for streams of days
    free_living: bool = False  # whether chronological order is a natural day
    paper: str = ""  # name of the dataset in the paper's tables
    paper_subject: str = "{}"  # format of its subject names


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One source model on one target subject; all methods of an experiment process the same encoded stream."""

    sources: tuple[str, ...]
    target: str
    seed: int
    encoder: str
    order: str
    protocol: str = ""

    def __str__(self) -> str:
        parts = (f"seed {self.seed}", self.encoder, self.order, *filter(None, [self.protocol]))
        return f"{'+'.join(self.sources)}->{self.target}, {', '.join(parts)}"


def trials(experiment: Experiment, setting: Setting) -> Iterator[Trial]:
    """Expand an experiment on a setting; trials that share a source model, and among them a target, are adjacent."""
    encoders = experiment.encoders if experiment.encoders and setting.encoder == "cnn" else (setting.encoder,)
    seeds = experiment.seeds
    if setting.model:  # nothing is trained
        encoders, seeds = ("own",), seeds[:1]
    targets: dict[tuple[str, ...], list[str]] = {}
    for source, target in setting.pairs:
        targets.setdefault(source, []).append(target)
    sources_of = _sources_by_target(targets, experiment.sources_per_target if setting.crossed else 0)
    orders = dict.fromkeys(name for order in experiment.orders for name in expand_order(order, setting))
    for protocol, encoder, seed, source in itertools.product(experiment.protocols, encoders, seeds, targets):
        for target, order in itertools.product(targets[source], orders):
            if source not in sources_of[target]:
                continue
            yield Trial(sources=source, target=target, seed=seed, encoder=encoder, order=order, protocol=protocol)


def _sources_by_target(targets: Mapping[tuple[str, ...], Sequence[str]], count: int) -> dict[str, set[tuple[str, ...]]]:
    """Return the sources of each target, as many as `count` or all (0): for the next target the next sources."""
    found = {}
    for at, target in enumerate(dict.fromkeys(target for own in targets.values() for target in own)):
        every = [source for source in targets if target in targets[source]]
        found[target] = {every[(at + each) % len(every)] for each in range(count or len(every))}
    return found


def expand_order(order: str, setting: Setting) -> tuple[str, ...]:
    """Return the stream orders that an order of an experiment stands for on a setting; empty if it has none."""
    if order in simulated_days.DOMINATED:
        return tuple(f"{order} {name}" for name in setting.sedentary)
    if order == NATURAL:
        return ("chronological",) if setting.free_living else ()
    if order in OWN_ORDERS:
        return (order,) if order in setting.orders else ()
    return () if order == "time-use" and not setting.standing else (order,)


def setting_of(trial: Trial, experiment: Experiment, setting: Setting) -> Setting:
    """Return the setting with the changes of the trial's protocol."""
    return replace(setting, **experiment.protocols[trial.protocol])


def model_identity(trial: Trial, experiment: Experiment, setting: Setting) -> tuple[object, ...]:
    """Return what determines the source model of a trial, besides the data of the setting."""
    own = setting_of(trial, experiment, setting)
    target = trial.target if own.oracle_epoch else ""
    return own.scaling, own.epochs, trial.encoder, trial.seed, trial.sources, target
