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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iree.winograd.passes.problem import ConvolutionProblem

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

    def problem(self) -> ConvolutionProblem:
        """As the cost model takes it."""
        from iree.winograd.passes.problem import ConvolutionProblem

        border, unit = (self.taps // 2,) * 2, (1, 1)
        return ConvolutionProblem(
            batch=self.batch,
            input_size=(self.size, self.size),
            padding_low=border,
            padding_high=border,
            kernel_size=(self.taps, self.taps),
            strides=unit,
            dilations=unit,
            groups=1,
            input_channels=self.channels,
            output_channels=self.filters,
        )

    @property
    def flops(self) -> int:
        """Operations of the direct algorithm, as Castro et al. count effective FLOP/s."""
        return 2 * self.taps**2 * self.batch * self.size**2 * self.channels * self.filters


@dataclass(frozen=True)
class Variant:
    """How a layer is computed: output tile, taps per part, record of a schedule; what is None is chosen.

    Parts of None are all taps.
    """

    output_tile: tuple[int, int] | None = None
    schedule: Mapping[str, int | str] | None = None
    part_size: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        tile = "chosen" if self.output_tile is None else f"F({self.output_tile[0]}x{self.output_tile[1]})"
        if self.part_size is not None:
            tile += f" parts {self.part_size[0]}x{self.part_size[1]}"
        if self.schedule is None:
            return tile
        blocks = [str(self.schedule[name]) for name in self.schedule if name.startswith("block_")]
        parts = self.schedule.get("reduction_parts", 1)
        name = f"{tile} {self.schedule['kind']} {'x'.join(blocks)}"
        return name if parts == 1 else f"{name} in {parts}"

    def attributes(self, taps: int) -> str:
        """The annotation of a convolution, as text."""
        attributes = []
        if self.output_tile is not None:
            part_size = (taps, taps) if self.part_size is None else self.part_size
            tile, parts = (", ".join(map(str, sizes)) for sizes in (self.output_tile, part_size))
            attributes.append(
                f"winograd.algorithm = {{output_tile = array<i64: {tile}>, part_size = array<i64: {parts}>}}"
            )
        if self.schedule is not None:
            entries = [
                f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"
                for name, value in self.schedule.items()
            ]
            attributes.append(f"winograd.schedule = {{{', '.join(entries)}}}")
        return f" {{{', '.join(attributes)}}}" if attributes else ""


CHOSEN = Variant()
FUSED_TILES = {16: (2, 2), 24: (2, 4)}
"""Output tiles for 3x3 filters by the number of products."""
VULKAN_SHARED_MEMORY = 48 * 1024

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

FEW = tuple(
    GpuLayer("few", batch, size, width, width)
    for batch, size, width in (
        (1, 56, 64),
        (1, 28, 128),
        (1, 14, 256),
        (1, 7, 512),
        (32, 112, 16),
        (32, 112, 32),
        (4, 224, 64),
    )
)
"""Layers of few images or few channels, where the fused kernel may pay."""

LAYERS = {"resnet": RESNET, "mazaheri": MAZAHERI, "few": FEW}
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
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS))
    parser.add_argument("--fused", action="store_true", help="the fused kernel by each of its schedules, too")
    parser.add_argument("--batches", nargs="+", type=int, help="only layers with one of these batch sizes")
    parser.add_argument(
        "--promising",
        type=int,
        default=0,
        help="also so many implementations of each layer that are predicted to be the fastest",
    )
    parser.add_argument(
        "--machine", type=Path, help="the GPU that times are predicted for, as `calibrate` wrote it"
    )
    options = parser.parse_args()
    records = []
    layers = [
        layer
        for name in options.layers
        for layer in LAYERS[name]
        if options.batches is None or layer.batch in options.batches
    ]
    variants = [
        *_programs(options.targets, layers, options.output_tiles, options.fused),
        *_promising(options.targets, layers, options.promising, options.machine),
    ]
    for target, layer, variant in variants:
        name = f"{target}/{layer.name}/{variant.name}".replace(":", "-").replace(" ", "_")
        path = options.folder / f"{name}.vmfb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compile_layer(layer, target, variant, options.machine))
        records.append(
            {
                "target": target,
                "layer": asdict(layer),
                "variant": variant.name,
                "output_tile": variant.output_tile,
                "file": str(path.relative_to(options.folder)),
            }
        )
        (options.folder / "programs.json").write_text(json.dumps(records))
        print(name, flush=True)


