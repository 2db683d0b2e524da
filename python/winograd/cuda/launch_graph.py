"""The kernels of a program as a CUDA graph, whose launch takes a caller's time once for all of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from ctypes import addressof, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass, field, replace
from itertools import chain

from iree.winograd.cuda.driver import (
    CopyParameters,
    CudaDriver,
    CudaError,
    FillParameters,
    KernelParameters,
    NodeParameters,
    copy_parameters,
)
from iree.winograd.cuda.early_launch import MARKER
from iree.winograd.cuda.executable import Kernel, images, kernels
from iree.winograd.pipelines.problems.launches import Command, Copy, Fill, Launch, LaunchList, Memory, Place


class LoadedKernels:
    """The kernels of `binaries`, executables of IREE's, on the device that is current when they are loaded.

    They are unloaded with this.
    """

    def __init__(self, driver: CudaDriver, binaries: Sequence[bytes]) -> None:
        self._driver = driver
        self._binaries = binaries
        self._functions: Mapping[str, _Function] | None = None
        self._lock = threading.Lock()

    def functions(self) -> Mapping[str, _Function]:
        """The kernels by name, loaded by the first call. Raises `CudaError`."""
        with self._lock:
            if self._functions is None:
                self._functions = self._load()
            return self._functions

    def _load(self) -> Mapping[str, _Function]:
        modules: list[c_void_p] = []
        context = self._driver.context()
        try:
            functions = self._functions_of(modules)
        except BaseException:
            _unload(self._driver, modules, context)
            raise
        # When the process ends, the driver may be gone.
        weakref.finalize(self, _unload, self._driver, modules, context).atexit = False
        return functions

    def _functions_of(self, loaded: list[c_void_p]) -> Mapping[str, _Function]:
        """The kernels, whose modules are added to those that are `loaded`."""
        found: dict[str, _Function] = {}
        for binary in self._binaries:
            modules = [self._driver.load(image.content) for image in images(binary)]
            loaded += modules
            wait = [
                self._driver.launches_early and self._driver.has_variable(module, MARKER)
                for module in modules
            ]
            for kernel in kernels(binary):
                if kernel.name in found:
                    raise CudaError(f"two kernels are {kernel.name}")
                handle = self._driver.function(modules[kernel.module], kernel.name, kernel.shared_bytes)
                found[kernel.name] = _Function(kernel, handle, wait[kernel.module])
        return found


class LaunchGraph:
    """The commands of `launches`, of some of the `loaded` kernels, as a graph on the device that is current.

    `constants` are the addresses of the program's constants, `moving` is the memory that each launch has
    somewhere: at `addresses` in the first one. Raises `CudaError`.
    """

    def __init__(
        self,
        driver: CudaDriver,
        loaded: LoadedKernels,
        launches: LaunchList,
        constants: Sequence[int],
        moving: Sequence[Memory],
        addresses: Sequence[int],
    ) -> None:
        self._driver = driver
        # These are to outlive the graph.
        self._loaded = loaded
        self._moving = tuple(moving)
        self._last = tuple(addresses)
        """The addresses of the last launch."""
        self._addresses = {Memory("constant", number): each for number, each in enumerate(constants)}
        self._addresses.update(zip(moving, addresses, strict=True))
        self._graph, self._executable, self._nodes = self._build(launches, loaded.functions())
        self._users: dict[Memory, list[_Node]] = {}
        """The nodes that name each memory."""
        for node in self._nodes:
            for memory in {place.memory for place in _places(node.command)}:
                self._users.setdefault(memory, []).append(node)
        # When the process ends, the driver may be gone.
        weakref.finalize(self, _free, driver, self._graph, self._executable).atexit = False

    def launch(self, addresses: tuple[int, ...], stream: int) -> None:
        """Queue the commands on `stream`, with what moves at `addresses`. Raises `CudaError`.

        One thread may do so at a time.
        """
        if addresses != self._last:
            self._move(addresses)
        self._driver.launch(self._executable, stream)

    def queue(self, addresses: tuple[int, ...], stream: int) -> None:
        """Queue the commands one by one: where `stream` is captured for a graph of the caller's.

        The graph would have to stay for the caller's, and as it is: the next launch moves memory again.
        """
        self._addresses.update(zip(self._moving, addresses, strict=True))
        self._last = (0,) * len(addresses)
        for node in self._nodes:
            node.place(self._addresses)
            self._driver.queue(node.parameters, stream)

    def _move(self, addresses: tuple[int, ...]) -> None:
        """Tell the nodes of memory that moved. Launches that were queued keep what they were queued with."""
        moved = [
            memory
            for memory, address, last in zip(self._moving, addresses, self._last, strict=True)
            if address != last
        ]
        self._addresses.update(zip(self._moving, addresses, strict=True))
        self._last = addresses
        for node in dict.fromkeys(chain.from_iterable(self._users.get(each, ()) for each in moved)):
            node.place(self._addresses)
            self._driver.update(self._executable, node.handle, node.parameters)

    def _build(
        self, launches: LaunchList, functions: Mapping[str, _Function]
    ) -> tuple[c_void_p, c_void_p, Sequence[_Node]]:
        """The graph, what launches it, and its nodes.

        Where CUDA refuses it, kernels are launched when those before have ended.
        """
        graph = self._driver.graph()
        try:
            nodes = list(self._add(graph, launches, functions))
            return graph, self._driver.instantiate(graph), nodes
        except BaseException as error:
            with suppress(CudaError):
                self._driver.destroy(graph, None)
            if not isinstance(error, CudaError) or not any(each.waits for each in functions.values()):
                raise
        behind = {name: replace(function, waits=False) for name, function in functions.items()}
        return self._build(launches, behind)

    def _add(
        self, graph: c_void_p, launches: LaunchList, functions: Mapping[str, _Function]
    ) -> Iterator[_Node]:
        """The nodes of the graph, one behind the other.

        Commands of a stage could run side by side, but take longer so: those of Inception-v3 895 us in place
        of 812 (H200, one image).
        """
        before: _Node | None = None
        for command in chain.from_iterable(launches.stages):
            before = self._add_node(graph, command, functions, before)
            yield before

    def _add_node(
        self, graph: c_void_p, command: Command, functions: Mapping[str, _Function], before: _Node | None
    ) -> _Node:
        node = _node(command, functions)
        node.place(self._addresses)
        # Who waits for the end of a kernel waits for all that this has waited for.
        is_early = before is not None and before.is_kernel and node.waits
        handle = self._driver.add(
            graph, None if is_early or before is None else before.handle, node.parameters
        )
        if is_early and before is not None:
            self._driver.launch_early(graph, before.handle, handle)
        return replace(node, handle=handle)


@dataclass(frozen=True)
class _Function:
    """A kernel that is loaded; whether it `waits` for what it depends on."""

    kernel: Kernel
    handle: c_void_p
    waits: bool


@dataclass(frozen=True, eq=False)
class _Node:
    """A command in a graph; `operands` are what the parameters of a launch point to.

    Whether it `waits` for what it depends on, so that it may be launched before.
    """

    command: Command
    parameters: NodeParameters
    operands: Sequence[c_ulonglong | c_uint] = ()
    waits: bool = False
    handle: c_void_p = field(default_factory=c_void_p)

    @property
    def is_kernel(self) -> bool:
        return isinstance(self.command, Launch)

    def place(self, addresses: Mapping[Memory, int]) -> None:
        """Have its parameters name memory where it lies."""
        at = [addresses[place.memory] + place.offset for place in _places(self.command)]
        match self.parameters:
            case FillParameters() as fill:
                (fill.target,) = at
            case CopyParameters() as copy:
                copy.source.device, copy.target.device = at
            case KernelParameters():
                for operand, address in zip(self.operands, at, strict=False):
                    operand.value = address


def _places(command: Command) -> Sequence[Place]:
    match command:
        case Launch():
            return command.tensors
        case Fill():
            return (command.target,)
        case Copy():
            return (command.source, command.target)


def _node(command: Command, functions: Mapping[str, _Function]) -> _Node:
    """A node for `command` whose memory has no place yet."""
    match command:
        case Fill():
            width = command.length // command.width
            return _Node(
                command,
                FillParameters(value=command.pattern, element_bytes=command.width, width=width, height=1),
            )
        case Copy():
            return _Node(command, copy_parameters(command.length))
        case Launch():
            if command.kernel not in functions:
                raise CudaError(f"the program has no kernel {command.kernel}")
            function = functions[command.kernel]
            operands: list[c_ulonglong | c_uint] = [c_ulonglong() for _ in command.tensors]
            operands += [c_uint(number) for number in command.numbers]
            return _Node(
                command,
                KernelParameters(
                    function.handle,
                    (c_uint * 3)(*command.workgroups),
                    (c_uint * 3)(*function.kernel.threads),
                    function.kernel.shared_bytes,
                    (c_void_p * len(operands))(*map(addressof, operands)),
                ),
                operands,
                function.waits,
            )


def _free(driver: CudaDriver, graph: c_void_p, executable: c_void_p) -> None:
    with suppress(CudaError):
        driver.destroy(graph, executable)


def _unload(driver: CudaDriver, modules: Sequence[c_void_p], context: c_void_p) -> None:
    """Those that can't be freed, as while something is captured, stay."""
    if modules:
        with suppress(CudaError):
            driver.unload(modules, context)
