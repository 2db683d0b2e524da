"""Have each call of a program be of a function of its own."""

from __future__ import annotations

from collections import defaultdict
from graphlib import CycleError, TopologicalSorter

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import called_function, is_public, symbol_name, walk

_FUNCTION = "util.func"
_CALLERS = (_FUNCTION, "util.initializer")
_SYMBOL_NAME = "sym_name"


@register_pass("winograd-separate-calls")
class SeparateCalls:
    """Have each call of a program be of a function of its own.

    IREE 3.13 has a function take once what all of its callers pass twice. `iree-util-ipo` doesn't tell a
    caller that passes two values from none: where one does, and those after it pass one value twice, all
    pass the first value only, and the function computes something else for that caller. Different values
    become one on the way, too, as parts of one memory. With one caller nothing is confused. Kernels and
    constants remain one.

        util.func private @difference(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
        %0 = util.call @difference(%a, %b)
        %1 = util.call @difference(%a, %a)
      becomes
        util.func private @difference(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
        util.func private @difference_1(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
        %0 = util.call @difference(%a, %b)
        %1 = util.call @difference_1(%a, %a)

    IREE has inlined most functions before. Public ones stay as they are, since IREE leaves their arguments.
    So do all functions of a program in which one calls itself.
    """

    def run(self, module: ir.Operation) -> None:
        program = _Program(module)
        rewrite_each("function", program.called, program.separate)


class _Program:
    """The functions of a module and who calls them, as they become separate."""

    called: list[ir.Operation]
    """Private functions, each after those that call it; none where a function calls itself."""

    def __init__(self, module: ir.Operation) -> None:
        symbols = [each.operation for each in module.regions[0].blocks[0].operations]
        self._names = {symbol_name(each) for each in symbols if _SYMBOL_NAME in each.attributes}
        self._calls: dict[str, list[ir.Operation]] = defaultdict(list)
        """By the name of the function."""
        private = {symbol_name(each): each for each in symbols if _is_private_function(each)}
        callers: dict[str, list[str]] = {name: [] for name in private}
        for symbol in symbols:
            for call in self._note_calls(symbol) if symbol.name in _CALLERS else []:
                if (name := called_function(call)) in private and _is_private_function(symbol):
                    callers[name].append(symbol_name(symbol))
        try:
            self.called = [private[name] for name in TopologicalSorter(callers).static_order()]
        except CycleError:
            self.called = []

    def separate(self, function: ir.Operation) -> None:
        """Have every call of `function` but the first call a copy of it."""
        for call in self._calls[symbol_name(function)][1:]:
            with ir.InsertionPoint(function):
                copy = function.clone().operation
            name = self._unused_name(function)
            copy.attributes[_SYMBOL_NAME] = ir.StringAttr.get(name, call.context)
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(name, call.context)
            self._note_calls(copy)

    def _note_calls(self, symbol: ir.Operation) -> list[ir.Operation]:
        calls = [each for each in walk(symbol) if each.name == "util.call"]
        for call in calls:
            self._calls[called_function(call)].append(call)
        return calls

    def _unused_name(self, function: ir.Operation) -> str:
        name, number = symbol_name(function), 1
        while (unused := f"{name}_{number}") in self._names:
            number += 1
        self._names.add(unused)
        return unused


def _is_private_function(symbol: ir.Operation) -> bool:
    return symbol.name == _FUNCTION and bool(symbol.regions[0].blocks) and not is_public(symbol)
