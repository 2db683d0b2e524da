"""Write the parts of concatenations of channels into one tensor."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.slices import extract_channels, insert_channels
from iree.winograd.passes.frame.containment import rewrite_each
from iree.winograd.passes.frame.registry import register_pass
from iree.winograd.passes.frame.remarks import remark_left
from iree.winograd.passes.match.channel_slice import ChannelSlice
from iree.winograd.passes.match.navigation import defining_operation, only_user, walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic

PASS_NAME = "winograd-concat-in-place"


@register_pass(PASS_NAME)
@dataclass(frozen=True)
class ConcatInPlace:
    """Write the parts of concatenations of channels into one tensor.

    A part that is the result of an output transform, and used by nothing else, is then written to its place
    by the kernel that computes it. Where a concatenation is concatenated with more, as in dense blocks, all
    parts go to the tensor of the last one, and what uses an earlier one reads a slice of it. Concatenations
    without a result of an output transform, of other dimensions than the last, or of sizes known only at run
    time stay. Earlier ones that are used after the later one keep a tensor of their own: the later one's is
    written by then.

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
            if not _is_last_use(former, chain[0]):
                break
            chain.insert(0, former)
    written = [part for part in _parts(chain) if _is_from_convolution(part)]
    if not written:
        return None
    if no_match is not None:
        return no_match
    if all(only_user(part) is None for part in written):
        return NoMatch(concatenation, "something else uses the convolutions that are concatenated")
    return chain


def _match_channels(concatenation: ir.Operation) -> NoMatch | None:
    """Why what is concatenated aren't channels of images of static shape; None where they are."""
    values = (*concatenation.operands, *concatenation.results)
    shapes = [ir.RankedTensorType(value.type).shape for value in values]
    if any(is_dynamic(size) for shape in shapes for size in shape):
        return NoMatch(concatenation, "its sizes are known only at run time")
    if concatenation.attributes["dim"].value != len(shapes[0]) - 1:
        return NoMatch(concatenation, "it concatenates another dimension than channels, the last")
    return None


def _is_last_use(operation: ir.Operation, user: ir.Operation) -> bool:
    """Whether the operation's result is used once by `user`, and elsewhere only before it in its block."""
    uses = [use.owner.operation for use in operation.results[0].uses]
    others = [use for use in uses if use != user]
    if len(others) + 1 != len(uses) or operation.block != user.block:
        return False
    return all(other.block == user.block and other.is_before_in_block(user) for other in others)


def _parts(chain: list[ir.Operation]) -> list[ir.Value]:
    return [part for number, each in enumerate(chain) for part in list(each.operands)[min(number, 1) :]]


def _is_from_convolution(part: ir.Value) -> bool:
    operation = defining_operation(part)
    return operation is not None and operation.name == ops.OutputTransformOp.OPERATION_NAME


def _write_in_place(chain: list[ir.Operation]) -> None:
    """Replace what uses the results of `chain`, whose operations stay."""
    result_type = ir.RankedTensorType(chain[-1].results[0].type)
    with chain[0].location, ir.InsertionPoint(chain[0]):
        whole = tensor.empty(list(result_type.shape), result_type.element_type)
    first_channel = 0
    for number, concatenation in enumerate(chain):
        with concatenation.location, ir.InsertionPoint(concatenation):
            for part in list(concatenation.operands)[min(number, 1) :]:
                whole = insert_channels(part, ChannelSlice(whole, first_channel))
                first_channel += ir.RankedTensorType(part.type).shape[-1]
            result = concatenation.results[0]
            is_last = number == len(chain) - 1
            shape = ir.RankedTensorType(result.type).shape
            result.replace_all_uses_with(whole if is_last else extract_channels(ChannelSlice(whole), shape))
