"""Checkpoint files: a trained model as safetensors, with the model card in the metadata. Needs no torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from sight._util import tensorfile
from sight._util.atomic import write_atomic
from sight.models.card import ModelCard
from sight.types import Array, SourceStats

#: Metadata key of the model card.
KEY = "sight"
_STATS, _FISHER, _NETWORK = "stats.", "fisher.", "network."
_SUBJECTS = "subjects"


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """Contents of a checkpoint file."""

    card: ModelCard
    network: Mapping[str, Array]  # state dict of the network
    stats: SourceStats | None = None
    fisher: Mapping[str, Array] | None = None  # diagonal Fisher information of norm layers, by kind and name


def save(path: str | Path, checkpoint: Checkpoint) -> Path:
    tensors = {_NETWORK + name: array for name, array in checkpoint.network.items()}
    tensors |= pack_stats(checkpoint.stats)
    tensors |= {_FISHER + name: array for name, array in (checkpoint.fisher or {}).items()}
    return write_atomic(path, tensorfile.pack(tensors, KEY, asdict(checkpoint.card), digest=True))


def read(path: str | Path) -> Checkpoint:
    """Read a checkpoint; raise ValueError if the file is no checkpoint, damaged or of a newer format."""
    header, _ = tensorfile.read_header(path, KEY)
    if header is None:
        raise ValueError(
            f"{path} contains tensors but no model card, so it is not a checkpoint of sight; "
            f"load it into its network and use sight.wrap(network)."
        )
    try:
        card = ModelCard.from_dict(header)
        _, tensors = tensorfile.unpack(Path(path).read_bytes(), KEY)
        stats = unpack_stats(tensors)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    network, fisher = _with_prefix(_NETWORK, tensors), _with_prefix(_FISHER, tensors)
    for name, array in (*network.items(), *fisher.items()):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{path}: tensor {name} holds NaN or infinity; train the model again, or copy it again.")
    return Checkpoint(card=card, network=network, stats=stats, fisher=fisher or None)


def pack_stats(stats: SourceStats | None) -> dict[str, Array]:
    if stats is None:
        return {}
    values = {field.name: getattr(stats, field.name) for field in fields(stats)}
    subjects = {_SUBJECTS: np.asarray(values.pop("subjects"))}
    return subjects | {_STATS + name: np.asarray(value) for name, value in values.items()}


def unpack_stats(tensors: Mapping[str, Array]) -> SourceStats | None:
    """Return the statistics among named arrays, or None if there are none; raise ValueError if they are invalid."""
    values = _with_prefix(_STATS, tensors)
    if not values:
        return None
    names = {field.name for field in fields(SourceStats)} - {"subjects"}
    subjects = tensors.get(_SUBJECTS, np.asarray(0))
    if set(values) != names or values["count"].size != 1 or subjects.size != 1:
        raise ValueError(f"Expected statistics {sorted(names)}, got {sorted(values)}; export the model again.")
    numbers = {"count": int(values["count"]), "subjects": int(subjects)}
    return SourceStats(**values | numbers)


def _with_prefix(prefix: str, tensors: Mapping[str, Array]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
