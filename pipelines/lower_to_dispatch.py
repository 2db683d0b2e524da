"""Lower groups of winograd ops to dispatches of this project's kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import OutputTransformOp
from iree.winograd.passes.registry import PassError, register_pass
from iree.winograd.passes.rewrite import erase_if_unused, transforms

from .cpu.pipeline import CpuPipeline
from .cpu.target import CpuTarget
from .gpu import target as gpu_target
from .gpu.pipeline import GpuPipeline
from .gpu.target import GpuTarget
from .group import match_group
from .target import ExecutableTarget, executable_targets


@register_pass("winograd-lower-to-dispatch")
@dataclass(frozen=True)
class LowerToDispatch:
    """Lower groups of winograd ops to dispatches of this project's kernels.

    A group is an `output_transform`, the `linalg.batch_matmul` it reads, that one's `input_transform` and
    filters. It becomes dispatches of kernels that are generated for the module's target, and executables that
    hold them: one for a CPU, as shown, up to three for a GPU. Filters are packed into the order in which the
    kernel reads them: constants here, others by a dispatch.

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
        pipeline = _pipeline(module)
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
        # In the words of IREE, which gives this error, too, but only in a later phase.
        return (
            "no HAL devices defined in the module; use the module-level hal.device.targets attribute, the "
            "--iree-hal-target-device= flag, or provide inputs with global !hal.devices defined"
        )
    for target in targets:
        if not _is_x86(target) and target.backend not in gpu_target.BACKENDS:
            return f'iree-winograd has no kernels for target "{target.backend}" ({target.format})'
    if len({_is_x86(target) for target in targets}) > 1:
        return "iree-winograd has no kernels that run on CPUs and GPUs alike"
    return None


def _pipeline(module: ir.Operation) -> CpuPipeline | GpuPipeline:
    """The lowering for the module's targets: code that has to run on all of them makes do with the least."""
    reason = unsupported_target(module)
    if reason is not None:
        module.location.emit_error(f"winograd ops can't be lowered: {reason}")
        raise PassError
    targets = executable_targets(module)
    if _is_x86(targets[0]):
        cpus = [CpuTarget.of(target.field("cpu"), target.field("cpu_features")) for target in targets]
        return CpuPipeline(module, reduce(CpuTarget.least, cpus))
    return GpuPipeline(module, reduce(GpuTarget.least, map(GpuTarget.of, targets)))


def _is_x86(target: ExecutableTarget) -> bool:
    return target.backend == "llvm-cpu" and target.field("target_triple").startswith("x86_64")
