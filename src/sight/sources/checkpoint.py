"""One file for a trained model: safetensors, with the model card in its metadata. Never pickle, never torch."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from sight.sources.card import ModelCard
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
    # Strides are not stored: an array that is not contiguous would come back scrambled.
    whole = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in tensors.items()}
    return write_whole(path, safetensors.numpy.save(whole, metadata={KEY: checkpoint.card.to_json()}))


def read(path: str | Path) -> Checkpoint:
    """Read a checkpoint; a file that is foreign, cut short or too new is refused by one sentence that says which."""
    header = read_header(path)
    text = header.get("__metadata__", {}).get(KEY)
    if text is None:
        raise ValueError(
            f"{path} holds tensors but no model card, so it is no checkpoint of sight; "
            f"load it into its network and use sight.wrap(network)."
        )
    try:
        card = ModelCard.from_json(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    tensors = safetensors.numpy.load_file(path)
    return Checkpoint(
        card=card,
        network=_under(_NETWORK, tensors),
        stats=unpack_stats(tensors),
        fisher=_under(_FISHER, tensors) or None,
    )


def read_header(path: str | Path) -> dict[str, Any]:
    """Read what a safetensors file says of itself, without its tensors, and check that the file is whole."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}; check the path.")
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(min(length, size))
    if size < 8 or (text[:1] in (b"", b"{") and len(text) < length):
        raise ValueError(_truncated(path, size))
    try:
        header: dict[str, Any] = json.loads(text)
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path} is not a safetensors file; expected a checkpoint written by sight.") from None
    if size < 8 + length + max(ends, default=0):
        raise ValueError(_truncated(path, size))
    return header


def pack_stats(stats: SourceStats | None) -> dict[str, Array]:
    """Turn statistics into named arrays."""
    if stats is None:
        return {}
    return {_STATS + field.name: np.asarray(getattr(stats, field.name)) for field in fields(stats)}


def unpack_stats(tensors: Mapping[str, Array]) -> SourceStats | None:
    """Find statistics among named arrays."""
    found = _under(_STATS, tensors)
    return SourceStats(**(found | {"count": int(found["count"])})) if found else None


def write_whole(path: str | Path, data: bytes) -> Path:
    """Write bytes under a temporary name, then rename."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # A temporary file is private to its owner; a model is as readable as any other new file.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def _under(prefix: str, tensors: Mapping[str, Array]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


def _truncated(path: Path, size: int) -> str:
    return f"{path} is cut short at {size} bytes; copy or download it again."
