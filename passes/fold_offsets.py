"""Write offsets of slices as numbers where they are the same whatever a program's sizes."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.unknown_sizes.size_expressions import SizeExpressions
from iree.winograd.passes.rewrite.erasure import erase_if_unused

_FUNCTIONS = ("func.func", "util.func")


@register_pass("winograd-fold-offsets")
class FoldOffsets:
    """Write offsets of slices as numbers where they are the same whatever a program's sizes.

    Of an image whose size is known only at run time, what begins at its first element is written as what
    begins at the smaller one of its size and zero: which elements a slice has, further passes have to know.

        %first = arith.minsi %size, %zero : index
        %r = tensor.extract_slice %x[0, 0, %first] [1, 16, %half] [1, 1, 2] : ... to tensor<1x16x?xf32>
      becomes
        %r = tensor.extract_slice %x[0, 0, 0] [1, 16, %half] [1, 1, 2] : ... to tensor<1x16x?xf32>
    """

    def run(self, module: ir.Operation) -> None:
        slices = [each for each in walk(module) if _has_unknown_offsets(each)]
        functions = dict.fromkeys(each.parent.operation for each in slices)
        outermost = [each for each in functions if each.name in _FUNCTIONS]
        # Slices are replaced in the end: what is known is known of values that exist.
        found = [
            (each, offsets)
            for function in outermost
            if (expressions := SizeExpressions.of(function))
            for each in slices
            if each.parent.operation == function and (offsets := _known(each, expressions)) is not None
        ]
        rewrite_each("slice", found, lambda each: _state(*each), operation_of=lambda each: each[0])


def _has_unknown_offsets(operation: ir.Operation) -> bool:
    return operation.name == "tensor.extract_slice" and any(
        map(is_dynamic, operation.attributes["static_offsets"])
    )


def _known(slice_: ir.Operation, expressions: SizeExpressions) -> list[int] | None:
    """The offsets that aren't numbers, if all of these are known."""
    unknown = sum(map(is_dynamic, slice_.attributes["static_offsets"]))
    numbers = [expressions.numbers.get(each) for each in list(slice_.operands)[1 : 1 + unknown]]
    known = [None if each is None else each.known for each in numbers]
    whole = [each for each in known if isinstance(each, int)]
    return whole if len(whole) == unknown else None


def _state(slice_: ir.Operation, known: Sequence[int]) -> None:
    numbers = iter(known)
    offsets = [next(numbers) if is_dynamic(each) else each for each in slice_.attributes["static_offsets"]]
    sizes, strides = (list(slice_.attributes[f"static_{part}"]) for part in ("sizes", "strides"))
    source, *dynamic = list(slice_.operands)[:1] + list(slice_.operands)[1 + len(known) :]
    of_sizes = sum(map(is_dynamic, sizes))
    with slice_.location, ir.InsertionPoint(slice_):
        stated = tensor.extract_slice(
            slice_.results[0].type,
            source,
            [],
            dynamic[:of_sizes],
            dynamic[of_sizes:],
            offsets,
            sizes,
            strides,
        )
    slice_.results[0].replace_all_uses_with(stated)
    erase_if_unused([slice_])
