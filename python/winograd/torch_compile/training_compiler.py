"""Graphs that torch traced for training: a step's forward and backward halves, convolution by convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from iree.winograd.torch_compile.compiled_division import Record, compile_division, report
from iree.winograd.torch_compile.compiled_part import CompiledPart, PartCompiler
from iree.winograd.torch_compile.contained import PASSED_ON, Function, failure_text
from iree.winograd.torch_compile.division import Part, Rejection, copy_graph
from iree.winograd.torch_compile.explanation import ExplainedGraph, GraphKind
from iree.winograd.torch_compile.fallback import graph_size
from iree.winograd.torch_compile.gain import reason_of_kernels, reason_to_leave, traced_images
from iree.winograd.torch_compile.in_place import write_in_place
from iree.winograd.torch_compile.linked_graph import boxed
from iree.winograd.torch_compile.measured_part import arguments_of, slower_reason
from iree.winograd.torch_compile.part_device import device_of_convolutions
from iree.winograd.torch_compile.pooled_activations import drop_pooled_activations
from iree.winograd.torch_compile.settings import TorchCompileOptions
from iree.winograd.torch_compile.training_division import CONVOLUTIONS, divide_training, type_of
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

_GRAPHS_OF_STEP = 2
"""Forward and backward, which torch has compiled when it is first called."""


class TrainingCompiler:
    """Compiles the graphs of steps of training; `record` is told of each."""

    def __init__(self, settings: TorchCompileOptions, record: Record) -> None:
        self._settings = settings
        self._record = record
        self._fallback = settings.fallback_for(training=True)

    def compile_step(self, graph: GraphModule, inputs: Sequence[Any]) -> Function:
        """`graph` and its gradients, each in parts."""
        graphs: list[ExplainedGraph] = []

        def record(explained: ExplainedGraph) -> None:
            graphs.append(explained)
            self._record(explained)

        halves = TrainingCompiler(self._settings, record)
        backend = aot_autograd(
            fw_compiler=partial(halves.compile_half, kind="forward"),
            bw_compiler=partial(halves.compile_half, kind="backward"),
            partition_fn=_partition,
        )
        compiled: Function = backend(graph, inputs)
        if self._fallback != "eager":
            return compiled

        def step(*arguments: Any) -> Any:
            # Functional operators take longer than those that they were traced from.
            is_left = len(graphs) == _GRAPHS_OF_STEP and not any(each.parts for each in graphs)
            return graph(*arguments) if is_left else compiled(*arguments)

        return step

    def compile_half(self, graph: GraphModule, inputs: Sequence[Any], kind: GraphKind) -> Function:
        """`graph`, functional and not decomposed, as a function of the list of its arguments."""
        try:
            return self._compile_half(graph, kind)
        except PASSED_ON:
            raise
        except Exception as error:
            rejection = Rejection((graph_size(graph),), failure_text(error))
            report(ExplainedGraph(kind, (), (rejection,)), self._record, self._fallback)
            return boxed(copy_graph(graph))

    def _compile_half(self, graph: GraphModule, kind: GraphKind) -> Function:
        # Programs that may not be worth it aren't tuned.
        settings = replace(self._settings, tuning_budget=None)
        with _disable_current_modes(), torch.no_grad():
            convolutions = (node for node in graph.graph.nodes if node.target in CONVOLUTIONS)
            device = device_of_convolutions(convolutions, settings.target)
            compiler = PartCompiler(settings, device, keeps_memory=False)
            # Eager operators are run one by one: what each has read can go.
            is_eager = self._fallback == "eager"
            division = divide_training(
                graph,
                device.torch,
                settings.deny,
                compiler.is_kept,
                partial(_reason_to_leave, compiler, device.torch, settings.measured),
                fuses_rest=not is_eager,
            )
            if is_eager:
                write_in_place(division.graph.graph)
            compiled = compile_division(division, compiler, kind, self._settings.freezing, self._fallback)
            report(compiled.explained, self._record, self._fallback)
            return compiled.function


def _partition(joint: GraphModule, inputs: Sequence[Any], **options: Any) -> tuple[GraphModule, GraphModule]:
    """The halves of a graph, forward and backward: between them is kept what torch keeps eagerly, or less."""
    drop_pooled_activations(joint.graph)
    halves: tuple[GraphModule, GraphModule] = default_partition(joint, inputs, **options)
    return halves


def _reason_to_leave(compiler: PartCompiler, device: torch.device, measured: bool, part: Part) -> str | None:
    """Why the fallback is to compute `part`, if it is: as it is `measured` on a GPU, or predicted."""
    (convolution,) = (node for node in part.graph.graph.nodes if node.target in CONVOLUTIONS)
    try:
        compiled = CompiledPart(part, compiler, freezing=False)
        if device.type != "cuda":
            images = traced_images(part.graph.graph)
            return reason_to_leave(compiled.decisions, device, type_of(convolution), images)
        if not measured:
            return reason_to_leave(compiled.decisions, device, type_of(convolution))
        if reason := reason_of_kernels(compiled.decisions):
            return reason
        arguments = arguments_of(part)
        if arguments is None:
            return reason_to_leave(compiled.decisions, device, type_of(convolution))
        return slower_reason(compiled, part.graph, arguments)
    except PASSED_ON:
        raise
    except Exception as error:
        return failure_text(error)
