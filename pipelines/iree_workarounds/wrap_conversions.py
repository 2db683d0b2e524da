"""Have numbers become bytes and short integers by their low bits, whatever the processor."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk

_WORD = 32
"""The bits of the integers that processors convert numbers to."""


@register_pass("winograd-wrap-conversions")
class WrapConversions:
    """Have numbers become bytes and short integers by their low bits, whatever the processor.

    torch-mlir takes bytes for signed where it converts numbers to them, and 200 isn't defined as one. The
    code for x86 without AVX-512 makes 127 of it. So numbers become integers of 32 bits first:

        %r = arith.fptosi %x : f32 to i8
      becomes
        %word = arith.fptosi %x : f32 to i32
        %r = arith.trunci %word : i32 to i8

    which is right for bytes with a sign and without, and of others what torch and ONNX Runtime give.
    """

    def run(self, module: ir.Operation) -> None:
        conversions = [each for each in walk(module) if each.name == "arith.fptosi" and _is_short(each)]
        rewrite_each("conversion", conversions, _convert_by_word)


def _is_short(conversion: ir.Operation) -> bool:
    type_ = conversion.results[0].type
    return isinstance(type_, ir.IntegerType) and type_.width < _WORD


def _convert_by_word(conversion: ir.Operation) -> None:
    with ir.InsertionPoint(conversion), conversion.location:
        word = arith.fptosi(ir.IntegerType.get_signless(_WORD), conversion.operands[0])
        low = arith.trunci(conversion.results[0].type, word)
    conversion.results[0].replace_all_uses_with(low)
    conversion.erase()
