"""Several models and versions side by side, each with a name that says which bytes it is."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from sight.base import Adapter, Source
from sight.card import ModelCard, require_card
from sight.ops import choices
from sight.registry import method
from sight.serve.errors import UnknownModel
from sight.sources import load
from sight.sources.onnx import OnnxSource
from sight.types import Array

ENDINGS = (".onnx", ".safetensors")
#: Pairs of method and params whose constants are held for the next wearer.
MOST_BOUND = 64


@dataclass(frozen=True, eq=False)
class Model:
    """One file of a trained model.

    Parameters
    ----------
    name, version
        Together the identity, written name@version.
    digest
        SHA-256 of the file; states say it too, so that a file exchanged under the same name is noticed.
    source, card
        The classifier and its header.
    """

    name: str
    version: str
    digest: str
    source: Source
    card: ModelCard
    _bound: dict[str, Adapter] = field(default_factory=dict, repr=False)

    @property
    def id(self) -> str:
        """The identity, name@version."""
        return f"{self.name}@{self.version}"

    @property
    def facts(self) -> dict[str, Any]:
        """What a client needs to know to send samples and to read answers."""
        card = self.card
        lists = {key: list(getattr(card, key)) for key in ("classes", "channels", "units")}
        figures = {key: getattr(card, key) for key in ("rate_hz", "window_s", "stride_s", "encoder", "dataset")}
        known = {"id": self.id, "name": self.name, "version": self.version, "sha256": self.digest}
        return known | lists | figures | {"features": int(self.source.weight.shape[1])}

    def encode(self, x: Array) -> tuple[Array, Array]:
        """Windows (B, C, T) to features and probabilities that do not depend on which windows came together."""
        if isinstance(self.source, OnnxSource):  # one by one inside
            return self.source.encode(x)
        z, p = zip(*(self.source.encode(x[t : t + 1]) for t in range(len(x))), strict=True)
        return np.concatenate(z), np.concatenate(p)

    def adapter(self, name: str, params: Mapping[str, Any]) -> Adapter:
        """Make a fresh adapter bound to this model; wearers share what a method derives from the model alone."""
        key = f"{name} {sorted(params.items())}"
        if key not in self._bound:
            if len(self._bound) >= MOST_BOUND:
                self._bound.clear()
            self._bound[key] = method(name, **params).bind(self.source)
        return copy(self._bound[key]).reset()

    def unlike(self, other: Model) -> list[str]:
        """Name what keeps a state of this model from going on with another; nothing where it can."""
        differing = [
            key
            for key in ("classes", "channels", "units", "rate_hz", "window_s", "stride_s")
            if getattr(self.card, key) != getattr(other.card, key)
        ]
        same = self.source.weight.shape == other.source.weight.shape
        return differing + ([] if same else ["number of features"])


class Models:
    """The models of a service, by name@version.

    Parameters
    ----------
    models
        The first one's name is the default; of several versions of a name, the later one is newer.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        if not models:
            raise ValueError("Expected at least one model to serve, got none; give a file or a folder of models.")
        self._models = {model.id: model for model in models}
        self.default = models[0].name

    @classmethod
    def load(cls, paths: Sequence[str | Path]) -> Self:
        """Load files and folders of models.

        Notes
        -----
        ``walk@2.onnx`` is version 2 of walk. A file without @ takes the version of its card's training facts, or else
        "h" and the first digits of its SHA-256. Files of a folder are ordered by name, versions of a name by number
        where they are numbers, else by the time the file was written.
        """
        files = [file for path in paths for file in _files(Path(path))]
        order = {name: i for i, name in reversed(list(enumerate(_name(file)[0] for file in files)))}
        pairs = [(file, _read(file)) for file in files]
        pairs.sort(key=lambda pair: (order[pair[1].name], _number(pair[1].version), pair[0].stat().st_mtime))
        return cls([model for _, model in pairs])

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models.values())

    def __len__(self) -> int:
        return len(self._models)

    def get(self, name: str | None = None) -> Model:
        """Find a model by name@version, the newest of a name, or the newest of the default."""
        wanted = name or self.default
        if wanted in self._models:
            return self._models[wanted]
        versions = [model for model in self if model.name == wanted]
        if not versions:
            raise UnknownModel(f"There is no model {wanted!r}; {choices(wanted, self._models)}")
        return versions[-1]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in ENDINGS)
    if not found:
        raise ValueError(f"There is no model in {path}; expected files that end with {' or '.join(ENDINGS)}.")
    return found


def _name(file: Path) -> tuple[str, str]:
    """Name and version, the latter empty where the file does not say."""
    name, _, version = file.stem.partition("@")
    clean = [re.sub(r"[^A-Za-z0-9._-]+", "-", part) for part in (name, version)]
    return clean[0] or "model", clean[1]


def _read(file: Path) -> Model:
    source = load(file)
    card = require_card(source, file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    name, version = _name(file)
    version = version or str(card.training.get("version", "")) or f"h{digest[:8]}"
    return Model(name, version, digest, source, card)


def _number(version: str) -> tuple[int, ...]:
    parts = version.lstrip("v").split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()
