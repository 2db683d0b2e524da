"""What a compiled part of a model is kept by."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from iree.winograd.importers.torch_graphs import layer_name
from iree.winograd.pipelines.machines.store import machine_path
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

_CPU_INFORMATION = Path("/proc/cpuinfo")
_WHEELS = ("iree-base-compiler", "torch", "torch-mlir")
_PACKAGES = ("iree.winograd", "iree.winograd.dialect", "iree.winograd.passes", "iree.winograd.pipelines")


def structure_key(graph: Graph, flags: Sequence[str], files: Sequence[str | None]) -> str:
    """A digest of all that decides about a compiled program, but what its weights hold.

    That is its `graph`, `flags`, the contents of `files`, this processor and the machines that were
    calibrated on it, the compilers, and this package.
    """
    digest = hashlib.sha256()
    for text in (*flags, _processor(), *map(version, _WHEELS), _sources_digest()):
        _add(digest, text.encode())
    _add_graph(digest, graph)
    machines = sorted(map(str, machine_path("any").parent.glob("*.json")))
    for path in (*machines, *filter(None, files)):
        _add(digest, Path(path).read_bytes())
    return digest.hexdigest()


def program_key(structure: str, weights: Iterable[torch.Tensor]) -> str:
    """A digest of the program of this `structure_key` with these `weights`."""
    digest = hashlib.sha256(structure.encode())
    for weight in weights:
        _add(digest, weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _add(digest: hashlib._Hash, data: bytes | memoryview) -> None:
    digest.update(f"{len(data)}\n".encode())
    digest.update(data)


def _add_graph(digest: hashlib._Hash, graph: Graph) -> None:
    """What torch-mlir reads of `graph`, and the names of layers: nodes have no others than their numbers."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        arguments = pytree.tree_map(lambda value: _argument(numbers, value), (node.args, dict(node.kwargs)))
        # Some operators' results have types that their arguments don't tell, as torch's default one.
        types = pytree.tree_map(tensor_type, node.meta.get("val"))
        facts = (node.op, _target(node), arguments, types, layer_name(node))
        _add(digest, repr(facts).encode())


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


@cache
def _processor() -> str:
    """What the compiler may make use of here."""
    try:
        lines = _CPU_INFORMATION.read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    facts = ("flags", "Features", "model name", "cache size")
    return "\n".join(sorted({line for line in lines if line.startswith(facts)}))


@cache
def _sources_digest() -> str:
    """Of this package: the choice of algorithms is part of a program, not only the kernels."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        specification = find_spec(package)
        assert specification is not None and specification.origin is not None
        folder = Path(specification.origin).parent
        for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".json", ".mlir")):
            _add(digest, str(path.relative_to(folder)).encode())
            _add(digest, path.read_bytes())
    return digest.hexdigest()
