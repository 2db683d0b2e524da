"""A convolution whose sizes are what its kernel is told: numbers, or values at run time."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.decomposition import Decomposition
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .index import Index, IndexLike, ceildiv
from .work import Size, Sizes


@dataclass(frozen=True)
class SizedShape:
    """What code that a tile's place depends on is emitted for.

    Of `shape` the sizes are those that are expected: here they are replaced by those that there are.
    """

    shape: ConvolutionShape
    input_size: tuple[Index, ...]
    output_size: tuple[Index, ...]
    images: Index | None = None
    """How many there are, told where sizes are known only at run time: of one, tiles are easier to find."""

    @property
    def is_one_image(self) -> bool:
        """Whether there is known to be one."""
        return self.images is not None and self.images.known == 1

    @staticmethod
    def of(shape: ConvolutionShape, sizes: Sizes | None = None) -> SizedShape:
        """`shape` with the sizes that its kernel is told; none need be told of a shape that knows its own."""
        input_size, output_size = list(map(Index, shape.input_size)), list(map(Index, shape.output_size))
        for dimension in shape.unknown_sizes:
            if sizes is None:
                raise ValueError(f"sizes of {shape} are known only at run time")
            input_size[dimension] = sizes[Size("input", dimension)]
            output_size[dimension] = sizes[Size("output", dimension)]
        images = sizes.batch if sizes is not None and shape.unknown_sizes else None
        return SizedShape(shape, tuple(input_size), tuple(output_size), images)

    @property
    def decomposition(self) -> Decomposition:
        return self.shape.decomposition

    @property
    def padding_low(self) -> tuple[int, ...]:
        return self.shape.padding_low

    @property
    def tiles_per_phase(self) -> tuple[Index, ...]:
        """Tiles that cover the outputs of one phase."""
        decomposition = self.decomposition
        return tuple(
            ceildiv(outputs, phases * m)
            for outputs, phases, m in zip(
                self.output_size, decomposition.phases, decomposition.output_tile, strict=True
            )
        )

    @property
    def tiles_per_image(self) -> tuple[Index, ...]:
        """Tiles of one image, numbered phase-major in each dimension."""
        return tuple(
            tiles * phases
            for tiles, phases in zip(self.tiles_per_phase, self.decomposition.phases, strict=True)
        )

    @property
    def in_line(self) -> tuple[Index, ...]:
        """The sizes of its outputs, all of them one row."""
        return in_line(self.output_size)

    @property
    def output_rows(self) -> Index:
        """Lines of outputs along the last spatial dimension, of one image."""
        return product(self.output_size[:-1])


def in_line(sizes: tuple[Index, ...]) -> tuple[Index, ...]:
    """Sizes of an image whose elements are those of another one, all of them one row."""
    return (*[Index(1)] * (len(sizes) - 1), product(sizes))


def product(sizes: tuple[IndexLike, ...]) -> Index:
    """The product of sizes, known or not."""
    result = Index(1)
    for size in sizes:
        result = result * size
    return result
