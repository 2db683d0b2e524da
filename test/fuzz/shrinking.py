"""Smaller programs with the same finding.

Hypothesis could shrink what it drew, but asks for hundreds of programs where compiling one takes a second.
Cutting a program where its values are known takes dozens: a function alone, its first operations, and in
place of others' results arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import expressions as e
import operations as o
import program as p
from tensors import InvalidProgramError, Tensor

Node = TypeVar("Node", bound=Any)


def shrink(program: p.Program, fails: Callable[[p.Program], bool]) -> p.Program:
    """The smallest program found for which `fails` holds, as it does for `program`."""
    while (smaller := next(filter(fails, _smaller(program)), None)) is not None:
        program = smaller
    return program


def _smaller(program: p.Program) -> Iterator[p.Program]:
    """Programs to try instead, those that may save most first."""
    if len(program.functions) > 1:
        for function in program.functions:
            yield p.Program((function,))
        half = len(program.functions) // 2
        yield p.Program(program.functions[:half])
        yield p.Program(program.functions[half:])
        return
    (function,) = program.functions
    for smaller in _smaller_functions(function):
        try:
            if p.function_types(smaller):
                yield p.Program((smaller,))
        except InvalidProgramError:
            continue


def _smaller_functions(function: p.Function) -> Iterator[p.Function]:
    if function.output_argument:
        yield replace(function, output_argument=False)
    if function.other_runs:
        yield replace(function, other_runs=())
    if len(function.other_runs) > 1:
        for run in function.other_runs:
            yield replace(function, other_runs=(run,))
    if len(function.results) > 1:
        for result in function.results:
            yield without_unused(replace(function, results=(result,)))
    starts = [first for first, _ in p.numbered(function)]
    types: list[Tensor] = []
    p.infer_block(function, types)
    # Earlier results in place of the last one.
    if len(function.results) == 1:
        for operand in dict.fromkeys(_last_operation(function, starts).operands):
            yield without_unused(replace(function, results=(operand,)))
    cuts = []
    for number, operation in enumerate(function.operations):
        end = [*starts, len(types)][number + 1]
        if isinstance(operation, o.Input) or end - starts[number] != 1:
            continue
        of = types[starts[number]]
        operations = list(function.operations)
        operations[number] = o.Input(of.shape)
        smaller = without_unused(replace(function, operations=tuple(operations)))
        if len(smaller.operations) < len(function.operations):
            cuts.append(smaller)
    yield from sorted(cuts, key=lambda each: len(each.operations))
    for number, operation in enumerate(function.operations):
        for other in _simpler(operation):
            operations = list(function.operations)
            operations[number] = other
            yield without_unused(replace(function, operations=tuple(operations)))


def _simpler(operation: p.Operation) -> Iterator[p.Operation]:
    if isinstance(operation, o.Elementwise) and len(operation.body) > 1:
        return
    if isinstance(operation, o.Elementwise) and operation.body != (e.Argument(0),):
        for part in list(e.subexpressions(operation.body[0]))[1:]:
            yield replace(operation, body=(part,))
    if isinstance(operation, p.Loop) and operation.count > 1:
        yield replace(operation, count=1)
    if isinstance(operation, o.Convolution) and not operation.named:
        yield replace(operation, named=True)


def _last_operation(function: p.Function, starts: list[int]) -> p.Operation:
    last = max(number for number, start in enumerate(starts) if start <= function.results[0])
    return function.operations[last]


def without_unused(function: p.Function) -> p.Function:
    """`function` without operations whose results nothing needs."""
    starts = [first for first, _ in p.numbered(function)]
    needed = set(function.results)
    kept = []
    types: list[Tensor] = []
    p.infer_block(function, types)
    ends = [*starts[1:], len(types)]
    for number in reversed(range(len(starts))):
        if needed & set(range(starts[number], ends[number])):
            kept.append(number)
            needed.update(used_values(function.operations[number]))
    kept.reverse()
    numbers: dict[int, int] = {}
    count = 0
    operations: list[p.Operation] = []
    for number in kept:
        operations.append(renumbered(function.operations[number], numbers, starts[number], count))
        for value in range(starts[number], ends[number]):
            numbers[value] = count
            count += 1
    return replace(
        function,
        operations=tuple(operations),
        results=tuple(numbers[result] for result in function.results),
    )


def used_values(operation: p.Operation) -> list[int]:
    """All values that `operation` uses, in its blocks, too; those of the blocks among them."""
    found = list(operation.operands)
    for field in fields(operation):
        value = getattr(operation, field.name)
        if isinstance(value, p.Block):
            found.extend(value.results)
            for inner in value.operations:
                found.extend(used_values(inner))
    return found


def renumbered(node: Node, numbers: Mapping[int, int], former: int, count: int) -> Node:
    """`node` with other values: those from `former` on start at `count`, those before have new `numbers`."""

    def value(number: int) -> int:
        return number - former + count if number >= former else numbers[number]

    if isinstance(node, e.Captured):
        return e.Captured(value(node.value))
    if isinstance(node, e.Apply):
        return replace(
            node, operands=tuple(renumbered(each, numbers, former, count) for each in node.operands)
        )
    changes: dict[str, Any] = {}
    for field in fields(node):
        content = getattr(node, field.name)
        if field.name in VALUES and content is not None:
            changes[field.name] = tuple(map(value, content)) if isinstance(content, tuple) else value(content)
        elif isinstance(content, p.Block):
            changes[field.name] = renumbered(content, numbers, former, count)
        elif field.name in ("operations", "body") and isinstance(content, tuple):
            changes[field.name] = tuple(renumbered(each, numbers, former, count) for each in content)
    return replace(node, **changes) if changes else node


VALUES = ("source", "sources", "left", "right", "filter", "init", "target", "initial", "condition", "results")
"""The fields of operations and blocks that hold values."""
