"""Compiled programs as Python functions on numpy arrays and torch tensors.

Arguments on the CPU are handed over without a copy when they are contiguous and writable, the program only
reads them, and they are aligned to 64 bytes (torch tensors are; numpy arrays seldom) or read by this
project's kernels only. IREE computes some results in the memory of arguments: where it may do so, the program
gets copies, and a caller's arrays stay as they are. What `compile` made says where, and what the command
made of a program with kernels of this project; any other one gets copies of all arguments. One with
`iree.abi.output` is memory for a result, which is written there if it is contiguous, writable and aligned.
Results are handed over without a copy unless they share memory.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from numbers import Integral
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from iree import runtime
from iree.runtime import version
from iree.winograd.errors import CallError, InvalidOptionError, LoadError
from iree.winograd.loading import vulkan_features
from iree.winograd.loading.calls_at_exit import CALLS
from iree.winograd.loading.check_sums import DamagedFileError, check_sums
from iree.winograd.loading.device import (
    BUFFER_ALIGNMENT,
    RUNTIME_ERRORS,
    BorrowedArrays,
    Device,
    open_device,
)
from iree.winograd.loading.element_types import ElementType, HostArray, type_of_hal, types_of_mlir
from iree.winograd.loading.gpu_calls import GpuCalls, is_on_cuda
from iree.winograd.loading.launchable import (
    Launchable,
    LaunchableProgram,
    OpenLaunchable,
    launchable_function,
)
from iree.winograd.loading.parameters import Parameter, TensorParameter, by_position
from iree.winograd.loading.plain_calls import PlainCalls
from iree.winograd.loading.processor_features import missing_features
from iree.winograd.loading.program_context import INSTANCE, ProgramContext
from iree.winograd.loading.program_module import program_module
from iree.winograd.loading.program_targets import ProgramTarget, program_targets, this_architecture
from iree.winograd.loading.results import Result, has_tensor, mapped
from iree.winograd.loading.signatures import (
    FunctionSignature,
    SignatureError,
    count_arrays,
    parse_declaration,
)
from iree.winograd.pipelines.problems.reflection import (
    DECLARATION_KEY,
    FEATURES_KEY,
    INPUTS_KEY,
    LAYERS_KEY,
    ORDER_KEY,
    OUTPUTS_KEY,
    READ_ONLY_KEY,
    STORAGE_KEY,
    THREADS_KEY,
    UNALIGNED_KEY,
)
from iree.winograd.targets import driver_name

_LESSER = {"x86_64": ' such as target="cpu:x86-64-v3" or "cpu:x86-64"'}
"""Processors that most programs run on, by the architecture."""


class ThreadsWarning(UserWarning):
    """A program's kernels are for another number of threads than it runs on."""


class Specializer(Protocol):
    """What has functions of a program call others for arguments of some sizes."""

    def attach(self, program: LoadedProgram) -> None:
        """Set `specialized` of functions of the program."""


