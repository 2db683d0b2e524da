"""The division of a graph into parts to compile here, those that hold convolutions, and the rest."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from iree.winograd.torch_compile.contained import PASSED_ON, attempt, failure_text
from iree.winograd.torch_compile.part_program import ENTRY, PartProgram, part_program
from iree.winograd.torch_compile.symbolic_sizes import is_size, read_sizes
from iree.winograd.torch_compile.views_outside import take_views_outside
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

if TYPE_CHECKING:
    from iree.winograd.importers.imported_model import ImportedModel

CONVOLUTION = torch.ops.aten.convolution.default

PART_PREFIX = "winograd_part_"
"""Of the names of submodules that are compiled here."""

_ELEMENT_TYPES = frozenset(
    (
        torch.bfloat16,
        torch.float16,
        torch.float32,
        torch.bool,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
    )
)
"""What programs take and give; of 64-bit floats IREE would make those of 32 bits."""
_QUANTIZATION = "quantized_decomposed"
"""The operators of PT2E. Bytes without a sign, which some have, stay within a program."""
_CONVOLVED = frozenset((torch.bfloat16, torch.float16, torch.float32))
"""The types that our kernels convolve, on the kinds of devices that there are some for."""
_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Rejection:
    """Why operators aren't compiled here."""

    operators: tuple[str, ...]
    """Their names, one of each call."""
    reason: str

    def __str__(self) -> str:
        return f"{', '.join(dict.fromkeys(self.operators))} ({self.reason})"


Gradient = Literal["input", "weight"]
"""What of a convolution a gradient is of."""


@dataclass(frozen=True)
class ConvolutionRole:
    """What a convolution is to the model: the layer of this name, or a gradient of it."""

    layer: str
    gradient: Gradient | None

    def __str__(self) -> str:
        layer = self.layer or "a convolution"
        return layer if self.gradient is None else f"{self.gradient} gradient of {layer}"


@dataclass(frozen=True, eq=False)
class Part:
    """A submodule of the divided graph that is compiled here.

    `model` is the program as torch-mlir lowers it, None where it is compiled already. `weights` are those of
    its arguments, by number, that stay as they are from call to call. A part for training holds one
    convolution, and has its `role`.
    """

    name: str
    graph: GraphModule
    program: PartProgram
    model: ImportedModel | None
    weights: Mapping[int, torch.Tensor]
    role: ConvolutionRole | None = None


@dataclass(frozen=True, eq=False)
class Division:
    """A graph as calls of submodules: the `parts` that are compiled here, and what is in `rest`."""

    graph: GraphModule
    parts: tuple[Part, ...]
    rest: tuple[str, ...]
    rejections: tuple[Rejection, ...]


def divide(
    graph: GraphModule,
    weights: Mapping[str, torch.Tensor],
    device: torch.device,
    minimum_convolutions: int,
    freezing: bool,
    is_compiled: Callable[[PartProgram], bool],
) -> Division:
    """Divide `graph`, which torch has functionalised and decomposed for torch-mlir, into parts on `device`.

    `weights` are those of its arguments that stay as they are from call to call, by their names. With
    `freezing` they are constants of the parts' programs. Torch-mlir is asked to lower a program unless it
    `is_compiled`.
    """
    support = _Support(device)
    while True:
        divided, names, views = _fuse(graph, support, minimum_convolutions)
        parts = []
        for name in names:
            part = _part(divided, name, weights, freezing, support, is_compiled)
            if part is not None:
                parts.append(part)
        if len(parts) == len(names):
            rest = fuse_rest(divided, names, views)
            return Division(divided, tuple(parts), rest, tuple(support.rejections(graph.graph)))


def copy_graph(graph: GraphModule) -> GraphModule:
    """A copy whose nodes have the same names, on the attributes of `graph`."""
    copied = Graph()
    copied.output(copied.graph_copy(graph.graph, {}))
    return GraphModule(graph, copied)


def called_modules(graph: Graph) -> tuple[str, ...]:
    """The names of the submodules that `graph` calls, in its order."""
    return tuple(str(node.target) for node in graph.find_nodes(op="call_module"))


