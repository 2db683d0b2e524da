"""What makes a winograd op valid, beyond what the dialect's IRDL definition can say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.winograd.dialect import ops
from iree.winograd.dialect.attributes import decomposition_of, sizes_of
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.decomposition import Decomposition
from iree.winograd.dialect.epilogue_read import read_misfit

ELEMENT_TYPES: tuple[type[ir.Type], ...] = (ir.F32Type, ir.F16Type, ir.BF16Type)

DOMAIN_RANK = 3
"""Products, tiles or channels, and channels."""


class InvalidOperationError(ValueError):
    """Says what is wrong with an op: the operand or attribute, what was expected, what there is."""


def verify_operation(operation: ir.Operation) -> None:
    """Raises InvalidOperationError when `operation` is of the winograd dialect but not valid."""
    if not operation.name.startswith("winograd."):
        return
    if operation.name not in _CHECKS:
        raise InvalidOperationError(f"is not an operation of the dialect; those are {', '.join(_CHECKS)}")
    _CHECKS[operation.name](operation)


def _verify_input_transform(operation: ir.Operation) -> None:
    transform = ops.InputTransformOp(operation)
    _check_counts(operation, operands=1, results=1, regions=0)
    decomposition, groups = _decomposition(operation), _groups(operation)
    padding_low = _padding(operation, "padding_low", decomposition)
    padding_high = _padding(operation, "padding_high", decomposition)
    _check_layout(operation)
    _tensor_type("input", transform.input.type, decomposition.spatial_rank + 2)
    input_type = transform.image_type
    _check_divides("input", input_type, len(input_type.shape) - 1, "channels", groups)
    sizes = input_type.shape[1:-1]
    if not any(size == ir.ShapedType.get_dynamic_size() for size in sizes):
        padded = tuple(
            low + size + high for low, size, high in zip(padding_low, sizes, padding_high, strict=True)
        )
        if min(decomposition.output_shape(padded)) < 1:
            raise InvalidOperationError(
                f"input {input_type}, padded to {padded}, must hold the kernel {decomposition.kernel_size}"
            )
    domain = _domain_type("result", transform)
    expected = ops.input_transform_type(input_type, decomposition, padding_low, padding_high, groups, domain)
    _check_type("result", expected, operation.results[0].type)


def _verify_filter_transform(operation: ir.Operation) -> None:
    transform = ops.FilterTransformOp(operation)
    _check_counts(operation, operands=1, results=1, regions=0)
    decomposition, groups = _decomposition(operation), _groups(operation)
    _tensor_type("filter", transform.filter.type, decomposition.spatial_rank + 2)
    _check_unit(operation, ops.FLIPPED)
    _check_permutation(operation, decomposition.spatial_rank + 2)
    filter_type = _filter_type("filter", transform.filter_type, decomposition, groups)
    domain = _domain_type("result", transform)
    expected = ops.filter_transform_type(filter_type, decomposition, groups, domain)
    _check_type("result", expected, operation.results[0].type)


def _verify_gradient_transform(operation: ir.Operation) -> None:
    transform = ops.GradientTransformOp(operation)
    _check_counts(operation, operands=1, results=1, regions=0)
    decomposition, groups = _decomposition(operation), _groups(operation)
    _check_layout(operation)
    _tensor_type("gradient", transform.gradient.type, decomposition.spatial_rank + 2)
    gradient_type = transform.gradient_type
    _check_divides("gradient", gradient_type, len(gradient_type.shape) - 1, "channels", groups)
    domain = _domain_type("result", transform)
    expected = ops.accumulator_type(gradient_type, decomposition, groups, domain)
    _check_type("result", expected, operation.results[0].type)


def _verify_filter_gradient(operation: ir.Operation) -> None:
    gradient = ops.FilterGradientOp(operation)
    _check_counts(operation, operands=1, results=1, regions=0)
    decomposition, groups = _decomposition(operation), _groups(operation)
    rank = decomposition.spatial_rank + 2
    _tensor_type("result", operation.results[0].type, rank)
    _check_permutation(operation, rank)
    result_type = _filter_type("result", gradient.filter_type, decomposition, groups)
    domain = _domain_type("accumulator", gradient)
    expected = ops.filter_transform_type(result_type, decomposition, groups, domain)
    _check_type("accumulator", expected, gradient.accumulator.type)


def _verify_output_transform(operation: ir.Operation) -> None:
    transform = ops.OutputTransformOp(operation)
    if len(operation.operands) == 0:
        raise InvalidOperationError("must have an accumulator operand")
    _check_counts(operation, operands=len(operation.operands), results=1, regions=1)
    decomposition, groups = _decomposition(operation), _groups(operation)
    _check_layout(operation)
    _tensor_type("result", operation.results[0].type, decomposition.spatial_rank + 2)
    result_type = transform.image_type
    _check_divides("result", result_type, len(result_type.shape) - 1, "channels", groups)
    domain = _domain_type("accumulator", transform)
    expected = ops.accumulator_type(result_type, decomposition, groups, domain)
    _check_type("accumulator", expected, transform.accumulator.type)
    _verify_epilogue_operands(transform, result_type)
    _verify_body(transform, result_type)


def _verify_epilogue_operands(transform: ops.OutputTransformOp, result_type: ir.RankedTensorType) -> None:
    maps = _attribute(transform.operation, "indexing_maps")
    if not isinstance(maps, ir.ArrayAttr) or not all(isinstance(entry, ir.AffineMapAttr) for entry in maps):
        raise InvalidOperationError(
            f"attribute 'indexing_maps' must be an array of affine maps, but is {maps}"
        )
    operands = transform.epilogue_operands
    if len(operands) > ops.MAX_EPILOGUE_OPERANDS:
        raise InvalidOperationError(
            f"must have at most {ops.MAX_EPILOGUE_OPERANDS} epilogue operands, but has {len(operands)}"
        )
    sizes = _attribute(transform.operation, "operandSegmentSizes")
    expected_sizes = ops.segment_sizes_attribute(len(operands))
    if sizes != expected_sizes:
        raise InvalidOperationError(
            f"attribute 'operandSegmentSizes' must be {expected_sizes}, but is {sizes}"
        )
    if len(maps) != len(operands):
        raise InvalidOperationError(
            f"attribute 'indexing_maps' must have an entry for each of {len(operands)} epilogue operands, "
            f"but has {len(maps)}"
        )
    for number, (operand, indexing_map) in enumerate(zip(operands, transform.indexing_maps, strict=True)):
        name = f"epilogue operand #{number}"
        operand_type = _tensor_type(name, operand.type, len(indexing_map.results))
        if indexing_map.n_dims != result_type.rank or indexing_map.n_symbols:
            raise InvalidOperationError(
                f"indexing map #{number} must have {result_type.rank} dimensions and no symbols, "
                f"but is {indexing_map}"
            )
        if reason := read_misfit(operand_type, indexing_map, result_type):
            raise InvalidOperationError(f"{name} {reason}")


def _verify_body(transform: ops.OutputTransformOp, result_type: ir.RankedTensorType) -> None:
    blocks = list(transform.operation.regions[0].blocks)
    if len(blocks) != 1:
        raise InvalidOperationError(f"must have one block in its region, but has {len(blocks)}")
    expected = [operand.type.element_type for operand in transform.operation.operands]
    actual = [argument.type for argument in blocks[0].arguments]
    if actual != expected:
        raise InvalidOperationError(
            f"block arguments must be of types {_listed(expected)}, but are {_listed(actual)}"
        )
    operations = [view.operation for view in blocks[0].operations]
    if not operations or operations[-1].name != "vector.yield":
        raise InvalidOperationError("must end its region with vector.yield")
    yielded = [operand.type for operand in operations[-1].operands]
    if yielded != [result_type.element_type]:
        raise InvalidOperationError(f"must yield {result_type.element_type}, but yields {_listed(yielded)}")


_CHECKS: dict[str, Callable[[ir.Operation], None]] = {
    ops.FilterGradientOp.OPERATION_NAME: _verify_filter_gradient,
    ops.FilterTransformOp.OPERATION_NAME: _verify_filter_transform,
    ops.GradientTransformOp.OPERATION_NAME: _verify_gradient_transform,
    ops.InputTransformOp.OPERATION_NAME: _verify_input_transform,
    ops.OutputTransformOp.OPERATION_NAME: _verify_output_transform,
}


def _check_counts(operation: ir.Operation, *, operands: int, results: int, regions: int) -> None:
    for name, expected, actual in (
        ("operands", operands, len(operation.operands)),
        ("results", results, len(operation.results)),
        ("regions", regions, len(operation.regions)),
    ):
        if actual != expected:
            raise InvalidOperationError(f"must have {expected} {name}, but has {actual}")


def _attribute(operation: ir.Operation, name: str) -> ir.Attribute:
    if name not in operation.attributes:
        raise InvalidOperationError(f"lacks the attribute '{name}'")
    return operation.attributes[name]


def _decomposition(operation: ir.Operation) -> Decomposition:
    try:
        return decomposition_of(_attribute(operation, "decomposition"))
    except InvalidOperationError:
        raise
    except ValueError as error:
        raise InvalidOperationError(f"attribute 'decomposition': {error}") from None


def _check_layout(operation: ir.Operation) -> None:
    _check_unit(operation, ops.CHANNELS_FIRST)


def _check_unit(operation: ir.Operation, name: str) -> None:
    unit = operation.attributes.get(name, None)
    if unit is not None and not isinstance(unit, ir.UnitAttr):
        raise InvalidOperationError(f"attribute '{name}' must be a unit, but is {unit}")


def _check_permutation(operation: ir.Operation, rank: int) -> None:
    permutation = operation.attributes.get(ops.FILTER_PERMUTATION, None)
    if permutation is None:
        return
    if not isinstance(permutation, ir.DenseI64ArrayAttr) or sorted(permutation) != list(range(rank)):
        raise InvalidOperationError(
            f"attribute '{ops.FILTER_PERMUTATION}' must be a permutation of {rank} dimensions, "
            f"but is {permutation}"
        )


def _groups(operation: ir.Operation) -> int:
    attribute = _attribute(operation, "groups")
    if not isinstance(attribute, ir.IntegerAttr) or attribute.value < 1:
        raise InvalidOperationError(f"attribute 'groups' must be a positive integer, but is {attribute}")
    return int(attribute.value)


def _padding(operation: ir.Operation, name: str, decomposition: Decomposition) -> tuple[int, ...]:
    attribute = _attribute(operation, name)
    try:
        sizes = sizes_of(attribute)
    except ValueError as error:
        raise InvalidOperationError(f"attribute '{name}': {error}") from None
    if len(sizes) != decomposition.spatial_rank or min(sizes) < 0:
        raise InvalidOperationError(
            f"attribute '{name}' must be {decomposition.spatial_rank} sizes of at least 0, but is {sizes}"
        )
    return sizes


def _tensor_type(name: str, actual: ir.Type, rank: int) -> ir.RankedTensorType:
    if not isinstance(actual, ir.RankedTensorType) or actual.rank != rank:
        raise InvalidOperationError(f"{name} must be a tensor of {rank} dimensions, but is {actual}")
    if not isinstance(actual.element_type, ELEMENT_TYPES):
        raise InvalidOperationError(f"{name} must have elements of type f32, f16 or bf16, but is {actual}")
    return actual


def _domain_type(name: str, transform: ops.TransformOp) -> ir.Type:
    """That of the op's elements in the Winograd domain; numbers of any type may be stored outside of it."""
    return _tensor_type(name, transform.in_domain.type, DOMAIN_RANK).element_type


