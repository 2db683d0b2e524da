"""A driver for CUDA whose device is this process: graphs are run in host memory when they are launched."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Collection, Sequence
from ctypes import c_char_p, c_size_t, c_uint, c_ulonglong, c_void_p, cast
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from iree.winograd.cuda.driver import CopyParameters, FillParameters, KernelParameters

_PROGRAMMATIC = (1, 0, 1)
"""The ports and the type of an edge to a kernel that waits itself."""
_CAPITAL = re.compile("[A-Z]")

Kernel = Callable[[Sequence[int], Sequence[int]], None]
"""What a kernel does to tensors at addresses, with numbers."""


@dataclass
class Node:
    """What a node of a graph does, and the nodes whose ends it waits for."""

    run: Callable[[], None]
    after: list[int] = field(default_factory=list)
    early: list[int] = field(default_factory=list)
    """Those whose ends it waits for itself, once it is launched."""


class HostDriver:
    """The library; `kernels` are what the names of kernels stand for, and how many tensors each takes.

    `failing` is the name of a function of the library that fails; `variables` are those of each module.
    `contexts` are those of the calling thread, the last one current.
    """

    def __init__(
        self, kernels: dict[str, tuple[int, Kernel]], failing: str = "", variables: Collection[bytes] = ()
    ) -> None:
        self.kernels = kernels
        self.failing = failing
        self.variables = variables
        self.lacking = ""
        """A function that the library doesn't have."""
        self.calls: list[str] = []
        self.contexts = [1]
        self.graphs: list[dict[int, Node]] = []
        """The nodes of each graph: one that is launched again does what it did, whatever others do since."""
        self.streams: list[int] = []
        self.freed: list[str] = []
        self.shared_bytes: dict[int, int] = {}
        self._names = list(kernels)

    @property
    def nodes(self) -> dict[int, Node]:
        """Those of the last graph."""
        return self.graphs[-1]

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name == self.lacking:
            raise AttributeError(name)
        function = getattr(
            type(self), _CAPITAL.sub(lambda match: f"_{match[0].lower()}", name.removeprefix("cu"))
        )

        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if name == self.failing:
                return 700
            status: int | None = function(self, *arguments)
            return status or 0

        return call

    def _get_error_name(self, status: Any, text: Any) -> None:
        text._obj.value = b"CUDA_ERROR_ILLEGAL_ADDRESS"

    def _ctx_get_current(self, context: Any) -> None:
        context._obj.value = self.contexts[-1] if self.contexts else None

    def _ctx_push_current_v2(self, context: c_void_p) -> None:
        assert context.value is not None
        self.contexts.append(context.value)

    def _ctx_pop_current_v2(self, context: Any) -> None:
        context._obj.value = self.contexts.pop()

    def _ctx_set_current(self, context: c_void_p) -> None:
        assert context.value is not None
        self.contexts[-1:] = [context.value]

    def _ctx_synchronize(self) -> int:
        """All is done when a call returns."""
        return 0 if self.contexts else 201

    def _thread_exchange_stream_capture_mode(self, mode: Any) -> None:
        """Nothing is captured."""

    def _launch_kernel(self, function: c_void_p, *rest: Any) -> None:
        *sizes, shared_bytes, stream, operands, _ = rest
        numbers = [each.value for each in sizes]
        workgroups, threads = (c_uint * 3)(*numbers[:3]), (c_uint * 3)(*numbers[3:])
        parameters = KernelParameters(function, workgroups, threads, shared_bytes.value, operands)
        self.streams.append(stream.value or 0)
        self._kernel_run(parameters)()

    def _memset_d32_async(self, target: Any, value: Any, width: Any, stream: Any) -> None:
        self.streams.append(stream.value or 0)
        _move(target.value, value.value.to_bytes(4, "little") * width.value, 4 * width.value)

    def _memcpy_dto_d_async_v2(self, target: Any, source: Any, length: Any, stream: Any) -> None:
        self.streams.append(stream.value or 0)
        _move(target.value, source.value, length.value)

    def _memset_d8_async(self, *arguments: Any) -> None:
        raise NotImplementedError

    _memset_d16_async = _memset_d8_async

    def _module_load_data(self, module: Any, image: c_char_p) -> None:
        assert image.value
        module._obj.value = 1

    def _module_get_global_v2(self, place: Any, size: Any, module: c_void_p, name: c_char_p) -> int:
        return 0 if name.value in self.variables else 500

    def _module_unload(self, module: c_void_p) -> None:
        assert self.contexts[-1] == 1
        self.freed.append("module")

    def _module_get_function(self, function: Any, module: c_void_p, name: c_char_p) -> None:
        assert name.value is not None
        if name.value.decode() not in self._names:
            self._names.append(name.value.decode())
        function._obj.value = 1 + self._names.index(name.value.decode())

    def _func_set_attribute(self, function: c_void_p, attribute: Any, value: Any) -> None:
        assert function.value is not None
        self.shared_bytes[function.value] = value.value

    def _graph_create(self, graph: Any, flags: Any) -> None:
        self.graphs.append({})
        graph._obj.value = len(self.graphs)

    def _graph_add_kernel_node(self, node: Any, graph: Any, after: Any, count: Any, parameters: Any) -> None:
        self._add(graph, node, after, count, self._kernel_run(parameters._obj))

    def _graph_add_memset_node(self, node: Any, graph: Any, after: Any, count: Any, *rest: Any) -> None:
        self._add(graph, node, after, count, _fill_run(rest[0]._obj))

    def _graph_add_memcpy_node(self, node: Any, graph: Any, after: Any, count: Any, *rest: Any) -> None:
        self._add(graph, node, after, count, _copy_run(rest[0]._obj))

    def _graph_add_dependencies_v2(
        self, graph: Any, before: Any, after: Any, edges: Any, count: c_size_t
    ) -> None:
        assert count.value == 1
        node, edge = self._graph(graph)[after._obj.value], edges._obj
        node.early.append(before._obj.value)
        assert (edge.from_port, edge.to_port, edge.type) == _PROGRAMMATIC

    def _graph_instantiate_with_flags(self, executable: Any, graph: Any, flags: Any) -> None:
        executable._obj.value = graph.value

    def _graph_exec_kernel_node_set_params(self, executable: Any, node: c_void_p, parameters: Any) -> None:
        self._graph(executable)[node.value or 0].run = self._kernel_run(parameters._obj)

    def _graph_exec_memset_node_set_params(self, executable: Any, node: c_void_p, *rest: Any) -> None:
        self._graph(executable)[node.value or 0].run = _fill_run(rest[0]._obj)

    def _graph_exec_memcpy_node_set_params(self, executable: Any, node: c_void_p, *rest: Any) -> None:
        self._graph(executable)[node.value or 0].run = _copy_run(rest[0]._obj)

    def _graph_launch(self, executable: Any, stream: c_void_p) -> None:
        self.streams.append(stream.value or 0)
        nodes, done = self._graph(executable), set[int]()
        # Those that wait for nothing more, the last of them first: stages may be done in any order.
        while len(done) < len(nodes):
            ready = [
                each
                for each, node in nodes.items()
                if each not in done and done.issuperset([*node.after, *node.early])
            ]
            nodes[ready[-1]].run()
            done.add(ready[-1])

    def _graph_destroy(self, graph: c_void_p) -> None:
        self.freed.append("graph")

    def _graph_exec_destroy(self, executable: c_void_p) -> None:
        self.freed.append("executable")

    def _add(self, graph: c_void_p, node: Any, after: Any, count: Any, run: Callable[[], None]) -> None:
        nodes = self._graph(graph)
        node._obj.value = 100 + len(nodes)
        nodes[node._obj.value] = Node(run, [after._obj.value] * count.value)

    def _graph(self, handle: c_void_p) -> dict[int, Node]:
        """The nodes of a graph, or of what launches it."""
        return self.graphs[(handle.value or 0) - 1]

    def _kernel_run(self, parameters: KernelParameters) -> Callable[[], None]:
        """The driver reads operands when it is told of them, not when a graph is launched."""
        name = self._names[parameters.function - 1]
        assert parameters.shared_bytes == self.shared_bytes[parameters.function]
        tensors, kernel = self.kernels[name]
        addresses = [_read(parameters.operands[each], c_ulonglong) for each in range(tensors)]
        numbers = [*parameters.workgroups, *parameters.threads]
        return partial(kernel, addresses, numbers)


def _read(operand: int, type_: type[c_ulonglong] | type[c_uint]) -> int:
    value = cast(operand, ctypes.POINTER(type_))[0]
    assert isinstance(value, int)
    return value


def _move(target: int, source: int | bytes, length: int) -> None:
    ctypes.memmove(target, source, length)


def _fill_run(parameters: FillParameters) -> Callable[[], None]:
    pattern = parameters.value.to_bytes(parameters.element_bytes, "little") * parameters.width
    target = parameters.target
    assert parameters.height == 1
    return partial(_move, target, pattern, len(pattern))


def _copy_run(parameters: CopyParameters) -> Callable[[], None]:
    source, target = parameters.source.device, parameters.target.device
    assert (parameters.height, parameters.depth) == (1, 1)
    length = parameters.width
    return partial(_move, target, source, length)
