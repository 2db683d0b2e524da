"""Maxima and minima that are NaN where one of the numbers is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iree.winograd.dialect.bindings import ir, llvm

from .target import GpuTarget


def extrema(target: GpuTarget) -> Mapping[str, Callable[..., ir.Value]]:
    """By name of the operation, what computes it on vectors where IREE's code for the target loses NaN."""
    if not target.extrema_lose_nan:
        return {}
    return {"arith.maximumf": _maximum, "arith.minimumf": _minimum}


def _maximum(a: ir.Value, b: ir.Value) -> ir.Value:
    return llvm.intr_maximum(a, b)


def _minimum(a: ir.Value, b: ir.Value) -> ir.Value:
    return llvm.intr_minimum(a, b)
