"""A random program as data: functions of tensors, operation by operation.

Values of a function are numbered: the results of its operations in order. Blocks of loops and branches see
the values before them, and number their own from there on. All elements are f32. Sizes of arguments may be
known only at run time, and what is computed from them: a program is written in one run, and `at` of
`open_size.py` writes it in another.

`repr` of a program is Python that builds it again; `building.py` builds it as MLIR, `evaluation.py` says what
it computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import operations as o
from open_size import is_open
from operations import Convolution, Input
from tensors import Tensor, require


@dataclass(frozen=True)
class Block:
    """Operations that see the values before them, and what they yield."""

    operations: tuple[Operation, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """`count` times the `body`, which sees the loop's state as its first value and yields the next one."""

    count: int
    initial: int
    body: Block

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.initial,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        return list(operands)


@dataclass(frozen=True)
class Branch:
    """`then` where the first element of `condition` is positive, else `otherwise`."""

    condition: int
    then: Block
    otherwise: Block
    type: Tensor

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.condition,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        return [self.type]


@dataclass(frozen=True)
class Call:
    """A call of a `function` that only the program itself calls; equal ones are one."""

    sources: tuple[int, ...]
    function: Function

    @property
    def operands(self) -> tuple[int, ...]:
        return self.sources

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        taken = [Tensor(each.shape) for each in self.function.inputs]
        require(list(operands) == taken, "other arguments")
        return function_types(self.function)


Operation = (
    Input
    | o.Constant
    | o.Fill
    | o.Pad
    | o.Insertion
    | o.Slice
    | o.Concatenation
    | o.Transposition
    | o.Expansion
    | o.Collapse
    | o.Broadcast
    | o.Elementwise
    | o.Reduction
    | o.Reversal
    | o.Resizing
    | o.Product
    | o.Pooling
    | Convolution
    | Loop
    | Branch
    | Call
)


Run = tuple[tuple[str, int], ...]
"""Open sizes by name, and their values when a function is called."""


@dataclass(frozen=True)
class Function:
    operations: tuple[Operation, ...]
    results: tuple[int, ...]
    output_argument: bool = False
    """Whether the first result is written to memory that the caller hands over."""
    other_runs: tuple[Run, ...] = ()
    """Beside the one that it is written in."""
    sizes_of_arguments: bool = False
    """Whether sizes are computed from those of arguments, rather than of what is nearest."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The arguments."""
        return tuple(operation for operation in self.operations if isinstance(operation, Input))


@dataclass(frozen=True)
class Program:
    functions: tuple[Function, ...]


def infer(operation: Operation, types: Sequence[Tensor]) -> list[Tensor]:
    """The types of the results of `operation`, `types` being those of all values before it.

    Raises InvalidProgramError where operands don't fit.
    """
    require(all(0 <= operand < len(types) for operand in operation.operands), "a value before it is defined")
    results = operation.infer([types[operand] for operand in operation.operands])
    for result in results:
        for size in result.shape:
            require(size >= (0 if is_open(size) else 1), "a size that is too small")
    if isinstance(operation, Loop):
        yielded = infer_block(operation.body, [*types, *results])
        require(yielded == results, "the state of a loop changes its type")
    if isinstance(operation, Branch):
        for block in (operation.then, operation.otherwise):
            require(infer_block(block, list(types)) == results, "the results of branches differ")
    return results


def infer_block(block: Block | Function, types: list[Tensor]) -> list[Tensor]:
    """The types of what `block` yields, `types` being those of the values that it sees."""
    for operation in block.operations:
        types.extend(infer(operation, types))
    return [types[result] for result in block.results]


def function_types(function: Function) -> list[Tensor]:
    """The types of the results of `function`."""
    return infer_block(function, [])


def numbered(function: Function) -> list[tuple[int, Operation]]:
    """The operations of `function`, each with the number of its first result."""
    types: list[Tensor] = []
    found = []
    for operation in function.operations:
        found.append((len(types), operation))
        types.extend(infer(operation, types))
    return found


def all_operations(block: Block | Function) -> Iterator[Operation]:
    for operation in block.operations:
        yield operation
        if isinstance(operation, Loop):
            yield from all_operations(operation.body)
        if isinstance(operation, Branch):
            yield from all_operations(operation.then)
            yield from all_operations(operation.otherwise)


def called_functions(program: Program) -> list[Function]:
    """The functions that `program` calls, each once, those that it calls first before their callers."""
    found: dict[Function, None] = {}

    def collect(function: Function) -> None:
        for operation in all_operations(function):
            if isinstance(operation, Call) and operation.function not in found:
                collect(operation.function)
                found[operation.function] = None

    for function in program.functions:
        collect(function)
    return list(found)


def convolutions(program: Program) -> list[Convolution]:
    return [each for each in _operations(program) if isinstance(each, Convolution)]


def products(program: Program) -> list[o.Product]:
    return [each for each in _operations(program) if isinstance(each, o.Product)]


def _operations(program: Program) -> Iterator[Operation]:
    for function in (*called_functions(program), *program.functions):
        yield from all_operations(function)
