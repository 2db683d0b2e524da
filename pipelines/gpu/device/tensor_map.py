"""Tensor maps: what the copy engine of sm_90a is told of a matrix, for a thread to copy many rows at once.

PTX ISA, "Tensor-map" and "tensormap.replace". A warp makes one in shared memory, field by field, and copies
it to the device's memory, where alone the engine reads it. Neither host nor driver takes part, so it doesn't
matter who launches the kernel, or where its operands lie in this call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, llvm
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.number import Number

from .matrix_unit import WARP_THREADS
from .pointers import SHARED, pointer
from .warpgroup import SWIZZLED_ROW, Barrier, SharedBytes, synchronize_warp

MAP_BYTES = 128
"""Of a tensor map, and what it is aligned to in shared memory."""
MAP_ALIGNMENT = 64
"""Bytes that its address in the device's memory is a multiple of."""
MATRIX_ALIGNMENT = 16
"""Bytes that the address of a matrix is a multiple of, and the distance between its rows."""
MAX_BOX_ROWS = 256
"""That are copied at once."""
_RANK = 2
_ELEMENT_TYPES = {"f16": 6, "bf16": 10}
_SWIZZLE_128, _NO_INTERLEAVING, _ZEROS = 3, 0, 0
_WORD_BYTES = 4


@dataclass(frozen=True)
class MatrixRows:
    """Rows of numbers of half precision in the device's memory."""

    address: Index
    """Of the first one's first byte."""
    rows: Index
    columns: Index
    """Of each, in numbers."""
    pitch: Index
    """Bytes from a row to the next."""
    number: Number


@dataclass(frozen=True)
class TensorMap:
    """One that is in the device's memory, by its address, as the threads see it that acquired it."""

    address: Index

    @staticmethod
    def make(
        matrix: MatrixRows, box_rows: int, shared: SharedBytes, offset: int, address: Index, lane: Index
    ) -> TensorMap:
        """Has a warp make one at `address`, by way of shared memory at `offset`.

        A box is `box_rows` rows of 128 bytes, whose chunks change places by the row as those of operands of
        products do. What lies outside of the matrix is copied as zeros. Nobody else may use either memory
        until copies by the map are done.
        """
        shared.store(_word(0), lane * _WORD_BYTES + offset)
        synchronize_warp()
        when(lane.less_than(1), lambda: _fill(matrix, box_rows, pointer(shared.address + offset, SHARED)))
        synchronize_warp()
        number = arith.index_cast(_long_type(), address.value)
        _assembly(
            f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
            f"[$0], [$1], {MAP_BYTES};",
            [number, pointer(shared.address + offset, SHARED)],
            "l,l",
        )
        _assembly(f"fence.proxy.tensormap::generic.acquire.gpu [$0], {MAP_BYTES};", [number], "l")
        return TensorMap(address)

    def copy_box(
        self, shared: SharedBytes, offset: Index, row: Index, column: Index, barrier: Barrier
    ) -> None:
        """Starts to copy a box to shared memory; `barrier` counts all of its bytes once they are there."""
        coordinates = [arith.index_cast(_word_type(), each.value) for each in (column, row)]
        _assembly(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[$0], [$1, {$2, $3}], [$4];",
            [
                pointer(shared.address + offset, SHARED),
                arith.index_cast(_long_type(), self.address.value),
                *coordinates,
                barrier.pointer,
            ],
            "l,l,r,r,l",
        )


def _fill(matrix: MatrixRows, box_rows: int, place: ir.Value) -> None:
    """What one thread writes to a map of zeros in shared memory."""
    address, rows, columns, pitch = (
        arith.index_cast(type_, each.value)
        for type_, each in (
            (_long_type(), matrix.address),
            (_word_type(), matrix.rows),
            (_word_type(), matrix.columns),
            (_long_type(), matrix.pitch),
        )
    )
    for name, bits, values in (
        ("global_address", 64, ["$1"]),
        ("rank", 32, [str(_RANK - 1)]),
        ("box_dim", 32, ["0", str(SWIZZLED_ROW // matrix.number.bytes)]),
        ("box_dim", 32, ["1", str(box_rows)]),
        ("global_dim", 32, ["0", "$3"]),
        ("global_dim", 32, ["1", "$2"]),
        ("global_stride", 64, ["0", "$4"]),
        ("element_stride", 32, ["0", "1"]),
        ("element_stride", 32, ["1", "1"]),
        ("elemtype", 32, [str(_ELEMENT_TYPES[matrix.number.name])]),
        ("interleave_layout", 32, [str(_NO_INTERLEAVING)]),
        ("swizzle_mode", 32, [str(_SWIZZLE_128)]),
        ("fill_mode", 32, [str(_ZEROS)]),
    ):
        _assembly(
            f"tensormap.replace.tile.{name}.shared::cta.b1024.b{bits} [$0], {', '.join(values)};",
            [place, address, rows, columns, pitch],
            "l,l,r,r,l",
        )


def _assembly(text: str, operands: Sequence[ir.Value], constraints: str) -> None:
    llvm.inline_asm(None, list(operands), text, f"{constraints},~{{memory}}", has_side_effects=True)


def _word(value: int) -> ir.Value:
    return arith.constant(_word_type(), value)


def _word_type() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _long_type() -> ir.Type:
    return ir.IntegerType.get_signless(64)


assert MAP_BYTES == WARP_THREADS * _WORD_BYTES
