"""Vectors of pairs of bf16, whose products are added to sums of f32 by one instruction (AVX512_BF16).

Intel, Architecture Instruction Set Extensions Programming Reference, VDPBF16PS: to each sum the product of
the second numbers of both pairs is added, then that of the first ones. Products of bf16 are exact in f32,
both additions round to the nearest even number, and what is below the least normal number, in operands, sums
and results, counts as zero.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.intrinsic import call_intrinsic
from iree.winograd.pipelines.emission.vectors import vector_type

from .assembly import emit_loading
from .matrix_unit import TILE_LANES, pointer

_INTRINSIC = "llvm.x86.avx512bf16.dpbf16ps.512"


def add_pair_products(total: ir.Value, elements: ir.Value, filters: ir.Value) -> ir.Value:
    """Emits the instruction: sums of f32, and vectors of as many pairs, each in the place of an i32."""
    pairs = ir.VectorType.get([2 * TILE_LANES], ir.BF16Type.get())
    operands = [total, *(vector.bitcast(pairs, each) for each in (elements, filters))]
    return call_intrinsic(_INTRINSIC, operands, [total.type]).result


def load_pairs(address: Index) -> ir.Value:
    """Emits the loading of a vector of pairs that lie side by side."""
    return _load(vector_type(TILE_LANES, _pair()), address)


def load_same_pair(address: Index) -> ir.Value:
    """Emits the loading of one pair into all lanes of a vector.

    LLVM would take `vbroadcastss`, as sums are of floating point. That keeps a unit of Zen 4 busy which
    multiplies otherwise, where `vpbroadcastd` is nothing but a load.
    """
    vectors = vector_type(TILE_LANES, _pair())
    return emit_loading("vpbroadcastd $1, $0", pointer(address), _pair(), vectors)


def _pair() -> ir.IntegerType:
    return ir.IntegerType.get_signless(32)


def _load(type_: ir.Type, address: Index) -> ir.Value:
    # Pairs of a pixel begin wherever its channels do.
    aligned = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 2)
    return ir.Operation.create("llvm.load", [type_], [pointer(address)], {"alignment": aligned}).result
