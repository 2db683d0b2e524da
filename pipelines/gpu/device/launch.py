"""Kernels as dispatches of one module: tensors bound by quads, executables that equal kernels share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Protocol

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import SharedConstants
from iree.winograd.pipelines.emission.dispatch import KernelFunction, emit_executable
from iree.winograd.pipelines.emission.dispatch_operations import dispatch_kernel
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.signature import DispatchSignature, stated_batch
from iree.winograd.pipelines.emission.work import Sizes

from .grid import Grid
from .memory import QUAD, GlobalBuffer, quad_type, span
from .target import GpuTarget


@dataclass(frozen=True)
class TensorArgument:
    """A tensor as an argument of a kernel; `leading` gives its first extent for a dynamic batch.

    The kernel's array may have the tensor's dimensions in another order, or be a part of it: it begins at
    element `origin`, and neighbours along its dimensions are `strides` apart. Without these it is the tensor.
    """

    extents: tuple[int | None, ...]
    element: str
    """MLIR's name of the type of its elements."""
    by_quads: bool
    leading: Callable[[Sizes], Index] = lambda sizes: sizes.batch
    strides: tuple[int, ...] | None = None
    origin: int = 0

    @staticmethod
    def of(value: ir.Value, by_quads: bool) -> TensorArgument:
        """A tensor of the program: a dynamic first extent is the batch."""
        type_ = ir.RankedTensorType(value.type)
        dynamic = ir.ShapedType.get_dynamic_size()
        extents = tuple(None if size == dynamic else size for size in type_.shape)
        return TensorArgument(extents, str(type_.element_type), by_quads)

    @staticmethod
    def permuted(value: ir.Value, permutation: Sequence[int], by_quads: bool) -> TensorArgument:
        """A tensor whose dimension `permutation[i]` is dimension `i` of the kernel's array.

        By quads only if the last dimension is the last one of both.
        """
        whole = TensorArgument.of(value, by_quads and permutation[-1] == len(permutation) - 1)
        if list(permutation) == sorted(permutation):
            return whole
        return replace(whole, strides=tuple(whole.row_major_strides[d] for d in permutation))

    def part(self, offsets: Sequence[int], steps: Sequence[int]) -> TensorArgument:
        """Of the elements of the tensor those that are `offsets + steps * i`."""
        strides = self.row_major_strides
        origin = sum(offset * stride for offset, stride in zip(offsets, strides, strict=True))
        taken = tuple(step * stride for step, stride in zip(steps, strides, strict=True))
        return replace(self, strides=taken, origin=origin)

    @property
    def row_major_strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dimension of the tensor."""
        inner = [size for size in self.extents[1:] if size is not None]
        return tuple(prod(inner[dimension:]) for dimension in range(len(self.extents)))

    @property
    def is_dynamic(self) -> bool:
        return bool(self.extents) and self.extents[0] is None

    @property
    def type(self) -> ir.RankedTensorType:
        sizes = [ir.ShapedType.get_dynamic_size() if size is None else size for size in self.extents]
        return ir.RankedTensorType.get(sizes, self._element_type)

    @property
    def _element_type(self) -> ir.Type:
        return ir.Type.parse(self.element)

    @property
    def kernel_key(self) -> Hashable:
        """What arguments have in common of which a kernel is emitted the same."""
        return self.extents, self.element, self.by_quads, self.strides, self.origin

    def bind(self, argument: ir.Value, sizes: Sizes) -> GlobalBuffer:
        """The kernel's view of the tensor."""
        inner = tuple(size for size in self.extents[1:] if size is not None)
        first = self.leading(sizes) if self.is_dynamic else Index(prod(self.extents[:1]))
        size = first * prod(inner)
        element = quad_type(self._element_type) if self.by_quads else self._element_type
        count = size // (QUAD if self.by_quads else 1)
        memref, extents = span(argument, element, count), (0, *inner)
        return GlobalBuffer(memref, extents, self.by_quads, size, argument, self.strides, origin=self.origin)


