"""The schedules of attention: how many queries a workgroup has, and how it multiplies them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.products.attention import AttentionProblem
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.warpgroup import (
    BARRIER_BYTES,
    COPIED_BYTES,
    REDUCTION,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
)

from .matrix import SPLIT_PRODUCTS
from .warpgroup import STAGE_BARRIERS

FEW_KEYS = 32
"""Of a block."""


@dataclass(frozen=True)
class AttentionSchedule(ABC):
    """How a workgroup attends: some queries of a head, by blocks of keys."""

    most_channels: ClassVar[int]
    """Of keys, and of values: a thread has registers for what it keeps of them."""

    @property
    def keys(self) -> int:
        """Of a block, whose scores a workgroup has at a time."""
        return FEW_KEYS

    @property
    @abstractmethod
    def queries(self) -> int:
        """Of a workgroup."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Of a workgroup."""

    @abstractmethod
    def shared_memory_bytes(self, problem: AttentionProblem) -> int:
        """Of a workgroup."""

    def has_registers(self, problem: AttentionProblem) -> bool:
        """Whether threads have them for the channels of heads."""
        return max(problem.scores.reduction, problem.mixtures.columns) <= self.most_channels

    def workgroups(self, problem: AttentionProblem) -> int:
        return problem.scores.batch * ceil_div(problem.scores.rows, self.queries)


@dataclass(frozen=True)
class MultiplyAddAttentionSchedule(AttentionSchedule):
    """By fused multiply-adds: eight threads share two queries.

    Each has a quad of their scores, and every so many quads of their results.
    """

    thread_queries: ClassVar[int] = 2
    across: ClassVar[int] = FEW_KEYS // QUAD
    """Threads that share queries."""
    most_channels: ClassVar[int] = 128
    """What a thread sums, and the next keys."""

    rows: int
    """Queries of a workgroup."""
    shares_queries: bool = True
    """Whether they are in shared memory. Otherwise threads read them where they are, for each block of keys:
    memory is left for more workgroups, and moves fewer bytes for a product."""
    stage_parts: int = 1
    """Of a block's keys, by their channels, and of its values, by keys, that are in shared memory one after
    the other: the smaller they are, the more memory is left for workgroups, which wait more often."""

    @property
    def queries(self) -> int:
        return self.rows

    @property
    def threads(self) -> int:
        return self.rows // self.thread_queries * self.across

    def shared_memory_bytes(self, problem: AttentionProblem) -> int:
        of_row = self.across + 1 + (self.channel_row(problem) if self.shares_queries else 0)
        quads = self.rows * of_row + self.stage_quads(problem)
        return (quads * QUAD + self.rows * self.across) * F32.bytes

    def channel_row(self, problem: AttentionProblem) -> int:
        """Quads from a row of shared memory to the next: the same quad of each row is in other banks."""
        return ceil_div(problem.scores.reduction, QUAD) + 1

    def result_quads(self, problem: AttentionProblem) -> int:
        """Of a row of a thread."""
        return ceil_div(problem.mixtures.columns, QUAD * self.across)

    def moved_quads(self, problem: AttentionProblem) -> int:
        """What memory moves for a workgroup and a block of keys: its threads' operands, and the stages."""
        channels, results = self.channel_row(problem) - 1, self.result_quads(problem)
        of_scores = channels * (self.thread_queries + QUAD)
        of_mixtures = self.across * (self.thread_queries + QUAD * results)
        staged = self.keys * (channels + results * self.across)
        return self.threads * (of_scores + of_mixtures) + staged

    def key_row(self, problem: AttentionProblem) -> int:
        """As `channel_row`, of a part of keys."""
        return ceil_div(self.channel_row(problem) - 1, self.stage_parts) + 1

    def value_row(self, problem: AttentionProblem) -> int:
        """The same of values."""
        return self.result_quads(problem) * self.across

    def stage_row(self, problem: AttentionProblem) -> int:
        """The same of keys or of values where these aren't in parts, and have the same rows in turn."""
        return max(self.key_row(problem), self.value_row(problem))

    def stage_quads(self, problem: AttentionProblem) -> int:
        """Of keys, or of values, which take the same memory in turn."""
        if self.stage_parts == 1:
            return self.keys * self.stage_row(problem)
        values = self.keys // self.stage_parts * self.value_row(problem)
        return max(self.keys * self.key_row(problem), values)

    def has_parts(self, problem: AttentionProblem) -> bool:
        """Whether channels are in parts of whole quads, all as long."""
        return (self.channel_row(problem) - 1) % self.stage_parts == 0


