"""Calls on the calling thread, on arrays of numpy's that are taken where they are, in few steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.runtime import HalBufferView, VmVariantList
from iree.winograd.loading.element_types import type_of_hal, types_of_mlir
from iree.winograd.loading.program_context import ProgramContext
from iree.winograd.loading.results import array_of
from iree.winograd.loading.signatures import FunctionSignature, TensorSignature


class PlainCalls:
    """Those of a function whose arguments are read only, at any address.

    Code and objects of the interpreter's aren't in caches, since kernels were there: what is done before and
    after a small network took as long as a sixth of it. So nothing is done here but what most calls need.
    """

    def __init__(self, context: ProgramContext, function: Any, signature: FunctionSignature) -> None:
        self._context = context
        self._function = function
        self._arguments = [_Plain(tensor) for tensor in signature.inputs]

    @staticmethod
    def are_possible(context: ProgramContext, signature: FunctionSignature, in_place: frozenset[int]) -> bool:
        """Whether a function has such arguments, with indices `in_place`, and results of numpy's types."""
        device = context.device
        tensors = (*signature.inputs, *signature.outputs)
        return (
            device.in_host_memory
            and device.workers == 0
            and in_place.issuperset(range(len(signature.inputs)))
            and not any(
                each.is_extension for tensor in tensors for each in types_of_mlir(tensor.element_type)
            )
        )

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """The result, or a tuple of them if there isn't just one; NotImplemented for other arguments.

        Raises one of `RUNTIME_ERRORS` when the program fails.
        """
        plain = self._arguments
        if len(arguments) != len(plain):
            return NotImplemented
        device = self._context.device
        inputs = VmVariantList(len(plain))
        for argument, expected in zip(arguments, plain, strict=True):
            if type(argument) is not np.ndarray or argument.dtype is not expected.dtype:
                return NotImplemented
            shape = argument.shape
            if len(shape) != expected.rank or not argument.flags.carray or 0 in shape:
                return NotImplemented
            for dimension, size in expected.sizes:
                if shape[dimension] != size:
                    return NotImplemented
            inputs.push_ref(HalBufferView(device.import_memory(argument), shape, expected.number))
        outputs = self._context.call(device, self._function, inputs)
        results: list[npt.NDArray[Any]] = []
        for index in range(outputs.size):
            view = outputs.get_as_object(index, HalBufferView)
            element_type = type_of_hal(view.element_type)
            assert element_type is not None
            result = array_of(device.hal, view, element_type.memory)
            # A program may return an argument, or a result twice, but a caller expects memory of his own.
            for other in (*arguments, *results):
                if np.may_share_memory(result, other):
                    result = result.copy()
                    break
            results.append(result)
        return results[0] if len(results) == 1 else tuple(results)


class _Plain:
    """What an argument has to be: its type, and those of its sizes that are known."""

    __slots__ = ("dtype", "number", "rank", "sizes")

    def __init__(self, tensor: TensorSignature) -> None:
        element_type = types_of_mlir(tensor.element_type)[0]
        self.dtype, self.number = element_type.memory, element_type.hal
        self.rank = len(tensor.shape)
        self.sizes = tuple((index, size) for index, size in enumerate(tensor.shape) if size is not None)
