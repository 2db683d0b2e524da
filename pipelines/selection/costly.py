"""Convolutions that are left to IREE at several times the cost, for a reason that a user can end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.problems.executable_target import executable_targets

from .layer import Layer


@dataclass(frozen=True)
class CostlyReason:
    """Why convolutions are left, and what to do about it."""

    reason: str
    remedy: str


_UNKNOWN_SIZES = CostlyReason(
    "with sizes other than the batch that are known only at run time",
    "compile a program for each size that is used: give the model inputs of that size, without dynamic sizes",
)
_HALVES = {
    name: CostlyReason(
        f"with elements of type {name}", "convert the model to f32, in torch by `model.float()`"
    )
    for name in ("f16", "bf16")
}


def costly_reason(layer: Layer, on_cpu: bool) -> CostlyReason | None:
    """Why IREE's own code takes more than twice as long for a convolution that is left to it, if it does.

    It takes 6 to 24 times as long on halves on CPUs, and up to 50 times where sizes aren't known.
    """
    if layer.kind != "convolution":
        return None
    types = [operand.type for operand in layer.operation.operands]
    if not all(isinstance(type_, ir.RankedTensorType) for type_ in types):
        return None
    if _has_unknown_sizes(types):
        return _UNKNOWN_SIZES
    found = [_HALVES[str(each.element_type)] for each in types if str(each.element_type) in _HALVES]
    return found[0] if found and on_cpu else None


def _has_unknown_sizes(types: Sequence[ir.RankedTensorType]) -> bool:
    # The batch is the first dimension of an image in all layouts that models have.
    image, filters = types[:2]
    return any(map(image.is_dynamic_dim, range(1, image.rank))) or not filters.has_static_shape


def is_for_cpus(module: ir.Operation) -> bool:
    """Whether a module is for nothing but CPUs."""
    targets = executable_targets(module)
    return bool(targets) and all(target.backend == "llvm-cpu" for target in targets)


def describe(left: Sequence[CostlyReason], count: int) -> str:
    """What a program's user is told of `count` convolutions, of which some are `left`."""
    parts = [f"{number} {each.reason} ({each.remedy})" for each, number in Counter(left).items()]
    return (
        f"{len(left)} of {count} convolution(s) left to IREE's own code, which takes several times as long as"
        f" the kernels of this project: {'; '.join(parts)}"
    )
