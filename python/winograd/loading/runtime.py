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
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from iree import runtime
from iree.winograd.errors import CallError, InvalidOptionError, LoadError
from iree.winograd.loading.device import ELEMENT_TYPES, RUNTIME_ERRORS, BorrowedArrays, Device, open_device
from iree.winograd.loading.signatures import FunctionSignature, TensorSignature, parse_declaration
from iree.winograd.pipelines.specification.reflection import (
    INPUTS_KEY,
    OUTPUTS_KEY,
    READ_ONLY_KEY,
    STORAGE_KEY,
    THREADS_KEY,
    UNALIGNED_KEY,
)
from iree.winograd.targets import driver_name

BUFFER_ALIGNMENT = 64
"""Bytes; compiled code relies on it."""

_DTYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "f16": np.dtype(np.float16),
        "f32": np.dtype(np.float32),
        "f64": np.dtype(np.float64),
        "i1": np.dtype(np.bool_),
        "i8": np.dtype(np.int8),
        "i16": np.dtype(np.int16),
        "i32": np.dtype(np.int32),
        "i64": np.dtype(np.int64),
    }
)
"""By MLIR's names of element types."""

_RESULT_DTYPES: Mapping[int, np.dtype[Any]] = MappingProxyType(
    {
        **{int(element_type): dtype for dtype, element_type in ELEMENT_TYPES.items()},
        # Integers of functions on MLIR's own tensors have no sign.
        int(runtime.HalElementType.INT_8): np.dtype(np.int8),
        int(runtime.HalElementType.INT_16): np.dtype(np.int16),
        int(runtime.HalElementType.INT_32): np.dtype(np.int32),
        int(runtime.HalElementType.INT_64): np.dtype(np.int64),
    }
)


def numpy_dtype(element_type: str) -> np.dtype[Any]:
    """The type of numpy's for one of MLIR's elements, as functions of loaded programs take it."""
    return _DTYPES[element_type]


_INSTANCE = runtime.VmInstance()


class ThreadsWarning(UserWarning):
    """A program's kernels are for another number of threads than it runs on."""


def load(
    program: bytes | str | PathLike[str], device: str = "local-task", *, threads: int | None = None
) -> LoadedProgram:
    """Load a compiled program, given as the bytes of a .vmfb or as its path, on `device`.

    `device` is a URI of IREE's runtime: "local-sync" (on the calling thread), "local-task" (on `threads`
    workers, by default one per physical core; a single one is the calling thread), "vulkan", "cuda", "hip",
    each with an optional `://` and path.
    A file is mapped into memory: leave it as it is while the program is in use.

    On Linux, "local-task" has the process keep large blocks of memory that it frees. Workers that leave their
    caller a core wait for more work for a millisecond before they sleep, those that take all of more than
    four cores for a tenth of one; a thread that calls a program then asks for slices of a tenth of a
    millisecond, which it keeps. Where they take all of up to four, or are more than there are, it counts as
    batch work (SCHED_BATCH) until the call returns. Neither is done where something else was chosen for it.

    Warns with `ThreadsWarning` where kernels of the program are for another number of threads. Raises
    `LoadError` when the file can't be read, isn't a compiled program or is compiled for other devices, and
    when there is no such device; `InvalidOptionError` for a number of threads that isn't positive, or is
    given for a device other than local-task.
    """
    if threads is not None and (threads < 1 or driver_name(device) != "local-task"):
        raise InvalidOptionError(f"threads must be positive and for local-task, got {threads} for {device!r}")
    opened = open_device(device, threads)
    loaded = load_on(program, opened)
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
    name = _name(program)
    try:
        if isinstance(program, bytes):
            module = runtime.VmModule.copy_buffer(_INSTANCE, program)
        else:
            with open(program, "rb"):
                module = runtime.VmModule.mmap(_INSTANCE, fspath(program))
    except OSError as error:
        raise LoadError(f"can't read {name}: {error.strerror}") from error
    except RUNTIME_ERRORS as error:
        raise LoadError(f"{name} is not a program compiled by IREE: {error}") from error
    try:
        hal_module = runtime.create_hal_module(_INSTANCE, device.hal)
        context = runtime.VmContext(_INSTANCE, [hal_module, module])
    except RUNTIME_ERRORS as error:
        raise LoadError(f"{name} can't run on {device.uri!r}: {error}") from error
    return LoadedProgram(context, module, device)


def _name(program: bytes | str | PathLike[str]) -> str:
    return "the program" if isinstance(program, bytes) else repr(fspath(program))


