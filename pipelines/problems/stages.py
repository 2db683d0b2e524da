"""What the ops of a convolution and those of the gradient of its filter have in common."""

from __future__ import annotations

from typing import Any

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import InputTransformOp, TransformOp
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.unknown_sizes.expected_size import expected_size, unpadded_size
from iree.winograd.passes.match.values.constants import is_zero

from .shape import ConvolutionShape


def match_stages(
    last: ir.Operation, accumulator: ir.Value
) -> tuple[ir.Operation, InputTransformOp] | NoMatch:
    """The `linalg.batch_matmul` before the op that leaves the domain, and the `input_transform` before that.

    Or why there are none.
    """
    product = defining_operation(accumulator)
    if product is None or product.name != "linalg.batch_matmul":
        return NoMatch(last, "its operand is not the result of linalg.batch_matmul")
    transform = defining_operation(product.operands[0])
    if transform is None or transform.name != InputTransformOp.OPERATION_NAME:
        return NoMatch(
            last, "the left operand of its linalg.batch_matmul is not the result of winograd.input_transform"
        )
    if not is_zero(product.operands[2]):
        return NoMatch(last, "its linalg.batch_matmul adds to something else than zeros")
    return product, InputTransformOp(transform)


def stated_facts(
    input_transform: InputTransformOp,
    product: ir.Operation,
    last: TransformOp,
    outputs: ir.RankedTensorType,
) -> dict[str, Any]:
    """Those fields of a shape that the ops state, which `last` leaves the domain by; `outputs` channels last.

    Raises ValueError where sizes of the input are known only at run time, and none are expected.
    """
    batch, *input_size, input_channels = input_transform.image_type.shape
    decomposition = last.decomposition
    unknown = tuple(
        dimension
        for dimension, sizes in enumerate(zip(input_size, outputs.shape[1:-1], strict=True))
        if any(map(is_dynamic, sizes))
    )
    if unknown:
        input_size = list(_expected_input_size(input_transform, product))
    return {
        "batch": None if is_dynamic(batch) else batch,
        "input_size": tuple(input_size),
        "padding_low": input_transform.padding_low,
        "padding_high": input_transform.padding_high,
        "kernel_size": decomposition.kernel_size,
        "strides": decomposition.step,
        "dilations": decomposition.dilation,
        "groups": last.groups,
        "input_channels": input_channels,
        "output_channels": outputs.shape[-1],
        "decomposition": decomposition,
        "input_channels_first": input_transform.channels_first,
        "unknown_sizes": unknown,
    }


def require_outputs(shape: ConvolutionShape, outputs: ir.RankedTensorType) -> None:
    """Raises ValueError unless there are as many outputs, channels last, as the input of `shape` gives.

    Sizes known only at run time aren't compared.
    """
    output_size = tuple(outputs.shape[1:-1])
    known = [each for each in range(len(output_size)) if each not in shape.unknown_sizes]
    if any(shape.output_size[each] != output_size[each] for each in known):
        raise ValueError(f"it has outputs of {output_size}, but its input gives {shape.output_size}")


def _expected_input_size(input_transform: InputTransformOp, product: ir.Operation) -> tuple[int, ...]:
    """Without padding, which may have moved into the transform."""
    padded = expected_size(product)
    if padded is None:
        raise ValueError("sizes of its image are known only at run time, and none are expected")
    return unpadded_size(padded, input_transform.padding_low, input_transform.padding_high)
