"""Cooperative matrices: matrix units through Vulkan, as IREE lowers `gpu.subgroup_mma_*` to them.

The threads of a warp hold 16 x 16 numbers together, and none knows which of them it holds. Matrices are
loaded from, and stored to, quads in the memory that a workgroup shares, by one distance between their rows.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, gpu, ir
from iree.winograd.pipelines.emission.index import Index, IndexLike

from .matrix_unit import MATRIX_FACTORS, MATRIX_ROWS, MATRIX_SUMS


def load_rows(memory: ir.Value, offset: IndexLike, row_quads: int) -> ir.Value:
    """16 x 16 fp16 numbers of the left operand, rows `row_quads` quads apart."""
    return _load(memory, offset, row_quads, "AOp", transpose=None)


def load_columns(memory: ir.Value, offset: IndexLike, row_quads: int) -> ir.Value:
    """The same of the right operand, whose columns lie as rows."""
    return _load(memory, offset, row_quads, "BOp", transpose=True)


def no_sums() -> ir.Value:
    """16 x 16 sums that are zero."""
    zero = arith.constant(MATRIX_SUMS.type, 0.0)
    return gpu.subgroup_mma_constant_matrix(_matrix(MATRIX_SUMS.name, "COp"), zero)


def multiply(rows: ir.Value, columns: ir.Value, sums: ir.Value) -> ir.Value:
    """Adds a product to sums."""
    return gpu.subgroup_mma_compute(rows, columns, sums)


def add(left: ir.Value, right: ir.Value) -> ir.Value:
    """Adds sums, each of them rounded to nearest."""
    operation = ir.Attribute.parse("#gpu.mma_element_wise<addf>")
    return gpu.subgroup_mma_elementwise(left.type, [left, right], operation)


def store_sums(sums: ir.Value, memory: ir.Value, offset: IndexLike, row_quads: int) -> None:
    """Writes sums to quads, rows `row_quads` quads apart."""
    gpu.subgroup_mma_store_matrix(sums, memory, [Index.of(offset).value], row_quads)


def _load(
    memory: ir.Value, offset: IndexLike, row_quads: int, operand: str, transpose: bool | None
) -> ir.Value:
    type_ = _matrix(MATRIX_FACTORS.name, operand)
    return gpu.subgroup_mma_load_matrix(
        type_, memory, [Index.of(offset).value], row_quads, transpose=transpose
    )


def _matrix(element: str, operand: str) -> ir.Type:
    return ir.Type.parse(f'!gpu.mma_matrix<{MATRIX_ROWS}x{MATRIX_ROWS}x{element}, "{operand}">')
