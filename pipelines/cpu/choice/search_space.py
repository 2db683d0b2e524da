"""The implementations of a convolution on a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem, MatmulProblem
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.normalizations.image_sum import SummedExtents
from iree.winograd.pipelines.cpu.kernels.group_moments import moments_misfit
from iree.winograd.pipelines.cpu.kernels.kernel_of import kernel_misfit, ranges_bytes, scheduled_shape
from iree.winograd.pipelines.cpu.processor.target import IREE_CODE, CpuTarget
from iree.winograd.pipelines.cpu.schedules.fit import CpuSchedule, types_misfit
from iree.winograd.pipelines.machines.model import CpuMachine, Limits
from iree.winograd.pipelines.problems.iree_code import IreeCode
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.schedule_range import RangeRules
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

from .cost_model import least_seconds
from .default_schedule import default_schedules, fastest_by_kernel, transforming_filters
from .iree_cost import iree_matmul_seconds
from .kernel_choices import KERNEL_CHOICES, stage_seconds
from .rates import FAR_BYTE_SECONDS, NEAR_IMAGES_L2_CACHES, UNIT_NEAR_IMAGES_L2_CACHES
from .representative import DYNAMIC_BATCH, representative
from .tile_schedules import may_transform_filters
from .workers import Workers

UNKNOWN_SIZE_TOLERANCE = 0.03
"""Relative difference in predicted times at the expected sizes that suiting others is worth."""
RANGE_RULES = RangeRules(most_loss=0.3, least_gain=0.3, algorithm_gain=0.0)
"""A kernel more takes as much code, and memory for its filters, and predictions are off by a tenth: one that
was predicted to take 0.91 of the time of an image of twice the size gained nothing."""


@dataclass(frozen=True)
class CpuSearchSpace:
    """The implementations of a convolution on `threads` threads of `machine`.

    Raises ValueError for less than one thread.
    """

    target: CpuTarget
    machine: CpuMachine
    threads: int = 1

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"threads must be at least 1, not {self.threads}")

    def behind(self, shape: ConvolutionShape, schedule: Schedule) -> CpuSearchSpace:
        return self

    @property
    def key(self) -> str:
        target = self.target
        fused = "fma" if target.fused_multiply_add else "no fma"
        unit = ", matrix unit" if target.has_matrix_unit else ""
        registers = f"{target.vector_registers} registers of {target.vector_width}"
        return (
            f"{target.instruction_set.name} {target.cpu or 'generic'}, {registers}, {fused}{unit}, "
            f"L2 {target.l2_bytes}, threads {self.threads}"
        )

    @property
    def iree_code(self) -> IreeCode:
        return IREE_CODE

    @property
    def limits(self) -> Limits:
        return self.machine.limits(self.threads)

    def limit_seconds(self, operations: int, size: int, schedule: Schedule) -> float | None:
        """Which cache holds an image isn't known, nor the peak rate of AMX."""
        return None

    @property
    def dynamic_batch(self) -> int:
        return DYNAMIC_BATCH

    @property
    def max_relative_errors(self) -> Mapping[str, float]:
        """By element type. Kernels sum in blocks, so that tiles of 4 and some of 6 keep within it."""
        return {"f32": 1e-6}

    @property
    def takes_parameters(self) -> bool:
        return False

    @property
    def least_unknown_multiply_adds(self) -> None:
        """There are kernels for batches, which read matrices where they are."""
        return None

    @property
    def stores_half(self) -> bool:
        return self.target.stores_half

    @property
    def copies_half(self) -> bool:
        return self.target.stores_half

    def finds_moments(self, extents: SummedExtents) -> bool:
        return moments_misfit(extents, self.target) is None

    @property
    def unknown_size_tolerance(self) -> float:
        return UNKNOWN_SIZE_TOLERANCE

    @property
    def keeps_blocks(self) -> bool:
        return False

    def problem_misfit(self, problem: ConvolutionProblem) -> Reason | None:
        """Why the kernels don't compute `problem`: they are faster than IREE's code where they do."""
        return types_misfit(problem)

    def default_schedule(self, shape: ConvolutionShape) -> CpuSchedule:
        """The schedule that is taken without measurement. Raises ValueError where none fits."""
        return fastest_by_kernel(shape, self.target, self.machine, self.threads)[0]

    def default_schedules(self, shape: ConvolutionShape) -> tuple[CpuSchedule, ...]:
        """The default one, and the same with shorter sums where these are more accurate.

        Raises ValueError where none fits.
        """
        return default_schedules(shape, self.target, self.machine, self.threads)

    def schedules(self, shape: ConvolutionShape) -> Iterator[CpuSchedule]:
        """All schedules worth measuring that keep the target's limits, the default one first."""
        try:
            defaults = fastest_by_kernel(shape, self.target, self.machine, self.threads)
        except ValueError:
            return
        yield from defaults
        yield from transforming_filters(shape, self.target, self.machine, self.threads)
        for default in defaults:
            space = KERNEL_CHOICES[type(default)].space(shape, self.target, self.threads, default)
            yield from (schedule for schedule in space if schedule != default)

    def schedules_of_size(self, shape: ConvolutionShape) -> Iterator[CpuSchedule]:
        """Those that are taken without measurement: of images of any size all have blocks that suit these."""
        try:
            yield from self.default_schedules(shape)
        except ValueError:
            return

    @property
    def range_rules(self) -> RangeRules:
        return RANGE_RULES

    def ranges_misfit(self, problem: ConvolutionProblem) -> Reason | None:
        return "its filters are packed in each call" if problem.runtime_filter else None

    def sized_stage_seconds(self, shape: ConvolutionShape, schedule: Schedule) -> Mapping[str, float]:
        """That of the blocks that the kernel has for these sizes."""
        assert isinstance(schedule, CpuSchedule), "it is one of a CPU's"
        told = KERNEL_CHOICES[type(schedule)].told(shape, schedule)
        if told is None or self.misfit(shape, told) is not None:
            return {}
        return stage_seconds(shape, told, self.target, self.machine, self.threads)

    def channels_first_images(self, shape: ConvolutionShape, schedule: Schedule) -> tuple[bool, bool]:
        assert isinstance(schedule, CpuSchedule), "it is one of a CPU's"
        taken = scheduled_shape(schedule, shape, self.target)
        return taken.input_channels_first, taken.output_channels_first

    def holds_memory(self, kernels: Sequence[tuple[ConvolutionShape, Schedule]]) -> bool:
        return ranges_bytes(kernels, self.target) <= self.target.workgroup_bytes

    def least_seconds(self, shape: ConvolutionShape) -> float:
        """For tiles; kernels without are few to predict."""
        if shape.transform_size == 1 or isinstance(shape, WeightGradientShape):
            return 0.0
        return least_seconds(shape, self.target, self.machine, self.threads)

    def iree_stage_seconds(self, problem: ConvolutionProblem) -> Mapping[str, float]:
        """Those of products of rows and a matrix, as measured."""
        if not isinstance(problem, MatmulProblem):
            return {}
        return iree_matmul_seconds(problem, self.target, self.machine, self.threads)

    def far_image_seconds(self, shape: ConvolutionShape) -> float:
        """That of images that the caches don't keep until the next layer reads them."""
        moved = representative(shape).images * (shape.image_bytes + shape.result_bytes)
        is_on_unit = self.target.has_matrix_unit and shape.exact_type is not None
        near = UNIT_NEAR_IMAGES_L2_CACHES if is_on_unit else NEAR_IMAGES_L2_CACHES
        if moved <= near * self.target.l2_bytes:
            return 0.0
        return moved * FAR_BYTE_SECONDS / min(self.threads, self.machine.cores)

    def least_filter_bytes(self, shape: ConvolutionShape) -> int:
        """Those of filters as they are, where a kernel may transform them, or of half precision."""
        if may_transform_filters(shape, self.target):
            return shape.tap_bytes
        half = None if shape.transform_size > 1 else shape.exact_type
        types = shape.element_types
        return shape.filter_bytes // types.domain_bytes * element_bytes(half or types.domain)

    @property
    def filter_byte_price(self) -> float:
        """What reading a byte takes: where other processes read memory, too, it takes as much longer."""
        return 1 / Workers(self.machine, self.threads, self.threads).memory_bandwidth

    def misfit(self, shape: ConvolutionShape, schedule: Schedule) -> Reason | None:
        """Why the kernels don't compute `shape` by `schedule`, e.g. that of another, or None."""
        return kernel_misfit(shape, self.target, schedule)

    def stage_seconds(self, shape: ConvolutionShape, schedule: Schedule) -> Mapping[str, float]:
        """Seconds that each stage is predicted to take. Raises ValueError for the schedule of a GPU."""
        if not isinstance(schedule, CpuSchedule):
            raise ValueError(f"{schedule} is no schedule for a CPU")
        return stage_seconds(shape, schedule, self.target, self.machine, self.threads)
