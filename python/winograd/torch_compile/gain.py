"""Whether a convolution of a training step is worth a program of its own."""

from __future__ import annotations

from typing import Any

import torch
from iree.winograd.report.schema import (
    DecisionReport,
    LayerReport,
    LimitsReport,
    best_known_seconds,
    choice,
    is_left_to_iree,
)

CALL_SECONDS = 1e-4
"""That a call of a program takes more than one of torch's operators."""
GPU_CALL_SECONDS = 5e-4
"""The same on a GPU, which torch's kernels are done on before, and which waits for the next ones after."""


def reason_for_device(device: torch.device, type_: torch.dtype) -> str | None:
    """Why the fallback is to compute all convolutions of a step of a type on `device`, if it is."""
    convolutions: Any = torch.backends.cudnn
    if device.type != "cuda":
        return None
    if type_ != torch.float32:
        return f"torch multiplies {type_} on matrix units, and ours aren't known to be faster in training"
    if convolutions.conv.fp32_precision == "tf32":
        return "torch rounds to TF32, as torch.backends.cudnn.conv.fp32_precision has it, which is faster"
    return None


def reason_to_leave(decisions: DecisionReport, device: torch.device) -> str | None:
    """Why the fallback is to compute what the program of this report does on `device`, if it is.

    Torch's convolutions are direct ones. How far from the limits of the processor they are isn't predicted,
    but none is beyond them.
    """
    limits = decisions["limits"]
    if limits is None:
        return "it is lowered to no convolution"
    saved = 0.0
    for layer in decisions["layers"]:
        chosen = choice(layer)
        if chosen is None or is_left_to_iree(layer):
            return layer["reason"]
        saved += _least_direct_seconds(layer, limits) - best_known_seconds(chosen)
    call = CALL_SECONDS if device.type == "cpu" else GPU_CALL_SECONDS
    return None if saved > call else "a direct convolution may be as fast as a program of its own"


def _least_direct_seconds(layer: LayerReport, limits: LimitsReport) -> float:
    operations, bytes_ = layer["direct_operations"], layer["least_bytes"]
    assert operations is not None and bytes_ is not None, "a layer with a choice has a size"
    memory = limits["bandwidths"][-1]["bytes_per_second"]
    return max(operations / limits["operations_per_second"], bytes_ / memory)
