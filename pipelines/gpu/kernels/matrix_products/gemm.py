"""Products of f32 by multiply-adds or CDNA's matrix units: shared memory in two buffers, sums in registers.

Both operands lie in shared memory with the reduction dimension outermost, so that a thread reads what it
multiplies as quads, neighbouring threads neighbouring quads: free of bank conflicts. The left operand comes
with its rows along the reduction dimension; threads transpose blocks of 4 x 4 of it in registers on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from iree.winograd.dialect.algebra.numerics import SUM_BLOCK, summed_block
from iree.winograd.dialect.bindings import arith, ir, scf, vector
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import clamped_element, input_positions, locate_tile
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.instruction_order import computed_here, keep_in_order
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    SharedBuffer,
    barrier,
    constant_quad,
    lane,
    quad_type,
    thread_id,
    transposed,
)
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import (
    FilterTransformKernel,
    InputTransformKernel,
)
from iree.winograd.pipelines.gpu.packing.products import MultiplyAddPacking
from iree.winograd.pipelines.gpu.schedules.gemm import NEIGHBOURING_ROWS, GemmSchedule, MfmaGemmSchedule

from .filter_lines import fetch_lines
from .mfma_tiling import MfmaTiling
from .products import Block, Blocks, Storing

LoadRows = Callable[[Index, Index], list[ir.Value]]
"""From where a block of the reduction dimension begins, for all threads, and how far behind that a thread
loads, to four quads there: of four rows each, or of positions."""
LoadQuad = Callable[[Index, Index], ir.Value]
"""From a position along the reduction dimension and a column to a quad of columns."""
_FEW_ROW_BLOCKS = 16
_Quads = tuple[list[ir.Value], list[ir.Value]]
"""What a thread multiplies in a step: quads of rows, and of columns."""


@dataclass(frozen=True)
class MultiplyAddProduct:
    """Fused multiply-adds of the types as they are; direct convolutions read the image in place."""

    packing: MultiplyAddPacking
    transform_channels: int = QUAD
    """Of a thread of the input transform."""
    float_register: str | None = None
    """As `GpuTarget` has it."""
    takes_ptx: bool = False
    """Whether code may have instructions of NVIDIA's GPUs: few blocks of tiles have their filters brought
    near first, and tiles of unknown sizes are loaded where they exist."""

    @property
    def walking_workgroups(self) -> None:
        return None

    @property
    def input_kernel(self) -> InputTransformKernel | None:
        if self.packing.reads_image:
            return None
        return InputTransformKernel(self.packing, self.transform_channels, takes_ptx=self.takes_ptx)

    def filter_kernel(self, layout: FilterLayout) -> FilterTransformKernel:
        return FilterTransformKernel(self.packing, layout)

    def emit(
        self, blocks: Blocks, sizes: Sizes, left: GlobalBuffer, filters: GlobalBuffer, storing: Storing
    ) -> None:
        """Emits what a workgroup does for its block."""
        packing, block = self.packing, blocks.only()
        store = storing(block).store
        first = block.part * packing.part_reduction
        filter_origin = filters.offset([block.product, first, block.first_column])
        if self.takes_ptx and self._is_small(sizes):
            fetch_lines(
                filters,
                filter_origin,
                packing.part_reduction,
                packing.padded_filters,
                packing.schedule.block_columns,
                packing.schedule.threads,
            )

        def part_rows(row: Index) -> LoadRows:
            rows = self._image_rows if self.packing.reads_image else self._packed_rows
            load = rows(left, sizes, block, row)
            return lambda r, own: load(r + first, own)

        emit_product(
            packing.schedule,
            packing.part_reduction,
            part_rows,
            lambda r, column: filters.load(filter_origin + r * packing.padded_filters + column),
            store,
            filters.computed,
            float_register=self.float_register,
        )

    def _is_small(self, sizes: Sizes) -> bool:
        """Whether so few workgroups share filters that most find none in the second cache."""
        row_blocks = self.packing.row_blocks(sizes).known
        return row_blocks is not None and row_blocks <= _FEW_ROW_BLOCKS

    def _packed_rows(self, left: GlobalBuffer, sizes: Sizes, block: Block, row: Index) -> LoadRows:
        """What loads four rows of transformed inputs, from the given one of the block on."""
        del sizes
        first = left.offset([block.row_block, block.product, row, 0])
        return lambda r, own: [left.load(first + (r + own) + i * left.stride(2)) for i in range(QUAD)]

    def _image_rows(self, image: GlobalBuffer, sizes: Sizes, block: Block, row: Index) -> LoadRows:
        """What loads the inputs of four outputs, from the given one on; those past the last repeat it.

        Threads differ by where their outputs lie. What a view and its channels add to that is the same for
        all of them where a block of the reduction has no more than one view.
        """
        packing = self.packing
        in_line = packing.in_line(sizes, image)
        shape = in_line or SizedShape.of(packing.shape, sizes)
        first = block.row_block * packing.schedule.block_rows + row
        last = packing.tiles(sizes) - 1
        # By unknown sizes one row is divided, which the others follow, past the last one, too.
        follows = bool(packing.shape.unknown_sizes) and in_line is None
        if follows:
            numbers = [first.minimum(last) + i for i in range(QUAD)]
        else:
            numbers = [(first + i).minimum(last) for i in range(QUAD)]
        tiles = [locate_tile(shape, number, is_beside_others=follows) for number in numbers]
        step = shape.decomposition.step
        origins = [
            image.offset(
                [
                    tile.image,
                    *(output * each for output, each in zip(tile.first_output, step, strict=True)),
                    block.product * packing.group_channels,
                ]
            )
            for tile in tiles
        ]
        padded_channels = packing.channel_quads * QUAD
        is_of_one_view = padded_channels % packing.schedule.block_reduction == 0
        together = packing.schedule.block_reduction if is_of_one_view else QUAD
        # Of so few that pixels are less than a quad, which begins at the first: all of it is in the array.
        # A group's may begin at the last one.
        are_few = packing.shape.groups == 1 and packing.group_channels <= QUAD
        are_few = are_few and not image.by_quads and image.stride(-1) == 1
        least = packing.group_channels if are_few else 1

        def load(r: Index, own: Index) -> list[ir.Value]:
            if not is_of_one_view:
                r, own = r + own, Index(0)
            is_tap = Condition(True)
            if packing.reduction != packing.padded_reduction:
                is_tap = r.less_than(packing.reduction)
                r = r.minimum(packing.reduction - together)
            view = r // padded_channels if packing.views > 1 else Index(0)
            channel = r % padded_channels if packing.views > 1 else r
            offsets = packing.view_offsets(view)
            moved = [offset - low for offset, low in zip(offsets, shape.padding_low, strict=True)]
            distance = image.distance([0, *moved, channel])
            quads = []
            for tile, origin in zip(tiles, origins, strict=True):
                positions = input_positions(shape, tile, offsets)
                _, exists = clamped_element(positions, (Index(0),) * len(positions))
                offset = origin + own + distance
                if not exists.known or follows:
                    # Anywhere in the image, which takes fewer instructions than one place. Scalars are loaded
                    # one by one: the last ones of an image may be less than a quad.
                    offset = offset.minimum(image.size - (QUAD if image.by_quads else least)).maximum(0)
                remaining = Index(packing.group_channels) - (channel + own)
                if are_few:
                    remaining = Index(packing.group_channels)
                quads.append(image.load_first(offset, remaining, exists & is_tap, is_within=are_few))
            return quads

        return load


@dataclass(frozen=True)
class _LeftLoad:
    """A block of 4 x 4 of the left operand that a thread loads: its quad of rows and of the reduction."""

    row_quad: Index
    reduction_quad: Index
    load: LoadRows


@dataclass(frozen=True)
class _RightLoad:
    """A quad of the right operand that a thread loads: its position along the reduction and its columns."""

    reduction: Index
    column_quad: Index


def emit_product(
    schedule: GemmSchedule,
    reduction: int,
    left_rows: Callable[[Index], LoadRows],
    load_right: LoadQuad,
    store: Callable[[Index, Index, ir.Value], None],
    element: ir.Type,
    *,
    left_by_rows: bool = True,
    float_register: str | None = None,
) -> None:
    """Emits one workgroup's block of a matrix product, `reduction` long, a multiple of the schedule's block.

    Operands and sums are of type `element`. Long sums are added in blocks. Where the compiler can be told so,
    sums are in registers of LLVM's name `float_register` before any is stored.

    `left_rows` is asked once per thread for what loads four rows, from the given row of the block on: four
    quads along the reduction with `left_by_rows`, else at four positions of the reduction one of rows each.
    """
    thread = thread_id()
    left_shared, right_shared = (
        SharedBuffer.allocate((2, schedule.block_reduction, size // QUAD), name, element, width)
        for size, name, width in (
            (schedule.block_rows, "left_block", schedule.left_width),
            (schedule.block_columns, "right_block", schedule.right_width),
        )
    )
    left_loads = _left_loads(schedule, thread, left_rows)
    right_loads = _right_loads(schedule, thread)
    loads_left = thread.less_than(schedule.left_threads)

    def load(first: Index) -> list[ir.Value]:
        def load_left() -> list[ir.Value]:
            return [quad for each in left_loads for quad in each.load(first, each.reduction_quad * QUAD)]

        def load_rights() -> list[ir.Value]:
            return [load_right(first + each.reduction, each.column_quad * QUAD) for each in right_loads]

        if not schedule.splits_loads:
            return load_left() + load_rights()
        return _either(loads_left, load_left, load_rights, [quad_type(element)] * (len(left_loads) * QUAD))

    def stage(quads: Sequence[ir.Value], buffer: Index) -> None:
        def stage_left() -> None:
            for number, each in enumerate(left_loads):
                block = quads[number * QUAD : (number + 1) * QUAD]
                for i, quad in enumerate(transposed(block) if left_by_rows else block):
                    left_shared.store(quad, [buffer, each.reduction_quad * QUAD + i, each.row_quad])

        def stage_right() -> None:
            own = quads if schedule.splits_loads else quads[len(left_loads) * QUAD :]
            for each, quad in zip(right_loads, own, strict=True):
                right_shared.store(quad, [buffer, each.reduction, each.column_quad])

        if schedule.splits_loads:
            when(loads_left, stage_left, stage_right)
        else:
            stage_left()
            stage_right()

    tiling = _tiling(schedule, thread)
    stage(load(Index(0)), Index(0))
    barrier()
    zero = constant_quad(0.0, element)
    sums = [zero] * (schedule.thread_rows * schedule.thread_columns // QUAD)

    def add(first: Index, end: Index, values: list[ir.Value]) -> list[ir.Value]:
        """Adds the products from `first` to `end` to the sums, while those after them are loaded.

        The last value is the buffer that holds what is multiplied next.
        """
        loop = scf.ForOp(first.value, end.value, Index(schedule.block_reduction).value, values)
        with ir.InsertionPoint(loop.body):
            *current, buffer = loop.inner_iter_args
            ahead = load(Index(loop.induction_variable) + schedule.block_reduction)
            current = tiling.multiply(left_shared, right_shared, Index(buffer), current)
            other = Index(1) - Index(buffer)
            stage(ahead, other)
            barrier()
            scf.yield_([*current, other.value])
        return list(loop.results)

    last = reduction - schedule.block_reduction
    if summed_block(reduction) is not None:
        *sums, final = _added_in_blocks(last, schedule, sums, add)
    elif last > 0:
        *sums, final = add(Index(0), Index(last), [*sums, Index(0).value])
    else:
        final = Index(0).value
    sums = tiling.multiply(left_shared, right_shared, Index(final), sums)
    if float_register is not None:
        sums = computed_here(sums, float_register)
    for row, column, quad in tiling.results(sums):
        store(row, column, quad)


def _tiling(schedule: GemmSchedule, thread: Index) -> _ThreadTiling | MfmaTiling:
    """Which sums of a block a thread keeps."""
    if isinstance(schedule, MfmaGemmSchedule):
        return MfmaTiling(schedule, thread)
    return _ThreadTiling(schedule, thread)


def _added_in_blocks(
    end: int,
    schedule: GemmSchedule,
    zeros: list[ir.Value],
    add: Callable[[Index, Index, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """The sums of all products up to `end`, block after block by `add`, and what that carries besides."""
    size = max(1, SUM_BLOCK // schedule.block_reduction) * schedule.block_reduction

    def add_block(first: Index, values: list[ir.Value]) -> list[ir.Value]:
        *totals, buffer = values
        *block, buffer = add(first, (first + size).minimum(end), [*zeros, buffer])
        return [*(arith.addf(total, each) for total, each in zip(totals, block, strict=True)), buffer]

    return loop_carried(end, size, [*zeros, Index(0).value], add_block, "block")


class _ThreadTiling:
    """The rows and columns of a block whose sums a thread keeps, in quads spread over the block."""

    def __init__(self, schedule: GemmSchedule, thread: Index) -> None:
        self._schedule = schedule
        across = schedule.block_columns // schedule.thread_columns
        down = schedule.block_rows // schedule.thread_rows
        row, column = place_thread(thread, down, across)
        self.row_quads = [row + i * down for i in range(schedule.thread_rows // QUAD)]
        self.column_quads = [column + j * across for j in range(schedule.thread_columns // QUAD)]

    def multiply(
        self, left: SharedBuffer, right: SharedBuffer, buffer: Index, sums: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Adds the product of the blocks in shared memory to the thread's sums."""
        sums = list(sums)
        steps, ordered = self._schedule.block_reduction, self._schedule.ordered_steps

        def load(r: int) -> _Quads:
            return (
                [left.load([buffer, r, quad]) for quad in self.row_quads],
                [right.load([buffer, r, quad]) for quad in self.column_quads],
            )

        def add(quads: _Quads) -> None:
            rows = (lane(quad, i) for quad in quads[0] for i in range(QUAD))
            multiply_add_block(rows, quads[1], sums, alternating_rows=self._schedule.alternating_rows or 1)

        if ordered is None:
            for r in range(steps):
                add(load(r))
            return sums
        loaded = load(0)
        for r in range(steps):
            following = load(r + 1) if r + 1 < steps else loaded
            add(loaded)
            loaded = following
            if (r + 1) % ordered == 0:
                keep_in_order()
        return sums

    def results(self, sums: Sequence[ir.Value]) -> Iterator[tuple[Index, Index, ir.Value]]:
        """Row, first column and quad of each of the sums."""
        for i in range(self._schedule.thread_rows):
            for j, column_quad in enumerate(self.column_quads):
                row = self.row_quads[i // QUAD] * QUAD + i % QUAD
                yield row, column_quad * QUAD, sums[i * len(self.column_quads) + j]


def multiply_add_block(
    rows: Iterable[ir.Value],
    column_quads: Sequence[ir.Value],
    sums: list[ir.Value],
    first: int = 0,
    alternating_rows: int = 1,
) -> None:
    """Adds the products of all rows and columns to the quads of sums from `first` on, some rows by turns."""
    numbered = iter(enumerate(rows))
    while together := list(islice(numbered, alternating_rows)):
        factors = [(i, broadcast(row, QUAD)) for i, row in together]
        for (j, quad), (i, factor) in product(enumerate(column_quads), factors):
            position = first + i * len(column_quads) + j
            sums[position] = vector.fma(factor, quad, sums[position])


def place_thread(number: Index, down: int, across: int) -> tuple[Index, Index]:
    """The row and column of a thread among `down` x `across` threads that multiply together.

    Its neighbour has the next row, and the one after that the next column: of every 16 threads two read the
    same quad of one operand, and four or more the same of the other, which shared memory then serves at twice
    the speed (Yan et al., PPoPP 2020, Figure 3).
    """
    pair = 2 if down % 2 == 0 else 1
    return number % pair + number // (pair * across) * pair, number // pair % across


def _left_loads(
    schedule: GemmSchedule, thread: Index, left_rows: Callable[[Index], LoadRows]
) -> list[_LeftLoad]:
    reduction_quads = schedule.block_reduction // QUAD
    loads = []
    for i in range(schedule.left_blocks // schedule.left_threads):
        number = thread % schedule.left_threads + i * schedule.left_threads
        row_quad = (
            number % NEIGHBOURING_ROWS + number // (NEIGHBOURING_ROWS * reduction_quads) * NEIGHBOURING_ROWS
        )
        reduction_quad = number // NEIGHBOURING_ROWS % reduction_quads
        loads.append(_LeftLoad(row_quad, reduction_quad, left_rows(row_quad * QUAD)))
    return loads


def _right_loads(schedule: GemmSchedule, thread: Index) -> list[_RightLoad]:
    columns = schedule.block_columns // QUAD
    loads = []
    for i in range(schedule.right_quads // schedule.right_threads):
        number = thread % schedule.right_threads + i * schedule.right_threads
        loads.append(_RightLoad(number // columns, number % columns))
    return loads


def _either(
    condition: Condition,
    then: Callable[[], list[ir.Value]],
    otherwise: Callable[[], list[ir.Value]],
    types: list[ir.VectorType],
) -> list[ir.Value]:
    """The values, of these types, of one of two alternatives."""
    branch = scf.IfOp(condition.value, types, has_else=True)
    for block, emit in ((branch.then_block, then), (branch.else_block, otherwise)):
        with ir.InsertionPoint(block):
            scf.yield_(emit())
    return list(branch.results)
