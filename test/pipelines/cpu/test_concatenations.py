"""Convolutions that write to parts of concatenations, and read from them, against IREE's own."""

from __future__ import annotations

from collections.abc import Sequence

import iree.winograd
import numpy as np
import pytest

SIZE = 9


def tensor_type(channels: int) -> str:
    return f"tensor<2x{SIZE}x{SIZE}x{channels}xf32>"


class Source:
    """MLIR of a function of an image and filters, an operation a line."""

    def __init__(self, channels: int) -> None:
        self.channels = {"%x": channels}
        self.filters: list[tuple[int, int, int]] = []
        self.lines: list[str] = []

    def convolution(self, source: str, outputs: int, kernel: int) -> str:
        name, pad, size = f"%c{len(self.lines)}", kernel // 2, SIZE + 2 * (kernel // 2)
        inputs = self.channels[source]
        padded, result = f"tensor<2x{size}x{size}x{inputs}xf32>", tensor_type(outputs)
        self.lines.append(
            f"{name}_p = tensor.pad {source} low[0, {pad}, {pad}, 0] high[0, {pad}, {pad}, 0] {{\n"
            "^bb0(%i: index, %j: index, %k: index, %l: index):\n  tensor.yield %zero : f32\n"
            f"}} : {tensor_type(inputs)} to {padded}\n"
            f"{name}_e = tensor.empty() : {result}\n"
            f"{name}_z = linalg.fill ins(%zero : f32) outs({name}_e : {result}) -> {result}\n"
            f"{name} = linalg.conv_2d_nhwc_hwcf ins({name}_p, %f{len(self.filters)} : {padded}, "
            f"tensor<{kernel}x{kernel}x{inputs}x{outputs}xf32>) outs({name}_z : {result}) -> {result}"
        )
        self.filters.append((kernel, inputs, outputs))
        self.channels[name] = outputs
        return name

    def concatenation(self, parts: Sequence[str]) -> str:
        name = f"%c{len(self.lines)}"
        self.channels[name] = sum(self.channels[part] for part in parts)
        types = ", ".join(tensor_type(self.channels[part]) for part in parts)
        result = tensor_type(self.channels[name])
        self.lines.append(f"{name} = tensor.concat dim(3) {', '.join(parts)} : ({types}) -> {result}")
        return name

    def function(self, result: str) -> str:
        arguments = [f"%x: {tensor_type(self.channels['%x'])}"]
        arguments += [
            f"%f{number}: tensor<{kernel}x{kernel}x{inputs}x{outputs}xf32>"
            for number, (kernel, inputs, outputs) in enumerate(self.filters)
        ]
        type_ = tensor_type(self.channels[result])
        lines = ["%zero = arith.constant 0.0 : f32", *self.lines, f"return {result} : {type_}"]
        return f"func.func @main({', '.join(arguments)}) -> {type_} {{\n" + "\n".join(lines) + "\n}"


def dense_block(kernel: int) -> tuple[Source, str]:
    """Layers that each read all channels before theirs, and append to them."""
    source = Source(17)
    image = "%x"
    for outputs in (48, 16, 20):
        bottleneck = source.convolution(image, 32, kernel)
        image = source.concatenation([image, source.convolution(bottleneck, outputs, 3)])
    return source, image


def dense_block_without_bottlenecks() -> tuple[Source, str]:
    """Layers that read the tensor that they write to."""
    source = Source(16)
    image = "%x"
    for outputs in (16, 24):
        image = source.concatenation([image, source.convolution(image, outputs, 3)])
    return source, image


def branches() -> tuple[Source, str]:
    """Convolutions of one image side by side, one of them used elsewhere, too."""
    source = Source(32)
    shared = source.convolution("%x", 24, 1)
    parts = [source.convolution("%x", 16, 3), "%x", source.convolution(shared, 40, 3), shared]
    return source, source.convolution(source.concatenation(parts), 8, 1)


def scales() -> tuple[Source, str]:
    """Layers that append to an image which another one still reads as it was."""
    source = Source(16)
    former = source.concatenation(["%x", source.convolution("%x", 16, 3)])
    fine = source.concatenation([former, source.convolution(former, 16, 3)])
    finer = source.concatenation([fine, source.convolution(former, 24, 3)])
    return source, source.concatenation([finer, source.convolution(former, 8, 1), fine])


