"""Have lanes share the reductions of which IREE's code would lose, or repeat, what is reduced."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from iree.winograd.dialect.algebra.largest_divisor import largest_divisor
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import kernel_functions, operations_of, walk
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.pipelines.problems.lane_distribution import LaneDistribution

_TRANSLATION = "translation_info"
_VECTORS = 8
"""Vectors of a tile that a thread holds at a time."""


@register_pass("winograd-reduce-by-lanes")
class ReduceByLanes:
    """Have lanes share the reductions of which IREE's code would lose what subgroups reduced.

    Images whose channels come last are reduced over pixels and channels of a group, 64 x 40 of them. IREE
    3.13 has two lanes of five subgroups share the channels, and its code for CUDA and HIP then adds one of
    the five sums: a power of two lanes are to read one sum each, and there aren't as many. One subgroup
    reduces all instead; lanes that the innermost loop has no use for take pixels. Such reductions are of a
    few thousand elements at most, since IREE takes a power of two subgroups for longer ones.

    Groups of four channels are read by one lane, while all others do the same: there, too, lanes take pixels.

        func.func @sum() attributes {translation_info = <VectorDistribute workgroup_size = [640, 1, 1]>} {
          linalg.generic ... {lowering_config = <{lane_basis = [[1, 1, 1, 2], ...],
            partial_reduction = [0, 0, 1, 40], subgroup_basis = [[1, 1, 1, 5], ...]}>}
      becomes
        func.func @sum() attributes {translation_info = <VectorDistribute workgroup_size = [32, 1, 1]>} {
          linalg.generic ... {lowering_config = <{lane_basis = [[1, 1, 16, 2], ...],
            partial_reduction = [0, 0, 16, 40], subgroup_basis = [[1, 1, 1, 1], ...]}>}

    The pass runs after IREE's `executable-configurations` phase, on what became of a program's reductions.
    """

    def run(self, module: ir.Operation) -> None:
        # A kernel by itself is a module of functions.
        functions = filter(_has_subgroups, [*operations_of(module), *kernel_functions(module)])
        rewrite_each("reduction", [each for each in functions if _changing(each)], _distribute)


def _has_subgroups(function: ir.Operation) -> bool:
    """Whether a kernel's threads are numbered; of kernels for CPUs, which have none, no body is walked."""
    return _TRANSLATION in function.attributes and _translation(function).subgroup_size > 0


def _changing(function: ir.Operation) -> list[ir.Operation]:
    """The reductions of a kernel to distribute anew.

    Those that share a kernel keep their lanes where nothing is lost: they may read the same elements.
    """
    distributed = {
        each: distribution
        for each in walk(function)
        if (distribution := LaneDistribution.of(each)) is not None
    }
    if len(distributed) == 1:
        ((reduction, distribution),) = distributed.items()
        if distribution.wastes_lanes(_translation(function).subgroup_size):
            return [reduction]
    return [each for each, distribution in distributed.items() if distribution.loses_sums]


def _translation(function: ir.Operation) -> Any:
    from iree.winograd.dialect.bindings import iree_codegen

    return iree_codegen.TranslationInfoAttr(function.attributes[_TRANSLATION])


def _distribute(function: ir.Operation) -> None:
    translation = _translation(function)
    for operation in _changing(function):
        distribution = LaneDistribution.of(operation)
        assert distribution is not None
        _by_lanes(distribution, translation.subgroup_size).write(operation)
    distributions = map(LaneDistribution.of, walk(function))
    subgroups = max(prod(each.subgroups) for each in distributions if each is not None)
    function.attributes[_TRANSLATION] = type(translation).get(
        translation.pass_pipeline,
        translation.codegen_spec,
        [subgroups * translation.subgroup_size, 1, 1],
        translation.subgroup_size,
        translation.configuration,
    )


def _by_lanes(distribution: LaneDistribution, subgroup_size: int) -> LaneDistribution:
    """The same loops, the reduced ones shared by the lanes of one subgroup."""
    tile, lanes, subgroups = map(list, (distribution.tile, distribution.lanes, distribution.subgroups))
    *others, innermost = distribution.reduced
    for loop in distribution.reduced:
        subgroups[loop] = 1
    row = distribution.vector[innermost] * lanes[innermost]
    tile[innermost] = row * largest_divisor(tile[innermost] // row, _VECTORS)
    for loop in reversed(others):
        spare = subgroup_size // prod(lanes)
        extent = distribution.extents[loop]
        if not is_dynamic(extent):
            lanes[loop] *= _shared(extent // lanes[loop], spare)
            tile[loop] = lanes[loop]
    return replace(distribution, tile=tuple(tile), lanes=tuple(lanes), subgroups=tuple(subgroups))


def _shared(extent: int, lanes: int) -> int:
    """The largest power of two that divides `extent`, at most `lanes`, a power of two."""
    return min(extent & -extent, lanes)
