"""The tables of DWM's paper, computed for this project's transforms: errors, and counts of multiplications.

    python -m benchmarks.decomposition docs/measurements/decomposition.md
    python -m benchmarks.decomposition docs/measurements/decomposition.md --networks alexnet googlenet

Writes the tables beside the numbers of Huang et al., "DWM: A Decomposable Winograd Method for Convolution
Acceleration", AAAI 2020.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd import import_torch
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.transforms import apply, as_array, transforms
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.infrastructure.algorithm import algorithm_of
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.normalize_layout import NormalizeLayout
from iree.winograd.pipelines.selection.select_algorithm import SelectAlgorithm

Array = npt.NDArray[Any]

KERNELS = (3, 5, 7, 9, 11)
MAX_PART = 3
"""Taps of a part in the paper."""
REDUCTION_BLOCK = 64
"""Products summed one after the other."""

PAPER_ERRORS = {
    # Kernel: mean squared errors of FP32, FP16, Winograd FP32, Winograd FP16, DWM FP32, DWM FP16; 14x14, 256.
    3: ("2.2e-08", "2.7e-04", "5.2e-10", "1.4e-03", "5.3e-10", "3.4e-02"),
    5: ("1.1e-02", "6.9e-04", "7.1e-08", "1.1e-01", "1.5e-09", "9.7e-02"),
    7: ("6.1e-10", "1.3e-03", "1.5e-03", "NaN", "3.0e-09", "2.0e-01"),
    9: ("9.9e-10", "1.9e-03", "5.3e-03", "NaN", "3.7e-09", "2.4e-01"),
    11: ("1.5e-09", "2.6e-03", "1.5e-02", "NaN", "5.3e-09", "3.5e-01"),
}
PAPER_COUNTS = {
    # Kernel and stride: operations of DWM per pair of channels, 14x14 outputs.
    (3, 1): 784,
    (5, 1): 2400,
    (7, 1): 4900,
    (9, 1): 7060,
    (11, 1): 11000,
    (3, 2): 1230,
    (5, 2): 2400,
    (7, 2): 4900,
    (9, 2): 8280,
    (11, 2): 11000,
}
PAPER_NETWORKS = {
    # Operations in 1e9: direct, Winograd, DWM.
    "alexnet": (0.71, 0.56, 0.45),
    "googlenet": (1.51, 0.97, 0.92),
    "inceptionv3": (2.86, 2.34, 1.92),
    "resnet152": (11.62, 8.78, 8.60),
    "densenet161": (7.88, 6.32, 6.23),
}


@dataclass(frozen=True)
class Precision:
    """Data and results in `data`, transforms in `domain`; products are summed in float32 and then rounded."""

    data: type[np.floating[Any]]
    domain: type[np.floating[Any]]

    def fused_multiply_add(self, constant: Any, a: Any, b: Any) -> Any:
        exact = np.add(np.multiply(constant, a, dtype=np.float64), b, dtype=np.float64)
        return exact.astype(self.domain)

    def sum_of_products(self, filters: Array, data: Array) -> Array:
        """The sum over the first dimension: blocks of fused multiply-adds in order, then the blocks' sums."""
        total = np.zeros(np.broadcast_shapes(filters.shape[1:], data.shape[1:]), np.float32)
        for first in range(0, len(data), REDUCTION_BLOCK):
            block = np.zeros_like(total)
            chosen = slice(first, first + REDUCTION_BLOCK)
            for weight, element in zip(filters[chosen], data[chosen], strict=True):
                exact = np.add(np.multiply(weight, element, dtype=np.float64), block, dtype=np.float64)
                block = exact.astype(np.float32)
            total += block
        return total.astype(self.domain)


PRECISIONS = (Precision(np.float32, np.float32), Precision(np.float16, np.float16))
OWN_COLUMNS = ("F(4, 3) parts FP32", "DWM FP16 here", "F(4, 3) parts FP16 here")
OWN_HALF = Precision(np.float16, np.float32)
"""What this project's kernels do with f16."""


def direct_error(kernel: int, channels: int, precision: Precision, outputs: int = 1024) -> float:
    """Mean squared error of a direct convolution of standard normal data and filters."""
    generator = np.random.default_rng(11)
    terms = kernel * kernel * channels
    data = generator.standard_normal((terms, outputs)).astype(precision.data)
    filters = generator.standard_normal((terms, 1)).astype(precision.data)
    exact = (data.astype(np.float64) * filters.astype(np.float64)).sum(axis=0)
    return _mean_squared(precision.sum_of_products(filters, data).astype(precision.data), exact)


