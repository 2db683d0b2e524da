"""From sums and moments of images to dispatches: one kernel for parts of them, one that combines these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.normalizations.image_sum import ImageSum, SummedExtents
from iree.winograd.pipelines.emission.convolution_signature import image_tensor
from iree.winograd.pipelines.emission.element_function import ElementFunction
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.size_range import SUMMED, SummedRange
from iree.winograd.pipelines.emission.work import BATCH, Size
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import LINE_ELEMENTS, QUAD
from iree.winograd.pipelines.gpu.kernels.reductions.image_sums import ImageSums, Summed, SummingThreads
from iree.winograd.pipelines.gpu.kernels.reductions.row_sums import RowSumsKernel, divisor_size
from iree.winograd.pipelines.gpu.kernels.reductions.shared_states import SUMMING_THREADS
from iree.winograd.pipelines.gpu.lowerings.image_arguments import pixels_in_place
from iree.winograd.pipelines.problems.tensor_operations import (
    CombinedMoments,
    MomentFactors,
    PartialMoments,
    RowSums,
    Sums,
)

_WORKGROUPS = 512
"""As many as large GPUs have resident."""
_RESIDENT_THREADS = 1024
"""Of a multiprocessor: with as many all workgroups run at once."""
_LEAST_LOADS = 8
"""Of a thread, for a workgroup more to pay."""
_FEW_WORKGROUPS = 128
"""About as many as large GPUs have multiprocessors: enough for a small image."""
_SMALL = 1 << 21
"""Quads of a small image, or elements of one without, which takes about as long as a kernel to add parts."""
_FEW_GROUPS = 4
"""Whose moments a workgroup combines, at least.

