"""The CPU kernel of attention: products of queries and keys, their softmax, and products with values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.numerics import summed_block
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.products.attention import AttentionProblem
from iree.winograd.pipelines.cpu.kernels.attention_blocking import AttentionBlocking
from iree.winograd.pipelines.cpu.kernels.attention_memory import AttentionMemory, KeyBlock, RowState
from iree.winograd.pipelines.cpu.kernels.attention_weights import AttentionWeights
from iree.winograd.pipelines.cpu.kernels.batch_matmul import Place, origin
from iree.winograd.pipelines.cpu.kernels.exponentials import inverse_sum, lowest
from iree.winograd.pipelines.cpu.processor.product import CACHE_LINE_FLOATS, Panel, RegisterBlock, Rows
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import Lines, copy_transposed
from iree.winograd.pipelines.emission.block_sums import add_in_blocks
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.index import Index, IndexLike
from iree.winograd.pipelines.emission.vectors import broadcast, multiply_add, splat
from iree.winograd.pipelines.emission.work import Sizes, Work


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
        """Whether a workgroup's memory has room for blocks of queries and of keys."""
        return self._blocking.fits

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Each takes some parts of queries."""
        return (Index(ceil_div(self._blocking.parts, self._blocking.workgroup_parts)),)

    def emit(
        self, work: Work, queries: Buffer, keys: Buffer, values: Buffer, *masks_and_output: Buffer
    ) -> None:
        """Emits the work of one workgroup at the insertion point."""
        *masks, output = masks_and_output
        blocking = self._blocking
        memory = AttentionMemory.of(blocking, queries.computed)
        part_rows = blocking.part_rows
        first, parts = work.workgroup[0] * blocking.workgroup_parts, Index(blocking.workgroup_parts)
        if blocking.parts % blocking.workgroup_parts:
            parts = (Index(blocking.parts) - first).minimum(parts)
        with loop(parts, name="part") as i:
            number, part = (first + i) // blocking.matrix_parts, (first + i) % blocking.matrix_parts
            row = (part * part_rows).minimum(self.problem.scores.rows - part_rows)
            read, written = self.problem.scores, self.problem.mixtures
            part_work = _Part(
                blocking,
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
            part_work.emit()

    @cached_property
    def _blocking(self) -> AttentionBlocking:
        return AttentionBlocking(self.problem, self.target, self.threads)


@dataclass(frozen=True)
class _Part:
    """The work of a workgroup on some queries of a matrix."""

    blocking: AttentionBlocking
    memory: AttentionMemory
    queries: Place
    keys: Place
    values: Place
    masks: Sequence[Place]
    output: Place

    def emit(self) -> None:
        blocking, panels = self.blocking, self.blocking.key_panels
        if self.memory.state is None:
            block = KeyBlock(Index(0), Index(panels.columns), Index(panels.count))
            self._pack(block)
            self._attend(block)
            return
        self._clear(self.memory.state)
        channels = panels.block.channels
        with loop(blocking.key_blocks, name="keys") as number:
            begin, end = (each * panels.count // blocking.key_blocks for each in (number, number + 1))
            first = begin * channels
            block = KeyBlock(first, (end * channels).minimum(panels.columns) - first, end - begin)
            self._pack(block)
            self._attend(block)
        self._finish(self.memory.state)

    def _attend(self, block: KeyBlock) -> None:
        blocking = self.blocking
        with loop(ceil_div(blocking.part_rows, blocking.rows), name="queries") as number:
            row = number * blocking.rows
            if blocking.part_rows % blocking.rows:
                row = row.minimum(blocking.part_rows - blocking.rows)
            self._multiply_keys(row, block)
            weights = AttentionWeights(blocking, self.memory, self.masks)
            with loop(blocking.rows, name="row") as i:
                weights.emit(row, i, block)
            self._multiply_values(row, block)

    def _pack(self, block: KeyBlock) -> None:
        """Copies keys and values of a block, a panel of keys at a time."""
        with loop(block.panels, name="panel") as panel:
            key = self._first_key(panel, block)
            self._fetch(key + self.blocking.score_block.channels)
            self._pack_keys(panel, key)
            with loop(self.blocking.value_panels.count, name="values") as values:
                self._pack_values(values, key, block)

    def _fetch(self, key: Index) -> None:
        """Asks for the lines of keys and values of a panel, which lie apart, often on other pages."""
        scores, mixtures = self.blocking.problem.scores, self.blocking.problem.mixtures
        with loop(self.blocking.score_block.channels, name="key") as i:
            for place, stride, step, length in (
                (self.keys, scores.right.column_stride, scores.right.row_stride, scores.reduction),
                (self.values, mixtures.right.row_stride, mixtures.right.column_stride, mixtures.columns),
            ):
                if step == 1:
                    first = place.first + (key + i) * stride
                    for element in range(0, length, CACHE_LINE_FLOATS):
                        place.buffer.prefetch(first + element)

    def _first_key(self, panel: Index, block: KeyBlock) -> Index:
        panels = self.blocking.key_panels
        key = block.first + panel * panels.block.channels
        return key if panels.are_whole else key.minimum(panels.columns - panels.block.channels)

    def _pack_keys(self, panel: Index, key: Index) -> None:
        """keys[panel, c, j] = k[key + j, c]."""
        blocking, target, matrices = self.blocking, self.memory.keys, self.blocking.problem.scores.right
        channels, width = blocking.score_block.channels, blocking.score_block.width
        reduction = blocking.problem.scores.reduction
        first = self.keys.first + key * matrices.column_stride
        packed = panel * (reduction * channels)
        if matrices.column_stride != 1:
            source = Lines(self.keys.buffer, first, matrices.column_stride)
            lines = Lines(target, packed, channels)
            copy_transposed(source, lines, (channels, reduction), blocking.target.vector_width)
            return
        with loop(reduction, name="c") as c:
            for lane in range(0, channels, width):
                vector_ = self.keys.buffer.load(first + c * matrices.row_stride + lane, width)
                target.store(vector_, packed + c * channels + lane)

    def _pack_values(self, panel: Index, key: Index, block: KeyBlock) -> None:
        """values[panel, key - first, j] = v[key, column + j] for the keys of a panel."""
        blocking, target, matrices = self.blocking, self.memory.values, self.blocking.problem.mixtures.right
        channels, width = blocking.value_block.channels, blocking.value_block.width
        panels, keys = blocking.value_panels, blocking.score_block.channels
        columns, column = min(channels, panels.columns), panels.first(panel)
        first = self.values.first + key * matrices.row_stride + column * matrices.column_stride
        packed = target.offset([panel, key - block.first])
        if columns < channels:
            # What is left out of a product is computed, too: numbers rather than what the memory held.
            with loop(keys, name="key") as i:
                target.store(splat(0.0, width, target.element), packed + i * channels + (channels - width))
        if matrices.column_stride != 1:
            source = Lines(self.values.buffer, first, matrices.column_stride)
            copy_transposed(
                source, Lines(target, packed, channels), (columns, keys), blocking.target.vector_width
            )
            return
        with loop(keys, name="key") as i:
            line = first + i * matrices.row_stride
            for lane in range(0, columns, width):
                loaded = panels.load(self.values.buffer, line + lane, lane)
                target.store(loaded, packed + i * channels + lane)

    def _multiply_keys(self, row: Index, block: KeyBlock) -> None:
        """The scores of a block of queries, not yet scaled."""
        blocking, problem, scores = self.blocking, self.blocking.problem.scores, self.memory.scores
        reduction, channels = problem.reduction, blocking.score_block.channels
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
                    return product.add(sums, part, keys, count, blocking.target)

                zeros = product.zeros(scores.computed)
                sums = add_in_blocks(zeros, reduction, reduction, 1, summed_block(reduction), add)
                begin = i * blocking.stride + column
                for number, value in enumerate(sums):
                    line, lanes = divmod(number, product.vectors)
                    scores.store(value, begin + (line * blocking.stride + lanes * product.width))

            _for_register_blocks(blocking.score_block, blocking.rows, multiply)

    def _multiply_values(self, row: Index, block: KeyBlock) -> None:
        """Mixtures of values by the weights of a block of queries."""
        blocking, scores, state = self.blocking, self.memory.scores, self.memory.state
        terms = blocking.block_keys
        channels = blocking.value_block.channels
        with loop(blocking.value_panels.count, name="values") as panel:
            packed = self.memory.values.offset([panel])

            def multiply(product: RegisterBlock, i: Index) -> None:
                def add(key: Index, count: IndexLike, sums: list[ir.Value]) -> list[ir.Value]:
                    rows = Rows(scores, i * blocking.stride + key, blocking.stride)
                    values = Panel(self.memory.values, packed + key * channels)
                    return product.add(sums, rows, values, count, blocking.target)

                zeros = product.zeros(scores.computed)
                sums = add_in_blocks(zeros, block.count, terms, 1, summed_block(terms), add)
                if state is None:
                    self._store(sums, product, row, i, panel)
                else:
                    self._add_to(state, sums, product, row, i, panel)

            _for_register_blocks(blocking.value_block, blocking.rows, multiply)

    def _store(
        self, sums: list[ir.Value], product: RegisterBlock, row: Index, i: Index, panel: Index
    ) -> None:
        for line in range(product.rows):
            factor = broadcast(self.memory.factors.load_scalar(i + line), product.width)
            values = sums[line * product.vectors : (line + 1) * product.vectors]
            self._store_row([arith.mulf(value, factor) for value in values], row + i + line, panel)

    def _store_row(self, values: list[ir.Value], row: Index, panel: Index) -> None:
        """Writes the vectors of a row that there is room for."""
        panels, stride = self.blocking.value_panels, self.blocking.problem.mixtures.output.row_stride
        first = self.output.first + row * stride + panels.first(panel)
        for number, value in enumerate(values):
            lane = number * panels.block.width
            panels.store(value, self.output.buffer, first + lane, lane)

    def _add_to(
        self,
        state: RowState,
        sums: list[ir.Value],
        product: RegisterBlock,
        row: Index,
        i: Index,
        panel: Index,
    ) -> None:
        """Adds to mixtures of earlier keys, which are rescaled."""
        first = state.mixtures.offset([panel, row + i])
        for line in range(product.rows):
            factor = broadcast(self.memory.factors.load_scalar(i + line), product.width)
            for number, value in enumerate(sums[line * product.vectors : (line + 1) * product.vectors]):
                offset = first + (line * product.channels + number * product.width)
                before = state.mixtures.load(offset, product.width)
                total = multiply_add(before, factor, value, self.blocking.target.fused_multiply_add)
                state.mixtures.store(total, offset)

    def _clear(self, state: RowState) -> None:
        block = self.blocking.value_block
        least = splat(lowest(safe=True), 1, state.maxima.computed)
        zero = splat(0.0, 1, state.sums.computed)
        with loop(self.blocking.part_rows, name="row") as row:
            state.maxima.store(least, row)
            state.sums.store(zero, row)
        zeros = splat(0.0, block.width, state.mixtures.computed)
        vectors = self.blocking.value_panels.count * self.blocking.part_rows * block.vectors
        with loop(vectors, name="mixture") as i:
            state.mixtures.store(zeros, i * block.width)

    def _finish(self, state: RowState) -> None:
        """Writes mixtures, divided by the sums of their weights."""
        block = self.blocking.value_block
        with loop(self.blocking.part_rows, name="row") as row:
            total = broadcast(state.sums.load_scalar(row), block.width)
            inverse = inverse_sum(total, self.blocking.problem.safe)
            with loop(self.blocking.value_panels.count, name="values") as panel:
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
