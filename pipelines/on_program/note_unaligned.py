"""Note which arguments of a program may lie anywhere in memory."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.reflection import note_numbers
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import KERNEL, called_kernels, symbol_name, walk

from ..problems.reflection import UNALIGNED_KEY

_READS_IN_PLACE = ("tensor.dim", "tensor.collapse_shape", "tensor.expand_shape")


@register_pass("winograd-note-unaligned")
class NoteUnaligned:
    """Note which arguments of a program may lie anywhere in memory, as reflection of its functions.

    Code that IREE generates relies on arguments being aligned to a cache line, this project's kernels don't.
    An argument that only they read can be handed over where it is. Nothing is noted of a program that keeps
    values from one call to the next: they may be computed from the arguments after the call has returned.

        util.func public @main(%arg0: !hal.buffer_view) {
          %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x14x14x32xf32>
          %r = flow.dispatch @kernel::@kernel(%x, %packed)
      becomes
        util.func public @main(%arg0: !hal.buffer_view)
            attributes {iree.reflection = {winograd.unaligned = "0"}} {
    """

    def run(self, module: ir.Operation) -> None:
        operations = list(walk(module))
        if any(_is_variable(operation) for operation in operations):
            return
        kernels = {symbol_name(operation) for operation in operations if operation.name == KERNEL}
        functions = [each for each in operations if each.name == "util.func" and each.regions[0].blocks]
        rewrite_each("function", functions, lambda function: _note(function, kernels))


def _is_variable(operation: ir.Operation) -> bool:
    return operation.name == "util.global" and "is_mutable" in operation.attributes


def _note(function: ir.Operation, kernels: set[str]) -> None:
    arguments = function.regions[0].blocks[0].arguments
    noted = [number for number, argument in enumerate(arguments) if _may_be_unaligned(argument, kernels)]
    note_numbers(function, UNALIGNED_KEY, noted)


def _may_be_unaligned(argument: ir.Value, kernels: set[str]) -> bool:
    """Whether an argument is imported as a tensor that nothing but `kernels` reads the elements of."""
    users = [use.owner.operation for use in argument.uses]
    imports = [user for user in users if user.name == "hal.tensor.import"]
    return (
        len(imports) == 1
        and all(user in imports or user.name == "hal.buffer_view.dim" for user in users)
        and _is_read_in_place(imports[0].results[0], kernels)
    )


def _is_read_in_place(value: ir.Value, kernels: set[str]) -> bool:
    return all(_reads_in_place(use.owner.operation, kernels) for use in value.uses)


def _reads_in_place(user: ir.Operation, kernels: set[str]) -> bool:
    if user.name == "flow.dispatch":
        return kernels.issuperset(called_kernels(user))
    return user.name in _READS_IN_PLACE and all(
        _is_read_in_place(result, kernels) for result in user.results if user.name != "tensor.dim"
    )
