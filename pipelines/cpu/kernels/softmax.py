"""The CPU kernel of softmax: exponentials of rows, divided by their sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import inf

from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, loop_carried, named
from iree.winograd.pipelines.emission.functions import exponential
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.vectors import LaneMask, broadcast, splat, vector_width_for

_WORKGROUP_ELEMENTS = 2**14
"""Elements of the rows of a workgroup, which take some ten microseconds."""
_CHAINS = 4
"""Vectors that are reduced beside each other: an operation takes about so many cycles."""

_Combine = Callable[[ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class SoftmaxKernel:
    """Softmax of rows of f32; a workgroup takes several of them.

    The largest element of a row is subtracted first, so that no exponential is infinite. In place of a
    division by the sum there is a product by its inverse.
    """

    rows: int
    """Of an element of the batch."""
    length: int
    """Elements of a row."""
    target: CpuTarget

    @property
    def name(self) -> str:
        return f"winograd_softmax_{self.rows}x{self.length}"

    def workgroups(self, batch: Index) -> tuple[Index]:
        """Blocks of rows of the whole batch."""
        return (ceildiv(batch * self.rows, self._block),)

    def emit(self, workgroup: tuple[Index, ...], batch: Index, source: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point: N x ... x length to the same."""
        first = workgroup[0] * self._block
        with loop((batch * self.rows - first).minimum(self._block), name="row") as row:
            begin = (first + row) * self.length
            with named("maximum"):
                maximum = self._reduced(-inf, arith.maximumf, lambda i: source.load(begin + i, self._width))

            def store_exponential(i: Index) -> ir.Value:
                difference = arith.subf(source.load(begin + i, self._width), maximum)
                result = exponential(difference, self.target.fused_multiply_add)
                output.store(result, begin + i)
                return result

            with named("sum"):
                total = self._reduced(0.0, arith.addf, store_exponential)
                inverse = arith.divf(splat(1.0, self._width, source.element), total)
            self._scale(output, begin, inverse)

    @property
    def _width(self) -> int:
        return vector_width_for(self.length, self.target.vector_width)

    @property
    def _block(self) -> int:
        """Rows of a workgroup."""
        return max(1, _WORKGROUP_ELEMENTS // self.length)

    @property
    def _rest(self) -> int:
        """Elements of a row beyond its whole vectors. The vector that ends with them overlaps another."""
        return self.length % self._width

    def _reduced(self, initial: float, combine: _Combine, load: Callable[[Index], ir.Value]) -> ir.Value:
        """All lanes the combination of the elements of a row, of which `load` gives vectors."""
        width, vectors = self._width, self.length // self._width
        chains = min(_CHAINS, vectors)
        looped = vectors // chains * chains
        neutral = splat(initial, width, ir.F32Type.get())
        partial = loop_carried(
            looped * width,
            chains * width,
            [neutral] * chains,
            lambda start, values: [combine(value, load(start + i * width)) for i, value in enumerate(values)],
            "element",
        )
        for i in range(vectors - looped):
            partial[i] = combine(partial[i], load(Index((looped + i) * width)))
        if self._rest:
            new = LaneMask.between(width - self._rest, width, width).value
            partial[-1] = combine(partial[-1], arith.select(new, load(Index(self.length - width)), neutral))
        result = reduce(combine, partial)
        while width > 1:
            width //= 2
            lanes = list(range(2 * width))
            result = combine(
                vector.shuffle(result, result, lanes[:width]), vector.shuffle(result, result, lanes[width:])
            )
        return broadcast(vector.extract(result, [], [0]), self._width)

    def _scale(self, output: Buffer, begin: Index, factor: ir.Value) -> None:
        """Multiplies the elements of a row that is stored already."""
        width = self._width
        # What overlaps is read before it is written.
        last = self.length - width
        rest = output.load(begin + last, width) if self._rest else None
        with loop(self.length - self._rest, width, "element") as i:
            output.store(arith.mulf(output.load(begin + i, width), factor), begin + i)
        if rest is not None:
            output.store(arith.mulf(rest, factor), begin + last)
