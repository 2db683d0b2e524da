"""The matrix unit of a CPU (AMX), and f32 numbers as it multiplies them: each as the sum of three bf16.

Intel, Architecture Instruction Set Extensions Programming Reference, chapter 3: eight tile registers, each up
to 16 rows of 64 bytes, and an instruction that adds to f32 sums the products of rows of 16 pairs of bf16 and
columns of such pairs. Splitting is that of Henry, Tang and Heinecke, Leveraging the bfloat16 artificial
intelligence datatype for higher-precision computations (ARITH 2019): of the nine products of parts those are
taken that exceed what f32 rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.buffer import Buffer, ScratchMemory
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike
from iree.winograd.pipelines.emission.intrinsic import call_intrinsic
from iree.winograd.pipelines.emission.vectors import broadcast, vector_type

from .x86 import X86_64

TILE_ROWS = 16
"""The most rows of a tile."""
TILE_LANES = 16
"""f32 sums, or pairs of bf16, of a row."""
TILE_CHANNELS = 2 * TILE_LANES
"""Input channels of a tile: a pair has one of the first half and one of the second."""
TILE_REGISTERS = 8
ROW_BYTES = 64
PAIR_BYTES = 4
TILE_BYTES = TILE_ROWS * ROW_BYTES
PARTS = 3
"""bf16 numbers that an f32 number is the sum of, the largest first."""
PRODUCTS = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2))
"""The parts of both operands, in an order that changes one of them at a time: those left out are less than
2^-20 of the product."""
ROUNDED_PRODUCTS = ((0, 0),)
"""The same of numbers that are a single bf16 each."""
F16_PRODUCTS = ((1, 0), (0, 0), (0, 1))
"""The same of numbers of f16, which two parts hold exactly."""

_ROWS_WORD = 12
"""The first of the two words of the shapes of tiles that have their rows."""
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""Linux's system call, its code ARCH_REQ_XCOMP_PERM, and the number of the tile registers' state."""


class TileBlock(Protocol):
    """Tiles of sums to which tiles of bf16 are multiplied: on the unit, or as it does."""

    @property
    def works_beside(self) -> bool:
        """Whether the processor does other things while tiles are multiplied."""

    def configure(self) -> None:
        """Emits what comes before all else."""

    def release(self) -> None:
        """Emits what comes after all else."""

    def clear(self) -> None:
        """Emits the zeroing of the sums."""

    def add(
        self,
        row_address: Callable[[int, int], Index],
        row_distance: int,
        filter_address: Callable[[int, int], Index],
        products: Sequence[tuple[int, int]],
    ) -> None:
        """Emits the adding of the `products` of parts of 32 input channels to the sums.

        `row_address` and `filter_address` give, for a part and the number of a tile, where it begins; rows of
        the left operand lie `row_distance` bytes apart.
        """

    def store(self, address: Index) -> None:
        """Emits the writing of the sums: row_tiles x tile_rows x (channel_tiles x 16) of f32."""

    def stay_awake(self) -> None:
        """Emits what keeps the unit ready while a tile's outputs are finished; sums are lost."""


