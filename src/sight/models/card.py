"""Model card: the JSON header of a model file, with everything needed to use the model except its tensors."""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from sight import __version__
from sight.types import Array

#: Version of the card format; increased when older versions of `sight` cannot read the new one.
FORMAT = 2
#: Encoder of models of other tools, which normalise windows themselves; see `sight.wrap`.
OWN = "own"


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Metadata stored with the weights of a model.

    Parameters
    ----------
    encoder, encoder_args
        Registry name of the network and the arguments that build it.
    classes
        Names of the K classes, in the order of the head's rows.
    channels, units
        A name and a unit for each of the C channels.
    rate_hz, window_s, stride_s
        Sampling rate, window length and distance between window starts, as in training.
    mean, std
        Normalisation of each channel; the network applies it, callers pass raw units. They are also the scale of the
        training data, except for the encoder "own", a model of another tool, which has 0 and 1; see `training_scale`.
    fill
        Value that replaces NaN in each channel, or None if the training data had no NaN. See `filled`.
    dataset
        Name of the training dataset.
    training
        Hyper-parameters and scores of the training run; numbers and strings only.
    about
        What a user should read before using a published model: title, licence and citation of the data, label map,
        scores on subjects who were not in training, known limits.
    domain
        What the windows of training looked like; see `sight.models.training_domain`.
    format, sight_version
        Version of this header and of the package that wrote it.

    Examples
    --------
    >>> card = ModelCard(
    ...     encoder="cnn", encoder_args={"channels": 1, "classes": 2}, classes=("sit", "walk"), channels=("x",),
    ...     units=("g",), rate_hz=50.0, window_s=2.0, stride_s=1.0, mean=(0.0,), std=(1.0,),
    ... )
    >>> card.length, ModelCard.from_json(card.to_json()) == card
    (100, True)
    """

    encoder: str
    encoder_args: Mapping[str, Any]
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    units: tuple[str, ...]
    rate_hz: float
    window_s: float
    stride_s: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fill: tuple[float, ...] | None = None
    dataset: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    domain: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT
    sight_version: str = __version__

    def __post_init__(self) -> None:
        mappings, texts = ("encoder_args", "training", "about", "domain"), ("encoder", "dataset")
        for name, kind in (*((name, Mapping) for name in mappings), *((name, str) for name in texts)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"Model card: expected {name} of type {kind.__name__}, got {getattr(self, name)!r}.")
        for name in ("classes", "channels", "units"):
            if not all(isinstance(value, str) for value in getattr(self, name)):
                raise ValueError(f"Model card: expected texts as {name}, got {getattr(self, name)!r}.")
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise ValueError(f"Model card: expected two or more different classes, got {list(self.classes)}.")
        for name in ("units", "mean", "std", "fill"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.channels):
                raise ValueError(
                    f"Model card: expected {len(self.channels)} {name} for channels {list(self.channels)}, "
                    f"got {len(values)}."
                )
        numbers = [(name, getattr(self, name)) for name in ("rate_hz", "window_s", "stride_s")]
        for name, value in (*numbers, *(("std", value) for value in self.std)):
            if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise ValueError(f"Model card: expected {name} above 0, got {value!r}.")
        if not all(map(math.isfinite, (*self.mean, *(self.fill or ())))):
            raise ValueError("Model card: expected finite mean and fill values, got NaN or infinity.")

    @property
    def length(self) -> int:
        """Samples T of a window."""
        return max(1, round(self.rate_hz * self.window_s))

    @property
    def training_scale(self) -> dict[str, tuple[float, ...]]:
        """Mean and deviation of each channel in training; empty for a model of another tool, whose scale is unknown."""
        return {} if self.encoder == OWN else {"mean": self.mean, "std": self.std}

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            values = None
        return cls.from_dict(values if isinstance(values, dict) else {})

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Build a card from its JSON object; raise ValueError for a newer format and missing or unknown fields."""
        values = dict(given)
        version = values.get("format")
        if not isinstance(version, int):
            raise ValueError("Model card: expected JSON with a 'format' number; this is not a header of sight.")
        if version > FORMAT:
            raise ValueError(
                f"Model card: written in format {version} by sight {values.get('sight_version', '?')}, "
                f"newer than format {FORMAT} that sight {__version__} reads; upgrade sight."
            )
        fields = {f.name: f.default for f in dataclasses.fields(cls)}
        required = {name for name, default in fields.items() if default is dataclasses.MISSING}
        required -= {"training", "about", "domain"}
        if missing := required - set(values):
            raise ValueError(f"Model card: {', '.join(sorted(missing))} missing in the header; export the model again.")
        if unknown := set(values) - set(fields):
            raise ValueError(
                f"Model card: unknown {', '.join(sorted(unknown))} in the header; expected {sorted(fields)}."
            )
        try:
            for name in ("classes", "channels", "units", "mean", "std", "fill"):
                if values.get(name) is not None:
                    values[name] = tuple(values[name])
            return cls(**values)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"Model card: a field has a wrong type ({error}); export the model again.") from None


def require_card(source: Any, name: object = "The model") -> ModelCard:
    """Return the card of a source; raise ValueError if it has none."""
    card: ModelCard | None = source.card
    if card is None:
        raise ValueError(
            f"{name} has no card, so its rate and channels are unknown; train it with "
            f"sight, or pass rate_hz, channels, units and window_s to sight.wrap."
        )
    return card


def filled(x: Array, fill: tuple[float, ...] | Array | None) -> Array:
    """Replace NaN in windows (B, C, T) by the fill value of the channel; return `x` itself if `fill` is None.

    Sources do this in `encode`. Adapters reject NaN, so callers fill windows before they pass them to an adapter:
    ``x = filled(windows.x, source.card.fill)``.
    """
    if fill is None:
        return x
    missing = np.isnan(x)
    if not missing.any():
        return x
    return np.where(missing, np.asarray(fill, dtype=x.dtype)[:, None], x)
