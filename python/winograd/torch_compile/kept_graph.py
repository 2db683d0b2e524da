"""Graphs that torch traced and whose programs are kept: what later processes need not divide and lower again.

AOTAutograd takes as long for a network as all else that such a process does, but for torch's own tracing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import getitem
from typing import Any

import torch
from iree.winograd.keeping.program_cache import ProgramCache
from iree.winograd.loading.launched_function import Order
from iree.winograd.torch_compile.division import Division
from iree.winograd.torch_compile.part_program import Argument, PartSignature, output_nodes
from iree.winograd.torch_compile.program_key import tensor_type
from iree.winograd.torch_compile.symbolic_sizes import is_size
from torch._functorch._aot_autograd.schemas import OutputType, ViewAndMutationMeta
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

_COMPUTED = -1
"""In place of the number of an input: what the program isn't given."""
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_CONSTANTS = (
    bool,
    int,
    float,
    complex,
    str,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    type(None),
    type(...),
)
"""Types of arguments whose text says all of them."""


@dataclass(frozen=True)
class KeptGraph:
    """A graph that is one part: how its program is called on the graph's inputs, which numbers stand for."""

    structure: str
    """The `structure_key` of the program."""
    weights: tuple[int, ...]
    """The inputs that the program holds, in the order of its key."""
    fixed: tuple[int, ...]
    """Those that usually are the same tensors from call to call."""
    arguments: tuple[tuple[int, Order | None], ...]
    results: tuple[Order | None, ...]
    outputs: tuple[int, ...]
    """Which of the results each output of the graph is."""
    operators: int

    def signature(self, device: torch.device) -> PartSignature:
        """How the program is called."""
        arguments = tuple(Argument(number, order) for number, order in self.arguments)
        return PartSignature(arguments, self.results, device)

    def write(self, cache: ProgramCache, key: str) -> None:
        """Keep this under `key`. Raises OSError."""
        cache.write_graph(key, json.dumps(asdict(self)))


def read_graph(cache: ProgramCache, key: str) -> KeptGraph | None:
    """What is kept under `key`; None for nothing, or what is damaged."""
    try:
        return KeptGraph(**_tuples(json.loads(cache.read_graph(key))))
    except (OSError, ValueError, TypeError):
        return None


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {name: _tuples(each) for name, each in value.items()} if isinstance(value, dict) else value


def describe(graph: GraphModule, inputs: Sequence[Any]) -> tuple[str, ...] | None:
    """What decides, beside the nodes of `graph`, about what AOTAutograd makes of it.

    None where the text of nodes doesn't say what they compute, or where sizes or types are known only later.
    """
    if not are_plain(inputs):
        return None
    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    if len(tensors) != len(inputs) or not all(map(_is_plain, graph.graph.nodes)):
        return None
    state = (torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled())
    return (*map(str, state), *(f"{tensor_type(each)} {_placement(each)}" for each in tensors))


def are_plain(inputs: Sequence[Any]) -> bool:
    """Whether a program takes `inputs` of a graph, tensors and sizes, as AOTAutograd would give them."""
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        return False
    return all(isinstance(each, torch.SymInt) or type(each) in _TENSORS for each in inputs)


def _placement(tensor: torch.Tensor) -> tuple[Any, ...]:
    is_view = tensor._is_view() or tensor.is_neg() or tensor.is_conj()
    return (str(tensor.device), str(tensor.layout), is_view, tensor.is_inference(), type(tensor).__name__)


def _is_plain(node: Node) -> bool:
    """Whether the text of `node` says what it computes in every process with the same torch."""
    if node.op not in ("placeholder", "call_function", "call_method", "output"):
        return False
    leaves = pytree.tree_leaves((node.args, dict(node.kwargs)))
    if not all(isinstance(leaf, (Node, *_CONSTANTS)) for leaf in leaves):
        return False
    target: Any = node.target
    if node.op != "call_function":
        return True
    if isinstance(target, HigherOrderOperator):
        return False
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        return str(target).startswith(("aten.", "prims."))
    if not isinstance(getattr(target, "__qualname__", None), str):
        # An object that can be called, such as dynamo's for functions of numpy, may hold anything.
        return False
    module = getattr(target, "__module__", None) or ""
    return module.partition(".")[0] in ("torch", "_operator", "math", "builtins")


def kept_graph(
    division: Division,
    structure: str,
    metadata: ViewAndMutationMeta,
    fixed: Mapping[str, torch.Tensor],
    given: Sequence[Any],
) -> KeptGraph | None:
    """`division` of the functional graph that torch says `metadata` of; None where it isn't just one part.

    `fixed` are those of the `given` arguments that stay as they are, by their names.
    """
    graph = division.graph.graph
    placeholders = graph.find_nodes(op="placeholder")
    if division.rest or division.rejections or len(division.parts) != 1 or not is_functional(metadata):
        return None
    if len(placeholders) != len(given):
        return None
    numbers = {node: number for number, node in enumerate(placeholders)}
    (call,) = graph.find_nodes(op="call_module")
    # A program reads sizes from the shapes of its tensors, whatever they are computed of in the graph.
    others = [
        node
        for node in graph.nodes
        if node.op == "call_function" and node.target is not getitem and not is_size(node)
    ]
    outputs = [_result_number(node, call) for node in output_nodes(graph)]
    taken = [node for node in call.args if isinstance(node, Node)]
    if others or None in outputs or not all(node in numbers or is_size(node) for node in taken):
        return None
    inputs = [numbers.get(node, _COMPUTED) for node in taken]
    program = division.parts[0].program
    held = {id(given[number]): number for number in inputs if number != _COMPUTED}
    weights = [held.get(id(weight)) for weight in program.weights]
    if None in weights:
        return None
    signature = program.signature
    return KeptGraph(
        structure,
        tuple(number for number in weights if number is not None),
        tuple(numbers[node] for node in placeholders if node.name in fixed and numbers[node] in inputs),
        tuple((inputs[argument.number], argument.order) for argument in signature.arguments),
        signature.results,
        tuple(number for number in outputs if number is not None),
        _count(division.parts[0].graph.graph.nodes),
    )


def is_functional(metadata: ViewAndMutationMeta) -> bool:
    """Whether outputs are new tensors, and nothing else is to be done but to compute them."""
    changes = any(info.mutates_data or info.mutates_metadata for info in metadata.input_info)
    aliases = any(info.output_type is not OutputType.non_alias for info in metadata.output_info)
    return not (changes or aliases or metadata.tokens or metadata.grad_enabled_mutation is not None)


def _result_number(node: Any, call: Node) -> int | None:
    """Which result of the only part an output is, None if it is something else."""
    if node is call:
        return 0
    if isinstance(node, Node) and node.target is getitem and node.args[0] is call:
        number = node.args[1]
        return number if isinstance(number, int) else None
    return None


def _count(nodes: Iterable[Node]) -> int:
    return sum(node.op == "call_function" and node.target is not getitem for node in nodes)
