"""Compiles the layers of `benchmarks.gpu` into a folder, which may then be measured on another machine.

    python -m benchmarks.gpu_programs build/gpu-programs

A program has functions `few` and `many` that compute the layer `FEW_COPIES` and `MANY_COPIES` times, of as
many images: the bias of each but the first is the first pixel of the result before, so that they come one
after the other. The difference is device time, free of what a call costs and of what allocating its memory
does, as much in both. Filters are arguments of both, and transformed once in a call of either. A function
`once` computes the layer once, for its errors: those of first pixels would be in all of what is next.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.square_layer import SquareLayer

if TYPE_CHECKING:
    from iree.winograd.pipelines.selection.decision import Candidate
    from iree.winograd.pipelines.selection.implementation import Implementation
    from iree.winograd.tuning.workloads import Workload

FEW_COPIES, MANY_COPIES = 3, 65
HOPELESS = 2.0
"""Implementations predicted to take so many times as long as the choice aren't compiled for their kind."""


@dataclass(frozen=True)
class Variant:
    """How a layer is computed: output tile, record of a schedule, taps per part; what is None is chosen.

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

RESNET_BATCHES = (1, 32, 64, 96, 128)
RESNET = tuple(
    SquareLayer(batch, size, width, width, network="resnet")
    for batch in RESNET_BATCHES
    for size, width in ((56, 64), (28, 128), (14, 256), (7, 512))
)
"""Yan et al., "Optimizing Batched Winograd Convolution on GPUs", PPoPP 2020, Table 1, and single images."""

MAZAHERI = tuple(
    SquareLayer(*layer, network="mazaheri")
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
    SquareLayer(batch, size, width, width, network="few")
    for batch, size, width in (
        (32, 112, 16),
        (32, 112, 32),
        (4, 224, 64),
    )
)
"""Layers of few channels, where the fused kernel may pay."""

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
    parser.add_argument("--processes", type=int, default=1, help="that compile at the same time")
    options = parser.parse_args()
    layers = [
        layer
        for name in options.layers
        for layer in LAYERS[name]
        if options.batches is None or layer.batch in options.batches
    ]
    compiling = partial(
        _compile_variants,
        options.folder,
        options.output_tiles,
        options.fused,
        options.promising,
        options.machine,
    )
    pairs = product(layers, options.targets)
    records: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for compiled in pool.map(compiling, *zip(*pairs, strict=True)):
            records += compiled
            (options.folder / "programs.json").write_text(json.dumps(records))
            print(*(record["file"] for record in compiled), sep="\n", flush=True)


def _compile_variants(
    folder: Path,
    tiles: list[int],
    fused: bool,
    promising: int,
    machine: Path | None,
    layer: SquareLayer,
    target: str,
) -> list[dict[str, Any]]:
    """Writes the programs of a layer for a target; returns what `benchmarks.gpu` is to know of them."""
    known = [
        (variant_of(each), _facts(each))
        for each in _promising(workload_of(layer, target, machine), promising)
    ]
    known[0][1]["chosen"] = True
    fixed = [Variant((tile, tile)) for tile in tiles] + (list(_fused(target)) if fused else [])
    records = []
    for variant, facts in known + [(variant, {"output_tile": variant.output_tile}) for variant in fixed]:
        name = f"{target}/{layer.name}/{variant.name}".replace(":", "-").replace(" ", "_")
        path = folder / f"{name}.vmfb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compile_layer(layer, target, variant, machine))
        records.append(
            {"target": target, "layer": asdict(layer), "variant": variant.name}
            | facts
            | {"file": str(path.relative_to(folder))}
        )
    return records


def _fused(target: str) -> Iterator[Variant]:
    """The fused kernel by each schedule that the memory of the target's workgroups admits."""
    from iree.winograd.passes.match.convolutions.element_types import F32
    from iree.winograd.pipelines.backends.schedules import schedule_record
    from iree.winograd.pipelines.gpu.choice.rates import FUSED_RATES

    for schedule in FUSED_RATES:
        if not target.startswith("vulkan") or schedule.shared_memory_bytes(F32) <= VULKAN_SHARED_MEMORY:
            yield Variant(FUSED_TILES[schedule.products], schedule_record(schedule))


def variant_of(candidate: Candidate) -> Variant:
    from iree.winograd.pipelines.backends.schedules import schedule_record

    algorithm, schedule = candidate.implementation.algorithm, candidate.implementation.schedule
    m, p = algorithm.output_tile, algorithm.part_size
    return Variant((m[0], m[1]), schedule_record(schedule), (p[0], p[1]))


def _facts(candidate: Candidate) -> dict[str, Any]:
    from iree.winograd.pipelines.selection.implementation import implementation_record

    return {
        "implementation": implementation_record(candidate.implementation),
        "predicted": dict(candidate.stage_seconds),
    }


def workload_of(layer: SquareLayer, target: str, machine: Path | None) -> Workload:
    """The layer with what is chosen for it in a network, where filters are constants."""
    from iree.winograd.pipelines.selection.options import WinogradOptions
    from iree.winograd.targets import target_flags
    from iree.winograd.tuning.workloads import extract

    options = WinogradOptions(machine=None if machine is None else str(machine))
    program = _module(_function("once", layer, 1, CHOSEN, constant_filter=True))
    (workload,) = extract(program, target_flags(target), options)
    return workload


