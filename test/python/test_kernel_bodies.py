"""Kernels without their bodies: what is taken out comes back, and IREE keeps kernels apart meanwhile."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from agreement import expect_within
from iree.compiler import api
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.kernel_bodies import KernelBodies
from iree.winograd.compiling.phases import REWRITE_PHASE, Stages
from iree.winograd.compiling.program import open_session
from iree.winograd.dialect.algebra.numerics import error_bound
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.reference import convolution
from iree.winograd.passes.match.navigation import KERNEL
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.targets import target_flags
from small_programs import CONVOLUTION

DYNAMIC = """\
func.func @main(%image: tensor<?x18x18x16xf32>) -> tensor<?x16x16x16xf32> {
  %filter = arith.constant dense<0.5> : tensor<3x3x16x16xf32>
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %batch = tensor.dim %image, %c0 : tensor<?x18x18x16xf32>
  %empty = tensor.empty(%batch) : tensor<?x16x16x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x16x16x16xf32>) -> tensor<?x16x16x16xf32>
  %result = linalg.conv_2d_nhwc_hwcf
    ins(%image, %filter : tensor<?x18x18x16xf32>, tensor<3x3x16x16xf32>)
    outs(%init : tensor<?x16x16x16xf32>) -> tensor<?x16x16x16xf32>
  return %result : tensor<?x16x16x16xf32>
}
"""


@pytest.mark.parametrize("target", ["cpu:haswell", "vulkan:rdna3"])
@pytest.mark.parametrize("program", [CONVOLUTION, DYNAMIC], ids=["static", "dynamic"])
def test_bodies_come_back(program: str, target: str) -> None:
    options = WinogradOptions(strict=True, threads=1)
    stages = Stages(compile_to=REWRITE_PHASE)
    with Compilation(
        open_session(target_flags(target), options), options, stages, report=lambda diagnostic: None
    ) as compilation:
        source = api.Source.wrap_buffer(compilation.session, program.encode() + b"\0")
        invocation = compilation.compile(source)
        assert invocation is not None
        module = invocation.export_module()
        whole = _operations(module)
        kernels = {
            ir.StringAttr(view.operation.attributes["sym_name"]).value
            for view in module.regions[0].blocks[0].operations
            if view.operation.name == KERNEL
        }
        bodies = KernelBodies(kernels)
        bodies.take_unless_constant(module)
        assert module.verify()
        taken = _operations(module)
        assert whole["scf.for"] > 0
        assert taken["scf.for"] == 0
        assert taken["func.call"] == len(kernels)
        bodies.put_back(module)
        # What binds the buffers comes first, as it may have changed meanwhile; the order is valid.
        assert module.verify()
        assert _operations(module) == whole


def _operations(module: ir.Operation) -> Counter[str]:
    """How many of each name there are, in kernels, too."""
    names: Counter[str] = Counter()

    def count(operation: ir.Operation) -> ir.WalkResult:
        names[operation.name] += 1
        return ir.WalkResult.ADVANCE

    module.walk(count)
    return names


class Alike(torch.nn.Module):
    """Convolutions of one size, whose kernels have equal arguments and different epilogues."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(4))
        self.functions = (torch.relu, torch.sigmoid, torch.tanh, torch.abs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, function in zip(self.layers, self.functions, strict=True):
            x = function(layer(x))
        return x


def test_kernels_that_differ_only_in_their_bodies() -> None:
    torch.manual_seed(0)
    model, image = Alike().eval(), torch.randn(1, 16, 20, 20)
    vmfb = winograd.compile(winograd.import_torch(model, image), strict=True)
    result = winograd.load(vmfb, device="local-sync")(image.numpy())
    with torch.no_grad():
        exact = model.double()(image.double()).numpy()
    # Each layer's error is that of one sum of 144 products, of values around 1, and is not amplified.
    expect_within(result, exact, 4 * 144 * 2**-24)


COMPUTED_FILTER = """\
func.func @main(%image: tensor<1x18x18x16xf32>) -> tensor<1x16x16x16xf32> {
  %values = arith.constant dense<0.5> : tensor<3x3x16x16xf32>
  %zero = arith.constant 0.0 : f32
  %empty_filter = tensor.empty() : tensor<3x3x16x16xf32>
  %filter = linalg.generic {
    indexing_maps = [affine_map<(h, w, c, k) -> (h, w, c, k)>, affine_map<(h, w, c, k) -> (h, w, c, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%values : tensor<3x3x16x16xf32>) outs(%empty_filter : tensor<3x3x16x16xf32>) {
  ^bb0(%value: f32, %out: f32):
    %column = linalg.index 1 : index
    %number = arith.index_cast %column : index to i32
    %place = arith.sitofp %number : i32 to f32
    %sum = arith.addf %value, %place : f32
    linalg.yield %sum : f32
  } -> tensor<3x3x16x16xf32>
  %empty = tensor.empty() : tensor<1x16x16x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32>
  %result = linalg.conv_2d_nhwc_hwcf
    ins(%image, %filter : tensor<1x18x18x16xf32>, tensor<3x3x16x16xf32>)
    outs(%init : tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32>
  return %result : tensor<1x16x16x16xf32>
}
"""


def test_kernels_that_evaluate_constants() -> None:
    # IREE runs the kernel that transforms the filter, while it still makes commands of the program.
    vmfb = winograd.compile(COMPUTED_FILTER, output_tile=4, strict=True)
    image = np.random.default_rng(0).uniform(0, 1, (1, 18, 18, 16)).astype(np.float32)
    filter_ = np.broadcast_to(0.5 + np.arange(3)[:, None, None], (3, 3, 16, 16))
    error = error_bound((4, 4), (3, 3), 16) * np.abs(filter_).max() * np.abs(image).max()
    result = winograd.load(vmfb, device="local-sync")(image)
    expect_within(result, convolution(image, filter_), error)


def test_kernels_that_are_written_to_files_have_bodies(tmp_path: Path) -> None:
    flags = [f"--iree-hal-dump-executable-sources-to={tmp_path}"]
    winograd.compile(CONVOLUTION, flags=flags, output_tile=4, strict=True)
    (kernel,) = (path.read_text() for path in tmp_path.glob("*winograd_f*.mlir"))
    assert "scf.for" in kernel