def aggregation() -> tuple[Source, str]:
    """Layers whose results are all concatenated, and read by the next ones before."""
    source = Source(16)
    first = source.convolution("%x", 24, 3)
    second = source.convolution(first, 16, 1)
    third = source.convolution(second, 20, 3)
    parts = [third, source.convolution(first, 8, 3), first, second, source.convolution(third, 16, 5)]
    return source, source.convolution(source.concatenation(parts), 12, 1)


@pytest.mark.parametrize(
    "program",
    [
        dense_block(3),
        *(pytest.param(each, marks=pytest.mark.wide) for each in (branches(), scales(), aggregation())),
    ],
    ids=["dense", "branches", "scales", "aggregation"],
)
def test_agrees_with_iree(program: tuple[Source, str]) -> None:
    source, result = program
    text = source.function(result)
    generator = np.random.default_rng(0)
    arguments = [generator.uniform(-1, 1, (2, SIZE, SIZE, source.channels["%x"])).astype(np.float32)]
    arguments += [
        (generator.uniform(-1, 1, (kernel, kernel, inputs, outputs)) / (kernel * inputs**0.5)).astype(
            np.float32
        )
        for kernel, inputs, outputs in source.filters
    ]
    stock, ours = (
        iree.winograd.compile(text, target="cpu", enable_winograd=enabled) for enabled in (False, True)
    )
    expected = np.asarray(iree.winograd.load(stock, device="local-sync")(*arguments))
    for device in ("local-sync", "local-task"):
        actual = np.asarray(iree.winograd.load(ours, device=device)(*arguments))
        np.testing.assert_allclose(actual, expected, atol=1e-4 * np.abs(expected).max())


def test_what_follows_is_computed_on_parts() -> None:
    """A bias and swish behind a concatenation: each part gets its own channels of the bias."""
    source = Source(19)
    parts = [source.convolution("%x", 24, 1), "%x", source.convolution("%x", 7, 1)]
    joined = source.concatenation(parts)
    channels = source.channels[joined]
    generator = np.random.default_rng(0)
    bias = generator.uniform(-1, 1, channels).astype(np.float32)
    type_, values = tensor_type(channels), ", ".join(f"{float(each):.9e}" for each in bias)
    maps = "affine_map<(n, h, w, k) -> (n, h, w, k)>", "affine_map<(n, h, w, k) -> (k)>"
    source.lines.append(
        f"%bias = arith.constant dense<[{values}]> : tensor<{channels}xf32>\n"
        "%one = arith.constant 1.0 : f32\n"
        f"%e = tensor.empty() : {type_}\n"
        f"%sum = linalg.generic {{indexing_maps = [{maps[0]}, {maps[1]}, {maps[0]}],\n"
        '  iterator_types = ["parallel", "parallel", "parallel", "parallel"]}\n'
        f"  ins({joined}, %bias : {type_}, tensor<{channels}xf32>) outs(%e : {type_}) {{\n"
        "^bb0(%a: f32, %b: f32, %out: f32):\n  %s = arith.addf %a, %b : f32\n  linalg.yield %s : f32\n"
        f"}} -> {type_}\n"
        f"%sigmoid = linalg.generic {{indexing_maps = [{maps[0]}, {maps[0]}],\n"
        '  iterator_types = ["parallel", "parallel", "parallel", "parallel"]}\n'
        f"  ins(%sum : {type_}) outs(%e : {type_}) {{\n"
        "^bb0(%a: f32, %out: f32):\n  %n = arith.negf %a : f32\n  %p = math.exp %n : f32\n"
        "  %q = arith.addf %p, %one : f32\n  %s = arith.divf %one, %q : f32\n  linalg.yield %s : f32\n"
        f"}} -> {type_}\n"
        f"%swish = linalg.elementwise <mul> ins(%sum, %sigmoid : {type_}, {type_})\n"
        f"  outs(%e : {type_}) -> {type_}"
    )
    source.channels["%swish"] = channels
    image = generator.uniform(-1, 1, (2, SIZE, SIZE, 19)).astype(np.float32)
    filters = [generator.uniform(-1, 1, (1, 1, 19, outputs)).astype(np.float32) for outputs in (24, 7)]
    program = iree.winograd.load(iree.winograd.compile(source.function("%swish"), target="cpu"))
    exact = [image @ filters[0][0, 0].astype(np.float64), image, image @ filters[1][0, 0].astype(np.float64)]
    summed = np.concatenate(exact, axis=-1) + bias
    # Sums of 20 numbers below 1 are off by at most 20 * 20 roundings of 6e-8, and swish's slope is below 1.1;
    # its exponential and division are within a few more.
    np.testing.assert_allclose(program(image, *filters), summed / (1 + np.exp(-summed)), atol=4e-5)
