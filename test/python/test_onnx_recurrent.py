"""ONNX's `LSTM`, `GRU` and `RNN`: their forms against the operator's definition, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import iree.winograd as winograd
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from onnx import NodeProto, TensorProto, helper, numpy_helper
from wide import wide

Array = npt.NDArray[Any]

STEPS, BATCH, INPUTS, UNITS = 4, 3, 5, 6
LENGTHS = np.array([4, 1, 3], np.int32)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FUNCTIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
COMPUTED = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
}


@dataclass(frozen=True)
class Layer:
    """A node of one of the operators, with weights of its own."""

    operator: str
    direction: str = "forward"
    has_bias: bool = True
    has_state: bool = True
    has_lengths: bool = False
    has_peepholes: bool = False
    batches_first: bool = False
    resets_products: bool = False
    functions: tuple[str, ...] = ()

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    @cached_property
    def weights(self) -> dict[str, Array]:
        """Of rows whose magnitudes add up to less than 1, whatever their product's operand below 1 is."""
        generator = np.random.default_rng(7)
        gates, d = GATES[self.operator], self.directions

        def numbers(*shape: int) -> Array:
            return (generator.uniform(-1, 1, shape) / max(INPUTS, UNITS)).astype(np.float32)

        found = {"W": numbers(d, gates * UNITS, INPUTS), "R": numbers(d, gates * UNITS, UNITS)}
        if self.has_bias:
            found["B"] = numbers(d, 2 * gates * UNITS)
        if self.has_lengths:
            found["lengths"] = LENGTHS
        if self.has_state:
            found["state"] = numbers(d, BATCH, UNITS)
            if self.operator == "LSTM":
                found["cell"] = numbers(d, BATCH, UNITS)
        if self.has_peepholes:
            found["P"] = numbers(d, 3 * UNITS)
        return found

    def node(self, number: int) -> NodeProto:
        """The node that reads `inputs`, or `batches` where these come first, and its constants' names."""
        names = ("W", "R", "B", "lengths", "state", "cell", "P")
        operands = [f"{name} {number}" if name in self.weights else "" for name in names]
        attributes: dict[str, Any] = {"direction": self.direction, "hidden_size": UNITS}
        if self.batches_first:
            attributes["layout"] = 1
        if self.resets_products:
            attributes["linear_before_reset"] = 1
        if self.functions:
            attributes["activations"] = self.functions * self.directions
        if self.operator != "LSTM":
            operands = operands[:5]
        inputs = "batches" if self.batches_first else "inputs"
        return helper.make_node(self.operator, [inputs, *operands], self.results(number), **attributes)

    def results(self, number: int) -> list[str]:
        names = ("outputs", "state after", "cell after")
        return [f"{name} {number}" for name in names[: 3 if self.operator == "LSTM" else 2]]

    def constants(self, number: int) -> list[TensorProto]:
        def laid_out(name: str, array: Array) -> Array:
            is_state = self.batches_first and name in ("state", "cell")
            return np.ascontiguousarray(array.swapaxes(0, 1)) if is_state else array

        return [
            numpy_helper.from_array(laid_out(name, array), f"{name} {number}")
            for name, array in self.weights.items()
        ]

    def exact(self, inputs: Array) -> list[Array]:
        """By the definition, T x D x N x H and D x N x H, or with batches first."""
        parts = [self._direction(inputs.astype(np.float64), d) for d in range(self.directions)]
        outputs = np.stack([outputs for outputs, _ in parts], axis=1)
        states = [np.stack(each) for each in zip(*(state for _, state in parts), strict=True)]
        if self.batches_first:
            return [outputs.transpose(2, 0, 1, 3), *(each.swapaxes(0, 1) for each in states)]
        return [outputs, *states]

    def _direction(self, inputs: Array, d: int) -> tuple[Array, list[Array]]:
        own = {
            name: each if name == "lengths" else each[d].astype(float) for name, each in self.weights.items()
        }
        count = 2 if self.operator == "LSTM" else 1
        state = [own.get(name, np.zeros((BATCH, UNITS))) for name in ("state", "cell")[:count]]
        lengths = own.get("lengths", np.full(BATCH, STEPS))
        outputs = np.zeros((STEPS, BATCH, UNITS))
        is_backward = self.direction == "reverse" or d == 1
        for sequence in range(BATCH):
            steps = range(lengths[sequence])
            for step in reversed(steps) if is_backward else steps:
                new = self._step(inputs[step, sequence], [each[sequence] for each in state], own)
                outputs[step, sequence] = new[0]
                for before, after in zip(state, new, strict=True):
                    before[sequence] = after
        return outputs, state

    def _step(self, x: Array, state: Sequence[Array], own: dict[str, Array]) -> list[Array]:
        functions = [COMPUTED[name] for name in self.functions or FUNCTIONS[self.operator]]
        h, (weights, recurrent) = state[0], (own["W"], own["R"])
        bias = own.get("B", np.zeros(2 * len(weights)))
        of_input, of_state = weights @ x + bias[: len(weights)], recurrent @ h + bias[len(weights) :]
        if self.operator == "RNN":
            return [functions[0](of_input + of_state)]
        f, g = functions[:2]
        if self.operator == "GRU":
            z, r = (f(each) for each in np.split((of_input + of_state)[: 2 * UNITS], 2))
            last, bias_of_last = slice(2 * UNITS, None), bias[-UNITS:]
            reset = r * of_state[last] if self.resets_products else recurrent[last] @ (r * h) + bias_of_last
            return [(1 - z) * g(of_input[last] + reset) + z * h]
        i, o, forget, cell = np.split(of_input + of_state, 4)
        peepholes = np.split(own.get("P", np.zeros(3 * UNITS)), 3)
        c = f(forget + peepholes[2] * state[1]) * state[1] + f(i + peepholes[0] * state[1]) * g(cell)
        return [f(o + peepholes[1] * c) * functions[2](c), c]


