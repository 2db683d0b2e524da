"""Have kernels read and write images of half precision that are so in the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.conversions import converted
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.slices import element_of, inserted
from iree.winograd.passes.build.tensors import shape_of
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.conversions import is_narrowing, rounded_type, widened_source
from iree.winograd.passes.match.elementwise import Elementwise, captures, match_elementwise
from iree.winograd.passes.match.exact_type import held_type
from iree.winograd.passes.match.gathered_maximum import gathered_maximum
from iree.winograd.passes.match.half_precision import half_type
from iree.winograd.passes.match.image_sum import SquaredDeviations, match_squared_deviations
from iree.winograd.passes.match.navigation import (
    KEEPING_ELEMENTS,
    RESHAPES,
    SIZE,
    defining_operation,
    only_user,
    readers,
    transforms,
    walk,
)
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.normalization_factors import match_normalization_factors
from iree.winograd.passes.match.reduced import match_reduced
from iree.winograd.passes.match.reductions import is_reduction
from iree.winograd.passes.match.rows import with_body
from iree.winograd.passes.match.slices import Slice, match_slice
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.half_image import half_image, moved, read_by_transform, widen_operands
from iree.winograd.pipelines.backends.schedules import schedule_of
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.group import ConvolutionGroup, match_group

from ..backends.backend import Backend
from ..backends.module_backend import supported_backend
from ..problems.copied_pixels import match_copied_pixels
from ..selection.module_space import module_space

_ELEMENTWISE = "linalg.generic"


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
    groups, whose moments a kernel finds, and those that repeat pixels. Channels that convolutions insert
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
            rounding = [each for each in rounding if _normalizes(each, space)]
        rewrite_each("elementwise operation", rounding, lambda each: _compute_half(each, space))
        backend = supported_backend(module)
        if space.iree_code.converts_half and space.stores_half and backend is not None:
            filled = [each for each in walk(module) if each.name == "tensor.empty" and any(_insertions(each))]
            rewrite_each("concatenation", filled, lambda each: _concatenate_half(each, space, backend))
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
    if not _takes(group, space, input=half_type(source)):
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
        if source is None or isinstance(group, NoMatch) or not _takes(group, space, result=half_type(source)):
            continue
        widen_operands(transform.operation, transform.body, operand, source)
        widening = defining_operation(operand)
        if widening is not None:
            erase_if_unused([widening])


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
    if not _is_convolved(elementwise.result) or not _is_read(elementwise.result, space, half):
        return

    def body(elements: list[ir.Value]) -> ir.Value:
        (rounded,) = inline_block(elementwise.body, elements)
        return arith.truncf(half, rounded)

    with operation.location, ir.InsertionPoint(operation):
        init = tensor.empty(shape_of(elementwise.result), half)
        narrowed = build_elementwise(elementwise.reads, init, body)
    erase_if_unused(_replace(elementwise.result, narrowed))


def _is_convolved(value: ir.Value) -> bool:
    """Whether a convolution reads a value, or what it is moved to."""
    users = readers(value)
    if any(user.name == ops.InputTransformOp.OPERATION_NAME for user in users):
        return True
    return any(user.name in KEEPING_ELEMENTS and _is_convolved(user.results[0]) for user in users)


def _concatenate_half(empty: ir.Operation, space: SearchSpace, backend: Backend) -> None:
    """Has channels, or phases, that are inserted into an empty tensor inserted into one of half precision."""
    insertions = list(_insertions(empty))
    halves = {held_type(each.operands[0]) for each in insertions}
    half = halves.pop() if len(halves) == 1 else None
    if half is None or half_type(empty.results[0]) is not None:
        return
    type_ = ir.RankedTensorType.get(list(empty.results[0].type.shape), half)
    for number, each in enumerate(insertions):
        behind = insertions[number + 1 : number + 2]
        readers = [user for user in _users(each.results[0]) if user not in behind]
        if not all(_reads(user, each.results[0], space, half) for user in readers):
            return
        if not _is_inserted_in_half(each, type_, space, backend):
            return
    with empty.location, ir.InsertionPoint(empty):
        whole = tensor.empty(list(type_.shape), half)
    narrowed = []
    for each, place in zip(insertions, map(_inserted_channels, insertions), strict=True):
        assert place is not None
        with each.location, ir.InsertionPoint(each):
            part = converted(each.operands[0], half)
            whole = inserted(part, whole, place.offsets, place.sizes, place.strides)
        narrowed.append(whole)
    unused: list[ir.Operation] = []
    for each in insertions:
        # What else reads the tensors is left.
        each.operands[1] = empty.results[0]
    for each, whole in zip(insertions, narrowed, strict=True):
        unused += _replace(each.results[0], whole)
    erase_if_unused(unused)


def _insertions(empty: ir.Operation) -> Iterator[ir.Operation]:
    """Those of channels in its block, each into the result of the one before, which others may read.

    Phases of a transposed convolution have all channels, of some pixels.
    """
    whole = empty.results[0]
    while True:
        users = [use.owner.operation for use in whole.uses]
        inserting = [each for each in users if each.block == empty.block and _inserted_channels(each)]
        inserting = [each for each in inserting if each.operands[1] == whole]
        if len(inserting) != 1:
            return
        yield inserting[0]
        (whole,) = inserting[0].results


def _inserted_channels(operation: ir.Operation) -> Slice | None:
    """Which elements an insertion writes, of channels that are neighbours; None where it does not."""
    if operation.name != "tensor.insert_slice":
        return None
    part, whole = (ir.RankedTensorType(each.type) for each in list(operation.operands)[:2])
    place = match_slice(operation) if part.rank == whole.rank else None
    return place if place is not None and place.strides[-1] == 1 else None


def _is_inserted_in_half(
    insertion: ir.Operation, whole: ir.RankedTensorType, space: SearchSpace, backend: Backend
) -> bool:
    """Whether a convolution computes a part of `whole`, where it lies, and stores it in half precision.

    All else that reads it takes it so.
    """
    part, half, place = insertion.operands[0], whole.element_type, _inserted_channels(insertion)
    operation = defining_operation(part)
    if operation is None or operation.name != ops.OutputTransformOp.OPERATION_NAME or place is None:
        return False
    if not backend.holds_channels(whole, place.offsets[-1], place.sizes[-1]):
        return False
    group = match_group(ops.OutputTransformOp(operation))
    if isinstance(group, NoMatch) or not _takes(group, space, result=half):
        return False
    return all(_reads(user, part, space, half) for user in _users(part) if user != insertion)


def _write_half(transform: ops.OutputTransformOp, space: SearchSpace) -> None:
    users = readers(transform.result)
    group = match_group(transform)
    if isinstance(group, NoMatch) or not users or half_type(transform.result) is not None:
        return
    if len(users) == 1 and is_narrowing(users[0]):
        half = half_type(users[0].results[0])
        if users[0].block == transform.operation.block and _takes(group, space, result=half):
            narrowed = _rebuild_output(transform, half)
            _ask_for_sizes(transform.result, narrowed)
            users[0].results[0].replace_all_uses_with(narrowed)
            erase_if_unused([users[0], transform.operation])
        return
    if not space.stores_half:
        return
    half = rounded_type(transform.body.operations[-1].operation.operands[0]) or _rounded_by_all(users)
    if half is None or not _takes(group, space, result=half):
        return
    if not _is_read(transform.result, space, half):
        return
    erase_if_unused(_replace(transform.result, _rebuild_output(transform, half)))


def _is_read(value: ir.Value, space: SearchSpace, half: ir.Type) -> bool:
    """Whether all that reads an image, of which there is something, takes it in half precision."""
    users = _users(value)
    return bool(users) and all(_reads(user, value, space, half) for user in users)


def _users(value: ir.Value) -> list[ir.Operation]:
    """What reads a value, each once: for pixels that are gathered the operation that does."""
    return list(dict.fromkeys(gathered_maximum(user) or user for user in readers(value)))


def _replace(value: ir.Value, narrowed: ir.Value) -> list[ir.Operation]:
    """Has all that reads an image, as `_is_read` says it may, read `narrowed`, which is that rounded.

    Gives the operations that nothing needs any more.
    """
    definition = defining_operation(value)
    unused = [] if definition is None else [definition]
    users = _users(value)
    _ask_for_sizes(value, narrowed)
    if statistics := [user for user in users if _is_statistic(user, value)]:
        with statistics[0].location, ir.InsertionPoint.after(narrowed.owner):
            widened = converted(narrowed, ir.F32Type.get())
        for user in statistics:
            user.operands[list(user.operands).index(value)] = widened
    for user in [each for each in users if each not in statistics]:
        if user.name == ops.InputTransformOp.OPERATION_NAME:
            read_by_transform(ops.InputTransformOp(user), narrowed)
            unused.append(user)
        elif user.name == ops.OutputTransformOp.OPERATION_NAME:
            widen_operands(user, ops.OutputTransformOp(user).body, value, narrowed)
        elif is_narrowing(user):
            user.results[0].replace_all_uses_with(narrowed)
            unused.append(user)
        elif user.name in KEEPING_ELEMENTS:
            unused += _replace(user.results[0], moved(user, narrowed))
        elif _is_repetition(user, value):
            unused += _replace(user.results[0], _repeated(user, narrowed))
        elif value in list(user.operands):
            widen_operands(user, user.regions[0].blocks[0], value, narrowed)
        else:
            unused += _replace(user.results[0], _rebuild_maximum(user, narrowed))
    return unused


def _ask_for_sizes(value: ir.Value, narrowed: ir.Value) -> None:
    """Has what asks for sizes of an image that aren't known ask for those of `narrowed`."""
    for use in list(value.uses):
        query = use.owner.operation
        if query.name == SIZE:
            query.operands[use.operand_number] = narrowed