def load(
    program: bytes | str | PathLike[str],
    device: str = "local-task",
    *,
    threads: int | None = None,
    specialize: Specializer | None = None,
) -> LoadedProgram:
    """Load a compiled program, given as the bytes of a .vmfb or as its path, on `device`.

    `device` is a URI of IREE's runtime: "local-sync" (on the calling thread), "local-task" (on `threads`
    workers, by default one per physical core; a single one is the calling thread), "vulkan", "cuda", "hip",
    each with an optional `://` and path.
    A file is mapped into memory: leave it as it is while the program is in use. With `specialize`, a
    `Specialization`, sizes that the program leaves open and that come often get programs of their own.

    On Linux, "local-task" has the process keep large blocks of memory that it frees. Workers that leave their
    caller a core wait for more work for a millisecond before they sleep, those that take all of more than
    four cores for a tenth of one; a thread that calls a program then asks for slices of a tenth of a
    millisecond, which it keeps. Where they take all of up to four, or are more than there are, it counts as
    batch work (SCHED_BATCH) until the call returns. Neither is done where something else was chosen for it.
    The environment variable IREE_WINOGRAD_UNCHANGED names what stays as it is.

    Warns with `ThreadsWarning` where kernels of the program are for another number of threads. Raises
    `LoadError` when the file can't be read, isn't a compiled program, is damaged, is compiled for other
    devices, processors or versions of IREE, or has functions none of which can be called on arrays, and when
    there is no such device; `InvalidOptionError` for a device that is no text, for threads that are no
    positive integer, or are given for a device other than local-task, for what that variable can't name, and
    as `specialize` does.
    """
    if not isinstance(device, str):
        raise InvalidOptionError(f"device must be a URI of IREE's runtime, got {device!r}")
    if threads is not None and (not _is_count(threads) or driver_name(device) != "local-task"):
        raise InvalidOptionError(
            f"threads must be positive and for local-task, got {threads!r} for {device!r}"
        )
    opened = open_device(device, threads)
    loaded = load_on(program, opened)
    if specialize is not None:
        specialize.attach(loaded)
    if opened.threads is not None and loaded.threads - {opened.threads}:
        meant = ", ".join(map(str, sorted(loaded.threads)))
        warnings.warn(
            f"{_name(program)} is compiled for {meant} thread(s) and runs on {opened.threads}: compiled with "
            f"--iree-winograd-threads={opened.threads}, `threads` of `compile`, it may be faster",
            ThreadsWarning,
            stacklevel=2,
        )
    return loaded


def load_on(program: bytes | str | PathLike[str], device: Device) -> LoadedProgram:
    """As `load`, on a device that is open. Raises `LoadError`."""
    with CALLS.one():
        return _load_on(program, device)


def _load_on(program: bytes | str | PathLike[str], device: Device) -> LoadedProgram:
    name = _name(program)
    try:
        check_sums(program)
        module = program_module(INSTANCE, program)
    except OSError as error:
        raise LoadError(f"can't read {name}: {error.strerror}") from error
    except DamagedFileError as error:
        raise LoadError(f"{name} is damaged: {error}; compile it again") from error
    except RUNTIME_ERRORS as error:
        raise LoadError(f"{name} is not a program compiled by IREE: {error}") from error
    targets = program_targets(program)
    if device.in_host_memory:
        _require_features(name, _noted(module, FEATURES_KEY) or _only_features(targets))
    if missing := vulkan_features.missing_features(program, device.uri):
        raise LoadError(
            f"{name} uses {', '.join(missing)}, which {device.uri!r} lacks: compile it for that GPU, "
            'or for all of them with target="vulkan"'
        )
    if device.workers > 1:
        _require_order(name, _noted(module, ORDER_KEY))
    device.trim()
    try:
        context = ProgramContext(module, device)
    except RUNTIME_ERRORS as error:
        known = " or ".join(map(str, targets))
        reason = f", as it is compiled for {known}" if known else ""
        raise LoadError(f"{name} can't run on {device.uri!r}{reason}: {error}") from error
    loaded = LoadedProgram(program, context, module)
    if loaded.refused and not loaded.functions:
        reasons = "; ".join(f"{function}: {reason}" for function, reason in loaded.refused.items())
        raise LoadError(f"{name} has no function that can be called on arrays: {reasons}")
    return loaded


def _is_count(number: object) -> bool:
    return isinstance(number, Integral) and int(number) >= 1


def _name(program: bytes | str | PathLike[str]) -> str:
    return "the program" if isinstance(program, bytes) else repr(fspath(program))


_T = TypeVar("_T")


class _OfThisProcess:
    """What models that hold it can be copied with, as with a function, but not sent to other processes."""

    def __copy__(self: _T) -> _T:
        return self

    def __deepcopy__(self: _T, memo: object) -> _T:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a loaded program is of its process: pickle the compiled one, and load that elsewhere"
        )


