"""Whether a convolution of a training step is worth a program of its own, as far as that is predicted."""

from __future__ import annotations

from collections.abc import Iterator
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
from torch.fx import Graph

CALL_SECONDS = 1e-4
"""That a call of a program takes more than one of torch's operators."""
GPU_CALL_SECONDS = 5e-4
"""The same on a GPU, where nothing is measured."""
_MATRIX_PRODUCTS = 16
"""Of AMX in a cycle, by those of two vectors of f32: 16 x 16 x 32 in 16 cycles."""
_GPU_PRODUCTS = 16
"""Of matrix units of an A100 or H100, by those of multiply-adds in f32."""
_LEAST_IMAGE_RANK = 3
"""Batch, channels, and a length."""
_VECTOR_PRODUCTS = 2
"""Of AVX512-BF16 and AVX512-FP16."""


def reason_for_device(device: torch.device, type_: torch.dtype) -> str | None:
    """Why the fallback is to compute all convolutions of a step of a type on `device`, if it is."""
    convolutions: Any = torch.backends.cudnn
    if device.type != "cuda":
        return None
    if type_ == torch.float32 and convolutions.conv.fp32_precision == "tf32":
        return "torch rounds to TF32, as torch.backends.cudnn.conv.fp32_precision has it, which is faster"
    return None


def reason_to_leave(
    decisions: DecisionReport, device: torch.device, type_: torch.dtype, images: int = 1
) -> str | None:
    """Why the fallback is to compute what the program of this report does with a type on `device`, if it is.

    Torch's convolutions are direct ones. How far from the limits of the processor they are isn't predicted,
    but none is beyond them. Of a batch that the program leaves open, `images` is how many are expected: what
    is predicted is of one. So many take the program no longer than as many times one, filters being read
    once, and a direct convolution has as many times its multiply-adds.
    """
    if reason := reason_of_kernels(decisions):
        return reason
    limits, saved = decisions["limits"], 0.0
    assert limits is not None
    for layer in decisions["layers"]:
        chosen = choice(layer)
        assert chosen is not None
        direct = _least_direct_seconds(layer, limits, _products_of(type_, device), images)
        saved += direct - images * best_known_seconds(chosen)
    call = CALL_SECONDS if device.type == "cpu" else GPU_CALL_SECONDS
    return None if saved > call else "a direct convolution may be as fast as a program of its own"


def traced_images(graph: Graph) -> int:
    """Those of an open batch that `graph` was traced on; 1 where it isn't open, or they aren't known."""
    values = (node.meta["val"] for node in graph.find_nodes(op="placeholder"))
    batches: Iterator[Any] = (
        each.shape[0] for each in values if isinstance(each, torch.Tensor) and each.dim() >= _LEAST_IMAGE_RANK
    )
    hints = (each.node.hint for each in batches if isinstance(each, torch.SymInt))
    return next((int(hint) for hint in hints if hint), 1)


def reason_of_kernels(decisions: DecisionReport) -> str | None:
    """Why the program of this report has no kernels of ours for a convolution, if it hasn't."""
    if decisions["limits"] is None:
        return "it is lowered to no convolution"
    left = (each for each in decisions["layers"] if choice(each) is None or is_left_to_iree(each))
    return next((each["reason"] for each in left), None)


def _least_direct_seconds(layer: LayerReport, limits: LimitsReport, products: float, images: int) -> float:
    operations, bytes_ = layer["direct_operations"], layer["least_bytes"]
    assert operations is not None and bytes_ is not None, "a layer with a choice has a size"
    memory = limits["bandwidths"][-1]["bytes_per_second"]
    return max(images * operations / (products * limits["operations_per_second"]), bytes_ / memory)


def _products_of(type_: torch.dtype, device: torch.device) -> float:
    """How many products of a type a processor has, if torch asks for them, in the time of one in f32."""
    if device.type != "cpu":
        return 1 if type_ == torch.float32 else _GPU_PRODUCTS
    if type_ == torch.bfloat16:
        if torch.cpu._is_amx_tile_supported():
            return _MATRIX_PRODUCTS
        return _VECTOR_PRODUCTS if torch.cpu._is_avx512_bf16_supported() else 1
    if type_ == torch.float16 and torch.cpu._is_amx_tile_supported():
        # All processors with AMX have AVX512-FP16.
        return _MATRIX_PRODUCTS if torch.cpu._is_amx_fp16_supported() else _VECTOR_PRODUCTS
    return 1
