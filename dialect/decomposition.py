"""How a convolution is written as a sum of small unit-stride convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import lcm, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.transforms import Transforms, gradient_transforms, transforms

MAX_SPATIAL_RANK = 3


@dataclass(frozen=True)
class Decomposition:
    """A convolution as a sum of unit-stride convolutions of `part_size` taps over views of its input.

    Every field has one entry per spatial dimension; `views` has one such tuple per view. With `P` the padded
    input:

        out[o] = sum over v and j < part_size of
                   P[step*o + views[v] + spacing*j] * filter[(views[v] + spacing*j) / dilation]

    where taps beyond `kernel_size` are zero. Winograd's minimal filtering F(output_tile, part_size) computes
    each term; splitting kernels and strides this way is DWM (Huang et al., "DWM: A Decomposable Winograd
    Method for Convolution Acceleration", AAAI 2020).

    Raises ValueError when the fields do not describe such a sum: sizes below 1, ranks that differ, or views
    that do not cover every tap of the kernel exactly once.
    """

    kernel_size: tuple[int, ...]
    """Filter taps."""
    output_tile: tuple[int, ...]
    """Outputs per tile, `m`."""
    part_size: tuple[int, ...]
    """Filter taps per part, `p`."""
    views: tuple[tuple[int, ...], ...]
    """The offset of each view, in input elements."""
    step: tuple[int, ...]
    """Input elements between adjacent outputs: the stride of the convolution."""
    spacing: tuple[int, ...]
    """Input elements between adjacent elements of a tile."""
    dilation: tuple[int, ...]
    """Input elements between adjacent filter taps."""

    def __post_init__(self) -> None:
        rank = len(self.kernel_size)
        if not 1 <= rank <= MAX_SPATIAL_RANK:
            raise ValueError(f"kernel_size {self.kernel_size} must have 1 to {MAX_SPATIAL_RANK} dimensions")
        for name in ("kernel_size", "output_tile", "part_size", "step", "spacing", "dilation"):
            sizes = getattr(self, name)
            if len(sizes) != rank:
                raise ValueError(
                    f"{name} {sizes} must have {rank} dimensions, as kernel_size {self.kernel_size} has"
                )
            if min(sizes) < 1:
                raise ValueError(f"{name} {sizes} must be at least 1 in every dimension")
        if any(spacing % step for spacing, step in zip(self.spacing, self.step, strict=True)):
            raise ValueError(f"spacing {self.spacing} must be a multiple of step {self.step}")
        self._check_views()

    def _check_views(self) -> None:
        covered: set[tuple[int, ...]] = set()
        for view in self.views:
            if len(view) != len(self.kernel_size):
                raise ValueError(f"view {view} must have {len(self.kernel_size)} dimensions")
            if min(view) < 0:
                raise ValueError(f"view {view} must not be negative")
            held = set(
                product(*(self._present_taps(view, dimension) for dimension in range(self.spatial_rank)))
            )
            if twice := held & covered:
                raise ValueError(f"views {self.views} must cover tap {min(twice)} of the kernel only once")
            covered |= held
        taps = prod(self.kernel_size)
        if len(covered) != taps:
            raise ValueError(
                f"views {self.views} must cover all {taps} taps of the kernel, not {len(covered)}"
            )

    def taps(self, view: Sequence[int]) -> Iterator[tuple[int, ...] | None]:
        """The kernel index that each tap of the part at `view` holds, row-major; None for a tap that is zero.

        Raises ValueError when a tap of the part falls between two taps of the kernel.
        """
        taps = [self._taps_of_dimension(view, dimension) for dimension in range(self.spatial_rank)]
        for tap in product(*taps):
            inside = tuple(index for index in tap if index is not None)
            yield inside if len(inside) == len(tap) else None

    def _present_taps(self, view: Sequence[int], dimension: int) -> list[int]:
        """Those of `taps` of one dimension that aren't zero."""
        return [tap for tap in self._taps_of_dimension(view, dimension) if tap is not None]

    def _taps_of_dimension(self, view: Sequence[int], dimension: int) -> list[int | None]:
        """`taps` of one dimension."""
        first, spacing, dilation = view[dimension], self.spacing[dimension], self.dilation[dimension]
        positions = [first + spacing * index for index in range(self.part_size[dimension])]
        if any(position % dilation for position in positions):
            raise ValueError(
                f"view {tuple(view)} must meet the kernel's taps, {self.dilation} elements apart"
            )
        taps = [position // dilation for position in positions]
        return [tap if tap < self.kernel_size[dimension] else None for tap in taps]

    @property
    def spatial_rank(self) -> int:
        """The number of spatial dimensions, D."""
        return len(self.kernel_size)

    @property
    def alpha(self) -> tuple[int, ...]:
        """Elements of an input tile per dimension: `output_tile + part_size - 1`."""
        return tuple(m + p - 1 for m, p in zip(self.output_tile, self.part_size, strict=True))

    @property
    def transforms(self) -> tuple[Transforms, ...]:
        """Per dimension, the transforms of F(output_tile, part_size)."""
        return tuple(transforms(m, p) for m, p in zip(self.output_tile, self.part_size, strict=True))

    @property
    def gradient_transforms(self) -> tuple[Transforms, ...]:
        """Per dimension, the transposes of `transforms`, which give the gradient of the filter."""
        return tuple(gradient_transforms(m, p) for m, p in zip(self.output_tile, self.part_size, strict=True))

    @property
    def point_count(self) -> int:
        """Elements of an input tile, A: the number of matrix products."""
        return prod(self.alpha)

    @property
    def view_count(self) -> int:
        """The number of views, V."""
        return len(self.views)

    @cached_property
    def contributing_views(self) -> tuple[tuple[int, ...], ...] | None:
        """Per dimension, for each element of a tile along it, how many of the views along it contribute.

        The filters of the others are zero there, as they lack taps: they come last, since they begin further
        on in the kernel. None where all contribute, where none does to some element, or where views aren't
        all combinations, row-major, of offsets along each dimension.
        """
        along = [self._contributing(dimension) for dimension in range(self.spatial_rank)]
        if self.views != tuple(product(*map(sorted, along))):
            return None
        tables = tuple(
            tuple(sum(each > element for each in elements.values()) for element in range(alpha))
            for elements, alpha in zip(along, self.alpha, strict=True)
        )
        are_whole = all(min(table) == len(views) for table, views in zip(tables, along, strict=True))
        return None if are_whole or any(0 in table for table in tables) else tables

    @cached_property
    def product_count(self) -> int:
        """Products of a tile for each pair of channels: A * V less those of `contributing_views`."""
        if self.contributing_views is None:
            return self.point_count * self.view_count
        return prod(map(sum, self.contributing_views))

    def _contributing(self, dimension: int) -> dict[int, int]:
        """`contributing_elements` of the views along a dimension, by their offsets."""
        m, p = self.output_tile[dimension], self.part_size[dimension]
        views = {view[dimension]: view for view in self.views}
        return {
            offset: contributing_elements(m, p, len(self._present_taps(view, dimension)))
            for offset, view in views.items()
        }

    @property
    def phases(self) -> tuple[int, ...]:
        """Outputs between adjacent outputs of one tile; 1 unless the convolution is dilated."""
        return tuple(spacing // step for spacing, step in zip(self.spacing, self.step, strict=True))

    def tiles_per_phase(self, output_shape: Sequence[int]) -> tuple[int, ...]:
        """Tiles that cover the outputs of one phase, for spatial sizes `output_shape`."""
        self._check_rank("output_shape", output_shape)
        return tuple(
            ceil_div(outputs, phases * m)
            for outputs, phases, m in zip(output_shape, self.phases, self.output_tile, strict=True)
        )

    def tiles(self, output_shape: Sequence[int]) -> tuple[int, ...]:
        """Tiles of one image for spatial sizes `output_shape`, numbered phase-major in each dimension."""
        return tuple(
            phases * tiles
            for phases, tiles in zip(self.phases, self.tiles_per_phase(output_shape), strict=True)
        )

    def output_shape(self, padded_shape: Sequence[int]) -> tuple[int, ...]:
        """The spatial output sizes for an input of spatial sizes `padded_shape`, padding included."""
        self._check_rank("padded_shape", padded_shape)
        return tuple(
            (size - dilation * (taps - 1) - 1) // step + 1
            for size, taps, step, dilation in zip(
                padded_shape, self.kernel_size, self.step, self.dilation, strict=True
            )
        )

    def _check_rank(self, name: str, sizes: Sequence[int]) -> None:
        if len(sizes) != self.spatial_rank:
            raise ValueError(f"{name} {tuple(sizes)} must have {self.spatial_rank} dimensions")


def decompose(
    kernel_size: Sequence[int],
    output_tile: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    part_size: Sequence[int] | None = None,
) -> Decomposition:
    """Decomposes a convolution into parts of `part_size` taps, computed in tiles of `output_tile` outputs.

    `strides` and `dilations` are 1 by default. `part_size` is by default the least size that needs no more
    parts than the strides do: the whole kernel for unit strides. Views are in row-major order of their
    offsets.

    Raises ValueError for sizes below 1 and for ranks that differ.
    """
    rank = len(kernel_size)
    strides = [1] * rank if strides is None else strides
    dilations = [1] * rank if dilations is None else dilations
    for name, sizes in (("strides", strides), ("dilations", dilations), ("kernel_size", kernel_size)):
        if len(sizes) != rank or min(sizes, default=1) < 1:
            raise ValueError(f"{name} {tuple(sizes)} must be {rank} sizes of at least 1")
    spacing = [lcm(stride, dilation) for stride, dilation in zip(strides, dilations, strict=True)]
    if part_size is None:
        taps_per_phase = [s // d for s, d in zip(spacing, dilations, strict=True)]
        part_size = [ceil_div(taps, q) for taps, q in zip(kernel_size, taps_per_phase, strict=True)]
    if len(part_size) != rank or len(output_tile) != rank or min(part_size, default=1) < 1:
        raise ValueError(
            f"output_tile {tuple(output_tile)} and part_size {tuple(part_size)} must be {rank} positive sizes"
        )
    # A tile of one element has no spacing; the stride, the least legal one, leaves a single phase of outputs.
    spacing = [
        stride if m == p == 1 else common
        for stride, common, m, p in zip(strides, spacing, output_tile, part_size, strict=True)
    ]
    offsets = [
        view_offsets(taps, p, lcm(stride, dilation), dilation)
        for taps, p, stride, dilation in zip(kernel_size, part_size, strides, dilations, strict=True)
    ]
    return Decomposition(
        kernel_size=tuple(kernel_size),
        output_tile=tuple(output_tile),
        part_size=tuple(part_size),
        views=tuple(product(*offsets)),
        step=tuple(strides),
        spacing=tuple(spacing),
        dilation=tuple(dilations),
    )


def contributing_elements(output_tile: int, part_size: int, taps: int) -> int:
    """Elements of G g up to the last that isn't zero for every g of `taps`, by F(output_tile, part_size).

    Without the last tap of its part that is all but the last, the point at infinity, whose element is that
    tap; without tiles elements are taps.
    """
    alpha = output_tile + part_size - 1
    return taps if output_tile == 1 else alpha - (taps < part_size)


def view_offsets(taps: int, part_size: int, spacing: int, dilation: int) -> list[int]:
    """The offsets of one dimension's views: for each phase of the stride, its taps in runs of `part_size`."""
    phase_count = spacing // dilation
    first_taps = (
        first_tap
        for phase in range(min(phase_count, taps))
        for first_tap in range(phase, taps, phase_count * part_size)
    )
    return [dilation * first_tap for first_tap in sorted(first_taps)]
