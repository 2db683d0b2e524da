"""What graphs of kernels take of CUDA's driver API, by ctypes, so that there is nothing to install."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_ulonglong,
    c_void_p,
)
from functools import cache
from typing import Any

_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_MAX_DYNAMIC_SHARED_BYTES = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""
_NOT_FOUND = 500
"""CUDA_ERROR_NOT_FOUND."""
_PROGRAMMATIC = 1
"""CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC and CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC."""
_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED."""
_DEVICE_MEMORY = 2
"""CU_MEMORYTYPE_DEVICE."""


class CudaError(RuntimeError):
    """What a call of the driver failed with."""


class KernelParameters(Structure):
    """`CUDA_KERNEL_NODE_PARAMS_v1`."""

    _fields_ = (
        ("function", c_void_p),
        ("workgroups", c_uint * 3),
        ("threads", c_uint * 3),
        ("shared_bytes", c_uint),
        ("operands", POINTER(c_void_p)),
        ("extra", c_void_p),
    )


class FillParameters(Structure):
    """`CUDA_MEMSET_NODE_PARAMS`: `width` elements of `element_bytes` each."""

    _fields_ = (
        ("target", c_ulonglong),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("element_bytes", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    )


class _CopyEnd(Structure):
    _fields_ = (
        ("x", c_size_t),
        ("y", c_size_t),
        ("z", c_size_t),
        ("level", c_size_t),
        ("memory_type", c_int),
        ("host", c_void_p),
        ("device", c_ulonglong),
        ("array", c_void_p),
        ("reserved", c_void_p),
        ("pitch", c_size_t),
        ("height", c_size_t),
    )


class CopyParameters(Structure):
    """`CUDA_MEMCPY3D`."""

    _fields_ = (
        ("source", _CopyEnd),
        ("target", _CopyEnd),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
    )


class _Edge(Structure):
    """`CUgraphEdgeData`."""

    _fields_ = (("from_port", c_ubyte), ("to_port", c_ubyte), ("type", c_ubyte), ("reserved", c_ubyte * 5))


NodeParameters = KernelParameters | FillParameters | CopyParameters

_FUNCTIONS = (
    "cuCtxGetCurrent",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGraphAddKernelNode",
    "cuGraphAddMemcpyNode",
    "cuGraphAddMemsetNode",
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphExecKernelNodeSetParams",
    "cuGraphExecMemcpyNodeSetParams",
    "cuGraphExecMemsetNodeSetParams",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuLaunchKernel",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD16Async",
    "cuMemsetD32Async",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuThreadExchangeStreamCaptureMode",
)


_EARLY = "cuGraphAddDependencies_v2"
"""What drivers from CUDA 12.3 on have."""


def copy_parameters(length: int) -> CopyParameters:
    """A copy of `length` bytes between two places of the device."""
    ends = (_CopyEnd(memory_type=_DEVICE_MEMORY, pitch=length, height=1) for _ in range(2))
    return CopyParameters(*ends, width=length, height=1, depth=1)


class CudaDriver:
    """NVIDIA's driver; each method raises `CudaError`.

    `library` is the driver's, in which functions are looked up by their names. Calls are on the context that
    is the calling thread's.
    """

    def __init__(self, library: Any) -> None:
        self._functions = {name: getattr(library, name) for name in _FUNCTIONS}
        self._early = getattr(library, _EARLY, None)

    @property
    def launches_early(self) -> bool:
        """Whether it has `launch_early`."""
        return self._early is not None

    def load(self, image: bytes) -> c_void_p:
        """A module of the driver's from text or machine code of kernels."""
        module = c_void_p()
        self._call("cuModuleLoadData", byref(module), c_char_p(image))
        return module

    def unload(self, modules: Iterable[c_void_p], context: c_void_p) -> None:
        """Frees what `load` returned in a `context`, when all that was queued there is done.

        This thread may have another context, or none. Where it captures a graph, that isn't spoilt.
        """
        mode = c_int(_RELAXED)
        self._call("cuThreadExchangeStreamCaptureMode", byref(mode))
        try:
            self._call("cuCtxPushCurrent_v2", context)
            try:
                self._call("cuCtxSynchronize")
                for module in modules:
                    self._call("cuModuleUnload", module)
            finally:
                self._call("cuCtxPopCurrent_v2", byref(c_void_p()))
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", byref(mode))

    def has_variable(self, module: c_void_p, name: str) -> bool:
        """Whether a module has a variable of this name."""
        place, size = c_ulonglong(), c_size_t()
        status = self._functions["cuModuleGetGlobal_v2"](
            byref(place), byref(size), module, c_char_p(name.encode())
        )
        self._check("cuModuleGetGlobal_v2", 0 if status == _NOT_FOUND else status)
        return bool(status == 0)

    def function(self, module: c_void_p, name: str, shared_bytes: int) -> c_void_p:
        """A kernel of a module, which launches may ask for so much shared memory."""
        function = c_void_p()
        self._call("cuModuleGetFunction", byref(function), module, c_char_p(name.encode()))
        self._call("cuFuncSetAttribute", function, c_int(_MAX_DYNAMIC_SHARED_BYTES), c_int(shared_bytes))
        return function

    def graph(self) -> c_void_p:
        """A graph without nodes."""
        graph = c_void_p()
        self._call("cuGraphCreate", byref(graph), c_uint(0))
        return graph

    def add(self, graph: c_void_p, after: c_void_p | None, parameters: NodeParameters) -> c_void_p:
        """A node that runs when the one it is `after` is done, if there is one."""
        node = c_void_p()
        before = c_void_p() if after is None else after
        count = c_size_t(after is not None)
        arguments = (byref(node), graph, byref(before), count, byref(parameters))
        if isinstance(parameters, KernelParameters):
            self._call("cuGraphAddKernelNode", *arguments)
        elif isinstance(parameters, FillParameters):
            self._call("cuGraphAddMemsetNode", *arguments, self.context())
        else:
            self._call("cuGraphAddMemcpyNode", *arguments, self.context())
        return node

    def launch_early(self, graph: c_void_p, after: c_void_p, kernel: c_void_p) -> None:
        """Has a node with a kernel, which waits for the end of another's, launched ahead of that."""
        edge = _Edge(_PROGRAMMATIC, 0, _PROGRAMMATIC)
        ends = (byref(after), byref(kernel))
        assert self._early is not None
        self._check(_EARLY, self._early(graph, *ends, byref(edge), c_size_t(1)))

    def instantiate(self, graph: c_void_p) -> c_void_p:
        """What launches `graph`, whose nodes name the parts of it from then on."""
        executable = c_void_p()
        self._call("cuGraphInstantiateWithFlags", byref(executable), graph, c_ulonglong(0))
        return executable

    def update(self, executable: c_void_p, node: c_void_p, parameters: NodeParameters) -> None:
        """Has later launches run a node with other operands."""
        if isinstance(parameters, KernelParameters):
            self._call("cuGraphExecKernelNodeSetParams", executable, node, byref(parameters))
        elif isinstance(parameters, FillParameters):
            self._call("cuGraphExecMemsetNodeSetParams", executable, node, byref(parameters), self.context())
        else:
            self._call("cuGraphExecMemcpyNodeSetParams", executable, node, byref(parameters), self.context())

    def queue(self, parameters: NodeParameters, stream: int) -> None:
        """Queues what a node with these parameters does behind what `stream` has to do."""
        if isinstance(parameters, KernelParameters):
            sizes = (*parameters.workgroups, *parameters.threads, parameters.shared_bytes)
            arguments = (parameters.operands, c_void_p())
            self._call(
                "cuLaunchKernel",
                c_void_p(parameters.function),
                *map(c_uint, sizes),
                c_void_p(stream),
                *arguments,
            )
        elif isinstance(parameters, FillParameters):
            # The driver takes numbers of the type of an element, which all are passed as.
            self._call(
                f"cuMemsetD{8 * parameters.element_bytes}Async",
                c_ulonglong(parameters.target),
                c_uint(parameters.value),
                c_size_t(parameters.width),
                c_void_p(stream),
            )
        else:
            self._call(
                "cuMemcpyDtoDAsync_v2",
                c_ulonglong(parameters.target.device),
                c_ulonglong(parameters.source.device),
                c_size_t(parameters.width),
                c_void_p(stream),
            )

    def launch(self, executable: c_void_p, stream: int) -> None:
        """Queues a graph behind what `stream` has to do, and behind earlier launches of the same graph."""
        self._call("cuGraphLaunch", executable, c_void_p(stream))

    def destroy(self, graph: c_void_p, executable: c_void_p | None) -> None:
        """Frees a graph, and what launches it when it has."""
        if executable is not None:
            self._call("cuGraphExecDestroy", executable)
        self._call("cuGraphDestroy", graph)

    def context(self) -> c_void_p:
        """That of the calling thread."""
        context = c_void_p()
        self._call("cuCtxGetCurrent", byref(context))
        return context

    def enter(self, context: c_void_p) -> None:
        """Makes a context that of the calling thread."""
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(name, self._functions[name](*arguments))

    def _check(self, name: str, status: int) -> None:
        if status:
            text = c_char_p()
            self._functions["cuGetErrorName"](c_int(status), byref(text))
            raise CudaError(f"{name}: {(text.value or b'error').decode()} ({status})")


@cache
def cuda_driver() -> CudaDriver:
    """This process's. Raises `CudaError` where there is none, or one without graphs."""
    try:
        return CudaDriver(ctypes.CDLL(_LIBRARY))
    except (AttributeError, OSError) as error:
        raise CudaError(f"no driver for CUDA with graphs: {error}") from None
