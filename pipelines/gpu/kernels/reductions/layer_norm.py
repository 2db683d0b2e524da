"""The GPU kernel of layer normalization: rows of mean zero and variance one, scaled and shifted."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, math
from iree.winograd.passes.match.layouts.places import Places
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.places import source_place
from iree.winograd.pipelines.emission.vectors import constant_like
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer

from .rows import PlacedRow, SharedRows, row_memory


@dataclass(frozen=True)
class LayerNormKernel:
    """Layer normalization of rows (Ba, Kiros and Hinton 2016), each read once.

    The variance is the mean of squared differences from the mean, of elements in registers.
    """

    rows: int
    """Of an element of the batch."""
    shared: SharedRows
    epsilon: float
    """Added to the variance."""
    scaled: bool
    """Whether there is a factor for each element of a row."""
    shifted: bool
    """Whether there is an addend for each element of a row."""
    places: Places | None
    """Those of the source that the elements of rows are read from; None where they have their order."""

    @property
    def name(self) -> str:
        return f"winograd_layer_norm_{self.rows}x{self.shared.length}"

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Blocks of rows of the whole batch."""
        return self.shared.workgroups(sizes.batch * self.rows)

    def emit(self, work: Work, source: GlobalBuffer, *parameters_and_output: GlobalBuffer) -> None:
        """Emits the work of one workgroup: N x ... x length to the same.

        Between them are the scale and the shift, of `length` elements, those that there are.
        """
        *parameters, output = parameters_and_output
        row = self.shared.place(work, work.sizes.batch * self.rows)
        for_mean, for_variance = row_memory(2, source.computed)
        values = self._load(row, source)
        scales = row.load(parameters[0], Index(0)) if self.scaled else None
        shifts = row.load(parameters[-1], Index(0)) if self.shifted else None
        length = self.shared.length
        total = row.reduced(values, 0.0, arith.addf, for_mean)
        mean = arith.divf(total, constant_like(total, length))
        centred = [arith.subf(value, mean) for value in values]
        squares = row.reduced([arith.mulf(each, each) for each in centred], 0.0, arith.addf, for_variance)
        variance = arith.divf(squares, constant_like(squares, length))
        deviation = math.sqrt(arith.addf(variance, constant_like(variance, self.epsilon)))
        inverse = arith.divf(constant_like(deviation, 1.0), deviation)
        results: list[ir.Value] = [arith.mulf(each, inverse) for each in centred]
        if scales is not None:
            results = [arith.mulf(*each) for each in zip(results, scales, strict=True)]
        if shifts is not None:
            results = [arith.addf(*each) for each in zip(results, shifts, strict=True)]
        row.store(results, output)

    def _load(self, row: PlacedRow, source: GlobalBuffer) -> list[ir.Value]:
        """This thread's share of its row."""
        begin, places = row.number * self.shared.length, self.places
        if places is None:
            return row.load(source, begin)
        if places.keeps(self.shared.length):
            return row.load(source, source_place(places, begin))
        return row.load(source, begin, lambda place: source_place(places, place))
