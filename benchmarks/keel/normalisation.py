"""Evaluate `keel-norm` on recordings and on days that one class fills, many wearers at once.

Run as ``python -m benchmarks.keel.normalisation WINDOWS OUT RESULTS --targets 3`` with the models of `train_encode` in
OUT/models. Writes normalisation.csv: one row per method, half and setting, as in days.csv.

All targets of a source model run together. The statistics of a wearer are the same for the windows of a chunk, while
`sight.methods.keel_norm` updates them after each window; with chunks of one window both give the same predictions.
"""

from __future__ import annotations

import argparse
import copy
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from benchmarks.keel.comparison import COLUMNS, HALVES, figures, scores, write
from benchmarks.keel.recursions import Model, Stream, read, streams
from benchmarks.keel.source_training import read_dataset
from joblib import Parallel, delayed
from torch import nn

from sight.methods.gradient.norms import replace_batch_norms
from sight.methods.keel import Keel
from sight.methods.keel.reference import coverage
from sight.methods.keel_norm import KeelNorm
from sight.models.given_features import FeatureSource
from sight.models.torch import TorchSource
from sight.types import SourceStats

METHODS = {"keel-norm": KeelNorm(), "keel-norm, bound 0.5": KeelNorm(bound=0.5)}
#: Windows after which statistics are updated, and most windows that the network takes at once.
CHUNK, AT_ONCE = 8, 4096
KINDS = ("recording", "day-80")


