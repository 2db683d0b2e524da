"""The CPU kernel of attention: products of queries and keys, their softmax, and products with values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.numerics import summed_block
from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.passes.match.attention import AttentionProblem
from iree.winograd.pipelines.cpu.kernels.batch_matmul import Place, origin, register_block
from iree.winograd.pipelines.cpu.kernels.exponentials import inverse_sum, lowest
from iree.winograd.pipelines.cpu.kernels.rows import reduced_vectors
from iree.winograd.pipelines.cpu.processor.product import Panel, RegisterBlock, Rows
from iree.winograd.pipelines.cpu.processor.target import ROW_PADDING, CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import Lines, copy_transposed
from iree.winograd.pipelines.emission.block_sums import add_in_blocks
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.control_flow import loop, named
from iree.winograd.pipelines.emission.functions import exponential
from iree.winograd.pipelines.emission.index import Index, IndexLike, ceildiv
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import LaneMask, broadcast, multiply_add, splat
from iree.winograd.pipelines.emission.work import Sizes, Work

_MOST_ROWS = 64
"""Queries whose scores are computed together."""
_SHARE_OF_CACHE = 0.75
"""Of L2, for all that a workgroup has copies of, and scores."""
_PACKING_ROWS = 8
"""Queries that take as long to attend as keys and values take to be packed, about."""
_BLOCK_ROWS = 2
"""Queries that take as long as to begin a block of queries, about."""
_RESCALING_KEYS = 16
"""Keys that take a query as long as to go on with a further block of keys, about."""
_MOST_KEY_BLOCKS = 4096
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
"""Of a matrix, or of what a workgroup has of it, where keys are several blocks."""
_WORKGROUPS = 4
"""For each thread, where there are several, so that they are done at about the same time."""


@dataclass(frozen=True)
class _Division:
    """How matrices are divided among workgroups, and what these do at a time."""

    rows: int
    """Queries of a block, whose scores lie beside each other."""
    part_rows: int
    """Queries that share packed keys and values, whole blocks where keys are several."""
    key_blocks: int


@dataclass(frozen=True)
class _Block:
    """Some keys, packed, and where they begin."""

    first: Index
    count: Index
    panels: Index


@dataclass(frozen=True)
class _Memory:
    """What a workgroup has copies and intermediate results in."""

    keys: Buffer
    """panels x k x keys of a panel."""
    values: Buffer
    """panels x keys x v of a panel."""
    scores: Buffer
    """rows x keys."""
    factors: Buffer
    """Of each row, what its mixture is multiplied by: the inverse sum, or what rescales earlier keys'."""
    state: _State | None


@dataclass(frozen=True)
class _State:
    """Of each query of a part, what is known of the keys so far."""

    maxima: Buffer
    sums: Buffer
    mixtures: Buffer
    """panels x rows x v of a panel."""


