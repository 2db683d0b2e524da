"""Resizing of images that torch-mlir has no lowering for, or a wrong one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

Scales: TypeAlias = Sequence[float | None]
"""Of each spatial dimension, as the model states it; None where only the sizes count."""

MOST_PARTS = 64
"""Of a pixel, a power of two, that scales are multiples of which are multiplied by as fractions."""
_LINEAR = ("linear", "bilinear", "trilinear")
"""Torch's names of the mode in one to three dimensions."""
_MARGIN = 2.0**-10
"""Of a pixel: more than positions in images of thousands of pixels are rounded by."""


def by_sizes(
    operator: Callable[..., Any],
    resize: Callable[..., Any],
    image: Any,
    sizes: Sequence[int] | None,
    *more: Any,
) -> Any:
    """A `vec` operator, whose scales are a list or None, by `resize`, or else by `operator`.

    These take sizes and scales. An exported program doesn't decompose what a decomposition calls here.
    """
    *options, scales = more
    if sizes is None:
        spatial = image.shape[image.dim() - len(scales) :]
        sizes = [_scaled(size, scale) for size, scale in zip(spatial, scales, strict=True)]
    else:
        scales = []
    result = resize(image, sizes, *options, *scales)
    return operator(image, sizes, *options, *scales) if result is NotImplemented else result


def either(
    resize: Callable[..., Any], otherwise: Callable[..., Any] | None, image: Any, *options: Any
) -> Any:
    """What `resize` does, or `otherwise` where it gives NotImplemented; without that NotImplemented."""
    result = resize(image, *options)
    return otherwise(image, *options) if result is NotImplemented and otherwise is not None else result


def _left(*_: Any) -> Any:
    return NotImplemented


def linear_by_sizes(rank: int, image: Any, *options: Any) -> Any:
    """A `vec` operator by `linear`."""
    return by_sizes(_left, partial(linear, rank), image, *options)


def _scaled(size: int, scale: float) -> int:
    """`size * scale` rounded downwards. A size known only at run time stays one: `int` makes it a number."""
    numerator, denominator = scale.as_integer_ratio()
    if denominator <= MOST_PARTS:
        return size * numerator // denominator
    scaled: int = torch.sym_int(size * scale)  # type: ignore[no-untyped-call]
    return scaled


def nearest(rank: int, image: Any, sizes: Sequence[int], *scales: float | None) -> Any:
    """`aten.upsample_nearest*d`.

    torch-mlir reads other pixels. Images whose sizes are multiples it lowers rightly: NotImplemented. Where
    they are open, too, it finds each element by arithmetic in a form that no kernel is found for.
    """
    if any(isinstance(size, torch.SymInt) for size in sizes) and (factors := _whole_factors(image, sizes)):
        return _repeated(image, factors)
    if rank == 2 and _are_multiples(image, sizes):
        return NotImplemented
    return _read(image, sizes, scales, first=0.0)


def nearest_exact(rank: int, image: Any, sizes: Sequence[int], *scales: float | None) -> Any:
    """`aten._upsample_nearest_exact*d`, which is `aten.upsample_nearest*d` where sizes are multiples."""
    if rank == 2 and _are_multiples(image, sizes):
        result = nearest(rank, image, sizes)
        is_left = result is NotImplemented
        return torch.ops.aten.upsample_nearest2d.default(image, sizes) if is_left else result
    return _read(image, sizes, scales, first=0.5)


def _are_multiples(image: Any, sizes: Sequence[int]) -> bool:
    return all(statically_known_true(size % source == 0) for source, size in _along(image, sizes) if source)


