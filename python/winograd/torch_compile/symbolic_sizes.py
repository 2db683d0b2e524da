"""Numbers of torch's graphs that are known only in a call: sizes, and what is computed of them."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import torch
from iree.winograd.errors import ModelImportError
from iree.winograd.importers.torch_operators.resizing import MOST_PARTS
from torch.fx import Graph, Node, Proxy
from torch.fx.node import map_arg
from torch.fx.proxy import TraceError
from torch.utils._sympy.functions import FloorDiv, FloorToInt, ToFloat, TruncToInt
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis


class _Arithmetic(PythonReferenceAnalysis):
    """Torch's own, of what isn't numbers yet as well."""

    int_truediv = staticmethod(operator.truediv)


_Symbols = Mapping[object, Node]
"""The nodes that the symbols of torch's expressions are."""


def is_size(node: Node) -> bool:
    """Whether the value of `node` is such a number."""
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat))


def read_sizes(graph: Graph) -> None:
    """Has `graph` compute its numbers of those that it is given, where torch's arithmetic does so.

    Torch asks for sizes of what lies between: a part of the graph that computes it, and all that reads the
    number, couldn't be one program.
    """
    given = {
        node.meta["val"].node.expr: node
        for node in graph.find_nodes(op="placeholder")
        if is_size(node) and node.meta["val"].node.expr.is_symbol
    }
    computed = [node for node in graph.nodes if node.op == "call_function" and is_size(node)]
    known = [node for node in computed if _is_computable(node.meta["val"].node.expr, given.keys())]
    with graph.inserting_before(_first(graph)):
        _compute(graph, known, given)
    for node in reversed(known):
        if not node.users:
            graph.erase_node(node)


def bind_sizes(graph: Graph, sizes: Iterable[Node]) -> None:
    """Has `graph` read `sizes`, its arguments, from the shapes of its tensors.

    Raises `ModelImportError` where these don't tell one, or torch's arithmetic doesn't compute it.
    """
    with graph.inserting_before(_first(graph)):
        symbols: dict[object, Node] = {}
        for node, dimension, size in _dimensions(graph):
            read = graph.call_function(torch.ops.aten.sym_size.int, (node, dimension))
            read.meta["val"] = size
            symbols.setdefault(size.node.expr, read)
        _compute(graph, sizes, symbols)
    graph.eliminate_dead_code()


def _is_computable(expression: Any, symbols: Collection[object]) -> bool:
    """Whether torch's arithmetic builds nodes of a graph for `expression`, of these `symbols`.

    It doesn't for a number that is known, nor for most that are rounded to an integer.
    """
    if not expression.free_symbols or not expression.free_symbols <= symbols:
        return False
    scratch = Graph()
    proxies = {each: Proxy(scratch.placeholder(str(each))) for each in expression.free_symbols}
    return _computed(expression, proxies) is not None


def _computed(expression: Any, proxies: dict[object, Proxy]) -> Node | None:
    """The node that computes `expression`; None where torch's arithmetic builds none."""
    try:
        result = sympy_interp(_Arithmetic, proxies, _in_integers(expression))
    except (TypeError, TraceError):
        return None
    return result.node if isinstance(result, Proxy) else None


def _in_integers(expression: Any) -> Any:
    """`expression` in which sizes by a factor like 0.75, rounded downwards, are quotients of integers."""
    return expression.replace(
        lambda part: isinstance(part, FloorToInt | TruncToInt), lambda part: _quotient(part) or part
    )


def _quotient(rounded: Any) -> Any:
    """What `int(0.75 * size)` is in integers; None of other numbers than sizes, or of finer factors.

    A size by a factor of few parts is exact in floating point, too.
    """
    factor, number = rounded.args[0].as_coeff_Mul()
    if not isinstance(number, ToFloat) or not factor.is_Float:
        return None
    (size,) = number.args
    numerator, denominator = float(factor).as_integer_ratio()
    if denominator > MOST_PARTS or numerator < 0 or not size.is_nonnegative:
        return None
    return FloorDiv(numerator * size, denominator)


def _first(graph: Graph) -> Node:
    """That which isn't an argument."""
    first: Node = next(node for node in graph.nodes if node.op != "placeholder")
    return first


def _dimensions(graph: Graph) -> Iterator[tuple[Node, int, torch.SymInt]]:
    """Those of its arguments that are symbols."""
    for node in graph.find_nodes(op="placeholder"):
        if not is_size(node):
            for dimension, size in enumerate(node.meta["val"].shape):
                if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                    yield node, dimension, size


def _compute(graph: Graph, numbers: Iterable[Node], symbols: _Symbols) -> None:
    """Replace what uses `numbers`, where nodes are inserted, by what is computed of `symbols`."""
    proxies = {symbol: Proxy(node) for symbol, node in symbols.items()}
    found: dict[object, Node] = {}
    for number in numbers:
        expression = number.meta["val"].node.expr
        if not expression.free_symbols <= symbols.keys():
            raise ModelImportError(f"the size {expression} isn't in the shape of an argument")
        if expression not in found:
            computed = _computed(expression, proxies)
            if computed is None:
                raise ModelImportError(f"no arithmetic of sizes computes {expression}")
            _note_values(computed)
            found[expression] = computed
        number.replace_all_uses_with(found[expression])


def _note_values(node: Node) -> None:
    """Has `node`, and those that compute what it takes, know their values."""
    if "val" not in node.meta:
        assert callable(node.target)
        for operand in node.all_input_nodes:
            _note_values(operand)
        values = map_arg((node.args, node.kwargs), lambda operand: operand.meta["val"])
        node.meta["val"] = node.target(*values[0], **values[1])
