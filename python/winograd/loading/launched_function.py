"""A function of a program on tensors of an NVIDIA GPU, launched on torch's stream without a wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import torch
from iree.winograd.cuda.driver import CudaDriver, CudaError
from iree.winograd.cuda.launch_graph import LaunchGraph, LoadedKernels
from iree.winograd.errors import CallError
from iree.winograd.loading.device import BUFFER_ALIGNMENT, RUNTIME_ERRORS
from iree.winograd.loading.launchable import Launchable
from iree.winograd.loading.shared_memory import SHARED
from iree.winograd.pipelines.problems.launches import Memory, ResultPlace
from torch.utils.dlpack import from_dlpack

Order = tuple[int, ...]
"""A tensor's dimensions from the outermost in memory to the innermost."""

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


@dataclass(frozen=True)
class Argument:
    """An argument of a program: which of a call's it is, its order in memory, and whether it is only read."""

    number: int
    order: Order | None
    is_read_only: bool


class LaunchedFunction:
    """A function of a program, whose kernels are those of `launchable`, on tensors of the GPU `device`.

    A call queues all kernels behind what torch's current stream has to do, and returns at once, as operators
    of torch's do. Results, `result_orders` of dimensions of which are as they lie in memory, and what lives
    between kernels are memory of torch's. A CUDA graph that a caller captures has the kernels in it; for the
    first call, which loads them, it can't be captured.

    Where CUDA can't make a graph of the kernels `fail` is told why, and returns what is called instead. The
    kernels are `loaded`, if they may be for other functions, too.
    """

    def __init__(
        self,
        driver: CudaDriver,
        launchable: Launchable,
        arguments: Sequence[Argument],
        result_orders: Sequence[Order | None],
        device: torch.device,
        fail: Callable[[str], Callable[..., Any]],
        loaded: LoadedKernels | None = None,
    ) -> None:
        launches = launchable.launches
        self._driver = driver
        self._launchable = launchable
        self._index = device.index or 0
        self._device = device
        self._arguments = tuple(map(_Argument, arguments))
        self._results = tuple(
            _Result(place, order) for place, order in zip(launches.results, result_orders, strict=True)
        )
        self._blocks = tuple(
            _Block(number, size, self._results) for number, size in enumerate(launches.allocations)
        )
        self._loaded = loaded or LoadedKernels(driver, launchable.program.executables())
        self._fail = fail
        self._otherwise: Callable[..., Any] | None = None
        self._graph: LaunchGraph | None = None
        self._constants: list[torch.Tensor] = []
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """The results, one or a tuple of them, in memory of their own. Raises `CallError`."""
        if self._otherwise is not None:
            return self._otherwise(*arguments)
        try:
            if torch.cuda.current_device() == self._index:
                return self._launch(arguments)
            with torch.cuda.device(self._index):
                return self._launch(arguments)
        except (CudaError, *RUNTIME_ERRORS) as error:
            if self._graph is not None:
                raise CallError(f"the program failed: {error}") from error
            self._otherwise = self._fail(str(error))
        return self._otherwise(*arguments)

    def _launch(self, arguments: Sequence[Any]) -> Any:
        # Copies live until kernels are queued: what torch does with their memory then is queued behind these.
        taken = [argument.take(arguments[argument.number]) for argument in self._arguments]
        blocks = [block.make(self._device) for block in self._blocks]
        addresses = (*map(_ADDRESS, taken), *map(_ADDRESS, blocks))
        stream = torch._C._cuda_getCurrentRawStream(self._index)
        with self._lock:
            # CUDA must not be asked for memory, as that of a graph, while it captures one.
            is_captured = torch.cuda.is_current_stream_capturing()
            if self._graph is None:
                if is_captured:
                    raise CallError("a CUDA graph is captured of a model's first call: call it once before")
                self._graph = self._make_graph(addresses)
            if is_captured:
                self._graph.queue(addresses, stream)
            else:
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
        program = self._launchable.program
        self._constants = [from_dlpack(program.dlpack(view, self._index)) for view in program.constants()]
        for constant in self._constants:
            SHARED.add(constant)
        moving = [
            *(Memory("argument", number) for number in range(len(self._arguments))),
            *(Memory("allocation", number) for number in range(len(self._blocks))),
        ]
        constants = list(map(_ADDRESS, self._constants))
        return LaunchGraph(
            self._driver, self._loaded, self._launchable.launches, constants, moving, addresses
        )


_ADDRESS = torch.Tensor.data_ptr


class _Argument:
    """An argument of the program, as it is taken from a call's."""

    def __init__(self, argument: Argument) -> None:
        self.number = argument.number
        self._order = argument.order
        self._is_read_only = argument.is_read_only
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


class _Result:
    """A result of a call: its `place` in the memory of a block or an argument, its dimensions in `order`."""

    def __init__(self, place: ResultPlace, order: Order | None) -> None:
        self.memory = place.place.memory
        self.type = TYPES[place.element_type]
        shape = place.shape
        strides = [prod(shape[dimension + 1 :]) for dimension in range(len(shape))]
        dimensions = range(len(shape)) if order is None else order
        self.shape = [shape[each] for each in dimensions]
        self.strides = [strides[each] for each in dimensions]
        self.bytes = prod(shape) * self.type.itemsize
        self.is_block = False
        """Whether it is all that is in a block, which is made as it."""
        self._offset = place.place.offset // self.type.itemsize

    def tensor(self, arguments: Sequence[torch.Tensor], blocks: Sequence[torch.Tensor]) -> torch.Tensor:
        """The result in memory of its own."""
        if self.is_block:
            return blocks[self.memory.number]
        if self.memory.kind == "argument":
            # The caller's memory stays the caller's.
            elements = arguments[self.memory.number]
            return self._of(elements.as_strided([elements.numel()], [1])).clone()
        return self._of(blocks[self.memory.number])

    def _of(self, elements: torch.Tensor) -> torch.Tensor:
        typed = elements if elements.dtype == self.type else elements.view(torch.uint8).view(self.type)
        return typed.as_strided(self.shape, self.strides, typed.storage_offset() + self._offset)


class _Block:
    """Block `number` of a call, of `size` bytes: of the type of the `results` in it, if they have one.

    It is the result where there is one, of that size.
    """

    def __init__(self, number: int, size: int, results: Sequence[_Result]) -> None:
        held = [each for each in results if each.memory == Memory("allocation", number)]
        types = {each.type for each in held}
        (self._type,) = types if len(types) == 1 else (torch.uint8,)
        self._shape, self._strides = [-(-size // self._type.itemsize)], [1]
        if len(held) == 1 and held[0].bytes == size:
            (result,) = held
            result.is_block = True
            self._shape, self._strides = result.shape, result.strides

    def make(self, device: torch.device) -> torch.Tensor:
        """The block."""
        return torch.empty_strided(self._shape, self._strides, dtype=self._type, device=device)


def in_memory_order(tensor: torch.Tensor, order: Order | None) -> torch.Tensor:
    """`tensor` with its dimensions in `order`, row-major and aligned: itself, if it is."""
    if order is not None:
        tensor = tensor.permute(order)
    tensor = tensor.contiguous()
    return tensor if tensor.data_ptr() % BUFFER_ALIGNMENT == 0 else tensor.clone()
