"""Clusters of workgroups, as NVIDIA's GPUs have them from sm_90 on: they run at once, and read each other's
shared memory.

CUDA C++ Programming Guide, "Thread Block Clusters". A kernel says how many neighbours along the first
dimension of its grid are one (`CLUSTER_ATTRIBUTE`), which whoever launches it needn't know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, llvm, memref, nvvm
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.pipelines.emission.index import Index, IndexLike

from .memory import SharedScalars
from .pointers import CLUSTER, SHARED, pointer, pointer_type

CLUSTER_ATTRIBUTE = "nvvm.cluster_dim"
"""Of a kernel's function: workgroups of a cluster along each dimension of the grid."""
PORTABLE_CLUSTER = 8
"""Workgroups that a cluster has at most on every GPU that has them."""


def arrive() -> None:
    """Says that this thread wrote what the others of the cluster read, or read what they wrote."""
    nvvm.cluster_arrive(aligned=True)


def wait() -> None:
    """Waits until all threads of the cluster have arrived, and sees what they wrote."""
    nvvm.cluster_wait(aligned=True)


@dataclass(frozen=True)
class ClusterScalars:
    """Elements in the memory that a workgroup shares, of which all of a cluster have the same."""

    own: SharedScalars

    def load(self, workgroup: IndexLike, indices: Sequence[IndexLike]) -> ir.Value:
        """An element of the workgroup of that number in the cluster."""
        type_ = ir.MemRefType(self.own.memref.type)
        return llvm.LoadOp(type_.element_type, self._address(workgroup, indices)).result

    def store(self, value: ir.Value, workgroup: IndexLike, indices: Sequence[IndexLike]) -> None:
        """Writes an element of the workgroup of that number in the cluster."""
        llvm.StoreOp(value, self._address(workgroup, indices))

    def _address(self, workgroup: IndexLike, indices: Sequence[IndexLike]) -> ir.Value:
        type_ = ir.MemRefType(self.own.memref.type)
        place = Index(0)
        for index, extent in zip(indices, type_.shape, strict=True):
            place = place * extent + index
        first = Index(memref.extract_aligned_pointer_as_index(self.own.memref))
        address = pointer(first + place * element_bytes(str(type_.element_type)), SHARED)
        number = arith.index_cast(ir.IntegerType.get_signless(32), Index.of(workgroup).value)
        return nvvm.mapa(pointer_type(CLUSTER), address, number)
