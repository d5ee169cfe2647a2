"""What an experiment is: methods from one TOML, people from another, multiplied out into trials.

An experiment (``experiments/NAME.toml``) says what is compared: methods with their settings, networks, seeds, orders of
the stream. A setting (a table of ``settings.toml``) says on whom: dataset, options, who is a source, who a target.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

KINDS = ("compare", "geometry", "prototypes", "motivation")
ORDERS = ("chronological", "blocks", "shuffled")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A method with its settings, as a row of a table names it."""

    label: str
    method: str
    preset: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is compared."""

    name: str
    title: str
    kind: str
    variants: tuple[Variant, ...]
    paper: str = ""  # table of the paper's figures that it stands beside
    encoders: tuple[str, ...] = ("cnn",)
    seeds: tuple[int, ...] = (0, 1, 2)
    orders: tuple[str, ...] = ("chronological",)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """On whom it is compared; `pairs` are (sources, target)."""

    name: str
    dataset: str
    options: Mapping[str, Any]
    pairs: tuple[tuple[tuple[str, ...], str], ...]
    encoder: str = "cnn"
    epochs: int = 100
    batch: int = 64
    use_gaps: bool = False


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trained source meets one person; all methods of an experiment answer the same encoded stream."""

    setting: str
    dataset: str
    options: Mapping[str, Any]
    sources: tuple[str, ...]
    target: str
    seed: int
    encoder: str
    epochs: int
    batch: int
    order: str
    use_gaps: bool

    def model(self) -> tuple[Any, ...]:
        """Name what decides the source model; trials that share it share the model."""
        return (self.dataset, _text(self.options), self.sources, self.seed, self.encoder, self.epochs, self.batch)


def key(*parts: Any) -> str:
    """Hash what decides a result into a name for its file.

    Examples
    --------
    >>> key({"a": 1, "b": 2}) == key({"b": 2, "a": 1})
    True
    """
    return hashlib.blake2b(_text(parts).encode(), digest_size=12).hexdigest()


def trials(experiment: Experiment, setting: Setting) -> Iterator[Trial]:
    """Multiply an experiment and a setting out; trials of one source model follow each other."""
    encoders = experiment.encoders if experiment.encoders != ("cnn",) else (setting.encoder,)
    sources = dict.fromkeys(pair[0] for pair in setting.pairs)
    for encoder, seed, source in itertools.product(encoders, experiment.seeds, sources):
        for order, target in itertools.product(experiment.orders, (t for s, t in setting.pairs if s == source)):
            yield Trial(
                setting=setting.name,
                dataset=setting.dataset,
                options=setting.options,
                sources=source,
                target=target,
                seed=seed,
                encoder=encoder,
                epochs=setting.epochs,
                batch=setting.batch,
                order=order,
                use_gaps=setting.use_gaps,
            )


def experiments() -> tuple[str, ...]:
    """Name the experiments that come with the package."""
    folder = resources.files("sight.bench") / "experiments"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_experiment(name: str) -> Experiment:
    """Read an experiment by name, or from a TOML file of one's own."""
    path = Path(name)
    if path.suffix == ".toml" and path.is_file():
        return _experiment(path.stem, tomllib.loads(path.read_text("utf-8")))
    _known(name, experiments(), "experiment")
    text = (resources.files("sight.bench") / "experiments" / f"{name}.toml").read_text("utf-8")
    return _experiment(name, tomllib.loads(text))


def _experiment(name: str, table: Mapping[str, Any]) -> Experiment:
    if table.get("kind") not in KINDS:
        raise ValueError(f"Experiment {name}: expected kind {' or '.join(KINDS)}, got {table.get('kind')!r}.")
    preset = table.get("preset")
    variants = [_variant(entry, preset) for entry in table.get("methods", ())]
    for grid in table.get("grids", ()):
        variants += _grid(grid, preset)
    labels = [variant.label for variant in variants]
    if len(set(labels)) != len(labels):
        raise ValueError(f"Experiment {name}: two methods share a label among {labels}; give each its own.")
    known = {"title", "kind", "paper", "preset", "methods", "grids", "encoders", "seeds", "orders"}
    if unknown := set(table) - known:
        raise ValueError(f"Experiment {name}: unknown {sorted(unknown)}; known are {sorted(known)}.")
    lists = {entry: tuple(table[entry]) for entry in ("encoders", "seeds", "orders") if entry in table}
    return Experiment(
        name=name,
        title=table.get("title", name),
        kind=table["kind"],
        variants=tuple(variants),
        paper=table.get("paper", ""),
        **lists,
    )


def _variant(entry: str | Mapping[str, Any], preset: str | None) -> Variant:
    if isinstance(entry, str):
        entry = {"method": entry}
    return Variant(
        label=entry.get("label", entry["method"]),
        method=entry["method"],
        preset=entry.get("preset", preset),
        fields=dict(entry.get("set", {})),
    )


def _grid(grid: Mapping[str, Any], preset: str | None) -> list[Variant]:
    """One field at a time, the others at their defaults."""
    fixed = dict(grid.get("set", {}))
    return [
        Variant(label=f"{name}={value:g}", method=grid["method"], preset=preset, fields=fixed | {name: value})
        for name, values in grid["values"].items()
        for value in values
    ]


@cache
def _settings() -> dict[str, Any]:
    text = (resources.files("sight.bench") / "settings.toml").read_text("utf-8")
    return tomllib.loads(text)


def settings() -> tuple[str, ...]:
    """Name the settings that come with the package."""
    return tuple(_settings())


def load_setting(name: str, subjects: Sequence[str] | None = None) -> Setting:
    """Read a setting; ``targets = "others"`` stands for everybody in the dataset who is not a source.

    Parameters
    ----------
    name
        A table of ``settings.toml``.
    subjects
        Everybody of the dataset; None asks the dataset itself.
    """
    _known(name, settings(), "setting")
    table = dict(_settings()[name])
    options = table.get("options", {})
    if "pairs" in table:
        pairs = [(tuple(source.split("+")), target) for source, target in (p.split("->") for p in table["pairs"])]
    else:
        if subjects is None:
            from sight.datasets import load

            subjects = load(table["dataset"], **options).subjects()
        pairs = list(_against_others(table["sources"], subjects))
    keep = {entry: table[entry] for entry in ("encoder", "epochs", "batch", "use_gaps") if entry in table}
    return Setting(name=name, dataset=table["dataset"], options=options, pairs=tuple(pairs), **keep)


def _against_others(sources: Sequence[str], everybody: Sequence[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    for text in sources:
        group = _people(text, everybody)
        for target in everybody:
            if target not in group:
                yield group, target


def _people(text: str, everybody: Sequence[str]) -> tuple[str, ...]:
    """Read ``"1+2+5"`` as these people, ``"3..7"`` as all from one to the other in the dataset's order."""
    if ".." in text:
        first, _, last = text.partition("..")
        low, high = (list(everybody).index(_among(end, everybody)) for end in (first or everybody[0], last or everybody[-1]))
        return tuple(everybody[low : high + 1])
    return tuple(_among(person, everybody) for person in text.split("+"))


def _among(person: str, everybody: Sequence[str]) -> str:
    _known(person, tuple(everybody), "subject")
    return person


def _known(name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        hint = get_close_matches(name, known, n=1)
        raise ValueError(
            f"There is no {what} called {name!r}; known are {', '.join(known)}."
            + (f" Did you mean {hint[0]!r}?" if hint else "")
        )


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=lambda thing: asdict(thing))
