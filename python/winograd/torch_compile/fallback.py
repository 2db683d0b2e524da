"""What runs the operators that aren't compiled here: torch's Inductor, or torch itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, cast

from iree.winograd.torch_compile.contained import PASSED_ON, Contained, Function, failure_text
from iree.winograd.torch_compile.fallback_warning import warn, warn_once
from iree.winograd.torch_compile.views_outside import is_view
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule

Fallback = Literal["inductor", "eager"]


def compile_elsewhere(graph: GraphModule, inputs: Sequence[Any], fallback: Fallback) -> Function:
    """`graph` compiled by the fallback; as it is, with a warning, where Inductor or its compiler fails."""
    if fallback == "eager" or not _has_compiler():
        return graph
    message = f"left to eager, since torch's Inductor failed: {graph_size(graph)}"
    try:
        compiled = _compile_by_inductor(graph, inputs)
    except PASSED_ON:
        raise
    except Exception as error:
        warn(f"{message} ({failure_text(error)})")
        return graph
    return Contained(compiled, lambda: graph, message)


def compile_rest(part: GraphModule, fallback: Fallback) -> Function:
    """`part` of a graph that torch has functionalised, compiled as above."""
    inputs = [node.meta["val"] for node in part.graph.find_nodes(op="placeholder")]
    # The compilation of the graph that this is a part of goes on afterwards.
    with tracing(TracingContext(detect_fake_mode(inputs))):
        return compile_elsewhere(part, inputs, fallback)


def graph_size(graph: GraphModule) -> str:
    """How many operators `graph` has, for a warning."""
    count = sum(node.op == "call_function" for node in graph.graph.nodes)
    return f"all {count} operators of a graph"


def _compile_by_inductor(graph: GraphModule, inputs: Sequence[Any]) -> Function:
    # Inductor takes as long to load as all else; a model that is one part doesn't need it.
    from torch._inductor.compile_fx import compile_fx

    _begin_anew_in_forks()
    return cast(Function, compile_fx(_without_primitive_views(graph), list(inputs)))


@cache
def _begin_anew_in_forks() -> None:
    """Have children of this process that compile start threads of their own for it.

    Torch keeps the pool of its parent's for a child, which hasn't these threads and waits for them for ever.
    """
    from torch._inductor.async_compile import AsyncCompile

    forget = getattr(AsyncCompile.pool, "cache_clear", None)
    if forget is not None and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


def _without_primitive_views(graph: GraphModule) -> GraphModule:
    """`graph` by the functions of torch's that primitive operators stand for which are views.

    Torch decomposes others to them, for torch-mlir. AOTAutograd, by which Inductor makes graphs functional,
    takes none.
    """
    copied = Graph()
    copied.output(copied.graph_copy(graph.graph, {}))
    for node in copied.nodes:
        if isinstance(node.target, OpOverload) and node.target.namespace == "prims" and is_view(node):
            node.target = getattr(node.target, "impl_aten", node.target)
    return GraphModule(graph, copied)


def _has_compiler() -> bool:
    from torch._inductor import cpp_builder
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        cpp_builder.get_cpp_compiler()
    except InvalidCxxCompiler:
        warn_once(
            "torch's Inductor has no C++ compiler: what isn't compiled by backend 'winograd' runs eagerly "
            "(install g++, or ask for options={'fallback': 'eager'})"
        )
        return False
    return True
