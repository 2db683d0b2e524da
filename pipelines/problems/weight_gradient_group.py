"""The ops of the gradient of one filter, found from the last of them."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import FilterGradientOp, GradientTransformOp, InputTransformOp
from iree.winograd.passes.match.constants import is_zero
from iree.winograd.passes.match.element_types import ElementTypes
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.weight_gradient import tile_product_maps

from .shape import WeightGradientShape


@dataclass(frozen=True)
class WeightGradientGroup:
    """`input_transform` and `gradient_transform`, the product of their tiles, and its `filter_gradient`."""

    input_transform: InputTransformOp
    gradient_transform: GradientTransformOp
    product: ir.Operation
    filter_gradient: FilterGradientOp

    @property
    def shape(self) -> WeightGradientShape:
        """Raises ValueError when the sizes or types of the ops don't fit together."""
        image = self.input_transform.image_type
        batch, *input_size, input_channels = image.shape
        _, *output_size, output_channels = self.gradient_transform.gradient_type.shape
        decomposition = self.filter_gradient.decomposition
        shape = WeightGradientShape(
            batch=None if is_dynamic(batch) else batch,
            input_size=tuple(input_size),
            padding_low=self.input_transform.padding_low,
            padding_high=self.input_transform.padding_high,
            kernel_size=decomposition.kernel_size,
            strides=decomposition.step,
            dilations=decomposition.dilation,
            groups=self.filter_gradient.groups,
            input_channels=input_channels,
            output_channels=output_channels,
            element_types=ElementTypes.of_stages(
                self.input_transform.input,
                self.gradient_transform.gradient,
                self.product,
                self.filter_gradient.result,
            ),
            decomposition=decomposition,
            input_channels_first=self.input_transform.channels_first,
            output_channels_first=self.gradient_transform.channels_first,
            permutes_filter=self.filter_gradient.permutation != tuple(range(len(output_size) + 2)),
        )
        if shape.output_size != tuple(output_size):
            raise ValueError(
                f"it has gradients of {tuple(output_size)} outputs, but its input gives {shape.output_size}"
            )
        return shape


def match_weight_gradient_group(filter_gradient: FilterGradientOp) -> WeightGradientGroup | NoMatch:
    """The group that ends in `filter_gradient`, or why its operands don't form one."""
    operation, product = filter_gradient.operation, defining_operation(filter_gradient.accumulator)
    if product is None or product.name != "linalg.batch_matmul":
        return NoMatch(operation, "its operand is not the result of linalg.batch_matmul")
    if product.attributes.get("indexing_maps", None) != tile_product_maps():
        return NoMatch(operation, "its linalg.batch_matmul doesn't sum over tiles")
    images, gradients = (defining_operation(operand) for operand in list(product.operands)[:2])
    if images is None or images.name != InputTransformOp.OPERATION_NAME:
        return NoMatch(operation, "the left operand of its product is not that of winograd.input_transform")
    if gradients is None or gradients.name != GradientTransformOp.OPERATION_NAME:
        return NoMatch(
            operation, "the right operand of its product is not that of winograd.gradient_transform"
        )
    if not is_zero(product.operands[2]):
        return NoMatch(operation, "its linalg.batch_matmul adds to something else than zeros")
    return WeightGradientGroup(
        InputTransformOp(images), GradientTransformOp(gradients), product, filter_gradient
    )
