"""What reads an image: whether all of it takes that rounded to half precision, and has it read it so."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.conversions import converted
from iree.winograd.passes.match.elementwise import Elementwise, captures, is_repetition, match_elementwise
from iree.winograd.passes.match.epilogues.channel_scale import is_channel_scale
from iree.winograd.passes.match.navigation import (
    KEEPING_ELEMENTS,
    RESHAPES,
    SIZE,
    defining_operation,
    readers,
)
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.normalizations.normalized_groups import groups_of, is_statistic
from iree.winograd.passes.match.normalizations.pixel_sum import is_pixel_sum_or_begins_one
from iree.winograd.passes.match.pixels.gathered_maximum import gathered_maximum
from iree.winograd.passes.match.values.conversions import is_narrowing
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.rewrite.half_image import (
    largest_of,
    moved,
    read_by_transform,
    repeated,
    widen_operands,
)
from iree.winograd.pipelines.backends.schedules import schedule_of
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.copied_pixels import match_copied_pixels
from iree.winograd.pipelines.problems.group import ConvolutionGroup, match_group

_ELEMENTWISE = "linalg.generic"


def is_read_in_half(value: ir.Value, space: SearchSpace, half: ir.Type) -> bool:
    """Whether all that reads an image, of which there is something, takes it in half precision."""
    users = users_of(value)
    return bool(users) and all(reads_half(user, value, space, half) for user in users)


def users_of(value: ir.Value) -> list[ir.Operation]:
    """What reads a value, each once: for pixels that are gathered the operation that does."""
    return list(dict.fromkeys(gathered_maximum(user) or user for user in readers(value)))


def reads_half(user: ir.Operation, value: ir.Value, space: SearchSpace, half: ir.Type) -> bool:
    """Whether what reads an image takes it in half precision: a kernel's, or an operand of its epilogue.

    A kernel that writes such numbers converts them in its epilogue. The largest of some elements is one of
    them, and is stored as they are.
    """
    if is_statistic(user, value):
        converts = space.iree_code.converts_half or any(map(space.finds_moments, groups_of(value)))
        return converts or (space.copies_half and is_pixel_sum_or_begins_one(user))
    if space.copies_half and is_repetition(user, value):
        return is_read_in_half(user.results[0], space, half)
    if user.name == _ELEMENTWISE and value in list(user.operands):
        converts = space.iree_code.converts_half or any(map(space.finds_moments, groups_of(value)))
        scales = space.copies_half and half_type(user.results[0]) == half and is_channel_scale(user)
        return (converts or scales) and _computes(user, value, half)
    if user.name == _ELEMENTWISE:
        return is_read_in_half(user.results[0], space, half)
    if user.name in KEEPING_ELEMENTS:
        by_kernel = space.copies_half and (user.name in RESHAPES or match_copied_pixels(user) is not None)
        return (by_kernel or space.iree_code.converts_half) and is_read_in_half(user.results[0], space, half)
    group = reading_group(user)
    if group is None:
        return False
    if user.name == ops.InputTransformOp.OPERATION_NAME:
        return takes(group, space, input=half)
    return takes(group, space, result=half)


def _computes(user: ir.Operation, value: ir.Value, half: ir.Type) -> bool:
    """Whether an operation computes each result from an element of `value`, or rounds it to `half`."""
    if is_narrowing(user):
        return bool(half_type(user.results[0]) == half)
    elementwise = match_elementwise(user)
    if not isinstance(elementwise, Elementwise) or not elementwise.is_pure:
        return False
    return value != elementwise.inputs[-1] and not captures(elementwise.body)


def takes(group: ConvolutionGroup, space: SearchSpace, **stored: ir.Type | None) -> bool:
    """Whether the group's kernel takes its input, or its result, in other types than they have."""
    schedule = schedule_of(group.product)
    if schedule is None:
        return False
    shape = group.shape
    types = replace(shape.element_types, **{name: str(type_) for name, type_ in stored.items()})
    return space.misfit(replace(shape, element_types=types), schedule) is None


def reading_group(user: ir.Operation) -> ConvolutionGroup | None:
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


def have_read(value: ir.Value, narrowed: ir.Value, space: SearchSpace) -> list[ir.Operation]:
    """Has all that reads an image, as `is_read_in_half` says it may, read `narrowed`, which is that rounded.

    Gives the operations that nothing needs any more.
    """
    definition = defining_operation(value)
    unused = [] if definition is None else [definition]
    users = users_of(value)
    ask_for_sizes(value, narrowed)
    if statistics := [user for user in users if is_statistic(user, value)]:
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
            unused += have_read(user.results[0], moved(user, narrowed), space)
        elif space.copies_half and is_repetition(user, value):
            unused += have_read(user.results[0], repeated(user, narrowed), space)
        elif value in list(user.operands):
            widen_operands(user, user.regions[0].blocks[0], value, narrowed)
        else:
            unused += have_read(user.results[0], largest_of(user, narrowed), space)
    return unused


def ask_for_sizes(value: ir.Value, narrowed: ir.Value) -> None:
    """Has what asks for sizes of an image that aren't known ask for those of `narrowed`."""
    for use in list(value.uses):
        query = use.owner.operation
        if query.name == SIZE:
            query.operands[use.operand_number] = narrowed
