"""Addresses as LLVM has them on NVIDIA's GPUs, where memory has several address spaces."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, llvm
from iree.winograd.pipelines.emission.index import Index

GLOBAL, SHARED, CLUSTER = 1, 3, 7
"""Address spaces; that of a cluster of workgroups holds the shared memory of each."""


def pointer(address: Index, space: int) -> ir.Value:
    """To the byte at an address."""
    number = arith.index_cast(ir.IntegerType.get_signless(64), address.value)
    return llvm.inttoptr(pointer_type(space), number)


def pointer_type(space: int) -> ir.Type:
    return ir.Type.parse(f"!llvm.ptr<{space}>")
