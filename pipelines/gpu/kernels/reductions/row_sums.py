"""The GPU kernel that sums the pixels of each row of an image of any size."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.numbers.known import NUMBERS
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.work import Size, Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import (
    LINE_ELEMENTS,
    QUAD,
    GlobalBuffer,
    quad_or_zero,
    thread_id,
)

from .image_sums import LOADS
from .shared_states import SUMMING_THREADS, SharedStates
from .statistics import SUM, State


def divisor_size(number: int) -> Size:
    """What the kernel is told one of its divisors as."""
    return Size("divisor", number)


@dataclass(frozen=True)
class RowSumsKernel:
    """The sums of each channel over a row of pixels, or over all pixels of the last dimensions as one row; a
    workgroup takes a line of the channels of a row.

    Its threads read `width` channels at a time, neighbours, and share the pixels.
    """

    rank: int
    """Of the image's spatial dimensions."""
    channels: int
    divisors: int = 0
    """Numbers that the sums are divided by."""
    dimensions: int = 1
    """Those that are summed, the last ones."""
    together: int = QUAD
    """Channels that a thread reads at a time of rows that have whole ones of so many."""
    half: str | None = None
    """What the quotients are rounded to, by MLIR's name of the type."""

    @property
    def name(self) -> str:
        of = "row" if self.dimensions == 1 else "pixel"
        return f"winograd_{of}_sums_{'x'.join(['any'] * self.rank)}x{self.channels}"

    @property
    def width(self) -> int:
        return self.together if self.channels % self.together == 0 else 1

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Rows of all images, and lines of channels."""
        rows = sizes.batch * product(sizes.spatial("input")[: -self.dimensions])
        return rows, Index(ceil_div(self.channels, LINE_ELEMENTS)), Index(1)

    def emit(self, work: Work, image: GlobalBuffer, output: GlobalBuffer) -> None:
        """Emits the work of one workgroup: N x H... x W x C to N x H... x C, or to fewer dimensions."""
        row, line, _ = work.workgroup
        pixels = product(work.sizes.spatial("input")[-self.dimensions :])
        across = LINE_ELEMENTS // self.width
        along = SUMMING_THREADS // across
        column, other = thread_id() % across * self.width, thread_id() // across
        first = line * LINE_ELEMENTS
        # Threads beyond the last channel read others, which nobody stores.
        channel = (first + column).minimum(self.channels - self.width)
        begin = (row * pixels + other) * self.channels + channel

        def load(number: Index) -> ir.Value:
            place = begin + number * (along * self.channels)
            return image.load_scalar(place) if self.width == 1 else image.load(place, self.width)

        def add(state: State, number: Index, loads: int) -> State:
            return SUM.add(state, [load(number + each) for each in range(loads)])

        count = (pixels + (along - 1) - other) // along
        whole = count // LOADS
        zero = SUM.zero(self.width, image.computed)

        def with_rest(state: State) -> State:
            """All at once, each the last one where there is none: one after the other would wait for each."""
            first = whole * LOADS
            loads = [load(first)]
            for number in range(1, LOADS - 1):
                loaded = load((first + number).minimum(count - 1))
                exists = (first + number).less_than(count)
                loads.append((_or_zero if self.width == 1 else quad_or_zero)(exists, loaded))
            return SUM.add(state, loads)

        state = loop_carried(whole, 1, zero, lambda i, state: add(state, i * LOADS, LOADS), "loads")
        rest = (count - whole * LOADS).minimum(1)
        state = loop_carried(rest, 1, state, lambda i, state: with_rest(state), "rest")
        shared = SharedStates.of_columns(
            SUM, state, along, across, self.width, (column, other), output.computed
        )

        def store() -> None:
            (total,) = shared.merged(thread_id())
            for number in range(self.divisors):
                divisor = arith.index_cast(
                    ir.IntegerType.get_signless(32), work.sizes[divisor_size(number)].value
                )
                total = arith.divf(total, arith.uitofp(output.computed, divisor))
            if self.half is not None:
                total = NUMBERS[self.half].rounded(total)
            output.store_scalar(total, row * self.channels + first + thread_id())

        is_channel = (first + thread_id()).less_than(self.channels)
        when(thread_id().less_than(LINE_ELEMENTS) & is_channel, store)


def _or_zero(exists: Condition, value: ir.Value) -> ir.Value:
    """A scalar where the condition holds, zero elsewhere."""
    return arith.select(exists.value, value, arith.constant(value.type, 0.0))
