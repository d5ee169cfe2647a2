"""Training of source models as in the SIGHT paper: Adam, cross-entropy, and statistics for adaptation methods."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from sight import registry
from sight._util import confusion
from sight.methods.gradient.fisher_information import fisher_information
from sight.models.card import ModelCard, filled
from sight.models.encoders.base import Encoder
from sight.models.source_statistics import source_stats
from sight.models.torch import TorchSource
from sight.models.training_domain import describe
from sight.types import UNLABELLED, Array, Windows

#: Standard deviation of a channel without training data; it scales every later value of the channel to zero.
UNSEEN_STD = 2.0**40

TrainingData: TypeAlias = Windows | Sequence[Windows] | tuple[Array, Array]
OnEpoch: TypeAlias = Callable[[int, Mapping[str, float]], None]


def train(
    windows: TrainingData,
    classes: Sequence[str],
    *,
    encoder: str = "cnn",
    encoder_args: Mapping[str, Any] | None = None,
    epochs: int = 100,
    lr: float = 1e-3,
    batch: int = 64,
    seed: int = 0,
    validation: float | Windows = 0.0,
    scaled: bool = True,
    device: str = "cpu",
    stats: bool = True,
    fisher: bool = False,
    channels: Sequence[str] | None = None,
    units: Sequence[str] | str = "",
    rate_hz: float | None = None,
    stride_s: float | None = None,
    dataset: str = "",
    on_epoch: OnEpoch | None = None,
    keep_on_interrupt: bool = False,
) -> TorchSource:
    """Train a network on labelled windows and return it as a source model; unlabelled windows are ignored.

    Parameters
    ----------
    windows
        Windows of one or several subjects, one object for each, or arrays x (N, C, T) and y (N,).
    classes
        Names of the classes, in the order of the label indices.
    encoder, encoder_args
        Registry name of the network, and its arguments besides channels and classes.
    epochs, lr, batch
        Passes over the data, learning rate of Adam, windows per step.
    seed
        Seed of weights, order and dropout; on the CPU of one machine, equal seeds give bit-identical networks.
    validation
        Share of each class held out, or labelled windows of their own, such as those of another subject. Their
        accuracy and macro-F1 are computed after each epoch, and the weights of the epoch with the best macro-F1 are
        kept. With 0 the last weights are kept.
    scaled
        Whether to normalise the channels; otherwise the network gets the values as they are.
    device
        "cpu" or "cuda"; all data are copied there.
    stats, fisher
        Whether to compute `SourceStats` and the Fisher information of the norm layers, for methods that use them. The
        latter is that of the windows held out for validation; without any, that of the training windows, and
        `card.training` contains which.
    channels, units, rate_hz, stride_s, dataset
        Entries of the model card. `rate_hz` is required for arrays; `Windows` contain it.
    on_epoch
        Called after each epoch with its number, from 1, and its loss and scores.
    keep_on_interrupt
        Whether Ctrl-C ends the training and keeps the best epoch so far, without validation the last complete one.
        `card.training` then contains `stopped_after_epoch`. Before the end of the first epoch, and by default,
        KeyboardInterrupt is raised.

    Notes
    -----
    Each channel is normalised by its mean and standard deviation; a constant channel is only centred. NaN is replaced
    by the median of the channel, which the model stores (`ModelCard.fill`); a channel without any value is scaled to
    zero. A last batch of one window is joined with the one before, because it has no batch statistics.

    Examples
    --------
    >>> from sight.testing import ToySource, toy_stream
    >>> source = train(toy_stream(n=60), ToySource().classes, encoder="resnet", epochs=2, stats=True)
    >>> source.card.length, source.stats.count, sorted(source.card.training)[:2]
    (20, 60, ['batch', 'device'])
    """
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"Expected a CUDA device for device={device!r}, this torch finds none; train on the cpu.")
    data = _collect(windows, len(classes), rate_hz)
    mean, std, fill = normalisation(data.x)
    if not scaled:
        mean, std = np.zeros_like(mean), np.ones_like(std)
    all_x, all_y, train_rows, validation_rows = _with_validation(data, validation, len(classes), seed)
    n_channels, length = data.x.shape[1:]
    with one_thread(), torch.random.fork_rng(devices=range(torch.cuda.device_count()) if device != "cpu" else ()):
        torch.manual_seed(seed)
        args = {"channels": n_channels, "classes": len(classes), **(encoder_args or {})}
        network: Encoder = registry.get("encoders", encoder)(**args)
        network.normalise(mean, std, fill)
        network.to(device)
        arrays = (all_x, all_y, train_rows, validation_rows)
        x, y, rows, held_out = (torch.from_numpy(array).to(device) for array in arrays)
        optimiser = torch.optim.Adam(network.parameters(), lr=lr)
        scores = (_epoch(network, optimiser, x, y, rows, held_out, batch) for _ in range(epochs))
        history = _fit(network, scores, on_epoch, keep_on_interrupt)
    share = "own windows" if isinstance(validation, Windows) else validation
    params = {"epochs": epochs, "lr": lr, "batch": batch, "seed": seed, "validation": share, "device": device}
    unseen = validation_rows if len(validation_rows) else train_rows
    if fisher:
        params["fisher"] = "held-out windows" if len(validation_rows) else "training windows"
    units = (units,) * n_channels if isinstance(units, str) else tuple(units)
    card = ModelCard(
        encoder=encoder.lower(),
        encoder_args=network.encoder_args,
        classes=tuple(classes),
        channels=tuple(channels or (f"channel {c}" for c in range(n_channels))),
        units=units,
        rate_hz=data.rate_hz,
        window_s=length / data.rate_hz,
        stride_s=stride_s or data.stride_s or length / data.rate_hz,
        mean=tuple(mean.tolist()),
        std=tuple(std.tolist()),
        fill=None if fill is None else tuple(fill.tolist()),
        dataset=dataset,
        domain=describe(data.parts, units, data.rate_hz),
        training={**params, "windows": len(train_rows), "torch": str(torch.__version__), **history},
    )
    source = TorchSource(network, classes=card.classes, card=card)
    source.stats = source_stats(source, data.x, data.y, subjects=data.subjects) if stats else None
    source.fisher = fisher_information(network, all_x[unseen], seed=seed) if fisher else None
    return source


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: small networks gain nothing from more, and sums are computed in a fixed order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def normalisation(x: Array) -> tuple[Array, Array, Array | None]:
    """Return mean, standard deviation and, if there is NaN, median of each channel of windows (N, C, T), all (C,)."""
    missing = np.isnan(x)
    fill, empty = None, np.asarray(missing.all(axis=(0, 2)))
    if missing.any():
        fill = np.nanmedian(np.where(empty[:, None], 0, x), axis=(0, 2)).astype(np.float32)
        x = filled(x, fill)
    mean = x.mean(axis=(0, 2), dtype=np.float64)
    std = x.std(axis=(0, 2), dtype=np.float64)
    std[std <= 1e-7 * np.abs(mean)] = 1
    std[empty] = UNSEEN_STD
    return mean.astype(np.float32), std.astype(np.float32), fill


@dataclass(frozen=True, eq=False)
class _Data:
    x: Array  # (N, C, T), labelled windows only
    y: Array  # (N,)
    rate_hz: float
    stride_s: float | None
    subjects: int  # 0 if unknown
    parts: list[Array]  # all windows of each subject


def _collect(windows: TrainingData, n_classes: int, rate_hz: float | None) -> _Data:
    subjects = [windows] if isinstance(windows, Windows) else list(windows)
    if subjects and isinstance(subjects[0], Windows):
        parts = [(subject.x, subject.label) for subject in cast(list[Windows], subjects)]
        n_subjects = sum(bool((y != UNLABELLED).any()) for _, y in parts)
        rate_hz, stride_s = rate_hz or subjects[0].x.shape[2] / subjects[0].window_s, subjects[0].stride_s
    else:
        parts, stride_s, n_subjects = [cast(tuple[Array, Array], windows)], None, 0
    if rate_hz is None:
        raise ValueError("Expected rate_hz for arrays, got None; pass the samples per second of the windows.")
    shapes = {x.shape[1:] for x, _ in parts}
    if len(shapes) != 1 or len(*shapes) != 2:
        raise ValueError(f"Expected windows (N, C, T) of one shape, got {sorted(shapes)}; use one window length.")
    x = np.concatenate([x for x, _ in parts]).astype(np.float32, copy=False)
    y = np.concatenate([y for _, y in parts]).astype(np.int64, copy=False)
    x, y = x[y != UNLABELLED], y[y != UNLABELLED]
    if len(y) < 2 or not 0 <= y.min() <= y.max() < n_classes:
        raise ValueError(
            f"Expected two or more windows with labels from 0 to {n_classes - 1}, got {len(y)} "
            f"with labels {np.unique(y).tolist()}; check the classes."
        )
    return _Data(x, y, rate_hz, stride_s, n_subjects, [own for own, _ in parts])


def _with_validation(
    data: _Data, validation: float | Windows, n_classes: int, seed: int
) -> tuple[Array, Array, Array, Array]:
    """Return all windows and labels, and the rows for training and for validation."""
    if not isinstance(validation, Windows):
        return (data.x, data.y, *_split(data.y, validation, seed))
    other = _collect(validation, n_classes, None)
    rows = np.arange(len(data.y) + len(other.y))
    x, y = np.concatenate([data.x, other.x]), np.concatenate([data.y, other.y])
    return x, y, rows[: len(data.y)], rows[len(data.y) :]


def _split(y: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Return training and validation rows; a share of each class is held out, but never all of its windows."""
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
    network: Encoder, epochs: Iterator[dict[str, float]], on_epoch: OnEpoch | None, keep_on_interrupt: bool
) -> dict[str, Any]:
    epoch_scores: list[dict[str, float]] = []
    best, best_epoch, kept = -1.0, 0, network.state_dict()
    history: dict[str, Any] = {}
    try:
        for epoch, scores in enumerate(epochs, start=1):
            if scores.get("macro_f1", -1.0) > best:
                best, best_epoch, kept = scores["macro_f1"], epoch, copy.deepcopy(network.state_dict())
            elif "macro_f1" not in scores and keep_on_interrupt:
                kept = copy.deepcopy(network.state_dict())
            epoch_scores.append(scores)
            if on_epoch:
                on_epoch(epoch, scores)
    except KeyboardInterrupt:
        if not keep_on_interrupt or not epoch_scores:
            raise
        history["stopped_after_epoch"] = len(epoch_scores)
    network.eval()
    if best_epoch:
        history["best_epoch"] = best_epoch
    if history:
        network.load_state_dict(kept)
    names = epoch_scores[0] if epoch_scores else ()
    return {name: [round(scores[name], 6) for scores in epoch_scores] for name in names} | history


