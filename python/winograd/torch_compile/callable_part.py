"""A loaded program as a function on torch's tensors, in the way that takes the least of its caller's time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from iree.winograd.cuda.driver import CudaError, cuda_driver
from iree.winograd.loading.launchable import Launchable, OpenLaunchable
from iree.winograd.loading.launched_function import TYPES, Argument
from iree.winograd.loading.open_launched_function import FindSpecial, SpecialLaunchable, launched_function
from iree.winograd.loading.runtime import LoadedFunction, LoadedProgram
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
    arguments = _arguments(function, signature)

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
            _find_special(function, signature),
        )
    except (CudaError, OSError) as error:
        return one_by_one(str(error))


def _arguments(function: LoadedFunction, signature: PartSignature) -> list[Argument]:
    return [
        Argument(argument.number, argument.order, function.is_read_only(index))
        for index, argument in enumerate(signature.arguments)
    ]


class _OfShape(NamedTuple):
    """All that is asked of an argument for which there may be a program."""

    shape: Sequence[int]


def _find_special(function: LoadedFunction, signature: PartSignature) -> FindSpecial | None:
    """What finds the programs that `function` has for sizes, if it may have some."""
    specialized = function.specialized
    if specialized is None:
        return None

    def find(shapes: Sequence[Sequence[int]]) -> SpecialLaunchable | None:
        special = specialized([_OfShape(shape) for shape in shapes])
        if special is None or special.launchable is None:
            return None
        return SpecialLaunchable(special.launchable, _arguments(special, signature))

    return find


def _results(launchable: Launchable | OpenLaunchable) -> Sequence[ResultPlace]:
    if isinstance(launchable, OpenLaunchable):
        return launchable.launches.launches.results
    return launchable.launches.results
