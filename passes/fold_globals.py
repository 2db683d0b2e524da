"""Weights that programs hold as globals, where they are used."""

from __future__ import annotations

from collections.abc import Iterator

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import is_public, symbol_name, walk
from iree.winograd.passes.match.values.elements import holds_elements

_LOAD = "util.global.load"


@register_pass("winograd-fold-globals")
class FoldGlobals:
    """Have what loads a global whose elements are known be the constant.

    Exporters write weights as globals, which other functions of a program might write to. Only filters that
    are constants are transformed at compile time, and IREE makes globals constants later than that. A global
    stays where the program stores to it or takes its address, where its elements come from another file, and
    where it is mutable and public.

        util.global private @weight = dense_resource<weight> : tensor<64x32x3x3xf32>
        %w = util.global.load @weight : tensor<64x32x3x3xf32>
      becomes
        %w = arith.constant dense_resource<weight> : tensor<64x32x3x3xf32>
    """

    def run(self, module: ir.Operation) -> None:
        uses: dict[str, list[ir.Operation]] = {}
        for operation in walk(module):
            if "global" in operation.attributes:
                name = ir.FlatSymbolRefAttr(operation.attributes["global"]).value
                uses.setdefault(name, []).append(operation)
        constant = list(_constant_globals(module, uses))
        rewrite_each("global", constant, lambda each: _fold(each, uses[symbol_name(each)]))


def _constant_globals(module: ir.Operation, uses: dict[str, list[ir.Operation]]) -> Iterator[ir.Operation]:
    """The globals that are only loaded, and whose elements the program holds."""
    for view in module.regions[0].blocks[0].operations:
        operation = view.operation
        if operation.name != "util.global" or "inlining_policy" in operation.attributes:
            continue
        if "is_mutable" in operation.attributes and is_public(operation):
            continue
        loads = uses.get(symbol_name(operation), [])
        if not loads or any(each.name != _LOAD for each in loads):
            continue
        if holds_elements(operation.attributes.get("initial_value")):
            yield operation


def _fold(variable: ir.Operation, loads: list[ir.Operation]) -> None:
    value = variable.attributes["initial_value"]
    for load in loads:
        with load.location, ir.InsertionPoint(load):
            constant = ir.Operation.create(
                "arith.constant", results=[load.results[0].type], attributes={"value": value}
            )
        load.results[0].replace_all_uses_with(constant.result)
        load.erase()
    if not is_public(variable):
        variable.erase()
