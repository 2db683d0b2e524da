"""The implementations of a convolution on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.element_types import F32
from iree.winograd.passes.match.convolutions.problem import (
    ConvolutionProblem,
    MatmulProblem,
    WeightGradientProblem,
)
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.normalizations.image_sum import SummedExtents
from iree.winograd.pipelines.gpu.device.matrix_unit import MMA
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.packing.split_rows import leaves_split
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule, kernel_misfit, types_misfit
from iree.winograd.pipelines.machines.model import GpuMachine, Limits
from iree.winograd.pipelines.problems.iree_code import IreeCode
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.schedule_range import RangeRules
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

from .candidate_schedules import schedules, schedules_of_all_sizes, unpredicted_schedules
from .cost_model import INPUT_ELEMENT_LATENCY, INPUT_STAGE, PAIR_ELEMENT_LATENCY
from .default_schedule import default_schedules
from .iree_cost import iree_convolution_seconds, iree_matmul_seconds
from .rates import split_products_are_faster
from .representative import DYNAMIC_BATCH
from .stage_seconds import stage_seconds

RUNNING_SUM_ERROR = 4e-6
"""Relative error that layers may have by default, whose products are running sums in fp32."""
MATRIX_UNIT_ERROR = 5e-7
"""The same where there are products of split numbers: that of F(4x4, 3x3) of any channels."""

SPILLED_FACTOR = 4
"""Times that input transforms take which spill registers: more than is likely, so that others are taken."""
_LEAST_UNKNOWN_MULTIPLY_ADDS = 1 << 28
"""That IREE's code takes 0.13 ms for on an H200: several times as long as to split and multiply matrices."""
UNKNOWN_SIZE_TOLERANCE = 0.12
"""Relative difference in predicted times at the expected sizes that suiting others is worth: tiles of an
image of twice the size leave most multiprocessors idle. Of 64 channels to 3 F(4x2) took an H200 24 us for
192x160 and 23 for half of that, where F(2x2) takes 8."""
RANGE_RULES = RangeRules(most_loss=0.1, least_gain=0.05, algorithm_gain=0.15)
"""Two layers of a film of 16x128x96 took an H200 71 us by the algorithms for half of it, and 57 by others, by
which they were predicted to gain 0.2."""
IMAGES_STAGE = "images"
"""As `weight_gradient_seconds` names it."""


