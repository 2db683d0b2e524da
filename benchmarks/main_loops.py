"""Has LLVM's models of processors execute the main loops of kernels, for processors that aren't there.

    python -m benchmarks.main_loops --output benchmarks/results/main-loops.json

The main loop of a kernel is the innermost one with the most multiply-adds that sum: the product, not the
transforms. `llvm-mca` executes it 100 times, as if all data were in L1, and says how many cycles that takes.
The share is that of the multiply-adds which the model could start in these cycles. A spill is an access to
the stack.

LLVM has no model of some processors, and takes an older one for them. For Cortex-A76 its successor for
servers, Neoverse N1, stands here. For Apple's M1 it is the model of Cyclone, of 2013, with two loads and
three multiply-adds a cycle where M1 has three and four. Needs LLVM's tools, of Debian's package llvm-19.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import iree.winograd

from benchmarks.assembly_loops import Syntax, innermost_loops
from benchmarks.tables.cpu import main_loops

ITERATIONS = 100


@dataclass(frozen=True)
class Processor:
    """LLVM's architecture, its model, and the multiply-adds of vectors that this starts in a cycle."""

    architecture: str
    model: str
    multiply_adds: int


PROCESSORS: Mapping[str, Processor] = {
    "neoverse-v1": Processor("aarch64", "neoverse-v1", 4),
    "neoverse-v2": Processor("aarch64", "neoverse-v2", 4),
    "apple-m1": Processor("aarch64", "apple-m1", 3),
    "cortex-a76": Processor("aarch64", "neoverse-n1", 2),
    "haswell": Processor("x86_64", "haswell", 2),
    "znver4": Processor("x86_64", "znver4", 1),
    "sapphirerapids": Processor("x86_64", "sapphirerapids", 1),
}
"""By their names after `cpu:`. Of AVX-512 those of 512 bits are counted, of which the model of Sapphire
Rapids starts one in a cycle where the processor starts two."""


@dataclass(frozen=True)
class Layer:
    """A square convolution with constant filters, and the tile that it is computed by."""

    kernel: str
    size: int
    channels: int
    outputs: int
    taps: int
    stride: int
    output_tile: int

    def __str__(self) -> str:
        taps = f"{self.taps}x{self.taps}" + (f"/{self.stride}" if self.stride > 1 else "")
        return f"{self.size}x{self.size}x{self.channels} to {self.outputs}, {taps}"

    @property
    def text(self) -> str:
        """The program as MLIR."""
        before = self.taps // 2
        padded, outputs = self.size + 2 * before, (self.size + 2 * before - self.taps) // self.stride + 1
        image = f"tensor<1x{self.size}x{self.size}x{self.channels}xf32>"
        wide = f"tensor<1x{padded}x{padded}x{self.channels}xf32>"
        filters = f"tensor<{self.taps}x{self.taps}x{self.channels}x{self.outputs}xf32>"
        result = f"tensor<1x{outputs}x{outputs}x{self.outputs}xf32>"
        return f"""
func.func @main(%image: {image}) -> {result} {{
  %zero = arith.constant 0.0 : f32
  %filters = arith.constant dense<0.5> : {filters}
  %padded = tensor.pad %image low[0, {before}, {before}, 0] high[0, {before}, {before}, 0] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  }} : {image} to {wide}
  %empty = tensor.empty() : {result}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {result}) -> {result}
  %result = linalg.conv_2d_nhwc_hwcf {{strides = dense<{self.stride}> : tensor<2xi64>}}
    ins(%padded, %filters : {wide}, {filters}) outs(%zeros : {result}) -> {result}
  return %result : {result}
}}
"""


LAYERS = (
    Layer("Winograd", 56, 64, 64, 3, 1, 4),
    Layer("Winograd", 14, 256, 256, 3, 1, 4),
    Layer("Winograd", 28, 128, 128, 3, 1, 2),
    Layer("direct", 112, 3, 64, 7, 2, 1),
    Layer("direct", 28, 128, 128, 3, 2, 1),
    Layer("pointwise", 28, 128, 256, 1, 1, 1),
    Layer("pointwise", 7, 512, 2048, 1, 1, 1),
)


