"""`LSTM`, `GRU` and `RNN` step by step: one product of the inputs of all steps, then one of each state.

torch exports its own so. torch-mlir multiplies the inputs of a step, and its state, by the weights of each
gate alone; lengths of sequences, peepholes and activations it leaves out, and most directions it refuses.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from iree.winograd.importers.onnx_nodes.recurrent_cells import CELLS, Cell, State
from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting, Size

_INPUTS, _WEIGHTS, _RECURRENT_WEIGHTS, _BIAS, _LENGTHS, _STATE, _CELL, _PEEPHOLES = range(8)
"""The indices of operands."""

_ACTIVATIONS = {name.lower(): name for name in ("Relu", "Sigmoid", "Tanh")}
"""Operators of functions without parameters, by their names in lower case."""

_MAX_STEPS = 1024
"""Of longer sequences torch-mlir makes a loop."""


@rewrites(*CELLS)
def recurrent(rewriting: Rewriting) -> None:
    """Computes all steps, of each direction; refuses what torch-mlir's loop would have wrong."""
    for attribute in ("clip", "input_forget"):
        if rewriting.attributes.get(attribute):
            rewriting.refuse(f"the attribute {attribute!r}")
    batches_first = bool(rewriting.attributes.get("layout", 0))
    shape = rewriting.shape(rewriting.node.input[_INPUTS])
    steps = None if shape is None else shape[int(batches_first)]
    activations = _activations(rewriting)
    lengths = _lengths(rewriting, steps)
    if steps is not None and steps <= _MAX_STEPS:
        _Layer(rewriting, steps, lengths, activations, batches_first).write()
        return
    are_default = activations == CELLS[rewriting.node.op_type].activations * _directions(rewriting)
    if lengths is not None or rewriting.operand(_PEEPHOLES) is not None or not are_default:
        rewriting.refuse("lengths, peepholes or activations, where steps are unknown or many")


def _directions(rewriting: Rewriting) -> int:
    return 2 if rewriting.text("direction", "forward") == "bidirectional" else 1


def _activations(rewriting: Rewriting) -> tuple[str, ...]:
    """Those of all directions, as operators."""
    given = tuple(name.decode() for name in rewriting.attributes.get("activations", ()))
    names = given or CELLS[rewriting.node.op_type].activations * _directions(rewriting)
    if unknown := [name for name in names if name.lower() not in _ACTIVATIONS]:
        rewriting.refuse(f"the activation {unknown[0]!r}")
    return tuple(_ACTIVATIONS[name.lower()] for name in names)


def _lengths(rewriting: Rewriting, steps: int | None) -> str | None:
    """The numbers of steps of a batch's sequences; None where all have `steps`."""
    name, known = rewriting.operand(_LENGTHS), rewriting.constant(_LENGTHS)
    return None if known is not None and steps is not None and (known == steps).all() else name


