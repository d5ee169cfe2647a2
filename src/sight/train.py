"""Training of a source, as the paper trains it: Adam, cross-entropy, and statistics left behind for adaptation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import Tensor, nn

from sight import metrics, registry
from sight.card import ModelCard, filled
from sight.encoders._base import Encoder
from sight.sources.source_stats import fisher_information, source_stats
from sight.sources.torch import TorchSource
from sight.types import UNLABELLED, Array, Windows

#: The standard deviation of a channel that training never saw: whatever a wearer sends there counts as zero.
SILENT = 2.0**40

Labelled: TypeAlias = Windows | Sequence[Windows] | tuple[Array, Array]
OnEpoch: TypeAlias = Callable[[int, Mapping[str, float]], None]


def train(
    windows: Labelled,
    classes: Sequence[str],
    *,
    encoder: str = "cnn",
    encoder_args: Mapping[str, Any] | None = None,
    epochs: int = 100,
    lr: float = 1e-3,
    batch: int = 64,
    seed: int = 0,
    validation: float = 0.0,
    device: str = "cpu",
    stats: bool = True,
    fisher: bool = False,
    channels: Sequence[str] | None = None,
    units: Sequence[str] | str = "",
    rate_hz: float | None = None,
    stride_s: float | None = None,
    dataset: str = "",
    on_epoch: OnEpoch | None = None,
) -> TorchSource:
    """Train a network on labelled windows; those without a label are left out.

    Parameters
    ----------
    windows
        Windows of one or several people, or arrays x (N, C, T) and y (N,).
    classes
        Names of the classes that labels point to.
    encoder, encoder_args
        Registry name of the network, and what to build it with beyond channels and classes.
    epochs, lr, batch
        Passes over the data, learning rate of Adam, windows a step.
    seed
        Decides weights, order and dropout; on one machine's CPU, the same seed gives the same network to the bit.
    validation
        Share of each class held out. Its accuracy and macro-F1 are told after each epoch, and the weights of the
        epoch with the best macro-F1 are kept; with 0 the last ones are.
    device
        "cpu" or "cuda"; the data lie there whole.
    stats, fisher
        Whether to leave `SourceStats`, and the Fisher information of the norm layers, for methods that use them.
    channels, units, rate_hz, stride_s, dataset
        Facts for the model card. The rate is known from `Windows`, and must be told for arrays.
    on_epoch
        Called after each epoch with its number, from 1, and its figures.

    Notes
    -----
    Each channel is normalised by its mean and standard deviation in the source; a constant one is only centred.
    NaN is replaced by the channel's median in the source, which the model keeps (`ModelCard.fill`); a channel that is
    NaN throughout is silenced. A last batch of one window joins the one before it, for it has no batch statistics.

    Examples
    --------
    >>> from sight.testing import ToySource, toy_stream
    >>> source = train(toy_stream(n=60), ToySource().classes, encoder="resnet", epochs=2, stats=True)
    >>> source.card.length, source.stats.count, sorted(source.card.training)[:2]
    (20, 60, ['batch', 'device'])
    """
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"Expected a CUDA device for device={device!r}, this torch finds none; train on the cpu.")
    data = _gathered(windows, len(classes), rate_hz)
    mean, std, fill = normalisation(data.x)
    kept, held_out = _split(data.y, validation, seed)
    with one_thread(), torch.random.fork_rng(devices=range(torch.cuda.device_count()) if device != "cpu" else ()):
        torch.manual_seed(seed)
        args = {"channels": data.x.shape[1], "classes": len(classes), **(encoder_args or {})}
        network: Encoder = registry.get("encoders", encoder)(**args)
        network.normalise(mean, std, fill)
        network.to(device)
        history = _fit(network, data, kept, held_out, epochs=epochs, lr=lr, batch=batch, on_epoch=on_epoch)
    settings = {"epochs": epochs, "lr": lr, "batch": batch, "seed": seed, "validation": validation, "device": device}
    names = tuple(channels or (f"channel {c}" for c in range(data.x.shape[1])))
    card = ModelCard(
        encoder=encoder.lower(),
        encoder_args=network.encoder_args,
        classes=tuple(classes),
        channels=names,
        units=(units,) * len(names) if isinstance(units, str) else tuple(units),
        rate_hz=data.rate_hz,
        window_s=data.x.shape[2] / data.rate_hz,
        stride_s=stride_s or data.stride_s or data.x.shape[2] / data.rate_hz,
        mean=tuple(mean.tolist()),
        std=tuple(std.tolist()),
        fill=None if fill is None else tuple(fill.tolist()),
        dataset=dataset,
        training={**settings, "windows": len(kept), "torch": str(torch.__version__), **history},
    )
    source = TorchSource(network, classes=card.classes, card=card)
    source.stats = source_stats(source, data.x, data.y) if stats else None
    source.fisher = fisher_information(source, data.x, seed=seed) if fisher else None
    return source


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one core: these networks are too small to share, and sums then have one order on any machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def normalisation(x: Array) -> tuple[Array, Array, Array | None]:
    """Mean, standard deviation and, where there is NaN, median of each channel of windows (N, C, T), all (C,).

    Examples
    --------
    >>> x = np.array([[[1.0], [5.0], [np.nan]], [[3.0], [5.0], [np.nan]]])
    >>> [None if v is None else v.tolist() for v in normalisation(x)]
    [[2.0, 5.0, 0.0], [1.0, 1.0, 1099511627776.0], [2.0, 5.0, 0.0]]
    """
    missing = np.isnan(x)
    fill, empty = None, np.asarray(missing.all(axis=(0, 2)))
    if missing.any():
        known = np.where(empty[:, None], 0, x)
        fill = np.nanmedian(known, axis=(0, 2)).astype(np.float32)
        x = filled(x, fill)
    mean = x.mean(axis=(0, 2), dtype=np.float64)
    std = x.std(axis=(0, 2), dtype=np.float64)
    std[std <= 1e-7 * np.abs(mean)] = 1
    std[empty] = SILENT
    return mean.astype(np.float32), std.astype(np.float32), fill


@dataclass(frozen=True, eq=False)
class _Data:
    x: Array  # (N, C, T), labelled windows only
    y: Array  # (N,)
    rate_hz: float
    stride_s: float | None


def _gathered(windows: Labelled, n_classes: int, rate_hz: float | None) -> _Data:
    """Put all windows together, the unlabelled left out."""
    people = [windows] if isinstance(windows, Windows) else list(windows)
    if people and isinstance(people[0], Windows):
        parts = [(person.x, person.label) for person in cast(list[Windows], people)]
        rate_hz, stride_s = rate_hz or people[0].x.shape[2] / people[0].window_s, people[0].stride_s
    else:
        parts, stride_s = [cast(tuple[Array, Array], windows)], None
    if rate_hz is None:
        raise ValueError("Expected rate_hz for arrays, got None; say how many samples a second the windows have.")
    shapes = {x.shape[1:] for x, _ in parts}
    if len(shapes) != 1 or len(*shapes) != 2:
        raise ValueError(f"Expected windows (N, C, T) of one shape, got {sorted(shapes)}; cut everybody alike.")
    x = np.concatenate([x for x, _ in parts]).astype(np.float32, copy=False)
    y = np.concatenate([y for _, y in parts]).astype(np.int64, copy=False)
    x, y = x[y != UNLABELLED], y[y != UNLABELLED]
    if len(y) < 2 or not 0 <= y.min() <= y.max() < n_classes:
        raise ValueError(
            f"Expected two or more windows with labels from 0 to {n_classes - 1}, got {len(y)} "
            f"with labels {np.unique(y).tolist()}; check the classes."
        )
    return _Data(x, y, rate_hz, stride_s)


def _split(y: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Hold out a share of each class; every class keeps at least one window for training."""
    if not 0 <= share < 1:
        raise ValueError(f"Expected a validation share from 0 to below 1, got {share}.")
    rng = np.random.default_rng(seed)
    held_out = [
        rng.permutation(own)[: min(round(share * len(own)), len(own) - 1)]
        for own in (np.flatnonzero(y == k) for k in np.unique(y))
    ]
    out = np.sort(np.concatenate(held_out))
    return np.setdiff1d(np.arange(len(y)), out), out


