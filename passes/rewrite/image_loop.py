"""A loop over the images of a batch, in place of operations that compute all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.winograd.dialect.bindings import arith, ir, scf, tensor
from iree.winograd.passes.build.tensors import index_constant
from iree.winograd.passes.match.images import image_operands
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch

from .erasure import erase_if_unused

_SIZES = {
    "tensor.expand_shape": "static_output_shape",
    "tensor.extract_slice": "static_sizes",
    "tensor.insert_slice": "static_sizes",
}
"""The attribute that holds the sizes of what an operation gives or takes, images first."""


def loop_over_images(operations: Sequence[ir.Operation], result: ir.Value, end: ir.Operation) -> None:
    """Rewrites `operations`, in program order, to a loop before `end` that computes `result` image by image.

    Each of them treats images one by one (`image_operands`), and nothing else uses what they compute but
    `result`.

        %a = linalg.conv_2d_nhwc_hwcf ins(%x, %f : tensor<8x...>, ...) outs(%y : tensor<8x...>)
      becomes
        %e = tensor.empty() : tensor<8x...>
        %a = scf.for %i = %c0 to %c8 step %c1 iter_args(%all = %e) -> tensor<8x...> {
          %xi = tensor.extract_slice %x[%i, 0, 0, 0] [1, ...]
          %yi = tensor.extract_slice %y[%i, 0, 0, 0] [1, ...]
          %ai = linalg.conv_2d_nhwc_hwcf ins(%xi, %f : tensor<1x...>, ...) outs(%yi : tensor<1x...>)
          %next = tensor.insert_slice %ai into %all[%i, 0, 0, 0] [1, ...]
          scf.yield %next
        }
    """
    type_ = ir.RankedTensorType(result.type)
    with result.owner.location, ir.InsertionPoint(end):
        all_images = tensor.empty(list(type_.shape), type_.element_type)
        bounds = (index_constant(number) for number in (0, type_.shape[0], 1))
        for_op = scf.ForOp(*bounds, [all_images])
        with ir.InsertionPoint(for_op.body):
            number = for_op.induction_variable
            images: dict[ir.Value, ir.Value] = {}
            for operation in operations:
                _compute_image(operation, images, number)
            scf.yield_([_with_image(for_op.inner_iter_args[0], images[result], number)])
    result.replace_all_uses_with(for_op.results[0])
    read = [defining_operation(operand) for operation in operations for operand in operation.operands]
    before = [each for each in read if each is not None and each not in operations]
    for operation in reversed(operations):
        operation.erase()
    erase_if_unused(before)


def _compute_image(operation: ir.Operation, images: dict[ir.Value, ir.Value], number: ir.Value) -> None:
    """Builds the operation for a single image, and adds what it gives to `images`."""
    operands = image_operands(operation)
    assert not isinstance(operands, NoMatch)
    for position in operands:
        whole = operation.operands[position]
        if whole not in images:
            images[whole] = _image_of(whole, number)
    built = operation.clone().operation
    for position in operands:
        built.operands[position] = images[operation.operands[position]]
    if (name := _SIZES.get(operation.name)) is not None:
        _, *sizes = ir.DenseI64ArrayAttr(operation.attributes[name])
        built.attributes[name] = ir.DenseI64ArrayAttr.get([1, *sizes])
    for whole, image in zip(operation.results, built.results, strict=True):
        image.set_type(_image_type(whole))
        images[whole] = image


def _image_type(value: ir.Value) -> ir.RankedTensorType:
    type_ = ir.RankedTensorType(value.type)
    return ir.RankedTensorType.get([1, *list(type_.shape)[1:]], type_.element_type)


def _image_of(value: ir.Value, number: ir.Value) -> ir.Value:
    """Builds an image of what is computed before the loop: made anew where all of them are alike."""
    definition = defining_operation(value)
    type_ = _image_type(value)
    if definition is not None and definition.name == "tensor.empty":
        return tensor.empty(list(type_.shape), type_.element_type)
    if definition is not None and definition.name == "linalg.fill":
        filled = _image_of(definition.operands[1], number)
        built = definition.clone().operation
        built.operands[1] = filled
        built.results[0].set_type(type_)
        return built.results[0]
    if definition is not None and definition.name == "arith.constant":
        elements = definition.attributes["value"]
        if isinstance(elements, ir.DenseElementsAttr) and elements.is_splat:
            return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, elements.get_splat_value()))
    return tensor.extract_slice(type_, value, [number], [], [], **_place(type_))


def _with_image(whole: ir.Value, image: ir.Value, number: ir.Value) -> ir.Value:
    return tensor.insert_slice(image, whole, [number], [], [], **_place(ir.RankedTensorType(image.type)))


def _place(type_: ir.RankedTensorType) -> Mapping[str, list[int]]:
    """That of an image whose number is known when running."""
    shape = list(type_.shape)
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    return {
        "static_offsets": [dynamic, *[0] * (len(shape) - 1)],
        "static_sizes": shape,
        "static_strides": [1] * len(shape),
    }
