"""Kernels as dispatches of one module: tensors bound by quads, executables that equal kernels share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Protocol

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import SharedConstants
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.pipelines.emission.buffer import element_count
from iree.winograd.pipelines.emission.dispatch import KernelFunction, emit_executable
from iree.winograd.pipelines.emission.dispatch_operations import dispatch_kernel
from iree.winograd.pipelines.emission.index import Index, IndexLike
from iree.winograd.pipelines.emission.signature import DispatchSignature, DispatchTensor
from iree.winograd.pipelines.emission.size_range import SizeRange
from iree.winograd.pipelines.emission.vectors import vector_type
from iree.winograd.pipelines.emission.work import BATCH, Size, Sizes

from .cluster import CLUSTER_ATTRIBUTE
from .grid import Grid
from .memory import QUAD, GlobalBuffer, span
from .target import GpuTarget


@dataclass(frozen=True)
class TensorArgument:
    """A tensor as an argument of a kernel.

    The kernel's array may have the tensor's dimensions in another order, or be a part of it: its dimension
    `i` is dimension `order[i]`, and of each dimension of the tensor it has every `steps`-th element from
    `offsets` on. Without these it is the tensor.
    """

    extents: tuple[int | None, ...]
    element: str
    """MLIR's name of the type of its elements."""
    by_quads: bool
    dynamic: tuple[Size, ...] = ()
    """The sizes that its extents known only at run time are, in their order."""
    leading: Callable[[Sizes], Index] | None = None
    """Gives the one that is no size the kernel is told: the first extent."""
    order: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None
    offsets: tuple[int, ...] | None = None
    together: int = QUAD
    """Elements of what it is read and written by where that is `by_quads`: four, or eight."""
    is_constant: bool = False
    """Whether no kernel of the program writes it: one may read it before those ahead of it have ended."""

    @staticmethod
    def of(value: ir.Value, by_quads: bool, tensor: DispatchTensor | None = None) -> TensorArgument:
        """A tensor of the program. Unless it is told as `tensor`, a dynamic first extent is the batch."""
        tensor = DispatchTensor.of(value) if tensor is None else tensor
        extents = tuple(None if is_dynamic(size) else size for size in tensor.type.shape)
        return TensorArgument(extents, str(tensor.type.element_type), by_quads, tensor.dynamic)

    def permuted(self, order: Sequence[int]) -> TensorArgument:
        """The tensor as an array whose dimension `i` is dimension `order[i]`.

        By quads only if the last dimension is the last one of both.
        """
        if list(order) == sorted(order):
            return self
        return replace(self, by_quads=self.by_quads and order[-1] == len(order) - 1, order=tuple(order))

    def part(self, offsets: Sequence[int], steps: Sequence[int]) -> TensorArgument:
        """Of the elements of the tensor those that are `offsets + steps * i`."""
        return replace(self, steps=tuple(steps), offsets=tuple(offsets))

    def from_channel(self, first: int) -> TensorArgument:
        """Of the elements of the tensor those of channels, its last dimension, from `first` on."""
        rank = len(self.extents)
        return self.part([0] * (rank - 1) + [first], [1] * rank)

    @property
    def type(self) -> ir.RankedTensorType:
        sizes = [ir.ShapedType.get_dynamic_size() if size is None else size for size in self.extents]
        return ir.RankedTensorType.get(sizes, self._element_type)

    def dynamic_extents(self, sizes: Sizes) -> list[Index]:
        """Its extents known only at run time, in their order."""
        if self.leading is not None:
            return [self.leading(sizes)]
        return [sizes[size] for size in self.dynamic]

    @property
    def _element_type(self) -> ir.Type:
        return ir.Type.parse(self.element)

    @property
    def kernel_key(self) -> Hashable:
        """What arguments have in common of which a kernel is emitted the same."""
        layout = self.by_quads, self.together, self.order, self.steps, self.offsets, self.is_constant
        return self.extents, self.dynamic, self.element, *layout

    def bind(self, argument: ir.Value, sizes: Sizes) -> GlobalBuffer:
        """The kernel's view of the tensor."""
        unknown = iter(self.dynamic_extents(sizes))
        extents = tuple(next(unknown) if size is None else size for size in self.extents)
        size = Index.of(element_count(extents))
        element = vector_type(self.together, self._element_type) if self.by_quads else self._element_type
        memref = span(argument, element, size // (self.together if self.by_quads else 1))
        strides = self._strides(extents)
        in_order = self.order is None and (self.steps is None or set(self.steps) == {1})
        return GlobalBuffer(
            memref,
            extents,
            self.by_quads,
            size,
            argument,
            strides,
            in_order,
            is_constant=self.is_constant,
            origin=self._origin(extents),
        )

    def _origin(self, extents: tuple[IndexLike, ...]) -> IndexLike:
        """The element that it begins at."""
        origin: IndexLike = 0
        for dimension, offset in enumerate(self.offsets or ()):
            if offset:
                origin = element_count(extents[dimension + 1 :]) * offset + origin
        return origin

    def _strides(self, extents: tuple[IndexLike, ...]) -> tuple[IndexLike, ...] | None:
        """Elements between neighbours along each dimension of the array; None where it is the tensor."""
        if self.order is None and self.steps is None:
            return None
        order = self.order or tuple(range(len(extents)))
        steps = self.steps or (1,) * len(extents)
        return tuple(element_count(extents[d + 1 :]) * steps[d] for d in order)


Operand = tuple[ir.Value, TensorArgument]
"""A tensor of the program, and what it is to a kernel."""
LaunchSizes = Mapping[Size, int | ir.Value]
"""The sizes that a kernel is told: values where they are known only at run time."""
ONE_IMAGE: LaunchSizes = MappingProxyType({BATCH: 1})
"""Those of a kernel that has nothing to be told."""


def told(sizes: LaunchSizes) -> Sizes:
    """Sizes of the program, as a kernel has them."""
    return Sizes({size: Index(known) for size, known in sizes.items()})


@dataclass(frozen=True)
class WorkgroupThreads:
    """The threads of a kernel's workgroups."""

    count: int
    resident: int | None = None
    """How many a multiprocessor should have registers for, if the target can be told."""
    warp: int | None = None
    """How many a warp has to have, if that matters."""
    cluster: int = 1
    """How many neighbouring workgroups of the first dimension run at once, where the target has clusters."""


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
    images: SizeRange | None = None
    """Those whose kernels have workgroups; None for all."""
    _executables: dict[object, str] = field(default_factory=dict)

    def launch(
        self,
        kernel: LaunchedKernel,
        name: str,
        threads: WorkgroupThreads,
        operands: Sequence[Operand],
        result: TensorArgument,
        sizes: LaunchSizes = ONE_IMAGE,
        updated: ir.Value | None = None,
    ) -> ir.Value:
        """Emits a dispatch at the insertion point, and its executable unless an equal kernel has one.

        The result is `updated`, where that is given, part of which the kernel overwrites. Gives the
        dispatch's result. For others than the launcher's `images` a kernel that is told sizes has no
        workgroups, and what kernels pass to each other no elements.
        """
        images = None if sizes is ONE_IMAGE else self.images
        bound = (*(argument for _, argument in operands), result)
        arguments = bound[: len(operands)] if updated is None else bound
        values = [value for value, _ in operands] + ([] if updated is None else [updated])
        stated = tuple((size, known if isinstance(known, int) else None) for size, known in sizes.items())
        tensors = [DispatchTensor(each.type, each.dynamic) for each in bound]
        signature = DispatchSignature(
            tuple(tensors[: len(arguments)]), tensors[-1], stated, updates_last_operand=updated is not None
        )
        key = (kernel, images, *(each.kernel_key for each in bound))
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
                grid.launched if images is None else partial(_launched_within, images, grid),
                placed,
                [each.bind for each in bound],
                {**self._residency(threads), **_clustering(threads)},
                short=True,
            )
            self._executables[key] = unique
        workload = [known for known in sizes.values() if not isinstance(known, int)]
        entry = ir.ArrayAttr.get([ir.SymbolRefAttr.get([self._executables[key]] * 2)])
        of_program = told(sizes)
        extents = [extent.value for each in arguments for extent in _extents(each, of_program, images)]
        return dispatch_kernel(
            [result.type],
            workload,
            entry,
            [*values, *workload],
            extents,
            [extent.value for extent in _extents(result, of_program, images)],
            tied_operands=signature.tied_operands,
        ).result

    def _residency(self, threads: WorkgroupThreads) -> dict[str, ir.Attribute]:
        name = self.target.residency_attribute
        if name is None or threads.resident is None:
            return {}
        workgroups = max(1, threads.resident // threads.count)
        return {name: ir.IntegerAttr.get(ir.IntegerType.get_signless(32), workgroups)}


def _launched_within(images: SizeRange, grid: Grid, sizes: Sizes) -> tuple[Index, ...]:
    """The extents of a grid to launch: none for other images."""
    first, *others = grid.launched(sizes)
    return images.all_or_none(sizes, first), *others


def _extents(argument: TensorArgument, sizes: Sizes, images: SizeRange | None) -> list[Index]:
    """The extents of a tensor of the program known only at run time, in their order."""
    extents = argument.dynamic_extents(sizes)
    if images is None or argument.leading is None:
        return extents
    return [images.all_or_none(sizes, each) for each in extents]


def _clustering(threads: WorkgroupThreads) -> dict[str, ir.Attribute]:
    if threads.cluster == 1:
        return {}
    return {CLUSTER_ATTRIBUTE: ir.DenseI32ArrayAttr.get([threads.cluster, 1, 1])}


def _translation(threads: WorkgroupThreads) -> ir.Attribute:
    """A codegen pipeline of IREE's for kernels that come as vectors and loops already."""
    warp = "" if threads.warp is None else f" subgroup_size = {threads.warp}"
    return ir.Attribute.parse(
        '#iree_codegen.translation_info<pipeline = #iree_codegen.pass_pipeline<"canonicalize,cse"> '
        f"workgroup_size = [{threads.count}, 1, 1]{warp}>"
    )