def _promising(workload: Workload, count: int) -> Iterator[Candidate]:
    """The choice, the `count` predicted to be the fastest, and the fastest of each kind of kernel."""
    from iree.winograd.pipelines.selection.candidates import implementations
    from iree.winograd.pipelines.selection.prediction import candidate

    problem, space, limit = workload.problem, workload.space, workload.max_relative_error
    candidates = [candidate(problem, space, each) for each in implementations(space, problem)]
    accurate = [each for each in candidates if limit is None or each.predicted_error <= limit]
    accurate.sort(key=lambda each: each.predicted_seconds)
    of_kind: dict[str, Candidate] = {}
    for each in accurate:
        if each.predicted_seconds <= HOPELESS * workload.default.predicted_seconds:
            of_kind.setdefault(_kind(each.implementation), each)
    promising = [workload.default, *accurate[:count], *(of_kind.values() if count else ())]
    yield from {each.implementation: each for each in promising}.values()


def _kind(implementation: Implementation) -> str:
    """A direct convolution, or the blocks of separate kernels or of the fused one."""
    from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule

    algorithm, schedule = implementation.algorithm, implementation.schedule
    if algorithm.is_direct:
        return "direct"
    if isinstance(schedule, FusedSchedule):
        return f"{schedule}"
    return f"{schedule.kind} {schedule.block_rows} x {schedule.block_columns}"


def compile_layer(
    layer: SquareLayer, target: str, variant: Variant, machine: Path | None = None, copies: int = MANY_COPIES
) -> bytes:
    """The layer's program; raises CompilationError if it would run without our kernels."""
    import iree.winograd

    source = program(layer, variant, copies)
    return bytes(iree.winograd.compile(source, target=target, machine=machine, strict=True))


def program(layer: SquareLayer, variant: Variant, copies: int = MANY_COPIES) -> str:
    """The layer's program as MLIR, channels last, in which `many` computes it `copies` times."""
    counts = {"once": 1, "few": FEW_COPIES, "many": copies}
    return _module("".join(_function(name, layer, count, variant) for name, count in counts.items()))


def single_layer(layer: SquareLayer, variant: Variant) -> str:
    """A program whose function `main` computes the layer once."""
    return _module(_function("main", layer, 1, variant))


def _module(functions: str) -> str:
    # IREE would compute independent parts of several layers at the same time.
    return f'module attributes {{stream.partitioning = #stream.partitioning_config<"debug">}} {{{functions}}}'


def _function(
    name: str, layer: SquareLayer, copies: int, variant: Variant, *, constant_filter: bool = False
) -> str:
    image = _tensor(layer.batch, layer.size, layer.size, layer.channels)
    output = _tensor(layer.batch, layer.size, layer.size, layer.filters)
    filters, bias = _tensor(layer.taps, layer.taps, layer.channels, layer.filters), _tensor(layer.filters)
    images = ", ".join(f"%image_{i}: {image}" for i in range(copies))
    first_pixel = f"[0, 0, 0, 0] [1, 1, 1, {layer.filters}] [1, 1, 1, 1] : {output} to {bias}"
    biases = [f"  %bias_{i} = tensor.extract_slice %result_{i - 1} {first_pixel}" for i in range(1, copies)]
    arguments = [images] if constant_filter else [images, f"%filter: {filters}"]
    constant = f"  %filter = arith.constant dense<1.0> : {filters}\n" if constant_filter else ""
    body = "\n".join(f"{start}\n{_layer(i, layer, variant)}" for i, start in enumerate(["", *biases]))
    return f"""
func.func @{name}({", ".join(arguments)}, %bias_0: {bias}) -> {output} {{
{constant}  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {output}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {output}) -> {output}
{body}
  return %result_{copies - 1} : {output}
}}
"""


def _layer(number: int, layer: SquareLayer, variant: Variant) -> str:
    border = layer.taps // 2
    padded_size = layer.size + 2 * border
    image = _tensor(layer.batch, layer.size, layer.size, layer.channels)
    padded = _tensor(layer.batch, padded_size, padded_size, layer.channels)
    output = _tensor(layer.batch, layer.size, layer.size, layer.filters)
    filters = _tensor(layer.taps, layer.taps, layer.channels, layer.filters)
    edges = f"low[0, {border}, {border}, 0] high[0, {border}, {border}, 0]"
    return f"""\
  %padded_{number} = tensor.pad %image_{number} {edges} {{
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  }} : {image} to {padded}
  %sums_{number} = linalg.conv_2d_nhwc_hwcf{variant.attributes(layer.taps)}
    ins(%padded_{number}, %filter : {padded}, {filters}) outs(%zeros : {output}) -> {output}
  %result_{number} = linalg.generic {{
    indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (k)>,
                     affine_map<(n, h, w, k) -> (n, h, w, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  }} ins(%sums_{number}, %bias_{number} : {output}, {_tensor(layer.filters)}) outs(%empty : {output}) {{
  ^bb0(%sum: f32, %b: f32, %unused: f32):
    %biased = arith.addf %sum, %b : f32
    %positive = arith.maximumf %biased, %zero : f32
    linalg.yield %positive : f32
  }} -> {output}"""


def _tensor(*sizes: int) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


if __name__ == "__main__":
    main()
