"""A part of a torch graph as what a program is made of, on tensors in the order that they have in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from iree.winograd.errors import ModelImportError
from iree.winograd.loading.launched_function import Order
from iree.winograd.torch_compile.symbolic_sizes import bind_sizes, is_size
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

ENTRY = "main"

_CHANNELS_LAST: Mapping[int, tuple[torch.memory_format, Order]] = {
    4: (torch.channels_last, (0, 2, 3, 1)),
    5: (torch.channels_last_3d, (0, 2, 3, 4, 1)),
}


@dataclass(frozen=True)
class Argument:
    """An argument of the program: which of the part's it is, and the order it is taken in."""

    number: int
    order: Order | None


@dataclass(frozen=True)
class PartSignature:
    """How a part's program on `device` is called; an order of None is row-major.

    `results` holds how to permute a result of the program, dense in memory, to the part's.
    """

    arguments: tuple[Argument, ...]
    results: tuple[Order | None, ...]
    device: torch.device


@dataclass(frozen=True, eq=False)
class PartProgram:
    """The program of a part, as a graph. Tensors among the arguments of its nodes are weights."""

    graph: Graph
    signature: PartSignature

    @property
    def weights(self) -> tuple[torch.Tensor, ...]:
        """The tensors that the program holds, in the order of the nodes."""
        leaves = (pytree.tree_leaves((node.args, dict(node.kwargs))) for node in self.graph.nodes)
        return tuple(leaf for each in leaves for leaf in each if isinstance(leaf, torch.Tensor))

    @property
    def is_open(self) -> bool:
        """Whether some size of an argument is known only in a call."""
        shapes = (node.meta["val"].shape for node in self.graph.find_nodes(op="placeholder"))
        return any(isinstance(size, torch.SymInt) for shape in shapes for size in shape)


def part_program(part: GraphModule, weights: Mapping[int, torch.Tensor], device: torch.device) -> PartProgram:
    """The program of `part` on `device`, in which `weights`, by the numbers of the arguments, are constants.

    Arguments that are sizes are read from the tensors. Raises `ModelImportError` when a size is in no
    tensor's shape, or a result isn't dense in memory.
    """
    graph = _arguments_first(part.graph)
    copy = GraphModule(part, graph)
    placeholders = graph.find_nodes(op="placeholder")
    sizes = [node for node in placeholders if is_size(node)]
    if sizes:
        bind_sizes(copy.graph, sizes)
    arguments = []
    for number, node in enumerate(placeholders):
        if is_size(node):
            graph.erase_node(node)
        elif number in weights:
            node.replace_all_uses_with(weights[number])
            graph.erase_node(node)
        else:
            arguments.append(Argument(number, _take_in_memory_order(graph, node)))
    results = _give_in_memory_order(graph)
    return PartProgram(copy.graph, PartSignature(tuple(arguments), results, device))


def memory_order(tensor: torch.Tensor) -> Order | None:
    """The order of the dimensions of a dense tensor; None for row-major.

    Raises `ModelImportError` for a tensor that isn't dense.
    """
    if tensor.is_contiguous():
        return None
    memory_format, order = _CHANNELS_LAST.get(tensor.dim(), (None, ()))
    if memory_format is not None and tensor.is_contiguous(memory_format=memory_format):
        return order
    strides = tensor.stride()
    expected = [stride if isinstance(stride, int) else stride.node.hint for stride in strides]
    if None not in expected:
        order = tuple(sorted(range(tensor.dim()), key=lambda dimension: -expected[dimension]))
        if tensor.permute(order).is_contiguous():
            return order
    raise ModelImportError(f"a tensor of shape {tuple(tensor.shape)} with strides {strides} isn't dense")


def inverse(order: Order) -> Order:
    """The permutation that undoes `order`."""
    return tuple(order.index(dimension) for dimension in range(len(order)))


def output_nodes(graph: Graph) -> tuple[Node, ...]:
    """What `graph` returns."""
    (output,) = graph.find_nodes(op="output")
    returned = output.args[0]
    return (returned,) if isinstance(returned, Node) else tuple(returned)


def _arguments_first(graph: Graph) -> Graph:
    """A copy whose arguments are before all else: torch has each where it is first read."""
    copied, copies = Graph(), {}
    for node in graph.find_nodes(op="placeholder"):
        copies[node] = copied.node_copy(node)
    for node in graph.nodes:
        if node not in copies:
            copies[node] = copied.node_copy(node, copies.__getitem__)
    return copied


def _take_in_memory_order(graph: Graph, node: Node) -> Order | None:
    """Has the graph take the argument `node` as it lies in memory; one that isn't dense is copied before."""
    value = node.meta["val"]
    try:
        order = memory_order(value)
    except ModelImportError:
        return None
    if order is None:
        return None
    with graph.inserting_after(node):
        permuted = graph.call_function(torch.ops.aten.permute.default, (node, list(inverse(order))))
    node.replace_all_uses_with(permuted, delete_user_cb=lambda user: user is not permuted)
    permuted.meta = dict(node.meta)
    node.meta["val"] = value.permute(order)
    node.meta.pop("tensor_meta", None)
    return order


def _give_in_memory_order(graph: Graph) -> tuple[Order | None, ...]:
    (output,) = graph.find_nodes(op="output")
    given: list[Node] = []
    permutations: list[Order | None] = []
    for node in output_nodes(graph):
        order = memory_order(node.meta["val"])
        permutations.append(None if order is None else inverse(order))
        if order is not None:
            with graph.inserting_before(output):
                permuted = graph.call_function(torch.ops.aten.permute.default, (node, list(order)))
            permuted.meta["val"] = node.meta["val"].permute(order)
            node = permuted
        given.append(node)
    output.args = (tuple(given),)
    return tuple(permutations)
