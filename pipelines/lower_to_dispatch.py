"""Lower groups of winograd ops to dispatches of this project's kernels."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import OutputTransformOp
from iree.winograd.passes.registry import PassError, register_pass
from iree.winograd.passes.rewrite import erase_if_unused, transforms

from .cpu.pipeline import CpuPipeline
from .cpu.target import CpuTarget
from .group import match_group
from .target import ExecutableTarget, executable_targets


@register_pass("winograd-lower-to-dispatch")
@dataclass(frozen=True)
class LowerToDispatch:
    """Lower groups of winograd ops to dispatches of this project's kernels.

    A group is an `output_transform`, the `linalg.batch_matmul` it reads, that one's `input_transform` and filters. It
    becomes one dispatch of a kernel that is generated for the module's target, and an executable that holds the
    kernel. Filters are packed into the order in which the kernel reads them: constants here, others by a dispatch.

        %v = "winograd.input_transform"(%x) : (tensor<1x14x14x32xf32>) -> tensor<36x9x32xf32>
        %m = linalg.batch_matmul ins(%v, %u : tensor<36x9x32xf32>, tensor<36x32x32xf32>) outs(%zeros : ...)
        %r = "winograd.output_transform"(%m) ({...}) : (tensor<36x9x32xf32>) -> tensor<1x12x12x32xf32>
      becomes
        %r = flow.dispatch @kernel::@kernel(%x, %packed) :
               (tensor<1x14x14x32xf32>, tensor<1x36x32x32xf32>) -> tensor<1x12x12x32xf32>
    """

    def run(self, module: ir.Operation) -> None:
        outputs = transforms(module, OutputTransformOp)
        if not outputs:
            return
        pipeline = CpuPipeline(module, _cpu_target(module))
        for output_transform in outputs:
            group = match_group(output_transform)
            if isinstance(group, str):
                output_transform.location.emit_error(f"winograd.output_transform can't be lowered: {group}")
                raise PassError
            with output_transform.location, ir.InsertionPoint(output_transform):
                result = pipeline.lower(group)
            output_transform.result.replace_all_uses_with(result)
            erase_if_unused([output_transform.operation])


def unsupported_target(module: ir.Operation) -> str | None:
    """Why the module's targets have no kernels here, or None."""
    targets = executable_targets(module)
    if not targets:
        return "the module names no target device"
    for target in targets:
        if not _is_x86(target):
            return f'there are no kernels for target "{target.backend}" ({target.format})'
    return None


def _is_x86(target: ExecutableTarget) -> bool:
    return target.backend == "llvm-cpu" and target.field("target_triple").startswith("x86_64")


def _cpu_target(module: ir.Operation) -> CpuTarget:
    reason = unsupported_target(module)
    if reason is not None:
        module.location.emit_error(f"winograd ops can't be lowered: {reason}")
        raise PassError
    # Code that has to run on all of the targets has to make do with the least of them.
    candidates = [CpuTarget.from_features(target.field("cpu_features")) for target in executable_targets(module)]
    return min(candidates, key=lambda candidate: candidate.vector_width)
