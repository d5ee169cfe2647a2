"""Evaluate `keel-norm` on the nine settings and on days that one class fills, many wearers at once.

Run as ``python -m benchmarks.keel.normalisation WINDOWS OUT [--workers 14] [--datasets wisdm,hugadb] [--seeds 0]`` with
the folder written by `pack_windows`; ``--device cpu --epochs 2 --limit 2`` tries it without a GPU. Needs torch, numpy
and numba. Writes OUT/normalisation.csv, one row per run (model, target, order, method), and
OUT/normalisation_summary.csv, gains per setting.

All targets of a source model run together. The statistics of a wearer are the same for the windows of a chunk, while
`sight.methods.keel_norm` updates them after each window; with ``--chunk 1`` both give the same predictions, except that
the strength of `scaled` is the one applied to the window before.
"""

from __future__ import annotations

import argparse
import copy
import csv
import itertools
import multiprocessing
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.keel.source_training import Task, read_dataset, tasks, train_source
from torch import nn

from sight.apps.bench.day_streams import DOMINATED, day_stream
from sight.methods.gradient.norms import replace_batch_norms
from sight.methods.keel import Keel
from sight.methods.keel.state import TRACE
from sight.methods.keel_norm import KeelNorm
from sight.methods.sticky import Sticky
from sight.models.given_features import FeatureSource
from sight.results import metrics
from sight.types import SourceStats

#: Fields of `KeelNorm` and of `Keel` inside it.
VARIANTS: dict[str, tuple[dict, dict]] = {
    "anchor 100": ({"tolerance": 0.0}, {}),
    "anchor 300": ({"tolerance": 0.0, "anchor": 300.0}, {}),
    "scaled": ({"tolerance": 0.0, "scaled": True}, {}),
    "first layer": ({"tolerance": 0.0, "layers": 1}, {}),
    "anchor 300, first layer, scaled": ({"tolerance": 0.0, "anchor": 300.0, "layers": 1, "scaled": True}, {}),
    "tolerance 0.25": ({"tolerance": 0.25}, {}),
    "tolerance 0.25, scaled": ({"tolerance": 0.25, "scaled": True}, {}),
    "tolerance 0.35": ({"tolerance": 0.35}, {}),
    "tolerance 0.5": ({}, {}),
    "tolerance 0.5, anchor 30": ({"anchor": 30.0}, {}),
    "tolerance 0.5, anchor 10": ({"anchor": 10.0}, {}),
    "tolerance 0.75, anchor 30": ({"tolerance": 0.75, "anchor": 30.0}, {}),
    "tolerance 0.5, first layer, anchor 30": ({"layers": 1, "anchor": 30.0}, {}),
    "tolerance 0.5, penalty 0.5": ({}, {"penalty": 0.5}),
    "tolerance 0.5, penalty 0.25": ({}, {"penalty": 0.25}),
    "tolerance 0.25, penalty 0.5": ({"tolerance": 0.25}, {"penalty": 0.5}),
    "tolerance 0.35, penalty 0.5, align 0.2": ({"tolerance": 0.35}, {"penalty": 0.5, "align": 0.2}),
    "tolerance 0.5, align 0": ({}, {"align": 0.0}),
    "tolerance 0.5, penalty 1.5": ({}, {"penalty": 1.5}),
    "tolerance 0.5, penalty 2, align 0.6": ({}, {"penalty": 2.0, "align": 0.6}),
}
#: Classes that fill a day in turn.
HAPT = ("sitting", "standing", "laying")
SEDENTARY = {
    "hapt-total": HAPT,
    "hapt-body": HAPT,
    "hugadb": ("sit", "stand"),
    "wisdm": ("sitting", "standing", "typing", "writing"),
    "extrasensory": ("sitting", "lying", "standing"),
}
#: Windows after which statistics are updated, and most windows that the network takes at once.
CHUNK, AT_ONCE = 8, 8192
#: Loss in points that counts as harm.
MARGIN = 3.0
COLUMNS = ("setting", "source", "seed", "target", "half", "order", "method", "windows", "accuracy", "macro_f1")
SUMMARY_COLUMNS = ("setting", "order", "method", "runs", "gain", "harmed_percent", "worst")


