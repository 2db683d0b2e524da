"""A loop over the images of a batch, in place of operations that compute all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, scf, tensor
from iree.winograd.passes.build.conversions import converted
from iree.winograd.passes.build.tensors import index_constant, on_device
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


def loop_over_images(
    operations: Sequence[ir.Operation],
    result: ir.Value,
    end: ir.Operation,
    count: int,
    device: str | None,
    half: ir.Type | None = None,
) -> None:
    """Rewrites `operations`, in program order, to a loop before `end` that computes `count` images at a time.

    Each of them treats images one by one (`image_operands`), nothing else uses what they compute but
    `result`, and `count` divides the batch. IREE writes to one tensor of all images, rather than to a copy
    for each iteration, if it is told that it lies on the `device` of this symbol. That tensor is of `half`,
    if given, a type of half precision that surely has all elements of `result`.

        %a = linalg.conv_2d_nhwc_hwcf ins(%x, %f : tensor<8x...>, ...) outs(%y : tensor<8x...>)
      becomes, one at a time,
        %u = tensor.empty() : tensor<8x...>
        %e = flow.tensor.transfer %u : tensor<8x...> to #hal.device.affinity<@device>
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
        all_images = tensor.empty(list(type_.shape), half or type_.element_type)
        if device is not None:
            all_images = on_device(all_images, device)
        bounds = (index_constant(number) for number in (0, type_.shape[0], count))
        for_op = scf.ForOp(*bounds, [all_images])
        with ir.InsertionPoint(for_op.body):
            some = _Images(for_op.induction_variable, count, {})
            for operation in operations:
                some.compute(operation)
            scf.yield_([some.within(for_op.inner_iter_args[0], result)])
        computed = for_op.results[0] if half is None else converted(for_op.results[0], type_.element_type)
    result.replace_all_uses_with(computed)
    read = [defining_operation(operand) for operation in operations for operand in operation.operands]
    before = [each for each in read if each is not None and each not in operations]
    for operation in reversed(operations):
        operation.erase()
    erase_if_unused(before)


@dataclass(frozen=True)
class _Images:
    """Those that the loop computes at a time: `count` from the number `first` on."""

    first: ir.Value
    count: int
    computed: dict[ir.Value, ir.Value]
    """What stands for a tensor of the whole batch."""

    def compute(self, operation: ir.Operation) -> None:
        """Builds the operation for these images."""
        operands = image_operands(operation)
        assert not isinstance(operands, NoMatch)
        for position in operands:
            whole = operation.operands[position]
            if whole not in self.computed:
                self.computed[whole] = self._given(whole)
        built = operation.clone().operation
        for position in operands:
            built.operands[position] = self.computed[operation.operands[position]]
        if (name := _SIZES.get(operation.name)) is not None:
            _, *sizes = ir.DenseI64ArrayAttr(operation.attributes[name])
            built.attributes[name] = ir.DenseI64ArrayAttr.get([self.count, *sizes])
        for whole, images in zip(operation.results, built.results, strict=True):
            images.set_type(self._type(whole))
            self.computed[whole] = images

    def within(self, all_images: ir.Value, result: ir.Value) -> ir.Value:
        """Builds `all_images` with these of `result` in their place, in their type."""
        images, element = self.computed[result], ir.RankedTensorType(all_images.type).element_type
        if ir.RankedTensorType(images.type).element_type != element:
            images = converted(images, element)
        return tensor.insert_slice(images, all_images, [self.first], [], [], **_place(images.type))

    def _given(self, value: ir.Value) -> ir.Value:
        """Builds these of what is computed before the loop: made anew where all of them are alike."""
        definition = defining_operation(value)
        type_ = self._type(value)
        if definition is not None and definition.name == "tensor.empty":
            return tensor.empty(list(type_.shape), type_.element_type)
        if definition is not None and definition.name == "linalg.fill":
            filled = self._given(definition.operands[1])
            built = definition.clone().operation
            built.operands[1] = filled
            built.results[0].set_type(type_)
            return built.results[0]
        if definition is not None and definition.name == "arith.constant":
            elements = definition.attributes["value"]
            if isinstance(elements, ir.DenseElementsAttr) and elements.is_splat:
                splat = ir.DenseElementsAttr.get_splat(type_, elements.get_splat_value())
                return arith.constant(type_, splat)
        return tensor.extract_slice(type_, value, [self.first], [], [], **_place(type_))

    def _type(self, value: ir.Value) -> ir.RankedTensorType:
        type_ = ir.RankedTensorType(value.type)
        return ir.RankedTensorType.get([self.count, *list(type_.shape)[1:]], type_.element_type)


def _place(type_: ir.Type) -> Mapping[str, list[int]]:
    """That of images of which the number of the first is known when running."""
    shape = list(ir.RankedTensorType(type_).shape)
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    return {
        "static_offsets": [dynamic, *[0] * (len(shape) - 1)],
        "static_sizes": shape,
        "static_strides": [1] * len(shape),
    }
