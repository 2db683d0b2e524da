"""What a function of a program launches on CUDA, for who does so without IREE's runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from iree import runtime
from iree.winograd.cuda.executable import executables
from iree.winograd.loading.program_context import ProgramContext
from iree.winograd.loading.program_module import mapped_file
from iree.winograd.pipelines.problems.launches import CONSTANTS_FUNCTION, LAUNCHES_KEY, LaunchList
from iree.winograd.pipelines.problems.open_launches import OPEN_LAUNCHES_KEY, OpenLaunches


class LaunchableProgram:
    """The program in `source`, which is loaded in `context` as `module`."""

    def __init__(self, source: bytes | str | PathLike[str], context: ProgramContext, module: Any) -> None:
        self._source = source
        self._context = context
        self._module = module

    def executables(self) -> Sequence[bytes]:
        """IREE's executables of the program, with its kernels. Raises OSError where its file is gone."""
        if isinstance(self._source, bytes):
            return list(executables(self._source))
        with mapped_file(self._source) as mapped:
            return list(executables(mapped))

    def constants(self) -> Sequence[Any]:
        """Buffer views of the constants that the launches name, of bytes.

        Raises one of `RUNTIME_ERRORS` when the program fails.
        """
        if CONSTANTS_FUNCTION not in self._module.function_names:
            return ()
        views = self._context.invoke(self._module.lookup_function(CONSTANTS_FUNCTION), ())
        return [views.get_as_object(index, runtime.HalBufferView) for index in range(views.size)]

    def dlpack(self, view: Any, index: int) -> Any:
        """A capsule with a buffer view's memory, on the CUDA device of this number."""
        return self._context.device.hal.create_dlpack_capsule(view, _DLPACK_CUDA, index)


@dataclass(frozen=True)
class Launchable:
    """The `launches` of a function of a `program`."""

    program: LaunchableProgram
    launches: LaunchList


@dataclass(frozen=True)
class OpenLaunchable:
    """The `launches` of a function of a `program`, sizes of whose arguments are known only in a call."""

    program: LaunchableProgram
    launches: OpenLaunches

    def at(self, shapes: Sequence[Sequence[int]]) -> Launchable:
        """The function for arguments of these shapes alone."""
        return Launchable(self.program, self.launches.at(shapes))


def launchable_function(
    program: LaunchableProgram, reflection: Mapping[str, str]
) -> Launchable | OpenLaunchable | None:
    """What a function of a `program` launches, as its `reflection` has it; None where that has nothing."""
    if (launches := reflection.get(LAUNCHES_KEY)) is not None:
        return Launchable(program, LaunchList.from_json(launches))
    if (launches := reflection.get(OPEN_LAUNCHES_KEY)) is not None:
        return OpenLaunchable(program, OpenLaunches.from_json(launches))
    return None


_DLPACK_CUDA = 2
"""DLPack's number for memory of CUDA's."""
