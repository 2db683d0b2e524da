"""A compiled part of a torch graph on an NVIDIA GPU, launched on torch's stream without a wait."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import torch
from iree.winograd.cuda.driver import CudaDriver, CudaError
from iree.winograd.cuda.launch_graph import LaunchGraph
from iree.winograd.errors import CallError
from iree.winograd.loading.runtime import BUFFER_ALIGNMENT, LoadedProgram
from iree.winograd.pipelines.problems.launches import LaunchList, Memory, ResultPlace
from iree.winograd.torch_compile.fallback_warning import warn_once
from iree.winograd.torch_compile.loaded_part import LoadedPart, in_memory_order
from iree.winograd.torch_compile.part_program import ENTRY, Order, PartSignature
from torch.utils.dlpack import from_dlpack

TYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {
        "bf16": torch.bfloat16,
        "f16": torch.float16,
        "f32": torch.float32,
        "f64": torch.float64,
        "i1": torch.bool,
        "i16": torch.int16,
        "i32": torch.int32,
        "i64": torch.int64,
        "i8": torch.int8,
    }
)
"""Torch's types by MLIR's names, of which a result may be."""

_DLPACK_CUDA = 2
"""DLPack's number for memory of CUDA's."""


class LaunchedPart:
    """A function on tensors of one GPU: that of `program`, whose kernels are `launches`.

    A call queues all kernels behind what torch's current stream has to do, and returns at once, as operators
    of torch's do. Results and what lives between kernels are memory of torch's.

    What CUDA can't make a graph of is called by way of `otherwise`.
    """

    def __init__(
        self,
        driver: CudaDriver,
        program: LoadedProgram,
        launches: LaunchList,
        signature: PartSignature,
        otherwise: LoadedPart,
    ) -> None:
        self._driver = driver
        self._program = program
        self._launches = launches
        self._device = signature.device
        function = getattr(program, ENTRY)
        self._arguments = tuple(
            _Argument(argument.number, argument.order, function.is_read_only(index))
            for index, argument in enumerate(signature.arguments)
        )
        self._blocks = tuple(
            _Block(number, size, launches.results) for number, size in enumerate(launches.allocations)
        )
        self._results = tuple(
            _Result(place, order) for place, order in zip(launches.results, signature.results, strict=True)
        )
        self._binaries = program.cuda_executables()
        self._otherwise = otherwise
        self._graph: LaunchGraph | None = None
        self._constants: list[torch.Tensor] = []
        self._fails = False
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """The results, one or a tuple of them, in memory of their own. Raises `CallError`."""
        if self._fails:
            return self._otherwise(*arguments)
        try:
            if torch.cuda.current_device() == self._device.index:
                return self._launch(arguments)
            with torch.cuda.device(self._device):
                return self._launch(arguments)
        except CudaError as error:
            if self._graph is not None:
                raise CallError(f"a part of the model failed: {error}") from error
            self._fails = True
            warn_once(f"kernels of the model are launched one by one: {error}")
        return self._otherwise(*arguments)

    def _launch(self, arguments: Sequence[Any]) -> Any:
        # Copies live until kernels are queued: what torch does with their memory then is queued behind these.
        taken = [argument.take(arguments[argument.number]) for argument in self._arguments]
        blocks = [block.make(self._device) for block in self._blocks]
        addresses = (*map(_ADDRESS, taken), *map(_ADDRESS, blocks))
        stream = torch.cuda.current_stream(self._device.index).cuda_stream
        with self._lock:
            if self._graph is None:
                self._graph = self._make_graph(addresses)
            self._graph.launch(addresses, stream)
        if len(self._results) == 1:
            return self._results[0].tensor(taken, blocks)
        results: list[torch.Tensor] = []
        for each in self._results:
            result = each.tensor(taken, blocks)
            # A program may return a result twice.
            is_given = any(result.data_ptr() == other.data_ptr() for other in results)
            results.append(result.clone() if is_given else result)
        return tuple(results)

    def _make_graph(self, addresses: Sequence[int]) -> LaunchGraph:
        hal = getattr(self._program, ENTRY).device.hal
        self._constants = [
            from_dlpack(hal.create_dlpack_capsule(view, _DLPACK_CUDA, self._device.index))
            for view in self._program.constants()
        ]
        moving = [
            *(Memory("argument", number) for number in range(len(self._arguments))),
            *(Memory("allocation", number) for number in range(len(self._blocks))),
        ]
        constants = list(map(_ADDRESS, self._constants))
        return LaunchGraph(self._driver, self._binaries, self._launches, constants, moving, addresses)


_ADDRESS = torch.Tensor.data_ptr


class _Argument:
    """An argument of the program: the part's of this `number`, with its dimensions in `order` in memory."""

    def __init__(self, number: int, order: Order | None, is_read_only: bool) -> None:
        self.number = number
        self._order = order
        self._is_read_only = is_read_only
        self._dense: tuple[int, ...] | None = None
        """Strides with which a tensor lies as kernels read it: all are of one shape."""

    def take(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor`, or a copy of it, in memory as kernels read it."""
        if (
            tensor.stride() == self._dense
            and self._is_read_only
            and tensor.data_ptr() % BUFFER_ALIGNMENT == 0
        ):
            return tensor
        taken = in_memory_order(tensor, self._order)
        if taken.data_ptr() == tensor.data_ptr():
            self._dense = tensor.stride()
            # What a result is left in is the copy.
            return tensor if self._is_read_only else taken.clone()
        return taken


class _Block:
    """Block `number` of a call, of `size` bytes: of the type of the `results` in it, if they have one."""

    def __init__(self, number: int, size: int, results: Sequence[ResultPlace]) -> None:
        memory = Memory("allocation", number)
        types = {TYPES[each.element_type] for each in results if each.place.memory == memory}
        (self._type,) = types if len(types) == 1 else (torch.uint8,)
        self._elements = -(-size // self._type.itemsize)

    def make(self, device: torch.device) -> torch.Tensor:
        """The block."""
        return torch.empty(self._elements, dtype=self._type, device=device)


class _Result:
    """A result of a call: its `place` in the memory of a block or an argument, its dimensions in `order`."""

    def __init__(self, place: ResultPlace, order: Order | None) -> None:
        self._memory = place.place.memory
        self._type = TYPES[place.element_type]
        shape = place.shape
        strides = [prod(shape[dimension + 1 :]) for dimension in range(len(shape))]
        dimensions = range(len(shape)) if order is None else order
        self._shape = [shape[each] for each in dimensions]
        self._strides = [strides[each] for each in dimensions]
        self._offset = place.place.offset // self._type.itemsize

    def tensor(self, arguments: Sequence[torch.Tensor], blocks: Sequence[torch.Tensor]) -> torch.Tensor:
        """The result in memory of its own."""
        if self._memory.kind == "argument":
            # The caller's memory stays the caller's.
            elements = arguments[self._memory.number]
            return self._of(elements.as_strided([elements.numel()], [1])).clone()
        return self._of(blocks[self._memory.number])

    def _of(self, elements: torch.Tensor) -> torch.Tensor:
        typed = elements if elements.dtype == self._type else elements.view(torch.uint8).view(self._type)
        return typed.as_strided(self._shape, self._strides, typed.storage_offset() + self._offset)
