"""The operators of torch that are decomposed before torch-mlir sees them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from iree.winograd.importers.torch_operators import (
    adaptive_pooling,
    attention,
    elements,
    embedding,
    functions,
    indexing,
    normalization,
    padding,
    patches,
    pooling,
    reductions,
    resizing,
    views,
)
from iree.winograd.importers.torch_operators.convolutions import convolution
from iree.winograd.importers.torch_operators.gradients import convolution_backward
from torch._decomp import decomposition_table
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

_aten = torch.ops.aten
Decompositions = dict[Any, Callable[..., Any]]


def decompositions() -> Decompositions:
    """How operators that torch-mlir doesn't know, or lowers wrongly, are written in those that it knows."""
    return {
        **get_decomposition_table(),
        **{operator: decomposition_table[operator] for operator in _BY_TORCH},
        _aten._scaled_dot_product_cudnn_attention.default: attention.cudnn,
        _aten._scaled_dot_product_efficient_attention.default: attention.efficient,
        _aten._scaled_dot_product_flash_attention.default: attention.flash,
        _aten.adaptive_max_pool2d.default: partial(adaptive_pooling.adaptive_max_pool, 2),
        _aten.adaptive_max_pool3d.default: partial(adaptive_pooling.adaptive_max_pool, 3),
        _aten.as_strided.default: views.contiguous_view,
        _aten.constant_pad_nd.default: padding.constant_pad,
        _aten.convolution.default: convolution,
        _aten.convolution_backward.default: convolution_backward,
        _aten.cumsum.default: reductions.cumsum,
        _aten.diagonal_scatter.default: views.diagonal_scatter,
        _aten.embedding_bag.padding_idx: embedding.embedding_bag,
        _aten.im2col.default: patches.unfold,
        _aten.col2im.default: patches.fold,
        _aten.index_put.default: indexing.index_put,
        _aten.kthvalue.default: reductions.kthvalue,
        _aten.logcumsumexp.default: reductions.logcumsumexp,
        _aten.mean.default: reductions.mean_of_all,
        _aten.mean.dim: reductions.mean,
        _aten.native_group_norm.default: normalization.group_norm,
        _aten.roll.default: views.roll,
        _aten.sum.default: reductions.sum_of_all,
        _aten.var_mean.correction: reductions.var_mean,
        **_of_elements(),
        **_of_functions(),
        **{each: partial(indexing.scatter, each) for each in _SCATTERS},
        **_of_numbers(),
        **_of_pooling(),
        **_of_resizing(),
    }


def import_decompositions() -> Decompositions:
    """Those of an exported program, which keeps operators that torch.compile takes apart itself."""
    return {
        **decompositions(),
        _aten.as_strided.default: views.strided_view,
        _aten.instance_norm.default: normalization.instance_norm,
        _aten.linear.default: reductions.linear,
    }


_BY_TORCH = (_aten.addmv.default,)
"""Those whose decompositions by torch torch-mlir doesn't ask for."""

_SCATTERS = (
    _aten.scatter.src,
    _aten.scatter.value,
    _aten.scatter_add.default,
    _aten.scatter_reduce.two,
)


_OF_SEVERAL_OPERATIONS = (
    _aten.elu.default,
    _aten.gelu.default,
    _aten.hardsigmoid.default,
    _aten.hardswish.default,
    _aten.mish.default,
    _aten.silu.default,
    _aten.softplus.default,
)
"""Functions of single elements that torch rounds once."""


def _of_elements() -> Decompositions:
    table = get_decomposition_table()
    return {
        _aten.copysign.Tensor: elements.copysign,
        _aten.fmax.default: partial(elements.extremum_without_nan, torch.ge),
        _aten.fmin.default: partial(elements.extremum_without_nan, torch.le),
        _aten.fmod.Scalar: elements.remainder_by_number,
        _aten.log10.default: elements.log10,
        _aten.sub.Tensor: elements.difference,
        **{each: partial(elements.rounded_once, each, table.get(each)) for each in _OF_SEVERAL_OPERATIONS},
    }


