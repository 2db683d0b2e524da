"""The types of a program's functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

# Element types have parameters of their own, as in `tensor<4xcomplex<f32>>`.
_VALUE = re.compile(r"%\w+: (?:tensor<((?:[^<>]|<[^<>]*>)*)>|[^,]+)")
_TENSOR = re.compile(r"(?P<sizes>(?:(?:\d+|\?)x)*)(?P<element_type>.+)")
_DECLARATION = re.compile(r"sync func @[^(]*\((.*)\) -> \((.*)\)")


@dataclass(frozen=True)
class TensorSignature:
    """The type of an argument or a result: a size of None is dynamic, `element_type` is MLIR's ("f32").

    `name` is what the model called it, if it did.
    """

    shape: tuple[int | None, ...]
    element_type: str
    name: str | None = None

    def __post_init__(self) -> None:
        if any(size is not None and size < 0 for size in self.shape):
            raise ValueError(f"sizes must not be negative, got {self.shape}")

    def accepts(self, shape: Sequence[int]) -> bool:
        """Whether an array of this shape is one."""
        return len(shape) == len(self.shape) and all(
            expected is None or size == expected for size, expected in zip(shape, self.shape, strict=True)
        )

    def __str__(self) -> str:
        sizes = "".join(f"{'?' if size is None else size}x" for size in self.shape)
        return f"tensor<{sizes}{self.element_type}>"


@dataclass(frozen=True)
class FunctionSignature:
    """The types of a function's arguments and results."""

    inputs: tuple[TensorSignature, ...]
    outputs: tuple[TensorSignature, ...]


def parse_declaration(
    declaration: str, input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None
) -> FunctionSignature | None:
    """The types in IREE's `iree.abi.declaration` of a compiled function, with these names.

    None if the function isn't one that is called synchronously with nothing but tensors. An example:
    `sync func @main(%input0: tensor<?x64xf32>) -> (%output0: tensor<?x64xf32>)`.
    """
    match = _DECLARATION.match(declaration)
    if match is None:
        return None
    sides = []
    for side, names in zip(match.groups(), (input_names, output_names), strict=True):
        values = [_parse_tensor(body) for body in _VALUE.findall(side)]
        tensors = tuple(value for value in values if value is not None)
        if len(tensors) != len(values):
            return None
        sides.append(tensors if names is None else named(tensors, names))
    return FunctionSignature(inputs=sides[0], outputs=sides[1])


def named(tensors: Sequence[TensorSignature], names: Sequence[str]) -> tuple[TensorSignature, ...]:
    """`tensors` with their `names`."""
    return tuple(replace(tensor, name=name) for tensor, name in zip(tensors, names, strict=True))


def _parse_tensor(body: str) -> TensorSignature | None:
    match = _TENSOR.fullmatch(body)
    if match is None:
        return None
    sizes = (None if size == "?" else int(size) for size in match["sizes"].split("x")[:-1])
    return TensorSignature(tuple(sizes), match["element_type"])
