"""Models whose sums cancel nothing, which bound the errors of sums of others."""

from __future__ import annotations

import copy

from torch import nn


def with_positive_weights(model: nn.Module) -> nn.Module:
    """The same layers with the absolute values of all weights: what sums are of, before anything cancels."""
    positive = copy.deepcopy(model)
    for parameter in positive.parameters():
        parameter.data.abs_()
    for buffer in positive.buffers():
        buffer.abs_()
    return positive
