"""Small 1D-ResNet."""

from torch import Tensor, nn

from sight.models.encoders.base import Encoder


class ResNet(Encoder):
    """A strided stem and three residual blocks of two convolutions each, averaged over time; D = 128.

    Parameters
    ----------
    channels, classes
        C and K.
    dropout
        Dropout rate before the head, in training only.

    Notes
    -----
    208,453 parameters with three channels and five classes, exactly as many as the paper's CNN. The stem and the
    second and third block halve the length in time.

    Examples
    --------
    >>> import torch
    >>> resnet = ResNet(channels=3, classes=5)
    >>> resnet.features(torch.zeros(2, 3, 100)).shape, sum(p.numel() for p in resnet.parameters())
    (torch.Size([2, 128]), 208453)

    References
    ----------
    He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, doi:10.1109/CVPR.2016.90.
    """

    name = "resnet"

    def __init__(self, *, channels: int, classes: int, dropout: float = 0.1) -> None:
        super().__init__(dims=128, dropout=dropout, channels=channels, classes=classes)
        self.stem = nn.Sequential(_conv_norm(channels, 64, kernel=7, stride=2), nn.ReLU())
        self.blocks = nn.Sequential(_Residual(64, 64), _Residual(64, 128, stride=2), _Residual(128, 128, stride=2))

    def _features(self, x: Tensor) -> Tensor:
        maps: Tensor = self.blocks(self.stem(x))
        return maps.mean(dim=2)


class _Residual(nn.Module):
    """Two convolutions and a shortcut: pooling if the stride is above 1, a convolution if the width changes."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.path = nn.Sequential(
            _conv_norm(inputs, outputs, kernel=3, stride=stride), nn.ReLU(), _conv_norm(outputs, outputs, kernel=3)
        )
        widened = _conv_norm(inputs, outputs, kernel=1) if inputs != outputs else nn.Identity()
        pooled = nn.AvgPool1d(stride, ceil_mode=True) if stride > 1 else nn.Identity()
        self.shortcut = nn.Sequential(pooled, widened)

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.path(x) + self.shortcut(x)
        return total.relu()


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False), nn.BatchNorm1d(outputs)
    )
