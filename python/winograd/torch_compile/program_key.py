"""What a compiled part of a model is kept by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

import torch
from iree.winograd.importers.torch_graphs import layer_name
from iree.winograd.keeping.compiler_digest import add, compiler_digest
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

_WHEELS = ("torch", "torch-mlir")


def structure_key(graph: Graph, flags: Sequence[str], files: Sequence[str | None]) -> str:
    """A digest of all that decides about a compiled program, but what its weights hold.

    That is its `graph`, `flags`, the contents of `files`, this processor and the machines that were
    calibrated on it, the compilers, and this package.
    """
    digest = compiler_digest((*flags, *map(version, _WHEELS)), files)
    _add_graph(digest, graph)
    return digest.hexdigest()


def program_key(structure: str, weights: Iterable[torch.Tensor]) -> str:
    """A digest of the program of this `structure_key` with these `weights`."""
    digest = hashlib.sha256(structure.encode())
    for weight in weights:
        add(digest, weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _add_graph(digest: hashlib._Hash, graph: Graph) -> None:
    """What torch-mlir reads of `graph`, and the names of layers: nodes have no others than their numbers."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        arguments = pytree.tree_map(lambda value: _argument(numbers, value), (node.args, dict(node.kwargs)))
        # Some operators' results have types that their arguments don't tell, as torch's default one.
        types = pytree.tree_map(tensor_type, node.meta.get("val"))
        facts = (node.op, _target(node), arguments, types, layer_name(node))
        add(digest, repr(facts).encode())


def _argument(numbers: dict[Node, int], value: Any) -> Any:
    if isinstance(value, Node):
        return f"%{numbers[value]}"
    return tensor_type(value) if isinstance(value, torch.Tensor) else value


def tensor_type(value: Any) -> str:
    """What programs are compiled for of a tensor; the text of another value."""
    if not isinstance(value, torch.Tensor):
        return str(value)
    return f"{value.dtype} {tuple(value.shape)} {value.stride()}"


def _target(node: Node) -> str:
    target: Any = node.target
    # Text of other functions has their addresses.
    if isinstance(target, (str, torch._ops.OpOverload)):
        return str(target)
    return f"{target.__module__}.{target.__qualname__}"
