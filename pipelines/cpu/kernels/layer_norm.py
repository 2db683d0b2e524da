"""The CPU kernel of layer normalization: rows of mean zero and variance one, scaled and shifted."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, math
from iree.winograd.pipelines.cpu.kernels.rows import Row
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, named
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.vectors import for_each_vector, multiply_add, splat
from iree.winograd.pipelines.emission.work import Sizes, Work


@dataclass(frozen=True)
class LayerNormKernel:
    """Layer normalization of rows of f32 (Ba, Kiros and Hinton 2016); a workgroup takes several of them.

    The variance is the mean of squared differences from the mean, in a pass of its own over the row, which
    the first one left in the cache: a difference of sums of squares would cancel where the mean is large.
    """

    rows: int
    """Of an element of the batch."""
    length: int
    """Elements of a row."""
    epsilon: float
    """Added to the variance."""
    scaled: bool
    """Whether there is a factor for each element of a row."""
    shifted: bool
    """Whether there is an addend for each element of a row."""
    target: CpuTarget

    @property
    def name(self) -> str:
        return f"winograd_layer_norm_{self.rows}x{self.length}"

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Blocks of rows of the whole batch."""
        return (ceildiv(sizes.batch * self.rows, self._row.block),)

    def emit(self, work: Work, source: Buffer, *parameters_and_output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point: N x ... x length to the same.

        Between them are the scale and the shift, of `length` elements, those that there are.
        """
        *parameters, output = parameters_and_output
        scale = parameters[0] if self.scaled else None
        shift = parameters[-1] if self.shifted else None
        row, fused = self._row, self.target.fused_multiply_add
        width = row.width
        first = work.workgroup[0] * row.block

        def constant(number: float) -> ir.Value:
            return splat(number, width, source.computed)

        with loop((work.sizes.batch * self.rows - first).minimum(row.block), name="row") as number:
            begin = (first + number) * self.length

            def difference(i: Index, mean: ir.Value) -> ir.Value:
                return arith.subf(source.load(begin + i, width), mean)

            with named("mean"):
                total = row.reduced(0.0, arith.addf, lambda i: source.load(begin + i, width))
                mean = arith.divf(total, constant(self.length))

            def square(i: Index) -> ir.Value:
                centred = difference(i, mean)
                return arith.mulf(centred, centred)

            with named("variance"):
                variance = arith.divf(row.reduced(0.0, arith.addf, square), constant(self.length))
                deviation = math.sqrt(arith.addf(variance, constant(self.epsilon)))
                inverse = arith.divf(constant(1.0), deviation)

            def store(i: Index) -> None:
                result = arith.mulf(difference(i, mean), inverse)
                if scale is not None and shift is not None:
                    result = multiply_add(result, scale.load(i, width), shift.load(i, width), fused)
                elif scale is not None:
                    result = arith.mulf(result, scale.load(i, width))
                elif shift is not None:
                    result = arith.addf(result, shift.load(i, width))
                output.store(result, begin + i)

            for_each_vector(self.length, width, store, "element")

    @property
    def _row(self) -> Row:
        return Row.of(self.length, self.target)
