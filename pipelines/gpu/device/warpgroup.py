"""NVIDIA's matrix units as sm_90a has them: four warps multiply 64 rows in shared memory, without waiting.

Stages come to shared memory by bulk copies, which a thread starts for its workgroup, and whose bytes a
barrier in shared memory counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iree.winograd.dialect.bindings import arith, ir, llvm, memref, nvvm
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike
from iree.winograd.pipelines.emission.numbers.number import Number

from .matrix_unit import MATRIX_SUMS
from .pointers import CLUSTER, GLOBAL, SHARED, pointer, pointer_type

WARPGROUP_THREADS = 128
WARPGROUP_ROWS = 64
"""Rows that a warpgroup multiplies at once."""
REDUCTION = 16
"""Numbers along the reduction dimension that it multiplies at once."""
REGISTERS = 65536
"""Of a multiprocessor."""
MAX_REGISTERS = 255
"""A thread's."""
BARRIER_BYTES = 8
COPIED_BYTES = 16
"""Of a chunk."""
SWIZZLED_ROW = 128
"""Bytes of a row of an operand, in which chunks of 16 bytes change places by the row."""
SWIZZLED_ROWS = 8
"""Rows after which they lie alike."""
_HELD_PAIRS = 4
"""Of a thread, of the rows of a product."""
_DESCRIPTOR_UNIT = 16
"""Bytes that addresses in descriptors count."""
_NANOSECONDS = 10_000_000
"""That a thread sleeps at most before it looks at a barrier again."""
_SWIZZLE = 1 << 62
"""Of 128 bytes, in a descriptor."""
SPARE_REGISTERS = 64
"""Of a thread's registers, for what is neither sums nor loaded. With more of these two than there are
registers an H200 took twice what is predicted for implicit products of 320 to 576 channels."""