# --- streams ----------------------------------------------------------------------------------------------------------


def streams_of(task: Task, facts: dict, y: np.ndarray, limit: int | None) -> list[tuple[int, str, np.ndarray]]:
    """Return target, order and window indices of each stream: every target as recorded, and its days."""
    dataset, _, subjects, seed = task
    edges = np.r_[0, np.cumsum(facts["counts"])]
    streams = []
    for i in [i for i in range(len(facts["subjects"])) if i not in subjects][:limit]:
        rows = np.arange(edges[i], edges[i + 1])
        rows = rows[y[rows] >= 0]
        streams.append((i, "recorded", rows))
        for order, name in itertools.product(DOMINATED, SEDENTARY.get(dataset, facts["classes"][:1])):
            k = facts["classes"].index(name)
            index = day_stream(y[rows], order, [seed, i, k], dominating=k)
            if index is not None:
                streams.append((i, f"{order} {name}", rows[index]))
    return streams


# --- many wearers -----------------------------------------------------------------------------------------------------


class PerWearerNorm(nn.Module):
    """Batch normalisation with statistics of each wearer; rows are B windows of the first wearer, then of the next."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps
        self.mean, self.var = layer.running_mean[None], layer.running_var[None]  # (wearers, C)

    def forward(self, x):
        """Normalise (rows, C, T), and keep mean and mean square of each row."""
        self.moments = torch.stack((x.mean(dim=2), x.square().mean(dim=2)), dim=1)  # (rows, 2, C)
        scale = self.weight * torch.rsqrt(self.var + self.eps)
        offset = self.bias - self.mean * scale
        scale, offset = (v.repeat_interleave(len(x) // len(v), dim=0)[..., None] for v in (scale, offset))
        return torch.addcmul(offset, x, scale)


class ReducedFeatures:
    """Features as coordinates along the class means and the distance from their span: all that Keel uses of them.

    Keel compares only directions from the mean feature, so that K + 1 numbers lead to the same predictions as D.
    """

    def __init__(self, source) -> None:
        stats, weight = source.stats, source.weight.astype(np.float64)
        origin, means = stats.feature_mean.astype(np.float64), stats.class_means - stats.feature_mean
        basis = np.linalg.svd(means, full_matrices=False)[2]  # (K, D), orthonormal rows
        extended = [np.pad(matrix @ basis.T, ((0, 0), (0, 1))).astype(np.float32) for matrix in (weight, means)]
        reduced = SourceStats(
            prior=stats.prior, feature_mean=0 * extended[0][0], class_means=extended[1], count=stats.count
        )
        bias = (source.bias + weight @ origin).astype(np.float32)
        self.source = FeatureSource(extended[0], bias, stats=reduced)
        self.origin, self.basis = (
            torch.from_numpy(array.astype(np.float32)).to(source.device) for array in (origin, basis.T)
        )

    def __call__(self, z: torch.Tensor) -> np.ndarray:
        """Return reduced features (rows, K + 1) of features (rows, D)."""
        offset = z - self.origin
        along = offset @ self.basis
        rest = (offset.square().sum(dim=1) - along.square().sum(dim=1)).clamp(min=0).sqrt()
        return torch.cat((along, rest[:, None]), dim=1).cpu().numpy()


class ManyKeelNorm:
    """`KeelNorm` for many wearers of one source model; statistics are constant within a chunk."""

    def __init__(self, adapter: KeelNorm, wearers: int, keel: Mapping[str, Any]) -> None:
        source, self.fields = adapter.source, adapter.params()
        self.device = source.device
        self.reduce = ReducedFeatures(source)
        self.keel = Keel(**keel).bind(self.reduce.source).many(wearers)
        self.network = copy.deepcopy(source.network).eval().requires_grad_(False)
        replace_batch_norms(self.network, PerWearerNorm)
        norms = [layer for layer in self.network.modules() if isinstance(layer, PerWearerNorm)]
        self.norms = norms[: len(adapter.widths)]
        self.widths = [layer.mean.shape[1] for layer in self.norms]
        terms = adapter.terms
        constants = (terms.start, terms.prior, terms.mean, terms.var, terms.floor, terms.trained)
        self.start, self.prior, self.mean, self.var, self.floor, self.trained = map(self._tensor, constants)
        self.lowest, self.highest = self._tensor(terms.lowest[:, 0]), self._tensor(terms.highest[:, 0])
        self.sums = torch.zeros(wearers, *self.start.shape, device=self.device)  # (W, 2, K, C)
        self.weights = torch.zeros(wearers, len(self.prior), device=self.device)
        self.share = torch.ones(wearers, 1, device=self.device)
        self.spared = self._tensor(terms.spared[0])

    @torch.inference_mode()
    def step(self, x: torch.Tensor, wearers: np.ndarray) -> np.ndarray:
        """Return probabilities (R, B, K) of B windows of each of R wearers, x (R * B, C, T); then adapt."""
        rows = torch.from_numpy(wearers).to(self.device)
        self._normalise(rows)
        z = self.network.features(x)
        p = torch.softmax(self.network.head(z), dim=1)
        q, trace = self.keel.advance(self.reduce(z), p.cpu().numpy(), wearers)
        q = q.reshape(len(wearers), -1, q.shape[1])
        seen = torch.cat([layer.moments for layer in self.norms], dim=2).clamp(self.lowest, self.highest)
        seen = seen.reshape(*q.shape[:2], -1)  # (R, B, 2 C)
        belief = self._tensor(q)
        belief = belief * (belief.amax(dim=2, keepdim=True) > self.fields["confident"])
        self.weights[rows] += belief.sum(dim=1)
        added = (belief.transpose(1, 2) @ seen).reshape(len(rows), len(self.prior), 2, -1)
        self.sums[rows] += added.transpose(1, 2)
        strength = trace[:, TRACE.index("strength")].reshape(q.shape[:2])[:, -1:]
        if self.fields["scaled"]:
            self.share[rows] = self._tensor(strength)
        return q

    def _normalise(self, rows: torch.Tensor) -> None:
        anchor = self.fields["anchor"]
        weights = self.weights[rows][:, None, :, None]
        moments = (anchor * self.start + self.sums[rows]) / (anchor + weights)
        mean, square = (self.prior @ moments).unbind(dim=1)  # (R, C)
        ratio = torch.maximum(square - mean * mean, self.floor) / self.var
        share = self.share[rows]
        means = self.trained[0] + share * beyond(mean - self.mean, self.spared)
        ratio = beyond(ratio.log(), torch.full_like(self.spared, self.fields["tolerance"])).exp()
        variances = self.trained[1] * (1 + share * (ratio - 1))
        split = (means.split(self.widths, dim=1), variances.split(self.widths, dim=1))
        for layer, mean, var in zip(self.norms, *split, strict=True):
            layer.mean, layer.var = mean, var

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, np.float32)).to(self.device)


def beyond(values: torch.Tensor, tolerance: torch.Tensor) -> torch.Tensor:
    """Return by how much values exceed a tolerance, with their sign."""
    return values - values.clamp(-tolerance, tolerance)


def run_variant(
    adapter: KeelNorm, x: torch.Tensor, indices: list[np.ndarray], chunk: int, keel: Mapping[str, Any]
) -> list[np.ndarray]:
    """Return the labels that a variant predicts for each stream of windows of `x`."""
    predicted = [np.empty(len(index), np.int64) for index in indices]
    lengths = np.array([len(index) for index in indices])
    for wearers in np.array_split(np.argsort(lengths), -(-len(indices) * chunk // AT_ONCE)):
        many = ManyKeelNorm(adapter, len(wearers), keel)
        for first in range(0, lengths[wearers].max(), chunk):
            left = np.clip(lengths[wearers] - first, 0, chunk)
            for size in np.unique(left[left > 0]):  # ends of streams may be shorter than a chunk
                rows = np.flatnonzero(left == size)
                at = np.concatenate([indices[w][first : first + size] for w in wearers[rows]])
                labels = many.step(x[torch.from_numpy(at).to(x.device)], rows).argmax(axis=2)
                for w, own in zip(wearers[rows], labels, strict=True):
                    predicted[w][first : first + size] = own
    return predicted


# --- runs -------------------------------------------------------------------------------------------------------------


def run_task(task: Task, folder: Path, options: argparse.Namespace) -> tuple[str, list[tuple]]:
    """Train one source model; return a message, and a row for each stream and method."""
    torch.set_num_threads(1)
    began = time.time()
    dataset, kind, subjects, seed = task
    facts, x, y = read_dataset(folder, dataset)
    train_options = {"device": options.device} | ({"epochs": options.epochs} if options.epochs else {})
    source, _ = train_source(task, folder, **train_options)
    trained = time.time()
    streams = streams_of(task, facts, y, options.limit)
    indices = [index for _, _, index in streams]
    z, p = source.encode(x)
    keel, sticky = Keel().bind(source), Sticky().bind(source)
    predicted = {
        "source-only": [p[index].argmax(axis=1) for index in indices],
        "keel": [keel.reset().refine(z[index], p[index]).argmax(axis=1) for index in indices],
        "sticky": [sticky.reset().refine(z[index], p[index]).argmax(axis=1) for index in indices],
    }
    windows = torch.from_numpy(x).to(source.device)
    for name, (fields, keel_fields) in VARIANTS.items():
        adapter = KeelNorm(**fields).bind(source)
        predicted[name] = run_variant(adapter, windows, indices, options.chunk, keel_fields)
    rows = []
    for method, labels in predicted.items():
        for (i, order, index), own in zip(streams, labels, strict=True):
            table = metrics.confusion(y[index], own, len(facts["classes"]))
            scores = (100 * metrics.accuracy(table), 100 * metrics.macro_f1_union(table))
            half = "held out" if i % 2 else "development"
            run = (f"{dataset}_{kind}", facts["subjects"][subjects[0]], seed, facts["subjects"][i])
            rows.append((*run, half, order, method, len(index), *(round(score, 3) for score in scores)))
    seconds = f"trained {trained - began:.0f} s, all {time.time() - began:.0f} s"
    return f"{dataset} {kind} {facts['subjects'][subjects[0]]} seed {seed}: {len(streams)} streams, {seconds}", rows


def summary(rows: Iterable[tuple]) -> list[tuple]:
    """Return gains over source-only per setting, order and method (`SUMMARY_COLUMNS`).

    Recordings are scored by macro-F1, days by accuracy; all days of one share count as one order.
    """
    scores = {row[:7]: row[8:] for row in rows}
    gains: dict[tuple, list[float]] = {}
    for (*run, method), own in scores.items():
        if method != "source-only":
            order = run[5].split()[0]
            column = COLUMNS[8:].index("macro_f1" if order == "recorded" else "accuracy")
            gain = own[column] - scores[(*run, "source-only")][column]
            gains.setdefault((run[0], order, method), []).append(gain)
    found = []
    for key, values in gains.items():
        harmed = 100 * np.mean(np.array(values) < -MARGIN)
        found.append((*key, len(values), *(round(float(v), 2) for v in (np.mean(values), harmed, min(values)))))
    return found


def main(arguments: list[str] | None = None) -> None:
    """Distribute the models over processes, and write rows as they finish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--datasets", type=lambda text: text.split(","))
    parser.add_argument("--seeds", type=lambda text: [int(part) for part in text.split(",")], default=[0])
    parser.add_argument("--chunk", type=int, default=CHUNK)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--limit", type=int, help="targets per source model")
    parser.add_argument("--models", type=int, help="number of source models")
    options = parser.parse_args(arguments)
    work = [task for task in tasks(options.folder, options.datasets) if task[3] in options.seeds][: options.models]
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[tuple] = []
    spawn = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    with (
        (options.out / "normalisation.csv").open("w", newline="") as file,
        ProcessPoolExecutor(min(options.workers, len(work)), mp_context=spawn) as pool,
    ):
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        running = {pool.submit(run_task, task, options.folder, options): task for task in work}
        for count, future in enumerate(as_completed(running), start=1):
            try:
                message, found = future.result()
            except Exception as error:
                print(f"FAILED {running[future]}: {error!r}", flush=True)
                continue
            rows += found
            writer.writerows(found)
            file.flush()
            print(count, len(work), message, flush=True)
    with (options.out / "normalisation_summary.csv").open("w", newline="") as file:
        csv.writer(file).writerows([SUMMARY_COLUMNS, *summary(rows)])


if __name__ == "__main__":
    main()
