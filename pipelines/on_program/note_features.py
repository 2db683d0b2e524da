"""Note which features of a processor the kernels of a program use."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.reflection import note_words
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import KERNEL, is_public, walk

from ..backends.module_backend import supported_backend
from ..machines.processor_features import enabled_features
from ..problems.executable_target import executable_targets
from ..problems.reflection import FEATURES_KEY


@register_pass("winograd-note-features")
class NoteFeatures:
    """Note the processor's features that code of a program may use, as reflection of its functions, on CPUs.

    A processor without one of them ends the process at the first instruction that it lacks. Whoever loads the
    program can tell before. Nothing is noted of a program without kernels, or for several processors.

        util.func public @main(%arg0: !hal.buffer_view) {
          %r = flow.dispatch @kernel::@kernel(%x, %packed)
      becomes, for `cpu_features = "+avx2,+fma,-avx512f"`,
        util.func public @main(%arg0: !hal.buffer_view)
            attributes {iree.reflection = {winograd.features = "avx2 fma"}} {
    """

    def run(self, module: ir.Operation) -> None:
        operations = list(walk(module))
        if not any(operation.name == KERNEL for operation in operations):
            return
        backend = supported_backend(module)
        if backend is None or not backend.uses_host_memory:
            return
        features = _features(module)
        functions = [each for each in operations if each.name == "util.func" and is_public(each)]
        rewrite_each("function", functions, lambda function: note_words(function, FEATURES_KEY, features))


def _features(module: ir.Operation) -> Sequence[str]:
    targets = executable_targets(module)
    if len(targets) != 1:
        return ()
    return enabled_features(targets[0].field("cpu_features"))