def _filter_type(
    name: str, actual: ir.Type, decomposition: Decomposition, groups: int
) -> ir.RankedTensorType:
    filter_type = _tensor_type(name, actual, decomposition.spatial_rank + 2)
    if tuple(filter_type.shape[:-2]) != decomposition.kernel_size:
        raise InvalidOperationError(
            f"{name} {filter_type} must have the kernel size {decomposition.kernel_size}"
        )
    _check_divides(name, filter_type, len(filter_type.shape) - 1, "output channels", groups)
    return filter_type


def _check_divides(
    name: str, tensor_type: ir.RankedTensorType, dimension: int, unit: str, groups: int
) -> None:
    size = tensor_type.shape[dimension]
    if size == ir.ShapedType.get_dynamic_size() or size % groups:
        raise InvalidOperationError(f"{name} {tensor_type} must have {unit} that {groups} groups divide")


def _check_type(name: str, expected: ir.RankedTensorType, actual: ir.Type) -> None:
    """Types agree where both are static."""
    dynamic = ir.ShapedType.get_dynamic_size()
    agrees = (
        isinstance(actual, ir.RankedTensorType)
        and actual.element_type == expected.element_type
        and actual.rank == expected.rank
        and all(a == b or dynamic in (a, b) for a, b in zip(actual.shape, expected.shape, strict=True))
    )
    if not agrees:
        raise InvalidOperationError(f"{name} must be {expected}, but is {actual}")


def _listed(types: Sequence[ir.Type]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"
