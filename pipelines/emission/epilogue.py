"""The epilogue region of `winograd.output_transform` as vector code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.dialect.ops import OutputTransformOp
from iree.winograd.passes.match.values.half_precision import KEEPING_HALF, half_type
from iree.winograd.passes.match.values.kept_digits import kept_digits
from iree.winograd.passes.match.values.number_range import number_range

from .buffer import Buffer
from .index import Index, IndexLike, unflatten
from .numbers.known import NUMBERS, Numbers, number_of
from .numbers.number import Function
from .vectors import LaneMask, broadcast, splat

_ENDS = ("linalg.yield", "vector.yield")
CONVERSIONS = ("arith.extf", "arith.truncf")


@dataclass(frozen=True)
class VectorEpilogue:
    """An epilogue whose scalar operations are emitted on vectors along the output channels.

    Everything in the region is elementwise, so an operation on vectors is the scalar one with vector types,
    of those that numbers are computed with: results are rounded to the region's where these are narrower.
    """

    transform: OutputTransformOp
    operands: Sequence[Buffer]
    fused_multiply_add: bool | None = None
    """Whether the target has it, for functions of ours; None where IREE's are as good."""
    lined_up: tuple[IndexLike, ...] | None = None
    """The spatial sizes of images whose pixels are numbered, or the number of images and these where all are
    numbered as one: a position is zeros and then that number."""
    numbers: Numbers = field(default_factory=lambda: NUMBERS, kw_only=True, compare=False, repr=False)
    """How the processor converts numbers."""

    @property
    def is_of_channels(self) -> bool:
        """Whether it reads the same at all positions: what it reads has no dimension but the channels."""
        maps = self.transform.indexing_maps
        return all(len(each.results) == 1 and reads_along_channels(each) for each in maps)

    def emit(
        self,
        accumulated: ir.Value,
        image: Index,
        position: tuple[Index, ...],
        channel: Index,
        lanes: LaneMask | None = None,
    ) -> ir.Value:
        """The finished outputs of `image` at `position`, from `channel` on, one per lane of `accumulated`.

        The position has to exist: operands are read there without conditions, but for the lanes that are
        left out.
        """
        width = ir.VectorType(accumulated.type).shape[0]
        return self.applied(accumulated, self.load(image, position, channel, width, lanes))

    def load(
        self,
        image: Index,
        position: tuple[Index, ...],
        channel: Index,
        width: int,
        lanes: LaneMask | None = None,
    ) -> list[ir.Value]:
        """What `emit` reads for `width` channels there, a vector of each operand."""
        return [
            load_operand(
                operand, indexing_map, self._indices(indexing_map, image, position, channel), width, lanes
            )
            for operand, indexing_map in zip(self.operands, self.transform.indexing_maps, strict=True)
        ]

    def applied(self, accumulated: ir.Value, loaded: Sequence[ir.Value]) -> ir.Value:
        """The finished outputs by what was loaded for them."""
        (finished,) = self.applied_to_all([accumulated], [loaded])
        return finished

    def applied_to_all(
        self, sums: Sequence[ir.Value], loaded: Sequence[Sequence[ir.Value]]
    ) -> list[ir.Value]:
        """The finished outputs of several vectors, each with what was loaded for it, side by side.

        An operation is emitted on all of them before the next one: a processor has work while one of them
        waits for its own results.
        """
        return self._emit_part(_whole(self.transform.body), sums, loaded)

    def begun(self, sums: Sequence[ir.Value], loaded: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
        """What operations before functions make of several vectors, for `finished`; one vector of each."""
        return self._emit_part(_parts(self.transform.body)[0], sums, loaded)

    def finished(self, sums: Sequence[ir.Value], loaded: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
        """The finished outputs of several vectors that were `begun`, side by side."""
        return self._emit_part(_parts(self.transform.body)[1], sums, loaded)

    def _emit_part(
        self, part: _Part, given: Sequence[ir.Value], loaded: Sequence[Sequence[ir.Value]]
    ) -> list[ir.Value]:
        _, *operands = self.transform.body.arguments
        several = [
            {**dict(zip(operands, read, strict=True)), part.source: value}
            for value, read in zip(given, loaded, strict=True)
        ]
        width = ir.VectorType(given[0].type).shape[0]
        return _emit_part(part, several, width, self.numbers, self.fused_multiply_add)

    @property
    def calls_functions(self) -> bool:
        """Whether there are functions in it, each of which takes tens of operations."""
        return any(map(_is_function, self.transform.body.operations))

    @property
    def image_operands(self) -> int:
        """How many operands have a value for each output."""
        return sum(len(each.results) == each.n_dims for each in self.transform.indexing_maps)

    def prefetch(self, image: Index, position: tuple[Index, ...], channel: Index) -> None:
        """Brings near what `emit` will read there, but for what every position reads."""
        for operand, indexing_map in zip(self.operands, self.transform.indexing_maps, strict=True):
            if len(indexing_map.results) == indexing_map.n_dims:
                indices = self._indices(indexing_map, image, position, channel)
                operand.prefetch(_operand_offset(operand, indexing_map, indices))

    def _indices(
        self, indexing_map: ir.AffineMap, image: Index, position: tuple[Index, ...], channel: Index
    ) -> list[Index]:
        """What an operand's map is applied to. In most operands pixels lie as they are numbered."""
        outer = indexing_map.n_dims - 1
        if self.lined_up is None or _reads_in_order(indexing_map, range(outer - len(self.lined_up), outer)):
            return [image, *position, channel]
        coordinates = unflatten(position[-1], self.lined_up)
        return [*coordinates, channel] if len(coordinates) == outer else [image, *coordinates, channel]


def epilogue_text(transform: OutputTransformOp) -> str:
    """What distinguishes one epilogue from another, whatever the names of its values in the program."""
    body = transform.body
    numbers = {argument: number for number, argument in enumerate(body.arguments)}
    lines = [" ".join(str(argument.type) for argument in body.arguments)]
    for operation in (view.operation for view in body.operations):
        operands = [numbers[operand] for operand in operation.operands]
        attributes = {name: str(operation.attributes[name]) for name in operation.attributes}
        types = [str(result.type) for result in operation.results]
        lines.append(f"{operation.name} {operands} {attributes} {types}")
        numbers |= {result: len(numbers) + n for n, result in enumerate(operation.results)}
    return "\n".join([*lines, str(transform.attributes["indexing_maps"])])


def reads_along_channels(indexing_map: ir.AffineMap) -> bool:
    """Whether an operand that is read by this map has a value per channel."""
    channel = indexing_map.n_dims - 1
    return any(
        isinstance(expression, ir.AffineDimExpr) and expression.position == channel
        for expression in indexing_map.results
    )


def _reads_in_order(indexing_map: ir.AffineMap, dimensions: range) -> bool:
    """Whether an operand has all of these dimensions side by side in order, or none."""
    spatial = list(dimensions)
    read = [
        expression.position if isinstance(expression, ir.AffineDimExpr) else -1
        for expression in indexing_map.results
    ]
    if not set(spatial) & set(read):
        return True
    first = read.index(spatial[0]) if spatial[0] in read else 0
    return read[first : first + len(spatial)] == spatial


def load_operand(
    operand: Buffer,
    indexing_map: ir.AffineMap,
    indices: Sequence[Index],
    width: int,
    lanes: LaneMask | None = None,
) -> ir.Value:
    """What `width` channels from an output's index `(n, spatial..., k)` on read of an operand by its map."""
    offset = _operand_offset(operand, indexing_map, indices)
    if reads_along_channels(indexing_map):
        return operand.load(offset, width) if lanes is None else operand.load_lanes(offset, lanes)
    return broadcast(operand.load_scalar(offset), width)


def _operand_offset(operand: Buffer, indexing_map: ir.AffineMap, indices: Sequence[Index]) -> Index:
    return operand.offset(
        [
            expression.value
            if isinstance(expression, ir.AffineConstantExpr)
            else indices[expression.position]
            for expression in indexing_map.results
        ]
    )


def emit_body(
    body: ir.Block,
    values: dict[ir.Value, ir.Value],
    width: int,
    known: Numbers = NUMBERS,
    fused_multiply_add: bool | None = None,
) -> ir.Value:
    """What a block of scalar operations computes of `values`, a vector for each of its arguments.

    Beside these it may use constants. Functions are ours, where `fused_multiply_add` says whether the target
    has it, and otherwise IREE's.
    """
    (result,) = _emit_part(_whole(body), [values], width, known, fused_multiply_add)
    return result


@dataclass(frozen=True)
class _Part:
    """Operations of a body that make `result` of `source`, of its other arguments and of constants."""

    operations: Sequence[ir.Operation]
    source: ir.Value
    result: ir.Value


def _whole(body: ir.Block) -> _Part:
    *operations, terminator = [view.operation for view in body.operations]
    return _Part(operations, body.arguments[0], terminator.operands[0])


def _parts(body: ir.Block) -> tuple[_Part, _Part]:
    """Operations before the first function, as many as give the others one number, and these."""
    whole = _whole(body)
    before = next((i for i, each in enumerate(whole.operations) if _is_function(each)), 0)
    for count in range(before, 0, -1):
        rest = whole.operations[count:]
        read = {operand for operation in rest for operand in operation.operands}
        results = {result for each in whole.operations[:count] for result in each.results}
        crossing = [each for each in results & read if each.owner.name != "arith.constant"]
        if len(crossing) == 1 and whole.source not in read and isinstance(crossing[0].type, ir.FloatType):
            return (
                _Part(whole.operations[:count], whole.source, crossing[0]),
                _Part(rest, crossing[0], whole.result),
            )
    return _Part((), whole.source, whole.source), whole


def _is_function(operation: ir.OpView | ir.Operation) -> bool:
    name: str = operation.operation.name
    return name.startswith("math.")


def _emit_part(
    part: _Part,
    several: Sequence[Mapping[ir.Value, ir.Value]],
    width: int,
    known: Numbers,
    fused_multiply_add: bool | None,
) -> list[ir.Value]:
    """What a part of a body computes of `several` vectors for each argument, operation by operation."""
    computed = [dict(values) for values in several]
    for operation in part.operations:
        for values in computed:
            emitted = _emit_operation(operation, values, width, known, fused_multiply_add)
            values |= dict(zip(operation.results, emitted, strict=True))
    return [values[part.result] for values in computed]


def _emit_operation(
    operation: ir.Operation,
    values: dict[ir.Value, ir.Value],
    width: int,
    known: Numbers,
    fused_multiply_add: bool | None,
) -> Sequence[ir.Value]:
    """The results of an operation of a body, of `values`; adds constants to these."""
    for operand in operation.operands:
        if operand not in values:
            type_ = ir.VectorType.get([width], number_of(operand.type, known).computed.type)
            values[operand] = _constant(operand.owner.operation, type_)
    operands = [values[operand] for operand in operation.operands]
    functions: Mapping[str, Function] = {}
    if fused_multiply_add is not None and operands and not _divides_by_number(operation):
        number = number_of(ir.VectorType(operands[0].type).element_type, known)
        functions = number.functions(fused_multiply_add)
    if functions and _is_reciprocal(operation):
        least, _ = number_range(operation.operands[1])
        return [number.reciprocal(operands[1], kept_digits(operation.results[0]), least)]
    argument = _error_argument(operation)
    if functions and argument is not None and argument in values:
        emitted = number.one_and_error(values[argument], kept_digits(operation.results[0]))
        if emitted is not None:
            return [emitted]
    if operation.name in functions:
        return [functions[operation.name](*operands, kept_digits(operation.results[0]))]
    return emit_vectorized(operation, values, width, known)


def emit_vectorized(
    operation: ir.Operation, values: dict[ir.Value, ir.Value], width: int, known: Numbers
) -> list[ir.Value]:
    """The results of a scalar operation, rounded to its types, in the types that these are computed with."""
    numbers = [number_of(result.type, known) for result in operation.results]
    computed = [ir.VectorType.get([width], number.computed.type) for number in numbers]
    operands = [values[operand] for operand in operation.operands]
    if operation.name in CONVERSIONS and operands[0].type == computed[0]:
        emitted = operands
    elif _divides_by_number(operation):
        divisor = _number(operation.operands[1])
        assert divisor is not None
        # Within one and a half units of the last place, and ten times as fast.
        emitted = [arith.mulf(operands[0], splat(1 / divisor, width, computed[0].element_type))]
    elif operation.name == "arith.constant":
        emitted = [_constant(operation, computed[0])]
    else:
        attributes = {name: operation.attributes[name] for name in operation.attributes}
        emitted = list(ir.Operation.create(operation.name, computed, operands, attributes).results)
    if operation.name == "arith.extf":
        return emitted
    if operation.name == "arith.truncf":
        low, high = number_range(operation.operands[0])
        (number,), (value,), most = numbers, emitted, max(-low, high)
        if _is_stored(operation):
            return [number.widened(number.narrowed_within(value, most))]
        return [number.rounded(value, most)]
    return [number.widened(number.narrowed(value)) for number, value in zip(numbers, emitted, strict=True)]


def _is_stored(operation: ir.Operation) -> bool:
    """Whether the result, or what is made of it without rounding, is stored in half precision."""
    return any(half_type(value) is not None for value in _yielded(operation))


def _yielded(operation: ir.Operation) -> Iterator[ir.Value]:
    """What a body gives of those that are the result, or made of it without rounding."""
    for result in operation.results:
        for user in (use.owner.operation for use in result.uses):
            if user.name in _ENDS:
                yield result
            elif user.name in CONVERSIONS or user.name in KEEPING_HALF:
                yield from _yielded(user)


def _constant(operation: ir.Operation, type_: ir.VectorType) -> ir.Value:
    value = operation.attributes["value"]
    if value.type != type_.element_type:
        value = ir.FloatAttr.get(type_.element_type, ir.FloatAttr(value).value)
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, value))