@dataclass(frozen=True)
class GpuSearchSpace:
    """The implementations of a convolution on `machine`, for code within the limits of `target`."""

    target: GpuTarget
    machine: GpuMachine
    image_is_split: bool = False
    """Whether the layer before leaves what is multiplied, where products of pixels read it so."""

    def behind(self, shape: ConvolutionShape, schedule: Schedule) -> GpuSearchSpace:
        return replace(self, image_is_split=leaves_split(shape, schedule))

    @property
    def key(self) -> str:
        target = self.target
        return (
            f"gpu {target.architecture or 'generic'}, threads {target.max_threads}, "
            f"shared memory {target.shared_memory_bytes}"
        )

    @property
    def iree_code(self) -> IreeCode:
        return self.target.iree_code

    @property
    def limits(self) -> Limits:
        return self.machine.limits()

    def limit_seconds(self, operations: int, size: int, schedule: Schedule) -> float | None:
        rate: float | None = self.machine.flops
        if schedule.matrix_products > 0:
            peak = self.machine.matrix_flops
            rate = None if peak is None else peak / schedule.matrix_products
        return None if rate is None else max(operations / rate, size / self.machine.bandwidth(size))

    @property
    def dynamic_batch(self) -> int:
        return DYNAMIC_BATCH

    @property
    def max_relative_errors(self) -> Mapping[str, float]:
        """By element type.

        A product is one running sum, as it is in other GPU libraries, or one in blocks on matrix units: with
        those nothing needs to be less accurate than a direct convolution.
        """
        return {"f32": MATRIX_UNIT_ERROR if self._sums_in_blocks else RUNNING_SUM_ERROR}

    @property
    def _sums_in_blocks(self) -> bool:
        """Whether accurate products cost no speed: split numbers are multiplied faster than others.

        Through CUDA consumers' GPUs are held to the same, whose matrix units are slower.
        """
        unit = self.target.matrix_unit
        if unit is None or self.machine.matrix_flops is None:
            return False
        return unit == MMA or split_products_are_faster(unit, self.machine)

    @property
    def takes_parameters(self) -> bool:
        return True

    @property
    def least_unknown_multiply_adds(self) -> int | None:
        """Where matrix units are faster than IREE's code: it doesn't split numbers for them."""
        return _LEAST_UNKNOWN_MULTIPLY_ADDS if self._sums_in_blocks else None

    @property
    def stores_half(self) -> bool:
        return True

    @property
    def copies_half(self) -> bool:
        return False

    def finds_moments(self, extents: SummedExtents) -> bool:
        return self.target.iree_code.converts_half

    @property
    def unknown_size_tolerance(self) -> float:
        return UNKNOWN_SIZE_TOLERANCE

    @property
    def keeps_blocks(self) -> bool:
        return True

    def problem_misfit(self, problem: ConvolutionProblem) -> Reason | None:
        """Why the kernels don't compute `problem`, or None."""
        if reason := types_misfit(problem):
            return reason
        if isinstance(problem, WeightGradientProblem):
            is_depthwise = problem.groups > 1 and problem.group_inputs == 1
            return "it is the gradient of a depthwise filter" if is_depthwise else None
        if problem.groups > 1 and problem.group_inputs == 1 and problem.group_outputs > 1:
            return f"it is depthwise with {problem.group_outputs} output channels each"
        return None

    def default_schedule(self, shape: ConvolutionShape) -> GpuSchedule:
        """The schedule that is predicted to take least time on the machine."""
        return self.default_schedules(shape)[0]

    def default_schedules(self, shape: ConvolutionShape) -> Sequence[GpuSchedule]:
        """By the accuracy of products and sums the one predicted to take least time, the fastest first."""
        return default_schedules(shape.channels_last, self.target, self.machine, self.image_is_split)

    def schedules(self, shape: ConvolutionShape) -> Iterator[GpuSchedule]:
        """All schedules that keep the target's limits, the default one first."""
        shape = shape.channels_last
        target, machine = self.target, self.machine
        others = chain(
            schedules_of_all_sizes(shape, target, machine), unpredicted_schedules(shape, target, machine)
        )
        yield from dict.fromkeys([self.default_schedule(shape), *others])

    def schedules_of_size(self, shape: ConvolutionShape) -> Iterator[GpuSchedule]:
        """Those that keep the target's limits for images of about the expected sizes."""
        return schedules(shape.channels_last, self.target, self.machine)

    @property
    def range_rules(self) -> RangeRules:
        return RANGE_RULES

    def ranges_misfit(self, problem: ConvolutionProblem) -> Reason | None:
        return "its filters would be transformed for each" if problem.runtime_filter else None

    def sized_stage_seconds(self, shape: ConvolutionShape, schedule: Schedule) -> Mapping[str, float]:
        """That of the blocks of the schedule, which kernels keep."""
        return {} if self.misfit(shape, schedule) is not None else self.stage_seconds(shape, schedule)

    def channels_first_images(self, shape: ConvolutionShape, schedule: Schedule) -> tuple[bool, bool]:
        """Predictions are of images that are channels last."""
        return False, False

    def holds_memory(self, kernels: Sequence[tuple[ConvolutionShape, Schedule]]) -> bool:
        """Each is launched by itself."""
        return True

    def least_seconds(self, shape: ConvolutionShape) -> float:
        """Nothing: a GPU's few algorithms are all predicted."""
        return 0.0

    def iree_stage_seconds(self, problem: ConvolutionProblem) -> Mapping[str, float]:
        """Those of products of rows and a matrix, and on AMD's GPUs of convolutions in f32."""
        if isinstance(problem, MatmulProblem):
            return iree_matmul_seconds(problem, self.machine)
        if isinstance(problem, WeightGradientProblem) or problem.element_types != F32:
            return {}
        each_output = (1,) * problem.spatial_rank
        direct = Algorithm(each_output, each_output).decompose(problem)
        shape = ConvolutionShape.decomposed(problem, direct)
        return iree_convolution_seconds(shape.channels_last, self.target, self.machine)

    def far_image_seconds(self, shape: ConvolutionShape) -> float:
        """Nothing: predictions count bytes from memory, where images are."""
        return 0.0

    def least_filter_bytes(self, shape: ConvolutionShape) -> int:
        """What is stored isn't distinguished: a byte has no price there."""
        return shape.filter_bytes

    @property
    def filter_byte_price(self) -> float:
        """None: a GPU's memory is read by its own program."""
        return 0.0

    def misfit(self, shape: ConvolutionShape, schedule: Schedule) -> Reason | None:
        """Why the kernels don't compute `shape` by `schedule`, e.g. for lack of memory, or None."""
        return kernel_misfit(shape, self.target, schedule)

    def stage_seconds(self, shape: ConvolutionShape, schedule: Schedule) -> Mapping[str, float]:
        """Seconds that each stage is predicted to take, of images that are channels last.

        Raises ValueError for the schedule of a CPU.
        """
        if not isinstance(schedule, GpuSchedule):
            raise ValueError(f"{schedule} is no schedule for a GPU")
        shape = shape.channels_last
        stages = dict(stage_seconds(shape, schedule, self.machine, image_is_split=self.image_is_split))
        if (spilled := self._spilled_stage(shape, schedule)) in stages:
            stages[spilled] *= SPILLED_FACTOR
        elif INPUT_STAGE in stages and schedule.matrix_products == 0:
            stages[INPUT_STAGE] -= self._saved_by_pairs(shape.transform_size)
        return stages

    def _saved_by_pairs(self, tile_elements: int) -> float:
        """Seconds that threads take less for an input tile where two channels each are faster."""
        limits = self.target.tile_limits
        if limits is None or limits.fastest is None or self.target.transform_channels(tile_elements) == QUAD:
            return 0.0
        return tile_elements * (INPUT_ELEMENT_LATENCY - PAIR_ELEMENT_LATENCY)

    def _spilled_stage(self, shape: ConvolutionShape, schedule: GpuSchedule) -> str:
        """That whose threads lack registers for the elements of a tile; nothing where they have them."""
        target, elements = self.target, shape.transform_size
        if isinstance(shape, WeightGradientShape):
            return "" if target.transforms_quads(elements) else IMAGES_STAGE
        keeps = target.keeps_tile if schedule.matrix_products else target.transforms_tile
        return "" if keeps(elements) else INPUT_STAGE