@dataclass(frozen=True)
class MatrixBlock:
    """`row_tiles` x `channel_tiles` tiles of sums, and tiles of both operands beside them, in registers.

    A tile of sums is `tile_rows` rows by 16 output channels. Tiles of rows take turns in the registers that
    are left, of which there is at least one.
    """

    tile_rows: int
    row_tiles: int
    channel_tiles: int
    told_rows: Index | None = None
    """The rows of a tile where they are known only at run time, `tile_rows` at most."""

    @property
    def rows(self) -> Index:
        """Those that a tile has."""
        return Index(self.tile_rows) if self.told_rows is None else self.told_rows

    @property
    def works_beside(self) -> bool:
        return True

    @property
    def registers(self) -> int:
        """Those that it takes, of eight."""
        return self.row_tiles * self.channel_tiles + self._row_registers + self.channel_tiles

    @property
    def _row_registers(self) -> int:
        """Those of tiles of rows."""
        left = TILE_REGISTERS - (self.row_tiles + 1) * self.channel_tiles
        return min(self.row_tiles, max(1, left))

    def configure(self) -> None:
        """Emits what gives registers their shapes, before any other of these operations."""
        of_rows = self.row_tiles * self.channel_tiles + self._row_registers
        rows = [self.tile_rows] * of_rows + [TILE_ROWS] * self.channel_tiles
        rows += [0] * (TILE_REGISTERS - len(rows))
        row_bytes = [ROW_BYTES if count else 0 for count in rows]
        words = [1, 0, 0, 0, *(low | high << 16 for low, high in _pairs(row_bytes)), 0, 0, 0, 0]
        words += [_word(rows[:4]), _word(rows[4:]), 0, 0]
        integer = _integer()
        memory = ScratchMemory.of((len(words),), integer, "tile_shapes")
        values = [ir.IntegerAttr.get(integer, word) for word in words]
        type_ = vector_type(len(words), integer)
        memory.buffer.store(arith.constant(type_, ir.DenseElementsAttr.get(values, type_)), 0)
        if self.told_rows is not None:
            # As many rows are in place of those of the tiles that are no filters.
            told = [int(register < of_rows) for register in range(TILE_REGISTERS)]
            for place, first in ((_ROWS_WORD, 0), (_ROWS_WORD + 1, TILE_REGISTERS // 2)):
                whole, each = rows[first : first + 4], told[first : first + 4]
                others = _word([count * (1 - is_told) for count, is_told in zip(whole, each, strict=True)])
                word = self.told_rows * _word(each) + others
                memory.buffer.store(broadcast(arith.index_cast(integer, word.value), 1), place)
        _call("llvm.x86.ldtilecfg", pointer(memory.address))

    def release(self) -> None:
        """Emits what gives the registers back: a thread that has none in use is switched faster."""
        _call("llvm.x86.tilerelease")

    def clear(self) -> None:
        """Emits the zeroing of the sums."""
        for register in range(self.row_tiles * self.channel_tiles):
            _call("llvm.x86.tilezero", _register(register))

    def add(
        self,
        row_address: Callable[[int, int], Index],
        row_distance: int,
        filter_address: Callable[[int, int], Index],
        products: Sequence[tuple[int, int]],
    ) -> None:
        """Each tile is loaded where its register has another one."""
        loaded: dict[int, tuple[int, int]] = {}

        def load(register: int, part: int, tile: int, address: Callable[[int, int], Index], row: int) -> None:
            if loaded.get(register) != (part, tile):
                _load(register, address(part, tile), row)
            loaded[register] = part, tile

        for row_part, filter_part in products:
            # Those of rows that all have a register are loaded before the first product.
            ahead = self.row_tiles if self._row_registers == self.row_tiles else 0
            for tile in range(ahead):
                load(self._row(tile), row_part, tile, row_address, row_distance)
            for tile in range(self.channel_tiles):
                load(self._filter(tile), filter_part, tile, filter_address, ROW_BYTES)
            for tile in range(self.row_tiles):
                load(self._row(tile), row_part, tile, row_address, row_distance)
                for channel_tile in range(self.channel_tiles):
                    self._multiply(tile, channel_tile)

    def store(self, address: Index) -> None:
        """Emits the writing of the sums: row_tiles x tile_rows x (channel_tiles x 16) of f32."""
        row_bytes = self.channel_tiles * ROW_BYTES
        for tile in range(self.row_tiles):
            for channel_tile in range(self.channel_tiles):
                place = address + (self.rows * (tile * row_bytes) + channel_tile * ROW_BYTES)
                register = _register(tile * self.channel_tiles + channel_tile)
                _call("llvm.x86.tilestored64", register, pointer(place), _long(row_bytes))

    def stay_awake(self) -> None:
        """A product for nothing: after about 1000 cycles without any the next one waits for 700 (measured on
        Emerald Rapids)."""
        self._multiply(0, 0)

    def _multiply(self, tile: int, channel_tile: int) -> None:
        operands = (tile * self.channel_tiles + channel_tile, self._row(tile), self._filter(channel_tile))
        _call("llvm.x86.tdpbf16ps", *map(_register, operands))

    def _row(self, tile: int) -> int:
        """The register of a tile of rows."""
        return self.row_tiles * self.channel_tiles + tile % self._row_registers

    def _filter(self, tile: int) -> int:
        """That of a tile of filters."""
        return self.row_tiles * self.channel_tiles + self._row_registers + tile


def permitted() -> Condition:
    """Emits the asking of Linux for the registers: whether the process may use them.

    It may ask any number of times, and any of its threads for all of them. Without permission the first
    use of a tile would end the process.
    """
    long = ir.IntegerType.get_signless(64)
    numbers = [_long(number) for number in (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)]
    constraints = ("={rax}", "{rax}", "{rdi}", "{rsi}", "~{rcx}", "~{r11}", "~{memory}")
    result = X86_64.emit("syscall", constraints, numbers, long).result
    return Condition(arith.cmpi(arith.CmpIPredicate.eq, result, _long(0)))


def split(first: ir.Value, second: ir.Value) -> list[ir.Value]:
    """The `PARTS` of pairs of f32, 16 of each: vectors of 16 i32, `first` in the lower halves.

    A part is what bf16 keeps without rounding. Each has 8 significant bits, three have all 24; those below
    the least normal number count as zero.
    """
    integer, width = _integer(), ir.VectorType(first.type).shape[0]
    upper, half = _splat(-(1 << 16), width), _splat(16, width)
    bits_type, float_type = vector_type(width, integer), first.type
    parts, rest = [], [first, second]
    for part in range(PARTS):
        bits = [arith.bitcast(bits_type, value) for value in rest]
        high = [arith.andi(value, upper) for value in bits]
        parts.append(arith.ori(arith.shrui(bits[0], half), high[1]))
        if part < PARTS - 1:
            kept = [arith.bitcast(float_type, value) for value in high]
            rest = [arith.subf(value, taken) for value, taken in zip(rest, kept, strict=True)]
    return parts


def parts_type() -> ir.Type:
    """The element type of memory that holds pairs of parts."""
    return _integer()


def zero_parts() -> ir.Value:
    """A row of a tile of zeros."""
    return _splat(0, TILE_LANES)


def store_parts(parts: Sequence[ir.Value], memory: Buffer, offset: Index, distance: IndexLike) -> None:
    """Writes what `split` gives, each part `distance` pairs after the one before."""
    for number, part in enumerate(parts):
        memory.store(part, offset + number * distance)


def _word(values: Sequence[int]) -> int:
    """Four bytes as a word of memory."""
    return int.from_bytes(bytes(values), "little")


def _pairs(values: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(values[::2], values[1::2], strict=True))


def _integer() -> ir.IntegerType:
    return ir.IntegerType.get_signless(32)


def _splat(value: int, width: int) -> ir.Value:
    type_ = vector_type(width, _integer())
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(_integer(), value)))


def _register(number: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(8), number)


def _long(number: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(64), number)


def pointer(address: Index) -> ir.Value:
    """An address as LLVM has it."""
    number = arith.index_cast(ir.IntegerType.get_signless(64), address.value)
    return ir.Operation.create("llvm.inttoptr", [ir.Type.parse("!llvm.ptr")], [number]).result


def _load(register: int, address: Index, row_distance: int) -> None:
    _call("llvm.x86.tileloadd64", _register(register), pointer(address), _long(row_distance))


def _call(intrinsic: str, *operands: ir.Value) -> None:
    call_intrinsic(intrinsic, operands)
