"""What a shard does with the rows that have arrived: sort out, encode, and advance all its wearers together.

No engine here: rows go in as arrays, answers come out as arrays, and the block is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sight.fleet.plan import FleetModel
from sight.fleet.shard_state import Block
from sight.types import Array

#: Fates of a row: answered; not above the wearer's last number; not a window that the model could take.
ANSWERED, LATE, INVALID = "answered", "late", "invalid"


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one shard as they arrived.

    Parameters
    ----------
    wearer
        Whose, (n,).
    number
        Number of the window, or of the packet of samples, counted up by the sender, (n,).
    time_s
        When it begins, in seconds of any clock that does not jump, (n,).
    values
        Column to cells: "z" and "p", or "x" (C T numbers, channel after channel), or "samples" (n C numbers, sample
        after sample).
    """

    wearer: Array
    number: Array
    time_s: Array
    values: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(self.wearer)

    def take(self, at: Array) -> Rows:
        """Return some of the rows."""
        values = {name: [cells[i] for i in at.tolist()] for name, cells in self.values.items()}
        return Rows(self.wearer[at], self.number[at], self.time_s[at], values)


@dataclass(frozen=True, eq=False)
class Stretch:
    """Windows ready to be answered, each wearer's in time order, one wearer after the other."""

    row: Array  # (N,) of the block
    window: Array  # (N,) number in the output
    time_s: Array  # (N,)
    gap_s: Array  # (N,) time the wearer was away before it
    z: Array  # (N, D)
    p: Array  # (N, K)


def advance(block: Block, rows: Rows, model: FleetModel) -> dict[str, Any]:
    """Advance the wearers of a block by the rows that have arrived, and return the columns of the output.

    Every row that came appears: answered windows, and rows that were late or invalid, with their `status`.
    """
    rows = rows.take(np.lexsort((rows.time_s, rows.number, rows.wearer.astype(str))))
    status = np.full(len(rows), ANSWERED, object)
    nobody = np.array([not name for name in rows.wearer], bool)
    status[nobody | (rows.number < 0) | ~np.isfinite(rows.time_s)] = INVALID
    held = block.rows(rows.wearer)
    last = np.where(held >= 0, np.append(block.number, -1)[held], -1)
    status[(status == ANSWERED) & (rows.number <= last)] = LATE
    ready = _packets if model.plan.kind == "samples" else _windows
    stretch = ready(block, rows, status, model)
    q, surprise = _refine(block, stretch)
    columns = _columns(block, stretch, q, surprise, model)
    return _with_dropped(columns, rows, status, np.flatnonzero(status != ANSWERED))


def _windows(block: Block, rows: Rows, status: Array, model: FleetModel) -> Stretch:
    """Take rows that are windows, or features of them; fill `status` where they are not."""
    at = np.flatnonzero(status == ANSWERED)
    z, p = _features(rows.take(at).values, model)
    sound = _sound(z, p)
    status[at[~sound]] = INVALID
    at, z, p = at[sound], z[sound], p[sound]
    again = _same_as_before(rows.wearer[at], rows.number[at])
    status[at[again]] = LATE
    at, z, p = at[~again], z[~again], p[~again]
    block.welcome(rows.wearer[at], model)
    row, time_s = block.rows(rows.wearer[at]), rows.time_s[at]
    before = np.where(_same_as_before(row), np.roll(time_s, 1), block.time_s[row])
    away = time_s - before > model.card.stride_s + model.plan.max_gap_s  # false before the first window
    gap = np.where(away, np.maximum(time_s - before - model.card.window_s, 0), 0.0)
    block.number[row] = rows.number[at]  # of several windows the last one stays, and it is the highest
    return Stretch(row, rows.number[at], time_s, gap, z, p)


def _packets(block: Block, rows: Rows, status: Array, model: FleetModel) -> Stretch:
    """Take rows that are packets of samples: push them through each wearer's clock and collect what is complete."""
    channels = len(model.card.channels)
    packets = [_packet(cell, channels) for cell in rows.values["samples"]]
    broken = np.array([packet is None for packet in packets], bool)
    status[broken & (status == ANSWERED)] = INVALID
    at = np.flatnonzero(status == ANSWERED)
    again = _same_as_before(rows.wearer[at], rows.number[at])
    status[at[again]] = LATE
    at = at[~again]
    block.welcome(rows.wearer[at], model)
    row_of, rate_hz = block.rows(rows.wearer[at]), model.plan.rate_in_hz or model.card.rate_hz
    block.number[row_of] = rows.number[at]
    found = []
    for row in dict.fromkeys(row_of.tolist()):
        windower = model.windower().restore(block.clocks[row])
        for i in at[row_of == row]:
            samples = packets[i]
            cut = windower.push(samples, rows.time_s[i] + np.arange(len(samples)) / rate_hz)
            found += [(row, x, start, gap) for x, start, gap in zip(cut.x, cut.time_s, cut.gap_before_s, strict=True)]
        block.clocks[row] = windower.state()
    row = np.array([entry[0] for entry in found], np.int64)
    z, p = _encode([entry[1] for entry in found], model)
    time_s, gap = (np.array([entry[k] for entry in found], np.float64) for k in (2, 3))
    keep = _sound(z, p)
    row = row[keep]
    window = block.answered[row] + _rank(row) + 1
    return Stretch(row, window, time_s[keep], gap[keep], z[keep], p[keep])


