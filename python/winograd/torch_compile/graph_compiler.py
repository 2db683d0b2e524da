"""Graphs that torch traced, compiled in parts: those with convolutions here, the rest by the fallback."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from iree.winograd.importers.torch_operators.table import decompositions
from iree.winograd.loading.runtime import LoadedProgram
from iree.winograd.torch_compile.callable_part import callable_part
from iree.winograd.torch_compile.compiled_division import Record, compile_division, report
from iree.winograd.torch_compile.compiled_part import CompiledPart, PartCompiler
from iree.winograd.torch_compile.contained import PASSED_ON, Contained, Function, attempt, failure_text
from iree.winograd.torch_compile.division import (
    Division,
    Part,
    Rejection,
    divide,
    is_convolution,
)
from iree.winograd.torch_compile.explanation import ExplainedGraph, GraphKind, explain_part
from iree.winograd.torch_compile.fallback import compile_elsewhere, graph_size
from iree.winograd.torch_compile.fallback_warning import warn
from iree.winograd.torch_compile.kept_graph import KeptGraph, are_plain, describe, is_functional, kept_graph
from iree.winograd.torch_compile.measured_function import MeasuredFunction
from iree.winograd.torch_compile.open_resizing import OpenResizing
from iree.winograd.torch_compile.part_device import PartDevice, device_of_convolutions, part_device
from iree.winograd.torch_compile.program_key import program_key
from iree.winograd.torch_compile.settings import TorchCompileOptions
from iree.winograd.torch_compile.sized_function import SizedFunction
from iree.winograd.torch_compile.traced_graph import (
    has_convolutions,
    has_only_empty_convolutions,
    has_open_images,
    is_in_evaluation_mode,
    may_need_gradients,
)
from iree.winograd.torch_compile.training_compiler import TrainingCompiler
from iree.winograd.torch_compile.whole_graph import WholeGraph
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

_EVALUATION_WITH_GRADIENTS = (
    "a model in evaluation mode is compiled for training, convolution by convolution, since gradients may be "
    "asked for: it is faster as a whole, in torch.no_grad() or torch.inference_mode()"
)

_UNWATCHED_WEIGHTS = (
    "weights that were made in torch.inference_mode() are passed in each call, which may take 2.7 times as "
    "long: nothing tells when they are written to. Make or load the model outside of it, and call it inside, "
    "or say by options={'fixed_inference_weights': True} that nobody does"
)


class _WholeProgram(NamedTuple):
    """The program that a graph is, and how it is called on the graph's inputs.

    `load` gives the one that holds the weights of another model, which are among the inputs that it is given.
    """

    kept: KeptGraph
    program: LoadedProgram
    load: Callable[[Sequence[Any]], LoadedProgram]


@dataclass
class _Inference:
    """What AOTAutograd calls with the functional graph that it makes of one for inference.

    `given` are the arguments that the model was called with, `key` is what the graph is kept by, if it is.
    When AOTAutograd returns, `whole` is the program that the graph is, if it is one, and is kept or
    `calls_whole`.
    """

    compiler: GraphCompiler
    given: Sequence[Any]
    freezing: bool
    record: Record
    key: str | None = None
    calls_whole: bool = False
    whole: _WholeProgram | None = None

    def __call__(self, graph: GraphModule, inputs: Sequence[Any]) -> Function:
        """The functional graph, compiled in parts."""
        function, self.whole = self.compiler.compile_inference(graph, inputs, self)
        return function


class GraphCompiler:
    """Compiles the graphs of a model; `record` is told of each."""

    def __init__(self, settings: TorchCompileOptions, record: Record) -> None:
        self._settings = settings
        self._record = record

    def compile(self, graph: GraphModule, inputs: Sequence[Any]) -> Function:
        """`graph` as a function that is called on tensors like `inputs`. No failure of ours is raised."""
        training = may_need_gradients(inputs)
        try:
            compiled = self._compile(graph, inputs, training)
        except PASSED_ON:
            raise
        except Exception as error:
            return self._leave(graph, inputs, training, failure_text(error))
        return Contained(compiled, lambda: graph, f"left to eager: {graph_size(graph)}")

    def _compile(self, graph: GraphModule, inputs: Sequence[Any], training: bool) -> Function:
        if not has_convolutions(graph):
            return self._leave(graph, inputs, training, "it has no convolutions")
        if has_only_empty_convolutions(graph):
            # Nothing that takes time is left out: not worth a warning.
            rejection = Rejection((graph_size(graph),), "what it convolves has no elements")
            self._record(ExplainedGraph(_kind(training), (), (rejection,)))
            return graph
        if training:
            if is_in_evaluation_mode(graph):
                warn(_EVALUATION_WITH_GRADIENTS)
            return TrainingCompiler(self._settings, self._record).compile_step(graph, inputs)
        if any(isinstance(each, torch.SymInt) for each in inputs):
            return self._compile_sizes(graph, inputs)
        key = attempt(lambda: self._graph_key(graph, inputs))
        kept = None if key is None else attempt(lambda: self._load_kept(key, graph, inputs))
        if kept is not None:
            return self._measured(graph, kept)
        inference = _Inference(self, inputs, self._settings.freezing, self._record, key)
        compiled = _functional(graph, inputs, inference)
        if not _is_functional():
            return compiled
        whole = inference.whole
        if whole is None:
            return self._measured(graph, compiled)
        called = attempt(lambda: self._whole_graph(whole, inputs, lambda arguments: compiled))
        return self._measured(graph, compiled if called is None else called)

    def _leave(self, graph: GraphModule, inputs: Sequence[Any], training: bool, reason: str) -> Function:
        """`graph` by the fallback, of which the user and `record` are told."""
        fallback = self._settings.fallback_for(training=training)
        rejection = Rejection((graph_size(graph),), reason)
        report(ExplainedGraph(_kind(training), (), (rejection,)), self._record, fallback)
        return compile_elsewhere(graph, inputs, fallback)

    def _compile_sizes(self, graph: GraphModule, inputs: Sequence[Any]) -> Function:
        """`graph`, in which some sizes are symbols: by one program if it does, or one for each of its sizes.

        For any number of images there are fast kernels of all convolutions, for any sizes of most.
        """
        sized = SizedFunction(graph, self._compile_static, self._settings.sizes)
        if has_open_images(graph):
            compiled = attempt(lambda: self._compile_any_size(graph, inputs))
            if compiled is None:
                return sized
        else:
            inference = _Inference(self, inputs, self._settings.freezing, self._record)
            compiled = _functional(graph, inputs, inference)
        if not self._settings.measured or not _is_functional():
            return compiled
        return MeasuredFunction(compiled, graph, lambda ours, eager: sized)

    def _compile_any_size(self, graph: GraphModule, inputs: Sequence[Any]) -> Function | None:
        """`graph` by programs for images of any size; None where these lack a kernel for a convolution."""
        graphs: list[ExplainedGraph] = []
        inference = _Inference(
            self, inputs, self._settings.freezing, graphs.append, calls_whole=are_plain(inputs)
        )
        with warnings.catch_warnings(), OpenResizing():
            # Of what isn't used there is nothing to say.
            warnings.simplefilter("ignore")
            compiled = _functional(graph, inputs, inference)
        parts = [part for explained in graphs for part in explained.parts]
        is_all = parts and not any(explained.rejections for explained in graphs)
        if not is_all or any(each.algorithm is None for part in parts for each in part.convolutions):
            return None
        for explained in graphs:
            self._record(explained)
        whole = inference.whole
        if whole is None:
            return compiled
        called = attempt(lambda: self._whole_graph(whole, inputs, lambda arguments: compiled))
        return compiled if called is None else called

    def _compile_static(self, graph: GraphModule, inputs: Sequence[Any]) -> Function:
        """`graph`, which torch traced before, in which sizes are now known."""
        with tracing(TracingContext(FakeTensorMode())), _disable_current_modes():
            return self.compile(graph, inputs)

    def _measured(self, graph: GraphModule, compiled: Function) -> Function:
        """`compiled`, or `graph` as it is, whichever takes less time."""
        if not self._settings.measured:
            return compiled

        def leave(ours: float, eager: float) -> Function:
            times = f"{1e3 * eager:.1f} ms where its programs take {1e3 * ours:.1f}"
            warn(f"left to eager, which takes {times}: {graph_size(graph)}")
            return graph

        return MeasuredFunction(compiled, graph, leave)

    def _graph_key(self, graph: GraphModule, inputs: Sequence[Any]) -> str | None:
        """What a graph for inference is kept by; None where its text and its inputs' types don't tell."""
        settings = self._settings
        facts = describe(graph, inputs)
        if facts is None or len({each.device for each in inputs}) != 1:
            return None
        compiler = _inference_compiler(settings, part_device(inputs[0].device, settings.target))
        parts = map(str, (settings.freezing, settings.fixed_inference_weights, settings.minimum_convolutions))
        return compiler.structure_key(graph.graph, *parts, *facts)

    def _load_kept(self, key: str, graph: GraphModule, inputs: Sequence[Any]) -> Function | None:
        """The function that a graph of this key was compiled to in another process, if it is kept."""
        device = part_device(inputs[0].device, self._settings.target)
        compiler = _inference_compiler(self._settings, device)
        kept = compiler.read_graph(key)
        if kept is None:
            return None
        with _disable_current_modes():
            weights = [inputs[number] for number in kept.weights]
            loaded = compiler.load_kept(program_key(kept.structure, weights))
            if loaded is None:
                return None
            program, decisions = loaded
            self._record(ExplainedGraph("inference", (explain_part(kept.operators, decisions),), ()))
            load = partial(self._load_other, compiler, kept, graph)
            whole = _WholeProgram(kept, program, load)
            return self._whole_graph(whole, inputs, partial(self._compile_changing, graph))

    def _load_other(
        self, compiler: PartCompiler, kept: KeptGraph, graph: GraphModule, inputs: Sequence[Any]
    ) -> LoadedProgram:
        """The program of `graph`, which torch traced and was told of before, with the weights of `inputs`."""
        weights = [inputs[number] for number in kept.weights]
        loaded = compiler.load_kept(program_key(kept.structure, weights))
        if loaded is not None:
            return loaded[0]
        inference = _Inference(self, inputs, freezing=True, record=lambda explained: None, calls_whole=True)
        with tracing(TracingContext(FakeTensorMode())):
            _functional(graph, inputs, inference)
        assert inference.whole is not None
        return inference.whole.program

    def _whole_graph(
        self,
        whole: _WholeProgram,
        inputs: Sequence[Any],
        compile_graph: Callable[[Sequence[Any]], Function],
    ) -> WholeGraph:
        """A graph as its program, which holds some of `inputs`.

        When these change, it is what `compile_graph` makes of those that it is given.
        """
        kept = whole.kept
        device = next(each.device for each in inputs if isinstance(each, torch.Tensor))
        signature = kept.signature(part_device(device, self._settings.target).torch)
        weights = {number: inputs[number] for number in kept.weights}

        def function_of(program: LoadedProgram) -> Function:
            return callable_part(program, signature, kept.fixed)

        return WholeGraph(
            function_of(whole.program),
            kept.outputs,
            weights,
            lambda arguments: function_of(whole.load(arguments)),
            compile_graph,
        )

    def _compile_changing(self, graph: GraphModule, inputs: Sequence[Any]) -> Function:
        """`graph`, which torch traced and was told of before, with weights that may change."""
        inference = _Inference(self, inputs, freezing=False, record=lambda explained: None)
        with tracing(TracingContext(FakeTensorMode())):
            return _functional(graph, inputs, inference)

    def compile_inference(
        self, graph: GraphModule, inputs: Sequence[Any], inference: _Inference
    ) -> tuple[Function, _WholeProgram | None]:
        """`graph`, functional, as a function of the list of its arguments, and its program if it is one.

        `inputs` are what it was traced on.
        """
        settings, freezing, key = self._settings, inference.freezing, inference.key
        fixed = _fixed_arguments(graph, inputs, inference.given)
        # Torch counts no writes to those that were made in inference mode.
        all_fixed = settings.fixed_inference_weights
        weights = {name: each for name, each in fixed.items() if all_fixed or not each.is_inference()}
        if freezing and len(weights) < len(fixed):
            warn(_UNWATCHED_WEIGHTS)
        with _disable_current_modes():
            device = device_of_convolutions(filter(is_convolution, graph.graph.nodes), settings.target)
            compiler = _inference_compiler(settings, device)
            division = divide(
                graph,
                weights,
                device.torch,
                settings.minimum_convolutions,
                freezing,
                compiler.is_kept,
            )
            fallback = settings.fallback_for(training=False)
            function, parts, explained = compile_division(division, compiler, "inference", freezing, fallback)
            report(explained, inference.record, fallback)
            kept = None
            if key is not None or inference.calls_whole:
                kept = attempt(lambda: self._keep(key, division, compiler, weights, inference.given))
            if kept is None or not parts:
                return function, None
            load = _loading(parts[0], division.parts[0], inference.given)
            return function, _WholeProgram(kept, parts[0].program, load)

    def _keep(
        self,
        key: str | None,
        division: Division,
        compiler: PartCompiler,
        fixed: Mapping[str, torch.Tensor],
        given: Sequence[Any],
    ) -> KeptGraph | None:
        """What became of a graph, if it is one program, which later processes find by its `key`, if any."""
        metadata = TracingContext.get().fw_metadata
        if metadata is None or len(division.parts) != 1:
            return None
        structure = compiler.structure_key(division.parts[0].program.graph)
        kept = kept_graph(division, structure, metadata, fixed, given)
        if kept is not None and key is not None:
            compiler.write_graph(key, kept)
        return kept


def _kind(training: bool) -> GraphKind:
    return "forward" if training else "inference"


def _functional(graph: GraphModule, inputs: Sequence[Any], compiler: Callable[..., Function]) -> Function:
    """`graph` as a function, of which torch makes a functional graph of simple operators for `compiler`."""
    compiled: Function = aot_autograd(fw_compiler=compiler, decompositions=decompositions())(graph, inputs)
    return compiled


def _loading(
    compiled: CompiledPart, part: Part, given: Sequence[Any]
) -> Callable[[Sequence[Any]], LoadedProgram]:
    """What loads the program of `part`, all of a graph, for arguments like those that are `given`."""
    numbers = {id(argument): number for number, argument in enumerate(given)}
    places = {number: numbers[id(weight)] for number, weight in part.weights.items()}
    return lambda arguments: compiled.program_of(
        {number: arguments[place] for number, place in places.items()}
    )


def _is_functional() -> bool:
    """Whether the graph that torch compiles only computes: it writes to none of its arguments."""
    metadata = TracingContext.get().fw_metadata
    return metadata is not None and is_functional(metadata)


def _inference_compiler(settings: TorchCompileOptions, device: PartDevice) -> PartCompiler:
    return PartCompiler(settings.for_inference(device.torch.type), device)


def _fixed_arguments(
    graph: GraphModule, inputs: Sequence[Any], given: Sequence[Any]
) -> dict[str, torch.Tensor]:
    """The arguments of the functionalised `graph` that stay as they are from call to call.

    `inputs` are what it was traced on, `given` the tensors that the model was called with.
    """
    metadata = TracingContext.get().fw_metadata
    if metadata is None or len(inputs) != len(given):
        return {}
    placeholders = graph.graph.find_nodes(op="placeholder")
    return {placeholders[index].name: given[index] for index in metadata.static_input_indices}