class LoadedProgram(_OfThisProcess):
    """A program on its device. Its functions are attributes; it is called like the only one, or `main`.

    Functions that take or give anything but tensors of element types that arrays have are `refused`.
    """

    def __init__(self, source: bytes | str | PathLike[str], context: ProgramContext, module: Any) -> None:
        self._functions: dict[str, LoadedFunction] = {}
        self._refused: dict[str, str] = {}
        """Why the other functions can't be called, by name."""
        launchable = LaunchableProgram(source, context, module)
        for name, function in _public_functions(module):
            try:
                signature = _signature(function)
            except SignatureError as error:
                self._refused[name] = str(error)
            else:
                self._functions[name] = LoadedFunction(
                    name, signature, context, function, launchable_function(launchable, function.reflection)
                )
        self._default = self._functions.get("main")
        if len(self._functions) == 1 and "main" not in self._refused:
            (self._default,) = self._functions.values()

    @property
    def refused(self) -> Mapping[str, str]:
        """Why functions that aren't among `functions` can't be called on arrays, by name."""
        return MappingProxyType(self._refused)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the functions."""
        return tuple(self._functions)

    @property
    def threads(self) -> frozenset[int]:
        """The numbers of threads that kernels of its functions are for, on CPUs; none where it has none."""
        return frozenset(each.threads for each in self._functions.values() if each.threads is not None)

    def __getattr__(self, name: str) -> LoadedFunction:
        if name in self._functions:
            return self._functions[name]
        if name in self._refused:
            raise AttributeError(f"{name} can't be called on arrays: {self._refused[name]}")
        raise AttributeError(f"the program has no function {name!r} on arrays, only {self.functions}")

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the program's function. Raises `CallError` when that isn't unique; see `LoadedFunction`."""
        if self._default is not None:
            return self._default(*arguments, **keywords)
        if "main" in self._refused:
            raise CallError(f"main can't be called on arrays: {self._refused['main']}")
        raise CallError(f"the program has no function 'main': call one of {self.functions}")


