"""Have IREE compute what kernels for GPUs make of constants when it loads a program."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.values.constants import AT_LOAD_ATTRIBUTE
from iree.winograd.passes.match.values.kernels_of_constants import kernels_of_constants

from ..backends.module_backend import supported_backend


@register_pass("winograd-compute-at-load")
class ComputeAtLoad:
    """Have IREE compute what kernels for GPUs make of constants when it loads a program.

    When IREE compiles a program it evaluates what depends on constants alone, such as a linear layer of a
    position that is part of a model, by code for the host. Of our kernels for GPUs it has no such code. The
    module says that all of this waits until the program is loaded, when it runs on the GPU.

        %x = arith.constant dense<...> : tensor<1x64xf32>
        %y = flow.dispatch @k::@k(%x) : (tensor<1x64xf32>) -> tensor<1x32xf32>
      stays in
        module attributes {winograd.folds_at_load}
    """

    def run(self, module: ir.Operation) -> None:
        backend = supported_backend(module)
        if backend is None or backend.uses_host_memory or not kernels_of_constants(module):
            return
        module.attributes[AT_LOAD_ATTRIBUTE] = ir.UnitAttr.get(module.context)
