"""A kernel with what it reads and makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.signature import DispatchSignature, DispatchTensor, stated_batch
from iree.winograd.pipelines.emission.work import Size

if TYPE_CHECKING:
    from iree.winograd.pipelines.cpu.kernels.attention import AttentionKernel
    from iree.winograd.pipelines.cpu.kernels.batch_matmul import BatchMatmulKernel
    from iree.winograd.pipelines.cpu.kernels.column_softmax import ColumnSoftmaxKernel
    from iree.winograd.pipelines.cpu.kernels.elementwise import ElementwiseKernel
    from iree.winograd.pipelines.cpu.kernels.elementwise_first import ElementwiseFirstKernel
    from iree.winograd.pipelines.cpu.kernels.group_moments import GroupFactorsKernel, GroupMomentsKernel
    from iree.winograd.pipelines.cpu.kernels.image_transposition import ImageTransposition
    from iree.winograd.pipelines.cpu.kernels.layer_norm import LayerNormKernel
    from iree.winograd.pipelines.cpu.kernels.pooling import PoolingKernel
    from iree.winograd.pipelines.cpu.kernels.row_sums import RowSumsKernel
    from iree.winograd.pipelines.cpu.kernels.selection import SelectionKernel
    from iree.winograd.pipelines.cpu.kernels.softmax import SoftmaxKernel
    from iree.winograd.pipelines.cpu.kernels.window_sums import WindowSumsKernel

    TensorKernel: TypeAlias = (
        AttentionKernel
        | BatchMatmulKernel
        | ColumnSoftmaxKernel
        | ElementwiseFirstKernel
        | ElementwiseKernel
        | GroupFactorsKernel
        | GroupMomentsKernel
        | ImageTransposition
        | LayerNormKernel
        | PoolingKernel
        | RowSumsKernel
        | SelectionKernel
        | SoftmaxKernel
        | WindowSumsKernel
    )


@dataclass(frozen=True)
class TensorDispatch:
    """A kernel with the tensors that it reads and the sizes of the one that it makes.

    The first size is that of the first operand, which may be dynamic.
    """

    kernel: TensorKernel
    operands: tuple[ir.Value, ...]
    sizes: tuple[int, ...]
    """As in a type."""
    batch: int | None = None
    """What the kernel has for the size of the batch, where it isn't the first size."""
    touching: PoolingKernel | None = None
    """The kernel, where it says which pixels its workgroups touch."""
    extents: Mapping[Size, int | ir.Value] = field(default_factory=dict)
    """What the kernel is told beside the batch."""
    dynamic: tuple[tuple[Size, ...], ...] | None = None
    """Which of these the dynamic sizes of the operands and of the result are; by default the batch."""
    element: str | None = None
    """The type of what it makes, by default that of the first operand."""

    @property
    def signature(self) -> DispatchSignature:
        """Of the dispatch."""
        type_ = ir.RankedTensorType(self.operands[0].type)
        element = type_.element_type if self.element is None else ir.Type.parse(self.element)
        result = ir.RankedTensorType.get(list(self.sizes), element)
        batch = None if type_.is_dynamic_dim(0) else self.batch or self.sizes[0]
        extents = ((size, each if isinstance(each, int) else None) for size, each in self.extents.items())
        stated = (*stated_batch(batch), *extents)
        if self.dynamic is None:
            return DispatchSignature.of(self.operands, result, stated)
        types = [*(ir.RankedTensorType(each.type) for each in self.operands), result]
        *operands, made = map(DispatchTensor, types, self.dynamic)
        return DispatchSignature(tuple(operands), made, stated)