def _divides_by_number(operation: ir.Operation) -> bool:
    return operation.name == "arith.divf" and _number(operation.operands[1]) is not None


def _is_reciprocal(operation: ir.Operation) -> bool:
    return operation.name == "arith.divf" and _number(operation.operands[0]) == 1


def _error_argument(operation: ir.Operation) -> ir.Value | None:
    """That of an error function that one is added to, as GELU does."""
    if operation.name != "arith.addf":
        return None
    for value, other in (operation.operands, reversed(operation.operands)):
        definition = value.owner.operation if isinstance(value, ir.OpResult) else None
        if definition is not None and definition.name == "math.erf" and _number(other) == 1:
            return definition.operands[0]
    return None


def _number(value: ir.Value) -> float | None:
    """The number, not zero, that a scalar is known to be: a constant, or its square root, also rounded.

    Of half precision GELU divides by the square root of two, rounded.
    """
    definition = value.owner.operation if isinstance(value, ir.OpResult) else None
    if definition is None:
        return None
    if definition.name == "arith.constant":
        return ir.FloatAttr(definition.attributes["value"]).value or None
    if definition.name not in (*CONVERSIONS, "math.sqrt"):
        return None
    number = _number(definition.operands[0])
    if number is None or number < 0:
        return None
    result = sqrt(number) if definition.name == "math.sqrt" else number
    return ir.FloatAttr.get(value.type, result).value or None
