"""Train the bundled models: one network per left-out fold of subjects, and one on all subjects.

Run as ``python -m benchmarks.models.fit WINDOWS OUT --job final``, with the folder of `pack`. It writes
``scores.csv`` (one row per held-out subject, mounting and method), ``heldout.npz`` (raw probabilities of held-out
subjects) and a checkpoint of each model. ``--job scores`` trains the folds only, ``--job selection`` compares variants
with eight folds instead. The folds run in parallel processes; with ``--device cuda`` they share one GPU.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from benchmarks.models.specs import MODELS, VARIANTS, Spec, regroup
from benchmarks.version_and_date import version_and_date
from torch import Tensor

from sight import registry
from sight.models.card import ModelCard
from sight.models.source_statistics import source_stats
from sight.models.torch import TorchSource
from sight.models.train import normalisation
from sight.results import metrics
from sight.results.prediction_loop import run
from sight.types import Windows

METHODS = ("none", "sticky", "keel")
#: Standard deviation of a random tilt of the sensor, in radians, and of its scale.
TILT, SCALE = 0.25, 0.05
#: Data of the process, by name of the packed file.
_packed: dict[str, dict[str, Any]] = {}


def read(folder: Path, name: str) -> dict[str, Any]:
    """Return the arrays of a packed file, read once per process."""
    if name not in _packed:
        with np.load(folder / f"{name}.npz") as file:
            arrays = {key: file[key] for key in file.files}
        arrays["x"] = arrays["x"] * arrays["scale"]
        _packed[name] = arrays
    return _packed[name]


def turn(x: Tensor, mounts: str, generator: torch.Generator) -> Tensor:
    """Turn the sensor of each window (B, 3, T) at random, and change its scale by a few percent.

    "none" returns the windows as they are. "tilt" turns them by about 14 degrees about a random axis. "wrist" also
    swaps x and y and flips any axis, as devices do that are worn on either wrist, either way round, or whose axes are
    named differently; z stays normal to the wrist. "any" permutes all axes.
    """
    if mounts == "none":
        return x
    size, device = len(x), x.device

    def draw(*shape: int) -> Tensor:
        return torch.randn(size, *shape, generator=generator, device=device)

    axis = TILT * draw(3)
    skew = torch.zeros(size, 3, 3, device=device)
    skew[:, 0, 1], skew[:, 0, 2], skew[:, 1, 2] = -axis[:, 2], axis[:, 1], -axis[:, 0]
    matrix = torch.matrix_exp(skew - skew.transpose(1, 2)) * (1 + SCALE * draw(1, 1))
    if mounts in ("wrist", "any"):
        matrix = matrix * torch.sign(draw(3, 1))
        order = draw(3).argsort(dim=1)
        if mounts == "wrist":
            swapped = (draw() > 0)[:, None]
            order = torch.where(swapped, torch.tensor([1, 0, 2], device=device), torch.tensor([0, 1, 2], device=device))
        matrix = matrix.gather(1, order[:, :, None].expand(-1, 3, 3))
    return matrix @ x


def fit(spec: Spec, data: dict[str, Any], rows: np.ndarray, device: str) -> TorchSource:
    """Train a network on labelled windows: AdamW with a one-cycle schedule, classes weighted equally.

    If labels are grouped, a second head that is not kept learns the labels themselves, which gives better features.
    """
    y_all, classes = regroup(data["y"], data["classes"].tolist(), spec.groups)
    rows = rows[y_all[rows] >= 0]
    x, y = data["x"][rows], y_all[rows].astype(np.int64)
    labels = data["y"][rows].astype(np.int64)
    mean, std, _ = normalisation(x)
    if spec.mounts in ("wrist", "any"):  # the same for every mounting
        mean, std = np.zeros_like(mean), np.full_like(std, np.sqrt((x.astype(np.float64) ** 2).mean()))
    torch.manual_seed(spec.seed)
    generator = torch.Generator(device).manual_seed(spec.seed)
    network = registry.get("encoders", spec.encoder)(channels=x.shape[1], classes=len(classes), dropout=0.3)
    network.normalise(mean, std)
    second = torch.nn.Linear(network.head.in_features, len(data["classes"])).to(device)
    network.to(device).train()
    weights = [
        _class_weights(values, size, device) for values, size in ((y, len(classes)), (labels, second.out_features))
    ]
    inputs, targets, fine = (torch.from_numpy(array).to(device) for array in (x, y, labels))
    parameters = [*network.parameters(), *(second.parameters() if spec.groups else ())]
    optimiser = torch.optim.AdamW(parameters, lr=spec.lr, weight_decay=0.01)
    steps = spec.epochs * (len(y) // spec.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, spec.lr, total_steps=steps, pct_start=0.1)
    for _ in range(spec.epochs):
        order = torch.randperm(len(y), generator=generator, device=device)
        for batch in order[: len(y) // spec.batch * spec.batch].view(-1, spec.batch):
            z = network.dropout(network.features(turn(inputs[batch], spec.mounts, generator)))
            loss = F.cross_entropy(network.head(z), targets[batch], weight=weights[0])
            if spec.groups:
                loss = loss + F.cross_entropy(second(z), fine[batch], weight=weights[1])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    source = _source(spec, data, network.eval(), classes, x, y, generator, (mean, std))
    source.stats = replace(source.stats, subjects=len(np.unique(data["subject"][rows])))
    return source


def _class_weights(y: np.ndarray, size: int, device: str) -> Tensor:
    """Return weights that give every class the same share of the loss."""
    return torch.tensor(
        len(y) / size / np.maximum(np.bincount(y, minlength=size), 1), dtype=torch.float32, device=device
    )


def _source(
    spec: Spec,
    data: dict[str, Any],
    network: Any,
    classes: list[str],
    x: np.ndarray,
    y: np.ndarray,
    generator: torch.Generator,
    levels: tuple[np.ndarray, np.ndarray],
) -> TorchSource:
    """Return the source model, with statistics of equally many windows of each class, turned as in training."""
    training = {key: getattr(spec, key) for key in ("epochs", "batch", "lr", "seed", "mounts")}
    card = ModelCard(
        encoder=spec.encoder,
        encoder_args=network.encoder_args,
        classes=tuple(classes),
        channels=tuple(data["channels"].tolist()),
        units=tuple(data["units"].tolist()),
        rate_hz=float(data["rate_hz"]),
        window_s=float(data["window_s"]),
        stride_s=float(data["stride_s"]),
        mean=tuple(levels[0].tolist()),
        std=tuple(levels[1].tolist()),
        training=training | {"windows": len(y), "torch": str(torch.__version__)},
    )
    source = TorchSource(network, classes=classes, card=card)
    rng, fewest = np.random.default_rng(spec.seed), np.bincount(y).min()
    even = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:fewest] for k in range(len(classes))])
    turned = turn(torch.from_numpy(x[even]).to(source.device), spec.mounts, generator).cpu().numpy()
    source.stats = source_stats(source, turned, y[even], subjects=0)
    return source


def remount(x: np.ndarray, subject: int) -> np.ndarray:
    """Mount the sensor of a subject in another way: x and y swapped or not, axes flipped, never as recorded."""
    choice = np.random.default_rng(subject).integers(1, 16)
    signs = np.array([1 - 2 * (choice >> bit & 1) for bit in range(3)], np.float32)
    return x[:, [1, 0, 2] if choice & 8 else [0, 1, 2]] * signs[:, None]


def evaluate(source: TorchSource, spec: Spec, data: dict[str, Any], subject: int) -> tuple[list[dict[str, Any]], Any]:
    """Return scores of a held-out subject, and the raw probabilities of its windows as recorded."""
    rows = np.flatnonzero(data["subject"] == subject)
    y = regroup(data["y"], data["classes"].tolist(), spec.groups)[0][rows]
    x, scores, raw = data["x"][rows], [], None
    card = source.card
    for mounting in ("as recorded", "remounted"):
        given = x if mounting == "as recorded" else remount(x, subject)
        windows = Windows(
            x=given,
            time_s=np.arange(len(y)) * card.stride_s,
            label=y,
            gap_before_s=data["gap_s"][rows],
            window_s=card.window_s,
            stride_s=card.stride_s,
        )
        encoded = source.encode(given)
        raw = encoded[1] if raw is None else raw
        for name in METHODS:
            q = run(registry.method(name).bind(source), windows, encoded=encoded).q
            table = metrics.confusion(y[y >= 0], q.argmax(axis=1)[y >= 0], len(source.classes))
            scores.append(
                {
                    "model": spec.name,
                    "subject": str(data["subjects"][subject]),
                    "mounting": mounting,
                    "method": name,
                    "macro_f1": round(100 * metrics.macro_f1_union(table), 2),
                    "accuracy": round(100 * metrics.accuracy(table), 2),
                    "windows": int((y >= 0).sum()),
                    **version_and_date(),
                }
            )
    return scores, raw.astype(np.float16)


def task(
    job: tuple[Spec, tuple[int, ...], Path, Path, str],
) -> tuple[Spec, tuple[int, ...], list[dict[str, Any]], Any, float]:
    """Train without some subjects and score them; without none, save the checkpoint."""
    spec, left_out, windows, out, device = job
    started = time.perf_counter()
    torch.set_num_threads(1)
    data = read(windows, spec.packed)
    source = fit(spec, data, np.flatnonzero(~np.isin(data["subject"], left_out)), device)
    scores, raw = [], {}
    for subject in left_out:
        rows, raw[subject] = evaluate(source, spec, data, subject)
        scores += rows
    if not left_out:
        source.card = replace(source.card, training={**source.card.training, "subjects": data["subjects"].tolist()})
        source.save(out / f"{spec.name}.safetensors")
    return spec, left_out, scores, raw, time.perf_counter() - started


def main() -> None:
    """Train all folds of a job, and write scores and checkpoints as they arrive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("windows", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--job", choices=("selection", "scores", "final"), default="final")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--epochs", type=int, help="Epochs instead of those of the models, for a trial.")
    parser.add_argument("--limit-s", type=float, default=np.inf, help="Start no evaluation of results after this time.")
    parser.add_argument("--only", help="Names of models, comma-separated.")
    parser.add_argument("--left-out", type=int, help="Subjects that each fold leaves out; one, or an eighth of all.")
    parser.add_argument("--folds", type=int, help="Train only this many folds of each model, for a trial.")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    specs = list((VARIANTS if options.job == "selection" else MODELS).values())
    specs = [spec for spec in specs if not options.only or spec.name in options.only.split(",")]
    jobs = []
    for given in specs:
        spec = replace(given, epochs=options.epochs or given.epochs)
        count = len(read(options.windows, spec.packed)["subjects"])
        size = options.left_out or (-(-count // 8) if options.job == "selection" else 1)
        folds = [tuple(range(first, min(first + size, count))) for first in range(0, count, size)][: options.folds]
        whole: list[tuple[int, ...]] = [()] if options.job == "final" else []
        jobs += [(spec, fold, options.windows, options.out, options.device) for fold in whole + folds]
    heldout: dict[str, np.ndarray] = {}
    started = time.perf_counter()
    with (
        (options.out / "scores.csv").open("w", newline="") as file,
        multiprocessing.get_context("spawn").Pool(options.processes) as pool,
    ):
        heads = ("model", "subject", "mounting", "method", "macro_f1", "accuracy", "windows", *version_and_date())
        writer = csv.DictWriter(file, heads)
        writer.writeheader()
        for spec, left_out, scores, raw, seconds in pool.imap_unordered(task, jobs):
            writer.writerows(scores)
            file.flush()
            heldout |= {f"{spec.name}/{subject}": p for subject, p in raw.items()}
            print(f"{spec.name} {left_out} {seconds:.1f} s, {time.perf_counter() - started:.0f} s in all", flush=True)
            if time.perf_counter() - started > options.limit_s:
                pool.terminate()
                break
    np.savez_compressed(options.out / "heldout.npz", **heldout)


if __name__ == "__main__":
    main()
