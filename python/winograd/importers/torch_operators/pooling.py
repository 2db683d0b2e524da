"""Pooling that torch-mlir or IREE takes no windows of, or wrong ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from iree.winograd.dialect.algebra.ceil_div import ceil_div

_PAD = torch.ops.aten.constant_pad_nd.default
_MAX_POOL = {2: torch.ops.aten.max_pool2d.default, 3: torch.ops.aten.max_pool3d.default}
_WITH_INDICES = {
    2: torch.ops.aten.max_pool2d_with_indices.default,
    3: torch.ops.aten.max_pool3d_with_indices.default,
}


@dataclass(frozen=True)
class _Windows:
    """Those of one spatial dimension."""

    size: int
    taps: int
    stride: int
    padding: int
    dilation: int
    rounds_up: bool

    @property
    def extent(self) -> int:
        return self.dilation * (self.taps - 1) + 1

    @property
    def count(self) -> int:
        left = self.size + 2 * self.padding - self.extent
        count = (ceil_div(left, self.stride) if self.rounds_up else left // self.stride) + 1
        # None begins behind the image and the padding in front of it.
        return (
            count - 1 if self.rounds_up and (count - 1) * self.stride >= self.size + self.padding else count
        )

    @property
    def missing(self) -> int:
        """What the last window reads beyond the image; negative where it leaves some of it out."""
        return (self.count - 1) * self.stride + self.extent - self.padding - self.size

    @property
    def is_lowered(self) -> bool:
        """Whether IREE compiles it: of a single window it drops the loop, and then expects all to be read.

        Where sizes are rounded up, torch-mlir adds what only another window would read.
        """
        return self.count > 1 or (self.missing == self.padding and not self.rounds_up)

    def counted(self, image: Any, include_padding: bool) -> Any:
        """By how many elements each window's sum is divided: a number, or a tensor if they are several."""
        end = self.size + self.padding if include_padding else self.size
        first = -self.padding if include_padding else 0
        spans = {
            min(start + self.extent, end) - max(start, first)
            for start in (index * self.stride - self.padding for index in range(self.count))
        }
        if len(spans) == 1:
            return spans.pop()
        starts = torch.arange(self.count, device=image.device) * self.stride - self.padding
        return ((starts + self.extent).clamp(max=end) - starts.clamp(min=first)).to(image.dtype)


def max_pool(rank: int, image: Any, kernel: Sequence[int], stride: Sequence[int] = (), *more: Any) -> Any:
    """`aten.max_pool1d`, `2d` or `3d` for a `rank` of 1 to 3, of images without a batch too."""
    if rank == 1:
        return _max_pool_of_rows(max_pool, _MAX_POOL[2], image, kernel, stride, *more).squeeze(-2)
    if image.dim() == rank + 1:
        batch = image.unsqueeze(0)
        result = max_pool(rank, batch, kernel, stride, *more)
        if result is NotImplemented:
            result = _MAX_POOL[rank](batch, kernel, stride, *more)
        return result.squeeze(0)
    windows = _windows(rank, image, kernel, stride, *more)
    if windows is None or all(each.is_lowered for each in windows):
        return NotImplemented
    dilation = [each.dilation for each in windows]
    fitted = _fitted(image, windows, -math.inf)
    return _MAX_POOL[rank](fitted, kernel, stride or kernel, [0] * rank, dilation)


def max_pool_with_indices(
    rank: int, image: Any, kernel: Sequence[int], stride: Sequence[int] = (), *more: Any
) -> Any:
    """`aten.max_pool1d_with_indices` and those of images and volumes, of images without a batch too."""
    if rank == 1:
        both = _max_pool_of_rows(max_pool_with_indices, _WITH_INDICES[2], image, kernel, stride, *more)
        return tuple(each.squeeze(-2) for each in both)
    if image.dim() == rank + 1:
        batch = image.unsqueeze(0)
        both = max_pool_with_indices(rank, batch, kernel, stride, *more)
        if both is NotImplemented:
            both = _WITH_INDICES[rank](batch, kernel, stride, *more)
        return tuple(each.squeeze(0) for each in both)
    windows = _windows(rank, image, kernel, stride, *more)
    if windows is None or all(each.is_lowered for each in windows):
        return NotImplemented
    fitted = _fitted(image, windows, -math.inf)
    dilation = [each.dilation for each in windows]
    pooled, indices = _WITH_INDICES[rank](fitted, kernel, stride or kernel, [0] * rank, dilation)
    return pooled, _indices_before(indices, windows, fitted.shape[2:])