class PerWearerNorm(nn.Module):
    """Batch normalisation with statistics of each wearer; rows are B windows of the first wearer, then of the next."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps
        self.statistics = torch.stack((layer.running_mean, layer.running_var))[None]  # (wearers, 2, C)

    def forward(self, x):
        """Normalise (rows, C, T), and keep mean and mean square of each row."""
        self.moments = torch.stack((x.mean(dim=2), x.square().mean(dim=2)), dim=1)  # (rows, 2, C)
        mean, var = self.statistics.unbind(dim=1)
        scale = self.weight * torch.rsqrt(var + self.eps)
        offset = self.bias - mean * scale
        scale, offset = (v.repeat_interleave(len(x) // len(v), dim=0)[..., None] for v in (scale, offset))
        return torch.addcmul(offset, x, scale)


class ReducedFeatures:
    """Features as coordinates along the class means and the distance from their span: all that Keel uses of them.

    Keel compares only directions from the mean feature, so that K + 1 numbers lead to the same predictions as D.
    """

    def __init__(self, source: TorchSource) -> None:
        stats, weight = source.stats, source.weight.astype(np.float64)
        origin, means = stats.feature_mean.astype(np.float64), stats.class_means - stats.feature_mean
        basis = np.linalg.svd(means, full_matrices=False)[2]  # (K, D), orthonormal rows
        extended = [np.pad(matrix @ basis.T, ((0, 0), (0, 1))).astype(np.float32) for matrix in (weight, means)]
        reduced = SourceStats(
            prior=stats.prior,
            feature_mean=0 * extended[0][0],
            class_means=extended[1],
            count=stats.count,
            subjects=stats.subjects,
        )
        self.source = FeatureSource(extended[0], (source.bias + weight @ origin).astype(np.float32), stats=reduced)
        self.origin, self.basis = (torch.from_numpy(array.astype(np.float32)) for array in (origin, basis.T))

    def __call__(self, z: torch.Tensor) -> np.ndarray:
        """Return reduced features (rows, K + 1) of features (rows, D)."""
        offset = z - self.origin
        along = offset @ self.basis
        rest = (offset.square().sum(dim=1) - along.square().sum(dim=1)).clamp(min=0).sqrt()
        return torch.cat((along, rest[:, None]), dim=1).numpy()


class ManyKeelNorm:
    """`KeelNorm` for many wearers of one source model; statistics are constant within a chunk."""

    def __init__(self, adapter: KeelNorm, wearers: int) -> None:
        source, self.adapter = adapter.source, adapter
        self.reduce = ReducedFeatures(source)
        self.keel = Keel().bind(self.reduce.source).many(wearers)
        self.network = copy.deepcopy(source.network).eval().requires_grad_(False)
        replace_batch_norms(self.network, PerWearerNorm)
        self.norms = [layer for layer in self.network.modules() if isinstance(layer, PerWearerNorm)]
        self.widths = [layer.statistics.shape[2] for layer in self.norms]
        self.terms = {name: torch.as_tensor(value) for name, value in adapter.terms._asdict().items()}
        self.sums = adapter.anchor * torch.from_numpy(adapter.start).repeat(wearers, 1, 1)  # (W, 2, C)
        self.counts = torch.zeros(wearers, 1)
        self.share = torch.zeros(wearers, 1)

    @torch.inference_mode()
    def step(self, x: torch.Tensor, wearers: np.ndarray) -> np.ndarray:
        """Return probabilities (R, B, K) of B windows of each of R wearers, x (R * B, C, T); then adapt."""
        rows = torch.from_numpy(wearers)
        self._normalise(rows)
        z = self.network.features(x)
        p = torch.softmax(self.network.head(z), dim=1)
        q, _ = self.keel.advance(self.reduce(z), p.numpy(), wearers)
        q = q.reshape(len(wearers), -1, q.shape[1])
        seen = torch.cat([layer.moments for layer in self.norms], dim=2)
        seen = torch.minimum(torch.maximum(seen, self.terms["lowest"]), self.terms["highest"])
        self.sums[rows] += seen.reshape(*q.shape[:2], *seen.shape[1:]).sum(dim=1)
        self.counts[rows] += q.shape[1]
        sums, count = (self.keel.views[name][wearers] for name in ("frequencies", "count"))
        strength = [coverage(own / n) for own, n in zip(sums, count, strict=True)]
        self.share[rows] = self.adapter.per_subject * torch.tensor(strength, dtype=torch.float32)[:, None]
        return q

    def _normalise(self, rows: torch.Tensor) -> None:
        terms, share = self.terms, self.share[rows]
        mean, square = (self.sums[rows] / (self.adapter.anchor + self.counts[rows])[:, None]).unbind(dim=1)
        shift = torch.minimum(torch.maximum(mean - terms["mean"], -terms["reach"]), terms["reach"])
        ratio = torch.maximum(square - mean * mean, terms["floor"]) / terms["var"]
        ratio = torch.minimum(torch.maximum(ratio, 1 / terms["ratio"]), terms["ratio"])
        moved = torch.stack((terms["mean"] + share * shift, terms["var"] * (1 + share * (ratio - 1))), dim=1)
        for layer, part in zip(self.norms, moved.split(self.widths, dim=2), strict=True):
            layer.statistics = part


def run_together(adapter: KeelNorm, x: torch.Tensor, indices: list[np.ndarray], chunk: int = CHUNK) -> list[np.ndarray]:
    """Return the labels that the method predicts for each stream of windows of `x`."""
    predicted = [np.empty(len(index), np.int64) for index in indices]
    lengths = np.array([len(index) for index in indices])
    for wearers in np.array_split(np.argsort(lengths), -(-len(indices) * chunk // AT_ONCE)):
        many = ManyKeelNorm(adapter, len(wearers))
        for first in range(0, lengths[wearers].max(), chunk):
            left = np.clip(lengths[wearers] - first, 0, chunk)
            for size in np.unique(left[left > 0]):  # ends of streams may be shorter than a chunk
                rows = np.flatnonzero(left == size)
                at = np.concatenate([indices[w][first : first + size] for w in wearers[rows]])
                labels = many.step(x[torch.from_numpy(at)], rows).argmax(axis=2)
                for w, own in zip(wearers[rows], labels, strict=True):
                    predicted[w][first : first + size] = own
    return predicted


def compare_model(path: Path, windows: Path, targets: int | None = None) -> pd.DataFrame:
    """Return one row per stream and method, as `comparison.compare` does."""
    torch.set_num_threads(1)
    model, source = read(path.parents[1] / "projections" / f"{path.stem}.npz", windows), TorchSource.load(path)
    source.stats = replace(source.stats, subjects=len(model.subjects))
    x = torch.from_numpy(read_dataset(windows, model.setting.split("_")[0])[1])
    kept = [(half, stream) for half in (0, 1) for stream in _first(model, half, targets)]
    indices = [stream.rows for _, stream in kept]
    z, p = source.encode(x.numpy())
    keel = Keel().bind(source)
    predicted = {"keel": [keel.reset().refine(z[index], p[index]).argmax(axis=1) for index in indices]}
    predicted |= {name: run_together(adapter.clone().bind(source), x, indices) for name, adapter in METHODS.items()}
    before = [scores(model, stream, p[stream.rows].argmax(axis=1)) for _, stream in kept]
    rows = [
        (name, model.setting, model.seed, HALVES[half], stream.kind, stream.target, *(scores(model, stream, own) - raw))
        for name, found in predicted.items()
        for (half, stream), own, raw in zip(kept, found, before, strict=True)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _first(model: Model, half: int, targets: int | None) -> list[Stream]:
    found = [stream for stream in streams(model, half) if stream.kind in KINDS]
    return [stream for stream in found if stream.target in sorted({s.target for s in found})[:targets]]


def main() -> None:
    """Write normalisation.csv."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("windows", "out", "results"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--models", default="*_S_*_0", help="pattern of the names of the models")
    parser.add_argument("--targets", type=int, help="most targets of each model and half")
    options = parser.parse_args()
    paths = sorted((options.out / "models").glob(f"{options.models}.safetensors"))
    run = partial(compare_model, windows=options.windows, targets=options.targets)
    runs = pd.concat(Parallel(n_jobs=2)(delayed(run)(path) for path in paths), ignore_index=True)
    write(
        [
            {"method": method, "half": half, "setting": setting, "runs": len(part), **figures(part)}
            for (method, half, setting), part in runs.groupby(["method", "half", "setting"], sort=False)
        ],
        options.results / "normalisation.csv",
    )


if __name__ == "__main__":
    main()
