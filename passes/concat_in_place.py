"""Write the parts of concatenations of channels into one tensor."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.slices import extract_channels, insert_channels
from iree.winograd.passes.build.tensors import shape_of
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.layouts.channel_slice import ChannelSlice
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic

PASS_NAME = "winograd-concat-in-place"


@register_pass(PASS_NAME)
class ConcatInPlace:
    """Write the parts of concatenations of channels into one tensor.

    A part that is the result of an output transform, and used by nothing else, is then written to its place
    by the kernel that computes it. Others are copied there: at its highest optimization level IREE would
    transpose all parts, and the whole back. Where a concatenation is concatenated with more, as in dense
    blocks, all parts go to the tensor of the last one, and what uses an earlier one reads a slice of it, as
    it is by then: later parts leave earlier ones as they are. Concatenations without a result of an output
    transform, of other dimensions than the last, or of numbers of channels known only at run time stay.
    Earlier ones that are used in other blocks keep a tensor of their own.

        %c = tensor.concat dim(3) %x, %y : (tensor<1x7x7x8xf32>, tensor<1x7x7x4xf32>) -> tensor<1x7x7x12xf32>
        %d = tensor.concat dim(3) %c, %z : (tensor<1x7x7x12xf32>, tensor<1x7x7x4xf32>) -> tensor<1x7x7x16xf32>
      becomes
        %e = tensor.empty() : tensor<1x7x7x16xf32>
        %0 = tensor.insert_slice %x into %e[0, 0, 0, 0] [1, 7, 7, 8] [1, 1, 1, 1]
        %1 = tensor.insert_slice %y into %0[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1]
        %c = tensor.extract_slice %1[0, 0, 0, 0] [1, 7, 7, 12] [1, 1, 1, 1]
        %d = tensor.insert_slice %z into %1[0, 0, 0, 12] [1, 7, 7, 4] [1, 1, 1, 1]
    """

    def run(self, module: ir.Operation) -> None:
        replaced: list[ir.Operation] = []

        def rewrite(concatenation: ir.Operation) -> None:
            if concatenation in replaced:
                return
            chain = _match_chain(concatenation)
            if isinstance(chain, NoMatch):
                remark_left(PASS_NAME, chain)
            elif chain is not None:
                _write_in_place(chain)
                replaced.extend(reversed(chain))

        concatenations = [each for each in walk(module) if each.name == "tensor.concat"]
        # The last ones first: they take in those that they extend.
        rewrite_each("concatenation", reversed(concatenations), rewrite)
        for concatenation in replaced:
            concatenation.erase()


def _match_chain(concatenation: ir.Operation) -> list[ir.Operation] | NoMatch | None:
    """Concatenations that each begin with the result of the one before, up to the given one.

    None where no part is a convolution's.
    """
    chain = [concatenation]
    no_match = _match_channels(concatenation)
    if no_match is None:
        while (former := defining_operation(chain[0].operands[0])) is not None:
            if former.name != "tensor.concat" or _match_channels(former) is not None:
                break
            if not _is_used_once_by(chain[0], former):
                break
            chain.insert(0, former)
    if not any(map(_is_from_convolution, _parts(chain))):
        return None
    return chain if no_match is None else no_match


def _match_channels(concatenation: ir.Operation) -> NoMatch | None:
    """Why what is concatenated aren't channels of images, of static numbers; None where they are."""
    shape, *parts = (
        ir.RankedTensorType(value.type).shape for value in (*concatenation.results, *concatenation.operands)
    )
    if concatenation.attributes["dim"].value != len(shape) - 1:
        return NoMatch(concatenation, "it concatenates another dimension than channels, the last")
    if any(is_dynamic(part[-1]) for part in (shape, *parts)):
        return NoMatch(concatenation, "its channels are known only at run time")
    if any(part[:-1] != shape[:-1] for part in parts):
        return NoMatch(concatenation, "sizes of its parts are known at compile time of some only")
    return None


def _is_used_once_by(user: ir.Operation, operation: ir.Operation) -> bool:
    """Whether `user` uses the operation's result once, and only others in their block do so, too."""
    users = [use.owner.operation for use in operation.results[0].uses]
    return users.count(user) == 1 and all(other.block == operation.block for other in users)


def _parts(chain: list[ir.Operation]) -> list[ir.Value]:
    return [part for number, each in enumerate(chain) for part in list(each.operands)[min(number, 1) :]]


def _is_from_convolution(part: ir.Value) -> bool:
    operation = defining_operation(part)
    return operation is not None and operation.name == ops.OutputTransformOp.OPERATION_NAME


def _write_in_place(chain: list[ir.Operation]) -> None:
    """Replace what uses the results of `chain`, whose operations stay."""
    result_type = ir.RankedTensorType(chain[-1].results[0].type)
    with chain[0].location, ir.InsertionPoint(chain[0]):
        sizes = [*shape_of(chain[0].operands[0])[:-1], result_type.shape[-1]]
        whole = tensor.empty(sizes, result_type.element_type)
    first_channel = 0
    for number, concatenation in enumerate(chain):
        with concatenation.location, ir.InsertionPoint(concatenation):
            for part in list(concatenation.operands)[min(number, 1) :]:
                whole = insert_channels(part, ChannelSlice(whole, first_channel))
                first_channel += ir.RankedTensorType(part.type).shape[-1]
            if number == len(chain) - 1:
                concatenation.results[0].replace_all_uses_with(whole)
            for former in chain[: number + 1]:
                _read_slices(former.results[0], whole, chain, number)


def _read_slices(result: ir.Value, whole: ir.Value, chain: list[ir.Operation], number: int) -> None:
    """Have what uses `result` up to the concatenation after that `number` read a slice of `whole`."""
    uses = [(use.owner.operation, use.operand_number) for use in result.uses]
    # What it is extended by isn't read.
    uses = [(user, position) for user, position in uses if position > 0 or user not in chain]
    if number < len(chain) - 1:
        uses = [use for use in uses if not chain[number + 1].is_before_in_block(use[0])]
    if not uses:
        return
    part = extract_channels(ChannelSlice(whole), ir.RankedTensorType(result.type).shape[-1])
    for user, position in uses:
        user.operands[position] = part
