"""What an experiment is: methods from one TOML, people from another, multiplied out into trials.

An experiment (``experiments/NAME.toml``) says what is compared: methods with their settings, networks, seeds, orders of
the stream. A setting (a table of ``settings.toml``) says on whom: dataset, options, who is a source, who a target.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, TypeAlias

from sight.ops import choices

#: What an experiment can look at; "speed" is the stopwatch, the others are in `sight.bench.analyses`.
KINDS = ("compare", "classes", "geometry", "prototypes", "motivation", "speed")
ORDERS = ("chronological", "blocks", "shuffled")

Pair: TypeAlias = tuple[tuple[str, ...], str]  # people of the source, person of the target


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A method with its settings, as a row of a table names it."""

    label: str
    method: str
    preset: str | None = None
    rule: str | None = None  # streaming rule, for methods that have a choice
    lag: float = 0  # windows that answers wait for, infinity for the whole recording
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is compared.

    Parameters
    ----------
    name, title
        Of the file, and of the section in the report.
    kind
        One of `KINDS`.
    variants
        Methods, in the order of the table.
    paper
        Table of the paper's figures that it stands beside.
    pairs
        "main" or "detailed": which of a setting's pairs.
    ranked
        Whether its rows count for the leaderboard.
    encoders
        Networks; none for the setting's own.
    seeds, orders
        Seeds of source training, and orders of the stream.
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
    """On whom it is compared.

    Parameters
    ----------
    name, dataset, options
        Of the setting, and the corpus with its options.
    pairs
        Who learns from whom.
    windowing
        Other values than the corpus's own for cutting windows.
    encoder
        Network; a setting that names another than "cnn" takes no other, whatever the experiment asks.
    epochs, batch
        Of source training; batch None is 64, or 256 above 8,000 windows.
    use_gaps
        Whether methods are told of gaps; if not, recordings are joined as the paper joins them.
    paper, paper_subject
        Name of the corpus among the paper's figures, and how it writes a subject.
    """

    name: str
    dataset: str
    options: Mapping[str, Any]
    pairs: tuple[Pair, ...]
    windowing: Mapping[str, Any] = field(default_factory=dict)
    encoder: str = "cnn"
    epochs: int = 100
    batch: int | None = None
    use_gaps: bool = False
    paper: str = ""
    paper_subject: str = "{}"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trained source meets one person; all methods of an experiment answer the same encoded stream."""

    sources: tuple[str, ...]
    target: str
    seed: int
    encoder: str
    order: str

    def __str__(self) -> str:
        return f"{'+'.join(self.sources)}->{self.target}, seed {self.seed}, {self.encoder}, {self.order}"


def trials(experiment: Experiment, setting: Setting) -> Iterator[Trial]:
    """Multiply an experiment and a setting out; trials of one source model follow each other."""
    encoders = experiment.encoders if experiment.encoders and setting.encoder == "cnn" else (setting.encoder,)
    targets: dict[tuple[str, ...], list[str]] = {}
    for source, target in setting.pairs:
        targets.setdefault(source, []).append(target)
    for encoder, seed, source in itertools.product(encoders, experiment.seeds, targets):
        for order, target in itertools.product(experiment.orders, targets[source]):
            yield Trial(sources=source, target=target, seed=seed, encoder=encoder, order=order)


def key(*parts: Any) -> str:
    """Hash what decides a result into a name for its file.

    Examples
    --------
    >>> key({"a": 1, "b": 2}) == key({"b": 2, "a": 1})
    True
    """
    return hashlib.blake2b(text(parts).encode(), digest_size=12).hexdigest()


def text(value: Any) -> str:
    """Write a value as JSON, the same for the same content."""
    return json.dumps(value, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def check_known(name: str, known: Sequence[str], what: str) -> None:
    """Raise unless a name is among those known, and name the nearest."""
    if name not in known:
        raise ValueError(f"There is no {what} called {name!r}; {choices(name, known)}")


def check_keys(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Raise unless all keys of a table are known, and name the nearest."""
    for entry in table:
        if entry not in known:
            raise ValueError(f"{where}: unknown {entry!r}; {choices(entry, known)}")
