"""What a workgroup of the CPU kernel of attention has copies and intermediate results in."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.kernels.attention_blocking import AttentionBlocking
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.index import Index


@dataclass(frozen=True)
class KeyBlock:
    """Neighbouring keys whose packed copies, and those of their values, a workgroup has at a time."""

    first: Index
    count: Index
    panels: Index
    """Of keys, as many as the block fills or begins."""


@dataclass(frozen=True)
class RowState:
    """Of each query of a part, what is known of the keys so far."""

    maxima: Buffer
    """Of scores, one for each row."""
    sums: Buffer
    """Of weights, one for each row."""
    mixtures: Buffer
    """panels x rows x v of a panel."""


@dataclass(frozen=True)
class AttentionMemory:
    """What a workgroup has copies and intermediate results in."""

    keys: Buffer
    """panels x k x keys of a panel."""
    values: Buffer
    """panels x keys x v of a panel."""
    scores: Buffer
    """rows x keys."""
    factors: Buffer
    """Of each row, what its mixture is multiplied by: the inverse sum, or what rescales earlier keys'."""
    state: RowState | None

    @staticmethod
    def of(blocking: AttentionBlocking, element: ir.Type) -> AttentionMemory:
        """Emits it for elements of a type."""
        state, panels, values = None, blocking.value_panels.count, blocking.value_block.channels
        if blocking.key_blocks > 1:
            rows = blocking.part_rows
            state = RowState(
                scratch((rows,), element, "maxima"),
                scratch((rows,), element, "sums"),
                scratch((panels, rows, values), element, "mixtures"),
            )
        return AttentionMemory(
            scratch((blocking.block_keys * blocking.problem.scores.reduction,), element, "keys"),
            scratch((panels, blocking.block_keys, values), element, "values"),
            scratch((blocking.rows, blocking.stride), element, "scores"),
            scratch((blocking.rows,), element, "factors"),
            state,
        )