def _epoch(
    network: Encoder, optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor, rows: Tensor, held_out: Tensor, batch: int
) -> dict[str, float]:
    network.train()
    losses = [_step(network, optimiser, x[part], y[part]) for part in _batches(rows, batch)]
    scores = {"loss": float(torch.stack(losses).mean())}
    return scores | (_score(network.eval(), x, y, held_out) if len(held_out) else {})


def _step(network: nn.Module, optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
    loss = F.cross_entropy(network(x), y)
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return loss.detach()


def _batches(rows: Tensor, size: int) -> Iterator[Tensor]:
    """Yield shuffled batches of rows; a last batch of one is joined with the one before."""
    shuffled = rows[torch.randperm(len(rows)).to(rows.device)]
    edges = list(range(0, len(rows), size))
    if len(rows) % size == 1 and len(edges) > 1:
        edges.pop()
    for first, last in zip(edges, [*edges[1:], len(rows)], strict=True):
        yield shuffled[first:last]


@torch.no_grad()
def _score(network: Encoder, x: Tensor, y: Tensor, rows: Tensor) -> dict[str, float]:
    predicted = torch.cat([network(x[batch]).argmax(dim=1) for batch in torch.split(rows, 256)]).cpu().numpy()
    table = confusion.confusion(y[rows].cpu().numpy(), predicted, network.head.out_features)
    return {"accuracy": confusion.accuracy(table), "macro_f1": confusion.macro_f1_union(table)}