More threads share a group then: merges of moments divide, and those of a thread wait for each other.
"""
_FEW_PIXELS = 1024
"""Of which a thread sums up to 32 of four channels."""
_IMAGE = "input"
"""What sizes of images are called that are known only at run time."""
_NOTHING = ElementFunction.of([])


@dataclass(frozen=True)
class SumsLowering:
    """Emits the dispatches of sums and moments."""

    launcher: Launcher

    def sums(self, operation: Sums) -> ir.Value:
        """In the order of memory, with what is computed of each."""
        found = operation.sums
        together = self._together(found)
        whole = _kernel(found.extents, Summed.SUM, _finish(found), together)
        if whole.parts == 1:
            return self._launch(whole, found.source, found.sizes or (1,), element=_element(found.result))
        partial = _kernel(found.extents, Summed.SUM, _NOTHING, together)
        parts = self._launch(partial, found.source, _partial_sizes(partial))
        return self._combine(parts, found, Summed.SUM, partial)

    def row_sums(self, operation: RowSums) -> ir.Value:
        """`N x H... x C` without the dimensions that are summed.

        Few pixels are summed by one kernel, more of them row by row, and their sums by another: of 480 of 64
        channels an H200 took 1.7 us in place of 2.8. Which it is, is seen when sizes are told.
        """
        dimensions = operation.dimensions
        if dimensions == 1:
            return _RowSums(self.launcher, operation.image).launch(1, operation)
        rank = ir.RankedTensorType(operation.image.type).rank - 2
        summed = tuple(
            size_of(operation.image, 1 + rank - dimensions + number) for number in range(dimensions)
        )
        few = replace(self.launcher, images=SummedRange(0, _FEW_PIXELS))
        many = replace(self.launcher, images=SummedRange(_FEW_PIXELS, None))
        sums = _RowSums(few, operation.image, summed).launch(dimensions, operation)
        rows = operation.image
        for _ in range(dimensions - 1):
            rows = _RowSums(many, rows, summed).launch(1)
        return _RowSums(many, rows, summed).launch(1, operation, onto=sums)

    def partial_moments(self, operation: PartialMoments) -> ir.Value:
        """`2 x outer x parts x kept`: means, and sums of squared deviations."""
        kernel = self._moments(operation.sums)
        return self._launch(kernel, operation.sums.source, (2, *_partial_sizes(kernel)))

    def combined_moments(self, operation: CombinedMoments) -> ir.Value:
        """In the order of memory."""
        summed = Summed.DEVIATIONS if operation.deviations else Summed.MEAN
        moments = self._moments(operation.sums)
        return self._combine(operation.partial, operation.sums, summed, moments)

    def moment_factors(self, operation: MomentFactors) -> ir.Value:
        """`2 x outer x kept x inner`: factors, and addends."""
        extents = operation.sums.extents
        moments = self._moments(operation.sums)
        kernel = replace(_combining(operation.sums, Summed.FACTORS, moments), channels=extents.inner)
        sizes = (2, extents.outer, extents.kept, extents.inner)
        return self._launch(kernel, operation.partial, sizes, (operation.weight, operation.bias))

    def _moments(self, found: ImageSum) -> ImageSums:
        """The kernel of moments of parts."""
        return _kernel(found.extents, Summed.MOMENTS, _NOTHING, self._together(found))

    def _together(self, found: ImageSum) -> int:
        """Elements of a row that a thread reads at a time if it has whole ones of so many."""
        row = found.extents.kept * found.extents.inner
        return self.launcher.target.together(row, _element(found.source))

    def _combine(self, parts: ir.Value, found: ImageSum, summed: Summed, partial: ImageSums) -> ir.Value:
        element = F32.name if summed is Summed.MEAN else _element(found.result)
        return self._launch(_combining(found, summed, partial), parts, found.sizes or (1,), element=element)

    def _launch(
        self,
        kernel: ImageSums,
        source: ir.Value,
        sizes: tuple[int, ...],
        parameters: Sequence[ir.Value] = (),
        element: str = F32.name,
    ) -> ir.Value:
        by_quads, together = kernel.width > 1, max(kernel.width, QUAD)
        image = source, replace(TensorArgument.of(source, by_quads), together=together)
        if not kernel.summed.reads_moments and kernel.extents.kept > 1:
            channels = kernel.extents.kept * kernel.extents.inner
            image, row = pixels_in_place(source, channels, by_quads=by_quads, together=together)
            kernel = replace(kernel, row=None if row == channels else row)
        result = TensorArgument(sizes, element, by_quads=False)
        threads = WorkgroupThreads(SUMMING_THREADS, _RESIDENT_THREADS)
        read = [(each, TensorArgument.of(each, by_quads=False)) for each in parameters]
        operands = [image, *read]
        return self.launcher.launch(kernel, kernel.name, threads, operands, result)


@dataclass(frozen=True)
class _RowSums:
    """Launches kernels that sum pixels of an image, which are told of how many elements the whole sum is."""

    launcher: Launcher
    image: ir.Value
    summed: tuple[int | ir.Value, ...] = ()

    def launch(self, dimensions: int, whole: RowSums | None = None, onto: ir.Value | None = None) -> ir.Value:
        """The sums over the last dimensions, in memory of their own unless it is that of others.

        They are divided and rounded as the `whole` sum that they end is.
        """
        type_ = ir.RankedTensorType(self.image.type)
        rank, channels, element = type_.rank - 2, type_.shape[-1], str(type_.element_type)
        divisors = () if whole is None else whole.divisors
        half = None if whole is None or whole.half is None else str(whole.half)
        together = self.launcher.target.together(channels, element)
        kernel = RowSumsKernel(rank, channels, len(divisors), dimensions, together, half)
        tensor = image_tensor(type_, _IMAGE, channels_first=False)
        source = TensorArgument.of(self.image, by_quads=kernel.width > 1, tensor=tensor)
        source = replace(source, together=together)
        gone = {Size(_IMAGE, dimension) for dimension in range(rank - dimensions, rank)}
        result = replace(
            source,
            extents=(*source.extents[: -1 - dimensions], source.extents[-1]),
            element=F32.name if whole is None or whole.element is None else str(whole.element),
            by_quads=False,
            dynamic=tuple(each for each in source.dynamic if each not in gone),
        )
        extents = {Size(_IMAGE, dimension): size_of(self.image, 1 + dimension) for dimension in range(rank)}
        index = ir.IndexType.get()
        told = {
            **{divisor_size(number): arith.index_cast(index, each) for number, each in enumerate(divisors)},
            **{Size(SUMMED, number): each for number, each in enumerate(self.summed)},
        }
        sizes = {BATCH: size_of(self.image, 0), **extents, **told}
        threads = WorkgroupThreads(SUMMING_THREADS)
        return self.launcher.launch(kernel, kernel.name, threads, [(self.image, source)], result, sizes, onto)


def _finish(found: ImageSum) -> ElementFunction:
    return ElementFunction.of(found.finishing, rounds_once=found.half is not None)


def _combining(found: ImageSum, summed: Summed, partial: ImageSums) -> ImageSums:
    """The kernel that combines the parts of sums that another one made."""
    extents = found.extents
    unit = extents.inner if extents.kept > 1 else 1
    length = extents.rows if extents.kept > 1 else extents.inner
    inner = SummedExtents(extents.outer, 1, 1, partial.parts)
    if extents.kept > 1:
        inner = SummedExtents(extents.outer, partial.parts, extents.kept, 1)
    is_mean = summed is Summed.MEAN
    finish = _NOTHING if is_mean else _finish(found)
    width = QUAD if not summed.reads_moments and inner.kept > 1 and inner.kept % QUAD == 0 else 1
    name = f"winograd_combine_{summed.value}_{inner.outer}x{partial.parts}x{inner.kept}"
    counts = (partial.part * unit, length * unit) if summed.reads_moments else (1, 1)
    columns = _columns(inner, width, _FEW_GROUPS if summed.reads_moments else LINE_ELEMENTS)
    return ImageSums(name, inner, summed, partial.parts, width, columns, finish, counts)


def _kernel(
    extents: SummedExtents, summed: Summed, finish: ElementFunction, together: int = QUAD
) -> ImageSums:
    """The kernel that reads an image: as many parts as fill a GPU, but not more than pay.

    A thread reads so many neighbours `together`, where rows are whole ones of so many.
    """
    row = extents.kept * extents.inner
    width = together if row % together == 0 else 1
    workgroups = _FEW_WORKGROUPS if _is_small(extents, width) else _WORKGROUPS
    threads = SummingThreads(extents, width, _columns(extents, width))
    if threads.keeps_columns:
        others = extents.outer * ceil_div(extents.kept, threads.block_groups)
        length, least = extents.rows, threads.along * _LEAST_LOADS
    else:
        others = ceil_div(extents.outer, threads.others)
        length, least = extents.inner, threads.along * width * _LEAST_LOADS
    parts = max(1, min(ceil_div(workgroups, others), length // least))
    part = ceil_div(length, parts)
    if not threads.keeps_columns:
        part = ceil_div(part, width) * width
    shape = f"{extents.outer}x{extents.rows}x{extents.kept}x{extents.inner}"
    return ImageSums(
        f"winograd_{summed.value}_{shape}", extents, summed, part, width, threads.columns, finish
    )


def _columns(extents: SummedExtents, width: int, least: int = LINE_ELEMENTS) -> int:
    """Elements of a row that a workgroup reads: of a small image no more than leave enough workgroups.

    More threads share a sum then, and fewer workgroups have to, whose parts another kernel would add.
    """
    columns = SUMMING_THREADS * width
    if _is_small(extents, width):
        while columns > least and extents.outer * ceil_div(extents.kept, columns) < _FEW_WORKGROUPS:
            columns //= 2
    return columns


def _is_small(extents: SummedExtents, width: int) -> bool:
    """Whether the pixels of a small image are summed."""
    elements = extents.outer * extents.rows * extents.kept
    return extents.inner == 1 and elements // min(width, QUAD) < _SMALL


def _partial_sizes(kernel: ImageSums) -> tuple[int, ...]:
    return (kernel.extents.outer, kernel.parts, kernel.extents.kept)


def _element(value: ir.Value) -> str:
    return str(ir.RankedTensorType(value.type).element_type)
