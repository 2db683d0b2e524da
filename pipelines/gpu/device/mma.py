"""NVIDIA's matrix units from sm_80 on: copies beside the computation, fragments of operands, their products.

Operations of the `nvgpu` dialect, of which IREE ships no Python bindings. A fragment is what one of the 32
threads of a warp holds of 16 x 16 numbers of half precision of an operand, or of 16 x 8 fp32 sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, gpu, ir, memref, vector
from iree.winograd.pipelines.emission.index import Index, IndexLike
from iree.winograd.pipelines.emission.vectors import vector_type

from .matrix_unit import COPIED, MATRIX_SUMS

_COPIED_BITS = 16 * COPIED
_SHAPE = (16, 8, 16)
"""Rows, columns and reduction of one product."""
_SINGLE_SHAPE = (16, 8, 8)
"""The same of one of TF32."""
_FRAGMENT_MATRICES = 4
"""Of 8 x 8 numbers, in a fragment of an operand."""


@dataclass(frozen=True)
class StageMemory:
    """Numbers of half precision, or of fp32, in the memory that a workgroup shares."""

    memref: ir.Value

    @staticmethod
    def allocate(count: int, name: str, element: ir.Type) -> StageMemory:
        """Memory for so many."""
        space = ir.Attribute.parse("#gpu.address_space<workgroup>")
        type_ = ir.MemRefType.get([count], element, memory_space=space)
        with ir.Location.name(name):
            return StageMemory(memref.AllocOp(type_, [], []).result)

    def copy(self, to: IndexLike, source: ir.Value, offset: IndexLike) -> None:
        """Starts to copy 16 bytes, past the first cache; both places are multiples of that."""
        ir.Operation.create(
            "nvgpu.device_async_copy",
            results=[_token()],
            operands=[self.memref, Index.of(to).value, source, Index.of(offset).value],
            attributes={
                "dstElements": ir.IntegerAttr.get(ir.IndexType.get(), _COPIED_BITS // self._element.width),
                "bypassL1": ir.UnitAttr.get(),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, 1, 1, 0]),
            },
        )

    @property
    def _element(self) -> ir.FloatType:
        return ir.FloatType(ir.MemRefType(self.memref.type).element_type)

    def load(self, offset: IndexLike) -> ir.Value:
        """One number."""
        return memref.load(self.memref, [Index.of(offset).value])

    def load_neighbours(self, offset: IndexLike, count: int) -> ir.Value:
        """So many numbers as a vector, from a multiple of that on."""
        bytes_ = count * self._element.width // 8
        type_ = vector_type(count, self._element)
        return vector.load(type_, self.memref, [Index.of(offset).value], alignment=bytes_)

    def store_neighbours(self, value: ir.Value, offset: IndexLike) -> None:
        """Writes a vector, from a multiple of its size on."""
        (count,) = ir.VectorType(value.type).shape
        bytes_ = count * self._element.width // 8
        vector.store(value, self.memref, [Index.of(offset).value], alignment=bytes_)

    def fragment(self, offset: IndexLike, *, transposed: bool = False) -> ir.Value:
        """A fragment: each thread gives the place of eight numbers, those of eight threads are a matrix.

        Each matrix may be `transposed` on the way.
        """
        return ir.Operation.create(
            "nvgpu.ldmatrix",
            results=[ir.VectorType.get([_FRAGMENT_MATRICES, 2], self._element)],
            operands=[self.memref, Index.of(offset).value],
            attributes={
                "numTiles": _integer(_FRAGMENT_MATRICES),
                "transpose": ir.BoolAttr.get(transposed),
            },
        ).result


def commit_copies() -> ir.Value:
    """Makes a group of the copies started since the last one; gives what `wait_for_copies` takes."""
    return ir.Operation.create("nvgpu.device_async_create_group", results=[_token()]).result


def wait_for_copies(group: ir.Value, pending: int) -> None:
    """Waits until the copies of all threads are in memory, but for those of the last `pending` groups."""
    ir.Operation.create(
        "nvgpu.device_async_wait", operands=[group], attributes={"numGroups": _integer(pending)}
    )
    gpu.barrier()


def column_fragments(fragment: ir.Value) -> list[ir.Value]:
    """A fragment of 16 columns as two of 8."""
    type_ = ir.VectorType.get([2, 2], ir.VectorType(fragment.type).element_type)
    return [vector.extract_strided_slice(type_, fragment, [2 * half], [2], [1]) for half in range(2)]


def row_fragment(upper: ir.Value, lower: ir.Value) -> ir.Value:
    """A fragment of 16 rows, of what a thread has of one of the upper and of one of the lower eight.

    That is four numbers, two each of the first and of the last eight along the reduction dimension.
    """
    element = ir.VectorType(upper.type).element_type
    pairs = [
        vector.extract_strided_slice(vector_type(2, element), quad, [first], [2], [1])
        for first in (0, 2)
        for quad in (upper, lower)
    ]
    type_ = ir.VectorType.get([_FRAGMENT_MATRICES, 2], element)
    fragment = arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(element, 0.0)))
    for number, pair in enumerate(pairs):
        fragment = vector.insert(pair, fragment, [], [number])
    return fragment


def no_sums() -> ir.Value:
    """A fragment of sums that are zero."""
    type_ = ir.VectorType.get([2, 2], MATRIX_SUMS.type)
    zero = ir.FloatAttr.get(MATRIX_SUMS.type, 0.0)
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, zero))


def sums_of_rows(upper: ir.Value, lower: ir.Value) -> ir.Value:
    """A fragment of sums of which a thread has the same two numbers in each of its rows."""
    type_ = ir.VectorType.get([2, 2], MATRIX_SUMS.type)
    return vector.from_elements(type_, [upper, upper, lower, lower])


def multiply(rows: ir.Value, columns: ir.Value, sums: ir.Value) -> ir.Value:
    """Adds the product of 16 x 16 and 16 x 8 numbers to a fragment of sums."""
    return _multiply(rows, columns, sums, _SHAPE, {})


def single_fragment(elements: Sequence[ir.Value]) -> ir.Value:
    """What a thread holds of an operand of fp32's numbers: four of 16 rows, or two of eight columns."""
    return vector.from_elements(ir.VectorType.get([len(elements), 1], MATRIX_SUMS.type), list(elements))


