"""Layers whose kernels wait for each other, and what they compute in float64."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import iree.winograd
import numpy as np
import numpy.typing as npt
from host import HOST
from iree.winograd.dialect.algebra.numerics import error_bound
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.machines.model import machine_to_json

SIZE, CHANNELS, LAYERS = 10, 32, 8
IDENTITY = "affine_map<(n, h, w, c) -> (n, h, w, c)>"


def residual_layers(seed: int, image_size: int | None = SIZE) -> str:
    """MLIR of a function that applies convolutions, 3x3 and 1x1 in turn, each added to its image.

    Images of any size with `image_size` None.
    """
    extent = "?" if image_size is None else str(image_size)
    image_type = f"tensor<1x{extent}x{extent}x{CHANNELS}xf32>"
    generator = np.random.default_rng(seed)
    lines, extents = ["%zero = arith.constant 0.0 : f32"], ""
    if image_size is None:
        for number, name in ((1, "h"), (2, "w")):
            lines.append(f"%{name}_at = arith.constant {number} : index")
            lines.append(f"%{name} = tensor.dim %x, %{name}_at : {image_type}")
        extents = "%h, %w"
    image = "%x"
    for layer in range(LAYERS):
        kernel = 3 - 2 * (layer % 2)
        pad = kernel // 2
        size = "?" if image_size is None else str(image_size + kernel - 1)
        padded = f"tensor<1x{size}x{size}x{CHANNELS}xf32>"
        filters = generator.uniform(-1, 1, (kernel, kernel, CHANNELS, CHANNELS)) / (kernel * CHANNELS)
        values = filters.astype(np.float32).tobytes().hex().upper()
        type_ = f"tensor<{kernel}x{kernel}x{CHANNELS}x{CHANNELS}xf32>"
        lines.append(
            f'%f{layer} = arith.constant dense<"0x{values}"> : {type_}\n'
            f"%p{layer} = tensor.pad {image} low[0, {pad}, {pad}, 0] high[0, {pad}, {pad}, 0] {{\n"
            "^bb0(%i: index, %j: index, %k: index, %l: index):\n  tensor.yield %zero : f32\n"
            f"}} : {image_type} to {padded}\n"
            f"%e{layer} = tensor.empty({extents}) : {image_type}\n"
            f"%z{layer} = linalg.fill ins(%zero : f32) outs(%e{layer} : {image_type}) -> {image_type}\n"
            f"%c{layer} = linalg.conv_2d_nhwc_hwcf {{winograd.algorithm = {{"
            f"output_tile = array<i64: {kernel}, {kernel}>, part_size = array<i64: {kernel}, {kernel}>}}}} "
            f"ins(%p{layer}, %f{layer} : {padded}, {type_}) "
            f"outs(%z{layer} : {image_type}) -> {image_type}\n"
            f"%r{layer} = linalg.generic {{indexing_maps = [{', '.join([IDENTITY] * 3)}], "
            'iterator_types = ["parallel", "parallel", "parallel", "parallel"]} '
            f"ins(%c{layer}, {image} : {image_type}, {image_type}) outs(%e{layer} : {image_type}) {{\n"
            "^bb0(%a: f32, %b: f32, %o: f32):\n  %s = arith.addf %a, %b : f32\n  linalg.yield %s : f32\n"
            f"}} -> {image_type}"
        )
        image = f"%r{layer}"
    body = "\n".join([*lines, f"return {image} : {image_type}"])
    return f"func.func @main(%x: {image_type}) -> {image_type} {{\n{body}\n}}"


def compile_shared(source: str, threads: int) -> bytes:
    """The program for this processor, with layers that threads share however soon one of them would be done.

    As for a machine on which no time is lost until a thread begins.
    """
    machine = replace(CpuBackend(HOST).default_machine, wake_seconds=1e-12)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "machine.json")
        path.write_text(machine_to_json(machine))
        return iree.winograd.compile(source, target="cpu", threads=threads, machine=path, strict=True)


def exact(seed: int, image: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float64], float]:
    """What `residual_layers` computes, with a bound on the errors of all that its layers round."""
    generator = np.random.default_rng(seed)
    values, bound = image.astype(np.float64), 0.0
    for layer in range(LAYERS):
        kernel = 3 - 2 * (layer % 2)
        filters = generator.uniform(-1, 1, (kernel, kernel, CHANNELS, CHANNELS)) / (kernel * CHANNELS)
        filters = filters.astype(np.float32).astype(np.float64)
        pad, largest = kernel // 2, 1 / (kernel * CHANNELS)
        padded = np.pad(values, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        convolved = error_bound((kernel, kernel), (kernel, kernel), CHANNELS) * largest
        # Errors of the image come with as many products as there are taps and channels, and by themselves.
        bound = (1 + kernel) * bound + convolved * (np.abs(values).max() + bound)
        values = values + sum(
            padded[:, i : i + image.shape[1], j : j + image.shape[2]] @ filters[i, j]
            for i in range(kernel)
            for j in range(kernel)
        )
        bound += (np.abs(values).max() + bound) * 2.0**-24
    return values, bound
