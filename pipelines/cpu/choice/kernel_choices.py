"""How schedules of each kernel are found, and what they are predicted to take: a row a kernel.

The row of the kernel itself, by the same class of schedules, is in `kernels/kernel_of.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from iree.winograd.pipelines.cpu.kernels.kernel_of import scheduled_shape
from iree.winograd.pipelines.cpu.processor.product import CACHE_LINE_FLOATS
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.bf16_vectors import Bf16VectorSchedule
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule, can_fetch
from iree.winograd.pipelines.cpu.schedules.depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.cpu.schedules.fit import CpuSchedule
from iree.winograd.pipelines.cpu.schedules.matrix_unit import (
    Bf16MatrixUnitSchedule,
    F16MatrixUnitSchedule,
    MatrixUnitSchedule,
)
from iree.winograd.pipelines.cpu.schedules.weight_gradient import WeightGradientSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule, images_are_far
from iree.winograd.pipelines.emission.numbers.f16 import F16
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

from .bf16_vectors_cost import bf16_vectors_seconds
from .cost_model import depthwise_seconds, direct_seconds, winograd_seconds
from .depthwise_schedules import depthwise_defaults
from .depthwise_weight_gradient_schedules import depthwise_weight_gradient_schedules
from .direct_schedules import direct_defaults
from .layout_cost import transposition_seconds
from .matrix_unit_cost import matrix_unit_seconds
from .matrix_unit_schedules import matrix_unit_schedules
from .representative import representative
from .schedule_space import depthwise_schedules, direct_schedules, winograd_schedules
from .tile_schedules import filter_schedules, tile_schedules
from .told_sizes import told_depthwise, told_direct, told_tiles
from .transform_cost import filter_transform_seconds
from .weight_gradient_schedules import weight_gradient_schedules

SHORTEST_BLOCK = 32
"""Channels of a reduction block where an algorithm would exceed the error limit by longer ones."""
FETCHING_PROCESSORS = ("znver4",)
"""Those on which fetching images while tiles are multiplied was measured to gain, by LLVM's names: on others
the lines that are asked for may keep the tiles waiting, so that tuning has to find a gain. So do rows of
depthwise layers by vectors that are parts of a cache line."""

StageSeconds = Mapping[str, float]


def _as_it_is(schedule: Any, shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine) -> Any:
    return schedule


def _none_transforming(*conditions: Any) -> tuple[()]:
    """Its filters aren't transformed."""
    return ()


def _none_told(shape: ConvolutionShape, schedule: Any) -> None:
    """It isn't one of several kernels, for images of other sizes each."""


def _none_shorter(schedule: Any) -> None:
    """Its sums are as short as they can be, or as long as they have to."""


@dataclass(frozen=True)
class KernelChoice:
    """The schedules of a kernel."""

    defaults: Callable[[Any, CpuTarget, CpuMachine, int], Iterable[CpuSchedule]]
    """The few from which the default is predicted, for a shape and so many threads. There may be none."""
    space: Callable[[Any, CpuTarget, int, Any], Iterable[CpuSchedule]]
    """All that are worth measuring, beside a default."""
    stage_seconds: Callable[[Any, Any, CpuTarget, CpuMachine, int], StageSeconds]
    """Of each stage, for a shape of known sizes."""
    completed: Callable[[Any, ConvolutionShape, CpuTarget, CpuMachine], Any] = _as_it_is
    """The fastest as predicted, with what isn't predicted."""
    transforming_filters: Callable[[Any, CpuTarget, CpuMachine, int], Iterable[CpuSchedule]] = (
        _none_transforming
    )
    """Those that transform constant filters in each call. There may be none."""
    with_shorter_sums: Callable[[Any], CpuSchedule | None] = _none_shorter
    """A schedule that takes longer, and rounds less; None where there is none."""
    told: Callable[[ConvolutionShape, Any], CpuSchedule | None] = _none_told
    """Of a kernel that is told sizes, by which blocks it divides images of a shape's, whatever its schedule
    was chosen for; None where that isn't known, as of kernels that have one schedule for all sizes."""


def stage_seconds(
    shape: ConvolutionShape, schedule: CpuSchedule, target: CpuTarget, machine: CpuMachine, threads: int
) -> StageSeconds:
    """Seconds of the stages of the kernel that computes `shape` by `schedule`.

    Each stage takes what one of the threads has to do of it on average; "waiting" is for threads to start and
    for the last one to be done. Channels-first images that the kernel doesn't take are transposed in a stage
    of their own. Of sizes known only at run time these are the seconds of `representative` ones.
    """
    choice = KERNEL_CHOICES[type(schedule)]
    return choice.stage_seconds(representative(shape), schedule, target, machine, threads)


def _of_convolution(
    seconds: Callable[[ConvolutionShape, Any, CpuTarget, CpuMachine, int], StageSeconds],
    packs_filters: Callable[[Any], bool] = lambda schedule: True,
) -> Callable[[ConvolutionShape, Any, CpuTarget, CpuMachine, int], StageSeconds]:
    """`seconds` of images as the kernel takes them, with those of packing filters and transposing images."""

    def stages_of(
        shape: ConvolutionShape, schedule: Any, target: CpuTarget, machine: CpuMachine, threads: int
    ) -> StageSeconds:
        scheduled = scheduled_shape(schedule, shape, target)
        stages = seconds(scheduled, schedule, target, machine, threads)
        if packs_filters(schedule):
            before = filter_transform_seconds(scheduled, schedule.channel_block, target, machine, threads)
            stages = {name: before.get(name, 0.0) + stages.get(name, 0.0) for name in (*before, *stages)}
        if scheduled == shape:
            return stages
        return {**stages, "transposition": transposition_seconds(shape, scheduled, target, machine, threads)}

    return stages_of


