"""Graphs of torch models in operators that torch-mlir knows; its compiler is neither needed nor loaded."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from iree.winograd.errors import ModelImportError
from iree.winograd.importers.torch_convolutions import convolution
from iree.winograd.importers.torch_gradients import convolution_backward
from torch._prims_common import make_contiguous_strides_for, suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

LAYER_KEYS = ("nn_module_stack", "fwd_nn_module_stack")
"""Under these a node's metadata has the layers that it belongs to, or computes a gradient of."""

# Dynamo calls the model that it compiles by the name that the caller's frame has for it.
_ROOT = re.compile(r"^L\['\w+'\]\.?")


def export(
    model: torch.nn.Module | torch.export.ExportedProgram, arguments: Sequence[Any], dynamic_batch: bool
) -> torch.export.ExportedProgram:
    """The graph of `model` in evaluation mode. Raises `ModelImportError` when torch can't trace it."""
    if isinstance(model, torch.export.ExportedProgram):
        if arguments or dynamic_batch:
            raise ModelImportError(
                "an exported program holds its arguments' types: give neither them nor dynamic_batch"
            )
        return model
    if not isinstance(model, torch.nn.Module):
        raise ModelImportError(f"expected a torch.nn.Module or ExportedProgram, got {type(model).__name__}")
    shapes = None
    if dynamic_batch:
        # A size of 1 would be taken for a constant.
        arguments = pytree.tree_map_only(
            torch.Tensor, lambda tensor: torch.cat([tensor, tensor]), tuple(arguments)
        )
        batch = torch.export.Dim("batch")
        shapes = pytree.tree_map(
            lambda value: {0: batch} if isinstance(value, torch.Tensor) else None, arguments
        )
    try:
        with in_mode(model, training=False), warnings.catch_warnings():
            _ignore_own_deprecations()
            return torch.export.export(model, tuple(arguments), dynamic_shapes=shapes)
    except Exception as error:
        raise ModelImportError(f"torch.export could not trace {type(model).__name__}: {error}") from error


def decompose(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """`exported` in terms of operators that torch-mlir knows. Raises `ModelImportError` when torch can't."""
    try:
        with warnings.catch_warnings():
            _ignore_own_deprecations()
            decomposed: torch.export.ExportedProgram = exported.run_decompositions(
                {**decompositions(), torch.ops.aten.linear.default: _linear}
            )
    except Exception as error:
        raise ModelImportError(f"torch could not decompose the model's operators: {error}") from error
    # Those that a model doesn't save are among the constants, where torch-mlir doesn't look for buffers.
    for name in decomposed.graph_signature.non_persistent_buffers:
        decomposed.state_dict[name] = decomposed.constants[name]
    return decomposed


def decompositions() -> dict[Any, Any]:
    """How operators that torch-mlir doesn't know are written in those that it knows."""
    return {
        **get_decomposition_table(),
        torch.ops.aten.as_strided.default: _contiguous_view,
        torch.ops.aten.convolution.default: convolution,
        torch.ops.aten.mean.dim: _mean,
        torch.ops.aten.roll.default: _roll,
        torch.ops.aten.convolution_backward.default: convolution_backward,
    }


def layer_name(node: torch.fx.Node) -> str:
    """The innermost layer of the model that `node` belongs to; empty where torch doesn't tell.

    What computes a gradient belongs to the layer that it is the gradient of.
    """
    stacks = (node.meta.get(key) for key in LAYER_KEYS)
    paths = (path for stack in stacks if stack for path, _ in stack.values())
    return ([""] + [layer for path in paths if (layer := _ROOT.sub("", path))])[-1]


@contextmanager
def in_mode(model: torch.nn.Module, *, training: bool) -> Iterator[None]:
    """Has all modules of `model` in training or evaluation mode, afterwards in those that they were in."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training


def _contiguous_view(
    tensor: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Any:
    """`aten.as_strided` where it is a view, which may have dynamic sizes, as in group normalization."""
    is_view = (
        tensor.is_contiguous()
        and storage_offset in (None, tensor.storage_offset())
        and statically_known_true(math.prod(size) == tensor.numel())
        and tuple(stride) == make_contiguous_strides_for(tuple(size))
    )
    return torch.ops.aten.view.default(tensor, size) if is_view else NotImplemented


def _linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    """`aten.linear` of all rows at once, however they lie in memory.

    Where they aren't contiguous, as behind attention over channels, torch multiplies every image by a copy of
    the weights.
    """
    if rows.dim() < 3:
        return NotImplemented
    products = torch.ops.aten.mm.default(rows.reshape(-1, rows.shape[-1]), weight.t())
    result = products.view(*rows.shape[:-1], weight.shape[0])
    return result if bias is None else result + bias


def _mean(
    tensor: torch.Tensor,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """`aten.mean.dim` one dimension after the other: IREE sums all elements of a mean in one running sum.

    Of an image of 56 x 56 that has a rounding error as large as a convolution's, where eager has none to
    speak of, and networks that normalize means for attention enlarge it.
    """
    if dtype is not None or dim is None or len(dim) < 2:
        return NotImplemented
    for dimension in sorted((each % tensor.dim() for each in dim), reverse=True):
        tensor = torch.ops.aten.mean.dim(tensor, [dimension], keepdim)
    return tensor


def _roll(tensor: torch.Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Any:
    """`aten.roll` as the two halves of each dimension, the other way round.

    Of channels-last images torch's own rule for its type says that it is row-major, which it isn't: what
    follows would be traced for another order of its elements than it has.
    """
    if not all(isinstance(size, int) for size in (*tensor.shape, *shifts)):
        return NotImplemented
    if not dims:
        # All elements as one row.
        return _roll(tensor.reshape(-1), shifts, [0]).view(tensor.shape)
    rolled = tensor
    for shift, dim in zip(shifts, dims, strict=True):
        size = rolled.shape[dim]
        begin = -shift % size if size else 0
        if begin:
            halves = [rolled.narrow(dim, begin, size - begin), rolled.narrow(dim, 0, begin)]
            rolled = torch.ops.aten.cat.default(halves, dim)
    if rolled is tensor:
        return tensor.clone()
    return rolled.contiguous(memory_format=suggest_memory_format(tensor))


def _ignore_own_deprecations() -> None:
    """Torch warns of what it uses itself."""
    warnings.filterwarnings("ignore", category=FutureWarning, message=".*treespec")
