"""Programs that sum the pixels of images of any size, in the forms that torch's means are lowered to."""

from collections.abc import Callable

import numpy as np

ROWS = """
      %s = tensor.empty(%n, %h) : tensor<?xCx?x1xf32>
      %i = linalg.fill ins(%zero : f32) outs(%s : tensor<?xCx?x1xf32>) -> tensor<?xCx?x1xf32>
      %r = linalg.generic {
        indexing_maps = [affine_map<(n, c, h, w) -> (n, h, w, c)>, affine_map<(n, c, h, w) -> (n, c, h, 0)>],
        iterator_types = ["parallel", "parallel", "parallel", "reduction"]
      } ins(%c : tensor<?x?x?xCxf32>) outs(%i : tensor<?xCx?x1xf32>) {
      ^bb0(%element: f32, %sum: f32):
        %added = arith.addf %element, %sum : f32
        linalg.yield %added : f32
      } -> tensor<?xCx?x1xf32>
      return %r : tensor<?xCx?x1xf32>"""
PIXELS = """
      %s = tensor.empty(%n) : tensor<?xCxf32>
      %i = linalg.fill ins(%zero : f32) outs(%s : tensor<?xCxf32>) -> tensor<?xCxf32>
      %r = linalg.generic {
        indexing_maps = [affine_map<(n, c, h, w) -> (n, h, w, c)>, affine_map<(n, c, h, w) -> (n, c)>],
        iterator_types = ["parallel", "parallel", "reduction", "reduction"]
      } ins(%c : tensor<?x?x?xCxf32>) outs(%i : tensor<?xCxf32>) {
      ^bb0(%element: f32, %sum: f32):
        %added = arith.addf %element, %sum : f32
        linalg.yield %added : f32
      } -> tensor<?xCxf32>
      return %r : tensor<?xCxf32>"""
MEANS = """
      %s = tensor.empty(%n, %w) : tensor<?xCx1x?xf32>
      %i = linalg.fill ins(%zero : f32) outs(%s : tensor<?xCx1x?xf32>) -> tensor<?xCx1x?xf32>
      %r = linalg.generic {
        indexing_maps = [affine_map<(n, c, h, w) -> (n, h, w, c)>, affine_map<(n, c, h, w) -> (n, c, 0, w)>],
        iterator_types = ["parallel", "parallel", "reduction", "parallel"]
      } ins(%c : tensor<?x?x?xCxf32>) outs(%i : tensor<?xCx1x?xf32>) {
      ^bb0(%element: f32, %sum: f32):
        %added = arith.addf %element, %sum : f32
        linalg.yield %added : f32
      } -> tensor<?xCx1x?xf32>
      %rows = arith.index_cast %h : index to i64
      %m = linalg.generic {
        indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, h, w)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      } ins(%r : tensor<?xCx1x?xf32>) outs(%s : tensor<?xCx1x?xf32>) {
      ^bb0(%element: f32, %old: f32):
        %number = arith.sitofp %rows : i64 to f32
        %mean = arith.divf %element, %number : f32
        linalg.yield %mean : f32
      } -> tensor<?xCx1x?xf32>
      %s2 = tensor.empty(%n) : tensor<?xCx1x1xf32>
      %i2 = linalg.fill ins(%zero : f32) outs(%s2 : tensor<?xCx1x1xf32>) -> tensor<?xCx1x1xf32>
      %r2 = linalg.generic {
        indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, h, 0)>],
        iterator_types = ["parallel", "parallel", "parallel", "reduction"]
      } ins(%m : tensor<?xCx1x?xf32>) outs(%i2 : tensor<?xCx1x1xf32>) {
      ^bb0(%element: f32, %sum: f32):
        %added = arith.addf %element, %sum : f32
        linalg.yield %added : f32
      } -> tensor<?xCx1x1xf32>
      return %r2 : tensor<?xCx1x1xf32>"""
POOLED = (
    MEANS.removesuffix("return %r2 : tensor<?xCx1x1xf32>")
    + """%columns = arith.index_cast %w : index to i64
      %p = linalg.generic {
        indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, h, w)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      } ins(%r2 : tensor<?xCx1x1xf32>) outs(%s2 : tensor<?xCx1x1xf32>) {
      ^bb0(%element: f32, %old: f32):
        %number = arith.sitofp %columns : i64 to f32
        %mean = arith.divf %element, %number : f32
        linalg.yield %mean : f32
      } -> tensor<?xCx1x1xf32>
      return %p : tensor<?xCx1x1xf32>"""
)
EXPECTED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": lambda image: image.sum(axis=2).transpose(0, 2, 1)[..., None],
    "pixels": lambda image: image.sum(axis=(1, 2)),
    "means": lambda image: image.sum(axis=(1, 2))[..., None, None] / np.float32(image.shape[1]),
    "pooled": lambda image: image.mean(axis=(1, 2), dtype=np.float64)[..., None, None],
}
FORMS = {
    "rows": (ROWS, "tensor<?xCx?x1xf32>"),
    "pixels": (PIXELS, "tensor<?xCxf32>"),
    "means": (MEANS, "tensor<?xCx1x1xf32>"),
    "pooled": (POOLED, "tensor<?xCx1x1xf32>"),
}


def program(form: str, channels: int) -> str:
    """MLIR of sums behind a pointwise convolution by the unit matrix."""
    body, result = FORMS[form]
    unit = np.eye(channels, dtype=np.float32).tobytes().hex().upper()
    return (
        """
    func.func @main(%x: tensor<?x?x?xCxf32>) -> RESULT {
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %n = tensor.dim %x, %c0 : tensor<?x?x?xCxf32>
      %h = tensor.dim %x, %c1 : tensor<?x?x?xCxf32>
      %w = tensor.dim %x, %c2 : tensor<?x?x?xCxf32>
      %f = arith.constant dense<"0xUNIT"> : tensor<1x1xCxCxf32>
      %e = tensor.empty(%n, %h, %w) : tensor<?x?x?xCxf32>
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?x?xCxf32>) -> tensor<?x?x?xCxf32>
      %c = linalg.conv_2d_nhwc_hwcf ins(%x, %f : tensor<?x?x?xCxf32>, tensor<1x1xCxCxf32>)
        outs(%z : tensor<?x?x?xCxf32>) -> tensor<?x?x?xCxf32>BODY
    }""".replace("BODY", body)
        .replace("RESULT", result)
        .replace("xC", f"x{channels}")
        .replace("UNIT", unit)
    )
