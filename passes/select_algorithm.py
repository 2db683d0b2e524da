"""Choose how each convolution is computed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.algorithm import ATTRIBUTE_NAME, Algorithm, set_algorithm
from iree.winograd.passes.convolution import Convolution, convolutions, match_convolution
from iree.winograd.passes.cost_model import algorithm_cost, direct_cost
from iree.winograd.passes.layer_filter import is_layer_allowed
from iree.winograd.passes.options import WinogradOptions
from iree.winograd.passes.registry import register_pass
from iree.winograd.passes.remarks import remark_missed

PASS_NAME = "winograd-select-algorithm"
OUTPUT_TILES = (2, 4, 6)


@register_pass(PASS_NAME)
@dataclass(frozen=True)
class SelectAlgorithm:
    """Annotate the convolutions to be rewritten with the algorithm that computes them.

    Folding a filter freezes the size of its tiles, so this decision comes before any rewrite. A convolution
    that Winograd's algorithm suits gets the output tile, possibly of different sizes per dimension, that
    `cost_model.py` finds to cost least; one that it does not suit, that costs more than its definition, or
    that the layer patterns exclude stays as it is, with a remark saying why. An annotation that a convolution
    comes with is kept.

        %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : ...) outs(%y : ...)
      becomes
        %r = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {
          output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>}} ins(%x, %w : ...) outs(%y : ...)
    """

    output_tile: int | None = None
    """Outputs per tile and dimension; None chooses per convolution."""
    allow: tuple[str, ...] = ()
    """Layer patterns, as in `WinogradOptions`."""
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._options()

    def run(self, module: ir.Operation) -> None:
        for number, operation in enumerate(convolutions(module)):
            if ATTRIBUTE_NAME in operation.attributes:
                continue
            decision = (
                self._select(operation)
                if is_layer_allowed(self._options(), number, operation)
                else "the layer patterns exclude it"
            )
            if isinstance(decision, Algorithm):
                set_algorithm(operation, decision)
            else:
                remark_missed(operation, PASS_NAME, f"convolution {number} left as it is: {decision}")

    def _options(self) -> WinogradOptions:
        return WinogradOptions(output_tile=self.output_tile, allow=self.allow, deny=self.deny)

    def _select(self, operation: ir.Operation) -> Algorithm | str:
        convolution = match_convolution(operation)
        if isinstance(convolution, str):
            return convolution
        if reason := _unsuited(convolution):
            return reason
        candidates = _candidates(
            convolution, OUTPUT_TILES if self.output_tile is None else (self.output_tile,)
        )
        best = min(candidates, key=lambda candidate: algorithm_cost(convolution, candidate))
        if self.output_tile is None and algorithm_cost(convolution, best) >= direct_cost(convolution):
            return f"{best} costs no less than the convolution's definition"
        return best


def _unsuited(convolution: Convolution) -> str | None:
    """Why `convolution` isn't one that the kernels compute."""
    if not isinstance(convolution.element_type, ir.F32Type):
        return f"its element type is {convolution.element_type}, not f32"
    if convolution.groups != 1:
        return f"it has {convolution.groups} groups"
    if convolution.kernel_size != (3, 3):
        return f"its kernel is {'x'.join(map(str, convolution.kernel_size))}, not 3x3"
    if set(convolution.strides) != {1}:
        return f"its strides are {'x'.join(map(str, convolution.strides))}"
    if set(convolution.dilations) != {1}:
        return f"its dilations are {'x'.join(map(str, convolution.dilations))}"
    return None


def _candidates(convolution: Convolution, output_tiles: tuple[int, ...]) -> list[Algorithm]:
    return [
        Algorithm(output_tile, _part_size(convolution, output_tile))
        for output_tile in product(output_tiles, repeat=convolution.spatial_rank)
    ]


def _part_size(convolution: Convolution, output_tile: tuple[int, ...]) -> tuple[int, ...]:
    """The whole kernel in one part; single taps where a tile has a single output: a plain matrix product."""
    return tuple(1 if m == 1 else taps for m, taps in zip(output_tile, convolution.kernel_size, strict=True))
