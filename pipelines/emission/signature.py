"""What a kernel is launched with: tensors, the sizes that it is told, and which of these are dynamic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TypeVar

from iree.winograd.dialect.bindings import ir

from .buffer import Buffer, element_count
from .dispatch_operations import binding_subspan
from .index import Index
from .numbers.known import NUMBERS, Numbers
from .work import BATCH, Size, Sizes

BufferType = TypeVar("BufferType", bound=Buffer)
Value = TypeVar("Value")

Binding = Callable[[ir.Value, Sizes], BufferType]
"""From a kernel's argument and the sizes that it is told to the buffer that the argument is."""

StatedSizes = tuple[tuple[Size, int | None], ...]
"""The sizes that a kernel is told, each with its value: None if it is known only at run time."""


def stated_batch(batch: int | None) -> StatedSizes:
    """A batch, None for one known only at run time, as the only size that a kernel is told."""
    return ((BATCH, batch),)


@dataclass(frozen=True)
class DispatchTensor:
    """A tensor of a dispatch, and which size each of its dynamic dimensions is, in their order."""

    type: ir.RankedTensorType
    dynamic: tuple[Size, ...] = ()

    @staticmethod
    def of(value: ir.Type | ir.Value) -> DispatchTensor:
        """One whose first dimension, if it is dynamic, is the batch, and whose others are static."""
        type_ = ir.RankedTensorType(value.type if isinstance(value, ir.Value) else value)
        dynamic = type_.shape[:1] == [ir.ShapedType.get_dynamic_size()]
        return DispatchTensor(type_, (BATCH,) if dynamic else ())

    def __post_init__(self) -> None:
        """Raises ValueError unless there is a size for each dynamic dimension."""
        if self.type.shape.count(ir.ShapedType.get_dynamic_size()) != len(self.dynamic):
            raise ValueError(f"{self.type} has other dynamic dimensions than {self.dynamic}")

    @property
    def dynamic_dimensions(self) -> list[tuple[int, Size]]:
        """Its dynamic dimensions and which size each is."""
        unknown = [dimension for dimension in range(self.type.rank) if self.type.is_dynamic_dim(dimension)]
        return list(zip(unknown, self.dynamic, strict=True))

    def dynamic_extents(self, sizes: Mapping[Size, Value]) -> list[Value]:
        """What its dynamic dimensions are among `sizes`, in their order."""
        return [sizes[size] for size in self.dynamic]

    def bind(self, argument: ir.Value, sizes: Sizes, numbers: Numbers = NUMBERS) -> Buffer:
        """The dense row-major array that a kernel's argument is, with how its elements are converted."""
        unknown = iter(self.dynamic_extents(sizes.values))
        extents = tuple(
            next(unknown) if self.type.is_dynamic_dim(dimension) else size
            for dimension, size in enumerate(self.type.shape)
        )
        count = element_count(extents)
        size = ir.ShapedType.get_dynamic_size() if self.dynamic else prod(self.type.shape)
        memref = ir.MemRefType.get([size], self.type.element_type)
        counted = [Index.of(count).value] if self.dynamic else []
        return Buffer(binding_subspan(memref, argument, Index(0).value, counted), extents, numbers=numbers)


@dataclass(frozen=True)
class DispatchSignature:
    """The tensors of a dispatch, and the sizes that its kernel is told.

    A size that is known only at run time is an operand of the dispatch, from which its workgroups are
    counted, too. With `updates_last_operand` the result is the last operand, part of which the kernel
    overwrites. `numbers` says how many integers the kernel gets beside.
    """

    operands: tuple[DispatchTensor, ...]
    result: DispatchTensor
    sizes: StatedSizes = ()
    updates_last_operand: bool = False
    numbers: int = 0

    @staticmethod
    def of(
        operands: Sequence[ir.Type | ir.Value],
        result: ir.Type | ir.Value,
        sizes: StatedSizes = (),
        *,
        updates_last_operand: bool = False,
        numbers: int = 0,
    ) -> DispatchSignature:
        """One of tensors whose first dimension, if it is dynamic, is the batch."""
        tensors = tuple(map(DispatchTensor.of, operands))
        return DispatchSignature(tensors, DispatchTensor.of(result), sizes, updates_last_operand, numbers)

    @property
    def dynamic_sizes(self) -> list[Size]:
        """Those known only at run time, in the order in which a dispatch has them."""
        return [size for size, known in self.sizes if known is None]

    def kernel_sizes(self, dynamic: Sequence[ir.Value]) -> Sizes:
        """The kernel's sizes; `dynamic` has the values of those known only at run time."""
        values = iter(dynamic)
        return Sizes(
            {size: Index(next(values)) if known is None else Index(known) for size, known in self.sizes}
        )

    @property
    def tied_operands(self) -> tuple[int] | None:
        """For the result, the number of the operand that it is; None where it is memory of its own."""
        return (len(self.operands) - 1,) if self.updates_last_operand else None

    def bindings(self, numbers: Numbers = NUMBERS) -> list[Binding[Buffer]]:
        """Those of dense row-major arrays, for the operands and the result."""
        results = () if self.updates_last_operand else (self.result,)
        return [partial(each.bind, numbers=numbers) for each in (*self.operands, *results)]
