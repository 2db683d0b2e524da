"""A divided graph whose submodules are functions, as AOTAutograd calls it."""

from __future__ import annotations

from typing import Any

import torch
from iree.winograd.torch_compile.contained import Function
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen


class Call(torch.nn.Module):
    """A function as a submodule."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, *arguments: Any) -> Any:
        """The results of the function."""
        return self._function(*arguments)


def boxed(graph: GraphModule) -> Function:
    """`graph` as torch calls it, with a list of arguments, which lives no longer than they are needed."""
    graph.graph.set_codegen(_BoxedCodeGen())
    graph.recompile()

    def call(arguments: list[Any]) -> Any:
        return graph(arguments)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