def multiply_single(rows: ir.Value, columns: ir.Value, sums: ir.Value) -> ir.Value:
    """Adds the product of 16 x 8 and 8 x 8 numbers of fp32, without the bits that TF32 lacks."""
    return _multiply(rows, columns, sums, _SINGLE_SHAPE, {"tf32Enabled": ir.UnitAttr.get()})


def _multiply(
    rows: ir.Value,
    columns: ir.Value,
    sums: ir.Value,
    shape: tuple[int, int, int],
    attributes: dict[str, ir.Attribute],
) -> ir.Value:
    extents = [ir.IntegerAttr.get(ir.IntegerType.get_signless(64), extent) for extent in shape]
    return ir.Operation.create(
        "nvgpu.mma.sync",
        results=[sums.type],
        operands=[rows, columns, sums],
        attributes={"mmaShape": ir.ArrayAttr.get(extents), **attributes},
    ).result


def sum_quads(halves: Sequence[ir.Value]) -> list[ir.Value]:
    """Of the fragments of two products side by side, the four sums of each of the thread's two rows."""
    return [
        vector.from_elements(
            vector_type(4, MATRIX_SUMS.type),
            [vector.extract(half, [], [row, column]) for half in halves for column in range(2)],
        )
        for row in range(2)
    ]


def _integer(value: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), value)


def _token() -> ir.Type:
    return ir.Type.parse("!nvgpu.device.async.token")
