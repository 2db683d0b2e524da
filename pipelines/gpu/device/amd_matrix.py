"""AMD's matrix units: of CDNA, whose warps have 64 threads, and of RDNA 3 and 4, with 32.

Operations of the `amdgpu` dialect, of which IREE ships no Python bindings. Of each 16 x 16 sums, a thread has
neighbouring rows of one column on CDNA and RDNA 4, and every other row of one column on RDNA 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import arith, ir

from .matrix_unit import MATRIX_ROWS, MATRIX_SUMS

MFMA_GROUPS = 4
"""Of a warp's threads on CDNA: each has as many neighbouring fp16 numbers of a row, or of a column."""
MFMA_SUMS = 4
"""A thread's of 16 x 16."""
F32_TERMS = 4
"""Positions along the reduction of a product of f32; a quarter of a warp's threads has each."""
WMMA_TERMS = MATRIX_ROWS
"""The same of RDNA 3: all of them, twice in a warp."""
WMMA_RDNA4_TERMS = MATRIX_ROWS // 2
"""The same of RDNA 4: neighbours, once in a warp."""
WMMA_SUMS = 8


def no_sums(count: int) -> ir.Value:
    """A thread's sums, which are zero."""
    type_ = ir.VectorType.get([count], MATRIX_SUMS.type)
    return arith.constant(
        type_, ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(type_.element_type, 0.0))
    )


def multiply_mfma(rows: ir.Value, columns: ir.Value, sums: ir.Value) -> ir.Value:
    """Adds the product of 16 x k and k x 16 numbers to sums, on CDNA: a thread has k / 4 of each."""
    terms = MFMA_GROUPS * ir.VectorType(rows.type).shape[0]
    sizes = (MATRIX_ROWS, MATRIX_ROWS, terms, 1)
    return _multiply("amdgpu.mfma", ("m", "n", "k", "blocks"), sizes, (rows, columns, sums))


def multiply_mfma_f32(row: ir.Value, column: ir.Value, sums: ir.Value) -> ir.Value:
    """Adds the product of 16 x 4 and 4 x 16 numbers of f32 to sums, on CDNA: a thread has one of each."""
    sizes = (MATRIX_ROWS, MATRIX_ROWS, F32_TERMS, 1)
    return _multiply("amdgpu.mfma", ("m", "n", "k", "blocks"), sizes, (row, column, sums))


def multiply_wmma(rows: ir.Value, columns: ir.Value, sums: ir.Value) -> ir.Value:
    """The same on RDNA 3 and 4."""
    return _multiply("amdgpu.wmma", ("m", "n", "k"), [MATRIX_ROWS] * 3, (rows, columns, sums))


def _multiply(
    name: str, names: Sequence[str], sizes: Sequence[int], operands: tuple[ir.Value, ir.Value, ir.Value]
) -> ir.Value:
    integer = ir.IntegerType.get_signless(32)
    return ir.Operation.create(
        name,
        results=[operands[-1].type],
        operands=operands,
        attributes={name: ir.IntegerAttr.get(integer, size) for name, size in zip(names, sizes, strict=True)},
    ).result