def _rebuild_maximum(pooling: ir.Operation, image: ir.Value) -> ir.Value:
    """The largest of the same elements of `image`, which is of half precision."""
    half = ir.RankedTensorType(image.type).element_type

    def body(elements: list[ir.Value]) -> ir.Value:
        (largest,) = inline_block(pooling.regions[0].blocks[0], elements)
        return arith.truncf(half, largest)

    with pooling.location, ir.InsertionPoint(pooling):
        maxima = build_elementwise([], tensor.empty(shape_of(pooling.results[0]), half), body)
    for extraction in [each for each in walk(maxima.owner.operation) if each.name == "tensor.extract"]:
        with extraction.location, ir.InsertionPoint(extraction):
            element = element_of(image, list(extraction.operands)[1:])
            widened = arith.extf(ir.F32Type.get(), element)
        extraction.results[0].replace_all_uses_with(widened)
        extraction.erase()
    return maxima


def _rounded_by_all(users: Sequence[ir.Operation]) -> ir.Type | None:
    """The type that all of a result's readers round it to before they multiply it; None where one doesn't."""
    types: set[str | None] = set()
    for user in users:
        group = _reading_group(user) if user.name == ops.InputTransformOp.OPERATION_NAME else None
        schedule = None if group is None else schedule_of(group.product)
        types.add(None if schedule is None else schedule.multiplied_type)
    (type_,) = types if len(types) == 1 else (None,)
    return None if type_ is None else ir.Type.parse(type_)