def _of_functions() -> Decompositions:
    operators: Decompositions = {
        _aten.acosh: functions.acosh,
        _aten.asinh: functions.asinh,
        _aten.atan: functions.atan,
        _aten.atan2: functions.atan2,
        _aten.atanh: functions.atanh,
        _aten.cos: functions.cos,
        _aten.sin: functions.sin,
        _aten.sinh: functions.sinh,
        _aten.tan: functions.tan,
    }
    return {each.default: functions.in_single_precision(written) for each, written in operators.items()}


def _of_numbers() -> Decompositions:
    operators = (
        _aten.softmax.int,
        _aten.log_softmax.int,
        _aten._softmax.default,
        _aten._log_softmax.default,
    )
    table = get_decomposition_table()
    return {each: partial(reductions.of_number, each, table.get(each)) for each in operators}


def _of_pooling() -> Decompositions:
    return {
        _aten.max_pool1d.default: partial(pooling.max_pool, 1),
        _aten.max_pool1d_with_indices.default: partial(pooling.max_pool_with_indices, 1),
        _aten.max_pool2d.default: partial(pooling.max_pool, 2),
        _aten.max_pool3d.default: partial(pooling.max_pool, 3),
        _aten.max_pool2d_with_indices.default: partial(pooling.max_pool_with_indices, 2),
        _aten.max_pool3d_with_indices.default: partial(pooling.max_pool_with_indices, 3),
        _aten.max_unpool2d.default: partial(pooling.max_unpool, 2),
        _aten.max_unpool3d.default: partial(pooling.max_unpool, 3),
        _aten.avg_pool1d.default: partial(pooling.average_pool, 1),
        _aten.avg_pool2d.default: partial(pooling.average_pool, 2),
        _aten.avg_pool3d.default: partial(pooling.average_pool, 3),
        **_of_adaptive_pooling(),
    }


def _of_adaptive_pooling() -> Decompositions:
    ranks = {
        _aten.adaptive_avg_pool1d.default: 1,
        _aten.adaptive_avg_pool2d.default: 2,
        _aten._adaptive_avg_pool2d.default: 2,
        _aten.adaptive_avg_pool3d.default: 3,
        _aten._adaptive_avg_pool3d.default: 3,
    }
    table = get_decomposition_table()
    return {
        each: partial(adaptive_pooling.adaptive_average_pool, table.get(each), rank)
        for each, rank in ranks.items()
    }


def _of_resizing() -> Decompositions:
    resizers = {
        _aten.upsample_nearest1d: partial(resizing.nearest, 1),
        _aten.upsample_nearest2d: partial(resizing.nearest, 2),
        _aten.upsample_nearest3d: partial(resizing.nearest, 3),
        _aten._upsample_nearest_exact1d: partial(resizing.nearest_exact, 1),
        _aten._upsample_nearest_exact2d: partial(resizing.nearest_exact, 2),
        _aten._upsample_nearest_exact3d: partial(resizing.nearest_exact, 3),
        _aten._upsample_bilinear2d_aa: partial(resizing.antialiased, False),
        _aten._upsample_bicubic2d_aa: partial(resizing.antialiased, True),
    }
    return {
        **{each.default: resize for each, resize in resizers.items()},
        **{each.vec: partial(resizing.by_sizes, each.default, resize) for each, resize in resizers.items()},
        **_of_linear_resizing(),
    }


def _of_linear_resizing() -> Decompositions:
    """To sizes that are known it stays as it is."""
    former = get_decomposition_table()
    table: Decompositions = {}
    operators = (_aten.upsample_linear1d, _aten.upsample_bilinear2d, _aten.upsample_trilinear3d)
    for rank, each in enumerate(operators, start=1):
        for overload, resize in ((each.default, resizing.linear), (each.vec, resizing.linear_by_sizes)):
            table[overload] = partial(resizing.either, partial(resize, rank), former.get(overload))
    return table