LAYERS = (
    Layer("LSTM", has_state=False),
    Layer("LSTM", "bidirectional", has_bias=False),
    Layer("LSTM", "reverse", has_lengths=True, has_peepholes=True),
    Layer("LSTM", batches_first=True, functions=("Sigmoid", "Sigmoid", "Tanh")),
    Layer("GRU", "bidirectional", has_lengths=True),
    Layer("GRU", "reverse", has_state=False),
    Layer("GRU", "bidirectional", resets_products=True, batches_first=True),
    Layer("GRU", has_bias=False, has_state=False, resets_products=True),
    Layer("RNN", "bidirectional", has_state=False, has_lengths=True),
    Layer("RNN", functions=("Relu",)),
)


def model(layers: Sequence[Layer], steps: int | str = STEPS, **changed: Any) -> onnx.ModelProto:
    nodes = [layer.node(number) for number, layer in enumerate(layers)]
    for node in nodes:
        node.attribute.extend(helper.make_attribute(name, value) for name, value in changed.items())
    results = [name for number, layer in enumerate(layers) for name in layer.results(number)]
    transposition = helper.make_node("Transpose", ["inputs"], ["batches"], perm=[1, 0, 2])
    graph = helper.make_graph(
        [transposition, *nodes],
        "recurrent",
        [helper.make_tensor_value_info("inputs", TensorProto.FLOAT, [steps, BATCH, INPUTS])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        [each for number, layer in enumerate(layers) for each in layer.constants(number)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def error_bound() -> float:
    """What a state may be off by, where inputs and rows of weights are at most 1 in magnitude.

    A sum is at most as large as the steps, and 2. Functions have slopes of at most 1. A cell is at most as
    large as the steps that it is a sum of, and a gate's error comes in as often. What a GRU resets is two
    gates deep.
    """
    roundoff = UNIT_ROUNDOFF["float32"]
    of_sums = (INPUTS + UNITS + 4) * (STEPS + 2) * roundoff
    of_output = of_cell = 0.0
    for step in range(STEPS):
        of_gate = of_sums + of_output + 4 * roundoff
        of_cell += (step + 4) * of_gate
        of_output = of_cell + 2 * of_gate
    return of_output


@pytest.mark.parametrize(
    "layers", [LAYERS[2::3], *wide([LAYERS[::3], LAYERS[1::3]])], ids=["one of each operator", "more", "most"]
)
def test_layers_are_as_defined(layers: Sequence[Layer], tmp_path: Path) -> None:
    path = tmp_path / "recurrent.onnx"
    onnx.save(model(layers), path)
    inputs = np.random.default_rng(3).uniform(-1, 1, (STEPS, BATCH, INPUTS)).astype(np.float32)
    program = winograd.load(winograd.compile(winograd.import_onnx(path), threads=1), device="local-sync")
    expected = [each for layer in layers for each in layer.exact(inputs)]
    for result, exact in zip(program(inputs), expected, strict=True):
        np.testing.assert_allclose(np.asarray(result), exact, atol=error_bound(), rtol=0)


@pytest.mark.parametrize(
    ("layer", "changed"),
    [
        (Layer("LSTM", functions=("Sigmoid", "Affine", "Tanh")), {}),
        (Layer("RNN"), {"clip": 0.5}),
        (Layer("LSTM"), {"input_forget": 1}),
    ],
)
def test_what_is_refused(layer: Layer, changed: dict[str, Any]) -> None:
    with pytest.raises(
        winograd.ModelImportError, match=f"the operator {layer.operator} isn't supported with"
    ):
        winograd.import_onnx(model([layer], **changed))


def test_lengths_of_an_unknown_number_of_steps_are_refused() -> None:
    with pytest.raises(winograd.ModelImportError, match="where steps are unknown"):
        winograd.import_onnx(model([Layer("GRU", has_lengths=True)], steps="steps"))