def _refine(block: Block, stretch: Stretch) -> tuple[Array, Array]:
    """Answer the first window of every wearer, then every second one, and so on."""
    q, surprise = np.empty_like(stretch.p), np.empty(len(stretch.p), stretch.p.dtype)
    rank = _rank(stretch.row)
    for turn in range(rank.max(initial=-1) + 1):
        now = np.flatnonzero(rank == turn)
        for i in now[stretch.gap_s[now] > 0]:
            block.fleet.gap(float(stretch.gap_s[i]), stretch.row[i : i + 1])
        q[now] = block.fleet.refine(stretch.z[now], stretch.p[now], stretch.row[now])
        surprise[now] = block.fleet.surprise
    block.time_s[stretch.row] = stretch.time_s  # the last of each wearer stays
    np.add.at(block.answered, stretch.row, 1)
    return q, surprise


def _columns(block: Block, stretch: Stretch, q: Array, surprise: Array, model: FleetModel) -> dict[str, Any]:
    names = np.array(model.classes, object)
    return {
        "wearer": [block.wearers[row] for row in stretch.row],
        "window": stretch.window,
        "time_s": stretch.time_s,
        "class": names[q.argmax(axis=1)],
        "q": list(q),
        "surprise": surprise,
        "model": [model.name] * len(q),
        "status": [ANSWERED] * len(q),
    }


def _with_dropped(columns: dict[str, Any], rows: Rows, status: Array, at: Array) -> dict[str, Any]:
    nothing = [None] * len(at)
    more = {
        "wearer": rows.wearer[at].tolist(),
        "window": rows.number[at],
        "time_s": rows.time_s[at],
        "surprise": np.full(len(at), np.nan, np.float32),
        "status": status[at].tolist(),
    }
    joined = {}
    for name, cells in columns.items():
        added = more.get(name, nothing)
        joined[name] = np.r_[cells, added] if isinstance(added, np.ndarray) else [*cells, *added]
    return joined


def _features(values: Mapping[str, Sequence[Any]], model: FleetModel) -> tuple[Array, Array]:
    if "x" in values:
        channels, length = model.source.shape
        return _encode(_matrix(values["x"], channels * length).reshape(-1, channels, length), model)
    classes, dims = model.source.weight.shape
    return _matrix(values["z"], dims), _matrix(values["p"], classes)


def _encode(x: Any, model: FleetModel) -> tuple[Array, Array]:
    """Encode windows; one that holds NaN or infinity gives NaN."""
    x = np.asarray(x, np.float32).reshape(-1, *model.source.shape)
    z, p = (np.full((len(x), size), np.nan, np.float32) for size in reversed(model.source.weight.shape))
    good = np.isfinite(x).all(axis=(1, 2))
    if good.any():
        z[good], p[good] = model.source.encode(x[good])
    return z, p


def _matrix(cells: Sequence[Any], size: int) -> Array:
    """Stack cells of so many numbers; one of another length, or without any, becomes NaN."""
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


def _sound(z: Array, p: Array) -> Array:
    """Tell which windows a method may take: finite features, and probabilities that sum to 1."""
    with np.errstate(invalid="ignore", over="ignore"):
        squares = (z.astype(np.float64) ** 2).sum(axis=1)
        return np.isfinite(squares) & (p >= 0).all(axis=1) & (np.abs(p.sum(axis=1) - 1) <= 1e-3)  # type: ignore[no-any-return]


def _same_as_before(*sorted_columns: Array) -> Array:
    """Tell which entries equal the one before in every column."""
    same = np.zeros(len(sorted_columns[0]), bool)
    same[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in sorted_columns])
    return same


def _rank(row: Array) -> Array:
    """Count each wearer's entries from 0, where each wearer's stand together."""
    begins = np.flatnonzero(~_same_as_before(row))
    return np.arange(len(row)) - np.repeat(begins, np.diff(np.r_[begins, len(row)]))
