"""Graphs of torch models in operators that torch-mlir knows; its compiler is neither needed nor loaded."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from iree.winograd.errors import ModelImportError
from iree.winograd.importers.torch_operators.table import import_decompositions
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, OutputSpec
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

LAYER_KEYS = ("nn_module_stack", "fwd_nn_module_stack")
"""Under these a node's metadata has the layers that it belongs to, or computes a gradient of."""

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = Path(torch.__file__).parent
# Dynamo calls the model that it compiles by the name that the caller's frame has for it.
_ROOT = re.compile(r"^L\['\w+'\]\.?")


def decompose(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """`exported` in terms of operators that torch-mlir knows. Raises `ModelImportError` when torch can't."""
    open_sizes, expected = _open_sizes(exported.graph), _expected_equalities(exported.graph)
    try:
        with without_own_deprecations():
            decomposed: torch.export.ExportedProgram = exported.run_decompositions(import_decompositions())
    except Exception as error:
        raise ModelImportError(f"torch could not decompose the model's operators: {error}") from error
    _refuse_sizes_of_data(decomposed.graph)
    _refuse_fixed_sizes(open_sizes, _open_sizes(decomposed.graph))
    _refuse_expectations([each for each in _expected_equalities(decomposed.graph) if each not in expected])
    _return_results_only(decomposed)
    _drop_arguments(decomposed)
    # Those that a model doesn't save are among the constants, where torch-mlir doesn't look for buffers.
    for name in decomposed.graph_signature.non_persistent_buffers:
        decomposed.state_dict[name] = decomposed.constants[name]
    return decomposed


def _refuse_sizes_of_data(graph: torch.fx.Graph) -> None:
    """Raise `ModelImportError` where a size depends on elements: torch-mlir may not end with it."""
    for node in graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and free_unbacked_symbols(value):
                raise ModelImportError(
                    f"{source_line(node)}: the size of what {node.target} returns depends on values of the "
                    "model's arguments, and those of a program don't"
                )


def _refuse_fixed_sizes(before: list[str], after: list[str]) -> None:
    """Raise `ModelImportError` where decomposing made an open size that of the example.

    Whatever takes such a size for a number does so, without a word: the program would return results of that
    size, or computed for it, whatever its arguments' sizes are.
    """
    for size in before:
        if size not in after:
            raise ModelImportError(
                f"{size} is open, but torch decomposes the model's operators for that of the example: "
                "export it without dynamic_shapes there"
            )


def _refuse_expectations(equalities: list[str]) -> None:
    """Raise `ModelImportError` where decomposing took for equal what is so at the sizes of the example."""
    if equalities:
        raise ModelImportError(
            "sizes are open, but torch decomposes the model's operators for those at which "
            f"{equalities[0]}: export it without dynamic_shapes there"
        )


def _expected_equalities(graph: torch.fx.Graph) -> list[str]:
    """What torch found to be equal at the sizes of the example, and relies on."""
    shapes = (
        value.shape
        for node in graph.nodes
        for value in pytree.tree_leaves(node.meta.get("val"))
        if isinstance(value, torch.Tensor)
    )
    open_sizes: Iterator[Any] = (size for shape in shapes for size in shape if isinstance(size, torch.SymInt))
    environment = next((size.node.shape_env for size in open_sizes), None)
    guards = [] if environment is None else environment.guards
    return [
        f"{guard.expr.lhs} = {guard.expr.rhs}"
        for guard in guards
        if getattr(guard.expr, "rel_op", None) == "=="
    ]


def _open_sizes(graph: torch.fx.Graph) -> list[str]:
    """The sizes of the results and arguments of `graph` that no number is known of."""
    (output,) = graph.find_nodes(op="output")
    # The same node may be several results after decomposing, but not before.
    results = pytree.tree_leaves(output.args)
    nodes = [(f"result {number}", each) for number, each in enumerate(results)]
    nodes += [(f"argument {node.name!r}", node) for node in graph.find_nodes(op="placeholder")]
    return [
        f"size {dimension} of {name}"
        for name, node in nodes
        if isinstance(node, torch.fx.Node) and isinstance(value := node.meta.get("val"), torch.Tensor)
        for dimension, size in enumerate(value.shape)
        if isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None
    ]


def _return_results_only(exported: torch.export.ExportedProgram) -> None:
    """Have the graph of `exported` return the tensors that the model returns, and not what it writes to.

    Where the model returns None, the program returns nothing. Raises `ModelImportError` where what is written
    to a buffer is to be read in the next call.
    """
    signature, graph = exported.graph_signature, exported.graph
    (output,) = graph.find_nodes(op="output")
    returned = output.args[0]
    results = list(map(is_result, signature.output_specs))
    if all(results):
        return
    output.args = (tuple(node for node, kept in zip(returned, results, strict=True) if kept),)
    output.meta.pop("val", None)
    graph.eliminate_dead_code()
    written = set(signature.buffers_to_mutate.values())
    for node in graph.find_nodes(op="placeholder"):
        buffer = signature.inputs_to_buffers.get(node.name)
        if buffer in written and node.users:
            raise ModelImportError(
                f"the model reads its buffer {buffer!r}, and writes to it: "
                "a program keeps nothing from call to call"
            )


def is_result(spec: OutputSpec) -> bool:
    """Whether an output is one of the program's: something that the model returns, and not None."""
    is_none = isinstance(spec.arg, ConstantArgument) and spec.arg.value is None
    return spec.kind == OutputKind.USER_OUTPUT and not is_none


def _drop_arguments(exported: torch.export.ExportedProgram) -> None:
    """Take out arguments that nothing reads: tokens, by which torch orders effects, and known numbers.

    Torch traces a model for the numbers, truths and texts that it is given, and for None.
    """
    signature, graph = exported.graph_signature, exported.graph
    placeholders = graph.find_nodes(op="placeholder")
    for spec, node in list(zip(signature.input_specs, placeholders, strict=True)):
        is_dropped = spec.kind == InputKind.TOKEN or isinstance(spec.arg, ConstantArgument)
        if is_dropped and not node.users:
            signature.input_specs.remove(spec)
            graph.erase_node(node)


def source_line(node: torch.fx.Node) -> str:
    """The line of the model that made `node`, as `file:line`; the node's name where torch doesn't tell."""
    frames = source_frames(node)
    return ":".join(frames[-1]) if frames else node.name


def source_frames(node: torch.fx.Node) -> list[tuple[str, str]]:
    """The files and lines, outermost first and without torch's own, that made `node`."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    return [(file, line) for file, line in frames if not Path(file).is_relative_to(_TORCH)]


def layer_name(node: torch.fx.Node) -> str:
    """The innermost layer of the model that `node` belongs to; empty where torch doesn't tell.

    What computes a gradient belongs to the layer that it is the gradient of.
    """
    stacks = (node.meta.get(key) for key in LAYER_KEYS)
    paths = (path for stack in stacks if stack for path, _ in stack.values())
    return ([""] + [layer for path in paths if (layer := _ROOT.sub("", path))])[-1]


@contextmanager
def in_mode(model: torch.nn.Module, *, training: bool) -> Iterator[None]:
    """Has all modules of `model` in training or evaluation mode, afterwards in those that they were in.

    What torch has exported, as models are that PT2E quantises, keeps the mode that it was exported in.
    """
    modes = [(module, module.training) for module in model.modules()]
    with suppress(NotImplementedError):
        model.train(training)
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training


@contextmanager
def without_own_deprecations() -> Iterator[None]:
    """Torch warns of what it uses itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, message=".*treespec")
        yield
