"""Have kernels read and write images of half precision that are so in the program."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.tensors import shape_of
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.elementwise import Elementwise, captures, match_elementwise
from iree.winograd.passes.match.epilogues.channel_scale import is_channel_scale
from iree.winograd.passes.match.navigation import (
    KEEPING_ELEMENTS,
    defining_operation,
    readers,
    transforms,
    walk,
)
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.normalizations.normalized_groups import groups_normalized_by
from iree.winograd.passes.match.values.conversions import is_narrowing, rounded_type, widened_source
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.half_image import half_image, moved, read_by_transform, widen_operands
from iree.winograd.pipelines.backends.schedules import schedule_of
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.group import match_group

from ..backends.module_backend import supported_backend
from ..selection.module_space import module_space
from .half_concatenation import concatenate_half, insertions_of_channels
from .half_readers import ask_for_sizes, have_read, is_read_in_half, reading_group, takes


@register_pass("winograd-store-half")
class StoreHalf:
    """Have kernels read and write images of half precision that are so in the program.

    `winograd-widen-half` has all numbers in f32. An image that was widened for a convolution alone, and maybe
    transposed, is read as it is, by loads that widen, and so is what an epilogue reads. A result that is
    rounded to half precision is stored so, if the program wants it so or convolutions and their epilogues are
    all that reads it. So is what all of its readers round before they multiply it. That halves what goes
    through memory, and computes the same: transforms, products and sums stay in f32. It is for kernels that
    take such images by the schedule that they have. On CPUs without AVX-512 conversions take longer than that
    saves: images that only kernels read stay in f32, rounded. Some of their pixels are copied so by kernels
    of CPUs. On CUDA reshapes, transpositions, parts and operations on elements read such images, too, and
    these operations store what they round so where convolutions read it. So do on CPUs those that normalize
    groups, whose moments a kernel finds, those that scale channels by what is made of their means, and those
    that repeat pixels. Channels that convolutions insert
    into one tensor, as concatenations are computed, are of half precision there if all of them are and all
    that reads the tensor takes it.

        %w = linalg.generic ins(%x : tensor<1x14x14x32xf16>) { arith.extf }
        %v = "winograd.input_transform"(%w) : (tensor<1x14x14x32xf32>) -> tensor<36x9x32xf32>
        ...
        %r = "winograd.output_transform"(%m) ({...}) : (tensor<36x9x32xf32>) -> tensor<1x12x12x32xf32>
        %h = linalg.generic ins(%r : tensor<1x12x12x32xf32>) { arith.truncf }
      becomes
        %v = "winograd.input_transform"(%x) : (tensor<1x14x14x32xf16>) -> tensor<36x9x32xf32>
        ...
        %h = "winograd.output_transform"(%m) ({... arith.truncf})
               : (tensor<36x9x32xf32>) -> tensor<1x12x12x32xf16>
    """

    def run(self, module: ir.Operation) -> None:
        outputs = transforms(module, ops.OutputTransformOp)
        if not outputs:
            return
        space = module_space(module, machine=None, threads=1)
        rewrite_each("output transform", outputs, lambda transform: _read_half(transform, space))
        if space.stores_half:
            outputs = transforms(module, ops.OutputTransformOp)
            rewrite_each("epilogue", outputs, lambda transform: _read_half_operands(transform, space))
        rounding = [each for each in walk(module) if _match_rounding(each) is not None]
        if not space.iree_code.converts_half:
            rounding = [each for each in rounding if _is_kernels(each, space)]
        rewrite_each("elementwise operation", rounding, lambda each: _compute_half(each, space))
        backend = supported_backend(module)
        if space.iree_code.converts_half and space.stores_half and backend is not None:
            empty = [each for each in walk(module) if each.name == "tensor.empty"]
            filled = [each for each in empty if any(insertions_of_channels(each))]
            rewrite_each("concatenation", filled, lambda each: concatenate_half(each, space, backend))
        outputs = transforms(module, ops.OutputTransformOp)
        rewrite_each("output transform", outputs, lambda transform: _write_half(transform, space))


def _read_half(transform: ops.OutputTransformOp, space: SearchSpace) -> None:
    group = match_group(transform)
    if isinstance(group, NoMatch):
        # The lowering reports it.
        return
    found = half_image(group.input_transform.input)
    if found is None:
        return
    source, moves = found
    if not takes(group, space, input=half_type(source)):
        return
    for move in moves:
        source = moved(move, source)
    read_by_transform(group.input_transform, source)
    erase_if_unused([group.input_transform.operation])


def _read_half_operands(transform: ops.OutputTransformOp, space: SearchSpace) -> None:
    """Has an epilogue widen what it reads that was widened from half precision before."""
    group = match_group(transform)
    for operand in dict.fromkeys(transform.epilogue_operands):
        source = widened_source(operand)
        if source is None or isinstance(group, NoMatch) or not takes(group, space, result=half_type(source)):
            continue
        widen_operands(transform.operation, transform.body, operand, source)
        widening = defining_operation(operand)
        if widening is not None:
            erase_if_unused([widening])


def _is_kernels(operation: ir.Operation, space: SearchSpace) -> bool:
    """Whether a kernel computes an operation on elements where IREE's code doesn't convert half precision."""
    if any(map(space.finds_moments, groups_normalized_by(operation))):
        return True
    return space.copies_half and is_channel_scale(operation)


def _match_rounding(operation: ir.Operation) -> Elementwise | None:
    """The operation on elements whose results, in f32, are rounded to half precision."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or not elementwise.is_pure or elementwise.reads_init:
        return None
    if captures(elementwise.body) or half_type(elementwise.result) is not None:
        return None
    return None if rounded_type(elementwise.yielded) is None else elementwise