def registers_of(threads: int) -> int:
    """Those that each of so many threads has where a multiprocessor is to have registers for all."""
    return min(MAX_REGISTERS, REGISTERS // threads)


@dataclass(frozen=True)
class SharedBytes:
    """Memory that a workgroup shares, by the address of its first byte, a multiple of 1024."""

    address: Index

    @staticmethod
    def allocate(size: int, name: str) -> SharedBytes:
        """Memory for `size` bytes; there has to be no other, or it may not begin where it should."""
        space = ir.Attribute.parse("#gpu.address_space<workgroup>")
        type_ = ir.MemRefType.get([size], ir.IntegerType.get_signless(8), memory_space=space)
        with ir.Location.name(name):
            allocation = memref.AllocOp(type_, [], []).result
        return SharedBytes(Index(memref.extract_aligned_pointer_as_index(allocation)))

    def barrier(self, offset: IndexLike) -> Barrier:
        """The barrier that lies at an offset."""
        return Barrier(self.address + offset)

    def copy(self, offset: IndexLike, source: Index, size: int, barrier: Barrier) -> None:
        """Starts to copy `size` bytes from the device's memory; `barrier` counts them once they are here."""
        shared = pointer(self.address + offset, SHARED)
        nvvm.CpAsyncBulkGlobalToSharedClusterOp(
            llvm.addrspacecast(pointer_type(CLUSTER), shared),
            pointer(source, GLOBAL),
            barrier.pointer,
            _integer(size),
        )

    def copy_out(self, offset: IndexLike, target: Index, size: Index) -> None:
        """Starts to copy `size` bytes, a multiple of 16, to the device's memory: part of the next group."""
        number = arith.index_cast(_integer_type(), size.value)
        shared = pointer(self.address + offset, SHARED)
        nvvm.CpAsyncBulkSharedCTAToGlobalOp(pointer(target, GLOBAL), shared, number)

    def copy_chunk(
        self, offset: IndexLike, source: Index, exists: Condition, width: int = COPIED_BYTES
    ) -> None:
        """Starts to copy 16 bytes, or 8, or to clear as many where there is no `source`.

        Both places are multiples of that. Only 16 can go past the first cache, and do.
        """
        size = arith.select(exists.value, _integer(width), _integer(0))
        modifier = "cg" if width == COPIED_BYTES else "ca"
        nvvm.CpAsyncOp(
            pointer(self.address + offset, SHARED),
            pointer(source, GLOBAL),
            width,
            ir.Attribute.parse(f"#nvvm.load_cache_modifier<{modifier}>"),
            cpSize=None if exists.known else size,
        )

    def store(self, value: ir.Value, offset: IndexLike) -> None:
        """Writes a scalar or a vector, at a multiple of its size."""
        llvm.StoreOp(value, pointer(self.address + offset, SHARED))

    def load(self, type_: ir.Type, offset: IndexLike) -> ir.Value:
        """The scalar or vector at a multiple of its size."""
        return llvm.LoadOp(type_, pointer(self.address + offset, SHARED)).result

    def operand(self, offset: IndexLike, factors: Number) -> Operand:
        """Rows of an operand of a product, from an offset on, a multiple of eight of them."""
        distance = SWIZZLED_ROWS * SWIZZLED_ROW
        # Swizzled rows have no use for the other distance, which is set to one as it is elsewhere.
        return Operand(self._descriptor(offset, _DESCRIPTOR_UNIT, distance, _SWIZZLE), factors)

    def gathered_operand(
        self, offset: IndexLike, between_chunks: int, between_rows: int, factors: Number
    ) -> Operand:
        """Rows of 16 bytes, eight of which lie one after the other, from an offset on.

        The next eight rows are `between_rows` bytes on, the next 16 bytes of all of them `between_chunks`.
        """
        return Operand(self._descriptor(offset, between_chunks, between_rows, 0), factors)

    def transposed_operand(
        self, offset: IndexLike, between_chunks: int, between_steps: int, factors: Number
    ) -> Operand:
        """Of a product's columns: eight neighbours of each of 16 rows of the reduction, in 16 bytes each.

        Eight of these lie one after the other, the next eight `between_steps` bytes on, the next eight
        columns of all of them `between_chunks` bytes.
        """
        # PTX ISA, strides of matrices that are major in M or N, without swizzle.
        return Operand(self._descriptor(offset, between_steps, between_chunks, 0), factors)

    def _descriptor(self, offset: IndexLike, leading: int, stride: int, layout: int) -> ir.Value:
        number = arith.index_cast(_long_type(), ((self.address + offset) // _DESCRIPTOR_UNIT).value)
        distances = leading // _DESCRIPTOR_UNIT << 16 | stride // _DESCRIPTOR_UNIT << 32
        return arith.ori(number, arith.constant(_long_type(), layout | distances))


@dataclass(frozen=True)
class Operand:
    """The descriptor of rows in shared memory, of which products take 16 numbers at a time."""

    descriptor: ir.Value
    factors: Number
    """The type of these, f16 or bf16."""

    def step(self, number: int) -> Operand:
        """From the given 16 numbers of each row on."""
        return self.behind(number * 2 * REDUCTION)

    def here(self) -> Operand:
        """The same; the compiler doesn't compute what follows from it earlier, and keep it in registers."""
        return replace(self, descriptor=_copied_here(self.descriptor))

    def behind(self, size: int) -> Operand:
        """The same rows so many bytes on, a multiple of 16."""
        if size == 0:
            return self
        distance = arith.constant(_long_type(), size // _DESCRIPTOR_UNIT)
        return replace(self, descriptor=arith.addi(self.descriptor, distance))


@dataclass(frozen=True)
class HeldRows:
    """64 rows of 16 numbers as threads hold them: four pairs of a thread's, as `held_pair` gives them."""

    pairs: Sequence[ir.Value]


@dataclass(frozen=True)
class Barrier:
    """Completes a phase when enough threads have arrived and the bytes that these expect are there."""

    address: Index

    @property
    def pointer(self) -> ir.Value:
        return pointer(self.address, SHARED)

    def initialize(self, arrivals: int) -> None:
        """For so many threads to arrive in each phase; done by one thread, before `publish`."""
        nvvm.MBarrierInitOp(self.pointer, _integer(arrivals))

    def arrive(self) -> None:
        nvvm.MBarrierArriveOp(self.pointer, results=[_long_type()])

    def arrive_expecting(self, size: int) -> None:
        """Arrives, and has the phase wait for so many bytes."""
        nvvm.MBarrierArriveExpectTxOp(self.pointer, _integer(size), results=[])

    def arrive_when_copied(self) -> None:
        """Arrives once the chunks are there that this thread started to copy."""
        nvvm.CpAsyncMBarrierArriveOp(self.pointer, noinc=True)

    def wait(self, parity: Index) -> None:
        """Waits for the end of the phase of a parity: zero for the first one."""
        number = arith.index_cast(_integer_type(), parity.value)
        nvvm.MBarrierTryWaitParityOp(self.pointer, number, _integer(_NANOSECONDS))


def publish() -> None:
    """Has copies and products see what this thread wrote to shared memory."""
    nvvm.FenceProxyOp(
        ir.Attribute.parse("#nvvm.proxy_kind<async.shared>"),
        space=ir.Attribute.parse("#nvvm.shared_space<cta>"),
    )


def commit_copies() -> None:
    """Makes a group of the copies of chunks that this thread started since the last one."""
    nvvm.CpAsyncCommitGroupOp()


def wait_for_copies(pending: int = 0) -> None:
    """Waits until those that this thread started are in memory, but for the last `pending` groups of them.

    `publish` then shows them to products of warpgroups, a barrier to other threads.
    """
    nvvm.CpAsyncWaitGroupOp(pending)


def commit_copies_out() -> None:
    """Makes a group of the copies to the device's memory that this thread started since the last one."""
    nvvm.CpAsyncBulkCommitGroupOp()


def wait_for_copies_out(*, until_read: bool) -> None:
    """Waits until those that this thread started are there, or until nobody reads what they copy."""
    nvvm.CpAsyncBulkWaitGroupOp(0, read=until_read)


def take_registers(count: int) -> None:
    """Waits until the threads of this warpgroup can have so many registers, more than they began with."""
    nvvm.SetMaxRegisterOp(count, ir.Attribute.parse("#nvvm.action<increase>"))


def give_registers(count: int) -> None:
    """Leaves the threads of this warpgroup so many registers, fewer than they began with."""
    nvvm.SetMaxRegisterOp(count, ir.Attribute.parse("#nvvm.action<decrease>"))


def synchronize_warp() -> None:
    """Waits until all threads of the warp are here and see what the others wrote."""
    nvvm.SyncWarpOp(_integer(-1))


def warpgroup_barrier(warpgroup: Index) -> None:
    """Waits until all threads of one of the workgroup's warpgroups are here and see what the others wrote."""
    # The first barrier is that of the workgroup.
    number = arith.index_cast(_integer_type(), (warpgroup + 1).value)
    nvvm.BarrierOp(barrierId=number, numberOfThreads=_integer(WARPGROUP_THREADS))


@dataclass(frozen=True)
class WarpgroupSums:
    """What a thread holds of 64 x `columns` sums: `columns` / 2 of them, as one value."""

    value: ir.Value
    columns: int
    at_once: int | None = None
    """Columns that an instruction multiplies, where these aren't all."""
    row_blocks: int = 1
    """Of 64 rows, whose sums follow each other."""

    @staticmethod
    def zero(columns: int) -> WarpgroupSums:
        return WarpgroupSums(llvm.mlir_zero(sums_type(columns)), columns)

    @staticmethod
    def unset(columns: int) -> WarpgroupSums:
        """What a product that `begins` sums may be added to."""
        return WarpgroupSums(llvm.mlir_poison(sums_type(columns)), columns)

    @staticmethod
    def of(sums: Sequence[ir.Value], at_once: int | None = None, row_blocks: int = 1) -> WarpgroupSums:
        """Those that a thread holds, one by one."""
        count = len(sums)
        value = llvm.mlir_poison(_struct_of_sums(count))
        for number, each in enumerate(sums):
            value = llvm.insertvalue(value, each, [number])
        columns = count * WARPGROUP_THREADS // WARPGROUP_ROWS // row_blocks
        return WarpgroupSums(value, columns, at_once, row_blocks)

    def at(self, value: ir.Value) -> WarpgroupSums:
        """The same sums later on."""
        return replace(self, value=value)

    def add(self, rows: Operand | HeldRows, columns: Operand, *, begins: bool = False) -> WarpgroupSums:
        """Starts to add the product of 64 x 16 and 16 x `columns` numbers.

        One that `begins` sums has no need of what was there.
        """
        if isinstance(rows, HeldRows):
            return self.add_held(rows.pairs, columns, transposed=False, begins=begins)
        if self.row_blocks > 1 or (self.at_once is not None and self.at_once < self.columns):
            return self._add_by_pieces(rows, columns, begins=begins)
        half, one, kept = (
            ir.Attribute.parse(f"#nvvm.{text}")
            for text in (
                f"wgmma_type<{rows.factors.name}>",
                "wgmma_scale_in<one>",
                f"wgmma_scale_out<{'zero' if begins else 'one'}>",
            )
        )
        row_major, column_major = (ir.Attribute.parse(f"#nvvm.mma_layout<{name}>") for name in ("row", "col"))
        product = nvvm.WgmmaMmaAsyncOp(
            self.value.type,
            self.value,
            rows.descriptor,
            columns.descriptor,
            ir.Attribute.parse(f"#nvvm.shape<m = {WARPGROUP_ROWS}, n = {self.columns}, k = {REDUCTION}>"),
            half,
            half,
            ir.Attribute.parse(f"#nvvm.wgmma_type<{MATRIX_SUMS.name}>"),
            kept,
            one,
            one,
            row_major,
            column_major,
        )
        return self.at(product.results[0])

    def _add_by_pieces(self, rows: Operand, columns: Operand, *, begins: bool) -> WarpgroupSums:
        """The same by several instructions."""
        at_once = self.at_once or self.columns
        count = at_once * WARPGROUP_ROWS // WARPGROUP_THREADS
        added: list[ir.Value] = []
        for row_block in range(self.row_blocks):
            of_rows = rows.behind(row_block * WARPGROUP_ROWS * SWIZZLED_ROW)
            for first in range(0, self.columns, at_once):
                begin = len(added)
                places = range(begin, begin + count)
                before = [llvm.extractvalue(MATRIX_SUMS.type, self.value, [i]) for i in places]
                of_columns = columns.behind(first * SWIZZLED_ROW)
                piece = WarpgroupSums.of(before).add(of_rows, of_columns, begins=begins).value
                added += [llvm.extractvalue(MATRIX_SUMS.type, piece, [i]) for i in range(count)]
        return self.at(WarpgroupSums.of(added).value)

    @property
    def count(self) -> int:
        """Of a thread."""
        return self.row_blocks * WARPGROUP_ROWS * self.columns // WARPGROUP_THREADS

    def add_held(
        self, rows: Sequence[ir.Value], columns: Operand, *, transposed: bool = True, begins: bool = False
    ) -> WarpgroupSums:
        """Starts to add the product of 64 x 16 numbers that threads hold and 16 x `columns` in shared memory.

        `rows` are four pairs of numbers as `held_pair` gives them: neighbours of a thread's two rows, and
        those eight along the reduction dimension. `columns` is an operand, maybe a transposed one.
        """
        count = WARPGROUP_ROWS * self.columns // WARPGROUP_THREADS
        sums = ", ".join(f"${i}" for i in range(count))
        held = ", ".join(f"${2 * count + i}" for i in range(_HELD_PAIRS))
        number = columns.factors.name
        product = (
            f"{{ .reg .pred p; setp.ne.b32 p, {int(not begins)}, 0; wgmma.mma_async.sync.aligned"
            f".m{WARPGROUP_ROWS}n{self.columns}k{REDUCTION}.{MATRIX_SUMS.name}.{number}.{number} "
            f"{{{sums}}}, {{{held}}}, ${2 * count + _HELD_PAIRS}, p, 1, 1, {int(transposed)}; }}"
        )
        constraints = ["=f"] * count + [str(i) for i in range(count)] + ["r"] * _HELD_PAIRS + ["l"]
        before = [llvm.extractvalue(MATRIX_SUMS.type, self.value, [i]) for i in range(count)]
        operands = [*before, *rows, columns.descriptor]
        return self.at(
            llvm.inline_asm(self.value.type, operands, product, ",".join(constraints), has_side_effects=True)
        )


def held_pair(first: ir.Value, second: ir.Value, factors: Number) -> ir.Value:
    """Two neighbours along the reduction dimension, rounded to half precision, as threads hold them."""
    instruction = f"cvt.rn.{factors.name}x2.f32 $0, $1, $2;"
    return llvm.inline_asm(_integer_type(), [second, first], instruction, "=r,f,f")


def sums_type(columns: int) -> ir.Type:
    """That of the values of `WarpgroupSums`."""
    return _struct_of_sums(WARPGROUP_ROWS * columns // WARPGROUP_THREADS)


def _struct_of_sums(count: int) -> ir.Type:
    return ir.Type.parse(f"!llvm.struct<({', '.join([MATRIX_SUMS.name] * count)})>")


def begin_products() -> None:
    """Orders the products that follow after what was done to their sums."""
    nvvm.WgmmaFenceAlignedOp()


def commit_products() -> None:
    """Makes a group of the products started since the last one."""
    nvvm.WgmmaGroupSyncAlignedOp()


def wait_for_products(pending: int) -> None:
    """Waits until all groups but the last `pending` are done."""
    nvvm.WgmmaWaitGroupSyncOp(pending)


def landed_sums(sums: Sequence[WarpgroupSums], pending: int = 0) -> list[list[ir.Value]]:
    """These sums one by one, when all groups of products but the last `pending` are done.

    An instruction of its own gives them: the compiler doesn't know that their registers are written to until
    then, and might read these before.
    """
    sum_type = MATRIX_SUMS.type
    values = [llvm.extractvalue(sum_type, each.value, [i]) for each in sums for i in range(each.count)]
    done = iter(_after(f"wgmma.wait_group.sync.aligned {pending};", values))
    return [[next(done) for _ in range(each.count)] for each in sums]


def settled_sums(sums: Sequence[ir.Value]) -> list[ir.Value]:
    """The same sums one by one, computed by here.

    Where only some threads use them the compiler would add them there, and keep all that they are sums of.
    """
    return _after("", sums)


def settled_pairs(pairs: Sequence[ir.Value]) -> list[ir.Value]:
    """The same pairs of `held_pair`, computed by here."""
    return _after("", pairs, "r")


def _after(instruction: str, values: Sequence[ir.Value], register: str = "f") -> list[ir.Value]:
    """These values as an instruction leaves them, which isn't moved past others that have effects."""
    element = values[0].type
    constraints = [f"={register}"] * len(values) + [str(i) for i in range(len(values))] + ["~{memory}"]
    type_ = ir.Type.parse(f"!llvm.struct<({', '.join([str(element)] * len(values))})>")
    left = llvm.inline_asm(type_, list(values), instruction, ",".join(constraints), has_side_effects=True)
    return [llvm.extractvalue(element, left, [i]) for i in range(len(values))]


def index_here(index: Index) -> Index:
    """The same; the compiler doesn't load what lies there earlier, and keep it in registers."""
    return Index(
        arith.index_cast(ir.IndexType.get(), _copied_here(arith.index_cast(_long_type(), index.value)))
    )


def _copied_here(value: ir.Value) -> ir.Value:
    return llvm.inline_asm(_long_type(), [value], "mov.b64 $0, $1;", "=l,l", has_side_effects=True)


def _integer_type() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _long_type() -> ir.Type:
    return ir.IntegerType.get_signless(64)


def _integer(value: int) -> ir.Value:
    return arith.constant(_integer_type(), value)
