"""OFTTA: optimisation-free test-time adaptation, batch statistics in early layers and the head of T3A."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sight.base import Adapter, Needs, Presets
from sight.methods.gradient.norms import batch_moments, replace_batch_norms
from sight.methods.gradient.private_copy import check_private_copy
from sight.methods.ops import entropy, softmax
from sight.methods.t3a import head_supports
from sight.params import PositiveInt, Range
from sight.types import Array


@dataclass(kw_only=True)
class OFTTA(Adapter):
    """Normalises early layers by the batch and late ones by the source, then classifies by support directions.

    Parameters
    ----------
    M
        Supports stored for each predicted class, those of lowest entropy.
    first, last
        Share of the source's statistics in the first and the last batch normalisation; geometric in between.
    edtn_order
        "forward": these shares from input to output, as in the authors' code; "reversed": from output to input.
    rule
        "chunk": a batch is normalised and predicted together; "stream": each window by its own statistics.
    batch
        Windows of a chunk.

    Notes
    -----
    Assumes that a batch is a representative sample of the wearer and that early layers hold the differences between
    subjects. On correlated streams a batch is one activity: nine tenths of the first layer's statistics come from it,
    which removes posture, the signal that separates lying from sitting. Under the rule "stream" they come from the
    samples of one window. The head then fails as T3A does.

    Means and standard deviations (not variances) are mixed; the source's deviation has 1e-5 added, the batch's is
    biased and has the layer's epsilon inside the root. A network without batch normalisation stays unchanged, so that
    T3A's head remains; a single such layer gets the share `first`.

    Differs from the authors' code in that layers are counted in the network, independently of the dataset; that no
    unused optimiser or copy is stored; that the default batch of 128 is ours, where theirs depends on the dataset (180,
    220 or 1,000 windows); and that ``M = -1``, meant to keep all supports, is refused. Supports, their
    start and the prediction after the update are theirs. The SIGHT paper's row is closer to the source alone than these
    shares allow: its weights were probably dominated by the source or reversed, hence `edtn_order`.

    Probabilities are the softmax of ``z . w_k``, the scores of the method; they rank classes but are not calibrated.

    Examples
    --------
    >>> OFTTA(first=0.1, last=0.99).shares(3).round(3).tolist()
    [0.1, 0.315, 0.99]
    >>> OFTTA(edtn_order="reversed").shares(3).round(3).tolist()
    [0.99, 0.315, 0.1]

    References
    ----------
    S. Wang, J. Wang, H. Xi, B. Zhang, L. Zhang, H. Wei: Optimization-Free Test-Time Adaptation for Cross-Person
    Activity Recognition. IMWUT 7(4), 2024. doi:10.1145/3631450, arXiv:2310.18562.
    """

    name: ClassVar[str] = "oftta"
    needs: ClassVar[Needs] = Needs(batch=True, gap="ignored")
    presets: ClassVar[Presets] = {"sight-paper": {"batch": 32, "M": 10}}
    MEMORY_SUM: ClassVar[tuple[str, ...]] = ("features", "statistics")
    M: PositiveInt = 25
    first: Annotated[float, Range(above=0, at_most=1)] = 0.1
    last: Annotated[float, Range(above=0, at_most=1)] = 0.99
    edtn_order: Literal["forward", "reversed"] = "forward"
    rule: Literal["chunk", "stream"] = "chunk"
    batch: PositiveInt = 128

    def shares(self, layers: int) -> Array:
        """Return the source's share in each of `layers` layers, from input to output."""
        shares = np.geomspace(self.first, self.last, layers)
        return shares if self.edtn_order == "forward" else shares[::-1]

    def _bind(self) -> None:
        self._network: Any = deepcopy(self.source.module()).eval().requires_grad_(False)
        count = sum(
            isinstance(layer, _BatchNorm) and layer.running_mean is not None for layer in self._network.modules()
        )
        shares = iter(self.shares(count))
        replace_batch_norms(self._network, lambda layer: MixedNorm(layer, float(next(shares))))
        self._first = True

    def _reset(self) -> None:
        self.supports_ = head_supports(self.source, self.M)

    def _step(self, x: Array) -> Array:
        if self._first:  # the shape of a wrapped network's windows is unknown before
            check_private_copy(self.name, self.source.module(), self._network, self._tensor(x[:1]))
            self._first = False
        size = self.chunk or 1
        return np.concatenate([self._predict(x[t : t + size]) for t in range(0, len(x), size)])

    def _predict(self, x: Array) -> Array:
        with torch.no_grad():
            z = self._network.features(self._tensor(x))
            logits = self._network.head(z)
        features, p = z.cpu().numpy(), softmax(logits.cpu().numpy())
        for feature, row in zip(features, p, strict=True):
            self.supports_.add(feature, int(row.argmax()), float(entropy(row)))
        return softmax(features @ self.supports_.directions().T)

    def _tensor(self, x: Array) -> Tensor:
        like = next(self._network.parameters())
        return torch.as_tensor(x, dtype=like.dtype, device=like.device)

    def state_bytes(self) -> dict[str, int]:
        """Statistics are the source's means and deviations and the supports' entropies.

        The paper's 325.0 KB seem to include those of the batch, which are not stored.
        """
        mixed = [layer for layer in self._network.modules() if isinstance(layer, MixedNorm)]
        source = sum(array.nbytes for layer in mixed for array in (layer.mean, layer.std))
        supports = self.supports_
        statistics = source + supports.entropy.nbytes + supports.count.nbytes
        return {"features": supports.features.nbytes, "statistics": statistics}


class MixedNorm(nn.Module):
    """Batch normalisation with means and standard deviations between the source's (`share`) and the batch's."""

    mean: Tensor
    std: Tensor

    def __init__(self, norm: _BatchNorm, share: float) -> None:
        super().__init__()
        if norm.running_mean is None or norm.running_var is None:
            raise ValueError("Expected a batch normalisation with running statistics, got one without.")
        self.register_buffer("mean", norm.running_mean)
        self.register_buffer("std", norm.running_var.sqrt() + 1e-5)
        self.weight, self.bias, self.eps, self.share = norm.weight, norm.bias, norm.eps, share

    def forward(self, x: Tensor) -> Tensor:
        batch_mean, batch_var = batch_moments(x, unbiased=False)
        mean = self.share * self.mean + (1 - self.share) * batch_mean
        std = self.share * self.std + (1 - self.share) * (batch_var + self.eps).sqrt()
        by_channel = (-1, *([1] * (x.ndim - 2)))
        y = (x - mean.view(by_channel)) / std.view(by_channel)
        return y if self.weight is None else y * self.weight.view(by_channel) + self.bias.view(by_channel)
