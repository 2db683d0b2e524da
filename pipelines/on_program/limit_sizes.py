"""Have programs for GPUs refuse images whose sizes, or numbers of pixels, their kernels can't be told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.tensors import index_constant
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import called_kernels, operand_groups, symbol_name, walk
from iree.winograd.pipelines.backends.module_backend import supported_backend
from iree.winograd.pipelines.problems.open_launches import LARGEST_SIZE, MOST_PIXELS

_DISPATCH = "flow.dispatch"
_KERNEL = "stream.executable"
"""What holds a kernel of ours; dispatches of IREE's are `flow.executable`."""


@register_pass("winograd-limit-sizes")
class LimitSizes:
    """Have programs for GPUs refuse images whose sizes, or numbers of pixels, their kernels can't be told.

    Kernels are told sizes of 31 bits, and divide numbers of pixels by 32. Larger ones would be cut, and
    results wrong. In IREE's program after `flow`, where all sizes are numbers; `winograd-assert-first` then
    has the checks come first.

        %b = flow.dispatch @k[%n, %m](%a, %n, %m) : (tensor<1x?x?x8xf32>{%n, %m}, index, index) -> ...
      becomes
        %0 = arith.cmpi ule, %n, %c2147483647 : index
        %1 = arith.cmpi ule, %m, %c2147483647 : index
        %2 = arith.muli %n, %m : index
        %3 = arith.cmpi ule, %2, %c4294901760 : index
        cf.assert (%0, %1), "a size of 2^31 or more ..."
        cf.assert %3, "too many pixels ..."
        %b = flow.dispatch @k[%n, %m](%a, %n, %m) : (tensor<1x?x?x8xf32>{%n, %m}, index, index) -> ...
    """

    def run(self, module: ir.Operation) -> None:
        limits = _Limits()
        rewrite_each("dispatch", _dispatches(module), limits.check)


def has_limits(module: ir.Operation) -> bool:
    """Whether a program has kernels that it has to check sizes for."""
    return any(True for _ in _dispatches(module))


def _dispatches(module: ir.Operation) -> Iterator[ir.Operation]:
    """Those of kernels for GPUs that are told sizes."""
    backend = supported_backend(module)
    if backend is None or backend.uses_host_memory:
        return
    kernels = {symbol_name(view.operation) for view in module.regions[0].blocks[0] if view.name == _KERNEL}
    for each in walk(module):
        if each.name == _DISPATCH and operand_groups(each)[0] and kernels.issuperset(called_kernels(each)):
            yield each


@dataclass
class _Limits:
    """What is checked in each block: once, before the first dispatch that needs it."""

    _checked: set[tuple[ir.Block, int | ir.Value | tuple[int | ir.Value, ...]]] = field(default_factory=set)

    def check(self, dispatch: ir.Operation) -> None:
        """Have the sizes that a kernel is told, and the pixels of its tensors, be checked before it runs."""
        workload, arguments, argument_sizes, result_sizes = operand_groups(dispatch)
        types = [each.type for each in (*arguments, *dispatch.results)]
        unknown = iter([*argument_sizes, *result_sizes])
        images = [pixels for type_ in types if (pixels := _pixels(type_, unknown))]
        block = dispatch.block
        new_sizes = [each for each in dict.fromkeys(workload) if (block, each) not in self._checked]
        new_images = [each for each in dict.fromkeys(images) if (block, each) not in self._checked]
        self._checked.update((block, each) for each in (*new_sizes, *new_images))
        with dispatch.location, ir.InsertionPoint(dispatch):
            _assert(
                [_is_at_most(each, LARGEST_SIZE) for each in new_sizes],
                f"a size of more than {LARGEST_SIZE}, which kernels for GPUs can't be told",
            )
            _assert(
                [_is_at_most(_product(each), MOST_PIXELS) for each in new_images],
                f"more than {MOST_PIXELS} pixels, which kernels for GPUs can't number",
            )


def _pixels(type_: ir.Type, unknown: Iterator[ir.Value]) -> tuple[int | ir.Value, ...]:
    """The sizes of a tensor whose product is the number of its pixels; none where that is known.

    Of `unknown` its sizes are taken that are known only at run time. Its channels are its last dimension, or
    where that is one of them, the second.
    """
    if not isinstance(type_, ir.RankedTensorType):
        return ()
    sizes = [next(unknown) if type_.is_dynamic_dim(d) else size for d, size in enumerate(type_.shape)]
    channels = next(
        (d for d in (len(sizes) - 1, 1) if 0 <= d < len(sizes) and isinstance(sizes[d], int)), None
    )
    extents = [size for d, size in enumerate(sizes) if d != channels]
    known = prod(size for size in extents if isinstance(size, int))
    others = tuple(size for size in extents if not isinstance(size, int))
    return (known, *others) if len(others) > 1 or (others and known > 1) else ()


def _product(sizes: Sequence[int | ir.Value]) -> ir.Value:
    """The product of sizes of at most 31 bits each, or a number of more than 32 bits where it has more."""

    def multiplied(product: ir.Value, size: int | ir.Value) -> ir.Value:
        factor = index_constant(size) if isinstance(size, int) else size
        return arith.minui(arith.muli(product, factor), index_constant(1 << 32))

    first, *others = sizes
    assert isinstance(first, int)
    return reduce(multiplied, others, index_constant(first))


def _is_at_most(number: ir.Value, most: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.ule, number, index_constant(most))


def _assert(conditions: Sequence[ir.Value], message: str) -> None:
    if conditions:
        attributes = {"msg": ir.StringAttr.get(message)}
        ir.Operation.create("cf.assert", operands=[reduce(arith.andi, conditions)], attributes=attributes)