class LoadedFunction(_OfThisProcess):
    """A function of a loaded program.

    Its `signature` is None where the program doesn't hold it: IREE keeps none of functions that come from
    torch-mlir's types, and this project notes them where it has kernels. The program itself checks the
    arguments then.
    """

    def __init__(
        self,
        name: str,
        signature: FunctionSignature | None,
        context: ProgramContext,
        function: Any,
        launchable: Launchable | OpenLaunchable | None,
    ) -> None:
        self.name = name
        self.specialized: Callable[[Sequence[Any]], LoadedFunction | None] | None = None
        """Gives a function that does the same for arguments of the sizes of some, if there is one."""
        self.launchable = launchable
        """Its kernels, where CUDA can be given all of them at once."""
        self.signature = signature
        self._context = context
        self._function = function
        inputs = () if signature is None else signature.inputs
        self._parameters = [TensorParameter(index, tensor) for index, tensor in enumerate(inputs)]
        self._unaligned, self._read_only, self._storage = (
            frozenset(map(int, function.reflection.get(key, "").split()))
            for key in (UNALIGNED_KEY, READ_ONLY_KEY, STORAGE_KEY)
        )
        self._plain: PlainCalls | None = None
        """What takes most calls, where there is any."""
        in_place = self._unaligned & self._read_only
        if signature is not None and PlainCalls.are_possible(context, signature, in_place):
            self._plain = PlainCalls(context, function, signature)
        layers = json.loads(function.reflection.get(LAYERS_KEY, "{}"))
        self.layers: Mapping[str, tuple[str, ...]] = {key: tuple(names) for key, names in layers.items()}
        """The names of the layers that each of its kernels computes, in the order of a call."""
        threads = function.reflection.get(THREADS_KEY)
        self.threads = None if threads is None else int(threads)
        """That its kernels are for; None where it has none, and on GPUs."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function on arrays of the types in `signature`, by position or by the names there.

        Arrays are numpy's, also of ml_dtypes, tensors of torch's on the CPU, what converts itself to an array
        of numpy's as those of jax do, and numbers of Python's and lists of them. On CUDA they may be there
        already, as tensors of torch's or of what exchanges arrays by DLPack. Such a call is launched on the
        current stream of torch, and returns tensors on the GPU at once.

        Returns the result, or a tuple of them if there isn't just one: torch tensors if there is one among
        the arguments, numpy arrays otherwise, of ml_dtypes where numpy has no such type, or of unsigned
        integers of the same bits where that isn't installed. IREE's integers have no sign: unsigned results
        come as signed ones of the same bits. Raises `CallError` when the arguments don't fit the signature or
        the program fails.
        """
        if self._plain is not None and self.specialized is None and not keywords:
            try:
                result = self._plain(arguments)
            except RUNTIME_ERRORS as error:
                raise CallError(f"{self.name} failed: {error}") from error
            if result is not NotImplemented:
                return result
        inputs = None if self.signature is None else self.signature.inputs
        given = by_position(self.name, inputs, arguments, keywords)
        if self.specialized is not None and (function := self.specialized(given)) is not None:
            return function(*given)
        device = self.device
        if not device.in_host_memory and any(map(is_on_cuda, given)):
            return self._on_gpu(given)
        parameters: Sequence[Parameter] = self._parameters
        if inputs is None:
            parameters = [Parameter(index) for index in range(len(given))]
        taken = [
            parameter.take(self.name, argument) for parameter, argument in zip(parameters, given, strict=True)
        ]
        borrowed = BorrowedArrays()
        try:
            results = self._run(device, taken, borrowed)
        except RUNTIME_ERRORS as error:
            raise CallError(f"{self.name} failed: {error}") from error
        borrowed.wait()
        convert = Result.torch if has_tensor(given) else Result.numpy
        if len(results) == 1:
            return convert(results[0])
        return tuple(map(convert, results))

    @cached_property
    def _on_gpu(self) -> GpuCalls:
        return GpuCalls(
            self.name, self.device.uri, self.signature, self.launchable, self._read_only, self.__call__
        )

    @property
    def argument_count(self) -> int:
        """How many arrays it takes, which also a program without its `signature` tells.

        Raises `CallError` where it takes something else.
        """
        if self.signature is not None:
            return len(self.signature.inputs)
        try:
            return count_arrays(repr(self._function))
        except SignatureError as error:
            raise CallError(f"{self.name} can't be called: {error}") from None

    @property
    def device(self) -> Device:
        """That it runs on: in a forked process, one of that process."""
        return self._context.device

    def invoke(self, views: Sequence[Any]) -> Any:
        """Call the function on buffer views of its device; returns the runtime's list of such views.

        Raises one of `RUNTIME_ERRORS` when the program fails.
        """
        return self._context.invoke(self._function, views)

    def is_read_only(self, index: int) -> bool:
        """Whether the program writes nothing to the memory of an argument; False where it doesn't say."""
        return index in self._read_only

    def _run(
        self, device: Device, arguments: Sequence[HostArray], borrowed: BorrowedArrays
    ) -> Sequence[Result]:
        views = [self._import(device, index, *each, borrowed) for index, each in enumerate(arguments)]
        outputs = self._context.invoke(self._function, views)
        results = [self._export(device, outputs, index) for index in range(outputs.size)]
        if not device.in_host_memory:
            return results
        # A program may return an argument, or a result twice, but a caller expects memory of his own.
        taken = [argument.memory for argument in arguments]
        for index, result in enumerate(results):
            memory, element_type = result.array
            for other in taken:
                if np.may_share_memory(memory, other):
                    results[index] = Result(HostArray(memory.copy(), element_type))
                    break
            taken.append(memory)
        return results

    def _import(
        self,
        device: Device,
        index: int,
        array: npt.NDArray[Any],
        element_type: ElementType,
        borrowed: BorrowedArrays,
    ) -> Any:
        flags = array.flags
        # The strides of an array without elements are those of no dense one.
        if not device.in_host_memory or not flags.writeable or array.size == 0:
            return device.copy_from_host(array, element_type)
        is_read_only = index in self._read_only
        # On the calling thread all that a call has begun ends with it.
        if is_read_only and device.workers == 0 and index in self._unaligned and flags.aligned:
            return device.import_in_place(array, element_type)
        is_aligned = array.__array_interface__["data"][0] % BUFFER_ALIGNMENT == 0
        if index in self._storage and is_aligned:
            return device.import_in_place(array, element_type)
        if not is_read_only:
            return device.copy_from_host(array, element_type)
        if is_aligned:
            return borrowed.borrow(device, array, element_type)
        if index in self._unaligned and flags.aligned:
            return device.import_in_place(array, element_type)
        return device.copy_from_host(array, element_type)

    def _export(self, device: Device, outputs: Any, index: int) -> Result:
        view = outputs.get_as_object(index, runtime.HalBufferView)
        element_type = type_of_hal(view.element_type)
        if element_type is None:
            raise CallError(f"result {index} of {self.name} has elements that numpy has no type for")
        if not device.in_host_memory:
            return Result(HostArray(device.copy_to_host(view, element_type.memory), element_type))
        return mapped(device.hal, view, element_type)


