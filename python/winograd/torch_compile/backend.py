"""The backend `winograd` of `torch.compile`, which torch finds by the package's entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
