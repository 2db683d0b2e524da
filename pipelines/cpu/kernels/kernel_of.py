"""The kernels that compute convolutions and gradients of filters, a row each.

How a kernel's schedules are found, and what it is predicted to take, is in its row of
`choice/kernel_choices.py`: that may change while the code of kernels stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.values.constants import Array
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.bf16_vectors import Bf16VectorSchedule
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule, is_depthwise, shares_pixels
from iree.winograd.pipelines.cpu.schedules.depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule, in_lines
from iree.winograd.pipelines.cpu.schedules.fit import (
    CpuSchedule,
    bf16_vectors_misfit,
    depthwise_misfit,
    depthwise_weight_gradient_misfit,
    direct_misfit,
    half_matrix_unit_misfit,
    matrix_unit_misfit,
    told_direct_bytes,
    weight_gradient_misfit,
    winograd_misfit,
    workgroup_bytes,
)
from iree.winograd.pipelines.cpu.schedules.matrix_unit import (
    Bf16MatrixUnitSchedule,
    F16MatrixUnitSchedule,
    MatrixUnitSchedule,
)
from iree.winograd.pipelines.cpu.schedules.weight_gradient import WeightGradientSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.machines.units import KIBIBYTE
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

from .filters import pack_filters

if TYPE_CHECKING:
    from .bf16_vectors import Bf16VectorKernel
    from .depthwise import DepthwiseKernel
    from .depthwise_weight_gradient import DepthwiseWeightGradientKernel
    from .direct import DirectKernel
    from .filters import CpuKernel
    from .half_matrix_unit import HalfMatrixUnitKernel
    from .matrix_unit import MatrixUnitKernel
    from .weight_gradient import WeightGradientKernel
    from .winograd import WinogradKernel

    CpuWeightGradientKernel = WeightGradientKernel | DepthwiseWeightGradientKernel


class InputStage(Protocol):
    """A kernel whose image another transforms before."""

    @property
    def shape(self) -> ConvolutionShape: ...

    @property
    def transformed_shape(self) -> tuple[int, ...]: ...

    def input_workgroups(self, sizes: Sizes) -> tuple[Index, ...]: ...

    def emit_input(self, work: Work, source: Buffer, transformed: Buffer) -> None: ...


class TransformStages(Protocol):
    """A kernel of gradients whose images and gradients others transform before."""

    @property
    def transformed_images_shape(self) -> tuple[int, ...]: ...

    @property
    def transformed_gradients_shape(self) -> tuple[int, ...]: ...

    def transform_workgroups(self, sizes: Sizes) -> tuple[Index, ...]: ...

    def emit_images(self, work: Work, image: Buffer, transformed: Buffer) -> None: ...

    def emit_gradients(self, work: Work, gradient: Buffer, transformed: Buffer) -> None: ...

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]: ...

    def emit(self, work: Work, images: Buffer, gradients: Buffer, result: Buffer) -> None: ...


def _no_bytes(schedule: Any, shape: ConvolutionShape, target: CpuTarget) -> int:
    """What it reads lies where it is."""
    return 0


def _none(kernel: Any) -> None:
    """There are no stages before."""


def _overlaps(kernel: Any) -> bool:
    """Blocks of outputs overlap rather than be cut short."""
    return False


@dataclass(frozen=True)
class KernelKind:
    """A kernel, as it is found by the class of its schedules."""

    suits: Callable[[ConvolutionShape, CpuTarget], bool]
    """Whether it is for such a convolution, of which there may be several kernels."""
    misfit: Callable[[Any, ConvolutionShape, CpuTarget], Reason | None]
    """What keeps it from computing a convolution by one of its schedules; None when nothing does."""
    kernel: Callable[[Any, Any, CpuTarget], Any]
    """The kernel of a shape by one of its schedules, whose module is imported by then."""
    input_stage: Callable[[Any], InputStage | None] = _none
    """Of a kernel of this kind: itself, where another one transforms its image."""
    transform_stages: Callable[[Any], TransformStages | None] = _none
    """The same of one of gradients. Where there are none, workgroups compute parts of a gradient, or all."""
    pack_filters: Callable[[Any, Array], Array] = pack_filters
    """Transformed filters as a kernel reads them."""
    packs_beforehand: bool = False
    """Whether no kernel packs filters, so that they are transformed while compiling."""
    writes_once: Callable[[Any], bool] = _overlaps
    """Whether a kernel computes each output once, and reads what its epilogue reads for it just before."""
    workgroup_bytes: Callable[[Any, ConvolutionShape, CpuTarget], int] | None = None
    """The memory that a workgroup needs of its own by a schedule, of a kernel that may be one of several by
    ranges of sizes; None for others."""

    @staticmethod
    def of(kernel: CpuKernel | CpuWeightGradientKernel) -> KernelKind:
        return KERNEL_KINDS[type(kernel.schedule)]


def kernel_misfit(shape: ConvolutionShape, target: CpuTarget, schedule: object) -> Reason | None:
    """Why no kernel computes a convolution by `schedule`; None where one does: the only gate to them."""
    suited = suited_schedules(shape, target)
    if not isinstance(schedule, suited):
        needed = " or a ".join(kind.__name__ for kind in suited)
        return f"{schedule} is no schedule for this convolution on a CPU, which needs a {needed}"
    reason = misfit(schedule, shape, target)
    return None if reason is None else f"{schedule} doesn't fit this convolution: {reason}"


def misfit(schedule: CpuSchedule, shape: ConvolutionShape, target: CpuTarget) -> Reason | None:
    """What keeps the kernel of a schedule from computing `shape`, which it is for; None when nothing does."""
    return KERNEL_KINDS[type(schedule)].misfit(schedule, shape, target)


def ranges_bytes(kernels: Sequence[tuple[ConvolutionShape, Schedule]], target: CpuTarget) -> int:
    """The memory of a workgroup of several kernels, of which each has its own.

    Raises ValueError for one that can't be one of several.
    """
    total = 0
    for shape, schedule in kernels:
        assert isinstance(schedule, CpuSchedule)
        needed = KERNEL_KINDS[type(schedule)].workgroup_bytes
        if needed is None:
            raise ValueError(f"{schedule} is for images of all sizes")
        total += needed(schedule, shape, target) + KIBIBYTE
    return total - KIBIBYTE


def scheduled_shape(schedule: CpuSchedule, shape: ConvolutionShape, target: CpuTarget) -> ConvolutionShape:
    """`shape` as the kernel of a schedule gets it, channels last where it takes no images channels first.

    `winograd-fold-layout` decides alike, on the input first.
    """
    scheduled = shape.channels_last
    if shape.input_channels_first:
        folded = shape.with_layouts(input_channels_first=True, output_channels_first=False)
        scheduled = scheduled if misfit(schedule, folded, target) else folded
    if shape.output_channels_first:
        folded = shape.with_layouts(
            input_channels_first=scheduled.input_channels_first, output_channels_first=True
        )
        scheduled = scheduled if misfit(schedule, folded, target) else folded
    return scheduled


def kernel_for(shape: ConvolutionShape, target: CpuTarget, schedule: object) -> CpuKernel:
    """The kernel that computes a convolution by `schedule`.

    Raises ValueError for the schedule of a kernel that doesn't compute it, or not by this schedule.
    """
    kernel: CpuKernel = _kernel(shape, target, schedule)
    return kernel


def weight_gradient_kernel(
    shape: WeightGradientShape, target: CpuTarget, schedule: object
) -> CpuWeightGradientKernel:
    """The kernel that computes the gradient of a filter by `schedule`.

    Raises ValueError for the schedule of another kernel, and where this one doesn't do so by it.
    """
    kernel: CpuWeightGradientKernel = _kernel(shape, target, schedule)
    return kernel


def suited_schedules(shape: ConvolutionShape, target: CpuTarget) -> tuple[type[CpuSchedule], ...]:
    """The classes of schedule, each of a kernel, for a convolution or the gradient of a filter."""
    return tuple(schedule for schedule, kind in KERNEL_KINDS.items() if kind.suits(shape, target))


def _kernel(shape: ConvolutionShape, target: CpuTarget, schedule: object) -> Any:
    if reason := kernel_misfit(shape, target, schedule):
        raise ValueError(reason)
    assert isinstance(schedule, CpuSchedule)
    return KERNEL_KINDS[type(schedule)].kernel(shape, schedule, target)


def _has_tiles(shape: ConvolutionShape, target: CpuTarget) -> bool:
    return not _is_gradient(shape) and shape.transform_size > 1


def _is_direct(shape: ConvolutionShape) -> bool:
    return not _is_gradient(shape) and shape.transform_size == 1


def _is_gradient(shape: ConvolutionShape) -> bool:
    return isinstance(shape, WeightGradientShape)


def _is_dense(shape: ConvolutionShape, target: CpuTarget) -> bool:
    return _is_direct(shape) and not is_depthwise(shape, target)


def _suits_matrix_unit(shape: ConvolutionShape, target: CpuTarget) -> bool:
    return _is_dense(shape, target) and target.has_matrix_unit and shape.groups == 1


def _suits_bf16_vectors(shape: ConvolutionShape, target: CpuTarget) -> bool:
    return _is_dense(shape, target) and target.multiplies_bf16 and shape.groups == 1


def _winograd(shape: ConvolutionShape, schedule: WinogradSchedule, target: CpuTarget) -> WinogradKernel:
    from .winograd import WinogradKernel

    return WinogradKernel(shape, schedule, target)


def _direct(shape: ConvolutionShape, schedule: DirectSchedule, target: CpuTarget) -> DirectKernel:
    from .direct import DirectKernel

    return DirectKernel(in_lines(shape), schedule, target)


def _matrix_unit(
    shape: ConvolutionShape, schedule: MatrixUnitSchedule, target: CpuTarget
) -> MatrixUnitKernel:
    from .matrix_unit import MatrixUnitKernel

    return MatrixUnitKernel(in_lines(shape), schedule, target)


def _half_matrix_unit(
    shape: ConvolutionShape, schedule: Bf16MatrixUnitSchedule | F16MatrixUnitSchedule, target: CpuTarget
) -> HalfMatrixUnitKernel:
    from .half_matrix_unit import HalfMatrixUnitKernel

    return HalfMatrixUnitKernel(in_lines(shape), schedule, target)


def _bf16_vectors(
    shape: ConvolutionShape, schedule: Bf16VectorSchedule, target: CpuTarget
) -> Bf16VectorKernel:
    from .bf16_vectors import Bf16VectorKernel

    return Bf16VectorKernel(in_lines(shape), schedule, target)


def _depthwise(shape: ConvolutionShape, schedule: DepthwiseSchedule, target: CpuTarget) -> DepthwiseKernel:
    from .depthwise import DepthwiseKernel

    return DepthwiseKernel(shape, schedule, target)


def _weight_gradient(
    shape: WeightGradientShape, schedule: WeightGradientSchedule, target: CpuTarget
) -> WeightGradientKernel:
    from .weight_gradient import WeightGradientKernel

    return WeightGradientKernel(shape, schedule, target)


def _depthwise_weight_gradient(
    shape: WeightGradientShape, schedule: DepthwiseWeightGradientSchedule, target: CpuTarget
) -> DepthwiseWeightGradientKernel:
    from .depthwise_weight_gradient import DepthwiseWeightGradientKernel

    return DepthwiseWeightGradientKernel(shape, schedule, target)


KERNEL_KINDS: Mapping[type[CpuSchedule], KernelKind] = MappingProxyType(
    {
        WinogradSchedule: KernelKind(
            _has_tiles,
            winograd_misfit,
            _winograd,
            input_stage=lambda kernel: None if kernel.schedule.input_block is None else kernel,
            workgroup_bytes=workgroup_bytes,
        ),
        DirectSchedule: KernelKind(_is_dense, direct_misfit, _direct, workgroup_bytes=told_direct_bytes),
        MatrixUnitSchedule: KernelKind(_suits_matrix_unit, matrix_unit_misfit, _matrix_unit),
        **dict.fromkeys(
            (Bf16MatrixUnitSchedule, F16MatrixUnitSchedule),
            KernelKind(
                _suits_matrix_unit,
                half_matrix_unit_misfit,
                _half_matrix_unit,
                pack_filters=lambda kernel, transformed: kernel.pack_filters(transformed),
                packs_beforehand=True,
                writes_once=lambda kernel: kernel.writes_once,
            ),
        ),
        Bf16VectorSchedule: KernelKind(
            _suits_bf16_vectors,
            bf16_vectors_misfit,
            _bf16_vectors,
            pack_filters=lambda kernel, transformed: kernel.pack_filters(transformed),
            packs_beforehand=True,
        ),
        DepthwiseSchedule: KernelKind(
            lambda shape, target: (
                _is_direct(shape) and (is_depthwise(shape, target) or shares_pixels(shape, target))
            ),
            depthwise_misfit,
            _depthwise,
            workgroup_bytes=_no_bytes,
        ),
        WeightGradientSchedule: KernelKind(
            lambda shape, target: _is_gradient(shape) and not is_depthwise(shape, target),
            weight_gradient_misfit,
            _weight_gradient,
            transform_stages=lambda kernel: kernel if kernel.schedule.tile_slices is None else None,
        ),
        DepthwiseWeightGradientSchedule: KernelKind(
            lambda shape, target: _is_gradient(shape) and is_depthwise(shape, target),
            depthwise_weight_gradient_misfit,
            _depthwise_weight_gradient,
        ),
    }
)
"""All kernels, by the classes of their schedules."""
