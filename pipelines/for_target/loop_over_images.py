"""Compute images of a batch one after the other while they are large."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.algorithm import ATTRIBUTE_NAME
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_analysis
from iree.winograd.passes.match.convolutions.convolution_form import is_convolution
from iree.winograd.passes.match.convolutions.exact_type import held_type
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.passes.match.images import image_operands
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.image_loop import loop_over_images

from ..backends.module_backend import unsupported_target
from ..backends.search_space import SearchSpace
from ..problems.executable_target import only_device
from ..selection.candidates import convolution_shape, direct_algorithm
from ..selection.layer import Layer, layers, match_problem
from ..selection.module_space import module_space
from ..selection.options import WinogradOptions
from ..selection.prediction import predicted_seconds

PASS_NAME = "winograd-loop-over-images"

LOOP_SECONDS = 5e-5
"""Of an iteration, which is a submission of its own to the device."""
LEAVING_BYTE_SECONDS = 1e-10
"""Of what leaves the loop, to memory, where all images are read from later."""
LEAST_GAIN = 0.05
"""The part of the time of all images together that a loop has to be predicted to save."""


@register_pass(PASS_NAME)
@dataclass(frozen=True)
class LoopOverImages:
    """Compute images of a batch one after the other while together they would exceed the caches.

    Images that the layer before has just written come from a cache, those of a whole batch from memory, which
    takes depthwise convolutions, that do little with what they read, up to five times as long. So a network
    begins with a loop over the images of its batch, up to where that gains most: where images have become
    small, or where matrices that are read again for each image, and threads that have less to share, cost
    more. Several threads may take as many images at a time. What the loop computes treats images one by one,
    and a single tensor leaves it: in half precision where that surely has all of its elements, so that layers
    behind the loop know, and where vectors convert quickly.

        %a = linalg.conv_2d_nhwc_hwcf ins(%x, %f : tensor<8x112x112x3xf32>, ...) outs(%y)
        %b = linalg.depthwise_conv_2d_nhwc_hwc ins(%a, %g : tensor<8x112x112x32xf32>, ...) outs(%z)
      becomes
        %u = tensor.empty() : tensor<8x112x112x32xf32>
        %e = flow.tensor.transfer %u : tensor<8x112x112x32xf32> to #hal.device.affinity<@device>
        %b = scf.for %i = %c0 to %c8 step %c1 iter_args(%all = %e) {
          %xi = tensor.extract_slice %x[%i, 0, 0, 0] [1, 112, 112, 3] [1, 1, 1, 1]
          %ai = linalg.conv_2d_nhwc_hwcf ins(%xi, %f : tensor<1x112x112x3xf32>, ...) outs(%yi)
          %bi = linalg.depthwise_conv_2d_nhwc_hwc ins(%ai, %g : tensor<1x112x112x32xf32>, ...) outs(%zi)
          %next = tensor.insert_slice %bi into %all[%i, 0, 0, 0] [1, 112, 112, 32] [1, 1, 1, 1]
          scf.yield %next
        }
    """

    threads: int = same_option(WinogradOptions, "threads", default=1)
    machine: str | None = same_option(WinogradOptions, "machine")
    max_relative_error: float | None = same_option(WinogradOptions, "max_relative_error")

    def run(self, module: ir.Operation) -> None:
        # Most programs are of one image: what they have need not be looked at.
        if not any(map(_convolves_several_images, walk(module))) or unsupported_target(module) is not None:
            return
        space = module_space(module, self.machine, self.threads)
        by_result = {each.operation.results[0]: each for each in layers(module) if each.kind == "convolution"}
        choice = _Choice(space, self.max_relative_error, by_result, {1, self.threads})
        device = only_device(module)
        blocks = dict.fromkeys(each.operation.block for each in by_result.values() if choice.is_far(each))

        def rewrite(block: ir.Block) -> None:
            if (loop := choice.best(block)) is None:
                return
            computed, batch = len(loop.operations), ir.RankedTensorType(loop.result.type).shape[0]
            order = "one after the other" if loop.count == 1 else f"{loop.count} at a time"
            message = f"{computed} operations compute the {batch} images of a batch {order}"
            remark_analysis(loop.operations[0], PASS_NAME, message)
            half = held_type(loop.result) if space.stores_half else None
            loop_over_images(loop.operations, loop.result, loop.end, loop.count, device, half)

        rewrite_each("block", blocks, rewrite, operation_of=lambda block: block.owner)


def _convolves_several_images(operation: ir.Operation) -> bool:
    """Whether it is a convolution of several images, which may come from beyond the caches."""
    if not is_convolution(operation):
        return False
    type_ = operation.operands[0].type
    return isinstance(type_, ir.RankedTensorType) and bool(type_.has_static_shape) and type_.shape[0] > 1


@dataclass(frozen=True)
class _Loop:
    """What a loop over images is to compute: operations up to `end`, of which one result is used later."""

    operations: tuple[ir.Operation, ...]
    result: ir.Value
    end: ir.Operation
    count: int
    """Images at a time."""


@dataclass(frozen=True)
class _Choice:
    """How far into a program a loop over images goes, by what is predicted of its layers."""

    space: SearchSpace
    max_relative_error: float | None
    layers: Mapping[ir.Value, Layer]
    """By their results: a loop changes operands, and by these the hash, of operations of later blocks."""
    counts: Set[int]
    """Of images at a time."""

    def is_far(self, layer: Layer) -> bool:
        """Whether images of a layer come from beyond the caches."""
        problem = match_problem(layer, self.space)
        return not isinstance(problem, NoMatch) and self._far_seconds(problem, is_given=False) > 0

    def best(self, block: ir.Block) -> _Loop | None:
        """The loop that is predicted to gain most, if one gains enough."""
        best, most = None, 0.0
        for loop, gain, seconds in self._loops(block):
            # Of those that gain as much the longest: what is done to outputs stays in the kernel before it.
            if gain > LEAST_GAIN * seconds and gain >= most:
                best, most = loop, gain
        return best

    def _loops(self, block: ir.Block) -> Iterator[tuple[_Loop, float, float]]:
        """Those that there may be, what each gains, and what its images take together, in seconds."""
        operations = [view.operation for view in block.operations]
        inside: list[ir.Operation] = []
        unread: Counter[ir.Value] = Counter()
        gains: dict[int, float] = {}
        seconds, batch = 0.0, None
        for operation, following in pairwise(operations):
            reads_inside = any(operand in unread for operand in operation.operands)
            reads_given = operation.name != "linalg.transpose" and _reads_images_of_program(operation)
            if not reads_inside and not reads_given:
                continue
            if isinstance(operands := image_operands(operation), NoMatch):
                if reads_inside:
                    return
                continue
            if any(each in unread and i not in operands for i, each in enumerate(operation.operands)):
                return
            sizes = {ir.RankedTensorType(operation.operands[i].type).shape[0] for i in operands}
            if batch is None:
                batch = max(sizes, default=1)
                gains = {count: 0.0 for count in sorted(self.counts) if count < batch and batch % count == 0}
                if not gains:
                    return
            layer = self.layers.get(operation.results[0]) if operation.results else None
            problem = None if layer is None else match_problem(layer, self.space)
            if sizes != {batch} or isinstance(problem, NoMatch) or ATTRIBUTE_NAME in operation.attributes:
                return
            if problem is not None:
                # Images that the program is given come from beyond the caches, however many are computed.
                is_given = _is_given(operation.operands[0])
                together = self._seconds(problem, is_given)
                seconds += together
                for count in gains:
                    apart = self._seconds(replace(problem, batch=count), is_given)
                    gains[count] += together - batch // count * apart
            inside.append(operation)
            unread.subtract(each for each in operation.operands if each in unread)
            unread.update({each: sum(1 for _ in each.uses) for each in operation.results})
            leaving = [value for value, uses in unread.items() if uses > 0]
            if len(leaving) != 1 or len(inside) < 2:
                continue
            for count, gain in gains.items():
                cost = batch // count * LOOP_SECONDS + _bytes(leaving[0]) * LEAVING_BYTE_SECONDS
                yield _Loop(tuple(inside), leaving[0], following, count), gain - cost, seconds

    def _seconds(self, problem: ConvolutionProblem, is_given: bool) -> float:
        """Predicted, with what its images take longer from beyond the caches."""
        predicted = predicted_seconds(problem, self.space, self.max_relative_error)
        return predicted + self._far_seconds(problem, is_given)

    def _far_seconds(self, problem: ConvolutionProblem, is_given: bool) -> float:
        """What images take longer from beyond the caches; of those that are given only the results."""
        shape = convolution_shape(problem, direct_algorithm(problem))
        part = shape.result_bytes / (shape.image_bytes + shape.result_bytes) if is_given else 1.0
        return part * self.space.far_image_seconds(shape)


def _reads_images_of_program(operation: ir.Operation) -> bool:
    """Whether an operation reads what the program is given, which may be the images of a batch."""
    return any(
        isinstance(operand.type, ir.RankedTensorType) and _is_given(operand) for operand in operation.operands
    )


def _is_given(value: ir.Value) -> bool:
    """Whether it is an argument, or one padded, or in another layout, which a kernel makes of arguments."""
    definition = defining_operation(value)
    if definition is not None and definition.name in ("linalg.transpose", "tensor.pad"):
        return _is_given(definition.operands[0])
    return definition is None or definition.name == "hal.tensor.import"


def _bytes(value: ir.Value) -> int:
    """Of a tensor of elements of whole bytes."""
    type_ = ir.RankedTensorType(value.type)
    return int(prod(type_.shape) * type_.element_type.width // 8)