def _reads(user: ir.Operation, value: ir.Value, space: SearchSpace, half: ir.Type) -> bool:
    """Whether what reads an image takes it in half precision: a kernel's, or an operand of its epilogue.

    A kernel that writes such numbers converts them in its epilogue. The largest of some elements is one of
    them, and is stored as they are.
    """
    if _is_statistic(user, value):
        return space.iree_code.converts_half or _has_moments(value, space)
    if space.copies_half and _is_repetition(user, value):
        return _is_read(user.results[0], space, half)
    if user.name == _ELEMENTWISE and value in list(user.operands):
        converts = space.iree_code.converts_half or _has_moments(value, space)
        return converts and _computes(user, value, half)
    if user.name == _ELEMENTWISE:
        return _is_read(user.results[0], space, half)
    if user.name in KEEPING_ELEMENTS:
        by_kernel = space.copies_half and (user.name in RESHAPES or match_copied_pixels(user) is not None)
        return (by_kernel or space.iree_code.converts_half) and _is_read(user.results[0], space, half)
    group = _reading_group(user)
    if group is None:
        return False
    if user.name == ops.InputTransformOp.OPERATION_NAME:
        return _takes(group, space, input=half)
    return _takes(group, space, result=half)


def _is_statistic(user: ir.Operation, value: ir.Value) -> bool:
    """Whether nothing is made of an image but sums, and sums of squared differences.

    These are read as they are in f32: kernels of sums read what is widened for them.
    """
    if user.name in KEEPING_ELEMENTS:
        moved = user.results[0]
        users = readers(moved)
        return bool(users) and all(_is_statistic(each, moved) for each in users)
    if is_reduction(user):
        return list(user.operands).count(value) == 1 and match_reduced(user) is not None
    return list(user.operands).count(value) == 1 and _squared_deviations_by(user) is not None


