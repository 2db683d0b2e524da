"""What the kernel of a weight gradient takes by its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.decomposition import Decomposition
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.weight_gradient import WeightGradientSchedule
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .product_cost import channel_seconds
from .rates import (
    ACCUMULATE_CYCLES,
    CACHED_TILES,
    ELEMENT_CYCLES,
    INPUT_OPERATION_CYCLES,
    MEMORY_TILES,
    OUTPUT_OPERATION_CYCLES,
    PRODUCT_EFFICIENCY,
)
from .slice_sum_cost import slice_sum_seconds
from .transform_cost import nested_operations
from .workers import Workers, complete, in_turn


def weight_gradient_seconds(
    shape: ConvolutionShape,
    schedule: WeightGradientSchedule,
    target: CpuTarget,
    machine: CpuMachine,
    threads: int,
) -> Mapping[str, float]:
    """Seconds of the stages of `WeightGradientKernel`.

        input    = T * V*C/lanes * (1.3 * operations + 2*A) cycles, and that of writing them
        gradient = T * K/lanes * (1.3 * operations + A + M) cycles, and that of writing them
        products = register blocks * (T / efficiency + tile blocks * sums * 3.8 cycles), and that of reading
                   both once for each block of the other's channels
        output   = V*C * K/lanes * (2.3 * operations + A + P) cycles

    in the symbols of docs/explanation/architecture.md, with M outputs and P taps of a part. Transformed tiles
    are read from the last cache if it holds them with what they are made of, and are written to memory.
    Workgroups that transform slices of the tiles themselves do so for each block of the other's channels, but
    leave them in cache; the taps of several slices are read again for their total.
    """
    cost = _Cost(shape, schedule, target, machine, threads)
    return cost.apart() if schedule.tile_slices is None else cost.in_slices(schedule.tile_slices)


@dataclass(frozen=True)
class _Cost:
    """Of one weight gradient by one schedule."""

    shape: ConvolutionShape
    schedule: WeightGradientSchedule
    target: CpuTarget
    machine: CpuMachine
    threads: int

    def apart(self) -> dict[str, float]:
        """Where dispatches of their own transform all tiles."""
        shape = self.shape
        workers = Workers(self.machine, self.threads, ceil_div(self._tiles, self.schedule.tile_block))
        images = complete(
            {
                "input": self._transform_seconds(
                    shape.groups * shape.decomposition.view_count * self._image_seconds(shape.group_inputs),
                    self._image_bytes,
                    workers,
                )
            },
            workers,
        )
        gradients = complete(
            {
                "gradient": self._transform_seconds(
                    self._gradient_seconds(shape.output_channels), self._gradient_bytes, workers
                )
            },
            workers,
        )
        workers = Workers(self.machine, self.threads, self._blocks)
        read = workers.share * self._element_bytes * (self.schedule.row_block + self.schedule.channel_block)
        reading = read / self._tile_bandwidth(workers)
        products = complete(self._products(workers, self._tiles, reading), workers)
        return in_turn(images, gradients, products)

    def in_slices(self, slices: int) -> dict[str, float]:
        """Where workgroups transform the tiles of a slice themselves."""
        workers = Workers(self.machine, self.threads, slices * self._blocks)
        blocks = ceil_div(self._tiles, self.schedule.tile_block)
        tiles = min(self._tiles, ceil_div(blocks, slices) * self.schedule.tile_block)
        found = {
            "input": workers.load * tiles * self._image_seconds(self.schedule.row_block),
            "gradient": workers.load * tiles * self._gradient_seconds(self.schedule.channel_block),
            **self._products(workers, tiles, reading=0.0),
        }
        if slices == 1:
            return complete(found, workers)
        return in_turn(
            complete(found, workers), slice_sum_seconds(self.shape, slices, self.machine, self.threads)
        )

    def _products(self, workers: Workers, tiles: int, reading: float) -> dict[str, float]:
        """Of workgroups that sum over so many tiles, and take so long to read them."""
        schedule, points, cycle = self.schedule, self.shape.transform_size, 1 / self.machine.clock
        product = schedule.product
        register_blocks = schedule.row_block // product.rows * (schedule.channel_block // product.channels)
        sums = schedule.register_rows * schedule.register_vectors
        per_channel = channel_seconds(product, self.target, self.machine) / PRODUCT_EFFICIENCY
        multiplying = workers.load * points * register_blocks * tiles * per_channel
        tile_blocks = ceil_div(tiles, schedule.tile_block)
        accumulating = (
            workers.load * points * register_blocks * tile_blocks * sums * ACCUMULATE_CYCLES * cycle
        )
        taps = prod(self.shape.decomposition.part_size)
        operations = _operations(self.shape.decomposition)
        per_output = OUTPUT_OPERATION_CYCLES * operations.output + (points + taps)
        output_vectors = schedule.row_block * schedule.channel_block // schedule.vector_width
        return {
            "products": multiplying + reading + accumulating,
            "output": workers.load * output_vectors * per_output * cycle,
        }

    def _transform_seconds(self, tile_seconds: float, size: int, workers: Workers) -> float:
        """To transform all tiles to `size` bytes; their lines are read before they are written."""
        written = 2 * size / (MEMORY_TILES * workers.memory_bandwidth)
        return workers.load / workers.workgroups * self._tiles * tile_seconds + written

    def _tile_bandwidth(self, workers: Workers) -> float:
        """Bytes per second at which each worker reads what dispatches have transformed."""
        images = self.shape.images * (self.shape.image_bytes + self.shape.result_bytes)
        moved = self._image_bytes + self._gradient_bytes + images
        is_cached = moved <= self.machine.caches[-1].size
        return (CACHED_TILES if is_cached else MEMORY_TILES) * workers.shared_bandwidth(moved)

    def _image_seconds(self, channels: int) -> float:
        """To transform a tile of one view of neighbouring channels of the image."""
        operations = _operations(self.shape.decomposition).input
        return (
            self._vectors(channels)
            * (INPUT_OPERATION_CYCLES * operations + ELEMENT_CYCLES * 2 * self.shape.transform_size)
            / self.machine.clock
        )

    def _gradient_seconds(self, channels: int) -> float:
        """To transform a tile of neighbouring channels of the gradients."""
        operations = _operations(self.shape.decomposition).gradient
        elements = self.shape.transform_size + prod(self.shape.decomposition.output_tile)
        return (
            self._vectors(channels)
            * (INPUT_OPERATION_CYCLES * operations + ELEMENT_CYCLES * elements)
            / self.machine.clock
        )

    def _vectors(self, channels: int) -> int:
        return ceil_div(channels, vector_width_for(channels, self.target.vector_width))

    @property
    def _tiles(self) -> int:
        return self.shape.images * prod(self.shape.tiles_per_image)

    @property
    def _blocks(self) -> int:
        """Of input channels of all groups and views, by those of output channels."""
        shape, schedule = self.shape, self.schedule
        rows = (
            shape.groups * shape.decomposition.view_count * ceil_div(shape.group_inputs, schedule.row_block)
        )
        return rows * ceil_div(shape.group_outputs, schedule.channel_block)

    @property
    def _element_bytes(self) -> int:
        """Of all transformed tiles of one channel."""
        return self.shape.element_types.domain_bytes * self.shape.transform_size * self._tiles

    @property
    def _image_bytes(self) -> int:
        return self._element_bytes * self.shape.groups * self.shape.reduction

    @property
    def _gradient_bytes(self) -> int:
        return self._element_bytes * self.shape.output_channels


@dataclass(frozen=True)
class _Operations:
    """On one tile of one channel, or the sums of a pair of channels."""

    input: int
    gradient: int
    output: int


@cache
def _operations(decomposition: Decomposition) -> _Operations:
    found = decomposition.gradient_transforms
    return _Operations(
        nested_operations([each.input for each in found]),
        nested_operations([each.filter for each in found]),
        nested_operations([each.output for each in found]),
    )
