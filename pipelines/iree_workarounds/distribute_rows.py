"""Have workgroups take rows of images whose sizes IREE doesn't know, on CPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import kernel_functions, operations_of, walk
from iree.winograd.passes.match.reductions import loop_extents, reduced_loops
from iree.winograd.passes.match.sizes import is_dynamic

from ..problems.lane_distribution import CONFIGURATION

_FOR_CPUS = "#iree_cpu.lowering_config"
"""How such a configuration begins. Python has no other access to it than its text."""
_TILE, _VECTOR = "distribution", "vector_common_parallel"
_ELEMENTS = 4096
"""Of a workgroup: what takes longer than to begin one, and stays in L1 beside what is read."""


@register_pass("winograd-distribute-rows")
class DistributeRows:
    """Have workgroups take rows of images of unknown sizes, in what IREE computes or copies on CPUs.

    IREE 3.13 divides loops of unknown lengths by 64, and gives a workgroup 64 rows by 64 columns by a vector
    of channels: an image of 48 rows of 40 pixels of 32 channels is for two threads, and the others wait. A
    workgroup takes all channels of up to 4096 elements of one row instead, which are neighbours in memory.

        func.func @copy() {
          linalg.generic ... {lowering_config =
            #iree_cpu.lowering_config<distribution = [64, 64, 16], vector_common_parallel = [1, 1, 16]>}
            ins(%x : memref<?x?x32xf32>) outs(%y : memref<?x?x32xf32, strided<[?, 64, 1], offset: ?>>)
      becomes
        func.func @copy() {
          linalg.generic ... {lowering_config =
            #iree_cpu.lowering_config<distribution = [1, 128, 32], vector_common_parallel = [1, 1, 16]>}

    The pass runs after IREE's `executable-configurations` phase. Operations that share a kernel stay.
    """

    def run(self, module: ir.Operation) -> None:
        # A kernel by itself is a module of functions.
        functions = [*operations_of(module), *kernel_functions(module)]
        rewrite_each("kernel", [each for each in functions if each.name == "func.func"], _distribute)


@dataclass(frozen=True)
class _Distribution:
    """How IREE distributes an operation over workgroups; each field has an entry for each loop."""

    extents: tuple[int, ...]
    tile: tuple[int, ...]
    vector: tuple[int, ...]

    @staticmethod
    def of(operation: ir.Operation) -> _Distribution | None:
        """That of a `linalg.generic` without reductions; None for one that is distributed otherwise."""
        text = str(operation.attributes[CONFIGURATION])
        if operation.name != "linalg.generic" or not text.startswith(_FOR_CPUS) or reduced_loops(operation):
            return None
        entries = ir.DictAttr(ir.Attribute.parse(f"{{{text[len(_FOR_CPUS) + 1 : -1]}}}"))
        if {each.name for each in entries} != {_TILE, _VECTOR}:
            return None
        extents = loop_extents(operation)
        tile, vector = (
            tuple(ir.IntegerAttr(each).value for each in entries[key]) for key in (_TILE, _VECTOR)
        )
        return _Distribution(extents, tile, vector)

    def write(self, operation: ir.Operation) -> None:
        """Have IREE distribute `operation` so."""
        text = f"{_TILE} = {list(self.tile)}, {_VECTOR} = {list(self.vector)}"
        operation.attributes[CONFIGURATION] = ir.Attribute.parse(f"{_FOR_CPUS}<{text}>")

    @property
    def by_rows(self) -> _Distribution | None:
        """The one in which a workgroup has neighbours of one row; None for loops that aren't an image's.

        Those have two of unknown length or more before one of channels, of known length.
        """
        *rows, columns, channels = (is_dynamic(each) for each in self.extents)
        if not (rows and all(rows) and columns and not channels):
            return None
        # What IREE takes no vectors of has a width of 0.
        length, width = self.extents[-1], max(1, self.vector[-1])
        taken = length if length % width == 0 and length <= _ELEMENTS else max(1, self.tile[-1])
        return replace(self, tile=(*(1 for _ in rows), max(1, _ELEMENTS // taken), taken))


def _distribute(function: ir.Operation) -> None:
    distributed = [each for each in walk(function) if CONFIGURATION in each.attributes]
    if len(distributed) != 1:
        return
    distribution = _Distribution.of(distributed[0])
    by_rows = None if distribution is None or len(distribution.extents) < 3 else distribution.by_rows
    if by_rows is not None:
        by_rows.write(distributed[0])
