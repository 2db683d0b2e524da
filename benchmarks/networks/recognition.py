"""A network that reads lines of text: convolutions and a recurrent network (Shi et al., TPAMI 2017)."""

from __future__ import annotations

import torch
from torch import nn

_CLASSES = 37
"""Letters, digits and the blank."""


class CRNN(nn.Module):
    """From grey images of a height of 32, N x 1 x 32 x W, to scores of characters, W/4 + 1 x N x 37."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 1
        for number, (outputs, pooling) in enumerate(
            ((64, (2, 2)), (128, (2, 2)), (256, None), (256, (2, 1)), (512, None), (512, (2, 1)))
        ):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=number not in (2, 4))]
            layers += [nn.BatchNorm2d(outputs)] if number in (2, 4) else []
            layers += [nn.ReLU()]
            layers += [] if pooling is None else [nn.MaxPool2d(pooling, pooling)]
            channels = outputs
        self.features = nn.Sequential(*layers, nn.Conv2d(512, 512, (2, 1)), nn.ReLU())
        self.recurrent = nn.LSTM(512, 128, num_layers=1, bidirectional=True)
        self.scores = nn.Linear(256, _CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        columns = self.features(images).squeeze(2).permute(2, 0, 1)
        hidden, _ = self.recurrent(columns)
        scores: torch.Tensor = self.scores(hidden)
        return scores