def _squared_deviations_by(subtraction: ir.Operation) -> SquaredDeviations | None:
    """The sum of the squares of what an operation subtracts a mean from; None of any other operation."""
    if with_body(subtraction, ["arith.subf"]) is None:
        return None
    squares = only_user(subtraction.results[0])
    if squares is None or with_body(squares, ["arith.mulf"]) is None:
        return None
    reduction = only_user(squares.results[0])
    return None if reduction is None else match_squared_deviations(reduction)


def _is_repetition(user: ir.Operation, value: ir.Value) -> bool:
    """Whether an operation gives elements of `value`, as they are, for each of its own: as nearest pixels."""
    elementwise = match_elementwise(user)
    if not isinstance(elementwise, Elementwise) or elementwise.inputs[:-1] != (value,):
        return False
    return bool(elementwise.yielded == elementwise.body.arguments[0])


def _repeated(repetition: ir.Operation, image: ir.Value) -> ir.Value:
    """What a repetition makes, of `image` in place of what is that image widened."""
    elementwise = match_elementwise(repetition)
    assert isinstance(elementwise, Elementwise), "it was matched before"
    half = ir.RankedTensorType(image.type).element_type
    with repetition.location, ir.InsertionPoint(repetition):
        init = tensor.empty(shape_of(elementwise.result), half)
        reads = [(image, elementwise.indexing_maps[0])]
        return build_elementwise(reads, init, lambda elements: elements[0])


def _has_moments(value: ir.Value, space: SearchSpace) -> bool:
    """Whether a kernel finds the moments of an image's groups, by which it is normalized."""
    for user in readers(value):
        if user.name in KEEPING_ELEMENTS:
            if _has_moments(user.results[0], space):
                return True
            continue
        found = _squared_deviations_by(user)
        if found is not None and match_normalization_factors(found) is not None:
            return space.finds_moments(found.sums.extents)
    return False


def _normalizes(operation: ir.Operation, space: SearchSpace) -> bool:
    """Whether an elementwise operation computes what it does of an image with such moments."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise):
        return False
    image = elementwise.inputs[0]
    if _has_moments(image, space):
        return True
    before = defining_operation(image)
    return before is not None and _normalizes(before, space)


def _computes(user: ir.Operation, value: ir.Value, half: ir.Type) -> bool:
    """Whether an operation computes each result from an element of `value`, or rounds it to `half`."""
    if is_narrowing(user):
        return bool(half_type(user.results[0]) == half)
    elementwise = match_elementwise(user)
    if not isinstance(elementwise, Elementwise) or not elementwise.is_pure:
        return False
    return value != elementwise.inputs[-1] and not captures(elementwise.body)


def _reading_group(user: ir.Operation) -> ConvolutionGroup | None:
    """The group whose input or output transform `user` is; None where it is none, or of none."""
    if user.name == ops.OutputTransformOp.OPERATION_NAME:
        group = match_group(ops.OutputTransformOp(user))
        return None if isinstance(group, NoMatch) else group
    operation = user
    for name in (ops.InputTransformOp.OPERATION_NAME, "linalg.batch_matmul"):
        following = readers(operation.results[0]) if operation.results else []
        if operation.name != name or len(following) != 1:
            return None
        (operation,) = following
    if operation.name != ops.OutputTransformOp.OPERATION_NAME:
        return None
    group = match_group(ops.OutputTransformOp(operation))
    return None if isinstance(group, NoMatch) else group


def _takes(group: ConvolutionGroup, space: SearchSpace, **stored: ir.Type | None) -> bool:
    """Whether the group's kernel takes its input, or its result, in other types than they have."""
    schedule = schedule_of(group.product)
    if schedule is None:
        return False
    shape = group.shape
    types = replace(shape.element_types, **{name: str(type_) for name, type_ in stored.items()})
    return space.misfit(replace(shape, element_types=types), schedule) is None


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
