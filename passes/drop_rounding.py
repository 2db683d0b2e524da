"""Leave out rounding to half precision of what a kernel computes with again."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, transforms
from iree.winograd.passes.match.values.half_precision import KEEPING_HALF, half_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused

_NARROWING, _WIDENING = "arith.truncf", "arith.extf"


@register_pass("winograd-drop-rounding")
class DropRounding:
    """Leave out rounding to half precision of what a kernel computes with again.

    A model of half precision rounds what each of its operations gives: each of them writes to memory. An
    epilogue keeps numbers in registers, in f32. Rounding them there takes up to four operations, more than a
    batch norm itself, and its error is all that it adds. What the epilogue gives is rounded to the program's
    type, once. XLA, by `xla_allow_excess_precision`, and torch.compile's inductor do the same by default.

        %y = "winograd.output_transform"(%m, %scale, %shift) ({
          ^bb0(%a: f32, %s: f32, %t: f32):
            %h = arith.truncf %a : f32 to bf16
            %w = arith.extf %h : bf16 to f32
            %b = arith.mulf %w, %s : f32
            %c = arith.addf %b, %t : f32
            %r = arith.truncf %c : f32 to bf16
            %x = arith.extf %r : bf16 to f32
            vector.yield %x : f32
        })
      becomes
        %y = "winograd.output_transform"(%m, %scale, %shift) ({
          ^bb0(%a: f32, %s: f32, %t: f32):
            %b = arith.mulf %a, %s : f32
            %c = arith.addf %b, %t : f32
            %r = arith.truncf %c : f32 to bf16
            %x = arith.extf %r : bf16 to f32
            vector.yield %x : f32
        })

    So a number beyond the range of f16 that comes back into it before it is stored is no infinity.
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("output transform", transforms(module, ops.OutputTransformOp), _drop_in_epilogue)


def _drop_in_epilogue(transform: ops.OutputTransformOp) -> None:
    for widening in [
        view.operation for view in transform.body.operations if view.operation.name == _WIDENING
    ]:
        narrowing = defining_operation(widening.operands[0])
        if narrowing is None or narrowing.name != _NARROWING or half_type(narrowing.results[0]) is None:
            continue
        number, rounded = narrowing.operands[0], widening.results[0]
        if number.type == rounded.type and not _is_given(rounded):
            rounded.replace_all_uses_with(number)
            erase_if_unused([widening])


def _is_given(number: ir.Value) -> bool:
    """Whether the epilogue gives a number, or one that is chosen among such, which has to be rounded."""
    users = [use.owner.operation for use in number.uses]
    return any(
        not user.results or (user.name in KEEPING_HALF and _is_given(user.results[0])) for user in users
    )
