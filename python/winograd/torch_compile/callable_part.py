"""A loaded program as a function on torch's tensors, in the way that takes the least of its caller's time."""

from __future__ import annotations

from collections.abc import Collection

from iree.winograd.cuda.driver import CudaError, cuda_driver
from iree.winograd.loading.runtime import LoadedProgram
from iree.winograd.torch_compile.fallback_warning import warn_once
from iree.winograd.torch_compile.launched_part import TYPES, LaunchedPart
from iree.winograd.torch_compile.loaded_part import LoadedPart
from iree.winograd.torch_compile.part_program import ENTRY, PartSignature


def callable_part(
    program: LoadedProgram, signature: PartSignature, fixed: Collection[int]
) -> LoadedPart | LaunchedPart:
    """The function of `program`: a CUDA graph of its kernels where there may be one.

    `fixed` are the numbers of the arguments that are usually the same tensors from call to call.
    """
    function = getattr(program, ENTRY)
    loaded = LoadedPart(function, signature, fixed)
    launches = function.launches
    if (
        launches is None
        or signature.device.type != "cuda"
        or any(result.element_type not in TYPES for result in launches.results)
    ):
        return loaded
    try:
        return LaunchedPart(cuda_driver(), program, launches, signature, loaded)
    except (CudaError, OSError) as error:
        warn_once(f"kernels of the model are launched one by one: {error}")
        return loaded
