"""What a step of a recurrent layer computes, of its inputs and the state before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, TypeAlias

import numpy as np
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting, Size

State: TypeAlias = tuple[str | None, str | None]
"""What goes from step to step, N x H each: an output, and the cell of an LSTM; None for zeros."""


class Cell(ABC):
    """One direction of a layer of H = `size` units: weights are gates*H x I, gates*H x H, biases 2*gates*H.

    ONNX's order of gates is kept; `recurrent.py` names the operands.
    """

    gates: ClassVar[int]
    activations: ClassVar[tuple[str, ...]]
    """Those that are meant where a node names none."""

    def __init__(
        self,
        rewriting: Rewriting,
        size: int,
        weights: str,
        recurrent_weights: str,
        bias: str | None,
        peepholes: str | None,
        activations: tuple[str, ...],
    ) -> None:
        self.rewriting = rewriting
        self.size = size
        self.columns = self.gates * size
        self.weights = weights
        self.recurrent_weights = recurrent_weights
        self.peepholes = peepholes
        self.functions = activations
        self.input_bias = bias and self.part(bias, 0, self.columns, axis=0)
        self.state_bias = bias and self.part(bias, self.columns, 2 * self.columns, axis=0)

    @abstractmethod
    def next(self, row: str, state: State) -> State:
        """The state after a step, of `row` of its inputs' products, N x gates*H, and the state before."""

    def of_inputs(self, inputs: str, steps: int, batch: Size) -> str:
        """All steps' products of inputs, T x N x gates*H, with the biases that are added to them."""
        rows = self.rewriting.reshape(
            inputs, [self.rewriting.product(steps, batch), self._input_size(inputs)]
        )
        product = self._product(rows, self.weights, self._bias_of_inputs())
        return self.rewriting.reshape(product, [steps, batch, self.columns])

    def part(self, name: str, start: int, end: int, axis: int) -> str:
        """The elements from `start` to `end` along a dimension."""
        bounds = (self.rewriting.constant_of([each], np.int64) for each in (start, end, axis))
        return self.rewriting.add("Slice", name, *bounds)

    def _bias_of_inputs(self) -> str | None:
        if self.input_bias is None or self.state_bias is None:
            return None
        return self.rewriting.add("Add", self.input_bias, self.state_bias)

    def _input_size(self, inputs: str) -> int:
        shape = self.rewriting.shape(self.weights)
        assert shape is not None and shape[-1] is not None, "weights have known sizes"
        return shape[-1]

    def _product(self, rows: str, matrix: str, added: str | None) -> str:
        """`rows` times `matrix`, transposed, and what is added to it."""
        return self.rewriting.add("Gemm", rows, matrix, *([added] if added else []), transB=1)

    def _with_state(self, row: str, state: str | None) -> str:
        return row if state is None else self._product(state, self.recurrent_weights, row)

    def _gate(self, row: str, gate: int) -> str:
        return self.part(row, gate * self.size, (gate + 1) * self.size, axis=1)


class _Rnn(Cell):
    gates = 1
    activations = ("Tanh",)

    def next(self, row: str, state: State) -> State:
        return self.rewriting.add(self.functions[0], self._with_state(row, state[0])), None


class _Lstm(Cell):
    """Gates: input, output, forget, cell; peepholes to the first three."""

    gates = 4
    activations = ("Sigmoid", "Tanh", "Tanh")

    def next(self, row: str, state: State) -> State:
        add, (of_gates, of_cell, of_output) = self.rewriting.add, self.functions
        sums = self._with_state(row, state[0])
        before = state[1]
        kept = add(of_gates, self._peeping(sums, 0, before))
        cell = add("Mul", kept, add(of_cell, self._gate(sums, 3)))
        if before is not None:
            cell = add("Add", add("Mul", add(of_gates, self._peeping(sums, 2, before)), before), cell)
        output = add(of_gates, self._peeping(sums, 1, cell))
        return add("Mul", output, add(of_output, cell)), cell

    def _peeping(self, sums: str, gate: int, cell: str | None) -> str:
        own = self._gate(sums, gate)
        if self.peepholes is None or cell is None:
            return own
        weights = self.part(self.peepholes, gate * self.size, (gate + 1) * self.size, axis=0)
        return self.rewriting.add("Add", own, self.rewriting.add("Mul", weights, cell))


class _Gru(Cell):
    """Gates: update, reset, hidden. What is reset is the state or, as torch has it, its product."""

    gates = 3
    activations = ("Sigmoid", "Tanh")

    def next(self, row: str, state: State) -> State:
        before, add = state[0], self.rewriting.add
        new = self._resetting_product if self._resets_products else self._resetting_state
        update, hidden = new(row, before)
        if before is None:
            return add("Sub", hidden, add("Mul", update, hidden)), None
        return add("Add", hidden, add("Mul", update, add("Sub", before, hidden))), None

    @property
    def _resets_products(self) -> bool:
        return bool(self.rewriting.attributes.get("linear_before_reset", 0))

    def _bias_of_inputs(self) -> str | None:
        return self.input_bias if self._resets_products else super()._bias_of_inputs()

    def _resetting_state(self, row: str, before: str | None) -> tuple[str, str]:
        """The update and what is hidden: of `before` scaled by the reset."""
        add, rest = self.rewriting.add, self._gate(row, 2)
        if before is None:
            return add(self.functions[0], self._gate(row, 0)), add(self.functions[1], rest)
        both = self._product(
            before,
            self.part(self.recurrent_weights, 0, 2 * self.size, axis=0),
            self.part(row, 0, 2 * self.size, axis=1),
        )
        update, reset = (add(self.functions[0], self._gate(both, gate)) for gate in (0, 1))
        matrix = self.part(self.recurrent_weights, 2 * self.size, 3 * self.size, axis=0)
        return update, add(self.functions[1], self._product(add("Mul", reset, before), matrix, rest))

    def _resetting_product(self, row: str, before: str | None) -> tuple[str, str]:
        """The update and what is hidden: of the product of `before` scaled by the reset."""
        add, product = self.rewriting.add, self.state_bias
        if product is not None:
            product = self.rewriting.reshape(product, [1, self.columns])
        if before is not None:
            product = self._product(before, self.recurrent_weights, product)
        update, reset, hidden = (self._gate(row, gate) for gate in range(3))
        if product is not None:
            update, reset = (
                add("Add", each, self._gate(product, gate)) for gate, each in enumerate((update, reset))
            )
            scaled = add("Mul", add(self.functions[0], reset), self._gate(product, 2))
            hidden = add("Add", hidden, scaled)
        return add(self.functions[0], update), add(self.functions[1], hidden)


CELLS: Mapping[str, type[Cell]] = MappingProxyType({"GRU": _Gru, "LSTM": _Lstm, "RNN": _Rnn})
"""By the names of operators."""
