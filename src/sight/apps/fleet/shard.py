"""Update of a shard with arrived rows: validate, encode, and advance all its wearers together.

Independent of Spark: rows and predictions are arrays, and the state of the shard is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sight.apps.fleet.fleet_model import FleetModel
from sight.apps.fleet.shard_state import ShardState
from sight.types import Array

#: Status of a row: predicted; number not above the wearer's latest; or unusable for the model.
PREDICTED, LATE, INVALID = "predicted", "late", "invalid"


@dataclass(frozen=True, eq=False)
class Rows:
    """Arrived rows of one shard.

    Cells of "z" and "p" hold D and K numbers, of "x" C T numbers channel by channel, of "samples" n C numbers sample by
    sample.
    """

    wearer: Array  # (n,) names
    number: Array  # (n,) of the window or of the packet of samples, counted by the sender
    time_s: Array  # (n,) start, on a clock that does not jump
    values: Mapping[str, Sequence[Any]]  # column to cells

    def __len__(self) -> int:
        return len(self.wearer)

    def take(self, index: Array) -> Rows:
        values = {name: [cells[i] for i in index.tolist()] for name, cells in self.values.items()}
        return Rows(self.wearer[index], self.number[index], self.time_s[index], values)


@dataclass(frozen=True, eq=False)
class EncodedWindows:
    """Encoded windows, sorted by wearer and time."""

    row: Array  # (N,) of the wearer in the shard
    window: Array  # (N,) number in the output
    time_s: Array  # (N,)
    gap_s: Array  # (N,) seconds missing before the window
    z: Array  # (N, D)
    p: Array  # (N, K)


def advance(shard: ShardState, rows: Rows, model: FleetModel) -> list[dict[str, Any]]:
    """Update the wearers of a shard; return `output_columns` of predicted windows, and of late or invalid rows."""
    rows = rows.take(np.lexsort((rows.time_s, rows.number, rows.wearer.astype(str))))
    status = np.full(len(rows), PREDICTED, object)
    unnamed = np.array([not name for name in rows.wearer], bool)
    status[unnamed | (rows.number < 0) | ~np.isfinite(rows.time_s)] = INVALID
    row = shard.rows(rows.wearer)
    latest = np.where(row >= 0, np.append(shard.number, -1)[row], -1)
    status[(status == PREDICTED) & (rows.number <= latest)] = LATE
    encode = _encode_samples if model.options.kind == "samples" else _encode_windows
    windows = encode(shard, rows, status, model)
    q, surprise = _refine(shard, windows)
    wearers = [shard.wearers[row] for row in windows.row]
    predicted = output_columns(wearers, windows.window, windows.time_s, [PREDICTED] * len(q), model, q, surprise)
    index = np.flatnonzero(status != PREDICTED)
    dropped = output_columns(
        rows.wearer[index].tolist(), rows.number[index], rows.time_s[index], status[index].tolist(), model
    )
    return [predicted, dropped]


def output_columns(
    wearers: list[str],
    window: Array,
    time_s: Array,
    status: list[str],
    model: FleetModel,
    q: Array | None = None,
    surprise: Array | None = None,
) -> dict[str, Any]:
    """Return the columns of the output; class, probabilities and surprise are null without `q`."""
    nulls = [None] * len(wearers)
    return {
        "wearer": wearers,
        "window": window,
        "time_s": time_s,
        "class": nulls if q is None else np.array(model.classes, object)[q.argmax(axis=1)],
        "q": nulls if q is None else list(q),
        "surprise": np.full(len(wearers), np.nan, np.float32) if surprise is None else surprise,
        "model": [model.name] * len(wearers),
        "status": status,
    }


def _encode_windows(shard: ShardState, rows: Rows, status: Array, model: FleetModel) -> EncodedWindows:
    index = np.flatnonzero(status == PREDICTED)
    z, p = _features(rows.take(index).values, model)
    valid = _valid(z, p)
    status[index[~valid]] = INVALID
    index, z, p = index[valid], z[valid], p[valid]
    repeated = _equals_previous(rows.wearer[index], rows.number[index])
    status[index[repeated]] = LATE
    index, z, p = index[~repeated], z[~repeated], p[~repeated]
    shard.add(rows.wearer[index], model)
    row, time_s = shard.rows(rows.wearer[index]), rows.time_s[index]
    previous = np.where(_equals_previous(row), np.roll(time_s, 1), shard.time_s[row])
    is_gap = time_s - previous > model.card.stride_s + model.options.max_gap_s  # False before the first window
    gap = np.where(is_gap, np.maximum(time_s - previous - model.card.window_s, 0), 0.0)
    shard.number[row] = rows.number[index]  # a wearer's last assignment, the highest number, remains
    return EncodedWindows(row, rows.number[index], time_s, gap, z, p)


def _encode_samples(shard: ShardState, rows: Rows, status: Array, model: FleetModel) -> EncodedWindows:
    channels = len(model.card.channels)
    packets = [_packet(cell, channels) for cell in rows.values["samples"]]
    broken = np.array([packet is None for packet in packets], bool)
    status[broken & (status == PREDICTED)] = INVALID
    index = np.flatnonzero(status == PREDICTED)
    repeated = _equals_previous(rows.wearer[index], rows.number[index])
    status[index[repeated]] = LATE
    index = index[~repeated]
    shard.add(rows.wearer[index], model)
    row_of = shard.rows(rows.wearer[index])
    shard.number[row_of] = rows.number[index]
    windows = []
    for row in dict.fromkeys(row_of.tolist()):
        windower = model.windower().restore(shard.clocks[row])
        for i in index[row_of == row]:
            samples = packets[i]
            cut = windower.push(samples, rows.time_s[i] + np.arange(len(samples)) / model.rate_in_hz)
            windows += [(row, x, start, gap) for x, start, gap in zip(cut.x, cut.time_s, cut.gap_before_s, strict=True)]
        shard.clocks[row] = windower.state()
    row = np.array([window[0] for window in windows], np.int64)
    z, p = _encode([window[1] for window in windows], model)
    time_s, gap = (np.array([window[k] for window in windows], np.float64) for k in (2, 3))
    valid = _valid(z, p)
    row = row[valid]
    number = shard.windows[row] + _rank(row) + 1
    return EncodedWindows(row, number, time_s[valid], gap[valid], z[valid], p[valid])


def _refine(shard: ShardState, windows: EncodedWindows) -> tuple[Array, Array]:
    """Refine the first window of every wearer, then the second of every wearer, and so on."""
    q, surprise = np.empty_like(windows.p), np.empty(len(windows.p), windows.p.dtype)
    rank = _rank(windows.row)
    for turn in range(rank.max(initial=-1) + 1):
        index = np.flatnonzero(rank == turn)
        for i in index[windows.gap_s[index] > 0]:
            shard.adapters.gap(float(windows.gap_s[i]), windows.row[i : i + 1])
        q[index] = shard.adapters.refine(windows.z[index], windows.p[index], windows.row[index])
        surprise[index] = shard.adapters.surprise
    shard.time_s[windows.row] = windows.time_s  # a wearer's last assignment remains
    np.add.at(shard.windows, windows.row, 1)
    return q, surprise


def _features(values: Mapping[str, Sequence[Any]], model: FleetModel) -> tuple[Array, Array]:
    if "x" in values:
        channels, length = model.source.shape
        return _encode(_matrix(values["x"], channels * length).reshape(-1, channels, length), model)
    classes, dims = model.source.weight.shape
    return _matrix(values["z"], dims), _matrix(values["p"], classes)


def _encode(x: Any, model: FleetModel) -> tuple[Array, Array]:
    """Encode windows; a window with non-finite values gives NaN."""
    x = np.asarray(x, np.float32).reshape(-1, *model.source.shape)
    z, p = (np.full((len(x), size), np.nan, np.float32) for size in reversed(model.source.weight.shape))
    finite = np.isfinite(x).all(axis=(1, 2))
    if finite.any():
        z[finite], p[finite] = model.source.encode(x[finite])
    return z, p


def _matrix(cells: Sequence[Any], size: int) -> Array:
    """Stack cells of `size` numbers; a cell that is missing or has another length becomes NaN."""
    matrix = np.full((len(cells), size), np.nan, np.float32)
    for i, cell in enumerate(cells):
        if cell is not None and len(cell) == size:
            matrix[i] = cell
    return matrix


def _packet(cell: Any, channels: int) -> Array | None:
    if cell is None or not len(cell) or len(cell) % channels:
        return None
    samples = np.asarray(cell, np.float32).reshape(-1, channels)
    return samples if np.isfinite(samples).all() else None


def _valid(z: Array, p: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        squares = (z.astype(np.float64) ** 2).sum(axis=1)
        return np.isfinite(squares) & (p >= 0).all(axis=1) & (np.abs(p.sum(axis=1) - 1) <= 1e-3)  # type: ignore[no-any-return]


def _equals_previous(*columns: Array) -> Array:
    equal = np.zeros(len(columns[0]), bool)
    equal[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return equal


def _rank(row: Array) -> Array:
    first = np.flatnonzero(~_equals_previous(row))
    return np.arange(len(row)) - np.repeat(first, np.diff(np.r_[first, len(row)]))
