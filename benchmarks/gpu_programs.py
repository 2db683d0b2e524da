"""Compiles the layers of `benchmarks.gpu` into a folder, which may then be measured on another machine.

    python -m benchmarks.gpu_programs build/gpu-programs

A program has a function `once` that computes the layer and, where the output can be the next input, a
function `chained` that computes it `CHAIN` times in a row. Their difference is device time, free of what a
call costs. Filters are arguments of both, and transformed once in a call of either.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

CHAIN = 17


@dataclass(frozen=True)
class GpuLayer:
    """A unit-stride convolution of odd square kernels, its output as large as its input; bias and ReLU."""

    network: str
    batch: int
    size: int
    channels: int
    filters: int
    taps: int = 3

    @property
    def name(self) -> str:
        kernel = f"{self.taps}x{self.taps}"
        return f"{self.network} {self.batch}x{self.size}x{self.size} {kernel} {self.channels}->{self.filters}"

    @property
    def can_chain(self) -> bool:
        """Whether the output can be the input of the same layer."""
        return self.channels == self.filters

    @property
    def flops(self) -> int:
        """Operations of the direct algorithm, as Castro et al. count effective FLOP/s."""
        return 2 * self.taps**2 * self.batch * self.size**2 * self.channels * self.filters


RESNET_BATCHES = (32, 64, 96, 128)
RESNET = tuple(
    GpuLayer("resnet", batch, size, width, width)
    for batch in RESNET_BATCHES
    for size, width in ((56, 64), (28, 128), (14, 256), (7, 512))
)
"""Yan et al., "Optimizing Batched Winograd Convolution on GPUs", PPoPP 2020, Table 1."""

MAZAHERI = tuple(
    GpuLayer("mazaheri", *layer)
    for layer in (
        (5, 28, 16, 32, 5),
        (5, 14, 32, 64, 5),
        (1, 14, 128, 256, 3),
        (1, 28, 32, 96, 5),
        (1, 14, 144, 288, 3),
        (1, 28, 96, 128, 3),
        (1, 14, 160, 320, 3),
        (5, 14, 32, 128, 5),
        (5, 7, 160, 320, 3),
        (1, 6, 384, 1024, 3),
        (1, 13, 384, 256, 3),
        (1, 13, 256, 384, 3),
        (5, 7, 192, 384, 3),
        (1, 28, 128, 192, 3),
        (5, 14, 96, 208, 3),
        (5, 14, 112, 224, 3),
        (1, 13, 384, 384, 3),
        (5, 14, 128, 256, 3),
        (5, 28, 32, 96, 5),
        (1, 56, 64, 192, 3),
        (5, 14, 144, 288, 3),
        (5, 28, 96, 128, 3),
        (1, 27, 96, 256, 5),
        (5, 14, 160, 320, 3),
        (5, 6, 384, 1024, 3),
        (5, 13, 256, 384, 3),
        (5, 13, 384, 256, 3),
        (5, 28, 128, 192, 3),
        (5, 13, 384, 384, 3),
        (5, 56, 64, 192, 3),
        (5, 27, 96, 256, 5),
    )
)
"""Mazaheri et al. on symbolic computation of Winograd convolutions, EuroSys 2020, Table 4."""

TARGETS = ("cuda:sm_80", "vulkan:ampere")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS))
    parser.add_argument(
        "--output-tiles",
        nargs="*",
        type=int,
        default=[2, 4, 6],
        help="beside the one that is chosen for a layer",
    )
    options = parser.parse_args()
    records = []
    for target, layer, tile in _programs(options.targets, options.output_tiles):
        name = f"{target}/{layer.name}/{'chosen' if tile is None else tile}".replace(":", "-").replace(
            " ", "_"
        )
        path = options.folder / f"{name}.vmfb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compile_layer(layer, target, tile))
        records.append(
            {
                "target": target,
                "layer": asdict(layer),
                "output_tile": tile,
                "file": str(path.relative_to(options.folder)),
            }
        )
        (options.folder / "programs.json").write_text(json.dumps(records))
        print(name, flush=True)


def _programs(targets: list[str], tiles: list[int]) -> Iterator[tuple[str, GpuLayer, int | None]]:
    for target in targets:
        for layer in (*RESNET, *MAZAHERI):
            # Layers that can't be chained are timed by what CUPTI sees of their kernels.
            if layer.can_chain or target.startswith("cuda"):
                yield from ((target, layer, tile) for tile in (None, *tiles))


def compile_layer(layer: GpuLayer, target: str, output_tile: int | None) -> bytes:
    """The layer's program; raises RewriteWarning if it would run without our kernels."""
    import iree.winograd

    with warnings.catch_warnings():
        warnings.simplefilter("error", iree.winograd.RewriteWarning)
        return bytes(iree.winograd.compile(program(layer, output_tile), target=target))


def program(layer: GpuLayer, output_tile: int | None) -> str:
    """The layer's program as MLIR, channels last."""
    once = _function("once", layer, 1, output_tile)
    return once + _function("chained", layer, CHAIN, output_tile) if layer.can_chain else once


def _function(name: str, layer: GpuLayer, copies: int, output_tile: int | None) -> str:
    image = _tensor(layer.batch, layer.size, layer.size, layer.channels)
    output = _tensor(layer.batch, layer.size, layer.size, layer.filters)
    filters, bias = _tensor(layer.taps, layer.taps, layer.channels, layer.filters), _tensor(layer.filters)
    sources = ["%image", *(f"%result_{i}" for i in range(copies - 1))]
    lines = [_layer(i, layer, source, output_tile) for i, source in enumerate(sources)]
    body = "\n".join(lines)
    return f"""
func.func @{name}(%image: {image}, %filter: {filters}, %bias: {bias}) -> {output} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {output}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {output}) -> {output}
{body}
  return %result_{copies - 1} : {output}
}}
"""


def _layer(number: int, layer: GpuLayer, source: str, output_tile: int | None) -> str:
    border = layer.taps // 2
    padded_size = layer.size + 2 * border
    image = _tensor(layer.batch, layer.size, layer.size, layer.channels)
    padded = _tensor(layer.batch, padded_size, padded_size, layer.channels)
    output = _tensor(layer.batch, layer.size, layer.size, layer.filters)
    filters = _tensor(layer.taps, layer.taps, layer.channels, layer.filters)
    algorithm = ""
    if output_tile is not None:
        algorithm = (
            f" {{winograd.algorithm = {{output_tile = array<i64: {output_tile}, {output_tile}>, "
            f"part_size = array<i64: {layer.taps}, {layer.taps}>}}}}"
        )
    return f"""\
  %padded_{number} = tensor.pad {source} low[0, {border}, {border}, 0] high[0, {border}, {border}, 0] {{
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  }} : {image} to {padded}
  %sums_{number} = linalg.conv_2d_nhwc_hwcf{algorithm} ins(%padded_{number}, %filter : {padded}, {filters})
    outs(%zeros : {output}) -> {output}
  %result_{number} = linalg.generic {{
    indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (k)>,
                     affine_map<(n, h, w, k) -> (n, h, w, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  }} ins(%sums_{number}, %bias : {output}, {_tensor(layer.filters)}) outs(%empty : {output}) {{
  ^bb0(%sum: f32, %b: f32, %unused: f32):
    %biased = arith.addf %sum, %b : f32
    %positive = arith.maximumf %biased, %zero : f32
    linalg.yield %positive : f32
  }} -> {output}"""


def _tensor(*sizes: int) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


if __name__ == "__main__":
    main()
