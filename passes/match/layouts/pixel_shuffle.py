"""Channels that become pixels, as in networks that enlarge images (pixel shuffle, depth to space)."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.groups import reassociation_of
from iree.winograd.passes.match.navigation import EXITS, defining_operation
from iree.winograd.passes.match.sizes import is_dynamic


@dataclass(frozen=True)
class PixelShuffle:
    """A channel of `source`, N x C x H..., has digits: one is the result's channel, others are of its pixel.

    Each pixel of `source` becomes as many as the digits of pixels have numbers.
    """

    source: ir.Value
    digits: tuple[int, ...]
    """The size of each, the last one that of neighbouring channels."""
    channel: int
    """Which of them is the result's channel."""
    pixel: tuple[int, ...]
    """Which of them is the lower digit of each of its pixel's indices."""
    result: ir.Value
    """N x digits[channel] x H * digits[pixel[0]]..."""

    @property
    def keeps_neighbours(self) -> bool:
        """Whether neighbours among the result's channels are neighbours in `source`, for pixels in order."""
        return (*self.pixel, self.channel) == tuple(range(len(self.digits)))

    @property
    def leaves(self) -> bool:
        """Whether nothing but elementwise operations is between it and the end of the program."""
        return _leaves(self.result)


def match_pixel_shuffle(collapse: ir.Operation) -> PixelShuffle | None:
    """The shuffle that ends with this `tensor.collapse_shape`; None where it ends something else."""
    if collapse.name != "tensor.collapse_shape":
        return None
    transposition = defining_operation(collapse.operands[0])
    if transposition is None or transposition.name != "linalg.transpose":
        return None
    split = defining_operation(transposition.operands[0])
    permutation = list(transposition.attributes["permutation"])
    spatial_rank = len(permutation) // 2 - 1
    if split is None or split.name != "tensor.expand_shape" or spatial_rank < 1 or len(permutation) % 2:
        return None
    channels = list(range(1, spatial_rank + 2))
    pixels = list(range(spatial_rank + 2, len(permutation)))
    if reassociation_of(split) != [[0], channels, *([each] for each in pixels)]:
        return None
    if reassociation_of(collapse) != [
        [0],
        [1],
        *([each, each + 1] for each in range(2, len(permutation), 2)),
    ]:
        return None
    if permutation[0] != 0 or permutation[2::2] != pixels:
        return None
    digits = tuple(ir.RankedTensorType(split.results[0].type).shape)[1 : spatial_rank + 2]
    if any(map(is_dynamic, digits)):
        return None
    pixel = tuple(each - 1 for each in permutation[3::2])
    return PixelShuffle(split.operands[0], digits, permutation[1] - 1, pixel, collapse.results[0])


def _leaves(value: ir.Value) -> bool:
    users = [use.owner.operation for use in value.uses]
    return all(
        user.name in EXITS or (isinstance(match_elementwise(user), Elementwise) and _leaves(user.results[0]))
        for user in users
    )
