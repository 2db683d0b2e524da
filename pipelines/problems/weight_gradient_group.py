"""The ops of the gradient of one filter, found from the last of them."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import FilterGradientOp, GradientTransformOp, InputTransformOp
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.passes.match.convolutions.weight_gradient import tile_product_maps
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch

from .shape import WeightGradientShape
from .stages import match_stages, require_outputs, stated_facts


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
        gradients = self.gradient_transform.gradient_type
        rank = len(gradients.shape)
        shape = WeightGradientShape(
            **stated_facts(self.input_transform, self.product, self.filter_gradient, gradients),
            element_types=ElementTypes.of_stages(
                self.input_transform.input,
                self.gradient_transform.gradient,
                self.product,
                self.filter_gradient.result,
            ),
            output_channels_first=self.gradient_transform.channels_first,
            permutes_filter=self.filter_gradient.permutation != tuple(range(rank)),
        )
        require_outputs(shape, gradients)
        return shape


def match_weight_gradient_group(filter_gradient: FilterGradientOp) -> WeightGradientGroup | NoMatch:
    """The group that ends in `filter_gradient`, or why its operands don't form one."""
    operation = filter_gradient.operation
    stages = match_stages(operation, filter_gradient.accumulator)
    if isinstance(stages, NoMatch):
        return stages
    product, images = stages
    if product.attributes.get("indexing_maps", None) != tile_product_maps():
        return NoMatch(operation, "its linalg.batch_matmul doesn't sum over tiles")
    gradients = defining_operation(product.operands[1])
    if gradients is None or gradients.name != GradientTransformOp.OPERATION_NAME:
        return NoMatch(
            operation,
            "the right operand of its linalg.batch_matmul is not the result of winograd.gradient_transform",
        )
    return WeightGradientGroup(images, GradientTransformOp(gradients), product, filter_gradient)
