"""A convolution as a problem to be solved: its sizes, apart from the program that it is part of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import prod
from typing import Any, TypeVar

from iree.winograd.passes.match.convolutions.element_types import F32, ElementTypes

Problem = TypeVar("Problem", bound="ConvolutionProblem")

OTHER_SIZES = (0.5, 2.0)
"""That may come where sizes are known only at run time, over those that are expected."""
_TEXT = re.compile(
    r"(?P<batch>\d+|\?\d*)x(?P<input_size>\??\d+(?:x\??\d+)*)x(?P<input_channels>\d+)->(?P<output_channels>\d+)"
    r" kernel (?P<kernel_size>[\dx]+) stride (?P<strides>[\dx]+) dilation (?P<dilations>[\dx]+)"
    r" padding (?P<padding_low>[\dx]+) (?P<padding_high>[\dx]+) groups (?P<groups>\d+)"
    r" (?P<element_types>[^\s,]+)(?P<runtime_filter>, filter known at run time)?"
    r"(?P<input_channels_first>, input channels first)?(?P<output_channels_first>, output channels first)?"
    r"(?:, operands of (?P<exact_type>\w+))?(?:, result of (?P<rounded_type>\w+))?"
)
_MATMUL_TEXT = re.compile(
    r"(?P<pixels>\d+(?:x\d+)+)x(?P<channels>\d+)->(?P<output_channels>\d+) matmul (?P<element_types>[^\s,]+)"
    r"(?:, operands of (?P<exact_type>\w+))?(?:, result of (?P<rounded_type>\w+))?"
)

_WEIGHT_GRADIENT = "weight gradient of "

_FRAME_STRIDE = 16
"""Of a single input channel, from which its windows are the frames of a signal."""


@dataclass(frozen=True)
class ConvolutionProblem:
    """The sizes of one convolution: `N x H... x C` to `N x OH... x K`, and which are channels first.

    Its text, `1x56x56x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32`, names it in
    databases and reports; `parse` reads it back. A batch known only at run time is `?`, expected to be 32
    `?32`, a size of the image that is, expected to be 56, `?56`. Behind commas it says that a filter is known
    only then, too, and which images are channels first.

    Raises ValueError for sizes that differ in rank, are below their least, or groups that don't divide the
    channels.
    """

    batch: int | None
    """None where it is known only at run time."""
    input_size: tuple[int, ...]
    """Without padding. Sizes known only at run time are those that are expected, for which is chosen."""
    padding_low: tuple[int, ...]
    padding_high: tuple[int, ...]
    kernel_size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int
    input_channels: int
    """Of all groups."""
    output_channels: int
    """Of all groups."""
    element_types: ElementTypes = F32
    runtime_filter: bool = False
    """Whether the filter is known only when the program runs, which then transforms it in each call."""
    input_channels_first: bool = False
    """Whether the program has the input as `N x C x H...`: kernels read it so, or it is transposed before."""
    output_channels_first: bool = False
    """Whether the program wants the output as `N x K x OH...`."""
    exact_type: str | None = None
    """The type of half precision that holds the numbers of both operands; None where none is known to."""
    rounded_type: str | None = None
    """The type of half precision that whatever reads the result rounds it to; None where not all do."""
    unknown_sizes: tuple[int, ...] = ()
    """The spatial dimensions, in order, whose sizes are known only at run time."""
    expected_batch: int | None = None
    """Of a batch known only at run time, the images that are expected, for which is chosen; None where nobody
    says, and for a batch that is known."""

    def __post_init__(self) -> None:
        for name in ("padding_low", "padding_high", "kernel_size", "strides", "dilations"):
            sizes, least = getattr(self, name), 0 if name.startswith("padding") else 1
            if len(sizes) != len(self.input_size) or min(sizes) < least:
                raise ValueError(
                    f"{name} {sizes} must be {len(self.input_size)} sizes of at least {least}, "
                    f"as input_size {self.input_size} has"
                )
        images = self.batch or self.expected_batch or 1
        if min(self.groups, self.input_channels, self.output_channels, images) < 1:
            raise ValueError(f"batch, groups and channels must be at least 1 in {self}")
        if self.input_channels % self.groups or self.output_channels % self.groups:
            raise ValueError(
                f"{self.groups} groups must divide {self.input_channels} and {self.output_channels} channels"
            )
        if any(dimension not in range(self.spatial_rank) for dimension in self.unknown_sizes):
            raise ValueError(f"there are no dimensions {self.unknown_sizes} among those of {self.input_size}")
        if min(self.output_size) < 1:
            raise ValueError(f"the kernel exceeds the padded input in {self}")

    def __str__(self) -> str:
        def text(sizes: tuple[int, ...]) -> str:
            return "x".join(map(str, sizes))

        pixels = "x".join(
            f"?{size}" if dimension in self.unknown_sizes else f"{size}"
            for dimension, size in enumerate(self.input_size)
        )
        batch = self.batch or f"?{self.expected_batch or ''}"
        image = f"{batch}x{pixels}x{self.input_channels}"
        window = (
            f"kernel {text(self.kernel_size)} stride {text(self.strides)} dilation {text(self.dilations)}"
        )
        padding = f"padding {text(self.padding_low)} {text(self.padding_high)}"
        remarks = {
            "filter known at run time": self.runtime_filter,
            "input channels first": self.input_channels_first,
            "output channels first": self.output_channels_first,
            f"operands of {self.exact_type}": self.exact_type is not None,
            f"result of {self.rounded_type}": self.rounded_type is not None,
        }
        types = ", ".join([str(self.element_types), *(remark for remark, holds in remarks.items() if holds)])
        return f"{image}->{self.output_channels} {window} {padding} groups {self.groups} {types}"

    @staticmethod
    def parse(text: str) -> ConvolutionProblem:
        """The problem of a text, of the class that writes such texts. Raises ValueError when it isn't one."""
        if text.startswith(_WEIGHT_GRADIENT):
            forward = ConvolutionProblem.parse(text.removeprefix(_WEIGHT_GRADIENT))
            return WeightGradientProblem(**_sizes(forward))
        if matmul := _MATMUL_TEXT.fullmatch(text):
            return MatmulProblem.multiplying(
                tuple(map(int, matmul["pixels"].split("x"))),
                int(matmul["channels"]),
                int(matmul["output_channels"]),
                ElementTypes.parse(matmul["element_types"]),
                matmul["exact_type"],
                matmul["rounded_type"],
            )
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a convolution problem: {text!r}")
        numbers = match.groupdict()

        def sizes(name: str) -> tuple[int, ...]:
            return tuple(int(size.removeprefix("?")) for size in numbers[name].split("x"))

        is_open, batch = numbers["batch"].startswith("?"), numbers["batch"].removeprefix("?")
        return ConvolutionProblem(
            batch=None if is_open else int(batch),
            input_size=sizes("input_size"),
            padding_low=sizes("padding_low"),
            padding_high=sizes("padding_high"),
            kernel_size=sizes("kernel_size"),
            strides=sizes("strides"),
            dilations=sizes("dilations"),
            groups=int(numbers["groups"]),
            input_channels=int(numbers["input_channels"]),
            output_channels=int(numbers["output_channels"]),
            element_types=ElementTypes.parse(numbers["element_types"]),
            runtime_filter=numbers["runtime_filter"] is not None,
            input_channels_first=numbers["input_channels_first"] is not None,
            output_channels_first=numbers["output_channels_first"] is not None,
            exact_type=numbers["exact_type"],
            rounded_type=numbers["rounded_type"],
            unknown_sizes=tuple(
                dimension
                for dimension, size in enumerate(numbers["input_size"].split("x"))
                if size.startswith("?")
            ),
            expected_batch=int(batch) if is_open and batch else None,
        )

    @property
    def measured(self) -> ConvolutionProblem:
        """What is measured of it: the same of the expected sizes, its filter transformed beforehand.

        What reads the result is no part of it.
        """
        return replace(
            self,
            batch=self.batch or self.expected_batch,
            expected_batch=None,
            runtime_filter=False,
            rounded_type=None,
            unknown_sizes=(),
        )

    def resized(self: Problem, times: float) -> Problem:
        """The same where sizes known only at run time are expected to be so many times as large.

        They are at least those that there is an output of.
        """
        least = (
            dilation * (taps - 1) + 1 - low - high
            for taps, dilation, low, high in zip(
                self.kernel_size, self.dilations, self.padding_low, self.padding_high, strict=True
            )
        )
        sizes = tuple(
            max(1, fewest, round(times * size)) if dimension in self.unknown_sizes else size
            for dimension, (size, fewest) in enumerate(zip(self.input_size, least, strict=True))
        )
        return replace(self, input_size=sizes)

    @property
    def spatial_rank(self) -> int:
        return len(self.kernel_size)

    @cached_property
    def output_size(self) -> tuple[int, ...]:
        return tuple(
            (low + size + high - dilation * (taps - 1) - 1) // stride + 1
            for low, size, high, taps, stride, dilation in zip(
                self.padding_low,
                self.input_size,
                self.padding_high,
                self.kernel_size,
                self.strides,
                self.dilations,
                strict=True,
            )
        )

    @property
    def _dimensions(self) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Of each: taps, dilation, padding in front, size, outputs and stride."""
        return zip(
            self.kernel_size,
            self.dilations,
            self.padding_low,
            self.input_size,
            self.output_size,
            self.strides,
            strict=True,
        )

    @property
    def reading_taps(self) -> tuple[range, ...]:
        """Of each dimension, the taps from the first to the last that read the image for some output.

        All of them where none does.
        """
        return tuple(
            _reading_taps(taps, dilation, low, size, outputs, stride)
            for taps, dilation, low, size, outputs, stride in self._dimensions
        )

    @cached_property
    def read_shares(self) -> tuple[float, ...]:
        """Of each dimension, the part of the pairs of an output and a tap that read the image."""
        return tuple(
            sum(
                0 <= output * stride + tap * dilation - low < size
                for output in range(outputs)
                for tap in range(taps)
            )
            / (outputs * taps)
            for taps, dilation, low, size, outputs, stride in self._dimensions
        )

    @property
    def is_of_frames(self) -> bool:
        """Whether it multiplies the frames of a signal, a single channel, as a Fourier transform does."""
        return self.input_channels == 1 and max(self.strides) >= _FRAME_STRIDE

    @property
    def group_inputs(self) -> int:
        """Input channels of one group."""
        return self.input_channels // self.groups

    @property
    def group_outputs(self) -> int:
        """Output channels of one group."""
        return self.output_channels // self.groups

    @property
    def multiply_adds(self) -> int:
        """Of the convolution as it is defined, those on padding included; a dynamic batch counts as 1."""
        outputs = (self.batch or 1) * prod(self.output_size) * self.output_channels
        return outputs * prod(self.kernel_size) * self.group_inputs


@dataclass(frozen=True)
class MatmulProblem(ConvolutionProblem):
    """A product of rows and a matrix, as the 1x1 convolution that it is of an image with a pixel per row.

    IREE has other code for it than for that convolution, so it is another problem with another text,
    `1x32x512->1000 matmul f32` for 32 rows, which `ConvolutionProblem.parse` reads.
    """

    def __str__(self) -> str:
        image = "x".join(map(str, (self.batch, *self.input_size, self.input_channels)))
        exact = "" if self.exact_type is None else f", operands of {self.exact_type}"
        rounded = "" if self.rounded_type is None else f", result of {self.rounded_type}"
        return f"{image}->{self.output_channels} matmul {self.element_types}{exact}{rounded}"

    @property
    def rows(self) -> int:
        """Of all images."""
        return (self.batch or 1) * prod(self.input_size)

    @staticmethod
    def multiplying(
        pixels: tuple[int, ...],
        channels: int,
        output_channels: int,
        element_types: ElementTypes = F32,
        exact_type: str | None = None,
        rounded_type: str | None = None,
    ) -> MatmulProblem:
        """The product of the pixels of an image, N x H..., and a matrix of `channels` x `output_channels`."""
        batch, *input_size = pixels
        zeros, ones = (0,) * len(input_size), (1,) * len(input_size)
        return MatmulProblem(
            batch=batch,
            input_size=tuple(input_size),
            padding_low=zeros,
            padding_high=zeros,
            kernel_size=ones,
            strides=ones,
            dilations=ones,
            groups=1,
            input_channels=channels,
            output_channels=output_channels,
            element_types=element_types,
            exact_type=exact_type,
            rounded_type=rounded_type,
        )


@dataclass(frozen=True)
class WeightGradientProblem(ConvolutionProblem):
    """The gradient by the filter of a convolution of these sizes, as large as that: it has as many products.

    Its text is that of the convolution behind `weight gradient of`, which `ConvolutionProblem.parse` reads.
    """

    def __str__(self) -> str:
        return f"{_WEIGHT_GRADIENT}{super().__str__()}"


def _sizes(problem: ConvolutionProblem) -> dict[str, Any]:
    """What a problem states, by the names of its fields."""
    return {each.name: getattr(problem, each.name) for each in fields(ConvolutionProblem)}


def _reading_taps(taps: int, dilation: int, low: int, size: int, outputs: int, stride: int) -> range:
    reading = []
    for tap in range(taps):
        # From where its first output reads.
        first = tap * dilation - low
        output = max(0, -(first // stride))
        if output < outputs and first + output * stride < size:
            reading.append(tap)
    return range(reading[0], reading[-1] + 1) if reading else range(taps)
