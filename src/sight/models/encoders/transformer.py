"""Small Transformer over patches of the window."""

import math
from typing import cast

import torch
from torch import Tensor, nn

from sight.models.encoders.base import Encoder


class Transformer(Encoder):
    """Overlapping patches as tokens, blocks of self-attention with LayerNorm first, mean over tokens; D = 64.

    Parameters
    ----------
    channels, classes
        C and K.
    width, depth, heads
        Size of a token, number of blocks, heads of each attention.
    dropout
        Dropout rate inside each block and before the head, in training only.

    Notes
    -----
    201,989 parameters with three channels and five classes, nearly as many as the paper's CNN. A patch is 8 samples,
    taken every 4; positions are sinusoids, so any window length is accepted.

    Examples
    --------
    >>> transformer = Transformer(channels=3, classes=5)
    >>> transformer.features(torch.zeros(2, 3, 100)).shape, sum(p.numel() for p in transformer.parameters())
    (torch.Size([2, 64]), 201989)
    >>> transformer.eval().attention(torch.zeros(2, 3, 100)).sum(dim=1).round(decimals=5).tolist()
    [1.0, 1.0]

    References
    ----------
    Vaswani et al., "Attention Is All You Need", NeurIPS 2017, arXiv:1706.03762.
    Xiong et al., "On Layer Normalization in the Transformer Architecture", ICML 2020, arXiv:2002.04745.
    """

    name = "transformer"

    def __init__(
        self, *, channels: int, classes: int, width: int = 64, depth: int = 4, heads: int = 4, dropout: float = 0.1
    ) -> None:
        super().__init__(
            dims=width, dropout=dropout, channels=channels, classes=classes, width=width, depth=depth, heads=heads
        )
        self.patches = nn.Conv1d(channels, width, kernel_size=8, stride=4, padding=4)
        self.blocks = nn.ModuleList(_Block(width, heads, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def attention(self, x: Tensor) -> Tensor:
        """Return the attention that each token receives in the last block, (B, S); rows sum to 1.

        The values are means over heads and query tokens. Token s covers the samples 4s - 4 to 4s + 3.
        """
        tokens = self._tokens(self._normalised(x))
        *first, last = self.blocks
        for block in first:
            tokens = block(tokens)
        return cast(_Block, last).attention(tokens).mean(dim=(1, 2))

    def _features(self, x: Tensor) -> Tensor:
        tokens = self._tokens(x)
        for block in self.blocks:
            tokens = block(tokens)
        pooled: Tensor = self.norm(tokens).mean(dim=1)
        return pooled

    def _tokens(self, x: Tensor) -> Tensor:
        tokens: Tensor = self.patches(x).transpose(1, 2)
        return tokens + _positions(tokens.shape[1], tokens.shape[2]).to(tokens)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.before_attend = nn.LayerNorm(width)
        self.attend = _Attention(width, heads)
        self.before_feed = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def attention(self, tokens: Tensor) -> Tensor:
        return self.attend.weights(self.before_attend(tokens))

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.dropout(self.attend(self.before_attend(tokens)))
        fed: Tensor = tokens + self.dropout(self.feed(self.before_feed(tokens)))
        return fed


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"transformer: expected a width divisible by {heads} heads, got {width}.")
        self.heads = heads
        self.look = nn.Linear(width, 2 * width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def weights(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, S, W) to attention (B, heads, S, S); each row sums to 1."""
        query, key = (self._split(part) for part in self.look(tokens).chunk(2, dim=-1))
        return torch.softmax(query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]), dim=-1)

    def forward(self, tokens: Tensor) -> Tensor:
        mixed = self.weights(tokens) @ self._split(self.value(tokens))
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out

    def _split(self, tokens: Tensor) -> Tensor:
        return tokens.reshape(*tokens.shape[:2], self.heads, -1).transpose(1, 2)


def _positions(count: int, width: int) -> Tensor:
    place = torch.arange(count).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angle = place * frequency
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :width]