def _compute_half(operation: ir.Operation, space: SearchSpace) -> None:
    """Has an operation on elements store what it rounds, and convolutions read."""
    # What it reads may be of half precision since the one before was rewritten.
    elementwise = _match_rounding(operation)
    if elementwise is None:
        return
    half = rounded_type(elementwise.yielded)
    if not _is_convolved(elementwise.result) or not is_read_in_half(elementwise.result, space, half):
        return

    def body(elements: list[ir.Value]) -> ir.Value:
        (rounded,) = inline_block(elementwise.body, elements)
        return arith.truncf(half, rounded)

    with operation.location, ir.InsertionPoint(operation):
        init = tensor.empty(shape_of(elementwise.result), half)
        narrowed = build_elementwise(elementwise.reads, init, body)
    erase_if_unused(have_read(elementwise.result, narrowed, space))


def _is_convolved(value: ir.Value) -> bool:
    """Whether a convolution reads a value, or what it is moved to."""
    users = readers(value)
    if any(user.name == ops.InputTransformOp.OPERATION_NAME for user in users):
        return True
    return any(user.name in KEEPING_ELEMENTS and _is_convolved(user.results[0]) for user in users)


def _write_half(transform: ops.OutputTransformOp, space: SearchSpace) -> None:
    users = readers(transform.result)
    group = match_group(transform)
    if isinstance(group, NoMatch) or not users or half_type(transform.result) is not None:
        return
    if len(users) == 1 and is_narrowing(users[0]):
        half = half_type(users[0].results[0])
        if users[0].block == transform.operation.block and takes(group, space, result=half):
            narrowed = _rebuild_output(transform, half)
            ask_for_sizes(transform.result, narrowed)
            users[0].results[0].replace_all_uses_with(narrowed)
            erase_if_unused([users[0], transform.operation])
        return
    if not space.stores_half:
        return
    half = rounded_type(transform.body.operations[-1].operation.operands[0]) or _rounded_by_all(users)
    if half is None or not takes(group, space, result=half):
        return
    if not is_read_in_half(transform.result, space, half):
        return
    erase_if_unused(have_read(transform.result, _rebuild_output(transform, half), space))


def _rounded_by_all(users: Sequence[ir.Operation]) -> ir.Type | None:
    """The type that all of a result's readers round it to before they multiply it; None where one doesn't."""
    types: set[str | None] = set()
    for user in users:
        group = reading_group(user) if user.name == ops.InputTransformOp.OPERATION_NAME else None
        schedule = None if group is None else schedule_of(group.product)
        types.add(None if schedule is None else schedule.multiplied_type)
    (type_,) = types if len(types) == 1 else (None,)
    return None if type_ is None else ir.Type.parse(type_)


def _rebuild_output(transform: ops.OutputTransformOp, half: ir.Type) -> ir.Value:
    """The result of the same transform, rounded to half precision."""
    type_ = ir.RankedTensorType.get(list(transform.result.type.shape), half)
    with transform.location, ir.InsertionPoint(transform):
        rebuilt = ops.output_transform(
            type_,
            transform.accumulator,
            transform.decomposition,
            transform.groups,
            transform.epilogue_operands,
            transform.indexing_maps,
            channels_first=transform.channels_first,
        )
        with ir.InsertionPoint(rebuilt.body):
            (output,) = inline_block(transform.body, list(rebuilt.body.arguments))
            ops.yield_value(arith.truncf(half, output))
    return rebuilt.result
