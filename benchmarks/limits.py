"""What the machine can do at most, measured: the rates of multiply-adds in registers and of a long copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.compiled import PLAIN_FLAGS
from benchmarks.convolutions import ConvolutionLayer
from benchmarks.timing import Contender, Timing

_ITERATIONS = 200_000


@dataclass(frozen=True)
class Limits:
    """`flops` per second and `bandwidth` in bytes per second."""

    flops: float
    bandwidth: float

    def __post_init__(self) -> None:
        if self.flops <= 0 or self.bandwidth <= 0:
            raise ValueError(f"limits must be positive, got {self}")

    def seconds(self, layer: ConvolutionLayer) -> float:
        """The least time a direct convolution could take."""
        return max(layer.necessary_flops / self.flops, layer.bytes_moved / self.bandwidth)


class LimitProbes:
    """Contenders that show the limits on `threads` threads.

    They belong among the contenders that are judged by them, since clocks differ from minute to minute. The
    copy reads and writes 64 MiB, and counts both.
    """

    def __init__(self, threads: int) -> None:
        import iree.compiler
        import torch
        from iree.winograd.runtime import load

        torch.set_num_threads(threads)
        source = torch.rand(16 << 20)
        target = torch.empty_like(source)
        self._bytes = 2 * source.nbytes
        # Independent sums: more than two units times four cycles each, fewer than the registers.
        width, chains = (16, 20) if "avx512f" in Path("/proc/cpuinfo").read_text() else (8, 12)
        self._flops = 2 * threads * width * chains * _ITERATIONS
        program = _multiply_add_program(threads, width, chains)
        vmfb = bytes(iree.compiler.compile_str(program, extra_args=list(PLAIN_FLAGS)))
        multiply_add = load(vmfb, "local-sync") if threads == 1 else load(vmfb, "local-task", threads=threads)
        factors = np.full(width, 0.5, np.float32)
        self.contenders = (
            Contender("multiply-add", lambda: multiply_add(factors)),
            Contender("copy", lambda: target.copy_(source)),
        )

    def limits(self, timings: Mapping[str, Timing]) -> Limits:
        """The limits that the timings of `contenders` show."""
        return Limits(
            flops=self._flops / timings["multiply-add"].median, bandwidth=self._bytes / timings["copy"].median
        )


def _multiply_add_program(threads: int, width: int, chains: int) -> str:
    """A dispatch of `threads` workgroups, each a loop of `chains` multiply-adds on vectors of `width`."""
    vector = f"vector<{width}xf32>"
    first = ", ".join(f"%a{i} = %x" for i in range(chains))
    steps = "\n".join(f"          %b{i} = vector.fma %a{i}, %x, %x : {vector}" for i in range(chains))
    last = ", ".join(f"%b{i}" for i in range(chains))
    types = ", ".join([vector] * chains)
    sums = "\n".join(
        f"        %s{i} = arith.addf {f'%s{i - 1}' if i > 1 else '%r#0'}, %r#{i} : {vector}"
        for i in range(1, chains)
    )
    return f"""
#pipeline = #iree_codegen.translation_info<pipeline = #iree_codegen.pass_pipeline<"canonicalize">>
stream.executable private @kernel {{
  stream.executable.export public @multiply_add workgroups() -> (index, index, index) {{
    %one = arith.constant 1 : index
    %workgroups = arith.constant {threads} : index
    stream.return %workgroups, %one, %one : index, index, index
  }}
  builtin.module {{
    func.func @multiply_add(%source: !stream.binding, %target: !stream.binding)
        attributes {{translation_info = #pipeline}} {{
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %count = arith.constant {_ITERATIONS} : index
      %workgroup = stream.dispatch.workgroup.id[0] : index
      %in = stream.binding.subspan %source[%zero] : !stream.binding -> memref<{width}xf32>
      %out = stream.binding.subspan %target[%zero] : !stream.binding -> memref<{threads}x{width}xf32>
      %x = vector.load %in[%zero] : memref<{width}xf32>, {vector}
      %r:{chains} = scf.for %i = %zero to %count step %one iter_args({first}) -> ({types}) {{
{steps}
          scf.yield {last} : {types}
      }}
{sums}
      vector.store %s{chains - 1}, %out[%workgroup, %zero] : memref<{threads}x{width}xf32>, {vector}
      return
    }}
  }}
}}
func.func @main(%x: tensor<{width}xf32>) -> tensor<{threads}x{width}xf32> {{
  %r = flow.dispatch @kernel::@multiply_add(%x) : (tensor<{width}xf32>) -> tensor<{threads}x{width}xf32>
  return %r : tensor<{threads}x{width}xf32>
}}
"""
