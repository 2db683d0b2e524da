"""Failures of ours cost a model's speed, not its results: what failed is computed otherwise, with a warning.

Every step from a graph that torch traced to the results of a call may fail. What surrounds a step catches any
exception of it, but for those of `PASSED_ON`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from iree.winograd.errors import WinogradError
from iree.winograd.torch_compile.fallback_warning import FallbackWarning, warn
from torch._dynamo.exc import SkipFrame, TensorifyScalarRestartAnalysis

Function = Callable[..., Any]
Result = TypeVar("Result")

PASSED_ON = (FallbackWarning, SkipFrame, TensorifyScalarRestartAnalysis)
"""What a user made an error of, and what torch's tracing goes on with."""


class Contained:
    """`function`; once that fails, what `other` returns in its place, with a warning of this `message`.

    It computes the same from the same arguments, which `function` doesn't change before it fails. What fails
    either way is an error of the model's own, and raised.
    """

    def __init__(self, function: Function, other: Callable[[], Function], message: str) -> None:
        self._function = function
        self._other: Callable[[], Function] | None = other
        self._message = message

    def __call__(self, *arguments: Any) -> Any:
        """The results of the function."""
        try:
            return self._function(*arguments)
        except PASSED_ON:
            raise
        except Exception as error:
            # Another thread may have seen it fail before.
            other = self._other
            if other is None:
                raise
            function = other()
            results = function(*arguments)
            self._function, self._other = function, None
            warn(f"{self._message} ({failure_text(error)})")
            return results


def attempt(function: Callable[[], Result]) -> Result | None:
    """What `function` returns; None if it fails, for what only saves time."""
    try:
        return function()
    except PASSED_ON:
        raise
    except Exception:
        return None


def failure_text(error: Exception) -> str:
    """What went wrong, for a warning: errors of ours say all of it, of others the kind is named, too."""
    text = str(error).strip()
    return text if isinstance(error, WinogradError) else f"{type(error).__name__}: {text}"
