"""The gradient of a filter as MLIR text, as torch-mlir writes it: any sizes, groups and layout."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from iree.winograd.dialect import reference


@dataclass(frozen=True)
class WeightGradientSource:
    """Sizes are per spatial dimension, channels per group; padding is the same on both sides."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[int, ...]
    groups: int
    channels: int
    outputs: int
    batch: int
    channels_last: bool
    dynamic_batch: bool = field(default=False, kw_only=True)
    """Whether the program is for any batch."""
    dynamic_size: bool = field(default=False, kw_only=True)
    """Whether it is for images of any size."""
    static_width: bool = field(default=False, kw_only=True)
    """Whether the last of these is known all the same."""
    element_type: str = field(default="f32", kw_only=True)
    """Of arguments and result; sums are of f32."""

    @property
    def rank(self) -> int:
        return len(self.size)

    @property
    def padded(self) -> tuple[int, ...]:
        return tuple(size + 2 * padding for size, padding in zip(self.size, self.padding, strict=True))

    @property
    def output_size(self) -> tuple[int, ...]:
        windows = zip(self.padded, self.kernel, self.strides, self.dilations, strict=True)
        return tuple((size - d * (taps - 1) - 1) // s + 1 for size, taps, s, d in windows)

    def image_shape(self, size: tuple, channels: int) -> tuple:
        """Of an array with all channels of a group, and groups if there are some."""
        grouped = (self.groups, channels) if self.groups > 1 else (channels,)
        return (self.batch, *size, *grouped) if self.channels_last else (self.batch, *grouped, *size)

    @property
    def filter_shape(self) -> tuple[int, ...]:
        grouped = (self.groups,) if self.groups > 1 else ()
        if self.channels_last:
            return (*self.kernel, self.channels, *grouped, self.outputs)
        return (*grouped, self.outputs, self.channels, *self.kernel)

    def operands(self) -> list[np.ndarray]:
        """An image and the gradient by the outputs."""
        generator = np.random.default_rng(0)
        shapes = ((self.size, self.channels), (self.output_size, self.outputs))
        return [generator.standard_normal(self.image_shape(*shape)).astype(np.float32) for shape in shapes]

    def exact(self, image: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The gradient of the filter in float64."""
        result = reference.weight_gradient(
            self._to_channels_last(image),
            self._to_channels_last(gradient),
            self.kernel,
            self.strides,
            self.dilations,
            self.padding,
            self.padding,
            self.groups,
        )
        result = result.reshape(*self.kernel, self.channels, self.groups, self.outputs)
        if not self.channels_last:
            result = np.moveaxis(result, (-2, -1, -3), (0, 1, 2))
        return result.reshape(self.filter_shape)

    def _to_channels_last(self, image: np.ndarray) -> np.ndarray:
        grouped = 1 + (self.groups > 1)
        if not self.channels_last:
            image = np.moveaxis(image, range(1, 1 + grouped), range(-grouped, 0))
        return image.reshape(*image.shape[: 1 + self.rank], -1)

    def text(self, attributes: str = "", name: str = "main") -> str:
        """A function of an image and a gradient; `attributes` are those of the operation."""
        grouped = ["g"] if self.groups > 1 else []
        taps, outputs = [f"r{d}" for d in range(self.rank)], [f"o{d}" for d in range(self.rank)]
        parallel = [*grouped, "k", "c", *taps]
        loops = ", ".join([*parallel, "n", *outputs])
        windows = zip(outputs, self.strides, taps, self.dilations, strict=True)
        positions = [f"{o} * {s} + {r} * {d}" for o, s, r, d in windows]
        maps = [
            f"affine_map<({loops}) -> ({', '.join(results)})>"
            for results in (
                self._ordered(positions, [*grouped, "c"]),
                self._ordered(outputs, [*grouped, "k"]),
                [*taps, "c", *grouped, "k"] if self.channels_last else parallel,
            )
        ]
        iterators = ['"parallel"'] * len(parallel) + ['"reduction"'] * (1 + self.rank)
        image, padded, gradient = (
            _type(("?" if self.dynamic_batch else shape[0], *shape[1:]))
            for shape in (
                self.image_shape(self._stated(self.size), self.channels),
                self.image_shape(self._stated(self.padded), self.channels),
                self.image_shape(self._stated(self.output_size), self.outputs),
            )
        )
        result = _type(self.filter_shape)
        half = [each.replace("xf32>", f"x{self.element_type}>") for each in (image, gradient, result)]
        names = ("%image", "%gradient", "%result")
        if self.element_type != "f32":
            names = ("%half_image", "%half_gradient", "%rounded")
        amounts = self._ordered(list(self.padding), [0] * (1 + len(grouped)), batch=0)
        arguments = ", ".join(f"%i{d}: index" for d in range(len(amounts)))
        widened = [
            _converted(*each, "arith.extf")
            for each in zip(names, half, ("%image", "%gradient"), (image, gradient), strict=False)
        ]
        rounded = _converted("%result", result, names[2], half[2], "arith.truncf")
        conversions = ("", "", "") if self.element_type == "f32" else (*widened, rounded)
        return f"""func.func @{name}({names[0]}: {half[0]}, {names[1]}: {half[1]}) -> {half[2]} {{
  %zero = arith.constant 0.0 : f32
{conversions[0]}{conversions[1]}  %padded = tensor.pad %image low{amounts} high{amounts} {{
  ^bb0({arguments}):
    tensor.yield %zero : f32
  }} : {image} to {padded}
  %empty = tensor.empty() : {result}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {result}) -> {result}
  %result = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{", ".join(iterators)}]}}
    ins(%padded, %gradient : {padded}, {gradient}) outs(%zeros : {result}) {attributes} {{
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %product = arith.mulf %x, %y : f32
    %total = arith.addf %product, %sum : f32
    linalg.yield %total : f32
  }} -> {result}
{conversions[2]}  return {names[2]} : {half[2]}
}}
"""

    def _stated(self, size: tuple[int, ...]) -> tuple[int | str, ...]:
        """A spatial size as the program's types have it."""
        if not self.dynamic_size:
            return size
        return (*("?",) * (self.rank - 1), size[-1] if self.static_width else "?")

    def _ordered(self, spatial: list, channels: list, batch: object = "n") -> list:
        return [batch, *spatial, *channels] if self.channels_last else [batch, *channels, *spatial]


def _type(shape: tuple[int, ...]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def _converted(source: str, source_type: str, name: str, type_: str, conversion: str) -> str:
    """A tensor whose elements are those of `source`, converted."""
    dimensions = ", ".join(f"d{number}" for number in range(source_type.count("x")))
    order = f"affine_map<({dimensions}) -> ({dimensions})>"
    iterators = ", ".join(['"parallel"'] * source_type.count("x"))
    element, converted = (each[each.rindex("x") + 1 : -1] for each in (source_type, type_))
    return f"""  {name}_empty = tensor.empty() : {type_}
  {name} = linalg.generic {{indexing_maps = [{order}, {order}], iterator_types = [{iterators}]}}
    ins({source} : {source_type}) outs({name}_empty : {type_}) {{
  ^bb0(%element: {element}, %out: {converted}):
    %converted = {conversion} %element : {element} to {converted}
    linalg.yield %converted : {converted}
  }} -> {type_}
"""
