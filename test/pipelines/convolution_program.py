"""One convolution as a program, compiled with a given algorithm, and its result in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import iree.winograd
import numpy as np
import numpy.typing as npt
from activations import ACTIVATIONS
from agreement import expect_within
from checked_programs import check_together, compile_rewritten
from guarded import Edge, GuardedArray
from iree.winograd.dialect.algebra.numerics import error_bound
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.dialect.reference import convolution
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange
from schedule_text import ranges_text, schedule_text

Array = npt.NDArray[Any]

NAMED_OPS = {1: "linalg.conv_1d_nwc_wcf", 2: "linalg.conv_2d_nhwc_hwcf", 3: "linalg.conv_3d_ndhwc_dhwcf"}


@dataclass(frozen=True)
class Program:
    """A padded convolution of N x size... x channels, then bias and `activation`, computed by F(m, p)."""

    size: tuple[int, ...]
    channels: int
    outputs: int
    kernel: tuple[int, ...]
    m: tuple[int, ...]
    p: tuple[int, ...]
    batch: int = 1
    strides: tuple[int, ...] | None = None
    dilations: tuple[int, ...] | None = None
    low: tuple[int, ...] | None = None
    high: tuple[int, ...] | None = None
    dynamic_batch: bool = False
    dynamic_size: bool = False
    """Whether the sizes of images are known only at run time: the program's own is that which is expected."""
    constant_filter: bool = True
    groups: int = 1
    activation: str = "relu"
    input_channels_first: bool = False
    """Whether the program's image is channels first; its convolution is channels last."""
    output_channels_first: bool = False
    """The same of its result."""
    adds_image: bool = False
    """Whether the image is added to the sums, as residual networks do; it has as many pixels and channels."""
    schedule: Schedule | None = None
    """The default one where it is None."""
    ranges: tuple[ScheduleRange, ...] = ()
    """Those of images of other sizes beside it."""

    def __str__(self) -> str:
        parts = [f"F({'x'.join(map(str, self.m))},{'x'.join(map(str, self.p))})"]
        parts.append("x".join(map(str, (self.batch, *self.size, self.channels))))
        parts.append("x".join(map(str, self.filter_shape)))
        if self.groups > 1:
            parts.append(f"groups={self.groups}")
        for name in ("strides", "dilations", "low", "high"):
            values = getattr(self, name)
            if values is not None:
                parts.append(f"{name}={'x'.join(map(str, values))}")
        if self.dynamic_size:
            parts.append("dynamic-size")
        if self.input_channels_first:
            parts.append("input-channels-first")
        if self.output_channels_first:
            parts.append("output-channels-first")
        if self.adds_image:
            parts.append("adds-image")
        if self.schedule is not None:
            parts.append("scheduled")
        if self.ranges:
            parts.append(f"{len(self.ranges)}-ranges")
        if self.activation != "relu":
            parts.append(self.activation.replace(" ", "-"))
        return "-".join(parts)

    @property
    def channels_first(self) -> Program:
        """The same with image and result channels first."""
        return replace(self, input_channels_first=True, output_channels_first=True)

    @property
    def rank(self) -> int:
        return len(self.size)

    def per_dimension(self, name: str, default: int) -> tuple[int, ...]:
        values = getattr(self, name)
        return (default,) * self.rank if values is None else values

    @property
    def padded(self) -> tuple[int, ...]:
        low, high = self.per_dimension("low", 0), self.per_dimension("high", 0)
        return tuple(before + size + after for before, size, after in zip(low, self.size, high, strict=True))

    @property
    def output_size(self) -> tuple[int, ...]:
        strides, dilations = self.per_dimension("strides", 1), self.per_dimension("dilations", 1)
        return tuple(
            (size - dilation * (taps - 1) - 1) // stride + 1
            for size, taps, stride, dilation in zip(self.padded, self.kernel, strides, dilations, strict=True)
        )

    @property
    def filter_shape(self) -> tuple[int, ...]:
        """R... x C/g x K, the output channels of one group after those of another."""
        return (*self.kernel, self.channels // self.groups, self.outputs)

    def text(self, filters: Array | None, name: str = "main") -> str:
        """The program as a function in MLIR; filters are an argument of it if they aren't given."""
        batch = "?" if self.dynamic_batch else str(self.batch)
        image = _tensor(batch, *self._shown(self.size), self.channels)
        padded = _tensor(batch, *self._shown(self.padded), self.channels)
        weights = _tensor(*self.filter_shape)
        output = _tensor(batch, *self._shown(self.output_size), self.outputs)
        bias = _tensor(self.outputs)
        loops = ", ".join(f"d{i}" for i in range(self.rank + 2))
        identity = f"affine_map<({loops}) -> ({loops})>"
        along_channels = f"affine_map<({loops}) -> (d{self.rank + 1})>"
        parallel = ", ".join(['"parallel"'] * (self.rank + 2))
        batches = ["%batch"] if self.dynamic_batch else []
        dimensions = range(self.rank) if self.dynamic_size else ()
        dynamic_image = ", ".join([*batches, *(f"%size_{d}" for d in dimensions)])
        dynamic = ", ".join([*batches, *(f"%outputs_{d}" for d in dimensions)])
        read_from, given, result = "%image", image, output
        read = written = ""
        if self.input_channels_first:
            read_from, given = "%given", _tensor(batch, self.channels, *self._shown(self.size))
            to_last = [0, *range(2, self.rank + 2), 1]
            read = _transposed("%image", "%given", given, image, dynamic_image, to_last)
        if self.output_channels_first:
            result = _tensor(batch, self.outputs, *self._shown(self.output_size))
            to_first = [0, self.rank + 1, *range(1, self.rank + 1)]
            written = _transposed("%result", "%outputs", output, result, dynamic, to_first)
        outputs = "%outputs" if self.output_channels_first else "%result"
        maps, operands, types, elements = [identity, along_channels], "%sums, %bias", f"{output}, {bias}", ""
        added = "%biased = arith.addf %accumulated, %bias_element : f32"
        if self.adds_image:
            maps.insert(1, identity)
            operands, types = "%sums, %image, %bias", f"{output}, {image}, {bias}"
            elements = "%image_element: f32, "
            added = (
                "%joined = arith.addf %accumulated, %image_element : f32\n"
                "    %biased = arith.addf %joined, %bias_element : f32"
            )
        arguments = f"{read_from}: {given}, %bias: {bias}" + (
            "" if filters is not None else f", %filter: {weights}"
        )
        constant = (
            "" if filters is None else f"%filter = arith.constant dense<{_hexadecimal(filters)}> : {weights}"
        )
        low = _padding(self.per_dimension("low", 0))
        high = _padding(self.per_dimension("high", 0))
        pad_arguments = ", ".join(f"%pad_{i}: index" for i in range(self.rank + 2))
        return f"""
func.func @{name}({arguments}) -> {result} {{
  {constant}
  %first = arith.constant 0 : index
  %batch = tensor.dim {read_from}, %first : {given}
  {self._size_arithmetic(read_from, given) if self.dynamic_size else ""}
  {read}
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %image low{low} high{high} {{
  ^bb0({pad_arguments}):
    tensor.yield %zero : f32
  }} : {image} to {padded}
  %empty = tensor.empty({dynamic}) : {output}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {output}) -> {output}
  {self._convolution(padded, weights, output)}
  {outputs} = linalg.generic {{
    indexing_maps = [{", ".join([*maps, identity])}], iterator_types = [{parallel}]
  }} ins({operands} : {types}) outs(%empty : {output}) {{
  ^bb0(%accumulated: f32, {elements}%bias_element: f32, %unused: f32):
    {added}
    {ACTIVATIONS[self.activation].text}
    linalg.yield %finished : f32
  }} -> {output}
  {written}
  return %result : {result}
}}
"""

    def _shown(self, sizes: Sequence[int]) -> Sequence[object]:
        return "?" * self.rank if self.dynamic_size else sizes

    def _size_arithmetic(self, name: str, given: str) -> str:
        """The sizes of the image, padded, and of its outputs, as torch writes them."""
        lines = []
        for d in range(self.rank):
            low, high, stride, dilation = (
                self.per_dimension(each, default)[d]
                for each, default in (("low", 0), ("high", 0), ("strides", 1), ("dilations", 1))
            )
            constants = {
                "position": d + (2 if self.input_channels_first else 1),
                "padding": low + high,
                "before_last": dilation * (self.kernel[d] - 1) + 1,
                "stride": stride,
                "one": 1,
            }
            lines += [f"%{each}_{d} = arith.constant {value} : index" for each, value in constants.items()]
            lines += [
                f"%size_{d} = tensor.dim {name}, %position_{d} : {given}",
                f"%padded_{d} = arith.addi %size_{d}, %padding_{d} : index",
                f"%beyond_{d} = arith.subi %padded_{d}, %before_last_{d} : index",
                f"%steps_{d} = arith.floordivsi %beyond_{d}, %stride_{d} : index",
                f"%outputs_{d} = arith.addi %steps_{d}, %one_{d} : index",
            ]
        return "\n  ".join(lines)

    def _convolution(self, padded: str, weights: str, output: str) -> str:
        algorithm = f"winograd.algorithm = {{output_tile = {_array(self.m)}, part_size = {_array(self.p)}}}"
        if self.schedule is not None:
            algorithm += f", {schedule_text(self.schedule)}"
        if self.ranges:
            algorithm += f", {ranges_text(self.ranges)}"
        strides, dilations = self.per_dimension("strides", 1), self.per_dimension("dilations", 1)
        if self.groups == 1:
            attributes = f"{{dilations = {_vector(dilations)}, strides = {_vector(strides)}, {algorithm}}}"
            return (
                f"%sums = {NAMED_OPS[self.rank]} {attributes}\n"
                f"    ins(%padded, %filter : {padded}, {weights}) outs(%zeros : {output}) -> {output}"
            )
        batch = "?" if self.dynamic_batch else str(self.batch)
        inputs, outputs = self.channels // self.groups, self.outputs // self.groups
        image = _tensor(batch, *self._shown(self.padded), self.groups, inputs)
        sums = _tensor(batch, *self._shown(self.output_size), self.groups, outputs)
        filters = _tensor(*self.kernel, inputs, self.groups, outputs)
        places, taps = [f"o{d}" for d in range(self.rank)], [f"r{d}" for d in range(self.rank)]
        positions = [
            f"{place} * {stride} + {tap} * {dilation}"
            for place, stride, tap, dilation in zip(places, strides, taps, dilations, strict=True)
        ]
        loops = ", ".join(["n", *places, "g", "k", *taps, "c"])
        reads = (["n", *positions, "g", "c"], [*taps, "c", "g", "k"], ["n", *places, "g", "k"])
        maps = ", ".join(f"affine_map<({loops}) -> ({', '.join(read)})>" for read in reads)
        kinds = ", ".join(['"parallel"'] * (self.rank + 3) + ['"reduction"'] * (self.rank + 1))
        split = [*([d] for d in range(self.rank + 1)), [self.rank + 1, self.rank + 2]]
        return f"""
  %grouped = tensor.expand_shape %padded {split}
    output_shape [{", ".join(map(str, (*self._values("padded"), self.groups, inputs)))}]
    : {padded} into {image}
  %grouped_filter = tensor.expand_shape %filter {split} output_shape
    [{", ".join(map(str, (*self.kernel, inputs, self.groups, outputs)))}] : {weights} into {filters}
  %grouped_zeros = tensor.expand_shape %zeros {split}
    output_shape [{", ".join(map(str, (*self._values("outputs"), self.groups, outputs)))}]
    : {output} into {sums}
  %grouped_sums = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
    ins(%grouped, %grouped_filter : {image}, {filters}) outs(%grouped_zeros : {sums})
    attrs = {{{algorithm}}} {{
  ^bb0(%element: f32, %weight: f32, %sum: f32):
    %product = arith.mulf %element, %weight : f32
    %added = arith.addf %sum, %product : f32
    linalg.yield %added : f32
  }} -> {sums}
  %sums = tensor.collapse_shape %grouped_sums {split} : {sums} into {output}"""

    def _values(self, of: Literal["padded", "outputs"]) -> list[object]:
        """The batch and the sizes of the padded image, or of outputs: numbers or values."""
        sizes = self.padded if of == "padded" else self.output_size
        named = [f"%{of}_{d}" for d in range(self.rank)]
        return ["%batch" if self.dynamic_batch else self.batch, *(named if self.dynamic_size else sizes)]

    def check(
        self,
        flags: Sequence[str] = (),
        device: str = "local-sync",
        target: str = "cpu",
        threads: int | None = None,
    ) -> None:
        """Compiles and runs the program; its error against float64 has to be within the a-priori bound."""
        check_together([self], flags, [device], target, threads)

    def expect_right(self, function: Callable[..., Any]) -> None:
        """The error of what the compiled program is called by has to be within the a-priori bound."""
        result, expected = self.results(function)
        expect_within(result, expected, self.bound())
        assert np.abs(expected).max() > 2 * self.bound(), "the bound is too large to tell anything"

    def function(self, name: str) -> str:
        """The program as MLIR."""
        return self.text(self.arguments()[1] if self.constant_filter else None, name)

    def run(
        self,
        flags: Sequence[str] = (),
        device: str = "local-sync",
        target: str = "cpu",
        threads: int | None = None,
    ) -> tuple[Array, Array]:
        """The result of the compiled program for random arguments, and that in float64."""
        compiled = compile_rewritten(self.function("main"), target, flags, threads)
        return self.results(iree.winograd.load(compiled, device=device))

    def check_sizes(
        self,
        sizes: Sequence[tuple[int, ...]],
        batches: Sequence[int] = (1,),
        *,
        device: str = "local-task",
        **options: Any,
    ) -> None:
        """As `check`, at several sizes of one program, which expects its own; `options` are `compile`'s.

        Images lie beside pages that may not be touched: reading outside of one ends the process.
        """
        flags = {"size_hint": self.size, **options}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = iree.winograd.compile(self.function("main"), **flags)
        program = iree.winograd.load(compiled, device=device, threads=options.get("threads"))
        for batch in batches:
            for size in sizes:
                # A GPU's kernels read copies.
                edges: Sequence[Edge | None] = ("start", "end") if device.startswith("local") else (None,)
                for edge in edges:
                    result, expected = replace(self, size=size, batch=batch).results(program, edge)
                    assert result.shape == expected.shape, size
                    expect_within(result, expected, self.bound())

    def arguments(self) -> tuple[Array, Array, Array]:
        """A random image, filters and bias."""
        generator = np.random.default_rng(0)
        filters = generator.uniform(-1, 1, self.filter_shape).astype(np.float32)
        bias = generator.uniform(-1, 1, self.outputs).astype(np.float32)
        image = generator.uniform(-1, 1, (self.batch, *self.size, self.channels)).astype(np.float32)
        return image, filters, bias

    def results(self, program: Callable[..., Any], edge: Edge | None = None) -> tuple[Array, Array]:
        """That of the loaded program, of an image beside a guard page if `edge` is one, and in float64."""
        image, filters, bias = self.arguments()
        given, *others = self.given(image, filters, bias)
        guarded = None if edge is None else GuardedArray(given, edge)
        given = given if guarded is None else guarded.array
        result = np.array(program(given, *others))
        return self.channels_last(result), self.expected(image, filters, bias)

    def given(self, image: Array, filters: Array, bias: Array) -> Sequence[Array]:
        """The program's arguments, for a channels-last image."""
        given = np.ascontiguousarray(np.moveaxis(image, -1, 1)) if self.input_channels_first else image
        return (given, bias) if self.constant_filter else (given, bias, filters)

    def channels_last(self, result: Array) -> Array:
        """The program's result in that order."""
        return np.moveaxis(result, 1, -1) if self.output_channels_first else result

    def expected(self, image: Array, filters: Array, bias: Array) -> Array:
        exact = [
            convolution(
                group_image.astype(np.float64),
                group_filters.astype(np.float64),
                self.strides,
                self.dilations,
                self.low,
                self.high,
            )
            for group_image, group_filters in zip(
                np.split(image, self.groups, axis=-1), np.split(filters, self.groups, axis=-1), strict=True
            )
        ]
        added = image.astype(np.float64) + bias if self.adds_image else bias
        return ACTIVATIONS[self.activation].exact(np.concatenate(exact, axis=-1) + added)

    def bound(self) -> float:
        """For data and filters within [-1, 1]; the bias rounds once more, an activation some eight times."""
        decomposition = decompose(
            self.kernel, self.m, strides=self.strides, dilations=self.dilations, part_size=self.p
        )
        inputs = self.channels // self.groups
        convolution_bound = error_bound(
            self.m, self.p, inputs, views=decomposition.view_count, exact_filter=self.constant_filter
        )
        largest = prod(self.kernel) * inputs + 1 + self.adds_image
        activation = 0 if self.activation == "relu" else 8 * largest * 2.0**-24
        slope = ACTIVATIONS[self.activation].slope
        return slope * (convolution_bound + (2 + self.adds_image) * largest * 2.0**-24) + activation


def _transposed(
    name: str, source: str, source_type: str, result_type: str, dynamic: str, permutation: Sequence[int]
) -> str:
    return (
        f"{name}_empty = tensor.empty({dynamic}) : {result_type}\n"
        f"  {name} = linalg.transpose ins({source} : {source_type}) outs({name}_empty : {result_type}) "
        f"permutation = {list(permutation)}"
    )


def _tensor(*sizes: object) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


def _vector(values: Sequence[int]) -> str:
    return f"dense<[{', '.join(map(str, values))}]> : tensor<{len(values)}xi64>"


def _array(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def _padding(values: Sequence[int]) -> str:
    return f"[0, {', '.join(map(str, values))}, 0]"


def _hexadecimal(array: Array) -> str:
    return f'"0x{array.astype("<f4").tobytes().hex().upper()}"'
