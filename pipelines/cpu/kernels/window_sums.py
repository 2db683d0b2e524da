"""The CPU kernel that sums windows of an image, as average pooling does, without a padded copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.control_flow import named
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.emission.index import Index

from .windows import WindowElement, WindowKernel


@dataclass(frozen=True)
class WindowSumsKernel(WindowKernel):
    """The sums of windows, and what is computed of each. Elements outside of the image are zero."""

    finish: tuple[VectorFunction, ...]
    """Functions of a sum, one after the other."""

    kind = "window_sum"

    def _reduced(self, elements: Sequence[WindowElement], channel: Index, width: int) -> ir.Value:
        total, *others = (each.image.load(each.offset + channel, width, each.exists) for each in elements)
        with named("sum"):
            for each in others:
                total = arith.addf(total, each)
        for function in self.finish:
            total = function.emit([total], self.target.fused_multiply_add)
        return total