def _fit(
    network: Encoder,
    data: _Data,
    kept: Array,
    held_out: Array,
    *,
    epochs: int,
    lr: float,
    batch: int,
    on_epoch: OnEpoch | None,
) -> dict[str, Any]:
    device = network.mean.device
    x, y = torch.from_numpy(data.x).to(device), torch.from_numpy(data.y).to(device)
    kept_rows, out_rows = torch.from_numpy(kept).to(device), torch.from_numpy(held_out).to(device)
    optimiser = torch.optim.Adam(network.parameters(), lr=lr)
    history: list[dict[str, float]] = []
    best, best_epoch, best_state = -1.0, 0, network.state_dict()
    for epoch in range(1, epochs + 1):
        network.train()
        losses = [_step(network, optimiser, x[rows], y[rows]) for rows in _batches(kept_rows, batch)]
        figures = {"loss": float(torch.stack(losses).mean())}
        if len(held_out):
            figures |= _scores(network.eval(), x, y, out_rows)
            if figures["macro_f1"] > best:
                best, best_epoch, best_state = figures["macro_f1"], epoch, copy.deepcopy(network.state_dict())
        history.append(figures)
        if on_epoch:
            on_epoch(epoch, figures)
    network.eval()
    told: dict[str, Any] = {key: [round(row[key], 6) for row in history] for key in (history[0] if history else ())}
    if best_epoch:
        network.load_state_dict(best_state)
        told["best_epoch"] = best_epoch
    return told


def _step(network: nn.Module, optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
    loss = F.cross_entropy(network(x), y)
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return loss.detach()


def _batches(rows: Tensor, size: int) -> Iterator[Tensor]:
    """Shuffle and cut; a last batch of one joins the one before."""
    shuffled = rows[torch.randperm(len(rows)).to(rows.device)]
    edges = list(range(0, len(rows), size))
    if len(rows) % size == 1 and len(edges) > 1:
        edges.pop()
    for first, last in zip(edges, [*edges[1:], len(rows)], strict=True):
        yield shuffled[first:last]


@torch.no_grad()
def _scores(network: Encoder, x: Tensor, y: Tensor, rows: Tensor) -> dict[str, float]:
    answers = torch.cat([network(x[piece]).argmax(dim=1) for piece in torch.split(rows, 256)]).cpu().numpy()
    table = metrics.confusion(y[rows].cpu().numpy(), answers, network.head.out_features)
    return {"accuracy": metrics.accuracy(table), "macro_f1": metrics.macro_f1_union(table)}
