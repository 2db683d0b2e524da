"""A graph whose sizes are known only when it is called: a program for each of the sizes that come often."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from iree.winograd.loading.call_counts import CallCounts
from iree.winograd.torch_compile.contained import Function
from iree.winograd.torch_compile.fallback_warning import warn
from iree.winograd.torch_compile.loaded_part import selection
from torch.fx import Graph, GraphModule, Node

Sizes = tuple[Any, ...]
"""Those of a call: its arguments that are numbers, and the shapes and strides of others that may change."""


class SizedFunction:
    """`graph`, which torch traced with symbols for sizes, with a program for each of at most `most` sizes.

    `compile_static` makes one of a graph without symbols, for tensors like those that it is given. Other
    sizes run eagerly, with a warning; where they come often they take the place of those used least recently.
    """

    def __init__(
        self,
        graph: GraphModule,
        compile_static: Callable[[GraphModule, Sequence[torch.Tensor]], Function],
        most: int,
    ) -> None:
        self._graph = graph
        self._compile_static = compile_static
        self._most = most
        # There may be hundreds of weights: a call looks only at what may differ from those before.
        self._varying = [
            _Varying(number, bool(_readings(node)))
            for number, node in enumerate(graph.graph.find_nodes(op="placeholder"))
            if _has_symbols(node) or _readings(node)
        ]
        self._programs: OrderedDict[Sizes, Function] = OrderedDict()
        self._counts = CallCounts()
        self._lock = threading.Lock()
        self._has_warned = False

    def __call__(self, *arguments: Any) -> Any:
        """The results of the graph."""
        sizes = self._sizes(arguments)
        with self._lock:
            function = self._programs.get(sizes)
            if function is None:
                function = self._function(sizes, arguments)
            else:
                self._programs.move_to_end(sizes)
        return function(*arguments)

    def _function(self, sizes: Sizes, arguments: Sequence[Any]) -> Function:
        """What computes the results for tensors of these sizes, which have no program."""
        if any(_is_empty(arguments[each.number]) for each in self._varying):
            # There is next to nothing to compute.
            return self._graph
        if len(self._programs) >= self._most:
            if not self._counts.is_often(sizes):
                self._warn()
                return self._graph
            self._programs.popitem(last=False)
        self._programs[sizes] = self._compile(arguments)
        return self._programs[sizes]

    def _sizes(self, arguments: Sequence[Any]) -> Sizes:
        sizes: list[Any] = []
        for number, is_read in self._varying:
            argument = arguments[number]
            if not isinstance(argument, torch.Tensor):
                sizes.append(argument)
            elif is_read:
                sizes.append(argument.item())
            else:
                sizes.append((argument.shape, argument.stride()))
        return tuple(sizes)

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            warn(
                f"left to eager: a graph of the model for sizes beyond the first {self._most}, which have a "
                "program each (ask for more by options={'sizes': ...}, or have images come in fewer sizes)"
            )

    def _compile(self, arguments: Sequence[Any]) -> Function:
        """The graph for sizes that are known."""
        graph = static_graph(self._graph, arguments)
        tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
        if len(tensors) == len(arguments):
            return self._compile_static(graph, tensors)
        numbers = [number for number, each in enumerate(arguments) if isinstance(each, torch.Tensor)]
        function, select = self._compile_static(graph, tensors), selection(numbers)
        return lambda *given: function(*select(given))


class _Varying(NamedTuple):
    """An argument that may differ from call to call other than in a tensor's elements.

    Whether it is a number that comes as a tensor, and is read.
    """

    number: int
    is_read: bool


def static_graph(graph: GraphModule, arguments: Sequence[Any]) -> GraphModule:
    """A copy of `graph` on the tensors of its `arguments`, in which numbers are constants."""
    copied = Graph()
    copied.output(copied.graph_copy(graph.graph, {}))
    originals = graph.graph.find_nodes(op="placeholder")
    for original, node, argument in zip(
        originals, copied.find_nodes(op="placeholder"), arguments, strict=True
    ):
        if isinstance(argument, torch.Tensor):
            for reading in _readings(node):
                _replace_by_constant(reading, argument.item())
            _copy_origin(original, node, ("_dynamo_source",))
        else:
            _replace_by_constant(node, argument)
    module = GraphModule(graph, copied)
    module.meta = graph.meta
    _copy_origin(graph, module, ("_param_name_to_source",))
    return module


def _replace_by_constant(node: Node, value: Any) -> None:
    node.replace_all_uses_with(value)
    node.graph.erase_node(node)


def _copy_origin(source: Any, copy: Any, names: Sequence[str]) -> None:
    """What AOTAutograd reads of torch's graphs to know which arguments are a model's weights."""
    for name in names:
        if hasattr(source, name):
            setattr(copy, name, getattr(source, name))


def _readings(node: Node) -> list[Node]:
    """Where the number is read that an argument of torch's graph is, which comes as a tensor."""
    return [user for user in node.users if user.op == "call_method" and user.target == "item"]


def _is_empty(argument: Any) -> bool:
    return isinstance(argument, torch.Tensor) and not argument.numel()


def _has_symbols(node: Node) -> bool:
    """Whether the shape or the strides of an argument of torch's graph may differ from call to call."""
    value = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return True
    return not all(isinstance(size, int) for size in (*value.shape, *value.stride()))
