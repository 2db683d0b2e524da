"""The types of a program's functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

# Element types have parameters of their own, as in `tensor<4xcomplex<f32>>`.
_VALUE = re.compile(r"%\w+: (tensor<(?:[^<>]|<[^<>]*>)*>|[^,]+)")
_TENSOR = re.compile(r"tensor<(?P<sizes>(?:(?:\d+|\?)x)*)(?P<element_type>.+)>")
_CALL = re.compile(r"\(0(\w*)_\w*")
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
        if len(shape) != len(self.shape):
            return False
        # Every call asks: a loop takes half as long as a generator does.
        for size, expected in zip(shape, self.shape, strict=True):
            if expected is not None and size != expected:
                return False
        return True

    def __str__(self) -> str:
        sizes = "".join(f"{'?' if size is None else size}x" for size in self.shape)
        return f"tensor<{sizes}{self.element_type}>"


@dataclass(frozen=True)
class FunctionSignature:
    """The types of a function's arguments and results."""

    inputs: tuple[TensorSignature, ...]
    outputs: tuple[TensorSignature, ...]


class SignatureError(Exception):
    """A function can't be called on arrays."""


def count_arrays(function: str) -> int:
    """How many arguments a function takes that the runtime prints as `<VmFunction main(0rr_r), ...>`.

    Raises `SignatureError` if one of them isn't an array: `r` stands for an object, `v` for none.
    """
    match = _CALL.search(function)
    arguments = "" if match is None else match[1].replace("v", "")
    if match is None or arguments.strip("r"):
        raise SignatureError("it takes something other than arrays")
    return len(arguments)


def parse_declaration(
    declaration: str,
    input_names: Sequence[str | None] | None = None,
    output_names: Sequence[str | None] | None = None,
) -> FunctionSignature:
    """The types in IREE's `iree.abi.declaration` of a compiled function, with these names.

    An example: `sync func @main(%input0: tensor<?x64xf32>) -> (%output0: tensor<?x64xf32>)`. Raises
    `SignatureError` if the function isn't one that is called synchronously with nothing but tensors.
    """
    match = _DECLARATION.match(declaration)
    if match is None:
        raise SignatureError("it isn't called synchronously")
    inputs, outputs = match.groups()
    return FunctionSignature(
        inputs=_parse_side("argument", inputs, input_names),
        outputs=_parse_side("result", outputs, output_names),
    )


def _parse_side(kind: str, side: str, names: Sequence[str | None] | None) -> tuple[TensorSignature, ...]:
    tensors = tuple(
        _parse_tensor(f"{kind} {index}", value) for index, value in enumerate(_VALUE.findall(side))
    )
    return tensors if names is None else named(tensors, names)


def named(tensors: Sequence[TensorSignature], names: Sequence[str | None]) -> tuple[TensorSignature, ...]:
    """`tensors` with their `names`."""
    return tuple(replace(tensor, name=name) for tensor, name in zip(tensors, names, strict=True))


def _parse_tensor(place: str, value: str) -> TensorSignature:
    match = _TENSOR.fullmatch(value)
    if match is None:
        raise SignatureError(f"{place} is {value}, no tensor")
    sizes = (None if size == "?" else int(size) for size in match["sizes"].split("x")[:-1])
    return TensorSignature(tuple(sizes), match["element_type"])
