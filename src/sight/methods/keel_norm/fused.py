"""The step of keel-norm in torch, for the export as ONNX."""

import torch
from torch import Tensor, nn

from sight.methods.gradient.norms import RecordingNorm
from sight.methods.keel.fused import KeelStep
from sight.methods.keel_norm.method import KeelNorm


class KeelNormStep(KeelStep):
    """Keel with its model and the wearer's statistics; see `sight.methods.keel_norm.reference` for the computation."""

    source_start: Tensor
    source_mean: Tensor
    source_var: Tensor
    source_floor: Tensor
    source_reach: Tensor
    source_lowest: Tensor
    source_highest: Tensor

    def __init__(self, network: nn.Module, adapter: KeelNorm) -> None:
        super().__init__(network, adapter.keel)
        if not adapter.moves:
            raise ValueError(f"{adapter.name}: {adapter.notes()[0]}; export with the method keel instead.")
        self.anchor, self.per_subject, self.norms = adapter.anchor, adapter.per_subject, []
        for name in adapter.layers.widths:
            norm = RecordingNorm(network.get_submodule(name))  # type: ignore[arg-type]
            del norm.running_mean, norm.running_var  # computed in each call
            network.set_submodule(name, norm)
            self.norms.append(norm)
        self.sizes, terms = list(adapter.layers.widths.values()), adapter.terms._asdict()
        self.largest = float(terms.pop("ratio"))
        for name, value in {"start": adapter.start, **terms}.items():
            # With a prefix, because the exporter also names nodes "mean" and the like.
            self.register_buffer(f"source_{name}", torch.from_numpy(value))

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        *own, moments = state
        named = dict(zip(KeelNorm.layout.entries, state, strict=True))
        count = named["count"]
        moments = torch.where(count == 0, self.source_start, moments)
        # of Keel after the last window; nothing moves before the first
        strength = torch.where(count == 0, 0.0, self._coverage(named["frequencies"]))
        mean, var = self._statistics(moments, (self.per_subject * strength).to(x.dtype))
        parts = zip(self.norms, torch.split(mean, self.sizes), torch.split(var, self.sizes), strict=True)
        for norm, own_mean, own_var in parts:
            norm.running_mean, norm.running_var = own_mean, own_var
        q, p, change, *after = super().forward(x, *own)
        seen = torch.cat([norm.moments for norm in self.norms], dim=2)[:, 0]  # (2, C)
        seen = torch.minimum(torch.maximum(seen, self.source_lowest), self.source_highest)
        moments = moments + (seen - moments) / (self.anchor + count.to(x.dtype) + 1)
        return (q, p, change, *after, moments)

    def _statistics(self, moments: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        mean, square = moments
        shift = torch.minimum(torch.maximum(mean - self.source_mean, -self.source_reach), self.source_reach)
        ratio = torch.maximum(square - mean * mean, self.source_floor) / self.source_var
        ratio = ratio.clamp(1 / self.largest, self.largest)
        return self.source_mean + share * shift, self.source_var * (1 + share * (ratio - 1))
