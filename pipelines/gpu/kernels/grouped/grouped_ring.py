"""The kernel of groups of eight channels on matrix units, which take pixels from a ring of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from iree.winograd.dialect.bindings import ir, memref, vector
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index, unflatten
from iree.winograd.pipelines.emission.vectors import vector_type
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device import mma
from iree.winograd.pipelines.gpu.device.epilogue_operands import by_channels
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS
from iree.winograd.pipelines.gpu.device.memory import (
    OCTET,
    PAIR,
    QUAD,
    GlobalBuffer,
    barrier,
    lane,
    numbers_of_thread,
    quad_of,
    zero_scalar,
)
from iree.winograd.pipelines.gpu.kernels.direct.direct import DirectKernel
from iree.winograd.pipelines.gpu.schedules.grouped_ring import (
    STEP_TAPS,
    TILES_TOGETHER,
    GroupedRingSchedule,
    GroupedRingTiling,
)
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES

from .image_ring import ImageRingWorkgroup, ring_workgroups


@dataclass(frozen=True)
class GroupedRingKernel(DirectKernel):
    """output[n, o..., k] = epilogue(sum over taps and channels of k's group of image * filters).

    A fragment of 16 pixels by a group's channels of two taps is a load of shared memory, where these channels
    are 16 bytes. Those of filters lie in registers.
    """

    schedule: GroupedRingSchedule

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        return ring_workgroups(GroupedRingTiling(self.shape, self.schedule), sizes)

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        _Workgroup(self, work, image, filters, output, by_channels(epilogue, PAIR)).emit()


class _Workgroup(ImageRingWorkgroup):
    shares_rows = True

    def __init__(
        self,
        kernel: GroupedRingKernel,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        self._tiling = GroupedRingTiling(kernel.shape, kernel.schedule)
        super().__init__(self._tiling, work, image, filters, output, epilogue)
        self._kernel = kernel
        self._scalars = filters.viewed_as(filters.element) if filters.by_quads else filters.memref

    @property
    def _epilogue_channel(self) -> Index:
        return self._channel + self._lane % QUAD * PAIR

    @property
    def _epilogue_width(self) -> int:
        return PAIR

    def _place_of(self, column: Index, ahead: int = 0) -> Index:
        stride = self._tiling.stride
        if ahead % stride:
            return self._place_of(column + ahead)
        return column % stride * self._tiling.phase_columns + column // stride + ahead // stride

    def _prepare(self) -> None:
        barrier()
        self._taps = [self._tap_fragment(step) for step in range(self._tiling.steps)]

    def _request_taps(self) -> Callable[[], None]:
        """Brings the workgroup's taps to shared memory: of each output channel those of its group's inputs.

        Warps would load them one by one, each of which lies in another line.
        """
        schedule, factors = self._schedule, self._schedule.factors
        count = len(self._shape.decomposition.views) * schedule.channels
        gathered = []
        for number, exists in numbers_of_thread(self._thread, schedule.threads, count):
            # Those behind the last one are it, too: nothing branches before what is loaded is there.
            existing = number if exists.known else number.minimum(count - 1)
            tap, output = existing // schedule.channels, existing % schedule.channels
            weights = [factors.narrowed(self._weight(tap, Index(i), output)) for i in range(OCTET)]
            gathered.append((exists, number, vector.from_elements(vector_type(OCTET, factors.type), weights)))

        def leave() -> None:
            for exists, number, taps in gathered:
                when(exists, partial(self._results.store, taps, number * self._tiling.slot_bytes))

        return leave

    def _tap_fragment(self, step: int) -> ir.Value:
        """A thread's output channel by two inputs of each of two taps; zeros behind the last tap."""
        factors, schedule = self._schedule.factors, self._schedule
        output = self._unit * OCTET + self._lane // QUAD
        elements = []
        for number in range(step * STEP_TAPS, (step + 1) * STEP_TAPS):
            if number < len(self._shape.decomposition.views):
                row = (output + number * schedule.channels) * OCTET + self._lane % QUAD * PAIR
                pair = self._results.load(vector_type(PAIR, factors.type), row * HALF_BYTES)
                elements += [lane(pair, i) for i in range(PAIR)]
            else:
                elements += [zero_scalar(factors.type)] * PAIR
        return vector.from_elements(ir.VectorType.get([STEP_TAPS, PAIR], factors.type), elements)

    def _weight(self, number: Index, channel: Index, output: Index) -> ir.Value:
        """Of a tap and an input channel of the group, for an output channel of the workgroup."""
        shape, layout = self._shape, self._kernel.layout
        output = self._first_channel + output
        if layout is None:
            place = (channel + number * shape.group_inputs) * shape.output_channels + output
        else:
            columns = shape.kernel_size[1]
            tap = number // columns, number % columns
            place = layout.place(self._filters, shape.kernel_size, tap, (channel, output))
        return self._filters.number.widened(memref.load(self._scalars, [place.value]))

    def _compute(self, strip: Index, kept: Sequence[ir.Value]) -> Sequence[ir.Value]:
        tiling, warps = self._tiling, self._schedule.unit_warps
        warp = self._warp // self._schedule.units
        with loop(tiling.tiles, warps * TILES_TOGETHER, "tile") as first:
            tiles = [first + warp + number * warps for number in range(TILES_TOGETHER)]
            for tile, sums in zip(tiles, self._sums(strip, tiles), strict=True):
                for half in range(2):
                    number = self._output_number(tile, self._lane // QUAD + half * OCTET)
                    row, image, column = self._output_place(number)
                    pair = quad_of([vector.extract(sums, [], [half, i]) for i in range(PAIR)])
                    finished = self._finished(pair, strip, image, row, column)
                    channel = self._unit * OCTET + self._lane % QUAD * PAIR
                    self._leave(finished, strip, image, row, column, channel)
        return kept

    def _output_number(self, tile: Index, row: Index) -> Index:
        """Of a tile's row; of those behind the last one that."""
        number = tile * MATRIX_ROWS + row
        is_all = self._tiling.outputs % (MATRIX_ROWS * self._schedule.unit_warps * TILES_TOGETHER) == 0
        return number if is_all else number.minimum(self._tiling.outputs - 1)

    def _output_place(self, number: Index) -> tuple[Index, ...]:
        """Row, image and column."""
        schedule = self._schedule
        return unflatten(number, (schedule.strip_rows, schedule.images, self._tiling.result_columns))

    def _sums(self, strip: Index, tiles: Sequence[Index]) -> list[ir.Value]:
        """Of each of some tiles."""
        tiling, slot = self._tiling, OCTET
        lane_row, second = self._lane % MATRIX_ROWS, self._lane // MATRIX_ROWS
        places = [self._output_place(self._output_number(tile, lane_row)) for tile in tiles]
        sums = [mma.no_sums() for _ in tiles]
        for step, taps in enumerate(self._taps):
            # Half of the threads say where the second tap's pixels lie; of one too many the first's do.
            numbers = [step * STEP_TAPS, min(step * STEP_TAPS + 1, len(self._shape.decomposition.views) - 1)]
            rows, columns = zip(*(divmod(each, self._shape.kernel_size[1]) for each in numbers), strict=True)
            behind = [each % tiling.stride * tiling.phase_columns + each // tiling.stride for each in columns]
            tap_row = second * (rows[1] - rows[0]) + rows[0]
            tap_column = second * (behind[1] - behind[0]) + behind[0]
            for number, (row, image, column) in enumerate(places):
                line = self._ring_row(strip * tiling.strip_step + row * tiling.stride + tap_row)
                pixel = line * tiling.row_columns + image * tiling.image_columns + (column + tap_column)
                pixels = self._memory.fragment((pixel * tiling.slots + self._unit) * slot)
                sums[number] = mma.multiply(pixels, taps, sums[number])
        return sums
