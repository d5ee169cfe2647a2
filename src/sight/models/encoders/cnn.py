"""1D-CNN of the SIGHT paper."""

from torch import Tensor, nn

from sight.models.encoders.base import Encoder


class CNN(Encoder):
    """Three convolutions with batch normalisation, averaged into 16 bins; D = 2048 for any window length.

    Parameters
    ----------
    channels, classes
        C and K.
    dropout
        Dropout rate after the first block and before the head, in training only.

    Notes
    -----
    208,453 parameters with three channels and five classes, 206,404 with four. A window whose last map is shorter
    than 16 (100 samples leave 15) is averaged into overlapping bins.

    Examples
    --------
    >>> import torch
    >>> cnn = CNN(channels=3, classes=5)
    >>> cnn.features(torch.zeros(2, 3, 100)).shape, sum(p.numel() for p in cnn.parameters())
    (torch.Size([2, 2048]), 208453)

    References
    ----------
    Ragab et al., "AdaTime: A Benchmarking Suite for Domain Adaptation on Time Series Data", ACM TKDD 17(8), 2023,
    doi:10.1145/3587937.
    """

    name = "cnn"

    def __init__(self, *, channels: int, classes: int, dropout: float = 0.1) -> None:
        super().__init__(dims=128 * 16, dropout=dropout, channels=channels, classes=classes)
        self.blocks = nn.Sequential(
            _block(channels, 64, kernel=5),
            nn.Dropout(dropout),
            _block(64, 128, kernel=8),
            _block(128, 128, kernel=8),
        )
        self.pool = nn.AdaptiveAvgPool1d(16)

    def _features(self, x: Tensor) -> Tensor:
        bins: Tensor = self.pool(self.blocks(x))
        return bins.flatten(1)


def _block(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm1d(outputs),
        nn.ReLU(),
        nn.MaxPool1d(2, stride=2, padding=1),
    )