def _weight_gradient_seconds(
    shape: ConvolutionShape,
    schedule: WeightGradientSchedule,
    target: CpuTarget,
    machine: CpuMachine,
    threads: int,
) -> StageSeconds:
    from .weight_gradient_cost import weight_gradient_seconds

    return weight_gradient_seconds(shape, schedule, target, machine, threads)


def _depthwise_weight_gradient_seconds(
    shape: WeightGradientShape,
    schedule: DepthwiseWeightGradientSchedule,
    target: CpuTarget,
    machine: CpuMachine,
    threads: int,
) -> StageSeconds:
    from .depthwise_weight_gradient_cost import depthwise_weight_gradient_seconds

    return depthwise_weight_gradient_seconds(shape, schedule, target, machine, threads)


def _fetching_images(
    schedule: WinogradSchedule, shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine
) -> WinogradSchedule:
    is_gain = machine.name in FETCHING_PROCESSORS and images_are_far(representative(shape), target)
    return replace(schedule, image_prefetch=1) if is_gain and schedule.filter_block is None else schedule


def _fetching_rows(
    schedule: DepthwiseSchedule, shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine
) -> DepthwiseSchedule:
    is_gain = machine.name in FETCHING_PROCESSORS and schedule.vector_width < CACHE_LINE_FLOATS
    return replace(schedule, image_prefetch=1) if is_gain and can_fetch(shape, schedule) else schedule


def _with_shorter_sums(schedule: WinogradSchedule) -> WinogradSchedule | None:
    # Sums of filters that workgroups transform are as long as the blocks that these are transformed in allow.
    if schedule.filter_block is not None or schedule.reduction_block <= SHORTEST_BLOCK:
        return None
    return replace(schedule, reduction_block=SHORTEST_BLOCK)


def _on_matrix_unit(
    kind: type[MatrixUnitSchedule | Bf16MatrixUnitSchedule | F16MatrixUnitSchedule],
    is_for: Callable[[ConvolutionShape], bool] = lambda shape: True,
) -> KernelChoice:
    def schedules(shape: ConvolutionShape, target: CpuTarget, threads: int) -> Iterable[CpuSchedule]:
        return matrix_unit_schedules(shape, target, threads, kind) if is_for(shape) else ()

    return KernelChoice(
        lambda shape, target, machine, threads: schedules(shape, target, threads),
        lambda shape, target, threads, default: schedules(shape, target, threads),
        _of_convolution(
            lambda shape, schedule, target, machine, threads: matrix_unit_seconds(
                shape, schedule, machine, threads
            )
        ),
    )


def _is_in_f16(shape: ConvolutionShape) -> bool:
    """Whether operands are f16, which two parts of bf16 hold."""
    return shape.exact_type == F16.name


def _bf16_vector_schedules(
    shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int
) -> Iterable[CpuSchedule]:
    """None where the machine's rate isn't known."""
    if machine.bf16_flops is None:
        return ()
    return matrix_unit_schedules(shape, target, threads, Bf16VectorSchedule)


KERNEL_CHOICES: Mapping[type[CpuSchedule], KernelChoice] = MappingProxyType(
    {
        WinogradSchedule: KernelChoice(
            tile_schedules,
            winograd_schedules,
            _of_convolution(winograd_seconds, lambda schedule: schedule.filter_block is None),
            _fetching_images,
            filter_schedules,
            _with_shorter_sums,
            told_tiles,
        ),
        DirectSchedule: KernelChoice(
            direct_defaults, direct_schedules, _of_convolution(direct_seconds), told=told_direct
        ),
        MatrixUnitSchedule: _on_matrix_unit(MatrixUnitSchedule),
        Bf16MatrixUnitSchedule: _on_matrix_unit(Bf16MatrixUnitSchedule),
        F16MatrixUnitSchedule: _on_matrix_unit(F16MatrixUnitSchedule, _is_in_f16),
        Bf16VectorSchedule: KernelChoice(
            _bf16_vector_schedules,
            lambda shape, target, threads, default: matrix_unit_schedules(
                shape, target, threads, Bf16VectorSchedule
            ),
            _of_convolution(bf16_vectors_seconds),
        ),
        DepthwiseSchedule: KernelChoice(
            lambda shape, target, machine, threads: depthwise_defaults(shape, target, threads),
            depthwise_schedules,
            _of_convolution(depthwise_seconds),
            _fetching_rows,
            told=told_depthwise,
        ),
        WeightGradientSchedule: KernelChoice(
            lambda shape, target, machine, threads: weight_gradient_schedules(shape, target, threads),
            lambda shape, target, threads, default: weight_gradient_schedules(shape, target, threads),
            _weight_gradient_seconds,
        ),
        DepthwiseWeightGradientSchedule: KernelChoice(
            lambda shape, target, machine, threads: depthwise_weight_gradient_schedules(
                shape, target, threads
            ),
            lambda shape, target, threads, default: depthwise_weight_gradient_schedules(
                shape, target, threads
            ),
            _depthwise_weight_gradient_seconds,
        ),
    }
)
"""All kernels, by the classes of their schedules."""
