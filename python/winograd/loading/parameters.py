"""What a function's arguments have to be, and how arrays of numpy, torch and others become what it takes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.errors import CallError
from iree.winograd.loading.element_types import (
    ElementType,
    HostArray,
    named_type,
    type_of_dtype,
    types_of_mlir,
)
from iree.winograd.loading.signatures import TensorSignature


class Parameter:
    """What an argument has to be: here an array of any type that the runtime has."""

    expected = "an array of numbers or booleans"

    def __init__(self, index: int) -> None:
        self._index = index

    def take(self, function: str, argument: Any) -> HostArray:
        """The argument; raises `CallError` if it doesn't fit."""
        if not isinstance(argument, np.ndarray):
            argument = self._converted(function, argument)
        array = argument if isinstance(argument, HostArray) else self._typed(argument)
        if array is None or not self._fits(array):
            given = argument.memory if isinstance(argument, HostArray) else argument
            name = given.dtype if array is None else array.element_type.name
            raise self._error(function, f"{name} of shape {given.shape}")
        return HostArray(np.asarray(array.memory, order="C"), array.element_type)

    def _typed(self, array: npt.NDArray[Any]) -> HostArray | None:
        element_type = type_of_dtype(array.dtype)
        if element_type is None:
            return None
        return HostArray(
            array.view(element_type.memory) if element_type.is_extension else array, element_type
        )

    def _fits(self, array: HostArray) -> bool:
        return True

    def _cast(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Numbers of Python's, which have no type of their own, in that of the parameter."""
        return array

    def _converted(self, function: str, argument: Any) -> HostArray | npt.NDArray[Any]:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(argument, torch.Tensor):
            return self._of_torch(function, argument)
        is_array = hasattr(argument, "__array__")
        if not is_array and not isinstance(argument, (bool, int, float, complex, list, tuple)):
            raise self._error(function, f"{type(argument).__name__}, which is no array")
        try:
            array = np.asarray(argument)
            return array if is_array else self._cast(array)
        except (OverflowError, RuntimeError, TypeError, ValueError) as error:
            raise self._error(function, f"{type(argument).__name__}: {_first_line(error)}") from None

    def _of_torch(self, function: str, tensor: Any) -> HostArray | npt.NDArray[Any]:
        if tensor.device.type != "cpu":
            raise self._error(function, f"a tensor on {tensor.device}; move it to the CPU")
        element_type = named_type(str(tensor.dtype).removeprefix("torch."))
        try:
            tensor = tensor.detach().resolve_conj().resolve_neg()
            if element_type is None or not element_type.is_extension:
                array: npt.NDArray[Any] = tensor.numpy()
                return array
            bits = tensor.view(getattr(sys.modules["torch"], f"int{8 * element_type.memory.itemsize}"))
            return HostArray(bits.numpy().view(element_type.memory), element_type)
        except (RuntimeError, TypeError) as error:
            message = f"a tensor that is no numpy array: {_first_line(error)}"
            raise self._error(function, message) from None

    def _error(self, function: str, what: str) -> CallError:
        return CallError(f"argument {self._index} of {function} must be {self.expected}, got {what}")


class TensorParameter(Parameter):
    """An array of the type in a signature.

    Of types that numpy lacks unsigned integers are taken as their bits.
    """

    def __init__(self, index: int, signature: TensorSignature) -> None:
        super().__init__(index)
        self.expected = str(signature)
        self._signature = signature
        self._static_shape = None if None in signature.shape else signature.shape
        self._types = types_of_mlir(signature.element_type)
        self._by_memory = {each.memory: each for each in self._types}
        self._plain = next((each for each in self._types if not each.is_extension), None)

    def take(self, function: str, argument: Any) -> HostArray:
        # What most calls give is taken as it is. Code between kernels is out of caches: the less, the better.
        plain = self._plain
        if (
            type(argument) is np.ndarray
            and plain is not None
            and argument.dtype is plain.memory
            and argument.flags.c_contiguous
        ):
            array = HostArray(argument, plain)
            if self._fits(array):
                return array
        return super().take(function, argument)

    def _typed(self, array: npt.NDArray[Any]) -> HostArray | None:
        known = self._by_memory.get(array.dtype)
        return super()._typed(array) if known is None else HostArray(array, known)

    def _fits(self, array: HostArray) -> bool:
        if array.element_type not in self._types:
            return False
        shape = array.memory.shape
        return (
            shape == self._static_shape if self._static_shape is not None else self._signature.accepts(shape)
        )

    def _cast(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        wanted = self._types[0]
        is_number = array.dtype.kind in "iufc" and wanted.name != "bool"
        if not is_number or not np.can_cast(array.dtype, _kind_of(wanted), "same_kind"):
            return array
        cast = array.astype(wanted.dtype)
        is_changed = (
            array.dtype.kind in "iu" and wanted.dtype.kind in "iu" and not np.array_equal(cast, array)
        )
        return array if is_changed else cast


def _kind_of(element_type: ElementType) -> np.dtype[Any]:
    return np.dtype(np.float32) if element_type.is_extension else element_type.memory


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def by_position(
    function: str,
    inputs: Sequence[TensorSignature] | None,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Sequence[Any]:
    """The arguments of a call in the order of `inputs`, where the model named these.

    Raises `CallError` for names that no input has, arguments given twice, and too many or too few of them.
    """
    if inputs is None:
        if keywords:
            raise CallError(f"{function} doesn't say what its arguments are called: give them by position")
        return arguments
    if not keywords and len(arguments) == len(inputs):
        return arguments
    names = [each.name for each in inputs]
    for keyword in keywords:
        if keyword not in names:
            known = ", ".join(filter(None, names)) or "none by name"
            raise CallError(f"{function} has no argument {keyword!r}, only {known}")
        if names.index(keyword) < len(arguments):
            raise CallError(f"argument {keyword!r} of {function} is given twice")
    rest = names[len(arguments) :]
    given = (*arguments, *(keywords[name] for name in rest if name is not None and name in keywords))
    if len(given) != len(inputs):
        missing = ", ".join(name for name in rest if name and name not in keywords) if keywords else ""
        reason = f": {missing} is missing" if missing else ""
        raise CallError(f"{function} takes {len(inputs)} argument(s), got {len(given)}{reason}")
    return given