def _public_functions(module: Any) -> Iterator[tuple[str, Any]]:
    """The functions of the program's own, by their names."""
    for name in module.function_names:
        # IREE's own functions start with underscores; one on fences is beside the one that waits for it.
        if not name.startswith("__") and not name.endswith("$async"):
            yield name, module.lookup_function(name)


def _noted(module: Any, key: str) -> list[str]:
    """The words that functions of the program have under a key of their reflection, each once."""
    noted = (function.reflection.get(key, "") for _, function in _public_functions(module))
    return list(dict.fromkeys(word for words in noted for word in words.split()))


def _only_features(targets: Sequence[ProgramTarget]) -> Sequence[str]:
    """Those of a program for a single target; of several the runtime takes one that fits."""
    return targets[0].features if len(targets) == 1 else ()


def _require_features(name: str, features: Sequence[str]) -> None:
    """Raise `LoadError` where the processor lacks `features` of those that kernels are for."""
    if missing := missing_features(features):
        raise LoadError(
            f"{name} is compiled for a processor with {', '.join(missing)}, which this one lacks: compile it "
            f"here, or for a lesser one{_LESSER.get(this_architecture(), '')}"
        )


def _require_order(name: str, versions: Sequence[str]) -> None:
    """Raise `LoadError` where kernels wait for each other, and workers might keep to another order."""
    for each in versions:
        if not version.VERSION.startswith(each):
            raise LoadError(
                f"kernels of {name} wait for each other in an order that IREE's runtime {each}* keeps, and "
                f"this is {version.VERSION}: install iree-base-runtime=={each}*, or use local-sync"
            )


def _signature(function: Any) -> FunctionSignature | None:
    """That of a function, or None where the program doesn't hold it. Raises `SignatureError`."""
    declaration = function.reflection.get(DECLARATION_KEY)
    if declaration is None:
        return None
    names = [json.loads(function.reflection.get(key, "null")) for key in (INPUTS_KEY, OUTPUTS_KEY)]
    signature = parse_declaration(declaration, *names)
    for kind, tensors in (("argument", signature.inputs), ("result", signature.outputs)):
        for index, tensor in enumerate(tensors):
            if not types_of_mlir(tensor.element_type):
                raise SignatureError(
                    f"{kind} {index} is {tensor}, and no array has elements of type {tensor.element_type}"
                )
    return signature