def tiled_error(
    kernel: int, m: int, part: int, channels: int, precision: Precision, tiles: int = 16
) -> float:
    """Mean squared error of F(m x m, part x part), summed over views and channels in the Winograd domain.

    Tiles are independent of each other and none is at an edge; filters are transformed in float64.
    """
    generator = np.random.default_rng(11)
    decomposition = decompose((kernel, kernel), (m, m), part_size=(part, part))
    found = transforms(m, part)
    reduction = decomposition.view_count * channels
    data = generator.standard_normal((reduction, tiles, found.alpha, found.alpha)).astype(precision.data)
    filters = generator.standard_normal((reduction, 1, part, part)).astype(precision.data)
    taps = [[tap is not None for tap in decomposition.taps(view)] for view in decomposition.views]
    filters *= np.repeat(np.reshape(taps, (-1, 1, part, part)), channels, axis=0)
    matrices = [as_array(getattr(found.algorithm, name)) for name in ("filter", "input", "output")]
    transformed_filters, exact_data = (
        np.einsum("ai,bj,ctij->ctab", matrix, matrix, array.astype(np.float64), optimize=True)
        for matrix, array in zip(matrices[:2], (filters, data), strict=True)
    )
    exact_sum = np.einsum("ctab,cuab->uab", transformed_filters, exact_data, optimize=True)
    exact = np.einsum("oa,pb,uab->uop", matrices[2], matrices[2], exact_sum, optimize=True)
    transformed_data = apply(
        [found.input] * 2, data.astype(precision.domain), (2, 3), precision.fused_multiply_add
    )
    total = precision.sum_of_products(transformed_filters.astype(precision.domain), transformed_data)
    outputs = apply([found.output] * 2, total, (1, 2), precision.fused_multiply_add)
    return _mean_squared(outputs.astype(precision.data), exact)


def part_products(taps: int, m: int = 2) -> int:
    """Products per tile of m outputs: the paper's parts of at most three taps, none of them padded."""
    whole, rest = divmod(taps, MAX_PART)
    return whole * (m + MAX_PART - 1) + (m + rest - 1 if rest else 0)


def paper_products(kernel: Sequence[int], strides: Sequence[int], outputs: Sequence[int]) -> int:
    """Products of DWM per pair of channels, as the paper decomposes: tiles of two outputs."""
    tiles = prod(ceil_div(size, 2) for size in outputs)
    per_tile = prod(
        sum(part_products(len(range(phase, taps, stride))) for phase in range(min(stride, taps)))
        for taps, stride in zip(kernel, strides, strict=True)
    )
    return tiles * per_tile


def own_products(kernel: int, stride: int, outputs: int) -> tuple[int, str]:
    """Least products per pair of channels, by parts of one size and tiles of at most 8 elements."""
    best = (prod((kernel, kernel, outputs, outputs)), "direct")
    for m, part in product(range(2, 7), range(2, 8)):
        if m + part - 1 > 8 or part > kernel:
            continue
        decomposition = decompose((kernel,) * 2, (m,) * 2, strides=(stride,) * 2, part_size=(part,) * 2)
        tiles = prod(decomposition.tiles((outputs,) * 2))
        count = decomposition.product_count * tiles
        best = min(best, (count, f"F({m}, {part})"))
    return best


def network_products(name: str) -> tuple[int, int, int, int]:
    """Multiplications of an image's convolutions: direct, Winograd on 3x3 only, the paper's DWM, and ours."""
    import torch

    from benchmarks.networks.catalog import NETWORKS

    network = NETWORKS[name]
    model = network.build().eval()
    counts = np.zeros(4, np.int64)
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = import_torch(model, torch.zeros(1, *network.input_shape)).build(context)
        with ir.Location.unknown():
            for pass_ in (NormalizeLayout(), SelectAlgorithm()):
                pass_.run(module.operation)
        for convolution in _matched(module.operation):
            counts += _convolution_products(convolution)
    direct, winograd, dwm, ours = map(int, counts)
    return direct, winograd, dwm, ours


def _matched(module: ir.Operation) -> Iterator[Convolution]:
    for operation in convolutions(module):
        convolution = match_convolution(operation)
        if isinstance(convolution, Convolution):
            yield convolution


def _convolution_products(convolution: Convolution) -> list[int]:
    pairs = convolution.input_channels // convolution.groups * convolution.output_channels
    direct = prod(convolution.kernel_size) * prod(convolution.output_size)
    dwm = min(direct, paper_products(convolution.kernel_size, convolution.strides, convolution.output_size))
    is_classic = convolution.kernel_size == (3, 3) and set(convolution.strides) == {1}
    algorithm = algorithm_of(convolution.operation)
    ours = direct
    if algorithm is not None:
        decomposition = algorithm.decompose(convolution)
        tiles = prod(decomposition.tiles(convolution.output_size))
        ours = decomposition.product_count * tiles
    return [count * pairs for count in (direct, dwm if is_classic else direct, dwm, ours)]


