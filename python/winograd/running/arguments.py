"""Arguments of a program, as a command line describes them."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.errors import InvalidOptionError
from iree.winograd.loading.element_types import types_of_mlir
from iree.winograd.loading.signatures import TensorSignature
from iree.winograd.running.images import IMAGE_SUFFIXES, Pixels, read_image

Array = npt.NDArray[Any]

PIXELS = Pixels()
_RAW_SUFFIXES = (".raw", ".bin")
_SUFFIXES = (".npy", ".npz", *_RAW_SUFFIXES, *IMAGE_SUFFIXES)
_SIZES = re.compile(r"\d+(x\d+)*|")
_TYPED = re.compile(r"(?P<sizes>(?:\d+(?:x\d+)*)?)(?:(?:^|x)(?P<element_type>[a-z]\w*))?")


def arguments_of(
    inputs: Sequence[TensorSignature], descriptions: Sequence[str], pixels: Pixels = PIXELS
) -> list[Array]:
    """An array for each of `inputs`.

    A description is `NAME=WHAT`, or `WHAT` for the first input that has none yet; `WHAT` is a file or sizes,
    such as `1x3x224x224`, of a random array. Files are a `.npy`, an image, a `.raw` or `.bin` with the bytes
    of the elements alone, or a `.npz`: without a name that is for all inputs that are called as its arrays
    are. Inputs without a description are random, and sizes that they leave open are 1. Raises
    `InvalidOptionError` for descriptions that aren't like that, for names that no input has, sizes that an
    input can't have, and files that can't be read.
    """
    labels = [label(signature, number) for number, signature in enumerate(inputs)]
    chosen: dict[int, str | Array] = {}

    def choose(number: int, what: str | Array) -> None:
        if number in chosen:
            raise InvalidOptionError(f"input {labels[number]!r} is given twice")
        chosen[number] = what

    for description in descriptions:
        name, equals, what = description.rpartition("=")
        if what.endswith(".npz"):
            for key, array in _arrays(what, name, labels).items():
                choose(_numbered(labels, key), array)
        else:
            number = _numbered(labels, name) if equals else _first_open(len(inputs), chosen, description)
            choose(number, what)
    generator = np.random.default_rng(0)
    return [
        _array(signature, chosen.get(number), generator, labels[number], pixels)
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


def _numbered(labels: Sequence[str], name: str) -> int:
    if name not in labels:
        raise InvalidOptionError(f"the program has no input {name!r}, only {', '.join(labels) or 'none'}")
    return labels.index(name)


def _first_open(count: int, chosen: Collection[int], description: str) -> int:
    number = next((number for number in range(count) if number not in chosen), None)
    if number is None:
        raise InvalidOptionError(f"the program has {count} input(s), none for {description!r}")
    return number


def _array(
    signature: TensorSignature,
    what: str | Array | None,
    generator: np.random.Generator,
    name: str,
    pixels: Pixels,
) -> Array:
    if isinstance(what, np.ndarray):
        return what
    suffix = "" if what is None else Path(what).suffix.lower()
    if what is not None and suffix == ".npy":
        return _load(what)
    if what is not None and suffix in _RAW_SUFFIXES:
        return _load_raw(what, signature, name)
    if what is not None and suffix in IMAGE_SUFFIXES:
        return read_image(what, signature, name, pixels)
    if what is None:
        shape = tuple(1 if size is None else size for size in signature.shape)
    elif _SIZES.fullmatch(what):
        shape = tuple(map(int, filter(None, what.split("x"))))
    else:
        raise InvalidOptionError(
            f"input {name}: {what!r} is neither sizes like 1x3x224x224 nor one of {', '.join(_SUFFIXES)}"
        )
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


def _arrays(path: str, name: str, labels: Sequence[str]) -> dict[str, Array]:
    """What a `.npz` holds for the input `name`, or by their names for inputs, if that is empty."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, Array] = dict(file)
    except OSError as error:
        raise InvalidOptionError(f"cannot read '{path}': {error.strerror or error}") from None
    except (ValueError, EOFError, MemoryError, AttributeError, TypeError, zipfile.BadZipFile):
        raise InvalidOptionError(f"'{path}' holds no arrays that numpy saved") from None
    held = ", ".join(arrays) or "none"
    if name and name in arrays:
        return {name: arrays[name]}
    if name and len(arrays) == 1:
        return dict(zip([name], arrays.values(), strict=True))
    found = {} if name else {key: array for key, array in arrays.items() if key in labels}
    if not found:
        wanted = name or " or ".join(labels)
        raise InvalidOptionError(f"'{path}' has no array {wanted}, only {held}")
    return found


def _load_raw(path: str, signature: TensorSignature, name: str) -> Array:
    dtype = types_of_mlir(signature.element_type)[0].dtype
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidOptionError(f"cannot read '{path}': {error.strerror or error}") from None
    fixed = dtype.itemsize * prod(size for size in signature.shape if size is not None)
    is_open = [size is None for size in signature.shape]
    if sum(is_open) > 1 or len(content) % fixed or (not any(is_open) and len(content) != fixed):
        raise InvalidOptionError(f"input {name} must be {signature}, '{path}' has {len(content)} bytes")
    shape = tuple(len(content) // fixed if size is None else size for size in signature.shape)
    array: Array = np.frombuffer(content, dtype).reshape(shape).copy()
    return array
