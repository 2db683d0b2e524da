"""Sums, means and squared deviations of images: by threads, workgroups, then a second kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.normalizations.image_sum import SummedExtents
from iree.winograd.pipelines.emission.control_flow import loop, loop_carried, when
from iree.winograd.pipelines.emission.element_function import ElementFunction
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer, thread_id

from .shared_states import SUMMING_THREADS, SharedStates, lanes_of
from .statistics import MOMENTS, SUM, State, Statistic

LOADS = 4
"""Elements, quads or octets that a thread has on their way at a time, of as many as are known in a call."""
_KNOWN_LOADS = 8
"""The same of numbers that threads have in common, none of which is left behind a loop."""
_UNROLLED_LOADS = 32
"""Vectors of a thread whose sums are no loop: how many elements it has so far is known where it adds more."""


class Summed(Enum):
    """What a kernel reads, and what it makes of it."""

    SUM = "sum"
    """Sums of elements."""
    MOMENTS = "moments"
    """Means and sums of squared deviations of elements: the two behind each other."""
    MEAN = "mean"
    """Means of what several workgroups have the moments of."""
    DEVIATIONS = "deviations"
    """Sums of squared deviations of the same."""
    FACTORS = "factors"
    """Factors and addends of each channel of a group, by both: the two behind each other."""

    @property
    def statistic(self) -> Statistic:
        return SUM if self is Summed.SUM else MOMENTS

    @property
    def reads_moments(self) -> bool:
        return self in (Summed.MEAN, Summed.DEVIATIONS, Summed.FACTORS)


@dataclass(frozen=True)
class SummingThreads:
    """How the threads of a workgroup share a tensor `outer x rows x kept x inner`.

    Those that are `across` read neighbouring elements, `width` at a time; `along` threads share a sum. Rows
    of a tensor that keeps nothing inside are shared by threads that are neighbours: along is across then.
    """

    extents: SummedExtents
    width: int
    columns: int
    """Elements of a row, at most, that a workgroup reads of a tensor that keeps something inside."""

    @property
    def keeps_columns(self) -> bool:
        """Whether neighbouring elements belong to several sums."""
        return self.extents.kept > 1

    @property
    def block_groups(self) -> int:
        """Sums whose columns a workgroup has."""
        kept, inner = self.extents.kept, self.extents.inner
        if kept * inner <= self.columns:
            return kept
        groups = self.columns // inner
        return next(each for each in range(groups, 0, -1) if each * inner % self.width == 0)

    @property
    def across(self) -> int:
        """A power of two."""
        elements = self.extents.inner * (self.block_groups if self.keeps_columns else 1)
        return min(SUMMING_THREADS, _power_of_two(ceil_div(elements, self.width)))

    @property
    def others(self) -> int:
        """Threads for each of `across`: further rows of the same columns, or rows of other sums."""
        return SUMMING_THREADS // self.across

    @property
    def along(self) -> int:
        return self.others if self.keeps_columns else self.across


@dataclass(frozen=True)
class ImageSums:
    """`outer x rows x kept x inner` to `outer x parts x kept`: what `summed` says of rows and inner elements.

    Parts are of `part` neighbouring rows, or of so many elements of a row where nothing inside is kept; the
    last one may have fewer. Moments have a dimension of two before all others. `finish` is computed of each
    of the other results, and of the deviations that factors are made of: `finish(deviations) * weight`, with
    the addends `bias - mean * factor`. These, of one part, have another dimension, of the `channels` of a
    group, and a dimension of two before all others.
    """

    name: str
    extents: SummedExtents
    summed: Summed
    part: int
    width: int
    """Elements that a thread reads at a time, neighbours."""
    columns: int
    """As of `SummingThreads`."""
    finish: ElementFunction
    counts: tuple[int, int] = (1, 1)
    """Elements that each of the moments read is of, but for the last ones, and those of all."""
    channels: int = 1
    row: int | None = None
    """Elements from one row to the next, as in a tensor of more channels; None where rows are dense."""

    @property
    def parts(self) -> int:
        return ceil_div(self._length, self.part)

    @property
    def _length(self) -> int:
        return self.extents.rows if self._threads.keeps_columns else self.extents.inner

    @property
    def _threads(self) -> SummingThreads:
        return SummingThreads(self.extents, self.width, self.columns)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Blocks of columns, parts, and what is outer, which threads share where it has few elements."""
        threads, extents = self._threads, self.extents
        if threads.keeps_columns:
            return (
                Index(ceil_div(extents.kept, threads.block_groups)),
                Index(self.parts),
                Index(extents.outer),
            )
        return Index(1), Index(self.parts), Index(ceil_div(extents.outer, threads.others))

    @property
    def _thread_elements(self) -> int | None:
        """Of each lane of a thread, what its state is of; None where those of threads differ."""
        vectors = self.part if self._threads.keeps_columns else ceil_div(self.part, self.width)
        rest = vectors % self._threads.along
        if rest or self._length % self.part or (vectors != self.part and self.part % self.width):
            return None
        most, all_ = self.counts
        return None if all_ % most else vectors // self._threads.along * most

    def emit(self, work: Work, source: GlobalBuffer, *parameters_and_output: GlobalBuffer) -> None:
        """Emits the work of one workgroup. Factors have weight and bias for parameters."""
        *parameters, output = parameters_and_output
        threads, extents = self._threads, self.extents
        block, part, outer = work.workgroup
        across, other = thread_id() % threads.across, thread_id() // threads.across
        first = part * self.part
        length = (
            self.part if self._length % self.part == 0 else (Index(self._length) - first).minimum(self.part)
        )
        if threads.keeps_columns:
            columns = threads.block_groups * extents.inner
            row = extents.kept * extents.inner
            column = (block * columns + across * self.width).minimum(row - self.width)
            distance = row if self.row is None else self.row
            begin = source.origin + (outer * extents.rows + first + other) * distance + column
            count, step = self._share(Index.of(length), other), threads.along * distance
        else:
            number = (outer * threads.others + other).minimum(extents.outer - 1)
            begin = number * extents.inner + first + across * self.width
            count = self._share(ceildiv(length, self.width), across)
            step = threads.along * self.width

        def load(i: Index) -> State:
            place = begin + i * step
            if not self.summed.reads_moments:
                return [self._load(source, place)]
            return self._moments(
                source, place, first + (other if threads.keeps_columns else across) + i * threads.along
            )

        scales = self._load_scales(parameters, block) if self.summed is Summed.FACTORS else []
        state = self._accumulated(count, load, source.computed)
        if self.summed is Summed.FACTORS:
            self._store_factors(state, scales, output, (block, outer), (across, other))
        elif threads.keeps_columns:
            self._store_columns(state, output, (block, part, outer), (across, other))
        else:
            self._store_rows(state, output, (part, outer), (across, other))

    def _share(self, length: Index, thread: Index) -> Index:
        """How many of so many rows or vectors, one or more, are a thread's."""
        along = self._threads.along
        if length.known is not None and length.known % along == 0:
            return Index(length.known // along)
        return (length + (along - 1) - thread) // along

    def _load(self, source: GlobalBuffer, place: Index) -> ir.Value:
        return source.load_scalar(place) if self.width == 1 else source.load(place, self.width)

    def _moments(self, source: GlobalBuffer, place: Index, number: Index) -> State:
        """Those of the elements that another workgroup had, which is told from the others by a number."""
        behind = self.extents.outer * self.extents.rows * self.extents.kept * self.extents.inner
        most, all_ = self.counts
        elements = arith.constant(source.computed, float(most))
        if all_ % most:
            count = (Index(all_) - number * most).minimum(most)
            integer = arith.index_cast(ir.IntegerType.get_signless(32), count.value)
            elements = arith.sitofp(source.computed, integer)
        return [elements, self._load(source, place), self._load(source, place + behind)]

    def _accumulated(self, count: Index, load: Callable[[Index], State], element: ir.Type) -> State:
        statistic = self.summed.statistic

        def loaded(first: Index, loads: int) -> State:
            items = [load(first + i) for i in range(loads)]
            if self.summed.reads_moments:
                return reduce(statistic.merge, items)
            return statistic.of([item for (item,) in items])

        def add(state: State, first: Index, loads: int) -> State:
            return statistic.merge(state, loaded(first, loads))

        at_once = LOADS
        if count.known is not None and (count.known % _KNOWN_LOADS == 0 or count.known <= _UNROLLED_LOADS):
            at_once = _KNOWN_LOADS
        if count.known is not None and count.known <= _UNROLLED_LOADS:
            begins = range(0, count.known, at_once)
            return reduce(
                statistic.merge,
                (loaded(Index(begin), min(at_once, count.known - begin)) for begin in begins),
            )
        state, whole = statistic.zero(self.width, element), count // at_once
        state = loop_carried(whole, 1, state, lambda i, state: add(state, i * at_once, at_once), "loads")
        first = whole * at_once
        return loop_carried(count - first, 1, state, lambda i, state: add(state, first + i, 1), "rest")

    def _store_columns(
        self,
        state: State,
        output: GlobalBuffer,
        workgroup: tuple[Index, Index, Index],
        thread: tuple[Index, Index],
    ) -> None:
        threads, extents = self._threads, self.extents
        block, part, outer = workgroup
        shared = self._merged(state, thread, output.computed)
        groups = threads.block_groups
        with loop(ceildiv(groups, SUMMING_THREADS), name="group") as i:
            group = i * SUMMING_THREADS + thread_id()
            number = block * groups + group

            def finish() -> None:
                merged = shared.merged_columns(group * extents.inner, extents.inner)
                place = (outer * self.parts + part) * extents.kept + number
                self._store(merged, output, place)

            when(group.less_than(groups) & number.less_than(extents.kept), finish)

    def _merged(self, state: State, thread: tuple[Index, Index], element: ir.Type) -> SharedStates:
        """Those of a workgroup's columns, in their first row."""
        across, other = thread
        threads = self._threads
        return SharedStates.of_columns(
            self.summed.statistic,
            state,
            threads.along,
            threads.across,
            self.width,
            (across * self.width, other),
            element,
            self._thread_elements,
        )

    def _load_scales(self, parameters: Sequence[GlobalBuffer], block: Index) -> list[list[ir.Value]]:
        """Weight and bias of each channel of a thread, on their way while moments are merged."""
        last = self.extents.kept * self.channels - 1
        places = [self._of_all(channel, block).minimum(last) for channel in self._thread_channels()]
        return [[each.load_scalar(place) for each in parameters] for place in places]

    def _thread_channels(self) -> list[Index]:
        """Those that a thread has of the channels of a workgroup's groups, and some behind these."""
        channels = self._threads.block_groups * self.channels
        return [i * SUMMING_THREADS + thread_id() for i in range(ceil_div(channels, SUMMING_THREADS))]

    def _of_all(self, channel: Index, block: Index) -> Index:
        return block * (self._threads.block_groups * self.channels) + channel

    def _store_factors(
        self,
        state: State,
        scales: Sequence[Sequence[ir.Value]],
        output: GlobalBuffer,
        workgroup: tuple[Index, Index],
        thread: tuple[Index, Index],
    ) -> None:
        """Of all channels of the groups of a workgroup, one for each thread at a time."""
        extents, groups = self.extents, self._threads.block_groups
        block, outer = workgroup
        shared = self._merged(state, thread, output.computed)
        for channel, (weight, bias) in zip(self._thread_channels(), scales, strict=True):
            group = channel // self.channels
            place = outer * (extents.kept * self.channels) + self._of_all(channel, block)

            def finish(
                group: Index = group, place: Index = place, weight: ir.Value = weight, bias: ir.Value = bias
            ) -> None:
                _, mean, deviations = shared.merged(group)
                factor = arith.mulf(self.finish.emit(deviations), weight)
                addend = arith.addf(arith.mulf(arith.negf(mean), factor), bias)
                output.store_scalar(factor, place)
                output.store_scalar(addend, place + extents.sums * self.channels)

            when(group.less_than(groups) & (block * groups + group).less_than(extents.kept), finish)

    def _store_rows(
        self, state: State, output: GlobalBuffer, workgroup: tuple[Index, Index], thread: tuple[Index, Index]
    ) -> None:
        threads = self._threads
        part, outer = workgroup
        across, other = thread
        elements = self._thread_elements
        shared = SharedStates.allocate(
            self.summed.statistic,
            threads.along,
            threads.others,
            output.computed,
            count=None if elements is None else elements * self.width,
        )
        shared.store(reduce(self.summed.statistic.merge, lanes_of(state, self.width)), across, other)
        shared.merge(across, other)
        number = outer * threads.others + other

        def finish() -> None:
            self._store(shared.merged(other), output, number * self.parts + part)

        when(across.equals(0) & number.less_than(self.extents.outer), finish)

    def _store(self, state: State, output: GlobalBuffer, place: Index) -> None:
        if self.summed is Summed.MOMENTS:
            _, mean, deviations = state
            output.store_scalar(mean, place)
            output.store_scalar(deviations, place + self.extents.sums * self.parts)
            return
        wanted = (
            state[2]
            if self.summed is Summed.DEVIATIONS
            else state[1]
            if self.summed is Summed.MEAN
            else state[0]
        )
        output.store_scalar(self.finish.emit(wanted), place)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
