"""Arguments of a program, as a command line describes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.errors import InvalidOptionError
from iree.winograd.loading.element_types import types_of_mlir
from iree.winograd.loading.signatures import TensorSignature

Array = npt.NDArray[Any]

_SIZES = re.compile(r"\d+(x\d+)*|")
_TYPED = re.compile(r"(?P<sizes>(?:\d+(?:x\d+)*)?)(?:(?:^|x)(?P<element_type>[a-z]\w*))?")


def arguments_of(inputs: Sequence[TensorSignature], descriptions: Sequence[str]) -> list[Array]:
    """An array for each of `inputs`.

    A description is `NAME=WHAT`, or `WHAT` for the first input that has none yet; `WHAT` is the path of a
    `.npy` file or sizes, such as `1x3x224x224`, of a random array. Inputs without one are random, and sizes
    that they leave open are 1. Raises `InvalidOptionError` for descriptions that aren't like that, for names
    that no input has, sizes that an input can't have, and files that can't be read.
    """
    chosen: dict[int, str] = {}
    for description in descriptions:
        name, equals, what = description.rpartition("=")
        number = _numbered(inputs, name) if equals else _first_open(len(inputs), chosen, description)
        if number in chosen:
            raise InvalidOptionError(f"input {name!r} is given twice")
        chosen[number] = what
    generator = np.random.default_rng(0)
    return [
        _array(signature, chosen.get(number), generator, label(signature, number))
        for number, signature in enumerate(inputs)
    ]


def stated_arguments(count: int, descriptions: Sequence[str]) -> list[Array]:
    """Arrays for a function that tells how many it takes, and not of which types.

    A description is the path of a `.npy` file, or sizes and an element type of MLIR's, f32 unless it is
    given, of a random array: `1x3x224x224`, `1x128xi64`. Raises `InvalidOptionError` for others, for another
    number of them, and for files that can't be read.
    """
    if len(descriptions) != count:
        raise InvalidOptionError(
            f"the program takes {count} array(s) and doesn't tell of which types: state each by "
            "--input, as a .npy file or as 1x3x224x224xf32; with wrong sizes it says which it expects"
        )
    generator = np.random.default_rng(0)
    return [_stated(number, what, generator) for number, what in enumerate(descriptions)]


def _stated(number: int, what: str, generator: np.random.Generator) -> Array:
    if what.endswith(".npy"):
        return _load(what)
    match = _TYPED.fullmatch(what)
    types = () if match is None else types_of_mlir(match["element_type"] or "f32")
    if match is None or not types:
        raise InvalidOptionError(
            f"input {number}: {what!r} is neither a .npy file nor sizes and a type like 1x3x224x224xf32"
        )
    sizes = tuple(map(int, filter(None, match["sizes"].split("x"))))
    return _random(sizes, types[0].dtype, generator, str(number))


def label(signature: TensorSignature | None, number: int) -> str:
    """What an input or output is called: by its name, or else by its number."""
    return str(number) if signature is None or signature.name is None else signature.name


def _numbered(inputs: Sequence[TensorSignature], name: str) -> int:
    labels = [label(signature, number) for number, signature in enumerate(inputs)]
    if name not in labels:
        raise InvalidOptionError(f"the program has no input {name!r}, only {', '.join(labels) or 'none'}")
    return labels.index(name)


def _first_open(count: int, chosen: dict[int, str], description: str) -> int:
    number = next((number for number in range(count) if number not in chosen), None)
    if number is None:
        raise InvalidOptionError(f"the program has {count} input(s), none for {description!r}")
    return number


def _array(signature: TensorSignature, what: str | None, generator: np.random.Generator, name: str) -> Array:
    if what is not None and what.endswith(".npy"):
        return _load(what)
    if what is None:
        shape = tuple(1 if size is None else size for size in signature.shape)
    elif _SIZES.fullmatch(what):
        shape = tuple(map(int, filter(None, what.split("x"))))
    else:
        raise InvalidOptionError(f"input {name}: {what!r} is neither a .npy file nor sizes like 1x3x224x224")
    if not signature.accepts(shape):
        raise InvalidOptionError(f"input {name} must be {signature}, not of sizes {what}")
    return _random(shape, types_of_mlir(signature.element_type)[0].dtype, generator, name)


def _random(shape: tuple[int, ...], dtype: np.dtype[Any], generator: np.random.Generator, name: str) -> Array:
    """Raises `InvalidOptionError` where memory doesn't hold it."""
    try:
        return _numbers(shape, dtype, generator)
    except (MemoryError, ValueError):
        sizes = "x".join(map(str, shape))
        raise InvalidOptionError(f"input {name}: {sizes} are more elements than memory holds") from None


def _numbers(shape: tuple[int, ...], dtype: np.dtype[Any], generator: np.random.Generator) -> Array:
    if dtype.kind == "c":
        parts = generator.standard_normal((2, *shape))
        return np.asarray(parts[0] + 1j * parts[1], dtype)
    # Those of ml_dtypes are of a kind of their own.
    if dtype.kind in "fV":
        return generator.standard_normal(shape).astype(dtype)
    # Whatever they count or index, these are within it.
    return generator.integers(0, 2, shape).astype(dtype)


def _load(path: str) -> Array:
    try:
        with open(path, "rb") as file:
            array: Array = np.lib.format.read_array(file, allow_pickle=False)
    except OSError as error:
        raise InvalidOptionError(f"cannot read '{path}': {error.strerror or error}") from None
    except (ValueError, EOFError, MemoryError):
        raise InvalidOptionError(f"'{path}' is no array that numpy saved") from None
    return array
