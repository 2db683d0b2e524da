"""A compiled part of a torch graph, called on torch tensors without a copy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from iree import runtime
from iree.winograd.errors import CallError
from iree.winograd.loading.device import RUNTIME_ERRORS
from iree.winograd.loading.launched_function import Order, in_memory_order
from iree.winograd.loading.runtime import LoadedFunction
from iree.winograd.loading.shared_memory import SHARED
from iree.winograd.torch_compile.openmp import release_processors
from iree.winograd.torch_compile.part_program import PartSignature
from torch.utils.dlpack import from_dlpack, to_dlpack  # type: ignore[attr-defined]

_DLPACK_DEVICES: Mapping[str, int] = MappingProxyType({"cpu": 1, "cuda": 2})
"""DLPack's numbers for kinds of devices, by torch's names."""


class LoadedPart:
    """A function on buffers as one on tensors: that of a program with this `signature`.

    On a GPU a call waits for all that torch has begun there, since results of earlier calls are used in place
    until torch lets go of them, and returns when its own results are there.

    `fixed` are the numbers of the arguments that are usually the same tensors from call to call. Where the
    function is `specialized`, one for the sizes of a call is called in its place.
    """

    def __init__(
        self, function: LoadedFunction, signature: PartSignature, fixed: Collection[int] = ()
    ) -> None:
        self._function = function
        self._device = signature.device
        self._on_gpu = self._device.type != "cpu"
        self._dlpack_device = (_DLPACK_DEVICES[self._device.type], self._device.index or 0)
        self._arguments = tuple((argument.number, argument.order) for argument in signature.arguments)
        self._results = signature.results
        self._fixed: dict[int, _LentMemory | None] = dict.fromkeys(fixed)

    def __call__(self, *arguments: Any) -> Any:
        """The results, one or a tuple of them, in memory of their own. Raises `CallError`."""
        if not self._on_gpu:
            return self._run(arguments)
        # The runtime launches on the device that is the calling thread's.
        with torch.cuda.device(self._device):
            return self._run(arguments)

    def _run(self, arguments: Sequence[Any]) -> Any:
        function = self._function_for(arguments)
        hal = function.device.hal
        views: list[Any] = []
        taken: list[tuple[int, int]] = []
        try:
            for index, (number, order) in enumerate(self._arguments):
                tensor = arguments[number]
                fixed = self._fixed.get(number) if function is self._function else None
                if fixed is None or tensor.data_ptr() != fixed.memory[0]:
                    fixed = self._lend(function, index, number, tensor, order)
                views.append(fixed.view)
                taken.append(fixed.memory)
            self._wait_for_torch()
            release_processors(function.device.threads)
            outputs = function.invoke(views)
        except RUNTIME_ERRORS as error:
            raise CallError(f"a part of the model failed: {error}") from error
        results = []
        for index, order in enumerate(self._results):
            view = outputs.get_as_object(index, runtime.HalBufferView)
            result = from_dlpack(hal.create_dlpack_capsule(view, *self._dlpack_device))
            pointer = result.data_ptr()
            # A program may return an argument, or a result twice.
            if any(begin <= pointer < end for begin, end in taken):
                result = result.clone()
            else:
                SHARED.add(result)
                taken.append((pointer, pointer + result.nbytes))
            results.append(result if order is None else result.permute(order))
        return results[0] if len(results) == 1 else tuple(results)

    def _function_for(self, arguments: Sequence[Any]) -> LoadedFunction:
        """That for the sizes of these, if there is one."""
        specialized = self._function.specialized
        if specialized is None:
            return self._function
        taken = [
            arguments[number] if order is None else arguments[number].permute(order)
            for number, order in self._arguments
        ]
        return specialized(taken) or self._function

    def _lend(
        self, function: LoadedFunction, index: int, number: int, tensor: torch.Tensor, order: Order | None
    ) -> _LentMemory:
        lent = in_memory_order(tensor, order)
        pointer = lent.data_ptr()
        # The buffer keeps the tensor's memory as long as something uses it.
        view = function.device.hal.from_dlpack_capsule(to_dlpack(lent))
        if not function.is_read_only(index):
            # What a result is left in is the copy.
            self._wait_for_torch()
            return _LentMemory(function.device.copy(view), (pointer, pointer))
        argument = _LentMemory(view, (pointer, pointer + lent.nbytes))
        if function is self._function and number in self._fixed and pointer == tensor.data_ptr():
            self._fixed[number] = argument
        return argument

    def _wait_for_torch(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize(self._device)


class _LentMemory(NamedTuple):
    """An argument as the runtime takes it, and its memory: the first byte, and the one after."""

    view: Any
    memory: tuple[int, int]


class WeightState:
    """What tells whether weights are those of before: where they lie, and how often they were written to.

    `weights` are arguments of a function, by their numbers. Writes by way of `tensor.data` go unseen, and
    those to tensors that were made in inference mode: torch doesn't count them.
    """

    def __init__(self, weights: Mapping[int, torch.Tensor]) -> None:
        # As long as these hold the memory, nothing else lies there.
        self._kept = [weight.detach() for weight in weights.values()]
        self._select = selection(tuple(weights))
        counted = {number: weight for number, weight in weights.items() if not weight.is_inference()}
        self._select_counted = None if len(counted) == len(weights) else selection(tuple(counted))
        self._pointers = list(map(_POINTER, weights.values()))
        self._versions = list(map(_VERSION, counted.values()))

    def is_in(self, arguments: Sequence[Any]) -> bool:
        """Whether the weights among `arguments` are what they were."""
        # There may be hundreds, in a call of a few hundred microseconds: all loops are C's.
        weights = self._select(arguments)
        counted = weights if self._select_counted is None else self._select_counted(arguments)
        return (
            list(map(_POINTER, weights)) == self._pointers and list(map(_VERSION, counted)) == self._versions
        )


_POINTER = torch.Tensor.data_ptr
_VERSION = attrgetter("_version")


def selection(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the elements of these `numbers` from a sequence."""
    if not numbers:
        return itemgetter(slice(0))
    begin, end = numbers[0], numbers[-1] + 1
    if tuple(range(begin, end)) == tuple(numbers):
        return itemgetter(slice(begin, end))
    return itemgetter(*numbers)
