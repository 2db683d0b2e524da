"""Extend concatenations by what later ones have more."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.navigation import walk

_Parts = tuple[ir.Block, int, tuple[ir.Value, ...]]
"""Where parts are concatenated, along which dimension, and they."""


@register_pass("winograd-nest-concatenations")
class NestConcatenations:
    """Extend concatenations by what later ones have more.

    Dense blocks concatenate all channels so far for each of their layers: of n layers, n^2 / 2 parts would be
    copied. One that begins with all parts of an earlier one is that one and the other parts, so that
    `winograd-concat-in-place` has each part in its place once. Programs without a convolution stay as they
    are.

        %c = tensor.concat dim(1) %x, %y
        %d = tensor.concat dim(1) %x, %y, %z
      becomes
        %c = tensor.concat dim(1) %x, %y
        %d = tensor.concat dim(1) %c, %z
    """

    def run(self, module: ir.Operation) -> None:
        if not any(True for _ in convolutions(module)):
            return
        earlier: dict[_Parts, ir.Operation] = {}
        concatenations = [each for each in walk(module) if each.name == "tensor.concat"]
        rewrite_each("concatenation", concatenations, lambda each: _extend(each, earlier))


def _extend(concatenation: ir.Operation, earlier: dict[_Parts, ir.Operation]) -> None:
    """Write a concatenation as an extension of the longest of `earlier` ones, which it becomes one of."""
    block, dimension = concatenation.block, int(concatenation.attributes["dim"].value)
    parts = tuple(concatenation.operands)
    extended = concatenation
    for count in range(len(parts) - 1, 1, -1):
        begin = earlier.get((block, dimension, parts[:count]))
        if begin is None:
            continue
        with concatenation.location, ir.InsertionPoint(concatenation):
            result = tensor.concat(
                concatenation.results[0].type, dimension, [begin.results[0], *parts[count:]]
            )
        concatenation.results[0].replace_all_uses_with(result)
        concatenation.erase()
        extended = result.owner.operation
        break
    earlier[block, dimension, parts] = extended
