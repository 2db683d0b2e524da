"""Programs that pool windows of an image of known sizes or any, and what they are to compute."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


def program(
    batch: str, size: tuple[int, int] | None, channels: int, window: int, stride: int, padding: int
) -> str:
    """MLIR of pooling behind a pointwise convolution by the unit matrix, of images of any size for None."""
    height, width = size or ("?", "?")
    padded = [extent + 2 * padding for extent in size] if size else ["?", "?"]
    outputs = [(extent - window) // stride + 1 for extent in padded] if size else ["?", "?"]
    image = f"tensor<{batch}x{height}x{width}x{channels}xf32>"
    larger = f"tensor<{batch}x{padded[0]}x{padded[1]}x{channels}xf32>"
    result = f"tensor<{batch}x{outputs[0]}x{outputs[1]}x{channels}xf32>"
    unit = np.eye(channels, dtype=np.float32).tobytes().hex().upper()
    filters = f"tensor<1x1x{channels}x{channels}xf32>"
    batches = ["%n"] if batch == "?" else []
    image_sizes, result_sizes = (
        ", ".join([*batches, *(f"%{of}_{d}" for d in (0, 1) if size is None)]) for of in ("size", "outputs")
    )
    arithmetic = "".join(
        f"""
      %d{d} = arith.constant {d + 1} : index
      %size_{d} = tensor.dim %x, %d{d} : {image}
      %beyond_{d} = arith.addi %size_{d}, %rest : index
      %steps_{d} = arith.floordivsi %beyond_{d}, %stride : index
      %outputs_{d} = arith.addi %steps_{d}, %d0 : index"""
        for d in (0, 1)
    )
    return f"""
    func.func @main(%x: {image}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %lowest = arith.constant 0xFF800000 : f32
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : {image}
      %rest = arith.constant {2 * padding - window} : index
      %stride = arith.constant {stride} : index{arithmetic}
      %f = arith.constant dense<"0x{unit}"> : {filters}
      %e = tensor.empty({image_sizes}) : {image}
      %z = linalg.fill ins(%zero : f32) outs(%e : {image}) -> {image}
      %c = linalg.conv_2d_nhwc_hwcf ins(%x, %f : {image}, {filters}) outs(%z : {image}) -> {image}
      %p = tensor.pad %c low[0, {padding}, {padding}, 0] high[0, {padding}, {padding}, 0] {{
      ^bb0(%i: index, %j: index, %k: index, %l: index):
        tensor.yield %lowest : f32
      }} : {image} to {larger}
      %w = tensor.empty() : tensor<{window}x{window}xf32>
      %b = tensor.empty({result_sizes}) : {result}
      %i = linalg.fill ins(%lowest : f32) outs(%b : {result}) -> {result}
      %r = linalg.pooling_nhwc_max {{strides = dense<{stride}> : tensor<2xi64>}}
        ins(%p, %w : {larger}, tensor<{window}x{window}xf32>) outs(%i : {result}) -> {result}
      return %r : {result}
    }}"""


def maxima(image: Array, window: int, stride: int, padding: int) -> Array:
    around = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    padded = np.pad(image, around, constant_values=-np.inf)
    rows, columns = (range(0, padded.shape[axis] - window + 1, stride) for axis in (1, 2))
    result = np.empty((image.shape[0], len(rows), len(columns), image.shape[3]), np.float32)
    for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
        taken = padded[:, row : row + window, column : column + window]
        result[:, i, j] = taken.max(axis=(1, 2), initial=-np.inf)
    return result


def summing(text: str) -> str:
    """`text` with sums of windows in place of maxima, halved."""
    result = text[text.index(") -> ") + 5 : text.index(" {")]
    halved = f"""
      %h = linalg.generic {{
        indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      }} ins(%r : {result}) outs(%b : {result}) {{
      ^bb0(%sum: f32, %old: f32):
        %two = arith.constant 2.0 : f32
        %half = arith.divf %sum, %two : f32
        linalg.yield %half : f32
      }} -> {result}
      return %h"""
    return text.replace("0xFF800000", "0.0").replace("nhwc_max", "nhwc_sum").replace("return %r", halved)