def _max_pool_of_rows(
    pool: Callable[..., Any],
    operator: Callable[..., Any],
    signal: Any,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """A signal as an image of one row, by `pool`, or else by `operator`."""
    options = ([1, *(stride or kernel)], [0, *padding], [1, *dilation], ceil_mode)
    image = signal.unsqueeze(-2)
    result = pool(2, image, [1, *kernel], *options)
    return operator(image, [1, *kernel], *options) if result is NotImplemented else result


def _indices_before(indices: Any, windows: Sequence[_Windows], sizes: Sequence[int]) -> Any:
    """Indices into an image of `sizes`, which `windows` were fitted to, as those into the image before."""
    result, scale = 0, 1
    for window, size in zip(reversed(windows), reversed(sizes), strict=True):
        result = result + (indices % size - window.padding) * scale
        indices = torch.div(indices, size, rounding_mode="floor")
        scale *= window.size
    return result


def max_unpool(rank: int, image: Any, indices: Any, output_size: Sequence[Any], *more: Any) -> Any:
    """`aten.max_unpool2d` and `3d`: of elements with one index the last one is kept, as eager does on CPUs.

    Windows that overlap give an index to several. torch-mlir takes all for distinct, so that which one is
    kept would depend on how the work is shared.
    """
    elements, targets = (each.flatten(-rank) for each in (image, indices))
    along = elements.dim() - 1
    order = torch.arange(elements.shape[-1], device=image.device).expand_as(targets)
    none = targets.new_full((*elements.shape[:-1], math.prod(output_size)), -1)
    last = none.scatter_reduce(along, targets, order, "amax")
    kept = elements.gather(along, last.clamp(min=0))
    return torch.where(last >= 0, kept, 0.0).to(image.dtype).reshape(*image.shape[:-rank], *output_size)


def average_pool(
    rank: int,
    image: Any,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """`aten.avg_pool*d`: sums of windows, by the number of elements of each."""
    windows = _windows(rank, image, kernel, stride, padding, (1,), ceil_mode)
    if windows is None or (not ceil_mode and all(each.is_lowered for each in windows)):
        return NotImplemented
    if rank == 1:
        # torch-mlir's of signals has no divisor of its own.
        row, steps, padded = [1, *kernel], [1, *(stride or kernel)], [0, *_repeated(padding, 1)]
        options = (ceil_mode, count_include_pad, divisor_override)
        return average_pool(2, image.unsqueeze(-2), row, steps, padded, *options).squeeze(-2)
    operator = torch.ops.aten.avg_pool2d.default if rank == 2 else torch.ops.aten.avg_pool3d.default
    fitted = _fitted(image, windows, 0.0)
    sums = operator(fitted, kernel, stride or kernel, [0] * rank, False, True, 1)
    if divisor_override is not None:
        return sums / divisor_override
    for dimension, window in enumerate(windows):
        counts = window.counted(image, count_include_pad)
        sums = sums / (counts if isinstance(counts, int) else counts.view(-1, *[1] * (rank - 1 - dimension)))
    return sums


def _windows(
    rank: int,
    image: Any,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> list[_Windows] | None:
    """None for an image of unknown sizes."""
    sizes = image.shape[-rank:]
    if not all(isinstance(size, int) for size in sizes):
        return None
    others = (_repeated(each, rank) for each in (kernel, stride or kernel, padding, dilation))
    return [
        _Windows(size, taps, step, padded, spread, ceil_mode)
        for size, taps, step, padded, spread in zip(sizes, *others, strict=True)
    ]


def _repeated(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * (rank // len(values))


def _fitted(image: Any, windows: Sequence[_Windows], value: float) -> Any:
    """`image` with all that `windows` read, and nothing else."""
    pad = [amount for each in reversed(windows) for amount in (each.padding, each.missing)]
    return _PAD(image, pad, value) if any(pad) else image