class _Support(OperatorSupportBase):
    """Which nodes go to parts that are compiled here."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        # By operator, since one that torch-mlir rejects it usually does so elsewhere.
        self._rejected: dict[Any, str] = {}
        self._left: dict[str, str] = {}

    def reject(self, target: Any, reason: str) -> bool:
        """Leave all nodes of an operator; whether they weren't left already."""
        is_first = target not in self._rejected
        self._rejected.setdefault(target, reason)
        return is_first

    def leave(self, nodes: Iterator[Node], reason: str) -> None:
        """Leave these nodes."""
        self._left.update((node.name, reason) for node in nodes)

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return node.op == "call_function" and not _is_number(node) and self.reason(node) is None

    def reason(self, node: Node) -> str | None:
        """Why `node` isn't compiled here, if it isn't."""
        if node.name in self._left:
            return self._left[node.name]
        if node.target is operator.getitem:
            return self.reason(node.all_input_nodes[0])
        return self._rejected.get(node.target) or unsupported(node, self.device)

    def rejections(self, graph: Graph) -> Iterator[Rejection]:
        """Why the nodes of `graph` aren't compiled here that aren't, those of one reason together."""
        operators: dict[str, list[str]] = {}
        for node in graph.nodes:
            if node.op != "call_function" or node.target is operator.getitem or _is_number(node):
                continue
            reason = self.reason(node)
            if reason is not None:
                operators.setdefault(reason, []).append(str(node.target))
        for reason, names in operators.items():
            yield Rejection(tuple(names), reason)


def unsupported(node: Node, device: torch.device) -> str | None:
    """Why the operator `node` can't be part of a program on `device`, if that is known beforehand."""
    target = node.target
    if not isinstance(target, OpOverload):
        return "it is none of torch's operators on tensors"
    if target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags:
        return "it writes to its arguments or draws random numbers"
    inputs = [each.meta["val"] for each in node.all_input_nodes if each.op != "get_attr"]
    if not all(
        isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, tuple, list)) for value in inputs
    ):
        return "it takes a number that is known only when it runs"
    values = [node.meta["val"], *inputs]
    for tensor in _tensors(values):
        if tensor.device != device:
            return f"its tensors are on {tensor.device}, not {device}"
        is_quantized = tensor.dtype == torch.uint8 and target.namespace == _QUANTIZATION
        if tensor.dtype not in _ELEMENT_TYPES and not is_quantized:
            return f"its elements are {tensor.dtype}"
        if free_unbacked_symbols(tensor) or 0 in tensor.shape:
            return "the sizes of its tensors depend on values, or it has no elements"
    return None


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _tensors(element)


def _is_number(node: Node) -> bool:
    return is_size(node) or isinstance(node.meta.get("val"), torch.SymBool)


def is_convolution(node: Node) -> bool:
    """Whether a node of a decomposed graph is one that parts are made for."""
    if node.target is not CONVOLUTION:
        return False
    value = node.meta["val"]
    return value.dtype in _CONVOLVED and value.device.type in _DEVICES


def _fuse(
    graph: GraphModule, support: _Support, minimum_convolutions: int
) -> tuple[GraphModule, tuple[str, ...], set[Node]]:
    """A copy of `graph` that calls submodules, their names, and the views that it takes of their results."""
    divided = copy_graph(graph)
    read_sizes(divided.graph)
    partitioner = CapabilityBasedPartitioner(divided, support, allows_single_node_partition=True)
    partitions = partitioner.propose_partitions()
    kept = [each for each in partitions if sum(map(is_convolution, each.nodes)) >= minimum_convolutions]
    for partition in partitions:
        if partition not in kept:
            support.leave(iter(partition.nodes), f"not with {minimum_convolutions} convolutions or more")
    views: set[Node] = set()
    for partition in kept:
        if shared := _shared_bytes(partition.nodes):
            support.leave(iter(shared), "programs take and give no bytes without a sign")
            return _fuse(graph, support, minimum_convolutions)
    for partition in kept:
        taken, others = take_views_outside(partition.nodes)
        views |= taken
        if others:
            support.leave(iter(others), "its result isn't dense in memory")
            return _fuse(graph, support, minimum_convolutions)
    divided = partitioner.fuse_partitions(kept, prefix=PART_PREFIX)
    return divided, called_modules(divided.graph), views


