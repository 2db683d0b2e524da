"""One padded convolution as MLIR text: any sizes, layout, groups, and zeros inserted for a transposed one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Operations with names, by rank, channels last, and form; all others are generics.
NAMES = {
    (1, False, "plain"): "conv_1d_ncw_fcw",
    (1, True, "plain"): "conv_1d_nwc_wcf",
    (2, False, "plain"): "conv_2d_nchw_fchw",
    (2, True, "plain"): "conv_2d_nhwc_hwcf",
    (2, False, "depthwise"): "depthwise_conv_2d_nchw_chw",
    (2, True, "depthwise"): "depthwise_conv_2d_nhwc_hwc",
    (2, False, "grouped"): "conv_2d_ngchw_gfchw",
    (3, True, "plain"): "conv_3d_ndhwc_dhwcf",
    (3, False, "plain"): "conv_3d_ncdhw_fcdhw",
}


@dataclass(frozen=True)
class Source:
    """Sizes are per spatial dimension; channels are per group. `inserted` zeros lie between elements."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    inserted: tuple[int, ...]
    groups: int
    channels: int
    outputs: int
    batch: int
    channels_last: bool
    depthwise: bool
    """One channel and output per group, without dimensions of their own."""
    dynamic_batch: bool
    constant_filter: bool
    bias: bool
    epilogue: bool
    """A factor per channel, which is its bias, then ReLU."""
    named: bool

    @property
    def rank(self) -> int:
        return len(self.size)

    @property
    def padded(self) -> tuple[int, ...]:
        spread = [(size - 1) * (zeros + 1) + 1 for size, zeros in zip(self.size, self.inserted, strict=True)]
        return tuple(map(sum, zip(self.low, spread, self.high, strict=True)))

    @property
    def output_size(self) -> tuple[int, ...]:
        return tuple(
            (size - dilation * (taps - 1) - 1) // stride + 1
            for size, taps, stride, dilation in zip(
                self.padded, self.kernel, self.strides, self.dilations, strict=True
            )
        )

    @property
    def form(self) -> str:
        return "depthwise" if self.depthwise else "grouped" if self.groups > 1 else "plain"

    def image_shape(self, size: Sequence[int]) -> list[int]:
        channels = self.groups * (1 if self.depthwise else self.channels)
        return self._image([self.batch], [channels], size)

    @property
    def filter_shape(self) -> list[int]:
        groups = [self.groups] if self.form != "plain" else []
        channels, outputs = ([], []) if self.depthwise else ([self.channels], [self.outputs])
        if self.channels_last:
            return [*self.kernel, *groups, *channels, *outputs]
        return [*groups, *outputs, *channels, *self.kernel]

    def text(self, filters: np.ndarray, bias: np.ndarray) -> str:
        """A function of the image and, if it isn't constant, the filter."""
        padded, image = self._type(self.image_shape(self.padded)), self._type(self.image_shape(self.size))
        weights = _type(self.filter_shape)
        outputs = self.groups * (1 if self.depthwise else self.outputs)
        result = self._type(self._image([self.batch], [outputs], self.output_size))
        grouped = self.form == "grouped"
        input_sizes = self._image([self.batch], [self.groups, self.channels], self.padded)
        output_sizes = self._image([self.batch], [self.groups, self.outputs], self.output_size)
        operand, value = (self._type(input_sizes), "%grouped") if grouped else (padded, "%padded")
        sum_type, init = (self._type(output_sizes), "%grouped_init") if grouped else (result, "%init")
        lines = [
            f"%filter = arith.constant dense<{_values(filters)}> : {weights}" if self.constant_filter else "",
            "%zero = arith.constant 0.0 : f32",
            "%first = arith.constant 0 : index",
            f"%batch = tensor.dim %image, %first : {image}",
            *self._padding(image, padded),
            f"%empty = tensor.empty({self._dynamic}) : {result}",
            *self._init(bias, result, outputs),
            *(self._split("%grouped", "%padded", padded, input_sizes) if grouped else ()),
            *(self._split("%grouped_init", "%init", result, output_sizes) if grouped else ()),
            self._convolution(f"ins({value}, %filter : {operand}, {weights})", init, sum_type),
        ]
        if grouped:
            merging = self._reassociation()
            lines.append(f"%result = tensor.collapse_shape %sum {merging} : {sum_type} into {result}")
        returned = "%result" if grouped else "%sum"
        if self.epilogue:
            lines += self._epilogue(returned, result, _values(bias), outputs)
            returned = "%activated"
        argument = "" if self.constant_filter else f", %filter: {weights}"
        body = "\n".join(lines)
        return (
            f"func.func @main(%image: {image}{argument}) -> {result} {{\n{body}\n"
            f"return {returned} : {result}\n}}"
        )

    def _padding(self, image: str, padded: str) -> list[str]:
        if not any(self.inserted):
            indices = ", ".join(f"%i{axis}: index" for axis in range(self.rank + 2))
            low, high = self._image([0], [0], self.low), self._image([0], [0], self.high)
            return [
                f"%padded = tensor.pad %image low{low} high{high} {{\n^bb0({indices}):\n"
                f"tensor.yield %zero : f32\n}} : {image} to {padded}"
            ]
        sizes = ["%batch" if self.dynamic_batch else self.batch, *self.image_shape(self.size)[1:]]
        steps = self._image([1], [1], [zeros + 1 for zeros in self.inserted])
        return [
            f"%empty_image = tensor.empty({self._dynamic}) : {padded}",
            f"%zeros = linalg.fill ins(%zero : f32) outs(%empty_image : {padded}) -> {padded}",
            f"%padded = tensor.insert_slice %image into %zeros{self._image([0], [0], self.low)} "
            f"[{', '.join(map(str, sizes))}] {steps} : {image} into {padded}",
        ]

    def _init(self, bias: np.ndarray, result: str, outputs: int) -> list[str]:
        if not self.bias:
            return [f"%init = linalg.fill ins(%zero : f32) outs(%empty : {result}) -> {result}"]
        added = [d for d in range(self.rank + 2) if d != (self.rank + 1 if self.channels_last else 1)]
        return [
            f"%bias = arith.constant dense<{_values(bias)}> : {_type([outputs])}",
            f"%init = linalg.broadcast ins(%bias : {_type([outputs])}) outs(%empty : {result}) "
            f"dimensions = {added}",
        ]

    def _epilogue(self, value: str, result: str, factors: str, outputs: int) -> list[str]:
        loops = ", ".join(f"d{d}" for d in range(self.rank + 2))
        identity = f"affine_map<({loops}) -> ({loops})>"
        channel = f"affine_map<({loops}) -> (d{self.rank + 1 if self.channels_last else 1})>"
        kinds = ", ".join(['"parallel"'] * (self.rank + 2))
        return [
            f"%factors = arith.constant dense<{factors}> : {_type([outputs])}",
            f"%scaled = linalg.generic {{indexing_maps = [{identity}, {channel}, {identity}], "
            f"iterator_types = [{kinds}]}} ins({value}, %factors : {result}, {_type([outputs])}) "
            f"outs(%empty : {result}) {{\n^bb0(%a: f32, %b: f32, %c: f32):\n%p = arith.mulf %a, %b : f32\n"
            f"linalg.yield %p : f32\n}} -> {result}",
            f"%activated = linalg.generic {{indexing_maps = [{identity}, {identity}], "
            f"iterator_types = [{kinds}]}} ins(%scaled : {result}) outs(%empty : {result}) {{\n"
            f"^bb0(%a: f32, %c: f32):\n%p = arith.maximumf %a, %zero : f32\n"
            f"linalg.yield %p : f32\n}} -> {result}",
        ]

    def _split(self, name: str, value: str, value_type: str, sizes: list[int]) -> list[str]:
        shape = ", ".join(["%batch" if self.dynamic_batch else str(self.batch), *map(str, sizes[1:])])
        return [
            f"{name} = tensor.expand_shape {value} {self._reassociation()} output_shape [{shape}] "
            f": {value_type} into {self._type(sizes)}"
        ]

    def _convolution(self, inputs: str, init: str, sum_type: str) -> str:
        name = NAMES.get((self.rank, self.channels_last, self.form))
        outs = f"outs({init} : {sum_type})"
        if self.named and name is not None:
            attributes = ", ".join(
                f"{key} = dense<{list(values)}> : tensor<{self.rank}xi64>"
                for key, values in (("dilations", self.dilations), ("strides", self.strides))
            )
            return f"%sum = linalg.{name} {{{attributes}}} {inputs} {outs} -> {sum_type}"
        positions = [
            f"o{d} * {stride} + r{d} * {dilation}"
            for d, (stride, dilation) in enumerate(zip(self.strides, self.dilations, strict=True))
        ]
        places, taps = [f"o{d}" for d in range(self.rank)], [f"r{d}" for d in range(self.rank)]
        groups = ["g"] if self.form != "plain" else []
        channel, output = ([], []) if self.depthwise else (["c"], ["f"])
        parallel = self._image(["n"], groups + output, places)
        loops = [*parallel, *channel, *taps]
        reads = [
            self._image(["n"], groups + channel, positions),
            [*taps, *groups, *channel, *output]
            if self.channels_last
            else [*groups, *output, *channel, *taps],
            parallel,
        ]
        maps = ", ".join(f"affine_map<({', '.join(loops)}) -> ({', '.join(read)})>" for read in reads)
        kinds = ['"parallel"'] * len(parallel) + ['"reduction"'] * (len(loops) - len(parallel))
        return (
            f"%sum = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{', '.join(kinds)}]}} "
            f"{inputs} {outs} {{\n^bb0(%a: f32, %b: f32, %c: f32):\n%p = arith.mulf %a, %b : f32\n"
            f"%s = arith.addf %c, %p : f32\nlinalg.yield %s : f32\n}} -> {sum_type}"
        )

    @property
    def _dynamic(self) -> str:
        return "%batch" if self.dynamic_batch else ""

    def _image(self, batch: list, channels: list, spatial: Sequence) -> list:
        return [*batch, *spatial, *channels] if self.channels_last else [*batch, *channels, *spatial]

    def _type(self, shape: Sequence[int]) -> str:
        return _type(["?" if self.dynamic_batch else shape[0], *shape[1:]])

    def _reassociation(self) -> list[list[int]]:
        split = self.rank + 1 if self.channels_last else 1
        whole = [[d] for d in range(split)]
        return [*whole, [split, split + 1], *([d] for d in range(split + 2, self.rank + 3))]


def _type(shape: Sequence[object]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def _values(array: np.ndarray) -> str:
    return f'"0x{array.astype("<f4").tobytes().hex().upper()}"'