class _Layer:
    """The node as a whole. Within, steps come first: inputs T x N x I, a state N x H."""

    def __init__(
        self,
        rewriting: Rewriting,
        steps: int,
        lengths: str | None,
        activations: tuple[str, ...],
        batches_first: bool,
    ) -> None:
        self.rewriting = rewriting
        self.steps = steps
        self.lengths = lengths
        self.activations = activations
        self.batches_first = batches_first
        self.size = rewriting.known_shape(_RECURRENT_WEIGHTS)[-1]
        self.batch: Size = rewriting.sizes(rewriting.node.input[_INPUTS])[0 if batches_first else 1]

    def write(self) -> None:
        """Adds the nodes."""
        results = zip(*map(self._direction, range(_directions(self.rewriting))), strict=True)
        for name, parts in zip(self.rewriting.node.output, results, strict=False):
            if name:
                self._write_result(name, parts)

    def _direction(self, direction: int) -> list[str]:
        """The outputs T x 1 x N x H of one direction, and its last state, 1 x N x H each."""
        cell, state = self._cell(direction), self._initial(direction)
        gates = cell.of_inputs(self._inputs(), self.steps, self.batch)
        outputs = {}
        for step in self._order(direction):
            row = self.rewriting.reshape(cell.part(gates, step, step + 1, axis=0), [self.batch, cell.columns])
            outputs[step], state = self._within_length(step, cell.next(row, state), state)
        all_outputs = [
            self.rewriting.reshape(outputs[step], [1, 1, self.batch, self.size]) for step in range(self.steps)
        ]
        last = [self.rewriting.reshape(each, [1, self.batch, self.size]) for each in state if each]
        return [self.rewriting.add("Concat", *all_outputs, axis=0), *last]

    def _order(self, direction: int) -> Iterator[int]:
        is_backward = direction == 1 or self.rewriting.text("direction", "forward") == "reverse"
        return iter(range(self.steps)[:: -1 if is_backward else 1])

    def _within_length(self, step: int, new: State, old: State) -> tuple[str, State]:
        """The output of a step and the state after it: zero, and `old`, past the end of a sequence."""
        output = new[0]
        assert output is not None, "a step has an output"
        if self.lengths is None:
            return output, new
        add, zero = self.rewriting.add, self.rewriting.scalar_like(0, self.rewriting.node.input[_INPUTS])
        is_within = add("Greater", self.lengths, self.rewriting.constant_of(step, np.int32))
        mask = self.rewriting.reshape(is_within, [self.batch, 1])

        def kept(index: int) -> str | None:
            after = new[index]
            return None if after is None else add("Where", mask, after, old[index] or zero)

        return add("Where", mask, output, zero), (kept(0), kept(1))

    def _cell(self, direction: int) -> Cell:
        kind = CELLS[self.rewriting.node.op_type]
        count = len(kind.activations)
        weights, recurrent_weights = (
            self._weights(_WEIGHTS, direction),
            self._weights(_RECURRENT_WEIGHTS, direction),
        )
        assert weights and recurrent_weights, "a layer has weights"
        return kind(
            self.rewriting,
            self.size,
            weights,
            recurrent_weights,
            self._weights(_BIAS, direction),
            self._weights(_PEEPHOLES, direction),
            self.activations[direction * count : (direction + 1) * count],
        )

    def _weights(self, index: int, direction: int) -> str | None:
        """Those of one direction."""
        name = self.rewriting.operand(index)
        if name is None:
            return None
        sizes = self.rewriting.known_shape(index)
        return self._of_direction(name, direction, 0, sizes[1:])

    def _initial(self, direction: int) -> State:
        """The state before the first step, None for zeros."""
        return self._initial_of(_STATE, direction), self._initial_of(_CELL, direction)

    def _initial_of(self, index: int, direction: int) -> str | None:
        name, axis = self.rewriting.operand(index), int(self.batches_first)
        return name and self._of_direction(name, direction, axis, [self.batch, self.size])

    def _of_direction(self, name: str, direction: int, axis: int, sizes: list[Size] | tuple[int, ...]) -> str:
        if _directions(self.rewriting) > 1:
            bounds = ([direction], [direction + 1], [axis])
            name = self.rewriting.add(
                "Slice", name, *(self.rewriting.constant_of(each, np.int64) for each in bounds)
            )
        return self.rewriting.reshape(name, list(sizes))

    def _inputs(self) -> str:
        inputs = self.rewriting.node.input[_INPUTS]
        return self.rewriting.add("Transpose", inputs, perm=[1, 0, 2]) if self.batches_first else inputs

    def _write_result(self, name: str, parts: tuple[str, ...]) -> None:
        """Joins the directions: outputs are T x D x N x H, states D x N x H, or with batches first."""
        rank = 4 if name == self.rewriting.node.output[0] else 3
        into = None if self.batches_first else name
        joined = self.rewriting.add("Concat", *parts, axis=rank - 3, into=into)
        if self.batches_first:
            order = [2, 0, 1, 3] if rank == 4 else [1, 0, 2]
            self.rewriting.add("Transpose", joined, perm=order, into=name)
