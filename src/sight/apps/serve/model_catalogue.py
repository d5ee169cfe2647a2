"""The models of a service: several models and versions, each identified by name@version and the hash of its file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from sight._util.hashing import file_sha256
from sight._util.text import choices
from sight.apps.serve.errors import UnknownModel
from sight.base import Adapter, Source
from sight.models.bundled import names, resolve
from sight.models.card import ModelCard, require_card
from sight.models.load import load
from sight.models.onnx import OnnxSource
from sight.recordings.signal.windows import whole_samples
from sight.registry import method
from sight.types import Array

SUFFIXES = (".onnx", ".safetensors")
#: Most pairs of method and params whose bound adapter is kept as a template for new wearers.
MAX_TEMPLATES = 64


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model from one file."""

    name: str
    version: str
    digest: str  # SHA-256 of the file; states contain it, so that a file replaced under the same name is noticed
    source: Source
    card: ModelCard
    _templates: dict[str, Adapter] = field(default_factory=dict, repr=False)

    @property
    def id(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def info(self) -> dict[str, Any]:
        card = self.card
        lists = {key: list(getattr(card, key)) for key in ("classes", "channels", "units")}
        values = {key: getattr(card, key) for key in ("rate_hz", "window_s", "stride_s", "encoder", "dataset")}
        identity = {"id": self.id, "name": self.name, "version": self.version, "sha256": self.digest}
        return identity | lists | values | {"features": int(self.source.weight.shape[1])}

    def encode(self, x: Array) -> tuple[Array, Array]:
        """Return features and probabilities of windows (B, C, T), independent of how windows are batched."""
        if isinstance(self.source, OnnxSource):  # encodes one window at a time
            return self.source.encode(x)
        z, p = zip(*(self.source.encode(x[t : t + 1]) for t in range(len(x))), strict=True)
        return np.concatenate(z), np.concatenate(p)

    def adapter(self, name: str, params: Mapping[str, Any]) -> Adapter:
        """Return a new adapter bound to this model; wearers share what a method derives from the model alone."""
        key = f"{name} {sorted(params.items())}"
        if key not in self._templates:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            self._templates[key] = method(name, **params).bind(self.source)
        return copy(self._templates[key]).reset()

    def warm_up(self, name: str) -> None:
        """Encode and refine a window, which compiles the method; errors are left to the first wearer."""
        shape = len(self.card.channels), whole_samples(self.card.window_s, self.card.rate_hz)
        with suppress(ValueError, TypeError, ModuleNotFoundError), np.errstate(all="ignore"):
            adapter = method(name)
            if adapter.served:
                adapter.bind(self.source).step(np.zeros((1, *shape), np.float32))

    def differences(self, other: Model) -> list[str]:
        """Return what prevents a state of this model from being used with another; empty if nothing does."""
        fields = ("classes", "channels", "units", "rate_hz", "window_s", "stride_s")
        differing = [key for key in fields if getattr(self.card, key) != getattr(other.card, key)]
        same_shape = self.source.weight.shape == other.source.weight.shape
        return differing + ([] if same_shape else ["number of features"])


class ModelCatalogue:
    """Models by name@version; the first name is the default, and of several versions of a name later ones are newer."""

    def __init__(self, models: Sequence[Model]) -> None:
        if not models:
            raise ValueError("Expected at least one model to serve, got none; give a file or a folder of models.")
        self._models = {model.id: model for model in models}
        self.default = models[0].name

    @classmethod
    def load(cls, paths: Sequence[str | Path]) -> Self:
        """Load bundled models, files and folders of models.

        ``walk@2.onnx`` is version 2 of walk. A file without @ takes the version from its card's training facts, or
        else "h" and the first digits of its SHA-256. Files of a folder are ordered by name, versions of a name by
        number if they are numbers, else by modification time.
        """
        files = [file for path in paths for file in _files(path)]
        order = {name: i for i, name in reversed(list(enumerate(_name(file)[0] for file in files)))}
        pairs = [(file, _read(file)) for file in files]
        pairs.sort(key=lambda pair: (order[pair[1].name], _number(pair[1].version), pair[0].stat().st_mtime))
        return cls([model for _, model in pairs])

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models.values())

    def get(self, name: str | None = None) -> Model:
        """Return a model by name@version, or the newest version of a name; None is the default name."""
        wanted = name or self.default
        if wanted in self._models:
            return self._models[wanted]
        versions = [model for model in self if model.name == wanted]
        if not versions:
            raise UnknownModel(f"There is no model {wanted!r}; {choices(wanted, self._models)}")
        return versions[-1]


def _files(model: str | Path) -> list[Path]:
    path = Path(model)
    if str(model) in names() or not path.is_dir():
        return [resolve(model)]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        raise ValueError(f"There is no model in {path}; expected files that end with {' or '.join(SUFFIXES)}.")
    return files


def _name(file: Path) -> tuple[str, str]:
    name, _, version = file.stem.partition("@")
    return _clean(name) or "model", _clean(version)


def _clean(text: str) -> str:
    """Return a part of a model's identity, which appears in logs, pages and file names, without other characters."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:64]


def _read(file: Path) -> Model:
    source = load(file)
    card = require_card(source, file)
    digest = file_sha256(file)
    name, version = _name(file)
    version = version or _clean(str(card.training.get("version", ""))) or f"h{digest[:8]}"
    return Model(name, version, digest, source, card)


def _number(version: str) -> tuple[int, ...]:
    parts = version.lstrip("v").split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()
