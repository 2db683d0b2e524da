"""Kernels without their bodies: what is taken out comes back, and IREE keeps kernels apart meanwhile."""

from __future__ import annotations

from collections import Counter

import iree.winograd as winograd
import pytest
import torch
from agreement import expect_within
from iree.compiler import api
from iree.winograd.compilation import REWRITE_PHASE, Compilation, Stages
from iree.winograd.dialect.bindings import ir
from iree.winograd.kernel_bodies import take_bodies
from iree.winograd.passes.match.navigation import KERNEL
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.program import open_session
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
        bodies = take_bodies(module, kernels)
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
