"""How IREE's pipeline `VectorDistribute` for GPUs distributes the loops of an operation over threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.reductions import loop_extents, reduced_loops
from iree.winograd.passes.match.sizes import is_dynamic

CONFIGURATION = "lowering_config"
_FOR_GPUS = "#iree_gpu.lowering_config"
"""How such a configuration begins. Its dialect takes long to import, which programs for CPUs don't need."""
_TILE, _VECTOR, _LANES, _SUBGROUPS = "partial_reduction", "thread", "lane_basis", "subgroup_basis"


@dataclass(frozen=True)
class LaneDistribution:
    """Of a reduction; each field but the first has an entry for each loop.

    A workgroup takes one `tile` after the other. Of each a thread has `vector` neighbours at a time, beside
    those of other `lanes` of its subgroup, and of other `subgroups`.
    """

    reduced: tuple[int, ...]
    """The loops that are reduced."""
    extents: tuple[int, ...]
    tile: tuple[int, ...]
    vector: tuple[int, ...]
    lanes: tuple[int, ...]
    subgroups: tuple[int, ...]

    @staticmethod
    def of(operation: ir.Operation) -> LaneDistribution | None:
        """That of a `linalg.generic`; None for what isn't a reduction, or is distributed otherwise."""
        if operation.name != "linalg.generic" or CONFIGURATION not in operation.attributes:
            return None
        reduced = tuple(reduced_loops(operation))
        entries = _entries(operation)
        if not reduced or not {_TILE, _VECTOR, _LANES, _SUBGROUPS} <= entries.keys():
            return None
        return LaneDistribution(
            reduced,
            loop_extents(operation),
            _integers(entries[_TILE]),
            _integers(entries[_VECTOR]),
            _counts(entries[_LANES]),
            _counts(entries[_SUBGROUPS]),
        )

    def write(self, operation: ir.Operation) -> None:
        """Have IREE distribute `operation` so."""
        loops = list(range(len(self.extents)))
        values: dict[str, ir.Attribute] = {
            _TILE: _integer_attribute(self.tile),
            _VECTOR: _integer_attribute(self.vector),
            _LANES: ir.ArrayAttr.get([_integer_attribute(self.lanes), _integer_attribute(loops)]),
            _SUBGROUPS: ir.ArrayAttr.get([_integer_attribute(self.subgroups), _integer_attribute(loops)]),
        }
        from iree.winograd.dialect.bindings import iree_gpu

        entries = ir.DictAttr.get({**_entries(operation), **values})
        operation.attributes[CONFIGURATION] = iree_gpu.LoweringConfigAttr.get(entries)

    @property
    def loses_sums(self) -> bool:
        """Whether IREE's code for it reduces what one subgroup reduced, not that of all.

        Lanes of one of the loops are to read a partial result each, of a power of two of them. Where no loop
        has as many, each thread reads a single one (`getLayoutForReductionFromBuffer` in IREE's
        `GPUNestedLayoutDistributionPatterns.cpp`).
        """
        partial = prod(1 << (self.subgroups[loop] - 1).bit_length() for loop in self.reduced)
        return partial > max(self.lanes[loop] for loop in self.reduced)

    def wastes_lanes(self, subgroup_size: int) -> bool:
        """Whether one subgroup reduces all, and several lanes the same that could take turns of a loop."""
        spare = prod(self.lanes) < subgroup_size and prod(self.subgroups) == 1
        return spare and any(
            not is_dynamic(extent) and extent % (2 * self.tile[loop]) == 0
            for loop in self.reduced[:-1]
            for extent in [self.extents[loop]]
        )


def _entries(operation: ir.Operation) -> Mapping[str, ir.Attribute]:
    configuration = operation.attributes[CONFIGURATION]
    if not str(configuration).startswith(_FOR_GPUS):
        return {}
    from iree.winograd.dialect.bindings import iree_gpu

    return {each.name: each.attr for each in iree_gpu.LoweringConfigAttr(configuration).attributes}


def _integers(attribute: ir.Attribute) -> tuple[int, ...]:
    return tuple(ir.IntegerAttr(each).value for each in ir.ArrayAttr(attribute))


def _counts(basis: ir.Attribute) -> tuple[int, ...]:
    """Those of each loop, of a basis whose second part says which count is a loop's."""
    counts, mapping = map(_integers, ir.ArrayAttr(basis))
    return tuple(counts[place] for place in mapping)


def _integer_attribute(values: tuple[int, ...] | list[int]) -> ir.ArrayAttr:
    integer = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get([ir.IntegerAttr.get(integer, value) for value in values])
