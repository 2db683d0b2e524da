"""Arguments of a program that are read from image files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.errors import InvalidOptionError
from iree.winograd.loading.element_types import types_of_mlir
from iree.winograd.loading.signatures import TensorSignature

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_MODES = {1: "L", 3: "RGB"}
"""What Pillow calls images of so many channels."""


@dataclass(frozen=True)
class Pixels:
    """How pixels become elements: of floats p / 255, less `mean`, over `deviation`, both for each channel.

    Integers are pixels as they are, from 0 to 255.
    """

    mean: Sequence[float] = (0.0,)
    deviation: Sequence[float] = (1.0,)


def read_image(path: str, signature: TensorSignature, name: str, pixels: Pixels) -> npt.NDArray[Any]:
    """The image in a file as the input `name`, repeated for a batch. It isn't resized.

    Raises `InvalidOptionError` where the input isn't one of images with one or three channels, first or last,
    the file can't be read or has other sizes, and where Pillow isn't installed.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise InvalidOptionError("reading images needs Pillow (`pip install pillow`)") from None
    shape, channels_first = signature.shape, _has_channels_first(signature, name)
    channels = shape[-3] if channels_first else shape[-1]
    height, width = shape[-2:] if channels_first else shape[-3:-1]
    assert channels is not None
    try:
        with Image.open(path) as image:
            array = np.asarray(image.convert(_MODES[channels]))
    except UnidentifiedImageError:
        raise InvalidOptionError(f"'{path}' is no image that Pillow reads") from None
    except OSError as error:
        raise InvalidOptionError(f"cannot read '{path}': {error.strerror or error}") from None
    found = array.shape[:2]
    if any(wanted not in (None, size) for wanted, size in zip((height, width), found, strict=True)):
        wanted = " x ".join("any" if size is None else str(size) for size in (width, height))
        raise InvalidOptionError(
            f"input {name} takes images of {wanted} pixels (width x height), '{path}' has {found[1]} x "
            f"{found[0]}: resize it before, as the model's training did"
        )
    elements = _elements(array.reshape(*found, channels), signature, name, pixels)
    if channels_first:
        elements = elements.transpose(2, 0, 1)
    batch = shape[:-3]
    return np.ascontiguousarray(np.broadcast_to(elements, (*(size or 1 for size in batch), *elements.shape)))


def _has_channels_first(signature: TensorSignature, name: str) -> bool:
    shape = signature.shape
    if len(shape) in (3, 4):
        if shape[-3] in _MODES:
            return True
        if shape[-1] in _MODES:
            return False
    raise InvalidOptionError(f"input {name} is {signature}, no image of one or three channels")


def _elements(
    array: npt.NDArray[np.uint8], signature: TensorSignature, name: str, pixels: Pixels
) -> npt.NDArray[Any]:
    """Height x width x channels."""
    dtype = types_of_mlir(signature.element_type)[0].dtype
    # Those of ml_dtypes are of a kind of their own.
    if dtype.kind not in "fV":
        return array.astype(dtype)
    channels = array.shape[-1]
    for each in (pixels.mean, pixels.deviation):
        if len(each) not in (1, channels):
            raise InvalidOptionError(f"input {name} has {channels} channel(s), not {len(each)}")
    scaled = (array / 255.0 - np.asarray(pixels.mean)) / np.asarray(pixels.deviation)
    elements: npt.NDArray[Any] = scaled.astype(dtype)
    return elements
