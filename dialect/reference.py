"""What the ops compute, in numpy: the oracle of the tests, and the transform of constant filters.

Spatial dimensions `D` are 1, 2 or 3 and data is channels-last unless said otherwise.
docs/explanation/architecture.md states the order of indices. Everything is computed in float64
and rounded once to the type of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.transforms import apply, as_array
from iree.winograd.dialect.decomposition import Decomposition

Array = npt.NDArray[Any]

# Of products that stay in the cache and in one thread: BLAS wakes others from twice as many on, which on a
# busy machine made folding ResNet-18's filters take seconds instead of 0.05 s.
_MULTIPLY_ADDS = 1 << 17
# Two squares of f32 stay in L2.
_SQUARE = 128


def input_transform(
    input: Array,
    decomposition: Decomposition,
    padding_low: Sequence[int] | None = None,
    padding_high: Sequence[int] | None = None,
    groups: int = 1,
    *,
    channels_first: bool = False,
) -> Array:
    """The tiles of all views of `input`, transformed: N x H... x C -> [A*g, T, V*C/g].

    With `channels_first` it is N x C x H.... Padding is in elements of zeros per spatial dimension. Raises
    ValueError when the ranks differ, the channels don't divide into the groups or the kernel is larger than
    the padded input.
    """
    rank = decomposition.spatial_rank
    _check_rank("input", input, rank + 2)
    if channels_first:
        input = np.moveaxis(input, 1, -1)
    _check_groups("input channels", input.shape[-1], groups)
    low, high = _padding(padding_low, rank), _padding(padding_high, rank)
    padded_shape = [size + a + b for size, a, b in zip(input.shape[1:-1], low, high, strict=True)]
    output_shape = decomposition.output_shape(padded_shape)
    if min(output_shape) < 1:
        raise ValueError(
            f"kernel_size {decomposition.kernel_size} does not fit the padded input {tuple(padded_shape)}"
        )
    alpha, tiles = decomposition.alpha, decomposition.tiles(output_shape)
    batch, channels = input.shape[0], input.shape[-1]
    matrices = [each.algorithm.input for each in decomposition.transforms]
    element_axes = [2 + 2 * dimension for dimension in range(rank)]
    views = []
    for view in decomposition.views:
        gathered = input.astype(np.float64)
        for dimension in range(rank):
            positions = (
                _tile_positions(decomposition, dimension, view[dimension], output_shape) - low[dimension]
            )
            gathered = _take_or_zero(gathered, positions, 1 + 2 * dimension)
        # Now N x tiles_0 x alpha_0 x ... x C.
        views.append(apply(matrices, gathered, element_axes))
    tile_axes = [1 + 2 * dimension for dimension in range(rank)]
    stacked = np.stack(views, axis=-2).reshape(
        batch,
        *(size for pair in zip(tiles, alpha, strict=True) for size in pair),
        len(views),
        groups,
        channels // groups,
    )
    order = (*element_axes, stacked.ndim - 2, 0, *tile_axes, stacked.ndim - 3, stacked.ndim - 1)
    shape = (prod(alpha) * groups, batch * prod(tiles), len(views) * channels // groups)
    transformed: Array = stacked.transpose(order).reshape(shape).astype(input.dtype)
    return transformed


def filter_transform(filter: Array, decomposition: Decomposition, groups: int = 1) -> Array:
    """The parts of `filter`, transformed: R... x C/g x K -> [A*g, V*C/g, K/g].

    Raises ValueError when the spatial sizes aren't the decomposition's kernel or K doesn't divide into
    the groups.
    """
    rank = decomposition.spatial_rank
    _check_rank("filter", filter, rank + 2)
    if filter.shape[:rank] != decomposition.kernel_size:
        raise ValueError(
            f"filter sizes {filter.shape[:rank]} must be kernel_size {decomposition.kernel_size}"
        )
    group_channels, features = filter.shape[-2:]
    _check_groups("output channels", features, groups)
    nested = reduce(np.kron, [as_array(each.algorithm.filter) for each in decomposition.transforms])
    taps = filter.reshape(-1, group_channels, features)
    channels_at_once = max(1, _MULTIPLY_ADDS // (nested.size * features))
    transformed = np.empty(
        (len(nested), groups, decomposition.view_count, group_channels, features // groups), filter.dtype
    )
    for index, view in enumerate(decomposition.views):
        present = [
            (column, np.ravel_multi_index(tap, decomposition.kernel_size))
            for column, tap in enumerate(decomposition.taps(view))
            if tap is not None
        ]
        columns, rows = zip(*present, strict=True)
        if len(nested) == 1 and nested[0, 0] == 1:
            # Parts of one tap, for tiles of one output: nothing to compute.
            (row,) = rows
            copy_matrices(
                taps[row].reshape(group_channels, groups, -1).swapaxes(0, 1), transformed[0, :, index]
            )
            continue
        # A few channels at a time, so that the float64 intermediate stays in the cache.
        for first in range(0, group_channels, channels_at_once):
            some = slice(first, first + channels_at_once)
            exact = taps[list(rows), some].astype(np.float64)
            part = np.tensordot(nested[:, list(columns)], exact, axes=1)
            part = part.reshape(len(nested), -1, groups, features // groups)
            transformed[:, :, index, some] = part.swapaxes(1, 2)
    return transformed.reshape(
        len(nested) * groups, decomposition.view_count * group_channels, features // groups
    )


def copy_matrices(source: Array, target: Array) -> None:
    """Copy matrices to others in memory, by squares that stay in the cache where one of them is transposed.

    Rows of a matrix may share few sets of the cache; those of a square's copy lie side by side.
    """
    if _has_rows(source) and _has_rows(target):
        target[...] = source
        return
    rows, columns = (range(0, size, _SQUARE) for size in source.shape[-2:])
    for row, column in product(rows, columns):
        square = (..., slice(row, row + _SQUARE), slice(column, column + _SQUARE))
        target[square] = source[square].copy(order="K")


def _has_rows(matrices: Array) -> bool:
    """Whether elements of a row lie next to each other in memory, rather than those of a column."""
    return bool(matrices.strides[-1] == matrices.itemsize)


def output_transform(
    accumulated: Array,
    decomposition: Decomposition,
    output_shape: Sequence[int],
    groups: int = 1,
    *,
    channels_first: bool = False,
) -> Array:
    """The outputs of all tiles: [A*g, T, K/g] -> N x OH... x K, for spatial sizes `output_shape`.

    With `channels_first` they are N x K x OH....

    Raises ValueError when the shape isn't one of A*g tiles for that output.
    """
    rank = decomposition.spatial_rank
    _check_rank("accumulated", accumulated, 3)
    alpha, m, phases = decomposition.alpha, decomposition.output_tile, decomposition.phases
    tiles, per_phase = decomposition.tiles(output_shape), decomposition.tiles_per_phase(output_shape)
    batch = accumulated.shape[1] // prod(tiles)
    if accumulated.shape[0] != prod(alpha) * groups or accumulated.shape[1] != batch * prod(tiles):
        raise ValueError(
            f"accumulated {accumulated.shape} must be "
            f"[{prod(alpha) * groups}, N * {prod(tiles)}, K / {groups}]"
        )
    group_features = accumulated.shape[2]
    split = accumulated.astype(np.float64).reshape(
        *alpha,
        groups,
        batch,
        *(size for pair in zip(phases, per_phase, strict=True) for size in pair),
        group_features,
    )
    matrices = [each.algorithm.output for each in decomposition.transforms]
    tiled = apply(matrices, split, range(rank))
    # Output o of a dimension is phase + phases * (m * tile + element).
    first_phase = rank + 2
    spatial = [
        axis
        for dimension in range(rank)
        for axis in (first_phase + 2 * dimension + 1, dimension, first_phase + 2 * dimension)
    ]
    whole = tiled.transpose(rank + 1, *spatial, rank, tiled.ndim - 1).reshape(
        batch,
        *(t * size * q for t, size, q in zip(per_phase, m, phases, strict=True)),
        groups * group_features,
    )
    inside = (slice(None), *map(slice, output_shape))
    cropped: Array = whole[inside].astype(accumulated.dtype)
    return np.moveaxis(cropped, -1, 1) if channels_first else cropped


def gradient_transform(gradient: Array, decomposition: Decomposition, groups: int = 1) -> Array:
    """The tiles of the gradients of outputs, transformed: N x OH... x K -> [A*g, T, K/g].

    It is the transpose of `output_transform`: A x A^T of a tile x of two dimensions (Huang et al., AAAI 2020,
    equation 15). Raises ValueError when the ranks differ or K doesn't divide into the groups.
    """
    rank = decomposition.spatial_rank
    _check_rank("gradient", gradient, rank + 2)
    batch, *output_shape, features = gradient.shape
    _check_groups("output channels", features, groups)
    gathered = gradient.astype(np.float64)
    for dimension in range(rank):
        positions = _output_positions(decomposition, dimension, output_shape)
        gathered = _take_or_zero(gathered, positions, 1 + 2 * dimension)
    # Now N x tiles_0 x m_0 x ... x K.
    matrices = [as_array(each.algorithm.filter) for each in decomposition.gradient_transforms]
    element_axes = [2 + 2 * dimension for dimension in range(rank)]
    tile_axes = [1 + 2 * dimension for dimension in range(rank)]
    tiled = apply(matrices, gathered, element_axes)
    tiled = tiled.reshape(*tiled.shape[:-1], groups, features // groups)
    order = (*element_axes, tiled.ndim - 2, 0, *tile_axes, tiled.ndim - 1)
    shape = (
        decomposition.point_count * groups,
        batch * prod(decomposition.tiles(output_shape)),
        features // groups,
    )
    transformed: Array = tiled.transpose(order).reshape(shape).astype(gradient.dtype)
    return transformed


def filter_gradient(accumulated: Array, decomposition: Decomposition, groups: int = 1) -> Array:
    """The gradients of a filter's taps: [A*g, V*C/g, K/g] -> R... x C/g x K.

    It is the transpose of `filter_transform`. Raises ValueError when the shape isn't that of a transformed
    filter.
    """
    _check_rank("accumulated", accumulated, 3)
    points, rows, group_features = accumulated.shape
    views = decomposition.view_count
    if points != decomposition.point_count * groups or rows % views:
        raise ValueError(
            f"accumulated {accumulated.shape} must be "
            f"[{decomposition.point_count * groups}, {views} * C / {groups}, K / {groups}]"
        )
    group_channels = rows // views
    matrices = [as_array(each.algorithm.output) for each in decomposition.gradient_transforms]
    nested = reduce(np.kron, matrices)
    split = accumulated.astype(np.float64).reshape(-1, groups, views, group_channels, group_features)
    parts = np.tensordot(nested, split, axes=1)
    taps = np.zeros((prod(decomposition.kernel_size), group_channels, groups, group_features))
    for index, view in enumerate(decomposition.views):
        for position, tap in enumerate(decomposition.taps(view)):
            if tap is not None:
                row = np.ravel_multi_index(tap, decomposition.kernel_size)
                taps[row] = parts[position, :, index].swapaxes(0, 1)
    whole: Array = taps.reshape(*decomposition.kernel_size, group_channels, -1).astype(accumulated.dtype)
    return whole


def convolution(
    input: Array,
    filter: Array,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    padding_low: Sequence[int] | None = None,
    padding_high: Sequence[int] | None = None,
    groups: int = 1,
) -> npt.NDArray[np.float64]:
    """The direct convolution of N x H... x C with R... x C/g x K, in float64: N x OH... x K.

    Raises ValueError when ranks differ, channels don't match or the kernel is larger than the padded input.
    """
    rank = input.ndim - 2
    _check_rank("filter", filter, input.ndim)
    group_channels, features = filter.shape[-2:]
    _check_groups("output channels", features, groups)
    if input.shape[-1] != group_channels * groups:
        raise ValueError(
            f"input has {input.shape[-1]} channels, but the filter takes {groups} groups of {group_channels}"
        )
    strides = [1] * rank if strides is None else strides
    dilations = [1] * rank if dilations is None else dilations
    low, high = _padding(padding_low, rank), _padding(padding_high, rank)
    padded = np.pad(input.astype(np.float64), [(0, 0), *zip(low, high, strict=True), (0, 0)])
    output_shape = [
        (size - dilation * (taps - 1) - 1) // stride + 1
        for size, dilation, taps, stride in zip(
            padded.shape[1:-1], dilations, filter.shape, strides, strict=False
        )
    ]
    if min(output_shape) < 1:
        raise ValueError(
            f"kernel_size {filter.shape[:rank]} does not fit the padded input {padded.shape[1:-1]}"
        )
    weights = filter.astype(np.float64).reshape(*filter.shape[:-1], groups, features // groups)
    total = np.zeros((groups, input.shape[0] * prod(output_shape), features // groups))
    for tap in product(*map(range, filter.shape[:rank])):
        shifted = padded[_window(tap, strides, dilations, output_shape)].reshape(-1, groups, group_channels)
        total += shifted.swapaxes(0, 1) @ weights[tap].swapaxes(0, 1)
    ordered: npt.NDArray[np.float64] = total.swapaxes(0, 1).reshape(input.shape[0], *output_shape, features)
    return ordered


def weight_gradient(
    input: Array,
    gradient: Array,
    kernel_size: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    padding_low: Sequence[int] | None = None,
    padding_high: Sequence[int] | None = None,
    groups: int = 1,
) -> npt.NDArray[np.float64]:
    """The gradient by the filter of `convolution`, R... x C/g x K, in float64.

    `gradient` is that by its outputs, N x OH... x K. Raises ValueError when ranks differ, channels don't
    divide into the groups or the outputs aren't those of `input` and `kernel_size`.
    """
    rank = input.ndim - 2
    _check_rank("gradient", gradient, input.ndim)
    channels, features = input.shape[-1], gradient.shape[-1]
    _check_groups("input channels", channels, groups)
    _check_groups("output channels", features, groups)
    strides = [1] * rank if strides is None else strides
    dilations = [1] * rank if dilations is None else dilations
    low, high = _padding(padding_low, rank), _padding(padding_high, rank)
    padded = np.pad(input.astype(np.float64), [(0, 0), *zip(low, high, strict=True), (0, 0)])
    outputs = tuple(
        (size - dilation * (taps - 1) - 1) // stride + 1
        for size, dilation, taps, stride in zip(
            padded.shape[1:-1], dilations, kernel_size, strides, strict=True
        )
    )
    if gradient.shape[:-1] != (input.shape[0], *outputs):
        raise ValueError(f"gradient {gradient.shape} must be {(input.shape[0], *outputs)} x output channels")
    by_group = gradient.astype(np.float64).reshape(-1, groups, features // groups).swapaxes(0, 1)
    result = np.zeros((*kernel_size, channels // groups, features))
    for tap in product(*map(range, kernel_size)):
        shifted = padded[_window(tap, strides, dilations, outputs)].reshape(-1, groups, channels // groups)
        sums = shifted.transpose(1, 2, 0) @ by_group
        result[tap] = sums.swapaxes(0, 1).reshape(channels // groups, features)
    return result


def _window(
    tap: Sequence[int], strides: Sequence[int], dilations: Sequence[int], outputs: Sequence[int]
) -> tuple[slice, ...]:
    """The elements of a padded image that one tap meets, of all images and channels."""
    return (
        slice(None),
        *(
            slice(dilation * index, dilation * index + stride * (size - 1) + 1, stride)
            for index, dilation, stride, size in zip(tap, dilations, strides, outputs, strict=True)
        ),
    )


def _output_positions(
    decomposition: Decomposition, dimension: int, output_shape: Sequence[int]
) -> npt.NDArray[np.intp]:
    """Positions of each output of each tile of one dimension: tiles x m."""
    phases, m = decomposition.phases[dimension], decomposition.output_tile[dimension]
    phase = np.arange(phases)[:, None, None]
    tile = np.arange(decomposition.tiles_per_phase(output_shape)[dimension])[None, :, None]
    positions: npt.NDArray[np.intp] = phase + phases * (m * tile + np.arange(m)[None, None, :])
    return positions.reshape(-1, m)


def _tile_positions(
    decomposition: Decomposition, dimension: int, offset: int, output_shape: Sequence[int]
) -> npt.NDArray[np.intp]:
    """Positions in the padded input of each element of each tile of one dimension: tiles x alpha."""
    m, spacing = decomposition.output_tile[dimension], decomposition.spacing[dimension]
    phase = np.arange(decomposition.phases[dimension])[:, None, None] * decomposition.step[dimension]
    tile = np.arange(decomposition.tiles_per_phase(output_shape)[dimension])[None, :, None] * m
    element = np.arange(decomposition.alpha[dimension])[None, None, :]
    positions: npt.NDArray[np.intp] = phase + spacing * (tile + element) + offset
    return positions.reshape(-1, decomposition.alpha[dimension])


def _take_or_zero(array: Array, positions: npt.NDArray[np.intp], axis: int) -> Array:
    """`array.take(positions, axis)`, zero at positions outside the array."""
    size = array.shape[axis]
    outside = (positions < 0) | (positions >= size)
    taken = array.take(np.where(outside, 0, positions), axis)
    mask = outside.reshape(*[1] * axis, *outside.shape, *[1] * (array.ndim - axis - 1))
    return np.where(mask, 0.0, taken)


def _padding(padding: Sequence[int] | None, rank: int) -> Sequence[int]:
    padding = [0] * rank if padding is None else padding
    if len(padding) != rank or min(padding) < 0:
        raise ValueError(f"padding {tuple(padding)} must be {rank} sizes of at least 0")
    return padding


def _check_rank(name: str, array: Array, rank: int) -> None:
    if array.ndim != rank:
        raise ValueError(f"{name} has {array.ndim} dimensions, but {rank} are needed")


def _check_groups(name: str, count: int, groups: int) -> None:
    if groups < 1 or count % groups:
        raise ValueError(f"{count} {name} do not divide into {groups} groups")