@dataclass(frozen=True)
class MainLoop:
    """That of a layer's kernel for a processor."""

    processor: str
    model: str
    kernel: str
    layer: str
    multiply_adds: int
    instructions: int
    spills: int
    cycles: float
    """Of an iteration."""
    share: float
    """Of the multiply-adds that could start meanwhile."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processors", nargs="+", choices=PROCESSORS, default=list(PROCESSORS))
    parser.add_argument("--output", type=Path, help="a JSON file, e.g. benchmarks/results/main-loops.json")
    options = parser.parse_args()
    analyzer = next(filter(None, map(shutil.which, ("llvm-mca-19", "llvm-mca"))), None)
    if analyzer is None:
        sys.exit("llvm-mca isn't there: install LLVM's tools, Debian's package llvm-19")
    loops = []
    for name in options.processors:
        for layer in LAYERS:
            loops.append(asdict(measure(layer, name, PROCESSORS[name], analyzer)))
            print(loops[-1], flush=True)
    results = {"loops": loops}
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    print("\n".join(main_loops([results])))


def measure(layer: Layer, name: str, processor: Processor, analyzer: str) -> MainLoop:
    """Compiles a layer's kernel for a processor of that name, and has its model execute the main loop."""
    loops = (loop for text in assembly(layer, name) for loop in product_loops(text))
    body = max(loops, key=count_sums)
    command = [
        analyzer,
        f"--mtriple={processor.architecture}",
        f"--mcpu={processor.model}",
        f"--iterations={ITERATIONS}",
    ]
    text = subprocess.run(command, input="\n".join(body), capture_output=True, text=True, check=True).stdout
    total = re.search(r"^Total Cycles:\s+(\d+)$", text, re.MULTILINE)
    assert total is not None, "llvm-mca says how many cycles the loop takes"
    sums, cycles = count_sums(body), int(total[1]) / ITERATIONS
    return MainLoop(
        processor=name,
        model=processor.model,
        kernel=layer.kernel,
        layer=str(layer),
        multiply_adds=sums,
        instructions=len(body),
        spills=sum(_STACK.search(line) is not None for line in body),
        cycles=cycles,
        share=round(sums / processor.multiply_adds / cycles, 3),
    )


def assembly(layer: Layer, name: str) -> list[str]:
    """That of all kernels of a layer, by files: labels of two may have the same name."""
    with TemporaryDirectory() as folder:
        flags = [f"--iree-hal-dump-executable-intermediates-to={folder}"]
        iree.winograd.compile(
            layer.text,
            target=f"cpu:{name}",
            flags=flags,
            threads=1,
            output_tile=layer.output_tile,
            strict=True,
        )
        return [path.read_text() for path in sorted(Path(folder).glob("*.s"))]


_SYNTAX = Syntax(
    label=re.compile(r"(\.L\w+):"),
    branch=re.compile(r"\s+(?:b(?:\.\w+)?|cbn?z|tbn?z|j\w+)\s+(?:\S+,\s*)*(\.L\w+)"),
)
_SUM = re.compile(r"\s+(?:fmla|vfmadd\d+ps)\s")
_STORE = re.compile(r"\s+(?:st[urp]+\s|vmov\w+\s+%\wmm\d+,.*\()")
_STACK = re.compile(r"\[sp\b|%[re]sp\b|%[re]bp\b")
_COMMENT = re.compile(r"\s*(?:#\s|//).*")


def product_loops(text: str) -> Iterator[Sequence[str]]:
    """The instructions of each loop without another one in it."""
    lines = [line for line in text.splitlines() if not re.match(r"\s+\.|\s*$", line)]
    for loop in innermost_loops(lines, _SYNTAX):
        body = (_COMMENT.sub("", line) for line in loop if not _SYNTAX.label.match(line))
        yield [line for line in body if line]


def count_sums(body: Sequence[str]) -> int:
    """The multiply-adds of a loop of products: those of transforms, which store, aren't counted."""
    is_transform = any(_STORE.match(line) and not _STACK.search(line) for line in body)
    return 0 if is_transform else sum(_SUM.match(line) is not None for line in body)


if __name__ == "__main__":
    main()