@dataclass(frozen=True)
class MatrixAttentionSchedule(AttentionSchedule):
    """On NVIDIA's matrix units: a warp has 16 queries. Keys and values of two blocks are in shared memory.

    For each product of fp32 there are so many `products` of TF32: three of numbers that are split into two,
    or one of numbers that TF32 has.
    """

    stages: ClassVar[int] = 2
    """Blocks of keys, and of values, in shared memory: while one is multiplied the other is loaded."""
    most_channels: ClassVar[int] = 160
    """The results of a thread's values."""

    warps: int
    products: int = SPLIT_PRODUCTS

    @property
    def queries(self) -> int:
        return self.warps * MATRIX_ROWS

    @property
    def threads(self) -> int:
        return self.warps * WARP_THREADS

    def shared_memory_bytes(self, problem: AttentionProblem) -> int:
        return self.shared_elements(problem) * F32.bytes

    def shared_elements(self, problem: AttentionProblem) -> int:
        """Those of queries, and of the stages behind them."""
        return self.queries * self.channel_row(problem) + self.stages * self.stage_elements(problem)

    def stage_elements(self, problem: AttentionProblem) -> int:
        """Of the keys of a block, and of the values behind them."""
        return self.keys * (self.channel_row(problem) + self.value_row(problem))

    def channel_row(self, problem: AttentionProblem) -> int:
        """Elements from a row of queries, or of keys, to the next.

        Of two neighbouring rows threads read 16 elements each at once: these are in different banks.
        """
        sixteens = ceil_div(problem.scores.reduction, MATRIX_ROWS)
        return MATRIX_ROWS * (sixteens + (sixteens + 1) % 2)

    def value_row(self, problem: AttentionProblem) -> int:
        """The same of values, of which threads read eight elements of every other one of eight rows."""
        return MATRIX_ROWS * ceil_div(problem.mixtures.columns, MATRIX_ROWS) + QUAD


@dataclass(frozen=True)
class SharedChunks:
    """Rows of half precision in shared memory: chunks of 16 bytes, each number of them of all rows together.

    Chunks of one row are an odd number of 16 bytes apart, in different banks.
    """

    rows: int
    count: int
    """Of chunks of a row."""

    @property
    def distance(self) -> int:
        """Bytes from a chunk to the next of the same row."""
        return (self.rows + 1) * COPIED_BYTES

    @property
    def bytes(self) -> int:
        return self.count * self.distance

    def place(self, row: Index, chunk: Index) -> Index:
        """Where a chunk of a row lies."""
        return chunk * self.distance + row * COPIED_BYTES


@dataclass(frozen=True)
class WarpgroupAttentionSchedule(AttentionSchedule):
    """On NVIDIA's matrix units of sm_90a, of half precision: a warpgroup has 64 queries.

    Keys and values of some blocks are in shared memory, and so are queries: one block comes while
    warpgroups are at others, since some of them find exponentials while others multiply.
    """

    most_channels: ClassVar[int] = 160
    """A thread has half as many results, beside half as many scores as there are keys."""

    warpgroups: int
    block_keys: int
    resident: int = 1
    """Workgroups that a multiprocessor should have registers for."""
    stages: int = 4
    """Blocks of keys, and of values, in shared memory."""

    @property
    def keys(self) -> int:
        return self.block_keys

    @property
    def queries(self) -> int:
        return self.warpgroups * WARPGROUP_ROWS

    @property
    def threads(self) -> int:
        return self.warpgroups * WARPGROUP_THREADS

    def shared_memory_bytes(self, problem: AttentionProblem) -> int:
        stages = self.stages * (self.stage_bytes(problem) + STAGE_BARRIERS * BARRIER_BYTES)
        return self.query_chunks(problem).bytes + stages

    def query_chunks(self, problem: AttentionProblem) -> SharedChunks:
        return SharedChunks(self.queries, _whole_chunks(problem.scores.reduction))

    def key_chunks(self, problem: AttentionProblem) -> SharedChunks:
        return SharedChunks(self.keys, _whole_chunks(problem.scores.reduction))

    def value_chunks(self, problem: AttentionProblem) -> SharedChunks:
        return SharedChunks(self.keys, problem.mixtures.columns // COPIED)

    def stage_bytes(self, problem: AttentionProblem) -> int:
        """Of the keys of a block, and of the values behind them."""
        return self.key_chunks(problem).bytes + self.value_chunks(problem).bytes


def _whole_chunks(channels: int) -> int:
    """Those of channels that are multiplied 16 at a time."""
    return ceil_div(channels, REDUCTION) * REDUCTION // COPIED
