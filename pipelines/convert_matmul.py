"""Rewrite products of rows and a matrix known in advance to convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

from iree.winograd.dialect.bindings import ir, linalg, tensor
from iree.winograd.passes.build.tensors import zero_filled
from iree.winograd.passes.frame.algorithm import Algorithm, set_algorithm
from iree.winograd.passes.frame.containment import rewrite_each
from iree.winograd.passes.frame.option import same_option
from iree.winograd.passes.frame.registry import register_pass
from iree.winograd.passes.frame.remarks import remark_missed
from iree.winograd.passes.frame.unit import Unit, set_origin
from iree.winograd.passes.match.constants import is_constant, is_known_at_load, is_zero
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.problem import ConvolutionProblem
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.rewrite.before_collapse import compute_before_collapse
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.pipelines.backends.module_backend import module_backend, unsupported_target
from iree.winograd.pipelines.backends.search_space import SearchSpace

from .selection.candidates import convolution_shape, direct_algorithm
from .selection.module_space import module_space
from .selection.options import WinogradOptions
from .selection.prediction import TIME_TOLERANCE, assigned_schedule

PASS_NAME = "winograd-convert-matmul"
_POINTWISE = {1: linalg.conv_1d_nwc_wcf, 2: linalg.conv_2d_nhwc_hwcf, 3: linalg.conv_3d_ndhwc_dhwcf}
"""By the number of spatial dimensions."""


@register_pass(PASS_NAME)
@dataclass(frozen=True)
class ConvertMatmul:
    """Rewrite products of rows and a matrix known in advance to convolutions.

    A fully connected layer is a 1x1 convolution of an image with a pixel for each row: that whose pixels
    became the rows, or else a line. For a few rows its time is that of reading the matrix, which the direct
    kernel finds packed in the order of reading, and fetches ahead; on a GPU many workgroups each read a part
    of it. Elementwise operations behind the product apply to the image, so that they can move into the
    convolution's epilogue. The cost model decides: a product is IREE's where our kernels aren't predicted to
    be faster by more than what counts as no difference. So are those with matrices known only at run time
    and, on CPUs, when the program is loaded.

        %r = linalg.matmul ins(%x, %w : tensor<1x512xf32>, tensor<512x1000xf32>) outs(%zeros)
      becomes
        %line = tensor.expand_shape %x [[0, 1], [2]] : tensor<1x512xf32> into tensor<1x1x512xf32>
        %taps = tensor.expand_shape %w [[0, 1], [2]] : tensor<512x1000xf32> into tensor<1x512x1000xf32>
        %c = linalg.conv_1d_nwc_wcf {winograd.algorithm = {
          output_tile = array<i64: 1>, part_size = array<i64: 1>}} ins(%line, %taps) outs(%zeros)
        %r = tensor.collapse_shape %c [[0, 1], [2]] : tensor<1x1x1000xf32> into tensor<1x1000xf32>
    """

    max_relative_error: float | None = same_option(WinogradOptions, "max_relative_error")
    threads: int = same_option(WinogradOptions, "threads", default=1)
    machine: str | None = same_option(WinogradOptions, "machine")
    """None is the target's default."""

    def run(self, module: ir.Operation) -> None:
        if unsupported_target(module) is not None:
            return
        is_known = is_known_at_load if module_backend(module).takes_parameters else is_constant
        products = [
            (number, each)
            for number, each in enumerate(each for each in walk(module) if each.name == "linalg.matmul")
            if _is_product_of_rows(each) and is_known(each.operands[1])
        ]
        if not products:
            return
        space = module_space(module, self.machine, self.threads)
        rewrite_each(
            "product",
            products,
            lambda numbered: self._decide(*numbered, space),
            operation_of=itemgetter(1),
        )

    def _decide(self, number: int, operation: ir.Operation, space: SearchSpace) -> None:
        """Convert a product that our kernels are predicted to be faster for; a remark is left on others."""
        rows, channels = operation.operands[0].type.shape
        columns = operation.operands[1].type.shape[1]
        problem = ConvolutionProblem(1, (rows,), (0,), (0,), (1,), (1,), (1,), 1, channels, columns)
        shape = convolution_shape(problem, direct_algorithm(problem))
        theirs = space.iree_product_seconds(shape)
        schedule = assigned_schedule(shape, space, self.max_relative_error)
        ours = sum(space.stage_seconds(shape, schedule).values())
        if ours * (1 + TIME_TOLERANCE) <= theirs:
            _convert(number, operation)
            return
        seconds = f"{theirs * 1e6:.1f} us, our kernels {ours * 1e6:.1f}"
        message = f"product {number} left as it is: IREE's own code is predicted to take {seconds}"
        remark_missed(operation, PASS_NAME, message)


def _is_product_of_rows(operation: ir.Operation) -> bool:
    if not is_zero(operation.operands[2]):
        return False
    rows, matrix = operation.operands[0], operation.operands[1]
    if any(not isinstance(operand.type.element_type, ir.F32Type) for operand in operation.operands):
        return False
    if any(map(is_dynamic, rows.type.shape)) or rows.type.shape[0] == 0:
        return False
    row, column, channel = (ir.AffineExpr.get_dim(position) for position in range(3))
    expected = [[row, channel], [channel, column], [row, column]]
    maps = [ir.AffineMapAttr(attribute).value for attribute in linalg.get_indexing_maps(operation)]
    if [list(indexing_map.results) for indexing_map in maps] != expected:
        return False
    return not any(is_dynamic(size) or size == 0 for size in matrix.type.shape)


def _convert(number: int, operation: ir.Operation) -> None:
    rows, matrix, _ = operation.operands
    result_type = ir.RankedTensorType(operation.results[0].type)
    with operation.location, ir.InsertionPoint(operation):
        image = _image(rows)
        *sizes, _ = ir.RankedTensorType(image.type).shape
        rank = len(sizes) - 1
        convolution = _POINTWISE[rank](
            image,
            _expanded(matrix, rank),
            outs=[zero_filled([*sizes, result_type.shape[1]], result_type.element_type)],
            strides=[1] * rank,
            dilations=[1] * rank,
        )
        definition = defining_operation(convolution)
        assert definition is not None
        set_algorithm(definition, Algorithm((1,) * rank, (1,) * rank))
        set_origin(definition, Unit(PASS_NAME, "product", number))
        result = tensor.collapse_shape(result_type, convolution, _all_but_last(rank + 2))
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])
    compute_before_collapse(result)


def _image(rows: ir.Value) -> ir.Value:
    """The image whose pixels became `rows`, if they did; else a line of them."""
    definition = defining_operation(rows)
    if definition is not None and definition.name == "tensor.collapse_shape":
        source = definition.operands[0]
        rank = ir.RankedTensorType(source.type).rank
        groups = [[dimension.value for dimension in each] for each in definition.attributes["reassociation"]]
        if rank - 2 in _POINTWISE and groups == _all_but_last(rank):
            return source
    return _expanded(rows, 1)


def _expanded(value: ir.Value, count: int) -> ir.Value:
    """Build a matrix with `count` more dimensions, of size 1, before the others."""
    shape = [1] * count + list(ir.RankedTensorType(value.type).shape)
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    return tensor.expand_shape(type_, value, _all_but_last(len(shape)), [], shape)


def _all_but_last(rank: int) -> list[list[int]]:
    """The groups of dimensions that merge all of `rank` but the last."""
    return [list(range(rank - 1)), [rank - 1]]
