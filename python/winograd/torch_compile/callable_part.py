"""A loaded program as a function on torch's tensors, in the way that takes the least of its caller's time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from iree.winograd.cuda.driver import CudaError, cuda_driver
from iree.winograd.loading.launchable import Launchable, OpenLaunchable
from iree.winograd.loading.launched_function import TYPES, Argument
from iree.winograd.loading.open_launched_function import launched_function
from iree.winograd.loading.runtime import LoadedProgram
from iree.winograd.pipelines.problems.launches import ResultPlace
from iree.winograd.torch_compile.fallback_warning import warn_once
from iree.winograd.torch_compile.loaded_part import LoadedPart
from iree.winograd.torch_compile.part_program import ENTRY, PartSignature


def callable_part(
    program: LoadedProgram, signature: PartSignature, fixed: Collection[int]
) -> Callable[..., Any]:
    """The function of `program`: a CUDA graph of its kernels where there may be one, of each size of images.

    `fixed` are the numbers of the arguments that are usually the same tensors from call to call.
    """
    function = getattr(program, ENTRY)
    loaded = LoadedPart(function, signature, fixed)
    launchable = function.launchable
    if (
        launchable is None
        or signature.device.type != "cuda"
        or any(result.element_type not in TYPES for result in _results(launchable))
    ):
        return loaded
    arguments = [
        Argument(argument.number, argument.order, function.is_read_only(index))
        for index, argument in enumerate(signature.arguments)
    ]

    def one_by_one(reason: str) -> Callable[..., Any]:
        warn_once(f"kernels of the model are launched one by one: {reason}")
        return loaded

    try:
        return launched_function(
            cuda_driver(),
            launchable,
            arguments,
            signature.results,
            signature.device,
            one_by_one,
            loaded,
        )
    except (CudaError, OSError) as error:
        return one_by_one(str(error))


def _results(launchable: Launchable | OpenLaunchable) -> Sequence[ResultPlace]:
    if isinstance(launchable, OpenLaunchable):
        return launchable.launches.launches.results
    return launchable.launches.results