def _whole_factors(image: Any, sizes: Sequence[int]) -> list[int] | None:
    """How many times an image's size is in each of `sizes`; None where that isn't a known whole number."""
    if not _are_multiples(image, sizes):
        return None
    factors = [size // source for source, size in _along(image, sizes)]
    known = [each.node.maybe_as_int() if isinstance(each, torch.SymInt) else each for each in factors]
    return None if None in known else known


def _along(image: Any, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The size of an image and the one that it gets, of each spatial dimension."""
    return zip(image.shape[image.dim() - len(sizes) :], sizes, strict=True)


def _repeated(image: Any, factors: Sequence[int]) -> Any:
    """Each element so many times in each spatial dimension."""
    first = image.dim() - len(factors)
    for dimension, factor in enumerate(factors, start=first):
        if factor > 1:
            places = torch.arange(image.shape[dimension] * factor, device=image.device)
            image = image.index_select(dimension, places // factor)
    return image


def _read(image: Any, sizes: Sequence[int], scales: Scales, first: float) -> Any:
    spatial = range(image.dim() - len(sizes), image.dim())
    scales = [*scales, *[None] * (len(sizes) - len(scales))]
    for dimension, size, scale in zip(spatial, sizes, scales, strict=True):
        if image.shape[dimension] != size or scale:
            image = image.index_select(dimension, _positions(image, dimension, size, scale, first))
    return image


def _positions(image: Any, dimension: int, size: int, scale: float | None, first: float) -> Any:
    """Computed as torch does, in its precision: where a position is almost whole, rounding decides."""
    source = image.shape[dimension]
    dtype = torch.float64 if image.dtype == torch.float64 else torch.float32
    step = 1 / scale if scale else source / size
    if dtype == torch.float32 and isinstance(step, float):
        # IREE rounds constants of f64 towards zero where it makes them f32.
        step = float(np.float32(step))
    # Of integers: in floating-point numbers a program would compute how many there are, too.
    places = torch.arange(size, device=image.device).to(dtype)
    positions = (places + first) * step
    return positions.to(torch.int64).clamp(max=source - 1)


def linear(rank: int, image: Any, sizes: Sequence[int], align_corners: bool, *scales: float | None) -> Any:
    """`aten.upsample_linear1d`, `aten.upsample_bilinear2d` and `aten.upsample_trilinear3d` to open sizes.

    One dimension after the other: torch-mlir has a form that no kernel is found for, and none for steps that
    depend on sizes. Sizes that are known it lowers in a form that is recognised: NotImplemented.
    """
    if not any(isinstance(size, torch.SymInt) for size in sizes):
        return NotImplemented
    if align_corners and not all(statically_known_true(size > 1) for size in sizes):
        return NotImplemented
    scales = (*scales, *[None] * (rank - len(scales)))
    spatial = range(image.dim() - rank, image.dim())
    for dimension, size, scale in zip(spatial, sizes, scales, strict=True):
        source = image.shape[dimension]
        dtype = torch.float64 if image.dtype == torch.float64 else torch.float32
        places = torch.arange(size, device=image.device).to(dtype)
        if align_corners:
            # Torch takes open sizes for larger than one: of one element the position is zero, not 0 * inf.
            positions = places * ((source - 1) / (size - 1))
            positions = torch.where(places > 0, positions, 0.0)
        else:
            step = 1 / scale if scale else source / size
            positions = ((places + 0.5) * step - 0.5).clamp(min=0)
        first = positions.to(torch.int64).clamp(max=source - 1)
        share = (positions - first.to(dtype)).clamp(max=1).to(image.dtype)
        trailing = [1] * (image.dim() - 1 - dimension)
        weights = [each.view(-1, *trailing) for each in (1 - share, share)]
        rows = (first, (first + 1).clamp(max=source - 1))
        low, high = (
            image.index_select(dimension, row) * weight for row, weight in zip(rows, weights, strict=True)
        )
        image = low + high
    return image


def antialiased(
    cubic: bool, image: Any, sizes: Sequence[int], align_corners: bool, *scales: float | None
) -> Any:
    """`aten._upsample_bilinear2d_aa`, or `aten._upsample_bicubic2d_aa` where `cubic`, one dimension at once.

    A window begins and ends a little further outside than in torch, where weights are zero: rounding, which
    the program does wherever it needs them, makes no difference there.
    """
    weigh, radius = (_cubic, 2) if cubic else (_linear, 1)
    spatial = range(image.dim() - len(sizes), image.dim())
    for dimension, size, scale in zip(spatial, sizes, scales or (None, None), strict=True):
        source = image.shape[dimension]
        step = _step(source, size, align_corners, scale)
        stretch = max(step, 1.0)
        count = 2 * math.ceil(radius * stretch) + 2
        dtype = torch.float64 if image.dtype == torch.float64 else torch.float32
        centers = (torch.arange(size, dtype=dtype, device=image.device) + 0.5).unsqueeze(1) * step
        first = (centers - (radius * stretch - 0.5 + _MARGIN)).floor().to(torch.int64)
        positions = first + torch.arange(count, device=image.device)
        is_inside = (positions >= 0) & (positions < source)
        weights = weigh((positions.to(dtype) - centers + 0.5) * (1 / stretch)) * is_inside
        weights = (weights / weights.sum(1, keepdim=True)).to(image.dtype)
        positions = positions.clamp(min=0, max=source - 1)
        read = image.index_select(dimension, positions.flatten())
        trailing = [1] * (image.dim() - 1 - dimension)
        image = (read.unflatten(dimension, (size, count)) * weights.view(size, count, *trailing)).sum(
            dimension + 1
        )
    return image


def _step(source: int, size: int, align_corners: bool, scale: float | None) -> float:
    if align_corners:
        return (source - 1) / (size - 1) if size > 1 else 0.0
    return 1 / scale if scale else source / size


def _linear(distance: Any) -> Any:
    return (1 - distance.abs()).clamp(min=0)


def _cubic(distance: Any) -> Any:
    """Keys's kernel with a slope of -1/2 at 1, as PIL has it and torch where it is antialiased."""
    x = distance.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


_BY_MODE: Mapping[tuple[str, int], Callable[..., Any]] = MappingProxyType(
    {
        **{("nearest", rank): partial(nearest, rank) for rank in (1, 2, 3)},
        **{("nearest-exact", rank): partial(nearest_exact, rank) for rank in (1, 2, 3)},
        **{(mode, rank): partial(linear, rank) for rank, mode in enumerate(_LINEAR, start=1)},
    }
)


def interpolate(
    image: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """`torch.nn.functional.interpolate` of an image of open sizes; NotImplemented where that is to do it."""
    rank = image.dim() - 2
    resize = _BY_MODE.get((mode, rank))
    if mode not in _LINEAR and align_corners is not None:
        # Torch refuses corners there.
        return NotImplemented
    if resize is None or recompute_scale_factor or antialias or (size is None) == (scale_factor is None):
        return NotImplemented
    sizes, scales = (
        each if each is None or isinstance(each, (list, tuple)) else [each] * rank
        for each in (size, scale_factor)
    )
    if any(each is not None and len(each) != rank for each in (sizes, scales)):
        return NotImplemented
    options = [bool(align_corners)] if mode in _LINEAR else []
    return by_sizes(_left, resize, image, sizes, *options, scales or [None] * rank)
