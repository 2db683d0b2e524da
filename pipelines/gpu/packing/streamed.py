"""The layout of filters by which pixels are multiplied that stream through warps: those of `split.py`.

But for positions along the reduction dimension: a thread loads four neighbours of a pixel at once, which are
two pairs of what matrix units take of 16 positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from iree.winograd.passes.match.values.constants import Array
from iree.winograd.pipelines.emission.index import Index, select_index
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, MATRIX_ROWS
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.schedules.streamed import StreamedSchedule

from .split import SplitPacking

_PAIR = 2


@dataclass(frozen=True)
class StreamedPacking(SplitPacking):
    """The filters of a direct convolution for a schedule of streams of pixels."""

    schedule: StreamedSchedule

    @property
    def steps(self) -> int:
        """Of 16 positions along the reduction dimension, which hold all."""
        return self.schedule.steps(self.shape)

    def steps_of(self, channel_block: int) -> range:
        """Those of a block of channels."""
        each = self.schedule.block_steps(self.shape)
        return range(channel_block * each, min(self.steps, (channel_block + 1) * each))

    @property
    def group_elements(self) -> int:
        """Numbers of half precision of a block of columns of a group."""
        return self.stages * self.schedule.block_columns * self.schedule.unit.stage_row

    @property
    def read_chunks(self) -> int:
        """Of a row of a stage, which holds more where there is one stage of few steps."""
        chunks, of_steps = self.schedule.unit.row_chunks, self.steps * MATRIX_ROWS // COPIED
        return min(chunks, of_steps) if self.schedule.parts == 1 else chunks

    @property
    def octet_steps(self) -> int:
        """The first steps, of which threads have octets, two steps each."""
        return self.steps // 2 * 2 if self.schedule.has_octets(self.shape) else 0

    def stage_place(self, line: Index, position: Index) -> Index:
        if self.octet_steps == 0:
            return super().stage_place(line, _step_position(position, QUAD))
        row = line // self.schedule.block_columns * self.schedule.block_reduction + position
        is_of_octet = row.less_than(self.octet_steps * MATRIX_ROWS)
        by_quads, by_octets = (_step_position(position, width) for width in (QUAD, 2 * QUAD))
        return super().stage_place(line, select_index(is_of_octet, by_octets, by_quads))

    def stage_lines(self, column: Index) -> list[Index]:
        if not self.schedule.has_octets_of_results(self.shape):
            return super().stage_lines(column)
        within = column % (2 * MATRIX_ROWS)
        moved = within // QUAD % 2 * MATRIX_ROWS + within // (2 * QUAD) * QUAD
        return super().stage_lines(column - within + moved)

    def by_quads(self, transformed: Array) -> Array:
        rows = super().by_quads(transformed)
        octets = self.octet_steps * MATRIX_ROWS
        rows = np.concatenate(
            [_in_steps(rows[:, :octets], 2 * QUAD), _in_steps(rows[:, octets:], QUAD)], axis=1
        )
        if self.schedule.has_octets_of_results(self.shape):
            products, reduction, columns = rows.shape
            parts = rows.reshape(products, reduction, -1, QUAD, 2, QUAD).swapaxes(3, 4)
            rows = np.ascontiguousarray(parts).reshape(products, reduction, columns)
        return rows


def _step_position(position: Index, width: int) -> Index:
    """Where a position lies among those of the steps of which each thread has so many neighbours."""
    steps = QUAD * width
    within, thread = position % width, position % steps // width
    step, pair = within // QUAD, within % QUAD // _PAIR
    moved = step * MATRIX_ROWS + pair * (MATRIX_ROWS // 2) + thread * _PAIR + position % _PAIR
    return position // steps * steps + moved


def _in_steps(rows: Array, width: int) -> Array:
    """Rows along the reduction dimension as `_step_position` has them."""
    products, reduction, columns = rows.shape
    # To thread, step, pair, position in the pair.
    parts = rows.reshape(products, -1, QUAD, width // QUAD, QUAD // _PAIR, _PAIR, columns)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 4, 2, 5, 6)).reshape(products, reduction, columns)