Operand = tuple[ir.Value, TensorArgument]
"""A tensor of the program, and what it is to a kernel."""


@dataclass(frozen=True)
class WorkgroupThreads:
    """The threads of a kernel's workgroups."""

    count: int
    resident: int | None = None
    """How many a multiprocessor should have registers for, if the target can be told."""
    warp: int | None = None
    """How many a warp has to have, if that matters."""


class LaunchedKernel(Protocol):
    """A kernel: equal ones emit the same code for the same arguments."""

    @property
    def workgroups(self) -> Callable[[Sizes], tuple[Index, ...]]:
        """From the sizes that it is told to the extents of its grid."""

    @property
    def emit(self) -> Callable[..., None]:
        """Emits the work of a workgroup on the buffers of its arguments, the result last."""


@dataclass
class Launcher:
    """Launches kernels in one module, for one target."""

    module: ir.Operation
    target: GpuTarget
    constants: SharedConstants = field(default_factory=SharedConstants)
    """What kernels read that was computed of constants."""
    _executables: dict[object, str] = field(default_factory=dict)

    def launch(
        self,
        kernel: LaunchedKernel,
        name: str,
        threads: WorkgroupThreads,
        operands: Sequence[Operand],
        result: TensorArgument,
        batch: int | ir.Value,
        updated: ir.Value | None = None,
    ) -> ir.Value:
        """Emits a dispatch at the insertion point, and its executable unless an equal kernel has one.

        `batch` is a value where it is known only at run time. The result is `updated`, where that is given,
        part of which the kernel overwrites. Gives the dispatch's result.
        """
        bound = (*(argument for _, argument in operands), result)
        arguments = bound[: len(operands)] if updated is None else bound
        values = [value for value, _ in operands] + ([] if updated is None else [updated])
        is_dynamic = not isinstance(batch, int)
        signature = DispatchSignature.of(
            [each.type for each in arguments],
            result.type,
            stated_batch(None if is_dynamic else batch),
            updates_last_operand=updated is not None,
        )
        key = (kernel, *(each.kernel_key for each in bound))
        if key not in self._executables:
            unique = name if name not in self._executables.values() else f"{name}_{len(self._executables)}"
            grid = Grid(kernel.workgroups, self.target.max_workgroups)

            def placed(function: KernelFunction[GlobalBuffer]) -> None:
                kernel.emit(grid.place(function.work), *function.buffers)

            emit_executable(
                self.module,
                unique,
                signature,
                _translation(threads),
                grid.launched,
                placed,
                [each.bind for each in bound],
                self._residency(threads),
            )
            self._executables[key] = unique
        workload = [batch] if is_dynamic else []
        entry = ir.ArrayAttr.get([ir.SymbolRefAttr.get([self._executables[key]] * 2)])
        sizes = Sizes.of_batch(Index(batch))
        extents = [each.leading(sizes).value for each in arguments if each.is_dynamic]
        return dispatch_kernel(
            [result.type],
            workload,
            entry,
            [*values, *workload],
            extents,
            [result.leading(sizes).value] if result.is_dynamic else [],
            tied_operands=signature.tied_operands,
        ).result

    def _residency(self, threads: WorkgroupThreads) -> dict[str, ir.Attribute]:
        name = self.target.residency_attribute
        if name is None or threads.resident is None:
            return {}
        workgroups = max(1, threads.resident // threads.count)
        return {name: ir.IntegerAttr.get(ir.IntegerType.get_signless(32), workgroups)}


def _translation(threads: WorkgroupThreads) -> ir.Attribute:
    """A codegen pipeline of IREE's for kernels that come as vectors and loops already."""
    warp = "" if threads.warp is None else f" subgroup_size = {threads.warp}"
    return ir.Attribute.parse(
        '#iree_codegen.translation_info<pipeline = #iree_codegen.pass_pipeline<"canonicalize,cse"> '
        f"workgroup_size = [{threads.count}, 1, 1]{warp}>"
    )
