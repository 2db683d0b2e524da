"""Small networks as MLIR text, the way torch-mlir writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Layer:
    """One of the names that `Network` has a method for."""

    name: str


@dataclass
class Network:
    """A function of one image, built layer by layer, in layout `nchw` or `nhwc`."""

    layout: str
    batch: str
    size: tuple[int, int]
    channels: int
    generator: np.random.Generator
    value: str = "%input"
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def shape(self, channels: int, size: tuple[int, int]) -> list:
        return [self.batch, channels, *size] if self.layout == "nchw" else [self.batch, *size, channels]

    def type(self, channels: int | None = None, size: tuple[int, int] | None = None) -> str:
        shape = self.shape(
            self.channels if channels is None else channels, self.size if size is None else size
        )
        return f"tensor<{'x'.join(map(str, shape))}xf32>"

    def spatial(self, values: Sequence[int]) -> str:
        full = [0, 0, *values] if self.layout == "nchw" else [0, *values, 0]
        return f"[{', '.join(map(str, full))}]"

    def empty(self, tensor_type: str) -> str:
        return self.emit(f"tensor.empty({'%batch' if self.batch == '?' else ''}) : {tensor_type}")

    def filled(self, element: str, tensor_type: str) -> str:
        empty = self.empty(tensor_type)
        return self.emit(f"linalg.fill ins({element} : f32) outs({empty} : {tensor_type}) -> {tensor_type}")

    def constant(self, *shape: int, positive: bool = False) -> tuple[str, str]:
        array = self.generator.standard_normal(shape).astype(np.float32)
        array = np.abs(array) + 0.5 if positive else array
        tensor_type = f"tensor<{'x'.join(map(str, shape))}xf32>"
        return self.emit(f"arith.constant dense<{_as_mlir(array)}> : {tensor_type}"), tensor_type

    def pad(self, element: str) -> str:
        size = (self.size[0] + 2, self.size[1] + 2)
        indices = ", ".join(f"%i{axis}: index" for axis in range(4))
        ones = self.spatial((1, 1))
        return self.emit(
            f"tensor.pad {self.value} low{ones} high{ones} {{\n^bb0({indices}):\n"
            f"tensor.yield {element} : f32\n}} : {self.type()} to {self.type(size=size)}"
        )

    def convolution(self, kernel: int, stride: int, bias: bool, filters: int | None = None) -> None:
        filters = self.channels + 1 if filters is None else filters
        value, size = self.value, self.size
        if kernel == 3:
            value, size = self.pad("%zero"), (size[0] + 2, size[1] + 2)
        input_type = self.type(size=size)
        output_size = tuple((extent - kernel) // stride + 1 for extent in size)
        output_type = self.type(filters, output_size)
        if self.layout == "nchw":
            operation, shape = "conv_2d_nchw_fchw", (filters, self.channels, kernel, kernel)
        else:
            operation, shape = "conv_2d_nhwc_hwcf", (kernel, kernel, self.channels, filters)
        weights, weights_type = self.constant(*shape)
        init = self.filled("%zero", output_type)
        if bias:
            vector, vector_type = self.constant(filters)
            dimensions = "[0, 2, 3]" if self.layout == "nchw" else "[0, 1, 2]"
            empty = self.empty(output_type)
            init = self.emit(
                f"linalg.broadcast ins({vector} : {vector_type}) outs({empty} : {output_type}) "
                f"dimensions = {dimensions}"
            )
        self.value = self.emit(
            f"linalg.{operation} {{dilations = dense<1> : vector<2xi64>, "
            f"strides = dense<{stride}> : vector<2xi64>}} "
            f"ins({value}, {weights} : {input_type}, {weights_type}) "
            f"outs({init} : {output_type}) -> {output_type}"
        )
        self.channels, self.size = filters, output_size

    def elementwise(self, operands: Sequence[tuple[str, str, str]], body: str) -> None:
        """Applies `body` to `%a`, an element of the value, and `%b0`, ... of operands (name, type, map)."""
        identity = "affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>"
        maps = [identity, *(f"affine_map<(d0, d1, d2, d3) -> {index}>" for _, _, index in operands), identity]
        tensor_type = self.type()
        names = ", ".join([self.value, *(name for name, _, _ in operands)])
        types = ", ".join([tensor_type, *(operand_type for _, operand_type, _ in operands)])
        arguments = "".join(f", %b{index}: f32" for index in range(len(operands)))
        empty = self.empty(tensor_type)
        self.value = self.emit(
            f"linalg.generic {{indexing_maps = [{', '.join(maps)}], "
            f'iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} '
            f"ins({names} : {types}) outs({empty} : {tensor_type}) {{\n"
            f"^bb0(%a: f32{arguments}, %out: f32):\n{body}\nlinalg.yield %r : f32\n}} -> {tensor_type}"
        )

    def conv3x3(self) -> None:
        self.convolution(3, 1, bias=False)

    def conv3x3_bias(self) -> None:
        self.convolution(3, 1, bias=True)

    def conv3x3_stride2(self) -> None:
        self.convolution(3, 2, bias=False)

    def conv1x1(self) -> None:
        self.convolution(1, 1, bias=False)

    def relu(self) -> None:
        self.elementwise([], "%c = arith.cmpf ugt, %a, %zero : f32\n%r = arith.select %c, %a, %zero : f32")

    def tanh(self) -> None:
        self.elementwise([], "%r = math.tanh %a : f32")

    def clamp(self, limit: str) -> None:
        """To 0 and `limit`, as torch-mlir writes ReLU6."""
        for predicate, bound in (("ult", "%zero"), ("ugt", limit)):
            body = f"%c = arith.cmpf {predicate}, %a, {bound} : f32\n%r = arith.select %c, {bound}, %a : f32"
            self.elementwise([], body)

    def hard_sigmoid(self) -> None:
        self.elementwise([], "%r = arith.addf %a, %three : f32")
        self.clamp("%six")
        self.elementwise([], "%r = arith.divf %a, %six : f32")

    def hard_swish(self) -> None:
        """Multiplies before it divides, so that the division is of a value with two sources."""
        value = self.value
        self.elementwise([], "%r = arith.addf %a, %three : f32")
        self.clamp("%six")
        self.elementwise([(value, self.type(), "(d0, d1, d2, d3)")], "%r = arith.mulf %a, %b0 : f32")
        self.elementwise([], "%r = arith.divf %a, %six : f32")

    def shortcut(self) -> None:
        """Adds the value to a convolution of itself."""
        value = self.value
        self.convolution(1, 1, bias=True, filters=self.channels)
        self.elementwise([(value, self.type(), "(d0, d1, d2, d3)")], "%r = arith.addf %a, %b0 : f32")

    def squeeze_excitation(self) -> None:
        """Scales channels by what two 1x1 convolutions make of their means."""
        value, size, channels = self.value, self.size, self.channels
        self.global_mean()
        self.convolution(1, 1, bias=True, filters=2)
        self.relu()
        self.convolution(1, 1, bias=True, filters=channels)
        self.hard_sigmoid()
        gate, gate_type = self.value, self.type()
        self.value, self.size = value, size
        index = "(d0, d1, 0, 0)" if self.layout == "nchw" else "(d0, 0, 0, d3)"
        self.elementwise([(gate, gate_type, index)], "%r = arith.mulf %a, %b0 : f32")

    def global_mean(self) -> None:
        elements, image_type = self.size[0] * self.size[1], self.type()
        self.size, iterators = (1, 1), ['"parallel"'] * 4
        rows = (2, 3) if self.layout == "nchw" else (1, 2)
        for dimension in rows:
            iterators[dimension] = '"reduction"'
        kept = ", ".join("0" if dimension in rows else f"d{dimension}" for dimension in range(4))
        init = self.filled("%zero", self.type())
        self.value = self.emit(
            "linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, "
            f"affine_map<(d0, d1, d2, d3) -> ({kept})>], "
            f"iterator_types = [{', '.join(iterators)}]}} "
            f"ins({self.value} : {image_type}) outs({init} : {self.type()}) {{\n"
            f"^bb0(%a: f32, %out: f32):\n%r = arith.addf %a, %out : f32\n"
            f"linalg.yield %r : f32\n}} -> {self.type()}"
        )
        self.elementwise(
            [], f"%elements = arith.constant {elements}.0 : f32\n%r = arith.divf %a, %elements : f32"
        )

    def batch_norm(self) -> None:
        """As torch-mlir writes it: per-channel arithmetic on constants, then four elementwise operations."""
        vectors = [self.constant(self.channels) for _ in range(3)]
        variance, vector_type = self.constant(self.channels, positive=True)
        empty = self.emit(f"tensor.empty() : {vector_type}")
        deviation = self.emit(
            "linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], "
            f'iterator_types = ["parallel"]}} ins({variance} : {vector_type}) '
            f"outs({empty} : {vector_type}) {{\n"
            "^bb0(%a: f32, %out: f32):\n%s = math.sqrt %a : f32\n%q = arith.divf %one, %s : f32\n"
            f"linalg.yield %q : f32\n}} -> {vector_type}"
        )
        (mean, _), (weight, _), (bias, _) = vectors
        expanded_type = f"tensor<{self.channels}x1x1xf32>"
        for operation, operand in (("subf", mean), ("mulf", deviation), ("mulf", weight), ("addf", bias)):
            if self.layout == "nhwc":
                operands = [(operand, vector_type, "(d3)")]
            else:
                expanded = self.emit(
                    f"tensor.expand_shape {operand} [[0, 1, 2]] output_shape [{self.channels}, 1, 1] "
                    f": {vector_type} into {expanded_type}"
                )
                operands = [(expanded, expanded_type, "(d1, 0, 0)")]
            self.elementwise(operands, f"%r = arith.{operation} %a, %b0 : f32")

    def residual(self) -> None:
        """Adds the value to a function of itself, so that it has several users."""
        shortcut = self.value
        self.tanh()
        self.elementwise([(shortcut, self.type(), "(d0, d1, d2, d3)")], "%r = arith.addf %a, %b0 : f32")

    def shuffle(self) -> None:
        """Makes channel `c` of group `g` channel `g` of group `c`, of as few groups as there can be."""
        dividing = (count for count in range(2, self.channels + 1) if self.channels % count == 0)
        groups = next(dividing, 1)
        shape, channels = self.shape(self.channels, self.size), 1 if self.layout == "nchw" else 3
        split = [*shape[:channels], groups, self.channels // groups, *shape[channels + 1 :]]
        order = list(range(5))
        order[channels], order[channels + 1] = channels + 1, channels
        split_type, exchanged_type = (
            f"tensor<{'x'.join(map(str, sizes))}xf32>" for sizes in (split, [split[d] for d in order])
        )
        merged = [[d, d + 1] if d == channels else [d] for d in range(5) if d != channels + 1]
        sizes = ", ".join("%batch" if size == "?" else str(size) for size in split)
        divided = self.emit(
            f"tensor.expand_shape {self.value} {merged} output_shape [{sizes}] "
            f": {self.type()} into {split_type}"
        )
        empty = self.empty(exchanged_type)
        exchanged = self.emit(
            f"linalg.transpose ins({divided} : {split_type}) outs({empty} : {exchanged_type}) "
            f"permutation = {order}"
        )
        self.value = self.emit(
            f"tensor.collapse_shape {exchanged} {merged} : {exchanged_type} into {self.type()}"
        )

    def tokens(self) -> None:
        """Makes tokens of pixels, channels last, which are multiplied by a function of them, then pixels."""
        batch, *rest = self.shape(self.channels, self.size)
        count, first = self.size[0] * self.size[1], self.layout == "nchw"
        merged = [[0], [1], [2, 3]] if first else [[0], [1, 2], [3]]
        tokens = f"tensor<{batch}x{count}x{self.channels}xf32>"
        merged_type = f"tensor<{batch}x{self.channels}x{count}xf32>" if first else tokens
        value = self.emit(f"tensor.collapse_shape {self.value} {merged} : {self.type()} into {merged_type}")
        if first:
            value = self._exchanged(value, merged_type, tokens)
        empty = self.empty(tokens)
        function = self.emit(
            f"linalg.elementwise <tanh> ins({value} : {tokens}) outs({empty} : {tokens}) -> {tokens}"
        )
        value = self.emit(
            f"linalg.elementwise <mul> ins({value}, {function} : {tokens}, {tokens}) "
            f"outs({empty} : {tokens}) -> {tokens}"
        )
        if first:
            value = self._exchanged(value, tokens, merged_type)
        sizes = ", ".join("%batch" if size == "?" else str(size) for size in (batch, *rest))
        self.value = self.emit(
            f"tensor.expand_shape {value} {merged} output_shape [{sizes}] : {merged_type} into {self.type()}"
        )

    def _exchanged(self, value: str, source: str, target: str) -> str:
        """The last two of three dimensions of `value` in turns."""
        empty = self.empty(target)
        return self.emit(
            f"linalg.transpose ins({value} : {source}) outs({empty} : {target}) permutation = [0, 2, 1]"
        )

    def scale_rows(self) -> None:
        """Multiplies by a constant that depends on the row only."""
        rows, rows_type = self.constant(self.size[0])
        index = "(d2)" if self.layout == "nchw" else "(d1)"
        self.elementwise([(rows, rows_type, index)], "%r = arith.mulf %a, %b0 : f32")

    def max_pool(self) -> None:
        padded = self.pad("%lowest")
        padded_type = self.type(size=(self.size[0] + 2, self.size[1] + 2))
        size = ((self.size[0] - 1) // 2 + 1, (self.size[1] - 1) // 2 + 1)
        output_type = self.type(size=size)
        window = self.emit("tensor.empty() : tensor<3x3xf32>")
        init = self.filled("%lowest", output_type)
        self.value = self.emit(
            f"linalg.pooling_{self.layout}_max {{dilations = dense<1> : vector<2xi64>, "
            f"strides = dense<2> : vector<2xi64>}} ins({padded}, {window} : {padded_type}, tensor<3x3xf32>) "
            f"outs({init} : {output_type}) -> {output_type}"
        )
        self.size = size

    def window_maximum(self) -> None:
        """Pools by windows of 2 x 3 as a generic, which is what pooling in three dimensions is."""
        padded = self.pad("%lowest")
        padded_type = self.type(size=(self.size[0] + 2, self.size[1] + 2))
        size = (self.size[0] + 1, self.size[1])
        output_type, window = self.type(size=size), self.emit("tensor.empty() : tensor<2x3xf32>")
        init = self.filled("%lowest", output_type)
        read = "d0, d1, d2 + d4, d3 + d5" if self.layout == "nchw" else "d0, d1 + d4, d2 + d5, d3"
        loops = "affine_map<(d0, d1, d2, d3, d4, d5) -> "
        maps = ", ".join(f"{loops}({results})>" for results in (read, "d4, d5", "d0, d1, d2, d3"))
        iterators = ", ".join(['"parallel"'] * 4 + ['"reduction"'] * 2)
        self.value = self.emit(
            f"linalg.generic {{indexing_maps = [{maps}], "
            f"iterator_types = [{iterators}]}} ins({padded}, {window} : {padded_type}, tensor<2x3xf32>) "
            f"outs({init} : {output_type}) {{\n^bb0(%a: f32, %w: f32, %out: f32):\n"
            f"%r = arith.maximumf %a, %out : f32\nlinalg.yield %r : f32\n}} -> {output_type}"
        )
        self.size = size

    def concat(self) -> None:
        axis = 1 if self.layout == "nchw" else 3
        former = self.type()
        self.value, value = "", self.value
        self.channels *= 2
        self.value = self.emit(
            f"tensor.concat dim({axis}) {value}, {value} : ({former}, {former}) -> {self.type()}"
        )

    def slice(self) -> None:
        """Drops the last channel and, where that is static, keeps the rest of each image."""
        if self.channels == 1 or self.batch == "?":
            return
        former = self.type()
        self.channels -= 1
        sizes = self.shape(self.channels, self.size)
        self.value = self.emit(
            f"tensor.extract_slice {self.value}[0, 0, 0, 0] [{', '.join(map(str, sizes))}] [1, 1, 1, 1] "
            f": {former} to {self.type()}"
        )


def network_source(
    layers: Sequence[Layer], shape: Sequence[int], layout: str, dynamic_batch: bool, seed: int
) -> str:
    """A module with one function: `layers` in order on an image of `shape`."""
    size = tuple(shape[2:] if layout == "nchw" else shape[1:3])
    channels = shape[1] if layout == "nchw" else shape[3]
    batch = "?" if dynamic_batch else str(shape[0])
    network = Network(layout, batch, size, channels, np.random.default_rng(seed))
    input_type = network.type()
    for layer in layers:
        getattr(network, layer.name)()
    header = [
        "%zero = arith.constant 0.0 : f32",
        "%one = arith.constant 1.0 : f32",
        "%three = arith.constant 3.0 : f32",
        "%six = arith.constant 6.0 : f32",
        "%lowest = arith.constant -1.0e+30 : f32",
        "%first = arith.constant 0 : index",
        f"%batch = tensor.dim %input, %first : {input_type}",
    ]
    body = "\n".join([*header, *network.lines])
    return (
        f"func.func @network(%input: {input_type}) -> {network.type()} {{\n{body}\n"
        f"return {network.value} : {network.type()}\n}}"
    )


def permuted_filter_source(taps: int, weights: np.ndarray, permutation: Sequence[int], flipped: bool) -> str:
    """A module with one function: a direct convolution of 4 channels on 1x8x4, multiplied by [1, 2, 3, 4].

    Dimension `i` of its filter, taps x 4 x 4, is dimension `permutation[i]` of `weights`.
    """
    views = ", ".join(f"array<i64: {tap}>" for tap in range(taps))
    ones = "array<i64: 1>"
    decomposition = (
        f"{{decomposition = {{dilation = {ones}, kernel_size = array<i64: {taps}>, output_tile = {ones}, "
        f"part_size = {ones}, spacing = {ones}, step = {ones}, views = [{views}]}}, groups = 1 : i64"
    )
    order = ", ".join(map(str, permutation))
    reads = f"{decomposition}, permutation = array<i64: {order}>{', flipped' if flipped else ''}}}"
    filter_type = f"tensor<{'x'.join(map(str, weights.shape))}xf32>"
    outputs, reduction = 9 - taps, taps * 4
    transformed, products = f"tensor<1x{reduction}x4xf32>", f"tensor<1x{outputs}x4xf32>"
    tiles = f"tensor<1x{outputs}x{reduction}xf32>"
    return f"""
      func.func @convolution(%x: tensor<1x8x4xf32>) -> tensor<1x{outputs}x4xf32> {{
        %zero = arith.constant 0.0 : f32
        %w = arith.constant dense<{_as_mlir(weights)}> : {filter_type}
        %scale = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
        %v = "winograd.input_transform"(%x) {decomposition},
          padding_low = array<i64: 0>, padding_high = array<i64: 0>}} : (tensor<1x8x4xf32>) -> {tiles}
        %u = "winograd.filter_transform"(%w) {reads} : ({filter_type}) -> {transformed}
        %e = tensor.empty() : {products}
        %i = linalg.fill ins(%zero : f32) outs(%e : {products}) -> {products}
        %m = linalg.batch_matmul ins(%v, %u : {tiles}, {transformed}) outs(%i : {products}) -> {products}
        %y = "winograd.output_transform"(%m, %scale) ({{
        ^bb0(%a: f32, %b: f32):
          %c = arith.mulf %a, %b : f32
          vector.yield %c : f32
        }}) {decomposition}, indexing_maps = [affine_map<(n, w, k) -> (k)>],
          operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>}}
          : ({products}, tensor<4xf32>) -> tensor<1x{outputs}x4xf32>
        return %y : tensor<1x{outputs}x4xf32>
      }}"""


def _as_mlir(array: np.ndarray) -> str:
    if array.ndim == 0:
        return f"{float(array):.9e}"
    return "[" + ", ".join(map(_as_mlir, array)) + "]"
