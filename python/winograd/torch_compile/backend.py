"""The backend `winograd` of `torch.compile`, which torch finds by the package's entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

if TYPE_CHECKING:
    from torch.fx import GraphModule


def winograd(
    graph: GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph that `torch.compile` traced, called on `inputs` on the CPU.

    `options` are the fields of `TorchCompileOptions`. What this project or torch-mlir has no code for goes to
    the fallback, with a `FallbackWarning` that says why. Raises `InvalidOptionError` for options that aren't
    known or have bad values.
    """
    # torch holds this function, and what it can reach, beyond the end of the interpreter; devices of IREE's
    # runtime are to end before, which reports them otherwise.
    from iree.winograd.torch_compile.graph_compiler import GraphCompiler
    from iree.winograd.torch_compile.settings import read_settings

    return GraphCompiler(read_settings(mode, options), lambda explained: None).compile(graph, inputs)


def lent(compile: Callable[..., Any]) -> Callable[..., Any]:
    """The bound method `compile` as a backend that torch may hold as long as it likes, as it does `winograd`.

    Call it while the object of the method lives.
    """
    method = WeakMethod(compile)

    def call(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        bound = method()
        assert bound is not None
        compiled: Callable[..., Any] = bound(graph, inputs)
        return compiled

    return call
