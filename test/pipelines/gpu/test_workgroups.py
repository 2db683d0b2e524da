"""No dispatch of a network has a single workgroup of a GPU compute much, IREE's own included."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path

import iree.winograd
import pytest
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.phases import BINARIES_PHASE, Stages
from iree.winograd.compiling.program import open_session, open_source
from iree.winograd.dialect.bindings import ir
from iree.winograd.importers.imported_model import ImportedModel
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.targets import target_flags
from torch import nn
from wide import wide_combinations

from benchmarks.networks.blocks import BLOCKS
from benchmarks.networks.gpu import NETWORKS
from benchmarks.networks.network import Network
from benchmarks.reduction_networks import IMAGE_CHANNELS, Between, SqueezeAndExcitation

MOST_ELEMENTS = 1 << 14
"""Of the largest tensor that a single workgroup may compute or read: 64 KB of f32 take it about a launch."""


def between() -> nn.Module:
    """What reduces images of 64 x 64 pixels, between convolutions."""
    layers = [
        (96, nn.GroupNorm(1, 96)),
        (64, nn.Softmax(1)),
        (64, SqueezeAndExcitation(64)),
        (64, nn.AvgPool2d(3, 2, 1)),
    ]
    return Between(layers)


WHOLE = {name: NETWORKS[name] for name in ("unet", "yolo", "shufflenetv2_w1", "darknet53")}
"""Of the networks that GPUs are measured with, those of this project and of pytorchcv."""
SMALL = ("audio_stack",)
"""Of the blocks, those without such a tensor."""
CHECKED = {
    "between": Network(between, (IMAGE_CHANNELS, 64, 64)),
    **{name: block for name, block in BLOCKS.items() if name not in SMALL},
    **WHOLE,
}
TARGETS = ("cuda:sm_90a", "vulkan")
QUICK = (("between", "cuda:sm_90a"),)


@dataclass(frozen=True)
class Dispatch:
    """A kernel that a call runs: how many workgroups, and the elements of the largest tensor it works on."""

    kernel: str
    workgroups: int
    elements: int


def dispatches(model: ImportedModel, target: str, folder: Path) -> list[Dispatch]:
    """All that a call of sizes that are known runs."""
    options, errors = WinogradOptions(strict=True), list[str]()
    flags = (*target_flags(target), f"--iree-hal-dump-executable-configurations-to={folder}")
    session = open_session(flags, options)
    with Compilation(
        session, options, Stages(compile_to=BINARIES_PHASE), report=lambda each: errors.append(str(each))
    ) as compilation:
        invocation = compilation.compile(open_source(compilation, model))
        assert invocation is not None, errors
        elements = dict(_largest_tensors(folder))
        module = invocation.export_module()
        return [
            Dispatch(kernel, prod(counts), elements[kernel])
            for kernel, counts in map(_launched, walk(module))
            if kernel
        ]


def _largest_tensors(folder: Path) -> Iterator[tuple[str, int]]:
    """By kernel, the elements of the largest of the tensors that it is bound to."""
    for path in folder.glob("*.mlir"):
        for function in path.read_text().split("func.func @")[1:]:
            name = re.match(r"\w+", function)
            bound = re.findall(r"binding\.subspan .*: memref<((?:\d+x)+)(?:vector<(\d+)x)?", function)
            assert name is not None
            extents = ([*map(int, shape.split("x")[:-1]), int(vector or 1)] for shape, vector in bound)
            yield name[0], max(map(prod, extents), default=0)


def _launched(operation: ir.Operation) -> tuple[str, list[int]]:
    """The kernel that a command launches, and of how many workgroups; no name where it is another one."""
    if operation.name != "hal.command_buffer.dispatch":
        return "", []
    lookup = defining_operation(operation.operands[2])
    assert lookup is not None
    counts = (defining_operation(each) for each in operation.operands[3:6])
    numbers = [ir.IntegerAttr(each.attributes["value"]).value for each in counts if each is not None]
    assert len(numbers) == 3
    return str(ir.SymbolRefAttr(lookup.attributes["entry_point"]).value[-1]), numbers


@pytest.mark.parametrize(
    ("name", "target"),
    [*QUICK, *wide_combinations([each for each in product(CHECKED, TARGETS) if each not in QUICK])],
)
def test_no_single_workgroup_computes_much(name: str, target: str, tmp_path: Path) -> None:
    network = CHECKED[name]
    imported = iree.winograd.import_torch(network.build().eval(), *network.inputs(1))
    found = dispatches(imported, target, tmp_path)
    assert sum(each.elements > MOST_ELEMENTS for each in found) > 1, "nothing is large"
    assert [each for each in found if each.workgroups == 1 and each.elements > MOST_ELEMENTS] == []
