"""Calls of programs whose arguments lie beside pages that may not be touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from guarded import Edge, GuardedArray

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class GuardedCall:
    results: Sequence[Array]
    overrun: Sequence[int]
    """The arguments beyond which was written."""
    changed: Mapping[int, Array]
    """The arguments that aren't what they were, with what they are."""


def call_guarded(function: Callable[..., Any], arguments: Sequence[Array], edge: Edge) -> GuardedCall:
    """Call `function` on copies of arrays that end before such a page, or start after one."""
    guarded = [GuardedArray(argument, edge) for argument in arguments]
    results = function(*(each.array for each in guarded))
    pairs = list(enumerate(zip(guarded, arguments, strict=True)))
    return GuardedCall(
        [np.array(result) for result in (results if isinstance(results, tuple) else (results,))],
        [index for index, (each, _) in pairs if not each.is_intact],
        {index: each.array.copy() for index, (each, was) in pairs if each.array.tobytes() != was.tobytes()},
    )
