"""The weights of the CPU kernel of attention: exponentials of scores that are scaled and masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.pipelines.cpu.kernels.attention_blocking import AttentionBlocking
from iree.winograd.pipelines.cpu.kernels.attention_memory import AttentionMemory, KeyBlock
from iree.winograd.pipelines.cpu.kernels.batch_matmul import Place
from iree.winograd.pipelines.cpu.kernels.exponentials import inverse_sum, lowest
from iree.winograd.pipelines.cpu.kernels.rows import reduced_vectors
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import named
from iree.winograd.pipelines.emission.functions import LOG2_E, exponential, negative_power_of_two
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.vectors import LaneMask, broadcast, multiply_add, splat


@dataclass(frozen=True)
class AttentionWeights:
    """exp(score - the largest score so far) in place of each score of a row."""

    blocking: AttentionBlocking
    memory: AttentionMemory
    masks: Sequence[Place]
    """From the first query of a part on."""

    def emit(self, row: Index, i: Index, block: KeyBlock) -> None:
        """Weights in place of the scores of a row, and what mixtures are multiplied by."""
        blocking, scores, state = self.blocking, self.memory.scores, self.memory.state
        width = blocking.score_block.width
        begin = i * blocking.stride
        vectors, fused = ceildiv(block.count, width), blocking.target.fused_multiply_add
        if self._scales_first:
            maximum = self._mask_scores(row + i, begin, block)
        else:
            if blocking.problem.scores.columns % width:
                # Within a block of whole vectors that is behind it.
                scores.store(splat(-inf, width, scores.computed), begin + block.count)
            factor = splat(blocking.problem.scores.factor * LOG2_E, width, scores.computed)
            with named("maximum"):
                largest = reduced_vectors(
                    vectors, width, -inf, _larger, lambda k: scores.load(begin + k, width)
                )
                maximum = arith.mulf(largest, factor)
        maximum = _larger(maximum, splat(lowest(safe=True), width, scores.computed))
        if state is not None:
            before = broadcast(state.maxima.load_scalar(row + i), width)
            maximum = _larger(maximum, before)
        subtracted = arith.negf(maximum)

        def store_weight(k: Index) -> ir.Value:
            score = scores.load(begin + k, width)
            if self._scales_first:
                difference = arith.addf(score, subtracted)
            else:
                difference = multiply_add(score, factor, subtracted, fused)
            result = self._weight(difference)
            scores.store(result, begin + k)
            return result

        with named("sum"):
            total = reduced_vectors(vectors, width, 0.0, arith.addf, store_weight)
        if state is None:
            _store_scalar(inverse_sum(total, blocking.problem.safe), self.memory.factors, i)
            return
        with named("rescaled"):
            rescaling = self._weight(arith.subf(before, maximum))
            total = multiply_add(broadcast(state.sums.load_scalar(row + i), width), rescaling, total, fused)
        _store_scalar(maximum, state.maxima, row + i)
        _store_scalar(total, state.sums, row + i)
        _store_scalar(rescaling, self.memory.factors, i)

    @property
    def _scales_first(self) -> bool:
        """Whether scores are scaled where they are, to be masked; else, differences are.

        Masks may be finite numbers whose multiples aren't.
        """
        return bool(self.masks) or not self.blocking.problem.scores.factor > 0

    def _weight(self, difference: ir.Value) -> ir.Value:
        """That of a score, of its difference to the largest."""
        fused = self.blocking.target.fused_multiply_add
        if self._scales_first:
            return exponential(difference, fused, is_negative=True)
        return negative_power_of_two(difference, fused)

    def _mask_scores(self, row: Index, begin: Index, block: KeyBlock) -> ir.Value:
        """Scales and masks a row of scores where it is; the largest of them."""
        blocking, scores = self.blocking, self.memory.scores
        width, problem = blocking.score_block.width, blocking.problem
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
        blocking = self.blocking
        width, element = blocking.score_block.width, self.memory.scores.computed
        factor = splat(blocking.problem.scores.factor, width, element)
        added = [mask for mask, rows in zip(masks, blocking.problem.masks, strict=True) if not rows.is_truth]
        if added:
            score = multiply_add(score, factor, added[0], blocking.target.fused_multiply_add)
        elif blocking.problem.scores.factor != 1:
            score = arith.mulf(score, factor)
        for mask in added[1:]:
            score = arith.addf(score, mask)
        for mask, rows in zip(masks, blocking.problem.masks, strict=True):
            if rows.is_truth:
                hidden = splat(-inf, width, element)
                is_hidden = arith.cmpf(arith.CmpFPredicate.OEQ, mask, hidden)
                score = arith.select(is_hidden, hidden, score)
        return score


def _larger(new: ir.Value, largest: ir.Value) -> ir.Value:
    """The larger of two vectors; `largest` where the other is NaN, by which sums become so, too."""
    return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, new, largest), new, largest)


def _store_scalar(lanes: ir.Value, buffer: Buffer, offset: Index) -> None:
    """Writes one lane of a vector."""
    buffer.store(broadcast(vector.extract(lanes, [], [0]), 1), offset)
