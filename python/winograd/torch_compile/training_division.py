"""The division of a graph that takes part in training: a convolution, or one gradient of one, is a part.

Between two of them there usually is what only a whole batch tells, as batch normalization's statistics, so
that a program would seldom hold more. Arithmetic on what a convolution computes, if nothing else reads that,
runs in its program.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import nullcontext
from fnmatch import fnmatchcase

import torch
from iree.winograd.importers.torch_graphs import LAYER_KEYS, layer_name
from iree.winograd.importers.torch_operators.table import decompositions
from iree.winograd.torch_compile.contained import PASSED_ON, failure_text
from iree.winograd.torch_compile.division import (
    CONVOLUTION,
    PART_PREFIX,
    ConvolutionRole,
    Division,
    Part,
    Rejection,
    called_modules,
    copy_graph,
    fuse_rest,
    lower_program,
    unsupported,
)
from iree.winograd.torch_compile.gain import reason_for_device
from iree.winograd.torch_compile.gradients import CONVOLUTION_BACKWARD, gradient_of, split_gradients
from iree.winograd.torch_compile.part_program import PartProgram, output_nodes, part_program
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

CONVOLUTIONS = (CONVOLUTION, CONVOLUTION_BACKWARD)
"""The operators that parts are made of."""


def divide_training(
    graph: GraphModule,
    device: torch.device,
    deny: Sequence[str],
    is_compiled: Callable[[PartProgram], bool],
    reason_to_leave: Callable[[Part], str | None],
    *,
    fuses_rest: bool,
) -> Division:
    """Divide `graph`, which torch has functionalised and not decomposed, into parts on `device`.

    What isn't in parts is submodules, too, if `fuses_rest`, and stays in the graph otherwise.

    Torch-mlir is asked to lower a program unless it `is_compiled`. Parts with a `reason_to_leave`, and layers
    whose names match patterns of `deny`, go to the rest, of which only convolutions count as rejected.
    """
    left: dict[str, Rejection] = {}
    while True:
        divided = copy_graph(graph)
        forward = divided.graph.find_nodes(op="call_function", target=CONVOLUTION)
        convolutions = [
            *(node for node in forward if node.name not in left),
            *split_gradients(divided.graph, left),
        ]
        refused = {node.name: why for node in convolutions if (why := _refusal(node, device, deny))}
        left.update(refused)
        if refused:
            continue
        fuse_by_partitions(divided, _groups(convolutions, device, left), prefix=PART_PREFIX)
        names = called_modules(divided.graph)
        parts = [_part(divided, name, device, left, is_compiled, reason_to_leave) for name in names]
        complete = tuple(part for part in parts if part is not None)
        if len(complete) == len(names):
            rest = fuse_rest(divided, names) if fuses_rest else ()
            return Division(divided, complete, rest, _by_reason(left.values()))


def _refusal(convolution: Node, device: torch.device, deny: Sequence[str]) -> Rejection | None:
    """Why `convolution` can't be a part, if that is known beforehand."""
    role = _role(convolution)
    reason = reason_for_device(device, type_of(convolution)) or unsupported(convolution, device)
    if any(fnmatchcase(role.layer, pattern) for pattern in deny):
        reason = "the layer patterns exclude it"
    return None if reason is None else Rejection((str(role),), reason)


def type_of(convolution: Node) -> torch.dtype:
    """That of a convolution's image, or of the gradient that one of its gradients is computed of."""
    type_: torch.dtype = convolution.all_input_nodes[0].meta["val"].dtype
    return type_


def _role(convolution: Node) -> ConvolutionRole:
    return ConvolutionRole(layer_name(convolution), gradient_of(convolution))


def _by_reason(rejections: Iterable[Rejection]) -> tuple[Rejection, ...]:
    operators: dict[str, list[str]] = {}
    for rejection in rejections:
        operators.setdefault(rejection.reason, []).extend(rejection.operators)
    return tuple(Rejection(tuple(names), reason) for reason, names in operators.items())


def _groups(
    convolutions: Iterable[Node], device: torch.device, left: Container[str]
) -> list[dict[Node, int | None]]:
    """The nodes of the parts that hold `convolutions`."""
    taken: set[Node] = set()
    groups = []
    for convolution in convolutions:
        group = [convolution]
        if convolution.target is CONVOLUTION_BACKWARD:
            group.extend(convolution.users)
        # Where two are added, one of them adds.
        while (follower := _follower(group[-1], device)) is not None and follower not in taken:
            if follower.name in left:
                break
            group.append(follower)
        taken.update(group)
        groups.append(dict.fromkeys(group))
    return groups


def _follower(node: Node, device: torch.device) -> Node | None:
    """What does arithmetic on each element that `node` computes, if nothing else reads that."""
    if len(node.users) != 1:
        return None
    (user,) = node.users
    if not isinstance(user.target, OpOverload) or torch.Tag.pointwise not in user.target.tags:
        return None
    value, result = node.meta["val"], user.meta["val"]
    is_alike = isinstance(result, torch.Tensor) and (result.shape, result.dtype) == (value.shape, value.dtype)
    return user if is_alike and unsupported(user, device) is None else None


def _part(
    divided: GraphModule,
    name: str,
    device: torch.device,
    left: dict[str, Rejection],
    is_compiled: Callable[[PartProgram], bool],
    reason_to_leave: Callable[[Part], str | None],
) -> Part | None:
    """The part of this name; None, and `left` grows, if it isn't to be one."""
    graph = divided.get_submodule(name)
    assert isinstance(graph, GraphModule)
    (convolution,) = (node for node in graph.graph.nodes if node.target in CONVOLUTIONS)
    role = _role(convolution)
    for node in graph.graph.nodes:
        _forget_layer(node)
    try:
        program = part_program(_decompose(graph), {}, device)
        part = Part(name, graph, program, None if is_compiled(program) else lower_program(program), {}, role)
    except PASSED_ON:
        raise
    except Exception as error:
        # It may be due to what follows the convolution.
        following = [node for node in graph.graph.nodes if _is_operator(node) and node is not convolution]
        for node in following[:1]:
            left[node.name] = Rejection((str(node.target),), failure_text(error))
        if not following:
            left[convolution.name] = Rejection((str(role),), failure_text(error))
        return None
    reason = reason_to_leave(part)
    if reason is None:
        return part
    left[convolution.name] = Rejection((str(role),), reason)
    return None


def _decompose(graph: GraphModule) -> GraphModule:
    """`graph` in operators that torch-mlir knows; its results have the types that they had."""
    arguments = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
    with detect_fake_mode(arguments) or nullcontext():
        decomposed = make_fx(graph, decomposition_table=decompositions())(*arguments)
    results = zip(output_nodes(decomposed.graph), output_nodes(graph.graph), strict=True)
    for result, original in results:
        result.meta["val"] = original.meta["val"]
    return decomposed


def _forget_layer(node: Node) -> None:
    """Layers of the same sizes have the same program."""
    for key in LAYER_KEYS:
        node.meta.pop(key, None)


def _is_operator(node: Node) -> bool:
    return isinstance(node.target, OpOverload)