def _shared_bytes(part: Collection[Node]) -> list[Node]:
    """The nodes of `part` that read bytes without a sign from outside of it, or are read there."""
    return [
        node
        for node in part
        if any(_is_unsigned(each) and each not in part for each in node.all_input_nodes)
        or (_is_unsigned(node) and any(user not in part for user in node.users))
    ]


def _is_unsigned(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.uint8


def _part(
    divided: GraphModule,
    name: str,
    weights: Mapping[str, torch.Tensor],
    freezing: bool,
    support: _Support,
    is_compiled: Callable[[PartProgram], bool],
) -> Part | None:
    """The part of this name; None, and `support` knows more, if there is no lowering for it."""
    (call,) = (node for node in divided.graph.find_nodes(op="call_module") if node.target == name)
    graph = divided.get_submodule(name)
    assert isinstance(graph, GraphModule)
    known = {
        number: value
        for number, node in enumerate(call.args)
        if isinstance(node, Node) and (value := _known_value(divided, node, weights)) is not None
    }
    try:
        program = part_program(graph, known if freezing else {}, support.device)
        return Part(name, graph, program, None if is_compiled(program) else lower_program(program), known)
    except PASSED_ON:
        raise
    except Exception as error:
        if not attempt(lambda: _reject_nodes(graph.graph, support)):
            support.leave(iter(graph.graph.nodes), failure_text(error))
        return None


def lower_program(program: PartProgram) -> ImportedModel:
    """`program` on linalg and tensors. Raises `ModelImportError` when an operator has no lowering."""
    # Torch-mlir takes seconds to load, and parts that are compiled already don't need it.
    from iree.winograd.importers.torch_lowering import lower_graph

    return lower_graph(program.graph, ENTRY)


def _reject_nodes(graph: Graph, support: _Support) -> bool:
    """Have `support` reject what torch-mlir has no lowering for; whether there is something."""
    from iree.winograd.importers.torch_lowering import rejected_nodes

    nodes = {node.name: node.target for node in graph.nodes if node.op == "call_function"}
    rejected = rejected_nodes(graph)
    is_new = [support.reject(nodes[each], why) for each, why in rejected.items() if each in nodes]
    return any(is_new)


def _known_value(graph: GraphModule, node: Node, weights: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    if node.op == "get_attr":
        value = getattr(graph, str(node.target))
        return value if isinstance(value, torch.Tensor) else None
    return weights.get(node.name)


def fuse_rest(divided: GraphModule, parts: tuple[str, ...], views: Collection[Node] = ()) -> tuple[str, ...]:
    """Makes submodules of what is left in `divided`, but for `views` of results; returns their names."""
    partitioner = CapabilityBasedPartitioner(divided, _Rest(views), allows_single_node_partition=True)
    partitioner.fuse_partitions(partitioner.propose_partitions(), prefix="rest_")
    return tuple(name for name in called_modules(divided.graph) if name not in parts)


def operator_names(graph: Graph) -> tuple[str, ...]:
    """Of each call of an operator in `graph`."""
    calls = (node for node in graph.nodes if node.op == "call_function")
    return tuple(str(node.target) for node in calls if node.target is not operator.getitem)


class _Rest(OperatorSupportBase):
    """The operators on tensors, but for control flow, and `views`, which cost nothing as they are."""

    def __init__(self, views: Collection[Node]) -> None:
        self._views = views

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        if node.op != "call_function" or any(each.op == "call_module" for each in _sources(node)):
            return False
        if node in self._views or any(map(_is_graph, node.all_input_nodes)):
            return False
        return not _is_number(node) and any(True for _ in _tensors(node.meta.get("val")))


def _is_graph(node: Node) -> bool:
    """Whether `node` is a branch or a body of control flow, which no submodule takes as an argument."""
    return node.op == "get_attr" and "val" not in node.meta


def _sources(node: Node) -> list[Node]:
    return node.all_input_nodes if node.target is operator.getitem else []
