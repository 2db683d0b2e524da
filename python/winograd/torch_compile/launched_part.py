"""A compiled part of a torch graph on an NVIDIA GPU, launched on torch's stream without a wait."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import torch
from iree.winograd.errors import CallError
from iree.winograd.loading.runtime import LoadedProgram
from iree.winograd.pipelines.problems.launches import LaunchList, Memory, ResultPlace
from iree.winograd.torch_compile.cuda_driver import CudaDriver, CudaError
from iree.winograd.torch_compile.fallback_warning import warn_once
from iree.winograd.torch_compile.launch_graph import LaunchGraph
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

    `fixed` are the numbers of the arguments that are usually the same tensors from call to call. What CUDA
    can't make a graph of is called by way of `otherwise`.
    """

    def __init__(
        self,
        driver: CudaDriver,
        program: LoadedProgram,
        launches: LaunchList,
        signature: PartSignature,
        fixed: Collection[int],
        otherwise: LoadedPart,
    ) -> None:
        self._driver = driver
        self._program = program
        self._launches = launches
        self._device = signature.device
        function = getattr(program, ENTRY)
        self._arguments = tuple(
            _Argument(
                Memory("argument", index), argument.number, argument.order, function.is_read_only(index)
            )
            for index, argument in enumerate(signature.arguments)
        )
        self._allocations = tuple(
            _Allocation(
                Memory("allocation", number),
                size,
                [
                    result
                    for result in launches.results
                    if result.place.memory == Memory("allocation", number)
                ],
            )
            for number, size in enumerate(launches.allocations)
        )
        self._results = tuple(zip(launches.results, signature.results, strict=True))
        self._fixed: dict[int, torch.Tensor | None] = dict.fromkeys(fixed)
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
        with torch.cuda.device(self._device):
            try:
                return self._launch(arguments)
            except CudaError as error:
                if self._graph is not None:
                    raise CallError(f"a part of the model failed: {error}") from error
                self._fails = True
                warn_once(f"kernels of the model are launched one by one: {error}")
        return self._otherwise(*arguments)

    def _launch(self, arguments: Sequence[Any]) -> Any:
        taken = {each.memory: self._take(each, arguments[each.number]) for each in self._arguments}
        blocks = {each.memory: each.make(self._device) for each in self._allocations}
        memory = taken | blocks
        addresses = {each: tensor.data_ptr() for each, tensor in memory.items()}
        stream = torch.cuda.current_stream(self._device).cuda_stream
        with self._lock:
            if self._graph is None:
                self._graph = self._make_graph(addresses)
            self._graph.launch(addresses, stream)
        results: list[torch.Tensor] = []
        given: set[int] = set()
        for place, order in self._results:
            result = _tensor_at(memory[place.place.memory], place, order)
            # A program may return an argument, or a result twice.
            if place.place.memory in taken or result.data_ptr() in given:
                result = result.clone()
            given.add(result.data_ptr())
            results.append(result)
        return results[0] if len(results) == 1 else tuple(results)

    def _take(self, argument: _Argument, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor` as kernels read it."""
        number = argument.number
        fixed = self._fixed.get(number)
        if fixed is not None and fixed.data_ptr() == tensor.data_ptr():
            return fixed
        taken = in_memory_order(tensor, argument.order)
        if not argument.is_read_only:
            # What a result is left in is the copy.
            return taken.clone() if taken.data_ptr() == tensor.data_ptr() else taken
        if number in self._fixed and taken.data_ptr() == tensor.data_ptr():
            self._fixed[number] = taken.detach()
        return taken

    def _make_graph(self, addresses: Mapping[Memory, int]) -> LaunchGraph:
        hal = getattr(self._program, ENTRY).device.hal
        index = self._device.index or 0
        self._constants = [
            from_dlpack(hal.create_dlpack_capsule(view, _DLPACK_CUDA, index))
            for view in self._program.constants()
        ]
        constants = {
            Memory("constant", number): constant.data_ptr() for number, constant in enumerate(self._constants)
        }
        return LaunchGraph(self._driver, self._binaries, self._launches, {**constants, **addresses})


class _Argument:
    """An argument of the program: the part's `number`, its order in memory, and whether it is only read."""

    def __init__(self, memory: Memory, number: int, order: Order | None, is_read_only: bool) -> None:
        self.memory = memory
        self.number = number
        self.order = order
        self.is_read_only = is_read_only


class _Allocation:
    """A block that a call needs, of elements of the results in it where these are of one type."""

    def __init__(self, memory: Memory, size: int, results: Sequence[ResultPlace]) -> None:
        self.memory = memory
        types = {TYPES[result.element_type] for result in results}
        (self._type,) = types if len(types) == 1 else (torch.uint8,)
        self._elements = -(-size // self._type.itemsize)

    def make(self, device: torch.device) -> torch.Tensor:
        """The block."""
        return torch.empty(self._elements, dtype=self._type, device=device)


def _tensor_at(block: torch.Tensor, result: ResultPlace, order: Order | None) -> torch.Tensor:
    """A result, in the memory of `block`, with its dimensions in `order`."""
    type_ = TYPES[result.element_type]
    elements = block if block.dtype == type_ else block.view(torch.uint8).view(type_)
    shape = result.shape
    strides = [prod(shape[dimension + 1 :]) for dimension in range(len(shape))]
    dimensions = range(len(shape)) if order is None else order
    return elements.as_strided(
        [shape[each] for each in dimensions],
        [strides[each] for each in dimensions],
        result.place.offset // type_.itemsize,
    )
