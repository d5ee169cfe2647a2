"""The step of keel-norm in torch, for the export as ONNX."""

import torch
from torch import Tensor, nn

from sight.methods.gradient.norms import RecordingNorm
from sight.methods.keel.fused import KeelStep
from sight.methods.keel_norm.method import KeelNorm


class KeelNormStep(KeelStep):
    """Keel with its model and the wearer's statistics; see `sight.methods.keel_norm.reference` for the computation.

    `weights`, a sum in the adapter, is a mean over all windows here.
    """

    source_prior: Tensor
    source_start: Tensor
    source_mean: Tensor
    source_var: Tensor
    source_floor: Tensor
    source_spared: Tensor
    source_lowest: Tensor
    source_highest: Tensor
    source_trained: Tensor

    def __init__(self, network: nn.Module, adapter: KeelNorm) -> None:
        super().__init__(network, adapter.keel)
        if not adapter.widths:
            raise ValueError(f"{adapter.name}: {adapter.notes()[0]}; export with the method keel instead.")
        self.fields, self.norms = adapter.params(), []
        for name in adapter.widths:
            norm = RecordingNorm(network.get_submodule(name))  # type: ignore[arg-type]
            del norm.running_mean, norm.running_var  # computed in each call
            network.set_submodule(name, norm)
            self.norms.append(norm)
        self.sizes = list(adapter.widths.values())
        for name, value in adapter.terms._asdict().items():
            # With a prefix, because the exporter also names nodes "mean" and the like.
            self.register_buffer(f"source_{name}", torch.from_numpy(value))

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        *own, weights, moments = state
        named = dict(zip(KeelNorm.layout.entries, state, strict=True))
        fresh, n = named["count"] == 0, named["count"].to(x.dtype)
        weights, moments = torch.where(fresh, 0.0, weights), torch.where(fresh, self.source_start, moments)
        mean, var = self._statistics(moments, named["frequencies"], named["doubt"], n)
        parts = zip(self.norms, torch.split(mean, self.sizes), torch.split(var, self.sizes), strict=True)
        for norm, own_mean, own_var in parts:
            norm.running_mean, norm.running_var = own_mean, own_var
        q, p, change, *after = super().forward(x, *own)
        seen = torch.cat([norm.moments for norm in self.norms], dim=2)  # (2, 1, C)
        seen = torch.minimum(torch.maximum(seen, self.source_lowest), self.source_highest)
        added = torch.where(q[0].amax(0) > self.fields["confident"], q[0], 0.0)
        rate = added / (self.fields["anchor"] + weights * n + added)
        moments = moments + rate[:, None] * (seen - moments)
        return (q, p, change, *after, weights + (added - weights) / (n + 1), moments)

    def _statistics(self, moments: Tensor, frequencies: Tensor, doubt: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        mean, square = (self.source_prior[:, None] * moments).sum(dim=1)
        var = torch.maximum(square - mean * mean, self.source_floor)
        displaced = torch.stack((mean - self.source_mean, torch.log(var / self.source_var)))
        shift, change = displaced - torch.minimum(torch.maximum(displaced, -self.source_spared), self.source_spared)
        ratio = torch.exp(change)
        if self.fields["scaled"]:
            # of Keel after the last window; nothing moves before the first
            share = torch.where(n == 0, 0.0, self._strength(frequencies, doubt * n, n))
            shift, ratio = share * shift, 1 + share * (ratio - 1)
        return self.source_trained[0] + shift, self.source_trained[1] * ratio
