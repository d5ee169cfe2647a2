"""One file for a trained model: safetensors, with the model card in its metadata. Never pickle, never torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from sight import tensorfile
from sight.atomic import write_atomic
from sight.card import ModelCard
from sight.types import Array, SourceStats

#: The key of the card in the metadata of the file.
KEY = "sight"
_STATS, _FISHER, _NETWORK = "stats.", "fisher.", "network."


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """What a file holds.

    Parameters
    ----------
    card
        The header.
    network
        State dict of the network, name to array.
    stats
        What training left for adaptation.
    fisher
        Diagonal Fisher information of the norm layers' parameters, by their name in `network`.
    """

    card: ModelCard
    network: Mapping[str, Array]
    stats: SourceStats | None = None
    fisher: Mapping[str, Array] | None = None


def save(path: str | Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint; the file appears whole or not at all."""
    tensors = {_NETWORK + name: array for name, array in checkpoint.network.items()}
    tensors |= pack_stats(checkpoint.stats)
    tensors |= {_FISHER + name: array for name, array in (checkpoint.fisher or {}).items()}
    return write_atomic(path, tensorfile.pack(tensors, KEY, asdict(checkpoint.card)))


def read(path: str | Path) -> Checkpoint:
    """Read a checkpoint; raise ValueError for a file that is foreign, truncated or of a newer format."""
    header, _ = tensorfile.read_header(path, KEY)
    if header is None:
        raise ValueError(
            f"{path} holds tensors but no model card, so it is no checkpoint of sight; "
            f"load it into its network and use sight.wrap(network)."
        )
    try:
        card = ModelCard.from_dict(header)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    _, tensors = tensorfile.unpack(Path(path).read_bytes(), KEY)
    return Checkpoint(
        card=card,
        network=_under(_NETWORK, tensors),
        stats=unpack_stats(tensors),
        fisher=_under(_FISHER, tensors) or None,
    )


def pack_stats(stats: SourceStats | None) -> dict[str, Array]:
    """Turn statistics into named arrays."""
    if stats is None:
        return {}
    return {_STATS + field.name: np.asarray(getattr(stats, field.name)) for field in fields(stats)}


def unpack_stats(tensors: Mapping[str, Array]) -> SourceStats | None:
    """Find statistics among named arrays."""
    found = _under(_STATS, tensors)
    return SourceStats(**(found | {"count": int(found["count"])})) if found else None


def _under(prefix: str, tensors: Mapping[str, Array]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