def error_table() -> Iterator[str]:
    yield _row("kernel", "FP32", "FP16", "Winograd FP32", "FP16", "DWM FP32", "FP16", *OWN_COLUMNS)
    yield _row(*["---"] * (7 + len(OWN_COLUMNS)))
    for kernel in KERNELS:
        errors = [direct_error(kernel, 256, precision) for precision in PRECISIONS]
        errors += [tiled_error(kernel, 2, kernel, 256, precision) for precision in PRECISIONS]
        errors += [tiled_error(kernel, 2, MAX_PART, 256, precision) for precision in PRECISIONS]
        cells = [f"{error:.1e} ({paper})" for error, paper in zip(errors, PAPER_ERRORS[kernel], strict=True)]
        cells += [
            f"{tiled_error(kernel, m, MAX_PART, 256, precision):.1e}"
            for m, precision in ((4, PRECISIONS[0]), (2, OWN_HALF), (4, OWN_HALF))
        ]
        yield _row(f"{kernel}x{kernel}", *cells)


def count_table() -> Iterator[str]:
    yield _row("kernel", "stride", "direct", "DWM", "paper's DWM", "speedup", "least here", "by", "speedup")
    yield _row(*["---"] * 9)
    for (kernel, stride), paper in PAPER_COUNTS.items():
        direct = (kernel * 14) ** 2
        dwm = paper_products((kernel,) * 2, (stride,) * 2, (14, 14))
        ours, algorithm = own_products(kernel, stride, 14)
        yield (
            f"| {kernel}x{kernel} | {stride} | {direct} | {dwm} | {paper} | {direct / dwm:.2f} "
            f"| {ours} | {algorithm} | {direct / ours:.2f} |"
        )


def network_table(names: Sequence[str]) -> Iterator[str]:
    paper_columns = "paper: direct, Winograd, DWM"
    yield _row(
        "network", "direct", "Winograd on 3x3", "DWM", "speedup", "selected here", "speedup", paper_columns
    )
    yield _row(*["---"] * 8)
    for name in names:
        direct, winograd, dwm, ours = (count / 1e9 for count in network_products(name))
        paper = ", ".join(f"{count:.2f}" for count in PAPER_NETWORKS.get(name, ())) or "-"
        yield (
            f"| {name} | {direct:.2f} | {winograd:.2f} | {dwm:.2f} | {direct / dwm:.2f} "
            f"| {ours:.2f} | {direct / ours:.2f} | {paper} |"
        )


TEXT = """# Decomposition

```shell
python -m benchmarks.decomposition docs/measurements/decomposition.md    # writes this page
```

Tables of Huang et al., "DWM: A Decomposable Winograd Method for Convolution Acceleration" (AAAI 2020),
computed for the transforms of this project.

## Error (Table 1)
Mean squared error against float64 of 256 channels of standard normal data, the paper's in parentheses.
Winograd is F(2, kernel) and DWM F(2, 3) on parts, all with this project's points and recipes. Sums are
taken in blocks of {block} products. FP16 has data and transforms in half precision and sums in single
precision. FP16 here is what kernels of this project do: data and results in half precision, everything
between in single precision. Tiles are independent and away from edges; the paper pads.

{errors}

What the paper claims holds: in single precision, DWM's error is at most that of the direct convolution from
5x5 on, where Winograd on the whole kernel loses digits with every size. Parts in tiles of four outputs, which
need fewer products, stay within 4 times the direct convolution's root mean square error.

With transforms in half precision no tile is as accurate as the direct convolution in FP16. With those
of this project's kernels all are, within the scatter of so few outputs: the rounding of the result is all
that counts.

## Operations by kernel and stride (Table 3)
Multiplications per pair of channels for 14x14 outputs. DWM has unpadded parts of at most three taps and
tiles of two outputs. The least that one batch of matrix products reaches here has parts of one size, padded
if need be, and tiles of at most 8 elements per dimension. A part without its last tap has no product at the
point at infinity, whose element of the filter is that tap. Transforms aren't counted: each is shared by all
channels of the other side.

{counts}

## Operations of networks (Table 2)
Multiplications in 1e9 of the convolutions of one image, counted in the imported programs, without fully
connected layers. Selected here is what `winograd-select-algorithm` chooses, which weighs transforms and
memory as well; a layer that it leaves alone counts as direct. AlexNet here has more channels than the
paper's, and Inception-v3 sees images of 299x299.

{networks}
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path, help="the Markdown file to write")
    parser.add_argument(
        "--networks", nargs="+", default=["alexnet", "vgg16", "resnet18", *PAPER_NETWORKS, "unet"]
    )
    arguments = parser.parse_args()
    names = list(dict.fromkeys(arguments.networks))
    tables: dict[str, Callable[[], Iterator[str]]] = {
        "errors": error_table,
        "counts": count_table,
        "networks": lambda: network_table(names),
    }
    with np.errstate(over="ignore", invalid="ignore"):
        text = {name: "\n".join(rows()) for name, rows in tables.items()}
    arguments.output.write_text(TEXT.format(block=REDUCTION_BLOCK, **text))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _mean_squared(actual: Array, exact: Array) -> float:
    return float(np.mean((actual.astype(np.float64) - exact) ** 2))


if __name__ == "__main__":
    main()
