"""What runs the operators that aren't compiled here: torch's Inductor, or torch itself."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch.fx import GraphModule

Function = Callable[..., Any]
Fallback = Literal["inductor", "eager"]


# The folders of this package and of torch.
_BETWEEN = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent), "<eval_with_key>")


class FallbackWarning(UserWarning):
    """Something of a model that was given to `torch.compile(backend="winograd")` isn't compiled by it."""


def warn(message: str) -> None:
    """Warn at the line of the user's that had torch compile something."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, FallbackWarning, stacklevel=level + 1)


@cache
def warn_once(message: str) -> None:
    """Warn a process of what it need not hear again."""
    warn(message)


def compile_elsewhere(graph: GraphModule, inputs: Sequence[Any], fallback: Fallback) -> Function:
    """`graph` compiled by the fallback; eagerly, with a warning, where Inductor has no C++ compiler."""
    if fallback == "eager" or not _has_compiler():
        return graph
    # Inductor takes as long to load as all else; a model that is one part doesn't need it.
    from torch._inductor.compile_fx import compile_fx

    return cast(Function, compile_fx(graph, list(inputs)))


def compile_rest(part: GraphModule, fallback: Fallback) -> Function:
    """`part` of a graph that torch has functionalised, compiled as above."""
    inputs = [node.meta["val"] for node in part.graph.find_nodes(op="placeholder")]
    # The compilation of the graph that this is a part of goes on afterwards.
    with tracing(TracingContext(detect_fake_mode(inputs))):
        return compile_elsewhere(part, inputs, fallback)


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
