"""The warning of what isn't compiled here, at the line of the user's that it is about."""

from __future__ import annotations

import inspect
import warnings
from functools import cache
from pathlib import Path

import torch

# The folders of this package and of torch.
_BETWEEN = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent), "<eval_with_key>")


class FallbackWarning(UserWarning):
    """Something of a model that was given to `torch.compile(backend="winograd")` isn't compiled by it."""


def warn(message: str) -> None:
    """Warn at the line of the user's that had torch compile something."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, FallbackWarning, stacklevel=level + 1)


@cache
def warn_once(message: str) -> None:
    """Warn a process of what it need not hear again."""
    warn(message)