def _programs(
    targets: list[str], layers: list[GpuLayer], tiles: list[int], fused: bool
) -> Iterator[tuple[str, GpuLayer, Variant]]:
    variants = [CHOSEN, *(Variant((tile, tile)) for tile in tiles)]
    for target in targets:
        for layer in layers:
            # Layers that can't be chained are timed by what CUPTI sees of their kernels.
            if layer.can_chain or target.startswith("cuda"):
                yield from ((target, layer, variant) for variant in variants)
            if fused and layer.can_chain:
                yield from ((target, layer, variant) for variant in _fused(target))


def _fused(target: str) -> Iterator[Variant]:
    """The fused kernel by each schedule that the memory of the target's workgroups admits."""
    from iree.winograd.pipelines.gpu.schedules import FUSED_SCHEDULES
    from iree.winograd.pipelines.schedules import schedule_record

    for schedule in FUSED_SCHEDULES:
        if not target.startswith("vulkan") or schedule.shared_memory_bytes <= VULKAN_SHARED_MEMORY:
            yield Variant(FUSED_TILES[schedule.products], schedule_record(schedule))


def _promising(
    targets: list[str], layers: list[GpuLayer], count: int, machine: Path | None
) -> Iterator[tuple[str, GpuLayer, Variant]]:
    """Implementations that are accurate enough, those first that are predicted to be the fastest."""
    from iree.winograd.calibration.programs import target_of
    from iree.winograd.passes.options import WinogradOptions
    from iree.winograd.pipelines.schedules import schedule_record
    from iree.winograd.pipelines.selection.machine import machine_from_json
    from iree.winograd.pipelines.selection.prediction import candidate, error_limit
    from iree.winograd.pipelines.selection.search_space import implementations, search_space

    known = None if machine is None else machine_from_json(machine.read_text())
    for target in targets:
        space = search_space(target_of(target), known)
        for layer in layers:
            problem = layer.problem()
            limit = error_limit(problem, space, WinogradOptions())
            candidates = [candidate(problem, space, each) for each in implementations(space, problem)]
            accurate = [each for each in candidates if limit is None or each.predicted_error <= limit]
            for each in sorted(accurate, key=lambda each: each.predicted_seconds)[:count]:
                algorithm = each.implementation.algorithm
                m, p = algorithm.output_tile, algorithm.part_size
                record = schedule_record(each.implementation.schedule)
                yield target, layer, Variant((m[0], m[1]), record, (p[0], p[1]))


def compile_layer(layer: GpuLayer, target: str, variant: Variant, machine: Path | None = None) -> bytes:
    """The layer's program; raises RewriteWarning if it would run without our kernels."""
    import iree.winograd

    with warnings.catch_warnings():
        warnings.simplefilter("error", iree.winograd.RewriteWarning)
        source = program(layer, variant)
        return bytes(iree.winograd.compile(source, target=target, machine=machine))


def program(layer: GpuLayer, variant: Variant) -> str:
    """The layer's program as MLIR, channels last."""
    once = _function("once", layer, 1, variant)
    return once + _function("chained", layer, CHAIN, variant) if layer.can_chain else once


def _function(name: str, layer: GpuLayer, copies: int, variant: Variant) -> str:
    image = _tensor(layer.batch, layer.size, layer.size, layer.channels)
    output = _tensor(layer.batch, layer.size, layer.size, layer.filters)
    filters, bias = _tensor(layer.taps, layer.taps, layer.channels, layer.filters), _tensor(layer.filters)
    sources = ["%image", *(f"%result_{i}" for i in range(copies - 1))]
    lines = [_layer(i, layer, source, variant) for i, source in enumerate(sources)]
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


def _layer(number: int, layer: GpuLayer, source: str, variant: Variant) -> str:
    border = layer.taps // 2
    padded_size = layer.size + 2 * border
    image = _tensor(layer.batch, layer.size, layer.size, layer.channels)
    padded = _tensor(layer.batch, padded_size, padded_size, layer.channels)
    output = _tensor(layer.batch, layer.size, layer.size, layer.filters)
    filters = _tensor(layer.taps, layer.taps, layer.channels, layer.filters)
    return f"""\
  %padded_{number} = tensor.pad {source} low[0, {border}, {border}, 0] high[0, {border}, {border}, 0] {{
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  }} : {image} to {padded}
  %sums_{number} = linalg.conv_2d_nhwc_hwcf{variant.attributes(layer.taps)}
    ins(%padded_{number}, %filter : {padded}, {filters}) outs(%zeros : {output}) -> {output}
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