class LoadedProgram:
    """A program on its device. Its functions are attributes; it is called like the only one, or `main`.

    Functions that take or give anything but tensors of numpy's element types are left out.
    """

    def __init__(self, context: Any, module: Any, device: Device) -> None:
        lock = threading.Lock()
        self._functions = {
            name: LoadedFunction(name, signature, context, function, device, lock)
            for name, signature, function in _public_functions(module)
        }
        self._default = self._functions.get("main")
        if len(self._functions) == 1:
            (self._default,) = self._functions.values()

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the functions."""
        return tuple(self._functions)

    @property
    def threads(self) -> frozenset[int]:
        """The numbers of threads that kernels of its functions are for, on CPUs; none where it has none."""
        return frozenset(each.threads for each in self._functions.values() if each.threads is not None)

    def __getattr__(self, name: str) -> LoadedFunction:
        # A copy is asked for attributes before it has any.
        functions: Mapping[str, LoadedFunction] = self.__dict__.get("_functions", {})
        if name not in functions:
            raise AttributeError(f"the program has no function {name!r} on arrays, only {tuple(functions)}")
        return functions[name]

    def __call__(self, *arguments: Any) -> Any:
        """Call the program's function. Raises `CallError` when that isn't unique; see `LoadedFunction`."""
        if self._default is None:
            raise CallError(f"the program has no function 'main': call one of {self.functions}")
        return self._default(*arguments)


class LoadedFunction:
    """A function of a loaded program.

    Its `signature` is None where the program doesn't hold it: IREE keeps none of functions that come from
    torch-mlir's types, as ONNX models do. The program itself checks the arguments then.
    """

    def __init__(
        self,
        name: str,
        signature: FunctionSignature | None,
        context: Any,
        function: Any,
        device: Device,
        lock: threading.Lock,
    ) -> None:
        self.name = name
        self.signature = signature
        self._context = context
        self._function = function
        self.device = device
        self._lock = lock
        inputs = () if signature is None else signature.inputs
        self._parameters = [_TensorParameter(index, tensor) for index, tensor in enumerate(inputs)]
        self._unaligned, self._read_only, self._storage = (
            frozenset(map(int, function.reflection.get(key, "").split()))
            for key in (UNALIGNED_KEY, READ_ONLY_KEY, STORAGE_KEY)
        )
        threads = function.reflection.get(THREADS_KEY)
        self.threads = None if threads is None else int(threads)
        """That its kernels are for; None where it has none, and on GPUs."""

    def __call__(self, *arguments: Any) -> Any:
        """Call the function on numpy arrays or torch tensors of the types in `signature`.

        Returns the result, or a tuple of them if there isn't just one: torch tensors if there is one among
        the arguments, numpy arrays otherwise. IREE's integers have no sign: unsigned results come as signed
        ones of the same bits. Raises `CallError` when the arguments don't fit the signature or the program
        fails.
        """
        parameters: Sequence[_Parameter] = self._parameters
        if self.signature is None:
            parameters = [_Parameter(index) for index in range(len(arguments))]
        if len(arguments) != len(parameters):
            raise CallError(f"{self.name} takes {len(parameters)} argument(s), got {len(arguments)}")
        torch = sys.modules.get("torch")
        gives_torch = torch is not None and any(isinstance(argument, torch.Tensor) for argument in arguments)
        arrays = [
            parameter.check(self.name, argument, torch)
            for parameter, argument in zip(parameters, arguments, strict=True)
        ]
        borrowed = BorrowedArrays()
        try:
            results = self._run(arrays, borrowed)
        except RUNTIME_ERRORS as error:
            raise CallError(f"{self.name} failed: {error}") from error
        borrowed.wait()
        if gives_torch and torch is not None:
            results = [torch.from_numpy(result) for result in results]
        return results[0] if len(results) == 1 else tuple(results)

    def invoke(self, views: Sequence[Any]) -> Any:
        """Call the function on buffer views of its device; returns the runtime's list of such views.

        Raises one of `RUNTIME_ERRORS` when the program fails.
        """
        inputs = runtime.VmVariantList(len(views))
        for view in views:
            inputs.push_ref(view)
        # A context may run one call at a time, and the runtime lets go of Python's own lock.
        with self._lock:
            return self.device.invoke(self._context, self._function, inputs)

    def is_read_only(self, index: int) -> bool:
        """Whether the program writes nothing to the memory of an argument; False where it doesn't say."""
        return index in self._read_only

    def _run(self, arrays: Sequence[npt.NDArray[Any]], borrowed: BorrowedArrays) -> list[npt.NDArray[Any]]:
        outputs = self.invoke([self._import(index, array, borrowed) for index, array in enumerate(arrays)])
        results: list[npt.NDArray[Any]] = []
        for index in range(outputs.size):
            results.append(self._export(outputs, index, (*arrays, *results)))
        return results

    def _import(self, index: int, array: npt.NDArray[Any], borrowed: BorrowedArrays) -> Any:
        # The strides of an array without elements are those of no dense one.
        if not self.device.in_host_memory or not array.flags.writeable or array.size == 0:
            return self.device.copy_from_host(array)
        is_aligned = array.__array_interface__["data"][0] % BUFFER_ALIGNMENT == 0
        if index in self._storage and is_aligned:
            return self.device.import_in_place(array)
        if index not in self._read_only:
            return self.device.copy_from_host(array)
        if is_aligned:
            return borrowed.borrow(self.device, array)
        if index in self._unaligned and array.flags.aligned:
            return self.device.import_in_place(array)
        return self.device.copy_from_host(array)

    def _export(self, outputs: Any, index: int, others: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        view = outputs.get_as_object(index, runtime.HalBufferView)
        dtype = _RESULT_DTYPES.get(view.element_type)
        if dtype is None:
            raise CallError(f"result {index} of {self.name} has elements that numpy has no type for")
        if not self.device.in_host_memory:
            return self.device.copy_to_host(view, dtype)
        # What is mapped keeps its memory, and is the base of the array, which views of it keep.
        result: npt.NDArray[Any] = np.ndarray(view.shape, dtype, view.map())
        # A program may return an argument, or a result twice, but a caller expects memory of his own.
        return result.copy() if any(np.may_share_memory(result, other) for other in others) else result


class _Parameter:
    """What an argument has to be: here an array of any type that the runtime has."""

    expected = "an array of numbers or booleans"

    def __init__(self, index: int) -> None:
        self._index = index

    def accepts(self, array: npt.NDArray[Any]) -> bool:
        return array.dtype in ELEMENT_TYPES

    def check(self, function: str, argument: Any, torch: Any) -> npt.NDArray[Any]:
        """The argument as a contiguous array; raises `CallError` if it doesn't fit."""
        if torch is not None and isinstance(argument, torch.Tensor):
            if argument.device.type != "cpu":
                raise self._error(function, f"a tensor on {argument.device}; move it to the CPU")
            try:
                argument = argument.detach().resolve_conj().resolve_neg().numpy()
            except (RuntimeError, TypeError) as error:
                reason = str(error).partition("\n")[0]
                raise self._error(function, f"a tensor that is no numpy array: {reason}") from None
        elif not isinstance(argument, np.ndarray):
            raise self._error(function, f"{type(argument).__name__}, which is no numpy array or torch tensor")
        if not self.accepts(argument):
            raise self._error(function, f"{argument.dtype} of shape {argument.shape}")
        return np.asarray(argument, order="C")

    def _error(self, function: str, what: str) -> CallError:
        return CallError(f"argument {self._index} of {function} must be {self.expected}, got {what}")


class _TensorParameter(_Parameter):
    """An array of the type in a signature."""

    def __init__(self, index: int, signature: TensorSignature) -> None:
        super().__init__(index)
        self.expected = str(signature)
        self._signature = signature
        self._static_shape = None if None in signature.shape else signature.shape
        dtype = _DTYPES[signature.element_type]
        # Integers of functions on MLIR's own tensors have no sign.
        self._dtypes = (dtype, np.dtype(f"u{dtype}")) if dtype.kind == "i" else (dtype,)

    def accepts(self, array: npt.NDArray[Any]) -> bool:
        return array.dtype in self._dtypes and self._fits(array.shape)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        if self._static_shape is not None:
            return shape == self._static_shape
        return self._signature.accepts(shape)


def _public_functions(module: Any) -> Iterator[tuple[str, FunctionSignature | None, Any]]:
    """The functions that can be called on arrays."""
    for name in module.function_names:
        function = module.lookup_function(name)
        declaration = function.reflection.get("iree.abi.declaration")
        if declaration is None:
            # IREE's own functions start with underscores; one on fences is beside the one that waits for it.
            if not name.startswith("__") and not name.endswith("$async"):
                yield name, None, function
            continue
        names = [json.loads(function.reflection.get(key, "null")) for key in (INPUTS_KEY, OUTPUTS_KEY)]
        signature = parse_declaration(declaration, *names)
        if signature is not None and all(
            tensor.element_type in _DTYPES for tensor in (*signature.inputs, *signature.outputs)
        ):
            yield name, signature, function