@dataclass(frozen=True)
class AttentionKernel:
    """Attention by blocks of queries and of keys, whose scores never leave L2.

    A workgroup takes some queries of a matrix. It packs a block of keys and values, multiplies some of its
    queries at a time by them, takes exponentials of each row where it is, and multiplies these by the values.
    Where all keys are one block, that is the softmax; of several, the mixture so far is rescaled to the
    largest score so far (Dao et al., FlashAttention, NeurIPS 2022, section 3.1). Mixtures are divided by the
    sums of weights, not the weights. The last part of a matrix, and the last panel of keys or of values,
    overlap their neighbours.
    """

    problem: AttentionProblem
    target: CpuTarget
    threads: int

    @property
    def name(self) -> str:
        problem, scores = self.problem, self.problem.scores
        kind = "safe_" * problem.safe + "masked_" * bool(problem.masks)
        return (
            f"winograd_{kind}attention_{scores.batch}x{scores.rows}x{scores.columns}"
            f"_from_{scores.reduction}_to_{problem.mixtures.columns}"
        )

    @property
    def fits(self) -> bool:
        """Whether a workgroup's memory has room for a block of keys and values, and scores of some queries.

        Rows of fewer keys than a vector has lanes don't.
        """
        return self.problem.scores.columns >= self.target.vector_width and self._best is not None

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Each takes some parts of queries."""
        return (Index(ceil_div(self._parts, self._workgroup_parts)),)

    def emit(
        self, work: Work, queries: Buffer, keys: Buffer, values: Buffer, *masks_and_output: Buffer
    ) -> None:
        """Emits the work of one workgroup at the insertion point."""
        *masks, output = masks_and_output
        memory = self._memory(queries.computed)
        part_rows = self._division.part_rows
        first, parts = work.workgroup[0] * self._workgroup_parts, Index(self._workgroup_parts)
        if self._parts % self._workgroup_parts:
            parts = (Index(self._parts) - first).minimum(parts)
        with loop(parts, name="part") as i:
            number, part = (first + i) // self._matrix_parts, (first + i) % self._matrix_parts
            row = (part * part_rows).minimum(self.problem.scores.rows - part_rows)
            read, written = self.problem.scores, self.problem.mixtures
            emission = _Part(
                self,
                memory,
                Place(queries, origin(read.left, number) + row * read.left.row_stride),
                Place(keys, origin(read.right, number)),
                Place(values, origin(written.right, number)),
                tuple(
                    Place(mask, origin(rows.matrices, number) + row * rows.matrices.row_stride)
                    for mask, rows in zip(masks, self.problem.masks, strict=True)
                ),
                Place(output, origin(written.output, number) + row * written.output.row_stride),
            )
            emission.emit()

    def _memory(self, element: ir.Type) -> _Memory:
        division, keys = self._division, self.block_keys(self._division.key_blocks)
        state = None
        if division.key_blocks > 1:
            rows = division.part_rows
            state = _State(
                scratch((rows,), element, "maxima"),
                scratch((rows,), element, "sums"),
                scratch((self.value_panels, rows, self.value_block.channels), element, "mixtures"),
            )
        return _Memory(
            scratch((keys * self.problem.scores.reduction,), element, "keys"),
            scratch((self.value_panels, keys, self.value_block.channels), element, "values"),
            scratch((division.rows, self.stride), element, "scores"),
            scratch((division.rows,), element, "factors"),
            state,
        )

    def _memory_bytes(self, division: _Division) -> int:
        keys = self.block_keys(division.key_blocks)
        floats = keys * (self.problem.scores.reduction + self.value_width)
        floats += division.rows * (keys + ROW_PADDING + 1)
        if division.key_blocks > 1:
            floats += division.part_rows * (self.value_width + 2)
        return F32.bytes * floats

    @cached_property
    def score_block(self) -> RegisterBlock:
        scores = self.problem.scores
        return register_block(scores.rows, scores.columns, self.target, scores.columns)

    @cached_property
    def value_block(self) -> RegisterBlock:
        mixtures = self.problem.mixtures
        return register_block(mixtures.rows, mixtures.columns, self.target)

    @property
    def value_panels(self) -> int:
        return ceil_div(self.problem.mixtures.columns, self.value_block.channels)

    @property
    def value_width(self) -> int:
        """Values of a key, with those that panels have twice."""
        return self.value_panels * self.value_block.channels

    @property
    def key_panels(self) -> int:
        return ceil_div(self.problem.scores.columns, self.score_block.channels)

    def block_keys(self, key_blocks: int) -> int:
        """Of a block, as panels have them."""
        return ceil_div(self.key_panels, key_blocks) * self.score_block.channels

    @property
    def key_blocks(self) -> int:
        return self._division.key_blocks

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return self._division.rows

    @property
    def part_rows(self) -> int:
        return self._division.part_rows

    @property
    def stride(self) -> int:
        """From a row of scores to the next."""
        return self.block_keys(self._division.key_blocks) + ROW_PADDING

    @property
    def _division(self) -> _Division:
        assert self._best is not None
        return self._best

    @cached_property
    def _best(self) -> _Division | None:
        """What takes the least time, of what fits; None where nothing does."""
        candidates = [each for each in self._divisions() if self._memory_bytes(each) <= self._most_bytes]
        return min(candidates, key=self._cost, default=None)

    @property
    def _most_bytes(self) -> float:
        return _SHARE_OF_CACHE * self.target.workgroup_bytes

    def _divisions(self) -> Iterator[_Division]:
        """All keys at once, or in the least number of blocks that fits, and more: of two panels at least."""
        most_rows = self.problem.scores.rows
        parts = ceil_div(_WORKGROUPS * self.threads, self.problem.scores.batch) if self.threads > 1 else 1
        part_rows = ceil_div(most_rows, parts)
        sizes = range(min(_MOST_ROWS, most_rows), 0, -1)
        yield from (_Division(rows, max(rows, part_rows), 1) for rows in sizes)
        most_blocks = min(self.key_panels // 2, _MOST_KEY_BLOCKS)
        fitting = (
            blocks
            for blocks in range(2, most_blocks + 1)
            if self._memory_bytes(_Division(self.score_block.rows, self.score_block.rows, blocks))
            <= self._most_bytes
        )
        least = next(fitting, None)
        if least is None:
            return
        for blocks in range(least, min(4 * least, most_blocks) + 1):
            for rows in sizes:
                most = max(1, part_rows // rows)
                counts = {ceil_div(most, parts) for parts in _PARTS}
                yield from (_Division(rows, rows * count, blocks) for count in sorted(counts))

    def _cost(self, division: _Division) -> float:
        """In queries."""
        rows = max(
            ceil_div(division.rows, block.rows) * block.rows for block in (self.score_block, self.value_block)
        )
        part = ceil_div(division.part_rows, division.rows) * (rows + _BLOCK_ROWS) + _PACKING_ROWS
        parts = ceil_div(self.problem.scores.rows, division.part_rows)
        further = _RESCALING_KEYS * (division.key_blocks - 1) / self.problem.scores.columns
        return parts * part * (1 + further)

    @property
    def _matrix_parts(self) -> int:
        return ceil_div(self.problem.scores.rows, self._division.part_rows)

    @property
    def _parts(self) -> int:
        return self.problem.scores.batch * self._matrix_parts

    @property
    def _workgroup_parts(self) -> int:
        if self.threads == 1:
            return self._parts
        return ceil_div(self._parts, min(self._parts, _WORKGROUPS * self.threads))


@dataclass(frozen=True)
class _Part:
    """The work of a workgroup on some queries of a matrix."""

    kernel: AttentionKernel
    memory: _Memory
    queries: Place
    keys: Place
    values: Place
    masks: Sequence[Place]
    output: Place

    def emit(self) -> None:
        kernel = self.kernel
        if self.memory.state is None:
            block = _Block(Index(0), Index(kernel.problem.scores.columns), Index(kernel.key_panels))
            self._pack(block)
            self._attend(block)
            return
        self._clear(self.memory.state)
        panels, keys = kernel.key_panels, kernel.problem.scores.columns
        channels = kernel.score_block.channels
        with loop(kernel.key_blocks, name="keys") as number:
            begin, end = (each * panels // kernel.key_blocks for each in (number, number + 1))
            first = begin * channels
            block = _Block(first, (end * channels).minimum(keys) - first, end - begin)
            self._pack(block)
            self._attend(block)
        self._finish(self.memory.state)

    def _attend(self, block: _Block) -> None:
        kernel = self.kernel
        with loop(ceil_div(kernel.part_rows, kernel.rows), name="queries") as number:
            row = number * kernel.rows
            if kernel.part_rows % kernel.rows:
                row = row.minimum(kernel.part_rows - kernel.rows)
            self._multiply_keys(row, block)
            with loop(kernel.rows, name="row") as i:
                self._exponentiate(row, i, block)
            self._multiply_values(row, block)

    def _pack(self, block: _Block) -> None:
        """Copies keys and values of a block, a panel of keys at a time."""
        with loop(block.panels, name="panel") as panel:
            key = self._first_key(panel, block)
            self._pack_keys(panel, key)
            with loop(self.kernel.value_panels, name="values") as values:
                self._pack_values(values, key, block)

    def _first_key(self, panel: Index, block: _Block) -> Index:
        channels, keys = self.kernel.score_block.channels, self.kernel.problem.scores.columns
        key = block.first + panel * channels
        return key if keys % channels == 0 else key.minimum(keys - channels)

    def _pack_keys(self, panel: Index, key: Index) -> None:
        """keys[panel, c, j] = k[key + j, c]."""
        kernel, target, matrices = self.kernel, self.memory.keys, self.kernel.problem.scores.right
        channels, width = kernel.score_block.channels, kernel.score_block.width
        reduction = kernel.problem.scores.reduction
        first = self.keys.first + key * matrices.column_stride
        packed = panel * (reduction * channels)
        if matrices.column_stride != 1:
            source = Lines(self.keys.buffer, first, matrices.column_stride)
            lines = Lines(target, packed, channels)
            copy_transposed(source, lines, (channels, reduction), kernel.target.vector_width)
            return
        with loop(reduction, name="c") as c:
            for lane in range(0, channels, width):
                vector_ = self.keys.buffer.load(first + c * matrices.row_stride + lane, width)
                target.store(vector_, packed + c * channels + lane)

    def _pack_values(self, panel: Index, key: Index, block: _Block) -> None:
        """values[panel, key - first, j] = v[key, column + j] for the keys of a panel."""
        kernel, target, matrices = self.kernel, self.memory.values, self.kernel.problem.mixtures.right
        channels, width = kernel.value_block.channels, kernel.value_block.width
        keys, columns = kernel.score_block.channels, min(channels, kernel.problem.mixtures.columns)
        column = self._first_column(panel)
        first = self.values.first + key * matrices.row_stride + column * matrices.column_stride
        packed = target.offset([panel, key - block.first])
        if columns < channels:
            # What is left out of a product is computed, too: numbers rather than what the memory held.
            with loop(keys, name="key") as i:
                target.store(splat(0.0, width, target.element), packed + i * channels + (channels - width))
        if matrices.column_stride != 1:
            source = Lines(self.values.buffer, first, matrices.column_stride)
            copy_transposed(
                source, Lines(target, packed, channels), (columns, keys), kernel.target.vector_width
            )
            return
        with loop(keys, name="key") as i:
            line = first + i * matrices.row_stride
            for lane in range(0, columns, width):
                mask = self._column_mask(lane)
                buffer = self.values.buffer
                loaded = (
                    buffer.load(line + lane, width) if mask is None else buffer.load_lanes(line + lane, mask)
                )
                target.store(loaded, packed + i * channels + lane)

    def _first_column(self, panel: Index) -> Index:
        channels, columns = self.kernel.value_block.channels, self.kernel.problem.mixtures.columns
        column = panel * channels
        whole = columns <= channels or columns % channels == 0
        return column if whole else column.minimum(columns - channels)

    def _column_mask(self, lane: int) -> LaneMask | None:
        """Which lanes of a vector of values from `lane` on there are, where it isn't all."""
        width, columns = self.kernel.value_block.width, self.kernel.problem.mixtures.columns
        if columns >= self.kernel.value_block.channels or columns - lane >= width:
            return None
        with named("columns"):
            return LaneMask.between(0, columns - lane, width)

    def _multiply_keys(self, row: Index, block: _Block) -> None:
        """The scores of a block of queries, not yet scaled."""
        kernel, problem, scores = self.kernel, self.kernel.problem.scores, self.memory.scores
        reduction, channels = problem.reduction, kernel.score_block.channels
        first = self.queries.first + row * problem.left.row_stride
        with loop(block.panels, name="panel") as panel:
            column = self._first_key(panel, block) - block.first
            packed = panel * (reduction * channels)

            def multiply(product: RegisterBlock, i: Index) -> None:
                left = problem.left
                rows = Rows(
                    self.queries.buffer, first + i * left.row_stride, left.row_stride, left.column_stride
                )

                def add(c: Index, count: IndexLike, sums: list[ir.Value]) -> list[ir.Value]:
                    part = replace(rows, first=rows.first + c * rows.step)
                    keys = Panel(self.memory.keys, packed + c * channels)
                    return product.add(sums, part, keys, count, kernel.target)

                zeros = product.zeros(scores.computed)
                sums = add_in_blocks(zeros, reduction, reduction, 1, summed_block(reduction), add)
                begin = i * kernel.stride + column
                for number, value in enumerate(sums):
                    line, lanes = divmod(number, product.vectors)
                    scores.store(value, begin + (line * kernel.stride + lanes * product.width))

            _for_register_blocks(kernel.score_block, kernel.rows, multiply)

    def _exponentiate(self, row: Index, i: Index, block: _Block) -> None:
        """Weights in place of the scores of a row, and what mixtures are multiplied by."""
        kernel, scores, state = self.kernel, self.memory.scores, self.memory.state
        width, factor = kernel.score_block.width, kernel.problem.scores.factor
        begin = i * kernel.stride
        vectors, fused = ceildiv(block.count, width), kernel.target.fused_multiply_add
        is_stored = bool(self.masks) or not factor > 0
        if is_stored:
            maximum = self._mask_scores(row + i, begin, block)
        else:
            if kernel.problem.scores.columns % width:
                # Within a block of whole vectors that is behind it.
                scores.store(splat(-inf, width, scores.computed), begin + block.count)
            with named("maximum"):
                maximum = reduced_vectors(
                    vectors, width, -inf, _larger, lambda k: scores.load(begin + k, width)
                )
                maximum = arith.mulf(maximum, splat(factor, width, scores.computed))
        maximum = _larger(maximum, splat(lowest(safe=True), width, scores.computed))
        if state is not None:
            before = broadcast(state.maxima.load_scalar(row + i), width)
            maximum = _larger(maximum, before)
        subtracted = arith.negf(maximum)

        def store_exponential(k: Index) -> ir.Value:
            score = scores.load(begin + k, width)
            if is_stored:
                difference = arith.addf(score, subtracted)
            else:
                difference = multiply_add(score, splat(factor, width, scores.computed), subtracted, fused)
            result = exponential(difference, fused)
            scores.store(result, begin + k)
            return result

        with named("sum"):
            total = reduced_vectors(vectors, width, 0.0, arith.addf, store_exponential)
        if state is None:
            _store_scalar(inverse_sum(total, kernel.problem.safe), self.memory.factors, i)
            return
        with named("rescaled"):
            rescaling = exponential(arith.subf(before, maximum), fused)
            total = multiply_add(broadcast(state.sums.load_scalar(row + i), width), rescaling, total, fused)
        _store_scalar(maximum, state.maxima, row + i)
        _store_scalar(total, state.sums, row + i)
        _store_scalar(rescaling, self.memory.factors, i)

    def _mask_scores(self, row: Index, begin: Index, block: _Block) -> ir.Value:
        """Scales and masks a row of scores where it is; the largest of them."""
        kernel, scores = self.kernel, self.memory.scores
        width, problem = kernel.score_block.width, kernel.problem
        whole = block.count // width
        places = [
            replace(mask, first=mask.first + row * rows.matrices.row_stride + block.first)
            for mask, rows in zip(self.masks, problem.masks, strict=True)
        ]

        def masked(k: Index, lanes: LaneMask | None) -> ir.Value:
            value = scores.load(begin + k, width)
            read = [
                mask.buffer.load(mask.first + k, width)
                if lanes is None
                else mask.buffer.load_lanes(mask.first + k, lanes)
                for mask in places
            ]
            value = self._masked(value, read)
            if lanes is not None:
                value = arith.select(lanes.value, value, splat(-inf, width, scores.computed))
            scores.store(value, begin + k)
            return value

        with named("maximum"):
            maximum = reduced_vectors(whole, width, -inf, _larger, lambda k: masked(k, None))
            if problem.scores.columns % width:
                lanes = LaneMask.between(0, block.count - whole * width, width)
                rest = reduced_vectors(
                    Index(1), width, -inf, _larger, lambda k: masked(whole * width + k, lanes)
                )
                maximum = _larger(maximum, rest)
        return maximum

    def _masked(self, score: ir.Value, masks: Sequence[ir.Value]) -> ir.Value:
        """A vector of scores, scaled and masked."""
        kernel = self.kernel
        width, element = kernel.score_block.width, self.memory.scores.computed
        factor = splat(kernel.problem.scores.factor, width, element)
        added = [mask for mask, rows in zip(masks, kernel.problem.masks, strict=True) if not rows.is_truth]
        if added:
            score = multiply_add(score, factor, added[0], kernel.target.fused_multiply_add)
        elif kernel.problem.scores.factor != 1:
            score = arith.mulf(score, factor)
        for mask in added[1:]:
            score = arith.addf(score, mask)
        for mask, rows in zip(masks, kernel.problem.masks, strict=True):
            if rows.is_truth:
                hidden = splat(-inf, width, element)
                is_hidden = arith.cmpf(arith.CmpFPredicate.OEQ, mask, hidden)
                score = arith.select(is_hidden, hidden, score)
        return score

    def _multiply_values(self, row: Index, block: _Block) -> None:
        """Mixtures of values by the weights of a block of queries."""
        kernel, scores, state = self.kernel, self.memory.scores, self.memory.state
        terms = kernel.block_keys(kernel.key_blocks)
        channels = kernel.value_block.channels
        with loop(kernel.value_panels, name="values") as panel:
            packed = self.memory.values.offset([panel])

            def multiply(product: RegisterBlock, i: Index) -> None:
                def add(key: Index, count: IndexLike, sums: list[ir.Value]) -> list[ir.Value]:
                    rows = Rows(scores, i * kernel.stride + key, kernel.stride)
                    values = Panel(self.memory.values, packed + key * channels)
                    return product.add(sums, rows, values, count, kernel.target)

                zeros = product.zeros(scores.computed)
                sums = add_in_blocks(zeros, block.count, terms, 1, summed_block(terms), add)
                if state is None:
                    self._store(sums, product, row, i, panel)
                else:
                    self._add_to(state, sums, product, row, i, panel)

            _for_register_blocks(kernel.value_block, kernel.rows, multiply)

    def _store(
        self, sums: list[ir.Value], product: RegisterBlock, row: Index, i: Index, panel: Index
    ) -> None:
        for line in range(product.rows):
            factor = broadcast(self.memory.factors.load_scalar(i + line), product.width)
            values = sums[line * product.vectors : (line + 1) * product.vectors]
            self._store_row([arith.mulf(value, factor) for value in values], row + i + line, panel)

    def _store_row(self, values: list[ir.Value], row: Index, panel: Index) -> None:
        """Writes the vectors of a row that there is room for."""
        mixtures = self.kernel.problem.mixtures
        first = self.output.first + row * mixtures.output.row_stride + self._first_column(panel)
        for number, value in enumerate(values):
            lane = number * self.kernel.value_block.width
            if lane >= mixtures.columns:
                continue
            mask = self._column_mask(lane)
            if mask is None:
                self.output.buffer.store(value, first + lane)
            else:
                self.output.buffer.store_lanes(value, first + lane, mask)

    def _add_to(
        self, state: _State, sums: list[ir.Value], product: RegisterBlock, row: Index, i: Index, panel: Index
    ) -> None:
        """Adds to mixtures of earlier keys, which are rescaled."""
        first = state.mixtures.offset([panel, row + i])
        for line in range(product.rows):
            factor = broadcast(self.memory.factors.load_scalar(i + line), product.width)
            for number, value in enumerate(sums[line * product.vectors : (line + 1) * product.vectors]):
                offset = first + (line * product.channels + number * product.width)
                before = state.mixtures.load(offset, product.width)
                total = multiply_add(before, factor, value, self.kernel.target.fused_multiply_add)
                state.mixtures.store(total, offset)

    def _clear(self, state: _State) -> None:
        block = self.kernel.value_block
        least = splat(lowest(safe=True), 1, state.maxima.computed)
        zero = splat(0.0, 1, state.sums.computed)
        with loop(self.kernel.part_rows, name="row") as row:
            state.maxima.store(least, row)
            state.sums.store(zero, row)
        zeros = splat(0.0, block.width, state.mixtures.computed)
        with loop(self.kernel.value_panels * self.kernel.part_rows * block.vectors, name="mixture") as i:
            state.mixtures.store(zeros, i * block.width)

    def _finish(self, state: _State) -> None:
        """Writes mixtures, divided by the sums of their weights."""
        block = self.kernel.value_block
        with loop(self.kernel.part_rows, name="row") as row:
            total = broadcast(state.sums.load_scalar(row), block.width)
            inverse = inverse_sum(total, self.kernel.problem.safe)
            with loop(self.kernel.value_panels, name="values") as panel:
                first = state.mixtures.offset([panel, row])
                values = [
                    arith.mulf(state.mixtures.load(first + number * block.width, block.width), inverse)
                    for number in range(block.vectors)
                ]
                self._store_row(values, row, panel)


def _for_register_blocks(
    block: RegisterBlock, rows: int, body: Callable[[RegisterBlock, Index], None]
) -> None:
    """Covers rows by whole register blocks, then one of what is left; `body` has the first row of each."""
    whole = rows // block.rows * block.rows
    if whole:
        with loop(whole, block.rows, "row") as first:
            body(block, first)
    if rest := rows - whole:
        body(replace(block, rows=rest), Index(whole))


def _larger(new: ir.Value, largest: ir.Value) -> ir.Value:
    """The larger of two vectors; `largest` where the other is NaN, by which sums become so, too."""
    return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, new, largest), new, largest)


def _store_scalar(lanes: ir.Value, buffer: Buffer, offset: Index) -> None:
    """Writes one lane of a vector."""
    buffer.store(broadcast(vector.extract(lanes, [], [0]), 1), offset)
